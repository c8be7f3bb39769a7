/* tests/ops/pointwise/test_maximum_minimum.c - edge cases of maximum, minimum, fmax, fmin,
 * copysign, logit, gcd, lcm, xlogy, lerp, isnan, isinf and isfinite. */
#include "tests/ops/values.h"

TestSuite(between, .init = check_begin, .fini = check_end);

static const double nan_ = NAN, inf = INFINITY;

/* Checks the results and both gradients for dy = 4. */
static void check_between(br_tensor *(*f)(br_tensor *, br_tensor *), const double *want,
                          const double *da, const double *db)
{
    br_scope *scope = br_scope_begin();
    br_tensor *a = leaf(br_from_f64(BR_SHAPE(7), (double[]){ 1, 3, 2, nan_, 5, -inf, nan_ }));
    br_tensor *b = leaf(br_from_f64(BR_SHAPE(7), (double[]){ 2, 1, 2, 5, nan_, -inf, nan_ }));
    br_tensor *y = f(a, b);
    check_values(y, 7, want, 0);
    br_backward_options options =
        *BR_OPTIONS(br_backward, .gradient = br_full(BR_SHAPE(7), 4, BR_F64));
    br_backward_with(y, &options);
    check_values(br_grad_of(a), 7, da, 0);
    check_values(br_grad_of(b), 7, db, 0);
    br_scope_end(scope);
}

/* The expected numbers are PyTorch's. */
Test(between, ties_and_nan)
{
    check_between(br_maximum, (double[]){ 2, 3, 2, nan_, nan_, -inf, nan_ },
                  (double[]){ 0, 4, 2, 4, 4, 2, 4 }, (double[]){ 4, 0, 2, 4, 4, 2, 4 });
    check_between(br_minimum, (double[]){ 1, 1, 2, nan_, nan_, -inf, nan_ },
                  (double[]){ 4, 0, 2, 4, 4, 2, 4 }, (double[]){ 0, 4, 2, 4, 4, 2, 4 });
    check_between(br_fmax, (double[]){ 2, 3, 2, 5, 5, -inf, nan_ },
                  (double[]){ 0, 4, 2, 0, 4, 2, 4 }, (double[]){ 4, 0, 2, 4, 0, 2, 0 });
    check_between(br_fmin, (double[]){ 1, 1, 2, 5, 5, -inf, nan_ },
                  (double[]){ 4, 0, 2, 0, 4, 2, 4 }, (double[]){ 0, 4, 2, 4, 0, 2, 0 });
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
            check_same_bits(br_fmax(a, b), a);
            check_same_bits(br_fmax(b, a), b);
            check_same_bits(br_fmin(a, b), a);
            check_same_bits(br_fmin(b, a), b);
            check_same_bits(br_copysign(a, b), b);
            check_same_bits(br_copysign_scalar(a, -0.0), b);
            check_same_bits(br_copysign_scalar(b, 0), a);
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
    check_equals(br_fmax(i, j), (double)INT64_MAX, 7);
    check_equals(br_fmin(i, j), (double)INT64_MIN, -7);
    br_tensor *p = br_from_bool(BR_SHAPE(3), (bool[]){ true, true, false });
    br_tensor *q = br_from_bool(BR_SHAPE(3), (bool[]){ true, false, false });
    check_equals(br_maximum(p, q), 1, 1, 0);
    check_equals(br_minimum(p, q), 1, 0, 0);
    check_equals(br_fmax(p, q), 1, 1, 0);
    check_equals(br_fmin(p, q), 1, 0, 0);
    check_equals(br_logical_xor(p, q), 0, 1, 0);
    br_scope_end(scope);
}

/* The expected numbers are PyTorch's, for dy = 4, in all dtypes that have them. The sign of NaN is
 * copied, too. */
Test(between, copysign)
{
    static const br_dtype dtypes[] = { BR_F32, BR_F64, BR_BF16, BR_F16 };
    for (int i = 0; i < 4; i++) {
        br_scope *scope = br_scope_begin();
        br_tensor *from = br_from_f64(BR_SHAPE(7), (double[]){ 1, -1, 0, -0.0, inf, nan_, -3 });
        br_tensor *to =
            br_from_f64(BR_SHAPE(7), (double[]){ -0.0, 0, -1, 1, -1, 1, copysign(nan_, -1) });
        br_tensor *a = leaf(br_to(br_clone(from), dtypes[i])), *b = leaf(br_to(to, dtypes[i]));
        br_tensor *dy = br_full(BR_SHAPE(7), 4, dtypes[i]), *y = br_copysign(a, b);
        check_equals(y, -1, 1, 0, 0, -inf, nan_, -3);
        check_equals(br_reciprocal(br_narrow(y, 0, 2, 2)), -inf, inf);
        br_backward_with(y, BR_OPTIONS(br_backward, .gradient = dy));
        check_equals(br_grad_of(a), -4, -4, 0, 0, nan_, nan_, 4);
        check_equals(br_grad_of(b), 0, 0, 0, 0, 0, 0, 0);
        br_tensor *x = leaf(br_to(br_clone(from), dtypes[i])), *z = br_copysign_scalar(x, -1e300);
        check_equals(z, -1, -1, 0, 0, -inf, nan_, -3);
        check_equals(br_reciprocal(br_narrow(z, 0, 2, 2)), -inf, -inf);
        br_backward_with(z, BR_OPTIONS(br_backward, .gradient = dy));
        check_equals(br_grad_of(x), -4, 4, 0, 0, nan_, nan_, 4);
        br_scope_end(scope);
    }
    check_equals(br_copysign_scalar(br_ones(BR_SHAPE(2), BR_BOOL), nan_), 1, 1);
    cr_assert_eq(br_dtype_of(br_copysign_scalar(br_ones(BR_SHAPE(2), BR_U8), -1)), BR_F32);
}

/* Checks the logit of 0, 0.05, 0.2, 0.5, 1, 1.5, -1, NaN and infinity, and the gradients. */
static void check_logit(double eps, br_dtype dtype, const double *want, const double *dx)
{
    static const double x[] = { 0, 0.0625, 0.25, 0.5, 1, 1.5, -1, NAN, INFINITY };
    br_scope *scope = br_scope_begin();
    br_tensor *t = leaf(br_to(br_from_f64(BR_SHAPE(9), x), dtype)), *y = br_logit(t, eps);
    check_values(y, 9, want, 1e-15);
    br_backward_with(y, BR_OPTIONS(br_backward, .gradient = br_ones_like(y)));
    check_values(br_grad_of(t), 9, dx, 1e-14);
    br_scope_end(scope);
}

/* Without eps, numbers outside of 0 .. 1 have no logit. With eps, they count as its bounds, whose
 * gradient is 0. If eps is larger than 1 - eps, PyTorch compares with eps first. */
Test(between, logit)
{
    const double a = -log(15), b = -log(3), c = log(7 / 3.), none = BR_NONE_F64;
    const double slopes[] = { inf, 256 / 15., 16 / 3., 4, inf, nan_, nan_, nan_, nan_ };
    check_logit(none, BR_F64, (double[]){ -inf, a, b, 0, inf, nan_, nan_, nan_, nan_ }, slopes);
    check_logit(-1, BR_F64, (double[]){ -inf, a, b, 0, inf, nan_, nan_, nan_, nan_ }, slopes);
    check_logit(0, BR_F64, (double[]){ -inf, a, b, 0, inf, inf, -inf, nan_, inf },
                (double[]){ inf, 256 / 15., 16 / 3., 4, inf, 0, 0, nan_, 0 });
    check_logit(0.25, BR_F64, (double[]){ b, b, b, 0, -b, -b, b, nan_, -b },
                (double[]){ 0, 0, 16 / 3., 4, 0, 0, 0, nan_, 0 });
    check_logit(0.7, BR_F64, (double[]){ c, c, c, c, -c, -c, c, nan_, -c },
                (double[]){ 0, 0, 0, 0, 0, 0, 0, nan_, 0 });
    /* The bounds 0.1 and 0.9 are rounded to bf16, as in PyTorch. */
    br_tensor *x = leaf(br_to(br_from_f64(BR_SHAPE(3), (double[]){ 0.1, 0.9, 0.95 }), BR_BF16));
    check_equals(br_logit(x, 0.1), -2.203125, 2.1875, 2.1875);
    br_backward(br_sum(br_logit(x, 0.1)));
    check_equals(br_grad_of(x), 11.125, 10.9375, 0);
}

/* The largest divisors and multiples wrap around; i8 and u8 are computed in i64. */
Test(between, gcd_and_lcm)
{
    br_tensor *a = br_from_i64(BR_SHAPE(6), (int64_t[]){ 12, -8, 0, 0, INT64_MIN, INT64_MIN });
    br_tensor *b = br_from_i64(BR_SHAPE(6), (int64_t[]){ 18, 12, -5, 0, INT64_MIN, 3 });
    check_equals(br_gcd(a, b), 6, 4, 5, 0, (double)INT64_MIN, 1);
    check_equals(br_lcm(a, b), 36, 24, 0, 0, (double)INT64_MIN, (double)INT64_MIN);
    br_tensor *small = br_to(br_from_i64(BR_SHAPE(2), (int64_t[]){ 100, -128 }), BR_I8);
    br_tensor *other = br_to(br_from_i64(BR_SHAPE(2), (int64_t[]){ 99, -128 }), BR_I8);
    check_equals(br_gcd(small, other), 1, -128);
    check_equals(br_lcm(small, other), -84, -128);
    cr_assert_eq(br_dtype_of(br_gcd(small, br_to(other, BR_U8))), BR_I32);
    check_fails(br_gcd(br_ones(BR_SHAPE(2), BR_BOOL), br_ones(BR_SHAPE(2), BR_BOOL)),
                "gcd: a [2] is bool, must be an integer dtype");
    check_fails(br_lcm(a, br_ones(BR_SHAPE(6), BR_F32)),
                "lcm: b [6] is f32, must be an integer dtype");
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
