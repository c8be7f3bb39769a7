/* backends/cpu/math.h - functions of one float; part of variant.c, which defines the type `real`.
 *
 * The f64 functions call libm, except exp_negative() and exp_gradual(). Most f32 functions are our
 * own, without branches, so that loops over them can be vectorized. They reduce the argument to a
 * small interval, evaluate a polynomial there by Horner's rule, and undo the reduction:
 *
 *     exp x = 2^n exp r             r = x - n ln 2, with ln 2 in two parts (Cody and Waite, 1980)
 *     log x = n ln 2 + log(1 + f)   x = 2^n (1 + f), from the bits of x
 *     tanh x = (1 - z) / (1 + z)    z = exp(-2x)
 *     erf x = x + x P(x^2)          for |x| < 1; beyond, from Phi
 *     1 - Phi(x) = exp P(x)         with a polynomial P; GELU is x Phi(x)
 *
 * fit_math.py prints the coefficients. The functions' comments give their errors. A result depends
 * on the argument only, so loops may skip or repeat elements. */
#ifndef BR_KERNELS_MATH_H
#define BR_KERNELS_MATH_H

#include "backends/cpu/hints.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#ifdef BR_KERNEL_F64

ALWAYS_INLINE double real_exp(double x)
{
    return exp(x);
}

/* Returns exp(x) 2^(shift - 1.5 x 2^52 - 1023), which must be neither denormal nor infinite. The
 * code can be vectorized. x = n ln 2 + r with |r| <= ln 2 / 2; the truncated terms of the Taylor
 * series in r are 2^-57 of the value. Adding `shift`, which is 1.5 x 2^52 plus the exponent's bias,
 * rounds to n, and leaves n in the low bits of the sum. Error below 1 ulp. */
ALWAYS_INLINE double exp_shifted(double x, double shift)
{
    double shifted = x * 0x1.71547652b82fep0 + shift, n = shifted - shift;
    double r = x - n * 0x1.62e42feep-1 - n * 0x1.a39ef35793c76p-33;
    double p = 1.0 / 6227020800;
    p = p * r + 1.0 / 479001600;
    p = p * r + 1.0 / 39916800;
    p = p * r + 1.0 / 3628800;
    p = p * r + 1.0 / 362880;
    p = p * r + 1.0 / 40320;
    p = p * r + 1.0 / 5040;
    p = p * r + 1.0 / 720;
    p = p * r + 1.0 / 120;
    p = p * r + 1.0 / 24;
    p = p * r + 1.0 / 6;
    p = p * r + 0.5;
    uint64_t bits;
    memcpy(&bits, &shifted, sizeof bits);
    bits <<= 52;
    double power;
    memcpy(&power, &bits, sizeof power);
    return (1 + (r + r * r * p)) * power;
}

#    define EXP_SHIFT  (0x1.8p52 + 1023)
#    define EXP_NORMAL -708. /* exp(x) is a normal number from here on */
#    define EXP_ZERO   -746. /* exp(x) rounds to 0 from here down */

/* Returns exp(x) for x <= 0, but 0 below EXP_NORMAL. */
ALWAYS_INLINE double exp_negative(double x)
{
    double y = exp_shifted(x, EXP_SHIFT);
    return x < EXP_NORMAL ? 0 : y;
}

/* Returns exp(x) for x <= 0, including denormal results, which are computed scaled by 2^512 first.
 */
ALWAYS_INLINE double exp_gradual(double x)
{
    const bool small = x < EXP_NORMAL;
    x = x < EXP_ZERO ? EXP_ZERO : x;
    return exp_shifted(x, small ? EXP_SHIFT + 512 : EXP_SHIFT) * (small ? 0x1p-512 : 1);
}

ALWAYS_INLINE double real_log(double x)
{
    return log(x);
}

ALWAYS_INLINE double real_sqrt(double x)
{
    return sqrt(x);
}

ALWAYS_INLINE double real_erf(double x)
{
    return erf(x);
}

ALWAYS_INLINE double real_tanh(double x)
{
    return tanh(x);
}

ALWAYS_INLINE double real_floor(double x)
{
    return floor(x);
}

ALWAYS_INLINE double real_ceil(double x)
{
    return ceil(x);
}

/* Rounds to the nearest integer, ties to even. */
ALWAYS_INLINE double real_round(double x)
{
    return rint(x);
}

/* Returns exp(x) - 1 for x <= 0. */
ALWAYS_INLINE double expm1_negative(double x)
{
    return expm1(x);
}

ALWAYS_INLINE double real_log1p(double x)
{
    return log1p(x);
}

#else

/* The polynomials are minimax fits of the relative error of the whole function, by fit_math.py. The
 * functions have no branches, so that loops over them can be vectorized. Comparisons are written so
 * that NaN propagates. */

ALWAYS_INLINE uint32_t bits_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

ALWAYS_INLINE float float_of(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

#    define LN2_HIGH 0x1.62e4p-1f /* its products with exponents are exact */
#    define LN2_LOW  0x1.7f7d1cp-20f

/* Returns exp(r) - 1 for |r| <= ln 2 / 2. */
ALWAYS_INLINE float expm1_small(float r)
{
    float p = 1.38145988e-3f;
    p = p * r + 8.36871658e-3f;
    p = p * r + 4.16683890e-2f;
    p = p * r + 1.66665211e-1f;
    p = p * r + 0.49999994f;
    return r + r * r * p;
}

/* Returns exp(x - n ln 2) - 1, with n the integer nearest to x / ln 2. Adding `shift`, which is 1.5
 * x 2^23 plus a small integer, rounds to n, and leaves n plus that integer in the low bits of
 * *shifted. */
ALWAYS_INLINE float expm1_reduced(float x, float shift, float *shifted)
{
    *shifted = x * 0x1.715476p0f + shift;
    float n = *shifted - shift;
    return expm1_small(x - n * LN2_HIGH - n * LN2_LOW);
}

/* Error below 1 ulp. 2^n is applied as two factors, since 2^n itself is out of range if the result
 * is infinite or denormal. exp(89) is infinite, and exp(-104) rounds to 0. */
ALWAYS_INLINE float real_exp(float x)
{
    const float shift = 0x1.8p23f;
    float shifted;
    x = x > 89 ? 89 : x;
    x = x < -104 ? -104 : x;
    float p = 1 + expm1_reduced(x, shift, &shifted);
    int32_t n = (int32_t)(bits_of(shifted) - bits_of(shift)), half = n >> 1;
    return p * float_of((uint32_t)(half + 127) << 23) * float_of((uint32_t)(n - half + 127) << 23);
}

/* Returns the same as real_exp() for |x| <= 87. The shift includes the exponent's bias. */
ALWAYS_INLINE float exp_ordinary(float x)
{
    float shifted;
    float p = 1 + expm1_reduced(x, 0x1.8p23f + 127, &shifted);
    return p * float_of(bits_of(shifted) << 23);
}

#    define EXP_NORMAL -87.f  /* exp(x) is a normal number from here on */
#    define EXP_ZERO   -104.f /* exp(x) rounds to 0 from here down */

/* Returns the same as real_exp() for x <= 0, but 0 below EXP_NORMAL. */
ALWAYS_INLINE float exp_negative(float x)
{
    float y = exp_ordinary(x);
    return x < EXP_NORMAL ? 0 : y;
}

/* Returns the same as real_exp() for x <= 0. Denormal results are computed scaled by 2^64 first. */
ALWAYS_INLINE float exp_gradual(float x)
{
    const float shift = 0x1.8p23f + 127;
    const bool small = x < EXP_NORMAL;
    float shifted;
    x = x < EXP_ZERO ? EXP_ZERO : x;
    float p = 1 + expm1_reduced(x, small ? shift + 64 : shift, &shifted);
    return p * float_of(bits_of(shifted) << 23) * (small ? 0x1p-64f : 1);
}

/* Splits x = 2^n (1 + f) with 1 + f in [sqrt 1/2, sqrt 2), given the bits of a positive x that is
 * neither denormal nor infinite. Returns n. 0x3f3504f3 are the bits of sqrt 1/2. */
ALWAYS_INLINE int32_t split_bits(uint32_t bits, float *f)
{
    int32_t n = (int32_t)(bits - 0x3f3504f3u) >> 23;
    *f = float_of(bits - ((uint32_t)n << 23)) - 1;
    return n;
}

/* Returns n ln 2 + log(1 + f), with log(1 + f) = f - f^2 / 2 + f^3 P(f). Error below 1 ulp. */
ALWAYS_INLINE float log_of_parts(float n, float f)
{
    float z = f * f;
    float p = -7.63565749e-2f;
    p = p * f + 1.27633289e-1f;
    p = p * f - 1.31605819e-1f;
    p = p * f + 1.42015532e-1f;
    p = p * f - 1.66232988e-1f;
    p = p * f + 2.00012341e-1f;
    p = p * f - 2.50008225e-1f;
    p = p * f + 3.33333313e-1f;
    float y = (p * f - 0.5f) * z + n * LN2_LOW;
    return n * LN2_HIGH + (f + y);
}

ALWAYS_INLINE float real_log(float x)
{
    bool denormal = x < 0x1p-126f;
    float f;
    int32_t n = split_bits(bits_of(denormal ? x * 0x1p23f : x), &f);
    float y = log_of_parts((float)(denormal ? n - 23 : n), f);
    y = x < INFINITY ? y : x;
    y = x > 0 ? y : (x == 0 ? -INFINITY : NAN);
    return y;
}

/* Returns the same as real_log() for 2^-126 <= x < infinity. */
ALWAYS_INLINE float log_ordinary(float x)
{
    float f;
    int32_t n = split_bits(bits_of(x), &f);
    return log_of_parts((float)n, f);
}

ALWAYS_INLINE float real_sqrt(float x)
{
    return sqrtf(x);
}

/* Returns the tail of the normal distribution, 1 - Phi(t) = erfc(t / sqrt 2) / 2 for t >= 0, as the
 * exponential of a polynomial. The error is 3e-8 times the tail to the power 1/4: about the
 * rounding error of a float at t = 0. The relative error is larger only where the tail is far below
 * 1. */
ALWAYS_INLINE float normal_tail(float t)
{
    float p = -1.27153805e-6f;
    p = p * t + 1.92492644e-5f;
    p = p * t - 9.23266562e-5f;
    p = p * t - 1.79310475e-4f;
    p = p * t + 4.99970792e-3f;
    p = p * t - 3.64543460e-2f;
    p = p * t - 0.318278462f;
    p = p * t - 0.797887683f;
    p = p * t - 0.693147123f;
    return exp_negative(p);
}

/* Uses x + x P(x^2) for |x| < 1, and 1 - erfc(|x|) with the sign of x beyond. Error below 2 ulp. */
ALWAYS_INLINE float real_erf(float x)
{
    float t = fabsf(x), z = x * x;
    float p = 7.85384764e-5f;
    p = p * z - 8.01019021e-4f;
    p = p * z + 5.18832728e-3f;
    p = p * z - 2.6853811e-2f;
    p = p * z + 0.112835854f;
    p = p * z - 0.37612626f;
    p = p * z + 0.128379166f;
    float near = x + x * p;
    float far = copysignf(1 - 2 * normal_tail(1.41421356f * t), x);
    return t < 1 ? near : far;
}

/* Computes (1 - exp(-2x)) / (1 + exp(-2x)) for |x|. Both terms are computed without cancellation
 * from the parts of exp(-2x) = 2^n (1 + p). The result is 1 beyond 20. Error below 2 ulp. */
ALWAYS_INLINE float real_tanh(float x)
{
    float t = fabsf(x), shifted;
    float p = expm1_reduced(-2 * (t > 20 ? 20 : t), 0x1.8p23f + 127, &shifted);
    float power = float_of(bits_of(shifted) << 23);
    return copysignf((power * p + (power - 1)) / (power * p + (power + 1)), x);
}

ALWAYS_INLINE float real_floor(float x)
{
    return floorf(x);
}

ALWAYS_INLINE float real_ceil(float x)
{
    return ceilf(x);
}

/* Rounds to the nearest integer, ties to even. */
ALWAYS_INLINE float real_round(float x)
{
    return rintf(x);
}

/* Returns exp(x) - 1 for x <= 0. Error below 2 ulp: there is little cancellation in the difference
 * for x < -0.34. */
ALWAYS_INLINE float expm1_negative(float x)
{
    float near = expm1_small(x), far = exp_negative(x) - 1;
    return x > -0.34f ? near : far;
}

/* Adds the rounding error of 1 + x to the logarithm as a correction. Error below 2 ulp for x >= 0.
 */
ALWAYS_INLINE float real_log1p(float x)
{
    float sum = 1 + x, lost = x - (sum - 1);
    float y = real_log(sum) + lost / sum;
    return sum < INFINITY ? y : sum;
}

#endif

/* Returns whether exp(x), for x <= 0, is denormal or just above that. */
ALWAYS_INLINE bool is_denormal_exp(real x)
{
    return x < EXP_NORMAL && x > EXP_ZERO;
}

/* ---- Bounds ---------------------------------------------------------------------------------- */

/* Return the maximum and the minimum of a and b; NaN if either is NaN. */
ALWAYS_INLINE real real_maximum(real a, real b)
{
    return b > a || b != b ? b : a;
}

ALWAYS_INLINE real real_minimum(real a, real b)
{
    return b < a || b != b ? b : a;
}

/* Returns whether clamp passes the gradient at x. An infinite bound does not clamp. */
ALWAYS_INLINE bool inside(real x, real min, real max)
{
    return (x > min || min == -(real)INFINITY) && (x < max || max == (real)INFINITY);
}

/* Returns whether hardtanh stops the gradient at x. Without branches, as kernels need it. */
ALWAYS_INLINE bool outside(real x, real min, real max)
{
    return (x <= min) | (x >= max);
}

/* Returns a, times the slope unless x is positive. */
ALWAYS_INLINE real leaky(real a, real x, real slope)
{
    const real below = a * slope;
    return x > 0 ? a : below;
}

/* Interpolates from the nearer end, so that weights 0 and 1 return the ends exactly. */
ALWAYS_INLINE real real_lerp(real start, real end, real weight)
{
    real way = end - start;
    return weight < (real)0.5 && weight > (real)-0.5 ? start + weight * way
                                                     : end - way * (1 - weight);
}

/* ---- Logistic function and Gaussian error linear unit ---------------------------------------- */

ALWAYS_INLINE real real_sigmoid(real x)
{
    return 1 / (1 + real_exp(-x));
}

#define INV_SQRT_2    ((real)0.70710678118654752440)
#define INV_SQRT_2_PI ((real)0.39894228040143267794)
#define SQRT_8_BY_PI  ((real)1.59576912160573071176)

/* The normal distribution Phi(x) = (1 + erf(x / sqrt 2)) / 2 and its density, with the constant
 * factor INV_SQRT_2_PI. */
#ifdef BR_KERNEL_F64
ALWAYS_INLINE real normal_cdf(real x)
{
    return 0.5 * erfc(-x * INV_SQRT_2);
}

ALWAYS_INLINE real normal_density(real x)
{
    return INV_SQRT_2_PI * exp(-0.5 * x * x);
}
#else
ALWAYS_INLINE real normal_cdf(real x)
{
    float tail = normal_tail(fabsf(x));
    return x < 0 ? tail : 1 - tail;
}

ALWAYS_INLINE real normal_density(real x)
{
    return INV_SQRT_2_PI * exp_negative(-0.5f * x * x);
}
#endif

ALWAYS_INLINE real gelu_erf(real x)
{
    return x * normal_cdf(x);
}

ALWAYS_INLINE real gelu_erf_slope(real x)
{
    return normal_cdf(x) + x * normal_density(x);
}

/* (1 + tanh(z / 2)) / 2 = sigmoid(z), so GELU's tanh approximation (Hendrycks and Gimpel, 2016),
 * whose constant is 0.044715, is x sigmoid(z). */
ALWAYS_INLINE real gelu_tanh(real x)
{
    return x * real_sigmoid(SQRT_8_BY_PI * (x + (real)0.044715 * x * x * x));
}

/* s = sigmoid(z), 1 - s = s exp(-z). x is clamped to -10 .. 10, so that powers of x and exp(-z) do
 * not overflow. At these limits the derivative is already 0 or 1 to the last digit. */
ALWAYS_INLINE real gelu_tanh_slope(real x)
{
    real t = x > 10 ? 10 : x;
    t = t < -10 ? -10 : t;
    real e = real_exp(-SQRT_8_BY_PI * (t + (real)0.044715 * t * t * t));
    real s = 1 / (1 + e);
    real slope = SQRT_8_BY_PI * (1 + 3 * (real)0.044715 * t * t);
    return s + t * s * (s * e) * slope;
}

/* ---- Other activations ----------------------------------------------------------------------- */

/* Returns sigmoid(x), and sets *rest to 1 - sigmoid(x), both without cancellation. */
ALWAYS_INLINE real sigmoid_parts(real x, real *rest)
{
    real z = real_exp(x < 0 ? x : -x);
    real large = 1 / (1 + z), small = z / (1 + z);
    *rest = x < 0 ? large : small;
    return x < 0 ? small : large;
}

ALWAYS_INLINE real silu(real x)
{
    const real z = real_exp(x < 0 ? x : -x);
    return (x < 0 ? x * z : x) / (1 + z);
}

ALWAYS_INLINE real silu_slope(real x)
{
    real rest, s = sigmoid_parts(x, &rest);
    return s * (1 + x * rest);
}

ALWAYS_INLINE real hardsigmoid(real x)
{
    return real_minimum(real_maximum(x + 3, 0), 6) / 6;
}

/* The derivative of x hardsigmoid(x). */
ALWAYS_INLINE real hardswish_slope(real x)
{
    const real between = x / 3 + (real)0.5;
    return x <= -3 ? 0 : x >= 3 ? 1 : between;
}

/* d^2 / (2 bound) for |d| < bound, else |d| - bound / 2. The square is computed as |d| / 2 * (|d| /
 * bound), because d^2 underflows if the bound is tiny. */
ALWAYS_INLINE real smooth_l1(real d, real bound)
{
    const real size = d < 0 ? -d : d;
    const real flat = size * (real)0.5 * (size / bound), steep = size - (real)0.5 * bound;
    return size >= bound ? steep : flat;
}

ALWAYS_INLINE real smooth_l1_slope(real d, real bound)
{
    const real size = d < 0 ? -d : d, flat = d / bound;
    return size >= bound ? (real)((d > 0) - (d < 0)) : flat;
}

/* d^2 / 2 for |d| < bound, else bound (|d| - bound / 2). */
ALWAYS_INLINE real huber(real d, real bound)
{
    const real size = d < 0 ? -d : d;
    const real flat = size * (real)0.5 * size, steep = (size - (real)0.5 * bound) * bound;
    return size >= bound ? steep : flat;
}

ALWAYS_INLINE real huber_slope(real d, real bound)
{
    const real above = d > bound ? bound : d;
    return above < -bound ? -bound : above;
}

ALWAYS_INLINE real elu(real x, real alpha)
{
    real below = alpha * expm1_negative(x < 0 ? x : 0);
    return x < 0 ? below : x;
}

ALWAYS_INLINE real elu_slope(real x, real alpha)
{
    real below = alpha * real_exp(x < 0 ? x : 0);
    return x <= 0 ? below : 1;
}

/* The loss of the logit x and target t: -t log s - (1 - t) log(1 - s) with s = sigmoid(x), where
 * -log s = softplus(-x) = max(-x, 0) + log(1 + exp(-|x|)), and similarly for 1 - s. Nothing cancels
 * where s is close to 0 or 1, also in the derivative (1 - t) s - t (1 - s). */
ALWAYS_INLINE real logistic_loss(real x, real t)
{
    const real size = x < 0 ? -x : x, factor = x > 0 ? 1 - t : t;
    return (factor == 0 ? 0 : factor * size) + real_log1p(real_exp(-size));
}

ALWAYS_INLINE real logistic_loss_slope(real x, real t)
{
    real rest, s = sigmoid_parts(x, &rest);
    return (1 - t) * s - t * rest;
}

/* Returns log(1 + exp(beta x)) / beta, or x itself if beta x is above the threshold. */
ALWAYS_INLINE real softplus(real x, real beta, real threshold)
{
    real z = x * beta, t = z < 0 ? z : -z;
    real y = ((z > 0 ? z : 0) + real_log1p(real_exp(t))) / beta;
    return z > threshold ? x : y;
}

ALWAYS_INLINE real softplus_slope(real x, real beta, real threshold)
{
    real z = x * beta;
    return z > threshold ? 1 : real_sigmoid(z);
}

/* REAL(function) is the libm function for the type. */
#ifdef BR_KERNEL_F64
#    define REAL(function) function
#else
#    define REAL(function) function##f
#endif

/* Returns a - b floor(a / b), which has the sign of b, given rest = fmod(a, b). */
ALWAYS_INLINE real floor_rest(real rest, real b)
{
    return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

/* Returns the floor of the exact quotient, given rest = fmod(a, b). floor(a / b) may be larger,
 * because a / b is rounded. */
ALWAYS_INLINE real floor_divide_of(real rest, real a, real b)
{
    real quotient = (a - rest) / b;
    quotient = rest != 0 && (rest < 0) != (b < 0) ? quotient - 1 : quotient;
    real whole = real_floor(quotient);
    whole = quotient - whole > (real)0.5 ? whole + 1 : whole;
    return b == 0 ? a / b : quotient == 0 ? REAL(copysign)(0, a / b) : whole;
}

/* Returns a log(b), which is 0 for a = 0 unless b is NaN. */
ALWAYS_INLINE real xlogy(real a, real b)
{
    const real y = a * real_log(b);
    return a == 0 && b == b ? 0 : y;
}

#endif
