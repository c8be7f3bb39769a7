/* tests/ops/norm/test_softmax.c - softmax and log_softmax. */
#include "tests/ops/torch_rows.h"
#include "tests/ops/values.h"

TestSuite(softmax, .init = check_begin, .fini = check_end);

typedef br_tensor *softmax_fn(br_tensor *x, int64_t dim);

/* Compares values and gradients, fused and composed, with PyTorch's. */
static void check_recorded(softmax_fn *f, int64_t dim, const double *y, const double *dx)
{
    const double tolerance[] = { [BR_F32] = 2e-6, [BR_F64] = 4e-15 };
    for (br_dtype dtype = BR_F32; dtype <= BR_F64; dtype++) {
        br_tensor *x = leaf(values(BR_SHAPE(3, 4, 5), 1, dtype)), *got = f(x, dim), *grad;
        check_values(got, 60, y, tolerance[dtype]);
        br_tensor *dy = values(BR_SHAPE(3, 4, 5), 9, dtype);
        for (int composed = 0; composed < 2; composed++) {
            br_grad(1, &got, 1, &x, &grad,
                    BR_OPTIONS(br_grad, .gradients = &dy, .retain_graph = true,
                               .create_graph = composed));
            check_values(grad, 60, dx, tolerance[dtype] * 4);
        }
    }
}

static void recorded(void)
{
    check_recorded(br_softmax, 0, softmax_0, softmax_0_dx);
    check_recorded(br_softmax, -2, softmax_1, softmax_1_dx);
    check_recorded(br_softmax, 2, softmax_2, softmax_2_dx);
    check_recorded(br_log_softmax, 0, log_softmax_0, log_softmax_0_dx);
    check_recorded(br_log_softmax, 1, log_softmax_1, log_softmax_1_dx);
    check_recorded(br_log_softmax, -1, log_softmax_2, log_softmax_2_dx);
}

Test(softmax, equals_pytorch)
{
    with_every_variant(recorded);
}

/* Computes exp(x - max) / sum with elementary operations. */
static br_tensor *composed_softmax(br_tensor *x, int64_t dim)
{
    br_tensor *e = br_exp(br_sub(x, br_max_dim(x, dim, true, NULL)));
    return br_div(e, br_sum_dim(e, BR_DIMS(dim), true));
}

/* Various lengths along the last and the first dimension. The tolerance is that of a sequential f32
 * sum of 1024 values, which is computed if the compiler does not vectorize. */
static void composed(void)
{
    static const int64_t lengths[] = { 1, 2, 7, 16, 48, 49, 64, 100, 129, 1024, 1025, 3000 };
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        for (int64_t dim = 0; dim < 2; dim++) {
            br_scope *scope = br_scope_begin();
            int64_t sizes[] = { 67, 67 };
            sizes[dim] = lengths[i];
            br_tensor *x = values(2, sizes, 3, BR_F32);
            br_tensor *y = br_softmax(x, dim), *want = composed_softmax(br_to(x, BR_F64), dim);
            check_ok();
            cr_assert(br_allclose(br_to(y, BR_F64), want, 1.5e-6, 1e-12));
            br_tensor *log_y = br_to(br_log_softmax(x, dim), BR_F64);
            cr_assert(br_allclose(log_y, br_log(want), 6e-7, 1.5e-6));
            br_tensor *view = br_t(br_contiguous(br_t(x)));
            check_same_bits(br_contiguous(br_softmax(view, dim)), y);
            br_scope_end(scope);
        }
    }
}

Test(softmax, equals_elementary_operations)
{
    with_every_variant(composed);
}

Test(softmax, special_values)
{
    const float inf = INFINITY;
    br_tensor *x =
        br_from_f32(BR_SHAPE(3, 3), (float[]){ -inf, -inf, -inf, -inf, 0, 0, 1e30f, -1e30f, inf });
    check_equals(br_softmax(x, 1), NAN, NAN, NAN, 0, 0.5, 0.5, NAN, NAN, NAN);
    check_equals(br_softmax(br_t(x), 0), NAN, 0, NAN, NAN, 0.5, NAN, NAN, 0.5, NAN);
    br_tensor *large = br_from_f64(BR_SHAPE(2), (double[]){ 1e300, 1e300 });
    check_equals(br_softmax(large, 0), 0.5, 0.5);
    br_tensor *row = br_zeros(BR_SHAPE(100), BR_F32);
    br_data_f32(row)[70] = NAN;
    cr_assert(isnan(br_at(br_softmax(row, 0), BR_DIMS(3))));
    br_fill_(row, -INFINITY);
    cr_assert(isnan(br_at(br_softmax(row, 0), BR_DIMS(3))));
}

/* Denormal results are not flushed to 0, for various lengths along the last and the first
 * dimension. The expected numbers are PyTorch's. */
static void denormal_results(void)
{
    enum { NUMBERS = 9 };
    static const double x[2][NUMBERS] = {
        { 0, -88, -90, -95, -100, -103, -103.9, -104, -110 },
        { 0, -700, -709, -720, -740, -744, -745, -746, -800 },
    };
    static const double want[2][NUMBERS] = {
        { 1, 6.054601485195952e-39, 8.194008692231508e-40, 5.521115949439779e-42,
          3.783505853677006e-44, 1.401298464324817e-45, 1.401298464324817e-45, 0, 0 },
        { 1, 9.85967654375977e-305, 1.216780750623423e-308, 2.0322308024e-313, 4.2e-322, 1e-323,
          5e-324, 0, 0 },
    };
    static const int64_t lengths[] = { NUMBERS, 48, 49, 64, 1100 };
    for (br_dtype dtype = BR_F32; dtype <= BR_F64; dtype++) {
        const double least = dtype == BR_F32 ? 0x1p-149 : 0x1p-1074;
        for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
            br_scope *scope = br_scope_begin();
            br_tensor *rows = br_full(BR_SHAPE(19, lengths[i]), -INFINITY, dtype);
            for (int64_t k = 0; k < NUMBERS; k++)
                br_fill_(br_narrow(rows, 1, lengths[i] - NUMBERS + k, 1), x[dtype][k]);
            br_tensor *along = br_softmax(rows, 1), *across = br_softmax(br_t(rows), 0);
            check_same_bits(along, br_contiguous(br_t(across)));
            for (int64_t k = 0; k < 19 * NUMBERS; k++) {
                const double w = want[dtype][k % NUMBERS];
                const int64_t at[] = { k / NUMBERS, lengths[i] - NUMBERS + k % NUMBERS };
                const double got = br_at(along, 2, at);
                cr_assert(fabs(got - w) <= 1e-6 * w + 0.5 * least, "%g, expected %g", got, w);
            }
            br_scope_end(scope);
        }
    }
}

Test(softmax, denormal_results)
{
    with_every_variant(denormal_results);
}

/* One small element is found wherever it is in the row. */
static void single_denormal_result(void)
{
    enum { N = 100 };
    for (br_dtype dtype = BR_F32; dtype <= BR_F64; dtype++) {
        const double low = dtype == BR_F32 ? -90 : -710, want = exp(low) / (N - 1);
        for (int64_t k = 0; k < N; k++) {
            br_scope *scope = br_scope_begin();
            br_tensor *row = br_zeros(BR_SHAPE(N), dtype);
            br_fill_(br_select(row, 0, k), low);
            const double got = br_at(br_softmax(row, 0), BR_DIMS(k));
            cr_assert(fabs(got - want) <= (dtype == BR_F32 ? 0x1p-149 : 0x1p-1074) + 1e-6 * want,
                      "element %lld: %g, expected %g", (long long)k, got, want);
            br_scope_end(scope);
        }
    }
}

Test(softmax, a_single_denormal_result)
{
    with_every_variant(single_denormal_result);
}

/* Gradients that are computed from log-probabilities are 0 if the probability is a denormal number.
 * PyTorch's are denormal numbers. */
Test(softmax, gradients_of_logarithms_have_no_denormal_numbers)
{
    br_tensor *x = leaf(br_from_f32(BR_SHAPE(1, 3), (float[]){ 0, -90, -80 })), *grad;
    br_tensor *loss =
        br_nll_loss(br_log_softmax(x, 1), br_from_i64(BR_SHAPE(1), (int64_t[]){ 0 }), NULL);
    br_grad(1, &loss, 1, &x, &grad, NULL);
    cr_assert(br_at(grad, BR_DIMS(0, 1)) == 0);
    check_close(br_at(grad, BR_DIMS(0, 2)), 1.8048513e-35, 1e-41);
}

Test(softmax, shapes)
{
    check_equals(br_softmax(br_scalar(3, BR_F32), 0), 1);
    check_equals(br_log_softmax(br_scalar(3, BR_F64), -1), 0);
    check_shape(br_softmax(br_zeros(BR_SHAPE(2, 0), BR_F32), 1), BR_SHAPE(2, 0));
    check_shape(br_softmax(br_zeros(BR_SHAPE(2, 0), BR_F32), 0), BR_SHAPE(2, 0));
    check_fails(br_softmax(br_zeros(BR_SHAPE(2), BR_I64), 0), "softmax: x [2] is i64");
    check_fails(br_log_softmax(br_zeros(BR_SHAPE(2), BR_F32), 1), "log_softmax: dim is 1");
    check_fails(br_softmax(NULL, 0), "x is NULL");
}

Test(softmax, does_not_depend_on_threads)
{
    br_tensor *x = values(BR_SHAPE(40, 130, 90), 1, BR_F32);
    for (int64_t dim = 0; dim < 3; dim++) {
        br_set_num_threads(1);
        br_tensor *one = br_softmax(x, dim), *log_one = br_log_softmax(x, dim);
        for (int threads = 2; threads <= 3; threads++) {
            br_set_num_threads(threads);
            check_same_bits(one, br_softmax(x, dim));
            check_same_bits(log_one, br_log_softmax(x, dim));
        }
    }
}

static br_tensor *both(br_tensor *const *inputs, int n, void *context)
{
    (void)n;
    const int64_t *dim = context;
    return br_cat(BR_INPUTS(br_softmax(inputs[0], *dim), br_log_softmax(inputs[0], *dim)), 0);
}

Test(softmax, gradients)
{
    br_tensor *x = leaf(values(BR_SHAPE(3, 2, 4), 1, BR_F64));
    for (int64_t dim = 0; dim < 3; dim++) {
        check_gradient(both, &dim, 1, &x);
        check_second_gradient(both, &dim, 1, &x);
    }
    br_tensor *wide = leaf(values(BR_SHAPE(2, 50), 1, BR_F64));
    check_gradient(both, &(int64_t){ 1 }, 1, &wide);
}
