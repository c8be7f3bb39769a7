/* ops/kernels/math.h - functions of one float; part of variant.c, which defines the type `real`.
 *
 * For f64 they are libm's. For f32 they are our own, so that loops over them become vector code. */
#ifndef BR_KERNELS_MATH_H
#define BR_KERNELS_MATH_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#ifdef BR_KERNEL_F64

static inline double real_exp(double x)
{
    return exp(x);
}

static inline double real_log(double x)
{
    return log(x);
}

static inline double real_sqrt(double x)
{
    return sqrt(x);
}

static inline double real_erf(double x)
{
    return erf(x);
}

static inline double real_tanh(double x)
{
    return tanh(x);
}

static inline double real_pow(double a, double b)
{
    return pow(a, b);
}

#else

/* Polynomials are minimax fits of the relative error of the whole function (Remez' exchange). All
 * of it is free of branches, so that loops over it become vector code; comparisons are turned so
 * that NaN passes. */

static inline uint32_t bits_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static inline float float_of(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

#    define LN2_HIGH 0x1.62e4p-1f /* its products with exponents are exact */
#    define LN2_LOW  0x1.7f7d1cp-20f

/* exp(x) = 2^n exp(r) with n the nearest integer to x / ln 2. Twice half of n keeps 2^n in range
 * where the result is infinite or denormal. Error below 1 ulp. */
static inline float real_exp(float x)
{
    const float shift =
        0x1.8p23f; /* adding it rounds to an integer, which the low bits then hold */
    x = x > 89 ? 89 : x;
    x = x < -104 ? -104 : x;
    float shifted = x * 0x1.715476p0f + shift;
    float n = shifted - shift;
    float r = x - n * LN2_HIGH - n * LN2_LOW;
    float p = 1.38145988e-3f;
    p = p * r + 8.36871658e-3f;
    p = p * r + 4.16683890e-2f;
    p = p * r + 1.66665211e-1f;
    p = p * r + 0.49999994f;
    p = 1 + (r + r * r * p);
    int32_t exponent = (int32_t)(bits_of(shifted) - bits_of(shift));
    int32_t half = exponent >> 1;
    return p * float_of((uint32_t)(half + 127) << 23) *
           float_of((uint32_t)(exponent - half + 127) << 23);
}

/* log(2^n (1 + f)) = n ln 2 + log(1 + f), with 1 + f in [sqrt 1/2, sqrt 2) and
 * log(1 + f) = 2 atanh(s) = f - s (f - s^2 P(s^2)), s = f / (2 + f). Error below 1 ulp. */
static inline float real_log(float x)
{
    bool denormal = x < 0x1p-126f;
    uint32_t bits = bits_of(denormal ? x * 0x1p23f : x);
    int32_t n = (int32_t)(bits - 0x3f3504f3u) >> 23;
    float f = float_of(bits - ((uint32_t)n << 23)) - 1;
    float e = (float)(denormal ? n - 23 : n);
    float s = f / (2 + f);
    float z = s * s;
    float p = 2.35822931e-1f;
    p = p * z + 2.85373002e-1f;
    p = p * z + 4.00003344e-1f;
    p = p * z + 6.66666627e-1f;
    float y = e * LN2_HIGH + (f - (s * (f - z * p) - e * LN2_LOW));
    y = x < INFINITY ? y : x;
    y = x > 0 ? y : (x == 0 ? -INFINITY : NAN);
    return y;
}

static inline float real_sqrt(float x)
{
    return sqrtf(x);
}

/* (1 - erf(t)) exp(t^2) for t >= 0 (in use up to 10, where exp(-t^2) ends), a polynomial of
 * u = 1 / (1 + 0.3 t). */
static inline float erfc_scaled(float t)
{
    float u = 1 / (1 + 0.3f * t);
    float p = -0.129532695f;
    p = p * u + 0.485614687f;
    p = p * u - 0.51239413f;
    p = p * u + 0.547866285f;
    p = p * u - 9.47632566e-2f;
    p = p * u + 0.214980111f;
    p = p * u + 0.148323372f;
    p = p * u + 0.170717791f;
    p = p * u + 0.169187829f;
    return p * u;
}

/* x P(x^2) up to 1, 1 - erfc(x) beyond. Error below 2 ulp. */
static inline float real_erf(float x)
{
    float t = fabsf(x), z = x * x;
    float p = 7.85384836e-5f;
    p = p * z - 8.01019021e-4f;
    p = p * z + 5.18832728e-3f;
    p = p * z - 2.6853811e-2f;
    p = p * z + 0.112835854f;
    p = p * z - 0.37612626f;
    p = p * z + 0.128379107f;
    float near = x + x * p;
    float far = copysignf(1 - real_exp(-z) * erfc_scaled(t), x);
    return t < 1 ? near : far;
}

/* x + x^3 P(x^2) up to 0.625, 1 - 2 / (exp(2x) + 1) beyond. Error below 2 ulp. */
static inline float real_tanh(float x)
{
    float t = fabsf(x), z = x * x;
    float p = -5.71704516e-3f;
    p = p * z + 2.0650588e-2f;
    p = p * z - 5.37434965e-2f;
    p = p * z + 0.133314908f;
    p = p * z - 0.333332837f;
    float near = x + x * (z * p);
    float far = copysignf(1 - 2 / (real_exp(2 * t) + 1), x);
    return t < 0.625f ? near : far;
}

static inline float real_pow(float a, float b)
{
    return powf(a, b);
}

#endif

/* ---- Logistic function and Gaussian error linear unit ---------------------------------------- */

static inline real real_sigmoid(real x)
{
    return 1 / (1 + real_exp(-x));
}

#define INV_SQRT_2    ((real)0.70710678118654752440)
#define INV_SQRT_2_PI ((real)0.39894228040143267794)
#define SQRT_8_BY_PI  ((real)1.59576912160573071176)

/* The normal distribution Phi(x) = (1 + erf(x / sqrt 2)) / 2, given e = exp(-x^2 / 2). */
static inline real normal_cdf(real x, real e)
{
#ifdef BR_KERNEL_F64
    (void)e;
    return 0.5 * erfc(-x * INV_SQRT_2);
#else
    float tail = 0.5f * e * erfc_scaled(fabsf(x) * INV_SQRT_2);
    return x < 0 ? tail : 1 - tail;
#endif
}

static inline real gelu_erf(real x)
{
    return x * normal_cdf(x, real_exp((real)-0.5 * x * x));
}

/* Phi(x) + x phi(x), with the density phi(x) = exp(-x^2 / 2) / sqrt(2 pi). */
static inline real gelu_erf_slope(real x)
{
    real e = real_exp((real)-0.5 * x * x);
    return normal_cdf(x, e) + x * INV_SQRT_2_PI * e;
}

/* (1 + tanh(z / 2)) / 2 = sigmoid(z), so the tanh form is x sigmoid(z). */
static inline real gelu_tanh(real x)
{
    return x * real_sigmoid(SQRT_8_BY_PI * (x + (real)0.044715 * x * x * x));
}

static inline real gelu_tanh_slope(real x)
{
    real s = real_sigmoid(SQRT_8_BY_PI * (x + (real)0.044715 * x * x * x));
    real slope = SQRT_8_BY_PI * (1 + 3 * (real)0.044715 * x * x);
    return s + x * s * (1 - s) * slope;
}

#endif
