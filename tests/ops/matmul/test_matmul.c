/* tests/ops/matmul/test_matmul.c - compares matrix products with three plain loops, for all layouts
 * and sizes that the kernels handle differently. */
#include "tests/support.h"

#include "backends/cpu/gemm/gemm_kernels.h"
#include "backends/cpu/kernels.h"

#include <brasa/brasa.h>
#include <float.h>
#include <stdlib.h>

TestSuite(matmul, .init = check_begin, .fini = check_end);

static const char *const variants[] = { "baseline", "avx2", "avx512" };
enum { VARIANTS = sizeof variants / sizeof *variants };

/* ---- Operands in all layouts ----------------------------------------------------------------- */

typedef enum layout { DENSE, TRANSPOSED, STRIDED, ROW_GAPS, LAYOUTS } layout;

/* Returns random values of shape [.., rows, columns] in the given layout. */
static br_tensor *operand(int ndim, const int64_t *sizes, br_dtype dtype, layout how)
{
    int64_t s[BR_MAX_DIMS];
    memcpy(s, sizes, (size_t)ndim * sizeof *s);
    int64_t rows = s[ndim - 2], columns = s[ndim - 1];
    switch (how) {
    case TRANSPOSED:
        s[ndim - 2] = columns;
        s[ndim - 1] = rows;
        return br_transpose(br_randn(ndim, s, dtype), -1, -2);
    case STRIDED:
        s[ndim - 2] = 2 * rows;
        s[ndim - 1] = 3 * columns;
        return br_slice(br_slice(br_randn(ndim, s, dtype), -1, 1, BR_ALL, 3), -2, 0, BR_ALL, 2);
    case ROW_GAPS:
        s[ndim - 1] = columns + 3;
        return br_narrow(br_randn(ndim, s, dtype), -1, 2, columns);
    default:
        return br_randn(ndim, s, dtype);
    }
}

/* ---- Reference ------------------------------------------------------------------------------- */

/* Returns the position of the matrix at `batch` in the storage of t. t broadcasts to the result,
 * and `batch` is an index into the result's leading dimensions. */
static int64_t matrix_at(const br_tensor *t, const int64_t *batch, int batch_ndim)
{
    int64_t at = 0;
    int ndim = br_ndim(t);
    for (int d = 0; d < ndim - 2; d++)
        if (br_size(t, d) != 1)
            at += batch[batch_ndim - (ndim - 2) + d] * br_stride(t, d);
    return at;
}

/* Returns the element at that position. br_at() would be most of the time of these tests. */
static double element(const br_tensor *t, int64_t at)
{
    const void *data = br_data(t);
    return br_dtype_of(t) == BR_F64 ? ((const double *)data)[at]
                                    : (double)((const float *)data)[at];
}

/* The rounding error of a sum of k products is below k * eps * sum |a b| / 2, and on average far
 * below.
 */
static void check_element(const br_tensor *c, const br_tensor *a, const br_tensor *b,
                          const br_tensor *bias, const int64_t *batch, int64_t i, int64_t j)
{
    int batch_ndim = br_ndim(c) - 2;
    int64_t k = br_size(a, -1), of_a = br_stride(a, -1), of_b = br_stride(b, -2);
    int64_t row = matrix_at(a, batch, batch_ndim) + i * br_stride(a, -2);
    int64_t column = matrix_at(b, batch, batch_ndim) + j * br_stride(b, -1);
    double want = bias ? br_at(bias, 1, (int64_t[]){ j }) : 0, magnitude = fabs(want);
    for (int64_t p = 0; p < k; p++) {
        double term = element(a, row + p * of_a) * element(b, column + p * of_b);
        want += term;
        magnitude += fabs(term);
    }
    double eps = br_dtype_of(c) == BR_F64 ? DBL_EPSILON : FLT_EPSILON;
    double got =
        element(c, matrix_at(c, batch, batch_ndim) + i * br_stride(c, -2) + j * br_stride(c, -1));
    cr_assert(fabs(got - want) <= (2 + sqrt((double)k)) * eps * magnitude,
              "a %lldx%lld b %lldx%lld: [%lld][%lld] is %.9g, expected %.9g",
              (long long)br_size(a, -2), (long long)k, (long long)k, (long long)br_size(b, -1),
              (long long)i, (long long)j, got, want);
}

/* Checks all elements of small results, and a sample of large ones. */
static void check_product(const br_tensor *c, const br_tensor *a, const br_tensor *b,
                          const br_tensor *bias)
{
    check_ok();
    int64_t batch[BR_MAX_DIMS] = { 0 }, numel = br_numel(c);
    int ndim = br_ndim(c);
    int64_t step = numel > 1500 ? numel / 499 : 1;
    for (int64_t e = 0; e < numel; e += step) {
        int64_t rest = e, index[BR_MAX_DIMS];
        for (int d = ndim - 1; d >= 0; rest /= br_size(c, d--))
            index[d] = rest % br_size(c, d);
        memcpy(batch, index, sizeof batch);
        check_element(c, a, b, bias, batch, index[ndim - 2], index[ndim - 1]);
    }
}

/* ---- Values ---------------------------------------------------------------------------------- */

static void check_mm(int64_t n, int64_t k, int64_t m, br_dtype dtype, layout of_a, layout of_b)
{
    br_scope *scope = br_scope_begin();
    br_tensor *a = operand(BR_SHAPE(n, k), dtype, of_a), *b = operand(BR_SHAPE(k, m), dtype, of_b);
    br_tensor *c = br_mm(a, b);
    check_product(c, a, b, NULL);
    cr_assert(br_size(c, 0) == n && br_size(c, 1) == m && br_is_contiguous(c));
    br_scope_end(scope);
}

/* Sizes just below and above those of tiles, vectors, groups of four, k-blocks (16 and BR_GEMM_K),
 * and the limits of packing. */
static const int64_t shapes[][3] = {
    { 1, 1, 1 },     { 1, 5, 1 },    { 3, 2, 1 },      { 1, 3, 17 },   { 2, 1, 2 },
    { 5, 64, 5 },    { 10, 64, 10 }, { 10, 10, 64 },   { 6, 4, 8 },    { 7, 15, 9 },
    { 12, 16, 32 },  { 13, 17, 33 }, { 24, 33, 48 },   { 25, 31, 47 }, { 11, 256, 31 },
    { 12, 257, 16 }, { 4, 700, 3 },  { 100, 64, 100 }, { 37, 3, 129 }, { 65, 66, 67 },
    { 5, 263, 6 },   { 3, 4099, 5 }, { 50, 130, 7 },   { 9, 50, 8 },   { 1, 310, 2117 },
    { 2, 9, 64 },    { 3, 310, 64 }, { 8, 40, 131 },   { 23, 12, 64 }, { 29, 100, 70 },
    { 4, 12, 127 },  { 6, 310, 83 },
};

Test(matmul, layouts_and_sizes)
{
    br_manual_seed(1);
    for (int v = 0; v < VARIANTS; v++) {
        if (!br__force_kernels(variants[v]))
            continue;
        for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
            for (int of_a = 0; of_a < LAYOUTS; of_a++)
                for (int of_b = 0; of_b < LAYOUTS; of_b++)
                    for (br_dtype dtype = BR_F32; dtype <= BR_F64; dtype++)
                        check_mm(shapes[s][0], shapes[s][1], shapes[s][2], dtype, (layout)of_a,
                                 (layout)of_b);
    }
    br__force_kernels(NULL);
}

/* Packed operands, several k-blocks, several blocks of rows, and partial tiles everywhere. The
 * products are large enough for BLIS, which some variants of the kernels use. */
Test(matmul, large)
{
    br_manual_seed(2);
    for (int v = 0; v < VARIANTS; v++) {
        if (!br__force_kernels(variants[v]))
            continue;
        for (int how = 0; how < LAYOUTS; how++) {
            check_mm(611, 300, 419, BR_F32, (layout)how, (layout)(LAYOUTS - 1 - how));
            check_mm(331, 270, 150, BR_F64, (layout)how, (layout)((how + 1) % LAYOUTS));
            /* few rows or a small k, with a B or C that is larger than the caches */
            check_mm(7, 700, 600, BR_F32, (layout)how, (layout)(LAYOUTS - 1 - how));
            check_mm(23, 310, 905, BR_F32, (layout)how, (layout)((how + 1) % LAYOUTS));
            check_mm(531, 7, 603, BR_F32, (layout)how, (layout)((how + 1) % LAYOUTS));
            check_mm(532, 5, 608, BR_F32, (layout)how, (layout)(LAYOUTS - 1 - how));
        }
    }
    br__force_kernels(NULL);
}

/* Several blocks of packed rows, and many k-blocks. */
Test(matmul, many_blocks)
{
    br_manual_seed(3);
    check_mm(1801, 310, 130, BR_F32, DENSE, DENSE);
    check_mm(133, 7001, 128, BR_F32, TRANSPOSED, TRANSPOSED);
}

Test(matmul, zero_sizes)
{
    static const int64_t empty[][3] = {
        { 0, 3, 4 }, { 3, 0, 4 }, { 3, 4, 0 }, { 0, 0, 0 }, { 2, 0, 1 }
    };
    for (size_t i = 0; i < sizeof empty / sizeof *empty; i++) {
        br_scope *scope = br_scope_begin();
        br_tensor *a =
            br_set_requires_grad(br_ones(BR_SHAPE(empty[i][0], empty[i][1]), BR_F32), true);
        br_tensor *b =
            br_set_requires_grad(br_ones(BR_SHAPE(empty[i][1], empty[i][2]), BR_F32), true);
        br_tensor *c = br_mm(a, b);
        cr_assert(br_size(c, 0) == empty[i][0] && br_size(c, 1) == empty[i][2]);
        check_close(br_item(br_sum(c)), 0, 0);
        cr_assert(br_backward(br_sum(c)), "%s", br_error_message());
        cr_assert(br_same_shape(br_grad_of(a), a) && br_same_shape(br_grad_of(b), b));
        br_scope_end(scope);
    }
    br_scope *scope = br_scope_begin();
    br_tensor *bias = br_from_f32(BR_SHAPE(2), (float[]){ 3, -1 });
    br_tensor *y =
        br_f_linear(br_zeros(BR_SHAPE(4, 0), BR_F32), br_zeros(BR_SHAPE(2, 0), BR_F32), bias);
    check_close(br_at(y, BR_DIMS(3, 0)), 3, 0);
    check_close(br_at(y, BR_DIMS(2, 1)), -1, 0);
    cr_assert_eq(br_numel(br_f_linear(br_zeros(BR_SHAPE(0, 3), BR_F32),
                                      br_zeros(BR_SHAPE(2, 3), BR_F32), bias)),
                 0);
    br_scope_end(scope);
}

Test(matmul, bmm)
{
    br_manual_seed(4);
    static const int64_t sizes[][4] = {
        { 0, 2, 3, 4 }, { 1, 3, 4, 5 }, { 72, 10, 64, 9 }, { 6, 100, 64, 50 }, { 2, 140, 260, 140 }
    };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const int64_t *s = sizes[i];
        for (int how = 0; how < LAYOUTS; how++) {
            br_scope *scope = br_scope_begin();
            br_tensor *a = operand(BR_SHAPE(s[0], s[1], s[2]), BR_F32, (layout)how);
            br_tensor *b = operand(BR_SHAPE(s[0], s[2], s[3]), BR_F32, (layout)(LAYOUTS - 1 - how));
            check_product(br_bmm(a, b), a, b, NULL);
            br_scope_end(scope);
        }
    }
}

Test(matmul, batches_broadcast)
{
    static const struct {
        int a_ndim, b_ndim;
        int64_t a[5], b[5];
    } cases[] = {
        { 3, 2, { 4, 5, 6 }, { 6, 7 } },          { 2, 3, { 5, 6 }, { 4, 6, 7 } },
        { 4, 4, { 3, 1, 5, 6 }, { 1, 2, 6, 7 } }, { 4, 3, { 2, 3, 4, 5 }, { 3, 5, 2 } },
        { 5, 3, { 2, 1, 2, 3, 4 }, { 2, 4, 3 } }, { 4, 2, { 2, 3, 1, 8 }, { 8, 5 } },
        { 3, 3, { 0, 5, 6 }, { 1, 6, 7 } },       { 3, 2, { 90, 40, 70 }, { 70, 300 } },
    };
    br_manual_seed(5);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int how = 0; how < LAYOUTS; how++) {
            br_scope *scope = br_scope_begin();
            br_tensor *a = operand(cases[i].a_ndim, cases[i].a, BR_F32, (layout)how);
            br_tensor *b =
                operand(cases[i].b_ndim, cases[i].b, BR_F32, (layout)((how + 1) % LAYOUTS));
            check_product(br_matmul(a, b), a, b, NULL);
            br_scope_end(scope);
        }
}

/* Attention heads as views of [batch, time, heads * size], as in BERT. They are not contiguous. */
Test(matmul, attention_views)
{
    br_manual_seed(6);
    br_scope *scope = br_scope_begin();
    br_tensor *heads[3];
    for (int i = 0; i < 3; i++)
        heads[i] = br_transpose(br_randn(BR_SHAPE(2, 21, 3, 16), BR_F32), 1, 2);
    br_tensor *k_t = br_transpose(heads[1], -1, -2);
    br_tensor *scores = br_matmul(heads[0], k_t);
    check_product(scores, heads[0], k_t, NULL);
    check_product(br_matmul(scores, heads[2]), scores, heads[2], NULL);
    br_tensor *scores_t = br_transpose(scores, -1, -2);
    check_product(br_matmul(scores_t, heads[2]), scores_t, heads[2], NULL);
    br_tensor *expanded =
        br_expand(br_randn(BR_SHAPE(1, 1, 21, 16), BR_F32), BR_SHAPE(2, 3, 21, 16));
    br_tensor *expanded_t = br_transpose(expanded, -1, -2);
    check_product(br_matmul(expanded, k_t), expanded, k_t, NULL);
    check_product(br_matmul(heads[0], expanded_t), heads[0], expanded_t, NULL);
    br_scope_end(scope);
}

Test(matmul, vectors)
{
    br_manual_seed(7);
    br_scope *scope = br_scope_begin();
    br_tensor *u = br_randn(BR_SHAPE(300), BR_F32), *v = br_randn(BR_SHAPE(300), BR_F32);
    br_tensor *row = br_reshape(u, BR_SHAPE(1, 300)), *column = br_reshape(v, BR_SHAPE(300, 1));
    br_tensor *dot = br_matmul(u, v);
    cr_assert_eq(br_ndim(dot), 0);
    check_product(br_reshape(dot, BR_SHAPE(1, 1)), row, column, NULL);
    br_tensor *a = br_randn(BR_SHAPE(2, 7, 300), BR_F32),
              *b = br_randn(BR_SHAPE(2, 300, 5), BR_F32);
    br_tensor *left = br_matmul(a, v), *right = br_matmul(u, b);
    cr_assert(br_ndim(left) == 2 && br_size(left, 0) == 2 && br_size(left, 1) == 7);
    cr_assert(br_ndim(right) == 2 && br_size(right, 0) == 2 && br_size(right, 1) == 5);
    check_product(br_reshape(left, BR_SHAPE(2, 7, 1)), a, column, NULL);
    check_product(br_reshape(right, BR_SHAPE(2, 1, 5)), row, b, NULL);
    br_scope_end(scope);
}

Test(matmul, linear)
{
    br_manual_seed(8);
    static const int64_t sizes[][3] = { { 1, 3, 2 },      { 6, 64, 10 },   { 2, 256, 30 },
                                        { 2, 256, 256 },  { 7, 130, 330 }, { 60, 700, 70 },
                                        { 300, 260, 140 } };
    for (int v = 0; v < VARIANTS; v++) {
        if (!br__force_kernels(variants[v]))
            continue;
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
            for (int how = 0; how < LAYOUTS; how++) {
                const int64_t *s = sizes[i];
                br_scope *scope = br_scope_begin();
                br_tensor *x = operand(BR_SHAPE(2, s[0], s[1]), BR_F32, (layout)how);
                br_tensor *w = operand(BR_SHAPE(s[2], s[1]), BR_F32, (layout)how);
                br_tensor *twice = br_randn(BR_SHAPE(2 * s[2]), BR_F32);
                br_tensor *bias = br_narrow(twice, 0, 0, s[2]);
                br_tensor *apart = br_slice(twice, 0, 0, BR_ALL, 2);
                br_tensor *w_t = br_transpose(w, 0, 1);
                check_product(br_f_linear(x, w, bias), x, w_t, bias);
                check_product(br_f_linear(x, w, apart), x, w_t, apart);
                check_product(br_f_linear(x, w, NULL), x, w_t, NULL);
                br_tensor *vector = br_select(br_select(x, 0, 1), 0, 0);
                br_tensor *row = br_reshape(vector, BR_SHAPE(1, s[1]));
                br_tensor *y = br_f_linear(vector, w, bias);
                cr_assert(br_ndim(y) == 1 && br_size(y, 0) == s[2]);
                check_product(br_reshape(y, BR_SHAPE(1, s[2])), row, w_t, bias);
                br_scope_end(scope);
            }
    }
    br__force_kernels(NULL);
}

/* Long dot products are split into chunks, the last of which may be shorter. */
Test(matmul, long_dot_products)
{
    br_manual_seed(8);
    for (int64_t n = 65535; n < 3000000; n = 3 * n + 1) {
        for (br_dtype dtype = BR_F32; dtype <= BR_F64; dtype++) {
            br_scope *scope = br_scope_begin();
            br_tensor *a = br_rand(BR_SHAPE(n), dtype), *b = br_randn(BR_SHAPE(n), dtype);
            br_tensor *products = br_mul(br_to(a, BR_F64), br_to(b, BR_F64));
            double error = br_item(br_matmul(a, b)) - br_item(br_sum(products));
            double tolerance = sqrt((double)n) * (dtype == BR_F32 ? 0x1p-20 : 0x1p-48);
            cr_assert(fabs(error) <= tolerance, "%ld products in %s are off by %g", (long)n,
                      br_dtype_name(dtype), error);
            br_scope_end(scope);
        }
    }
}

/* ---- Threads --------------------------------------------------------------------------------- */

static br_tensor *product_with(int threads, br_tensor *a, br_tensor *b, br_tensor *bias)
{
    br_set_num_threads(threads);
    return bias ? br_f_linear(a, b, bias) : br_matmul(a, b);
}

static void check_threads(br_tensor *a, br_tensor *b, br_tensor *bias)
{
    br_tensor *one = product_with(1, a, b, bias);
    for (int threads = 2; threads <= 5; threads++) {
        br_tensor *more = product_with(threads, a, b, bias);
        check_ok();
        cr_assert(memcmp(br_data(one), br_data(more),
                         (size_t)br_numel(one) * br_dtype_size(br_dtype_of(one))) == 0,
                  "bits differ with %d threads", threads);
    }
}

Test(matmul, same_bits_for_any_number_of_threads)
{
    br_manual_seed(9);
    int before = br_get_num_threads();
    for (int v = 0; v < VARIANTS; v++) {
        if (!br__force_kernels(variants[v]))
            continue;
        for (br_dtype dtype = BR_F32; dtype <= BR_F64; dtype++) {
            br_scope *scope = br_scope_begin();
            check_threads(br_randn(BR_SHAPE(203, 300), dtype),
                          operand(BR_SHAPE(300, 201), dtype, TRANSPOSED), NULL);
            check_threads(br_randn(BR_SHAPE(5, 77, 530), dtype), br_randn(BR_SHAPE(50, 530), dtype),
                          br_randn(BR_SHAPE(50), dtype));
            check_threads(br_randn(BR_SHAPE(3, 90, 70), dtype),
                          br_randn(BR_SHAPE(3, 70, 41), dtype), NULL);
            /* packed, in three k-blocks, with work stealing */
            check_threads(operand(BR_SHAPE(300, 700), dtype, TRANSPOSED),
                          br_randn(BR_SHAPE(333, 700), dtype), br_randn(BR_SHAPE(333), dtype));
            check_threads(br_randn(BR_SHAPE(8, 700), dtype), br_randn(BR_SHAPE(700, 650), dtype),
                          NULL);
            check_threads(br_randn(BR_SHAPE(532, 5), dtype), br_randn(BR_SHAPE(5, 608), dtype),
                          NULL);
            check_threads(br_randn(BR_SHAPE(2000, 70), dtype), br_randn(BR_SHAPE(70, 9), dtype),
                          NULL);
            check_threads(br_randn(BR_SHAPE(7, 531), dtype),
                          operand(BR_SHAPE(531, 301), dtype, TRANSPOSED), NULL);
            check_threads(br_randn(BR_SHAPE(301, 531), dtype), br_randn(BR_SHAPE(6, 531), dtype),
                          br_randn(BR_SHAPE(6), dtype));
            check_threads(br_randn(BR_SHAPE(200001), dtype), br_randn(BR_SHAPE(200001), dtype),
                          NULL);
            br_scope_end(scope);
        }
    }
    br__force_kernels(NULL);
    br_set_num_threads(before);
}

/* ---- Errors ---------------------------------------------------------------------------------- */

Test(matmul, errors)
{
    br_scope *scope = br_scope_begin();
#define F(...) br_zeros(BR_SHAPE(__VA_ARGS__), BR_F32)
    check_fails(br_mm(F(2, 3), F(4, 5)), "mm: a [2, 3] x b [4, 5]: inner sizes 3 and 4 differ");
    check_fails(br_mm(F(2, 3, 4), F(4, 5)), "mm: a [2, 3, 4] must have 2 dimensions");
    check_fails(br_mm(F(2, 3), F(3)), "mm: b [3] must have 2 dimensions");
    check_fails(br_mm(NULL, F(3, 3)), "mm: a");
    check_fails(br_mm(F(3, 3), NULL), "mm: b");
    check_fails(br_mm(F(2, 3), br_zeros(BR_SHAPE(3, 2), BR_F64)), "mm: ");
    check_fails(br_mm(br_zeros(BR_SHAPE(2, 3), BR_I64), F(3, 2)), "mm: a");
    check_fails(br_bmm(F(2, 5, 64), F(2, 32, 5)),
                "bmm: a [2, 5, 64] x b [2, 32, 5]: inner sizes 64 and 32 differ");
    check_fails(br_bmm(F(2, 5, 6), F(3, 6, 5)),
                "bmm: a [2, 5, 6] x b [3, 6, 5]: batch sizes 2 and 3 differ");
    check_fails(br_bmm(F(5, 6), F(3, 6, 5)), "bmm: a [5, 6] must have 3 dimensions");
    check_fails(br_matmul(F(2, 3), F(4)), "matmul: a [2, 3] x b [4]: inner sizes 3 and 4 differ");
    check_fails(br_matmul(F(3), F(4, 3)), "matmul: a [3] x b [4, 3]: inner sizes 3 and 4 differ");
    check_fails(br_matmul(F(3), F(4)), "matmul: a [3] x b [4]: inner sizes 3 and 4 differ");
    check_fails(br_matmul(br_zeros(BR_SCALAR, BR_F32), F(4)),
                "matmul: a [] x b [4]: both must have at least 1 dimension");
    check_fails(br_matmul(F(2, 3, 4), F(5, 4, 3)),
                "matmul: a [2, 3, 4] x b [5, 4, 3]: batch sizes 2 and "
                "5 differ and neither is 1");
    check_fails(br_f_linear(F(2, 3), F(5, 4), NULL),
                "linear: x [2, 3] must have a last dimension of size 4 for weight [5, 4]");
    check_fails(br_f_linear(br_zeros(BR_SCALAR, BR_F32), F(5, 4), NULL),
                "linear: x [] must have a last dimension of size");
    check_fails(br_f_linear(F(2, 4), F(5), NULL),
                "linear: x [2, 4] must have a last dimension of size 5");
    check_fails(br_f_linear(F(2, 4), F(4), F(1)), "linear: bias [1] must have no dimensions");
    check_fails(br_f_linear(F(2, 4), F(5, 4, 1), NULL), "linear: weight [5, 4, 1] must have 2");
    check_fails(
        br_f_linear(F(2, 4), F(5, 4), F(4)),
        "linear: bias [4] must have shape [5], one element for each output of weight [5, 4]");
    check_fails(br_f_linear(F(2, 4), F(5, 4), br_zeros(BR_SHAPE(5), BR_F64)), "linear: ");
#undef F
    br_scope_end(scope);
}

/* ---- Gradients ------------------------------------------------------------------------------- */

static br_tensor *call_matmul(br_tensor *const *in, int n, void *context)
{
    (void)n;
    (void)context;
    return br_matmul(in[0], in[1]);
}

static br_tensor *call_linear(br_tensor *const *in, int n, void *context)
{
    (void)context;
    return br_f_linear(in[0], in[1], n > 2 ? in[2] : NULL);
}

/* Returns the gradient of sum(f^2) with respect to in[0]. Checking the gradient of this function
 * checks second-order gradients. */
static br_tensor *first_gradient(br_tensor *const *in, int n, void *context)
{
    br_function *f = context;
    br_scope *scope = br_enable_grad_begin();
    br_tensor *y = (*f)(in, n, NULL), *loss = br_sum(br_mul(y, y)), *dx = NULL;
    br_grad_options options = *BR_OPTIONS(br_grad, .create_graph = true);
    br_grad(1, &loss, 1, &in[0], &dx, &options);
    dx = br_scope_return(scope, dx);
    br_scope_end(scope);
    return dx;
}

static void check_gradients(br_function f, int n, br_tensor **in)
{
    for (int i = 0; i < n; i++)
        br_set_requires_grad(in[i], true);
    cr_assert(br_gradcheck(f, NULL, n, in, TIGHTLY), "%s", br_error_message());
    cr_assert(br_gradcheck(first_gradient, &f, n, in, TIGHTLY), "%s", br_error_message());
}

Test(matmul, gradients)
{
    static const struct {
        int a_ndim, b_ndim;
        int64_t a[4], b[4];
    } cases[] = {
        { 2, 2, { 3, 4 }, { 4, 2 } },
        { 1, 1, { 4 }, { 4 } },
        { 2, 1, { 3, 4 }, { 4 } },
        { 1, 2, { 4 }, { 4, 3 } },
        { 3, 1, { 2, 3, 4 }, { 4 } },
        { 1, 3, { 4 }, { 2, 4, 3 } },
        { 3, 2, { 2, 3, 4 }, { 4, 2 } },
        { 2, 3, { 3, 4 }, { 2, 4, 2 } },
        { 3, 3, { 2, 3, 4 }, { 2, 4, 2 } },
        { 4, 4, { 2, 1, 3, 2 }, { 1, 3, 2, 2 } },
        { 4, 3, { 2, 3, 2, 2 }, { 3, 2, 1 } },
    };
    br_manual_seed(10);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        br_scope *scope = br_scope_begin();
        br_tensor *in[] = { br_randn(cases[i].a_ndim, cases[i].a, BR_F64),
                            br_randn(cases[i].b_ndim, cases[i].b, BR_F64) };
        check_gradients(call_matmul, 2, in);
        br_scope_end(scope);
    }
    static const int64_t x_sizes[] = { 2, 3, 4 };
    for (int ndim = 1; ndim <= 3; ndim++)
        for (int bias = 0; bias < 2; bias++) {
            br_scope *scope = br_scope_begin();
            br_tensor *in[] = { br_randn(ndim, x_sizes + 3 - ndim, BR_F64),
                                br_randn(BR_SHAPE(5, 4), BR_F64), br_randn(BR_SHAPE(5), BR_F64) };
            check_gradients(call_linear, 2 + bias, in);
            br_scope_end(scope);
        }
}

/* linear saves only the tensors that its gradients need. The weight's gradient is contiguous. */
Test(matmul, saves_only_what_gradients_need)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x = br_ones(BR_SHAPE(3, 4), BR_F32);
    br_tensor *w = br_set_requires_grad(br_ones(BR_SHAPE(5, 4), BR_F32), true);
    int64_t before = br_live_tensors();
    br_tensor *y = br_f_linear(x, w, NULL);
    cr_assert_eq(br_live_tensors() - before, 2, "the result and an alias of x, not of w");
    cr_assert(br_backward(br_sum(y)));
    cr_assert(br_is_contiguous(br_grad_of(w)));
    check_close(br_at(br_grad_of(w), BR_DIMS(4, 3)), 3, 0);
    br_scope_end(scope);
}

/* The product of the first two operands is not summed over a label of the third. */
Test(matmul, einsum_keeps_the_labels_that_later_operands_have)
{
    br_scope *scope = br_scope_begin();
    br_tensor *w = br_randn(BR_SHAPE(4), BR_F64), *x = br_randn(BR_SHAPE(2, 3, 4), BR_F64);
    br_tensor *v = br_randn(BR_SHAPE(4), BR_F64), *y = br_einsum("k,k,ijk->ij", BR_INPUTS(w, v, x));
    br_tensor *want = br_matmul(x, br_mul(w, v));
    cr_assert(br_allclose(y, want, 1e-14, 1e-14), "%s", br_error_message());
    br_scope_end(scope);
}

/* Messages name the subscript whose sizes differ. */
Test(matmul, einsum_names_the_subscript)
{
    br_scope *scope = br_scope_begin();
    br_tensor *a = br_ones(BR_SHAPE(2, 3), BR_F32), *b = br_ones(BR_SHAPE(4, 5), BR_F32);
    check_fails(br_einsum("ij,jk->ik", BR_INPUTS(a, b)),
                "subscript 'j' has size 3 in operand 0 [2, 3], but size 4 in operand 1 [4, 5]");
    check_fails(br_einsum("Zb,kZ", BR_INPUTS(a, b)), "subscript 'Z' has size 2");
    check_fails(br_einsum("ii", BR_INPUTS(a)),
                "subscript 'i' has size 2 in operand 0 [2, 3], but size 3 in operand 0 [2, 3]");
    check_fails(br_einsum("...,...", BR_INPUTS(a, b)), "subscript '...' has size");
    br_scope_end(scope);
}
