/* backends/cpu/pointwise/special_kernels.h - kernels of special functions; part of variant.c. */
#ifndef BR_SPECIAL_KERNELS_H
#define BR_SPECIAL_KERNELS_H

#include "backends/cpu/math.h"
#include "backends/cpu/pointwise/special.h"

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

/* Returns x, or the number that replaces a NaN, infinity or -infinity. */
ALWAYS_INLINE real nan_to_num(real x, real nan, real above, real below)
{
    return x != x ? nan : x == (real)INFINITY ? above : x == (real)-INFINITY ? below : x;
}

#endif
