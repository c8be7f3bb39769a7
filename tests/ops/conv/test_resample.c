/* tests/ops/conv/test_resample.c - interpolation compared with plain loops, for sizes around those
 * of vectors and of the columns that are processed together. */
#include "tensor/dtype.h"
#include "tests/ops/values.h"

#include <brasa/nn.h>

TestSuite(resample, .init = check_begin, .fini = check_end);

static const int64_t sizes[][2] = { { 1, 1 }, { 1, 7 },   { 7, 8 },   { 9, 1 },
                                    { 2, 9 }, { 3, 300 }, { 300, 3 }, { 2, 1000 } };
static const int64_t outputs[][2] = { { 2, 2 }, { 3, 1 }, { 1, 3 } }; /* for each of two elements */
enum { SIZES = sizeof sizes / sizeof *sizes, OUTPUTS = sizeof outputs / sizeof *outputs };

static br_tensor *resized(br_tensor *x, int64_t rows, int64_t columns, br_interpolate_mode mode)
{
    return br_interpolate(x, BR_OPTIONS(br_interpolate, .size = { rows, columns }, .mode = mode));
}

/* The elements before and after an output of linear interpolation, and the weight of the second. */
static double between(int64_t n, int64_t count, int64_t o, int64_t *first, int64_t *second)
{
    const double source = fmax((double)n / (double)count * ((double)o + 0.5) - 0.5, 0);
    *first = (int64_t)floor(source);
    *second = *first + 1 < n ? *first + 1 : n - 1;
    return source - floor(source);
}

static void check_bilinear(br_tensor *x, int64_t rows, int64_t columns)
{
    br_tensor *y = resized(x, rows, columns, BR_INTERPOLATE_BILINEAR);
    const int64_t h = br_size(x, 2), w = br_size(x, 3);
    const double tolerance = br_dtype_of(x) == BR_F32 ? 1e-6 : 1e-14;
    for (int64_t i = 0; i < rows; i++)
        for (int64_t k = 0; k < columns; k++)
            for (int64_t c = 0; c < 2; c++) {
                int64_t above, below, left, right;
                const double p = between(h, rows, i, &above, &below);
                const double q = between(w, columns, k, &left, &right);
                const double want = (1 - p) * ((1 - q) * br_at(x, BR_DIMS(0, c, above, left)) +
                                               q * br_at(x, BR_DIMS(0, c, above, right))) +
                                    p * ((1 - q) * br_at(x, BR_DIMS(0, c, below, left)) +
                                         q * br_at(x, BR_DIMS(0, c, below, right)));
                check_close(br_at(y, BR_DIMS(0, c, i, k)), want, tolerance * 4);
            }
    /* The adjoint: the product of dy and y is that of dx and x. */
    br_tensor *dy = values(BR_SHAPE(1, 2, rows, columns), 5, br_dtype_of(x)), *dx = NULL;
    cr_assert(br_grad(1, &y, 1, &x, &dx, BR_OPTIONS(br_grad, .gradients = &dy)));
    const double of_y = br_item(br_sum(br_mul(br_to(dy, BR_F64), br_to(y, BR_F64))));
    const double of_x = br_item(br_sum(br_mul(br_to(dx, BR_F64), br_to(x, BR_F64))));
    check_close(of_y, of_x, tolerance * 10 * (double)(rows * columns));
}

Test(resample, bilinear)
{
    for (int i = 0; i < SIZES * OUTPUTS * 2; i++) {
        const int64_t *n = sizes[i / OUTPUTS / 2], *m = outputs[i / 2 % OUTPUTS];
        br_scope *scope = br_scope_begin();
        br_tensor *x = leaf(values(BR_SHAPE(1, 2, n[0], n[1]), 3, i % 2 ? BR_F32 : BR_F64));
        check_bilinear(x, (n[0] * m[0] + 1) / 2, (n[1] * m[1] + 1) / 2);
        br_scope_end(scope);
        check_ok();
    }
}

/* The gradient of a sum counts the outputs of each element. */
static void check_nearest(br_tensor *x, int64_t rows, int64_t columns)
{
    const int64_t n[] = { br_size(x, 2), br_size(x, 3) }, m[] = { rows, columns };
    br_tensor *want = x, *y = resized(x, rows, columns, BR_INTERPOLATE_NEAREST);
    br_tensor *count = br_ones(BR_SHAPE(rows, columns), BR_F64);
    for (int d = 0; d < 2; d++) {
        br_tensor *place =
            br_floor_divide(br_mul_scalar(br_arange(0, (double)m[d], 1, BR_I64), (double)n[d]),
                            br_scalar((double)m[d], BR_I64));
        want = br_index_select(want, 2 + d, place);
        int64_t all[] = { n[0], d == 0 ? columns : n[1] };
        count = br_index_add(br_zeros(2, all, BR_F64), d, place, count, 1);
    }
    check_same_bits(y, want);
    if (!br_is_floating(x))
        return;
    br_tensor *dx = NULL, *sum = br_sum(y);
    cr_assert(br_grad(1, &sum, 1, &x, &dx, NULL));
    check_same_bits(br_contiguous(br_to(br_select(br_select(dx, 0, 0), 0, 1), BR_F64)), count);
}

Test(resample, nearest_of_every_dtype)
{
    for (int i = 0; i < SIZES * OUTPUTS * BR_DTYPES; i++) {
        const int64_t *n = sizes[i / OUTPUTS / BR_DTYPES], *m = outputs[i / BR_DTYPES % OUTPUTS];
        const br_dtype dtype = (br_dtype)(i % BR_DTYPES);
        if (dtype == BR_BOOL)
            continue;
        br_scope *scope = br_scope_begin();
        br_tensor *x = br_abs(values(BR_SHAPE(1, 2, n[0], n[1]), 3, BR_F64));
        x = br_to(x, dtype);
        check_nearest(br_is_floating(x) ? leaf(x) : x, (n[0] * m[0] + 1) / 2,
                      (n[1] * m[1] + 1) / 2);
        br_scope_end(scope);
        check_ok();
    }
}

/* An infinite element with a weight of 0 does not make the result NaN. */
Test(resample, neighbours_without_weight_are_not_read)
{
    br_tensor *x = br_from_f32(BR_SHAPE(1, 1, 2, 1), (float[]){ 1, INFINITY });
    check_equals(resized(x, 4, 1, BR_INTERPOLATE_BILINEAR), 1, INFINITY, INFINITY, INFINITY);
    check_equals(resized(br_reshape(x, BR_SHAPE(1, 1, 1, 2)), 1, 4, BR_INTERPOLATE_BILINEAR), 1,
                 INFINITY, INFINITY, INFINITY);
    br_tensor *wide = br_expand(x, BR_SHAPE(1, 1, 2, 3));
    check_equals(resized(wide, 4, 3, BR_INTERPOLATE_BILINEAR), 1, 1, 1, INFINITY, INFINITY,
                 INFINITY, INFINITY, INFINITY, INFINITY, INFINITY, INFINITY, INFINITY);
}
