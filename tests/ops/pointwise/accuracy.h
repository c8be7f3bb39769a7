/* tests/ops/pointwise/accuracy.h - errors in units of the last place. */
#ifndef BR_TESTS_ACCURACY_H
#define BR_TESTS_ACCURACY_H

#include <brasa/tensor.h>
#include <math.h>

/* Returns the distance between neighbouring numbers of the dtype near `size`. */
static inline double resolution(double size, br_dtype dtype)
{
    int exponent, digits = dtype == BR_F32 ? 24 : 53, least = dtype == BR_F32 ? -125 : -1021;
    frexp(size, &exponent);
    return ldexp(1, (exponent < least ? least : exponent) - digits);
}

/* Returns true if both are equal, NaN, or within the tolerance. For f32, a `want` that is too large
 * counts as infinity. */
static inline bool agrees(double got, double want, double tolerance, br_dtype dtype)
{
    if (dtype == BR_F32 && isinf((float)want))
        want = (double)(float)want;
    return got == want || (isnan(got) && isnan(want)) || fabs(got - want) <= tolerance;
}

#endif
