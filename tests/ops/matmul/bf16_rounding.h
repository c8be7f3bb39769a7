/* tests/ops/matmul/bf16_rounding.h - rounding to bf16 in plain C, the reference of the tests. */
#ifndef BR_TESTS_BF16_ROUNDING_H
#define BR_TESTS_BF16_ROUNDING_H

#include <float.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

/* Returns the nearest bf16 number, ties to even; 0 for a denormal number. */
static inline float nearest_bf16(float x)
{
    uint32_t bits;
    if (isnan(x))
        return NAN;
    if (fabsf(x) < FLT_MIN)
        return 0;
    memcpy(&bits, &x, sizeof bits);
    bits = (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000;
    memcpy(&x, &bits, sizeof x);
    return x;
}

#endif
