/* tests/ops/pointwise/test_maximum_minimum.c - edge cases of maximum, minimum, xlogy, lerp, isnan,
 * isinf and isfinite. */
#include "tests/ops/values.h"

TestSuite(between, .init = check_begin, .fini = check_end);

static const double nan_ = NAN, inf = INFINITY;

/* Checks the results and both gradients for dy = 4. */
static void check_between(br_tensor *(*f)(br_tensor *, br_tensor *), const double *want,
                          const double *da, const double *db)
{
    br_scope *scope = br_scope_begin();
    br_tensor *a = leaf(br_from_f64(BR_SHAPE(6), (double[]){ 1, 3, 2, nan_, 5, -inf }));
    br_tensor *b = leaf(br_from_f64(BR_SHAPE(6), (double[]){ 2, 1, 2, 5, nan_, -inf }));
    br_tensor *y = f(a, b);
    check_values(y, 6, want, 0);
    br_backward_options options =
        *BR_OPTIONS(br_backward, .gradient = br_full(BR_SHAPE(6), 4, BR_F64));
    br_backward_with(y, &options);
    check_values(br_grad_of(a), 6, da, 0);
    check_values(br_grad_of(b), 6, db, 0);
    br_scope_end(scope);
}

/* The expected numbers are PyTorch's. */
Test(between, ties_and_nan)
{
    check_between(br_maximum, (double[]){ 2, 3, 2, nan_, nan_, -inf },
                  (double[]){ 0, 4, 2, 4, 4, 2 }, (double[]){ 4, 0, 2, 4, 4, 2 });
    check_between(br_minimum, (double[]){ 1, 1, 2, nan_, nan_, -inf },
                  (double[]){ 4, 0, 2, 4, 4, 2 }, (double[]){ 0, 4, 2, 4, 4, 2 });
}

/* For 0 and -0, the first operand is both the maximum and the minimum, for any number of
 * elements. */
static void signs_of_zero(void)
{
    for (br_dtype dtype = BR_F32; dtype <= BR_F64; dtype++)
        for (int64_t n = 1; n < 70; n += 17) {
            br_scope *scope = br_scope_begin();
            br_tensor *a = br_zeros(BR_SHAPE(n), dtype), *b = br_neg(a);
            check_same_bits(br_maximum(a, b), a);
            check_same_bits(br_maximum(b, a), b);
            check_same_bits(br_minimum(a, b), a);
            check_same_bits(br_minimum(b, a), b);
            br_scope_end(scope);
        }
}

Test(between, signs_of_zero)
{
    with_every_variant(signs_of_zero);
}

/* The expected numbers are PyTorch's, for dy = 4. */
Test(between, xlogy_of_zeros_infinities_and_nan)
{
    br_scope *scope = br_scope_begin();
    br_tensor *a = leaf(br_from_f64(BR_SHAPE(8), (double[]){ 0, 0, 0, 0, 0, -0.0, 1, 2 }));
    br_tensor *b = leaf(br_from_f64(BR_SHAPE(8), (double[]){ 0, -1, 2, nan_, inf, -0.0, 0, 3 }));
    br_tensor *y = br_xlogy(a, b);
    br_backward_with(y, BR_OPTIONS(br_backward, .gradient = br_full(BR_SHAPE(8), 4, BR_F64)));
    check_values(y, 8, (double[]){ 0, 0, 0, nan_, 0, 0, -inf, 2 * log(3) }, 1e-15);
    check_values(br_grad_of(a), 8, (double[]){ 0, 0, 4 * log(2), nan_, inf, 0, -inf, 4 * log(3) },
                 1e-15);
    check_values(br_grad_of(b), 8, (double[]){ nan_, 0, 0, nan_, 0, nan_, inf, 8.0 / 3 }, 1e-15);
    br_scope_end(scope);
}

Test(between, other_dtypes)
{
    br_scope *scope = br_scope_begin();
    br_tensor *i = br_from_i64(BR_SHAPE(2), (int64_t[]){ INT64_MIN, 7 });
    br_tensor *j = br_from_i64(BR_SHAPE(2), (int64_t[]){ INT64_MAX, -7 });
    check_equals(br_maximum(i, j), (double)INT64_MAX, 7);
    check_equals(br_minimum(i, j), (double)INT64_MIN, -7);
    br_tensor *p = br_from_bool(BR_SHAPE(3), (bool[]){ true, true, false });
    br_tensor *q = br_from_bool(BR_SHAPE(3), (bool[]){ true, false, false });
    check_equals(br_maximum(p, q), 1, 1, 0);
    check_equals(br_minimum(p, q), 1, 0, 0);
    check_equals(br_logical_xor(p, q), 0, 1, 0);
    br_scope_end(scope);
}

/* Weights 0 and 1 give exactly `start` and `end`. */
Test(between, lerp)
{
    br_scope *scope = br_scope_begin();
    br_tensor *start = br_from_f64(BR_SHAPE(3), (double[]){ 1e16, -3, 0.1 });
    br_tensor *end = br_from_f64(BR_SHAPE(3), (double[]){ 1, 5, 0.7 });
    check_same_bits(br_lerp_scalar(start, end, 0), start);
    check_same_bits(br_lerp_scalar(start, end, 1), end);
    br_tensor *weight = br_from_f64(BR_SHAPE(2, 1), (double[]){ 0.25, -2 });
    br_tensor *y = br_lerp(br_narrow(start, 0, 1, 1), br_narrow(end, 0, 1, 1), weight);
    check_shape(y, BR_SHAPE(2, 1));
    check_equals(y, -1, -19);
    check_fails(br_lerp(start, end, br_zeros(BR_SHAPE(2), BR_F64)),
                "lerp: start and end [3] and weight [2]");
    check_fails(br_lerp(start, end, br_zeros(BR_SHAPE(3), BR_F32)),
                "lerp: start [3] is f64 and weight [3] is f32");
    br_scope_end(scope);
}

Test(between, isnan_isinf_isfinite)
{
    br_scope *scope = br_scope_begin();
    for (br_dtype dtype = BR_F32; dtype <= BR_F64; dtype++) {
        br_tensor *x =
            br_to(br_from_f64(BR_SHAPE(5), (double[]){ 0, -1e30, inf, -inf, nan_ }), dtype);
        check_equals(br_isnan(x), 0, 0, 0, 0, 1);
        check_equals(br_isinf(x), 0, 0, 1, 1, 0);
        check_equals(br_isfinite(x), 1, 1, 0, 0, 0);
    }
    br_tensor *i = br_zeros(BR_SHAPE(2), BR_I64);
    check_equals(br_isnan(i), 0, 0);
    check_equals(br_isinf(i), 0, 0);
    check_equals(br_isfinite(i), 1, 1);
    br_scope_end(scope);
}
