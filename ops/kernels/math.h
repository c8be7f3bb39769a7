/* ops/kernels/math.h - functions of one float; part of variant.c, which defines the type `real`.
 *
 * For f64 they are libm's, but for exp_negative(). For f32 they are our own, so that loops over
 * them become vector code. */
#ifndef BR_KERNELS_MATH_H
#define BR_KERNELS_MATH_H

#include "ops/kernels/hints.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#ifdef BR_KERNEL_F64

ALWAYS_INLINE double real_exp(double x)
{
    return exp(x);
}

/* exp for x <= 0 as vector code; 0 below -708, where it would soon be denormal. x = n ln 2 + r with
 * |r| <= ln 2 / 2, of whose Taylor series 2^-57 of the value is left out. Adding `shift`, 1.5 x
 * 2^52 and the exponent's bias, rounds to n, which the sum's low bits hold then. Error below 1 ulp.
 */
ALWAYS_INLINE double exp_negative(double x)
{
    const double shift = 0x1.8p52 + 1023;
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
    double power, y;
    memcpy(&power, &bits, sizeof power);
    y = (1 + (r + r * r * p)) * power;
    return x < -708 ? 0 : y;
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

ALWAYS_INLINE double real_sin(double x)
{
    return sin(x);
}

ALWAYS_INLINE double real_cos(double x)
{
    return cos(x);
}

ALWAYS_INLINE double real_floor(double x)
{
    return floor(x);
}

ALWAYS_INLINE double real_ceil(double x)
{
    return ceil(x);
}

/* To the nearest integer, halves to the even one. */
ALWAYS_INLINE double real_round(double x)
{
    return rint(x);
}

/* exp(x) - 1 for x <= 0. */
ALWAYS_INLINE double expm1_negative(double x)
{
    return expm1(x);
}

ALWAYS_INLINE double real_log1p(double x)
{
    return log1p(x);
}

#else

/* Polynomials are minimax fits of the relative error of the whole function, by fit_math.py. All
 * of it is free of branches, so that loops over it become vector code; comparisons are turned so
 * that NaN passes. */

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

/* exp(r) - 1 for |r| <= ln 2 / 2. */
ALWAYS_INLINE float expm1_small(float r)
{
    float p = 1.38145988e-3f;
    p = p * r + 8.36871658e-3f;
    p = p * r + 4.16683890e-2f;
    p = p * r + 1.66665211e-1f;
    p = p * r + 0.49999994f;
    return r + r * r * p;
}

/* exp(x - n ln 2) - 1, with n the integer nearest to x / ln 2. Adding `shift`, 1.5 x 2^23 and a
 * small integer, rounds to n, which the sum's low bits hold then (plus that integer). */
ALWAYS_INLINE float expm1_reduced(float x, float shift, float *shifted)
{
    *shifted = x * 0x1.715476p0f + shift;
    float n = *shifted - shift;
    return expm1_small(x - n * LN2_HIGH - n * LN2_LOW);
}

/* Error below 1 ulp. 2^n is two factors: alone it is out of range where the result is infinite or
 * denormal. */
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

/* The same numbers for |x| <= 87; the shift has the exponent's bias. */
ALWAYS_INLINE float exp_ordinary(float x)
{
    float shifted;
    float p = 1 + expm1_reduced(x, 0x1.8p23f + 127, &shifted);
    return p * float_of(bits_of(shifted) << 23);
}

/* The same for x <= 0, and 0 below -87, where it would soon be denormal. */
ALWAYS_INLINE float exp_negative(float x)
{
    float y = exp_ordinary(x);
    return x < -87 ? 0 : y;
}

/* x = 2^n (1 + f) with 1 + f in [sqrt 1/2, sqrt 2), for the bits of a positive number that is
 * neither denormal nor infinite. */
ALWAYS_INLINE int32_t split_bits(uint32_t bits, float *f)
{
    int32_t n = (int32_t)(bits - 0x3f3504f3u) >> 23;
    *f = float_of(bits - ((uint32_t)n << 23)) - 1;
    return n;
}

/* n ln 2 + log(1 + f), log(1 + f) = f - f^2 / 2 + f^3 P(f). Error below 1 ulp. */
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

/* The same numbers for 2^-126 <= x < infinity. */
ALWAYS_INLINE float log_ordinary(float x)
{
    float f;
    int32_t n = split_bits(bits_of(x), &f);
    return log_of_parts((float)n, f);
}

/* a^b = 2^(b log2 a) for 2^-126 <= a < infinity and finite b, in double: its error is that of the
 * last rounding and a twentieth more. log2(1 + f) = f P(f). As in exp(), adding `shift` rounds. */
ALWAYS_INLINE float pow_ordinary(float a, float b)
{
    float part;
    const double n = split_bits(bits_of(a), &part), f = (double)part;
    double p = 0.075538629265134105;
    p = p * f - 0.14144842885723941;
    p = p * f + 0.14495044497117845;
    p = p * f - 0.14349026041432361;
    p = p * f + 0.15878356324351897;
    p = p * f - 0.18027103759186008;
    p = p * f + 0.20617283328859878;
    p = p * f - 0.24045433650842007;
    p = p * f + 0.28853739433674924;
    p = p * f - 0.36067365532290319;
    p = p * f + 0.48089836017677523;
    p = p * f - 0.72134752096312893;
    p = p * f + 1.4426950408708785;
    double x = (double)b * (n + f * p);
    x = x > 200 ? 200 : x;
    x = x < -200 ? -200 : x;
    const double shift = 0x1.8p52 + 1023;
    double shifted = x + shift, r = x - (shifted - shift);
    p = 0.00015461444724808513;
    p = p * r + 0.0013400428177711937;
    p = p * r + 0.0096180566784320395;
    p = p * r + 0.055503272266698947;
    p = p * r + 0.24022650922289554;
    p = p * r + 0.69314720670283292;
    p = p * r + 1;
    uint64_t bits;
    memcpy(&bits, &shifted, sizeof bits);
    bits <<= 52;
    double power;
    memcpy(&power, &bits, sizeof power);
    return (float)(p * power);
}

ALWAYS_INLINE float real_sqrt(float x)
{
    return sqrtf(x);
}

/* The normal distribution's tail 1 - Phi(t) = erfc(t / sqrt 2) / 2 for t >= 0, as the exponential
 * of a polynomial. The error is 3e-8 of the tail to the power 1/4: that of a float at 0, in
 * proportion larger only where the tail is far below a float's resolution of 1. */
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

/* x P(x^2) up to 1, 1 - erfc(x) beyond. Error below 2 ulp. */
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

/* (1 - exp(-2x)) / (1 + exp(-2x)) for x >= 0, both without cancellation from the parts of exp(-2x)
 * = 2^n (1 + p); 1 beyond 20. Error below 2 ulp. */
ALWAYS_INLINE float real_tanh(float x)
{
    float t = fabsf(x), shifted;
    float p = expm1_reduced(-2 * (t > 20 ? 20 : t), 0x1.8p23f + 127, &shifted);
    float power = float_of(bits_of(shifted) << 23);
    return copysignf((power * p + (power - 1)) / (power * p + (power + 1)), x);
}

ALWAYS_INLINE float real_sin(float x)
{
    return sinf(x);
}

ALWAYS_INLINE float real_cos(float x)
{
    return cosf(x);
}

ALWAYS_INLINE float real_floor(float x)
{
    return floorf(x);
}

ALWAYS_INLINE float real_ceil(float x)
{
    return ceilf(x);
}

/* To the nearest integer, halves to the even one. */
ALWAYS_INLINE float real_round(float x)
{
    return rintf(x);
}

/* exp(x) - 1 for x <= 0. Error below 2 ulp: beyond -0.34 the difference keeps two thirds. */
ALWAYS_INLINE float expm1_negative(float x)
{
    float near = expm1_small(x), far = exp_negative(x) - 1;
    return x > -0.34f ? near : far;
}

/* What x loses when it is added to 1 is added to the logarithm. Error below 2 ulp for x >= 0. */
ALWAYS_INLINE float real_log1p(float x)
{
    float sum = 1 + x, lost = x - (sum - 1);
    float y = real_log(sum) + lost / sum;
    return sum < INFINITY ? y : sum;
}

#endif

/* ---- Bounds ---------------------------------------------------------------------------------- */

/* The larger and the smaller of two; NaN if one is. */
ALWAYS_INLINE real real_maximum(real a, real b)
{
    return b > a || b != b ? b : a;
}

ALWAYS_INLINE real real_minimum(real a, real b)
{
    return b < a || b != b ? b : a;
}

/* Whether the gradient of clamping passes x; an infinite bound is none. */
ALWAYS_INLINE bool inside(real x, real min, real max)
{
    return (x > min || min == -(real)INFINITY) && (x < max || max == (real)INFINITY);
}

/* From the nearer end, so that weights 0 and 1 give the ends. */
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

/* The normal distribution Phi(x) = (1 + erf(x / sqrt 2)) / 2 and its density, whose constant factor
 * is INV_SQRT_2_PI. */
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

/* (1 + tanh(z / 2)) / 2 = sigmoid(z), so the tanh form is x sigmoid(z). */
ALWAYS_INLINE real gelu_tanh(real x)
{
    return x * real_sigmoid(SQRT_8_BY_PI * (x + (real)0.044715 * x * x * x));
}

/* s = sigmoid(z), 1 - s = s exp(-z). Beyond 10 the slope is 0 or 1 to the last digit, and before
 * powers of x and exp(-z) overflow. */
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

/* sigmoid(x), and 1 - sigmoid(x) in *rest, both without cancellation. */
ALWAYS_INLINE real sigmoid_parts(real x, real *rest)
{
    real z = real_exp(x < 0 ? x : -x);
    real large = 1 / (1 + z), small = z / (1 + z);
    *rest = x < 0 ? large : small;
    return x < 0 ? small : large;
}

ALWAYS_INLINE real silu(real x)
{
    real rest;
    return x * sigmoid_parts(x, &rest);
}

ALWAYS_INLINE real silu_slope(real x)
{
    real rest, s = sigmoid_parts(x, &rest);
    return s * (1 + x * rest);
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

/* log(1 + exp(beta x)) / beta; x itself where beta x is above the threshold. */
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

/* libm's function for the type. */
#ifdef BR_KERNEL_F64
#    define REAL(function) function
#else
#    define REAL(function) function##f
#endif

/* a - b floor(a / b): of b's sign, unlike fmod's. */
ALWAYS_INLINE real real_remainder(real a, real b)
{
    real rest = REAL(fmod)(a, b);
    return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

/* The floor of the exact quotient, which a / b, rounded, might exceed. */
ALWAYS_INLINE real real_floor_divide(real a, real b)
{
    if (b == 0)
        return a / b;
    real rest = REAL(fmod)(a, b), quotient = (a - rest) / b;
    if (rest != 0 && (rest < 0) != (b < 0))
        quotient -= 1;
    if (quotient == 0)
        return REAL(copysign)(0, a / b);
    real whole = REAL(floor)(quotient);
    return quotient - whole > (real)0.5 ? whole + 1 : whole;
}

/* log(exp(a) + exp(b)). */
ALWAYS_INLINE real logaddexp(real a, real b)
{
    real most = a > b ? a : b;
    if (REAL(fabs)(most) == INFINITY && a == b)
        return a;
    return most + REAL(log1p)(REAL(exp)(-REAL(fabs)(a - b)));
}

#endif
