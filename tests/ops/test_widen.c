/* tests/ops/test_widen.c - compositions of bf16 and f16, which are computed in f32 and rounded
 * once; parameters of norms in f32; and operations of integers. */
#include "tests/support.h"

#include <brasa/autograd.h>
#include <brasa/ops.h>

TestSuite(widen, .init = check_begin, .fini = check_end);

static br_tensor *values(int n, const float *data)
{
    return br_from_f32(BR_SHAPE(n), data);
}

/* Returns random numbers of the dtype. */
static br_tensor *numbers(br_dtype dtype, int64_t rows, int64_t columns)
{
    return br_to(br_sub_scalar(br_rand(BR_SHAPE(rows, columns), BR_F32), 0.5), dtype);
}

/* ---- Compositions ---------------------------------------------------------------------------- */

static br_tensor *sum_of_product(br_tensor *const *x)
{
    return br_addmm(x[0], x[1], x[2], 0.3, 0.7);
}

static br_tensor *sum_of_quotient(br_tensor *const *x)
{
    return br_addcdiv(x[0], x[1], x[2], 0.3);
}

static br_tensor *hardswish(br_tensor *const *x)
{
    return br_hardswish(x[0]);
}

static br_tensor *deviation(br_tensor *const *x)
{
    return br_std_dim(x[0], BR_DIMS(1), 1, false);
}

static br_tensor *logsumexp(br_tensor *const *x)
{
    return br_logsumexp(x[0], BR_DIMS(1), false);
}

static br_tensor *cosine(br_tensor *const *x)
{
    return br_cosine_similarity(x[0], x[1], 1, 1e-8);
}

static br_tensor *entropy(br_tensor *const *x)
{
    return br_binary_cross_entropy_with_logits(x[0], br_abs(x[1]), NULL, BR_REDUCTION_NONE, NULL);
}

static br_tensor *batch_product(br_tensor *const *x)
{
    return br_matmul(x[0], br_stack(BR_INPUTS(x[1], x[2]), 0));
}

/* The result and the gradients of bf16 and f16 are those of f32, rounded once. Attention has a test
 * of its own, because its gradient reads the rounded result. */
static void check_rounded_once(br_tensor *(*function)(br_tensor *const *), br_dtype dtype)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x[3], *wide[3];
    br_manual_seed(7);
    for (int i = 0; i < 3; i++) {
        x[i] = br_set_requires_grad(numbers(dtype, 8, 8), true);
        wide[i] = br_set_requires_grad(br_to(br_detach(x[i]), BR_F32), true);
    }
    br_tensor *y = function(x), *exact = function(wide);
    cr_expect_eq(br_dtype_of(y), dtype);
    cr_expect(br_equal(y, br_to(exact, dtype)), "%s", br_dtype_name(dtype));
    br_tensor *weight =
        br_to(br_to(br_rand(br_ndim(exact), br_sizes(exact), BR_F32), dtype), BR_F32);
    br_backward(br_sum(br_mul(exact, weight)));
    br_backward(br_sum(br_mul(br_to(y, BR_F32), weight)));
    check_ok();
    for (int i = 0; i < 3; i++) {
        if (!br_grad_of(wide[i]))
            continue;
        br_tensor *want = br_to(br_grad_of(wide[i]), dtype);
        const double unit = dtype == BR_BF16 ? 0x1p-8 : 0x1p-11;
        cr_expect(br_allclose(br_grad_of(x[i]), want, 2.1 * unit, 1e-6), "gradient %d in %s", i,
                  br_dtype_name(dtype));
    }
    check_ok();
    br_scope_end(scope);
}

Test(widen, compositions_are_rounded_once)
{
    br_tensor *(*const functions[])(br_tensor *const *) = {
        sum_of_product, sum_of_quotient, hardswish, deviation,
        logsumexp,      cosine,          entropy,   batch_product,
    };
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        check_rounded_once(functions[i], BR_BF16);
        check_rounded_once(functions[i], BR_F16);
    }
}

/* ---- Norms ----------------------------------------------------------------------------------- */

static br_tensor *layer_norm(br_tensor *x, br_tensor *weight, br_tensor *bias)
{
    return br_f_layer_norm(x, BR_DIMS(4), weight, bias, 1e-5);
}

static br_tensor *rms_norm(br_tensor *x, br_tensor *weight, br_tensor *bias)
{
    (void)bias;
    return br_f_rms_norm(x, BR_DIMS(4), weight, 1e-5);
}

static br_tensor *batch_norm(br_tensor *x, br_tensor *weight, br_tensor *bias)
{
    return br_f_batch_norm(x, NULL, NULL, weight, bias, true, 0.1, 1e-5);
}

static br_tensor *group_norm(br_tensor *x, br_tensor *weight, br_tensor *bias)
{
    return br_f_group_norm(x, 2, weight, bias, 1e-5);
}

/* x is bf16, weight and bias are f32, as in mixed precision. Their gradients are f32 and not
 * rounded to bf16. */
static void check_norm(br_tensor *(*norm)(br_tensor *, br_tensor *, br_tensor *))
{
    br_scope *scope = br_scope_begin();
    br_tensor *x = numbers(BR_BF16, 6, 4), *wide = br_to(x, BR_F32), *y[2], *gradient[2][2];
    for (int k = 0; k < 2; k++) {
        br_tensor *weight = br_set_requires_grad(br_full(BR_SHAPE(4), 0.7, BR_F32), true);
        br_tensor *bias = br_set_requires_grad(br_full(BR_SHAPE(4), 0.1, BR_F32), true);
        y[k] = norm(k ? wide : x, weight, bias);
        br_backward(br_sum(br_mul(br_to(y[k], BR_F32), wide)));
        gradient[k][0] = br_grad_of(weight);
        gradient[k][1] = br_grad_of(bias);
    }
    check_ok();
    cr_expect_eq(br_dtype_of(y[0]), BR_BF16);
    cr_expect(br_equal(y[0], br_to(y[1], BR_BF16)));
    for (int i = 0; i < 2; i++) {
        if (!gradient[1][i]) /* RMS norm has no bias */
            continue;
        cr_expect_eq(br_dtype_of(gradient[0][i]), BR_F32);
        cr_expect(br_allclose(gradient[0][i], gradient[1][i], 1e-6, 1e-6), "gradient %d", i);
    }
    br_scope_end(scope);
}

Test(widen, parameters_of_norms_may_be_f32)
{
    br_scope *scope = br_scope_begin();
    check_norm(layer_norm);
    check_norm(batch_norm);
    check_norm(group_norm);
    check_norm(rms_norm);
    br_tensor *x = numbers(BR_BF16, 6, 4), *doubles = br_ones(BR_SHAPE(4), BR_F64);
    check_fails(layer_norm(x, doubles, NULL), "dtypes must be equal");
    check_fails(batch_norm(x, doubles, NULL), "dtypes must be equal");
    check_fails(group_norm(x, doubles, NULL), "dtypes must be equal");
    br_tensor *mean = br_zeros(BR_SHAPE(4), BR_F32), *var = br_ones(BR_SHAPE(4), BR_F32);
    br_f_batch_norm(x, mean, var, NULL, NULL, true, 1, 1e-5);
    cr_expect(br_allclose(mean, br_mean_dim(br_to(x, BR_F32), BR_DIMS(0), false), 1e-5, 1e-7));
    check_ok();
    br_scope_end(scope);
}

/* The weight may have any floating-point dtype; the result has that of x. */
Test(widen, weights_of_rms_norm)
{
    static const br_dtype dtypes[] = { BR_F32, BR_F64, BR_BF16, BR_F16 };
    enum { N = sizeof dtypes / sizeof *dtypes };
    br_scope *scope = br_scope_begin();
    for (int i = 0; i < N; i++)
        for (int k = 0; k < N; k++) {
            br_tensor *x = numbers(dtypes[i], 6, 4);
            br_tensor *weight = br_set_requires_grad(br_full(BR_SHAPE(4), 1.5, dtypes[k]), true);
            br_tensor *y = rms_norm(x, weight, NULL);
            br_tensor *same = rms_norm(x, br_full(BR_SHAPE(4), 1.5, dtypes[i]), NULL);
            cr_expect(br_equal(y, same), "%d %d", i, k);
            br_backward(br_sum(y));
            cr_expect_eq(br_dtype_of(br_grad_of(weight)), dtypes[k]);
        }
    check_fails(rms_norm(numbers(BR_F32, 6, 4), br_ones(BR_SHAPE(4), BR_I64), NULL), "i64");
    br_scope_end(scope);
}

/* ---- Integers -------------------------------------------------------------------------------- */

static br_tensor *integers(br_dtype dtype, int ndim, const int64_t *sizes)
{
    int64_t n = 1;
    for (int i = 0; i < ndim; i++)
        n *= sizes[i];
    br_tensor *line = br_arange(0, (double)n, 1, BR_I64);
    br_tensor *mixed = br_remainder(br_mul_scalar(line, 7), br_full(BR_SHAPE(1), 11, BR_I64));
    return br_to(br_reshape(mixed, ndim, sizes), dtype);
}

static void check_product(br_dtype dtype, br_tensor *a, br_tensor *b)
{
    br_tensor *got = br_matmul(br_to(a, dtype), br_to(b, dtype));
    br_tensor *want = br_to(br_matmul(br_to(a, BR_F64), br_to(b, BR_F64)), BR_I64);
    check_ok();
    cr_expect_eq(br_dtype_of(got), dtype);
    cr_expect(br_equal(got, br_to(want, dtype)), "%s", br_dtype_name(dtype));
}

Test(widen, products_of_integers)
{
    static const br_dtype dtypes[] = { BR_I64, BR_I32, BR_I8, BR_U8 };
    br_scope *scope = br_scope_begin();
    br_tensor *matrix = integers(BR_I64, BR_SHAPE(5, 7)), *line = integers(BR_I64, BR_SHAPE(7));
    br_tensor *batch = integers(BR_I64, BR_SHAPE(3, 1, 7, 5));
    br_tensor *other = integers(BR_I64, BR_SHAPE(2, 5, 7));
    for (int i = 0; i < 4; i++) {
        check_product(dtypes[i], matrix, br_t(matrix));
        check_product(dtypes[i], matrix, line);
        check_product(dtypes[i], line, br_t(matrix));
        check_product(dtypes[i], line, line);
        check_product(dtypes[i], batch, other);
        check_product(dtypes[i], other, br_transpose(other, 1, 2));
        check_product(dtypes[i], line, batch);
        check_product(dtypes[i], br_narrow(matrix, 0, 0, 0), br_t(matrix));
        check_product(dtypes[i], br_narrow(matrix, 1, 0, 0), br_narrow(br_t(matrix), 0, 0, 0));
    }
    br_tensor *x = integers(BR_I32, BR_SHAPE(2, 7)), *w = br_to(matrix, BR_I32);
    br_tensor *bias = br_slice(integers(BR_I32, BR_SHAPE(10)), 0, 1, BR_ALL, 2);
    cr_expect(br_equal(br_f_linear(x, w, bias), br_add(br_matmul(x, br_t(w)), bias)));
    x = br_to(x, BR_I64), w = br_to(w, BR_I64);
    bias = br_slice(integers(BR_I64, BR_SHAPE(10)), 0, 1, BR_ALL, 2);
    cr_expect(br_equal(br_f_linear(x, w, bias), br_add(br_matmul(x, br_t(w)), bias)));
    br_tensor *large = br_full(BR_SHAPE(1, 2), 1LL << 40, BR_I64);
    cr_expect_eq(br_item_i64(br_matmul(br_mul(large, large), br_t(large))), 0);
    check_fails(br_matmul(br_ones(BR_SHAPE(2, 2), BR_BOOL), br_ones(BR_SHAPE(2, 2), BR_BOOL)),
                "matmul: a [2, 2] is bool");
    br_scope_end(scope);
}

/* Every operand may be a view with any strides. */
Test(widen, products_of_views_of_integers)
{
    static const br_dtype dtypes[] = { BR_I64, BR_I32, BR_I8, BR_U8 };
    br_scope *scope = br_scope_begin();
    for (int i = 0; i < 4; i++) {
        br_tensor *all = integers(dtypes[i], BR_SHAPE(4, 6, 6));
        br_tensor *lines[] = { br_select(br_select(all, 0, 1), 1, 2),      /* a column */
                               br_slice(br_select(all, 1, 0), 1, 0, 6, 1), /* [4, 6] */
                               br_expand(br_select(br_select(br_narrow(all, 2, 3, 1), 0, 1), 0, 1),
                                         BR_SHAPE(6)) };
        br_tensor *line = br_select(lines[1], 0, 3);
        br_tensor *matrices[] = { br_t(br_select(all, 0, 2)), br_select(all, 2, 1), /* [4, 6] */
                                  br_slice(all, 0, 0, 4, 2), br_transpose(all, 1, 2) };
        br_tensor *vectors[] = { lines[0], lines[2], line };
        for (int v = 0; v < 3; v++) {
            for (int m = 0; m < 4; m++) {
                check_product(dtypes[i], matrices[m], vectors[v]);
                if (m != 1)
                    check_product(dtypes[i], vectors[v], matrices[m]);
                check_product(dtypes[i], matrices[m], matrices[0]);
                check_product(dtypes[i], matrices[0], m == 1 ? br_t(matrices[m]) : matrices[m]);
            }
            check_product(dtypes[i], vectors[v], vectors[(v + 1) % 3]);
        }
    }
    br_scope_end(scope);
}

/* More work than one task has. */
Test(widen, large_products_of_integers)
{
    br_scope *scope = br_scope_begin();
    br_tensor *a = integers(BR_I64, BR_SHAPE(120, 90)), *b = integers(BR_I64, BR_SHAPE(90, 110));
    check_product(BR_I64, a, b);
    check_product(BR_I32, br_t(b), br_t(a));
    br_scope_end(scope);
}

Test(widen, activations_of_integers)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x = br_to(values(4, (float[]){ -7, 0, 3, 9 }), BR_I32);
    cr_expect(br_equal(br_relu(x), br_to(values(4, (float[]){ 0, 0, 3, 9 }), BR_I32)));
    cr_expect(br_equal(br_relu6(x), br_to(values(4, (float[]){ 0, 0, 3, 6 }), BR_I32)));
    cr_expect(
        br_equal(br_hardtanh(x, -1.5, 2.5), br_to(values(4, (float[]){ -1, 0, 2, 2 }), BR_I32)));
    cr_expect(br_equal(br_threshold(x, 0, 5), br_to(values(4, (float[]){ 5, 5, 3, 9 }), BR_I32)));
    cr_expect_eq(br_dtype_of(br_tanhshrink(x)), BR_F32);
    cr_expect_eq(br_dtype_of(br_logsumexp(x, BR_DIMS(0), false)), BR_F32);
    check_ok();
    check_fails(br_relu(br_ones(BR_SHAPE(1), BR_BOOL)), "relu: x [1] is bool");
    check_fails(br_threshold(br_ones(BR_SHAPE(1), BR_BOOL), 0, 0), "threshold: x [1] is bool");
    br_scope_end(scope);
}

Test(widen, reductions_of_small_integers)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x = br_to(values(3, (float[]){ 0, 2, 9 }), BR_U8);
    cr_expect_eq(br_dtype_of(br_any(x)), BR_U8);
    cr_expect_eq(br_item(br_any(x)), 1);
    cr_expect_eq(br_item(br_all(x)), 0);
    cr_expect_eq(br_dtype_of(br_all(br_to(x, BR_I32))), BR_BOOL);
    cr_expect_eq(br_dtype_of(br_sum_to_size(br_select(x, 0, 0), BR_SCALAR)), BR_I64);
    br_tensor *index = br_zeros(BR_SHAPE(3), BR_I64), *zero = br_zeros(BR_SHAPE(1), BR_I32);
    br_tensor *mean = br_scatter_reduce(zero, 0, index, br_to(x, BR_I32), BR_SCATTER_MEAN, false);
    cr_expect_eq(br_item(mean), 3); /* 11 / 3 */
    br_tensor *plane = br_reshape(br_to(br_arange(0, 16, 1, BR_I64), BR_I8), BR_SHAPE(1, 4, 4));
    br_tensor *largest =
        br_f_max_pool2d(plane, BR_OPTIONS(br_pool, .kernel_size = BR_PAIR(2, 2)), NULL);
    br_tensor *corners = br_to(values(4, (float[]){ 5, 7, 13, 15 }), BR_I8);
    cr_expect(br_equal(largest, br_reshape(corners, BR_SHAPE(1, 2, 2))));
    check_ok();
    br_scope_end(scope);
}

/* The difference of u8 wraps around before it is converted. */
Test(widen, distances_of_integers)
{
    br_scope *scope = br_scope_begin();
    br_tensor *a = br_to(br_reshape(values(2, (float[]){ 1, 5 }), BR_SHAPE(1, 2)), BR_U8);
    br_tensor *b = br_to(br_reshape(values(2, (float[]){ 2, 5 }), BR_SHAPE(1, 2)), BR_U8);
    check_close(br_item(br_pairwise_distance(a, b, 2, 1e-6, false)), 255, 1e-3);
    br_tensor *i = br_to(a, BR_I32), *k = br_to(b, BR_I32);
    check_close(br_item(br_pairwise_distance(i, k, 2, 1e-6, false)), 1, 1e-3);
    br_tensor *one = br_ones(BR_SHAPE(1), BR_I32);
    check_close(br_item(br_cosine_embedding_loss(i, k, one, 0, BR_REDUCTION_MEAN)),
                1 - 27 / sqrt(26 * 29), 1e-6);
    check_close(br_item(br_margin_ranking_loss(i, k, one, 0.5, BR_REDUCTION_SUM)), 2, 1e-6);
    check_close(br_item(br_triplet_margin_loss(i, k, i, NULL, BR_REDUCTION_MEAN)), 2, 1e-5);
    check_ok();
    br_scope_end(scope);
}

/* ---- Indices --------------------------------------------------------------------------------- */

Test(widen, indices_may_be_i32)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x = numbers(BR_F32, 3, 4), *rows = numbers(BR_F32, 2, 4);
    br_tensor *line = br_from_i64(BR_SHAPE(2), (int64_t[]){ 2, 0 }),
              *short_line = br_to(line, BR_I32);
    br_tensor *all = br_zeros(BR_SHAPE(2, 4), BR_I64), *short_all = br_to(all, BR_I32);
    cr_expect(br_equal(br_index_select(x, 0, short_line), br_index_select(x, 0, line)));
    cr_expect(br_equal(br_f_embedding(x, short_line, -1), br_f_embedding(x, line, -1)));
    cr_expect(br_equal(br_index(x, 1, &short_line), br_index(x, 1, &line)));
    cr_expect(br_equal(br_getitem(x, "?", 1, &short_line), br_getitem(x, "?", 1, &line)));
    cr_expect(br_equal(br_index_put(x, 1, &short_line, rows, true),
                       br_index_put(x, 1, &line, rows, true)));
    cr_expect(br_equal(br_index_add(x, 0, short_line, rows, 2), br_index_add(x, 0, line, rows, 2)));
    cr_expect(br_equal(br_gather(x, 0, short_all), br_gather(x, 0, all)));
    cr_expect(br_equal(br_scatter(x, 0, short_all, rows), br_scatter(x, 0, all, rows)));
    cr_expect(br_equal(br_scatter_add(x, 0, short_all, rows), br_scatter_add(x, 0, all, rows)));
    cr_expect(br_equal(br_scatter_reduce(x, 0, short_all, rows, BR_SCATTER_AMAX, true),
                       br_scatter_reduce(x, 0, all, rows, BR_SCATTER_AMAX, true)));
    br_tensor *copy = br_clone(x), *same = br_clone(x);
    cr_expect_eq(br_scatter_add_(copy, 0, short_all, rows), copy);
    cr_expect(br_equal(copy, br_scatter_add_(same, 0, all, rows)));
    check_ok();
    check_fails(br_index_copy(x, 0, short_line, rows), "index_copy: index [2] is i32, must be i64");
    check_fails(br_take(x, short_line), "take: index [2] is i32, must be i64");
    check_fails(br_gather(x, 0, br_to(all, BR_U8)), "gather: index [2, 4] is u8, must be i64");
    br_scope_end(scope);
}

Test(widen, counts_and_conditions_of_other_integers)
{
    br_scope *scope = br_scope_begin();
    br_tensor *n = br_from_i64(BR_SHAPE(3), (int64_t[]){ 2, 0, 2 }), *x = numbers(BR_F32, 3, 2);
    cr_expect(br_equal(br_bincount(br_to(n, BR_U8), NULL, 0), br_bincount(n, NULL, 0)));
    cr_expect(br_equal(br_repeat_interleave(x, br_to(n, BR_I8), 0), br_repeat_interleave(x, n, 0)));
    br_tensor *condition = br_reshape(n, BR_SHAPE(3, 1)), *zero = br_zeros(BR_SCALAR, BR_F32);
    cr_expect(br_equal(br_where(br_to(condition, BR_U8), x, zero),
                       br_where(br_to(condition, BR_BOOL), x, zero)));
    check_ok();
    check_fails(br_where(condition, x, zero), "where: condition [3, 1] is i64, must be bool");
    br_scope_end(scope);
}

Test(widen, comparisons_with_numbers_of_no_element)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x = br_to(values(3, (float[]){ 0, 44, 255 }), BR_U8);
    cr_expect(br_equal(br_eq_scalar(x, -1), br_zeros(BR_SHAPE(3), BR_BOOL)));
    cr_expect(br_equal(br_eq_scalar(x, 300), br_zeros(BR_SHAPE(3), BR_BOOL)));
    cr_expect(br_equal(br_lt_scalar(x, 300), br_ones(BR_SHAPE(3), BR_BOOL)));
    check_ok();
    br_scope_end(scope);
}

/* ---- Equal bounds ---------------------------------------------------------------------------- */

/* Expected: PyTorch. x is below, at and above the only value that it may have. */
Test(widen, gradients_of_clamp_with_equal_bounds)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x = br_set_requires_grad(values(4, (float[]){ 0, 1, 2, 1 }), true);
    br_tensor *min = br_set_requires_grad(values(4, (float[]){ 1, 1, 1, 1 }), true);
    br_tensor *max = br_set_requires_grad(values(4, (float[]){ 1, 1, 1, 3 }), true);
    br_backward(br_sum(br_clamp_tensor(x, min, max)));
    cr_expect(br_equal(br_grad_of(x), values(4, (float[]){ 0, 1, 0, 0.5F })));
    cr_expect(br_equal(br_grad_of(min), values(4, (float[]){ 1, 0, 0, 0.5F })));
    cr_expect(br_equal(br_grad_of(max), values(4, (float[]){ 0, 0, 1, 0 })));
    check_ok();
    br_scope_end(scope);
}
