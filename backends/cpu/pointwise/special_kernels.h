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

/* Returns sin(pi x) / (pi x), given its sine, which has the rounding of pi x that PyTorch has. */
ALWAYS_INLINE real sinc(real x, real sine)
{
    const real y = sine / ((real)M_PI * x);
    return x == 0 ? 1 : y;
}

/* Returns x, or the number that replaces a NaN, infinity or -infinity. */
ALWAYS_INLINE real nan_to_num(real x, real nan, real above, real below)
{
    return x != x ? nan : x == (real)INFINITY ? above : x == (real)-INFINITY ? below : x;
}

#endif
