/* ops/kernels/math.h - functions of one float; part of variant.c, which defines the type `real`. */
#ifndef BR_KERNELS_MATH_H
#define BR_KERNELS_MATH_H

#include <math.h>

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

static inline float real_exp(float x)
{
    return expf(x);
}

static inline float real_log(float x)
{
    return logf(x);
}

static inline float real_sqrt(float x)
{
    return sqrtf(x);
}

static inline float real_erf(float x)
{
    return erff(x);
}

static inline float real_tanh(float x)
{
    return tanhf(x);
}

static inline float real_pow(float a, float b)
{
    return powf(a, b);
}

#endif

/* ---- Gaussian error linear unit -------------------------------------------------------------- */

#define INV_SQRT_2   ((real)0.70710678118654752440)
#define SQRT_2_BY_PI ((real)0.79788456080286535588)

/* x Phi(x), with the normal distribution's Phi(x) = (1 + erf(x / sqrt 2)) / 2. */
static inline real gelu_erf(real x)
{
    return (real)0.5 * x * (1 + real_erf(x * INV_SQRT_2));
}

/* Phi(x) + x phi(x), with the density phi(x) = exp(-x^2 / 2) / sqrt(2 pi). */
static inline real gelu_erf_slope(real x)
{
    real density = (real)0.5 * INV_SQRT_2 * SQRT_2_BY_PI * real_exp((real)-0.5 * x * x);
    return (real)0.5 * (1 + real_erf(x * INV_SQRT_2)) + x * density;
}

static inline real gelu_tanh(real x)
{
    real t = real_tanh(SQRT_2_BY_PI * (x + (real)0.044715 * x * x * x));
    return (real)0.5 * x * (1 + t);
}

static inline real gelu_tanh_slope(real x)
{
    real t = real_tanh(SQRT_2_BY_PI * (x + (real)0.044715 * x * x * x));
    real inner = SQRT_2_BY_PI * (1 + 3 * (real)0.044715 * x * x);
    return (real)0.5 * (1 + t) + (real)0.5 * x * (1 - t * t) * inner;
}

#endif
