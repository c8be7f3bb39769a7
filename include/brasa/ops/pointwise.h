/* brasa/ops/pointwise.h - arithmetic, functions of each element, comparisons, dropout; part of
 * brasa/ops.h. Implemented in ops/pointwise/. */
#ifndef BRASA_OPS_POINTWISE_H
#define BRASA_OPS_POINTWISE_H

#include <brasa/autograd.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Arithmetic (ops/pointwise/arithmetic.c) ------------------------------------------------- */

/* A scalar has no dtype: see br_result_type_scalar(). Integer arithmetic wraps around; sums of
 * bools are "or", products "and". A scalar is a double, to which C rounds integers larger than
 * 2^53: pass them as an i64 tensor without dimensions (br_from_i64()) to the functions of two
 * tensors. The operators of brasa.hpp do so. */

BR_API br_tensor *br_add(br_tensor *a, br_tensor *b); /* a + b */
BR_API br_tensor *br_sub(br_tensor *a, br_tensor *b); /* a - b */
BR_API br_tensor *br_mul(br_tensor *a, br_tensor *b); /* a * b */
BR_API br_tensor *br_div(br_tensor *a, br_tensor *b); /* a / b; f32 for integers */
BR_API br_tensor *br_pow(br_tensor *a, br_tensor *b); /* a ^ b */
BR_API br_tensor *br_neg(br_tensor *x);               /* -x */
BR_API br_tensor *br_add_scalar(br_tensor *a, double s);
BR_API br_tensor *br_sub_scalar(br_tensor *a, double s);
BR_API br_tensor *br_rsub_scalar(br_tensor *a, double s); /* s - a */
BR_API br_tensor *br_mul_scalar(br_tensor *a, double s);
BR_API br_tensor *br_div_scalar(br_tensor *a, double s);  /* f32 for integers */
BR_API br_tensor *br_rdiv_scalar(br_tensor *a, double s); /* s / a; f32 for integers */
BR_API br_tensor *br_pow_scalar(br_tensor *a, double s);

/* ---- Unary functions (ops/pointwise/unary_binary.c, activation.c) ---------------------------- */

BR_API br_tensor *br_exp(br_tensor *x);
BR_API br_tensor *br_log(br_tensor *x);
BR_API br_tensor *br_sqrt(br_tensor *x);
BR_API br_tensor *br_rsqrt(br_tensor *x); /* 1 / sqrt(x) */
BR_API br_tensor *br_sin(br_tensor *x);
BR_API br_tensor *br_cos(br_tensor *x);
BR_API br_tensor *br_erf(br_tensor *x);
BR_API br_tensor *br_tanh(br_tensor *x);
BR_API br_tensor *br_sigmoid(br_tensor *x); /* 1 / (1 + exp(-x)) */
BR_API br_tensor *br_relu(br_tensor *x);    /* max(x, 0); the gradient at 0 is 0; also integers */

/* These also support i64. The gradient of br_abs() at 0 is 0; that of the others is 0
 * everywhere. */
BR_API br_tensor *br_abs(br_tensor *x);
BR_API br_tensor *br_sign(br_tensor *x); /* -1, 0 or 1; 0 for NaN */
BR_API br_tensor *br_floor(br_tensor *x);
BR_API br_tensor *br_ceil(br_tensor *x);
BR_API br_tensor *br_round(br_tensor *x); /* half to even */
/* Rounds to `decimals` decimal places or, if negative, to -decimals positions left of the decimal
 * point; f32, f64. */
BR_API br_tensor *br_round_decimals(br_tensor *x, int64_t decimals);
/* Clamps x to min .. max; the result is max if min > max. Also supports i64. -INFINITY and INFINITY
 * mean no bound. If a bound is NaN, all elements become NaN; NaN elements stay NaN. The gradient is
 * 0 unless x is strictly between the bounds. */
BR_API br_tensor *br_clamp(br_tensor *x, double min, double max);

/* Returns x with `nan` in place of NaN, and with posinf and neginf in place of the infinities.
 * BR_NONE_F64 means PyTorch's defaults: 0, and the largest and the smallest number of the dtype.
 * The gradient of a replaced element is 0. */
BR_API br_tensor *br_nan_to_num(br_tensor *x, double nan, double posinf, double neginf);

BR_API br_tensor *br_silu(br_tensor *x); /* x sigmoid(x) */
/* Returns x if x > 0, else negative_slope * x (PyTorch's default is 0.01). */
BR_API br_tensor *br_leaky_relu(br_tensor *x, double negative_slope);
/* Returns x if x > 0, else alpha (exp(x) - 1) (PyTorch's default is 1). */
BR_API br_tensor *br_elu(br_tensor *x, double alpha);
/* Returns log(1 + exp(beta x)) / beta, or x if beta x > threshold (PyTorch's defaults are 1 and
 * 20). */
BR_API br_tensor *br_softplus(br_tensor *x, double beta, double threshold);

BR_API br_tensor *br_exp2(br_tensor *x);
BR_API br_tensor *br_expm1(br_tensor *x); /* exp(x) - 1 */
BR_API br_tensor *br_log2(br_tensor *x);
BR_API br_tensor *br_log10(br_tensor *x);
BR_API br_tensor *br_log1p(br_tensor *x); /* log(1 + x) */
BR_API br_tensor *br_sinc(br_tensor *x);  /* sin(pi x) / (pi x); 1 at 0 */
BR_API br_tensor *br_tan(br_tensor *x);
BR_API br_tensor *br_asin(br_tensor *x);
BR_API br_tensor *br_acos(br_tensor *x);
BR_API br_tensor *br_atan(br_tensor *x);
BR_API br_tensor *br_sinh(br_tensor *x);
BR_API br_tensor *br_cosh(br_tensor *x);
BR_API br_tensor *br_asinh(br_tensor *x);
BR_API br_tensor *br_acosh(br_tensor *x);
BR_API br_tensor *br_atanh(br_tensor *x);
BR_API br_tensor *br_erfc(br_tensor *x);  /* 1 - erf(x) */
BR_API br_tensor *br_erfcx(br_tensor *x); /* exp(x^2) erfc(x) */
/* Integers and bool give f32. */
BR_API br_tensor *br_lgamma(br_tensor *x);  /* log |gamma(x)| */
BR_API br_tensor *br_digamma(br_tensor *x); /* the derivative of log gamma */
/* Returns the derivative of order n of br_digamma(); n must be at least 0. */
BR_API br_tensor *br_polygamma(int64_t n, br_tensor *x);
BR_API br_tensor *br_erfinv(br_tensor *x); /* the inverse of erf */
BR_API br_tensor *br_reciprocal(br_tensor *x);
BR_API br_tensor *br_square(br_tensor *x);      /* br_square() and br_trunc() also support i64 */
BR_API br_tensor *br_trunc(br_tensor *x);       /* rounds towards 0; the gradient is 0 */
BR_API br_tensor *br_frac(br_tensor *x);        /* x - trunc(x) */
BR_API br_tensor *br_logsigmoid(br_tensor *x);  /* log sigmoid(x) */
BR_API br_tensor *br_softsign(br_tensor *x);    /* x / (1 + |x|) */
BR_API br_tensor *br_mish(br_tensor *x);        /* x tanh(softplus(x)) */
BR_API br_tensor *br_relu6(br_tensor *x);       /* min(max(x, 0), 6) */
BR_API br_tensor *br_hardsigmoid(br_tensor *x); /* relu6(x + 3) / 6 */
BR_API br_tensor *br_hardswish(br_tensor *x);   /* x hardsigmoid(x) */
BR_API br_tensor *br_selu(br_tensor *x);        /* 1.0507 elu(x, 1.6733) */
BR_API br_tensor *br_tanhshrink(br_tensor *x);  /* x - tanh(x) */
/* Returns log(x / (1 - x)), the inverse of br_sigmoid(): NaN outside of 0 .. 1. Unless eps is
 * BR_NONE_F64, PyTorch's default, or negative, x is clamped to eps .. 1 - eps first; the gradient
 * is 0 outside of these bounds. Integers and bool give f32. */
BR_API br_tensor *br_logit(br_tensor *x, double eps);
/* Clamps x to min .. max (PyTorch's defaults are -1 and 1). For integers, these are truncated. */
BR_API br_tensor *br_hardtanh(br_tensor *x, double min, double max);
/* Returns alpha elu(x / alpha, 1) (PyTorch's default is 1). */
BR_API br_tensor *br_celu(br_tensor *x, double alpha);
/* Both return 0 where |x| <= lambda (PyTorch's default is 0.5). Elsewhere br_hardshrink() returns
 * x, and br_softshrink() returns x moved towards 0 by lambda. */
BR_API br_tensor *br_hardshrink(br_tensor *x, double lambda);
BR_API br_tensor *br_softshrink(br_tensor *x, double lambda);
/* Returns x if x > threshold, else value. Also integers. */
BR_API br_tensor *br_threshold(br_tensor *x, double threshold, double value);
/* Gated linear unit. Returns the first half of dimension dim times the sigmoid of the second half
 * (PyTorch's default for dim is -1). */
BR_API br_tensor *br_glu(br_tensor *x, int64_t dim);
/* Returns x if x > 0, else weight * x. weight has one element, or one for each channel (dimension 1
 * of x). */
BR_API br_tensor *br_f_prelu(br_tensor *x, br_tensor *weight);

typedef enum br_gelu_approximate {
    BR_GELU_ERF,  /* x/2 (1 + erf(x / sqrt 2)) */
    BR_GELU_TANH, /* x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) */
} br_gelu_approximate;
/* Gaussian error linear unit, Hendrycks and Gimpel, 2016. */
BR_API br_tensor *br_gelu(br_tensor *x, br_gelu_approximate approximate);
/* The in-place variant; see brasa/ops/in_place.h. */
BR_API br_tensor *br_gelu_(br_tensor *a, br_gelu_approximate approximate);

/* ---- Functions of several tensors (ops/pointwise/maximum_minimum.c, unary_binary.c) ---------- */

/* Return the elementwise maximum or minimum, for any dtype; NaN if either element is NaN. Equal
 * elements share the gradient evenly. If one element is 0 and the other -0, a's is returned; in
 * PyTorch this depends on the element's position in a vector. */
BR_API br_tensor *br_maximum(br_tensor *a, br_tensor *b);
BR_API br_tensor *br_minimum(br_tensor *a, br_tensor *b);
/* The same, but the number if only one of the elements is NaN. Then its tensor gets the gradient;
 * if both are NaN, a does. */
BR_API br_tensor *br_fmax(br_tensor *a, br_tensor *b);
BR_API br_tensor *br_fmin(br_tensor *a, br_tensor *b);
/* Return |a| with the sign of b or s, also the sign of -0 and NaN; integers and bool give f32. The
 * gradient with respect to a is 0 for a = 0 and NaN if a is infinite or NaN, as in PyTorch; that
 * with respect to b is 0. */
BR_API br_tensor *br_copysign(br_tensor *a, br_tensor *b);
BR_API br_tensor *br_copysign_scalar(br_tensor *a, double s);
/* Clamps x elementwise to min .. max. One of the bounds may be NULL; all tensors broadcast. */
BR_API br_tensor *br_clamp_tensor(br_tensor *x, br_tensor *min, br_tensor *max);
/* Return input + value * tensor1 * tensor2, and input + value * tensor1 / tensor2. */
BR_API br_tensor *br_addcmul(br_tensor *input, br_tensor *tensor1, br_tensor *tensor2,
                             double value);
BR_API br_tensor *br_addcdiv(br_tensor *input, br_tensor *tensor1, br_tensor *tensor2,
                             double value);
/* f32, f64. */
BR_API br_tensor *br_atan2(br_tensor *a, br_tensor *b);     /* the angle of the point (b, a) */
BR_API br_tensor *br_hypot(br_tensor *a, br_tensor *b);     /* sqrt(a^2 + b^2) */
BR_API br_tensor *br_logaddexp(br_tensor *a, br_tensor *b); /* log(exp(a) + exp(b)) */
BR_API br_tensor *br_xlogy(br_tensor *a, br_tensor *b);     /* a log(b); 0 where a is 0 */
/* Division with a remainder. These also support i64, for which b must not contain 0. br_fmod()
 * returns the remainder of a / b with the sign of a, and br_remainder() the one with the sign of b.
 * br_floor_divide() returns floor(a / b). br_div_mode() is torch.div with rounding_mode. */
BR_API br_tensor *br_fmod(br_tensor *a, br_tensor *b);
BR_API br_tensor *br_remainder(br_tensor *a, br_tensor *b);
BR_API br_tensor *br_floor_divide(br_tensor *a, br_tensor *b);
typedef enum br_rounding_mode {
    BR_ROUNDING_NONE, /* like br_div() */
    BR_ROUNDING_TRUNC,
    BR_ROUNDING_FLOOR,
} br_rounding_mode;
BR_API br_tensor *br_div_mode(br_tensor *a, br_tensor *b, br_rounding_mode mode);
/* Returns start + weight (end - start); all three broadcast. f32, f64. */
BR_API br_tensor *br_lerp(br_tensor *start, br_tensor *end, br_tensor *weight);
BR_API br_tensor *br_lerp_scalar(br_tensor *start, br_tensor *end, double weight);

/* ---- Comparison and selection (ops/pointwise/compare.c) -------------------------------------- */

/* Compare tensors of any dtype. Return bool tensors, without gradients. */
BR_API br_tensor *br_eq(br_tensor *a, br_tensor *b);
BR_API br_tensor *br_ne(br_tensor *a, br_tensor *b);
BR_API br_tensor *br_lt(br_tensor *a, br_tensor *b);
BR_API br_tensor *br_le(br_tensor *a, br_tensor *b);
BR_API br_tensor *br_gt(br_tensor *a, br_tensor *b);
BR_API br_tensor *br_ge(br_tensor *a, br_tensor *b);
BR_API br_tensor *br_eq_scalar(br_tensor *a, double s);
BR_API br_tensor *br_ne_scalar(br_tensor *a, double s);
BR_API br_tensor *br_lt_scalar(br_tensor *a, double s);
BR_API br_tensor *br_le_scalar(br_tensor *a, double s);
BR_API br_tensor *br_gt_scalar(br_tensor *a, double s);
BR_API br_tensor *br_ge_scalar(br_tensor *a, double s);
/* Logical operations on any dtype: elements other than 0 are true. Return bool tensors. */
BR_API br_tensor *br_logical_and(br_tensor *a, br_tensor *b);
BR_API br_tensor *br_logical_or(br_tensor *a, br_tensor *b);
BR_API br_tensor *br_logical_xor(br_tensor *a, br_tensor *b);
BR_API br_tensor *br_logical_not(br_tensor *x);
/* Operate on the bits of integers, or on bools; without gradients. */
BR_API br_tensor *br_bitwise_and(br_tensor *a, br_tensor *b);
BR_API br_tensor *br_bitwise_or(br_tensor *a, br_tensor *b);
BR_API br_tensor *br_bitwise_xor(br_tensor *a, br_tensor *b);
BR_API br_tensor *br_bitwise_not(br_tensor *x);
/* Shift the bits of integers a by b. The result is 0, or -1 for a negative a shifted to the right,
 * if b is negative or larger than the number of bits. */
BR_API br_tensor *br_bitwise_left_shift(br_tensor *a, br_tensor *b);
BR_API br_tensor *br_bitwise_right_shift(br_tensor *a, br_tensor *b);
/* Return the greatest common divisor and the least common multiple of integers, without gradients.
 * Neither is negative unless it overflows. For 0 and b, they are |b| and 0. */
BR_API br_tensor *br_gcd(br_tensor *a, br_tensor *b);
BR_API br_tensor *br_lcm(br_tensor *a, br_tensor *b);
/* Return bool tensors, for any dtype; all integers are finite. */
BR_API br_tensor *br_isnan(br_tensor *x);
BR_API br_tensor *br_isinf(br_tensor *x);
BR_API br_tensor *br_isfinite(br_tensor *x);
/* Returns true where a == b or |a - b| <= atol + rtol |b|. With equal_nan, two NaNs are also close.
 * a and b broadcast (PyTorch's defaults are 1e-5, 1e-8 and false). */
BR_API br_tensor *br_isclose(br_tensor *a, br_tensor *b, double rtol, double atol, bool equal_nan);
/* Returns a where the tensor `condition`, bool or u8, is not 0, else b; all three broadcast. */
BR_API br_tensor *br_where(br_tensor *condition, br_tensor *a, br_tensor *b);
/* Returns x with `value` where the bool tensor `mask` is true; the two broadcast. */
BR_API br_tensor *br_masked_fill(br_tensor *x, br_tensor *mask, double value);
/* The same with a 0-d tensor as value, which is converted to x's dtype. */
BR_API br_tensor *br_masked_fill_tensor(br_tensor *x, br_tensor *mask, br_tensor *value);
/* Converts x to another dtype; returns x itself if it has that dtype. Floating-point numbers are
 * truncated to integers; any number other than 0 converts to true. The gradient is converted to x's
 * dtype. */
BR_API br_tensor *br_to(br_tensor *x, br_dtype dtype);
/* Copies x to another device; returns x itself if it is there. The gradient is copied to x's
 * device. */
BR_API br_tensor *br_to_device(br_tensor *x, br_device device);
/* Return true if a and b have the same shape and dtype, and all elements are equal (br_equal()) or
 * satisfy |a - b| <= atol + rtol |b| (br_allclose()). NaN is not equal to anything. Return false
 * while an error is pending. */
BR_API bool br_equal(br_tensor *a, br_tensor *b);
BR_API bool br_allclose(br_tensor *a, br_tensor *b, double rtol, double atol);

/* ---- Dropout (ops/pointwise/dropout.c): floating-point dtypes -------------------------------- */

/* If `training`, sets each element to 0 with probability p, 0 <= p <= 1, and multiplies the others
 * by 1 / (1 - p); otherwise returns x itself. An element is left out even if it is infinite or NaN,
 * where PyTorch gives NaN. Uses this thread's random number generator. */
BR_API br_tensor *br_f_dropout(br_tensor *x, double p, bool training);

#ifdef __cplusplus
}
#endif

#endif
