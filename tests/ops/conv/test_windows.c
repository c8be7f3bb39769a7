/* tests/ops/conv/test_windows.c - F.unfold compared with plain loops, and F.fold, its adjoint,
 * which adds the elements of windows that overlap. */
#include "tensor/dtype.h"
#include "tests/ops/values.h"

#include <brasa/nn.h>

TestSuite(windows, .init = check_begin, .fini = check_end);

typedef struct geometry {
    int64_t size[2], kernel[2], stride[2], padding[2], dilation[2];
} geometry;

static const geometry geometries[] = {
    { { 1, 1 }, { 1, 1 }, { 1, 1 }, { 0, 0 }, { 1, 1 } },
    { { 5, 9 }, { 3, 3 }, { 1, 1 }, { 1, 1 }, { 1, 1 } },
    { { 7, 8 }, { 2, 3 }, { 2, 3 }, { 0, 1 }, { 1, 1 } },
    { { 8, 7 }, { 3, 2 }, { 1, 4 }, { 2, 0 }, { 1, 3 } }, /* overlap along the rows only */
    { { 9, 6 }, { 2, 2 }, { 4, 1 }, { 0, 0 }, { 3, 2 } }, /* along the columns only */
    { { 6, 70 }, { 1, 4 }, { 3, 1 }, { 1, 2 }, { 2, 5 } },
    { { 30, 3 }, { 5, 1 }, { 2, 2 }, { 2, 0 }, { 1, 1 } },
};
enum { GEOMETRIES = sizeof geometries / sizeof *geometries, N = 2, C = 3 };

static br_fold_options options_of(const geometry *g)
{
    return *BR_OPTIONS(br_fold, .kernel_size = BR_PAIR(g->kernel[0], g->kernel[1]),
                       .stride = BR_PAIR(g->stride[0], g->stride[1]),
                       .padding = BR_PAIR(g->padding[0], g->padding[1]),
                       .dilation = BR_PAIR(g->dilation[0], g->dilation[1]));
}

static int64_t count_of(const geometry *g, int d)
{
    return (g->size[d] + 2 * g->padding[d] - g->dilation[d] * (g->kernel[d] - 1) - 1) /
               g->stride[d] +
           1;
}

/* Calls visit() with the place in the image, or -1, of each element of the columns. */
static void for_each_place(const geometry *g, void (*visit)(void *, int64_t, int64_t, int64_t),
                           void *context)
{
    const int64_t rows = count_of(g, 0), columns = count_of(g, 1);
    for (int64_t k = 0; k < g->kernel[0] * g->kernel[1]; k++)
        for (int64_t w = 0; w < rows * columns; w++) {
            const int64_t i =
                w / columns * g->stride[0] - g->padding[0] + k / g->kernel[1] * g->dilation[0];
            const int64_t j =
                w % columns * g->stride[1] - g->padding[1] + k % g->kernel[1] * g->dilation[1];
            const bool inside = i >= 0 && j >= 0 && i < g->size[0] && j < g->size[1];
            visit(context, k, w, inside ? i * g->size[1] + j : -1);
        }
}

typedef struct pair {
    br_tensor *x, *y; /* [N, C, elements], [N, C, kernel, windows] */
    double *sum;      /* for each element of the image */
} pair;

static void compare(void *context, int64_t k, int64_t w, int64_t place)
{
    const pair *p = context;
    for (int64_t c = 0; c < N * C; c++) {
        const double want = place < 0 ? 0 : br_at(p->x, BR_DIMS(c / C, c % C, place));
        cr_assert_eq(br_at(p->y, BR_DIMS(c / C, c % C, k, w)), want, "element %d of window %d",
                     (int)k, (int)w);
    }
}

static void add_up(void *context, int64_t k, int64_t w, int64_t place)
{
    const pair *p = context;
    for (int64_t c = 0; place >= 0 && c < N * C; c++)
        p->sum[c * br_size(p->x, 2) + place] += br_at(p->y, BR_DIMS(c / C, c % C, k, w));
}

static void check_geometry(const geometry *g, br_dtype dtype)
{
    const br_fold_options o = options_of(g);
    const int64_t elements = g->size[0] * g->size[1], kernel = g->kernel[0] * g->kernel[1];
    const int64_t windows = count_of(g, 0) * count_of(g, 1);
    br_tensor *x = br_to(
        br_remainder(iota(BR_SHAPE(N, C, g->size[0], g->size[1]), BR_I64), br_scalar(7, BR_I64)),
        dtype);
    br_tensor *y = br_f_unfold(x, &o);
    check_ok();
    for_each_place(g, compare,
                   &(pair){ br_reshape(x, BR_SHAPE(N, C, elements)),
                            br_reshape(y, BR_SHAPE(N, C, kernel, windows)), NULL });
    br_tensor *columns = br_to(
        br_remainder(iota(BR_SHAPE(N, C * kernel, windows), BR_I64), br_scalar(3, BR_I64)), dtype);
    br_tensor *image = br_f_fold(columns, g->size[0], g->size[1], &o);
    check_ok();
    double *sum = calloc((size_t)(N * C * elements), sizeof *sum);
    for_each_place(g, add_up,
                   &(pair){ br_reshape(image, BR_SHAPE(N, C, elements)),
                            br_reshape(columns, BR_SHAPE(N, C, kernel, windows)), sum });
    check_values(image, N * C * elements, sum, 0);
    free(sum);
}

Test(windows, unfold_and_fold)
{
    static const br_dtype dtypes[] = { BR_F32, BR_F64, BR_I64, BR_BF16, BR_F16 };
    enum { DTYPES = sizeof dtypes / sizeof *dtypes };
    for (int i = 0; i < GEOMETRIES * DTYPES; i++) {
        br_scope *scope = br_scope_begin();
        check_geometry(&geometries[i / DTYPES], dtypes[i % DTYPES]);
        br_scope_end(scope);
    }
}

/* The gradient of unfold is fold of dy, and that of fold is unfold. */
Test(windows, gradients)
{
    for (int i = 0; i < GEOMETRIES; i++) {
        const geometry *g = &geometries[i];
        const br_fold_options o = options_of(g);
        br_scope *scope = br_scope_begin();
        br_tensor *x = leaf(values(BR_SHAPE(N, C, g->size[0], g->size[1]), 1, BR_F64)), *dx = NULL;
        br_tensor *y = br_f_unfold(x, &o), *dy = values(3, br_sizes(y), 2, BR_F64);
        cr_assert(br_grad(1, &y, 1, &x, &dx, BR_OPTIONS(br_grad, .gradients = &dy)));
        check_same_bits(br_contiguous(dx),
                        br_contiguous(br_f_fold(dy, g->size[0], g->size[1], &o)));
        br_tensor *columns = leaf(dy), *dcolumns = NULL;
        br_tensor *image = br_f_fold(columns, g->size[0], g->size[1], &o);
        br_tensor *dimage = values(4, br_sizes(image), 3, BR_F64);
        cr_assert(
            br_grad(1, &image, 1, &columns, &dcolumns, BR_OPTIONS(br_grad, .gradients = &dimage)));
        check_same_bits(br_contiguous(dcolumns), br_contiguous(br_f_unfold(dimage, &o)));
        br_scope_end(scope);
        check_ok();
    }
}
