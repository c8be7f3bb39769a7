/* backends/cpu/pointwise/special_kernels.h - kernels of special functions; part of variant.c. */
#ifndef BR_SPECIAL_KERNELS_H
#define BR_SPECIAL_KERNELS_H

#include "backends/cpu/math.h"
#include "backends/cpu/pointwise/special.h"

/* Returns the inverse of the error function. For f32, this is x times a polynomial in w = -log(1 -
 * x^2), or in its root for x near 1 (Giles, 2012). */
ALWAYS_INLINE real real_erfinv(real x)
{
#ifdef BR_KERNEL_F64
    return br__erfinv(x);
#else
    const real w = -real_log((1 - x) * (1 + x));
    const real a = w - 2.5F, b = real_sqrt(w) - 3;
    real near_0 = 2.81022636e-08F, near_1 = -0.000200214257F;
    near_0 = 3.43273939e-07F + near_0 * a;
    near_0 = -3.5233877e-06F + near_0 * a;
    near_0 = -4.39150654e-06F + near_0 * a;
    near_0 = 0.00021858087F + near_0 * a;
    near_0 = -0.00125372503F + near_0 * a;
    near_0 = -0.00417768164F + near_0 * a;
    near_0 = 0.246640727F + near_0 * a;
    near_0 = 1.50140941F + near_0 * a;
    near_1 = 0.000100950558F + near_1 * b;
    near_1 = 0.00134934322F + near_1 * b;
    near_1 = -0.00367342844F + near_1 * b;
    near_1 = 0.00573950773F + near_1 * b;
    near_1 = -0.0076224613F + near_1 * b;
    near_1 = 0.00943887047F + near_1 * b;
    near_1 = 1.00167406F + near_1 * b;
    near_1 = 2.83297682F + near_1 * b;
    const real y = (w < 5 ? near_0 : near_1) * x;
    return (1 - x) * (1 + x) == 0 ? x * (real)INFINITY : y;
#endif
}

/* Returns the derivative of digamma of order n. The first one of x < 1/2 is reflected: (pi / sin(pi
 * x))^2 - psi'(1 - x), with the rounding of the sine's argument that PyTorch has. */
ALWAYS_INLINE real polygamma(real n, real x)
{
    if (n != 1)
        return (real)br__polygamma((double)n, (double)x);
    if (!(x < (real)0.5))
        return (real)br__trigamma((double)x);
    const double slope = M_PI / (double)REAL(sin)((real)M_PI * x);
    return (real)(slope * slope - br__trigamma(1 - (double)x));
}

/* Returns sin(t). For f32, t is reduced to the distance from the nearest multiple n of pi, in f64;
 * sin(t) is (-1)^n times the sine of the distance. From 2^40 on, multiples of pi are no longer
 * accurate enough, and the result is some number in -1 .. 1. */
ALWAYS_INLINE real sine_for_sinc(real t)
{
#ifdef BR_KERNEL_F64
    return sin(t);
#else
    const double n = rint((double)t * M_1_PI), limit = 1.5708;
    double distance = (double)t - n * M_PI;
    distance = distance > limit ? limit : distance < -limit ? -limit : distance;
    const real r = (real)distance, z = r * r;
    real p = 2.60190313e-06F;
    p = p * z - 0.000198074194F;
    p = p * z + 0.0083330255F;
    p = p * z - 0.166666567F;
    const real y = r + r * (p * z);
    return n - 2 * floor(n / 2) > 0 ? -y : y;
#endif
}

/* Returns sin(pi x) / (pi x), with the rounding of the sine's argument that PyTorch has. */
ALWAYS_INLINE real sinc(real x)
{
    const real t = (real)M_PI * x;
    return x == 0 ? 1 : sine_for_sinc(t) / t;
}

/* Returns x, or the number that replaces a NaN, infinity or -infinity. */
ALWAYS_INLINE real nan_to_num(real x, real nan, real above, real below)
{
    return x != x ? nan : x == (real)INFINITY ? above : x == (real)-INFINITY ? below : x;
}

#endif
