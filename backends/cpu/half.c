/* backends/cpu/half.c - conversion of 16-bit floats to f32 by bit operations.
 *
 * BF16 is the upper half of an F32. A normal F16 is shifted to the place of an F32's fields, and
 * the difference of the exponents' biases is added; a subnormal F16 is converted as an integer, and
 * multiplied by 2^-24. All float operations are exact, and none has a subnormal operand or result.
 * So the result depends neither on the rounding mode nor on flushing of subnormals. There are no
 * branches, so that the loops can be vectorized. */
#include "backends/cpu/half.h"

#include <string.h>

/* F16 has 5 bits of exponent with bias 15, and 10 of fraction; F32 has 8 with bias 127, and 23. */
enum { F16_SHIFT = 23 - 10, F16_SUBNORMAL = 1 << 10, F16_INFINITY = 31 << 10 };

static uint32_t bits_of_f16(uint16_t half)
{
    const uint32_t bias = (uint32_t)(127 - 15) << 23; /* difference of the biases */
    uint32_t sign = (uint32_t)(half & 0x8000) << 16, magnitude = half & 0x7fff, normal, subnormal;
    normal = (magnitude << F16_SHIFT) + bias;
    if (magnitude >= F16_INFINITY)
        normal += bias; /* exponent 31 + 112 + 112 = 255 */
    if (magnitude > F16_INFINITY)
        normal |= UINT32_C(1) << 22; /* a quiet NaN */
    float tiny = (float)(int32_t)magnitude * 0x1p-24f;
    memcpy(&subnormal, &tiny, sizeof subnormal);
    return sign | (magnitude < F16_SUBNORMAL ? subnormal : normal);
}

static uint32_t bits_of_bf16(uint16_t half)
{
    return (uint32_t)half << 16;
}

/* Converts n elements. `bits_of` is a constant after inlining. */
static inline void widen(float *out, const char *in, int64_t n, uint32_t (*bits_of)(uint16_t))
{
    for (int64_t i = 0; i < n; i++) {
        uint16_t half;
        memcpy(&half, in + 2 * i, sizeof half);
        uint32_t bits = bits_of(half);
        memcpy(&out[i], &bits, sizeof bits);
    }
}

void br__f32_from_f16(float *out, const char *in, int64_t n)
{
    widen(out, in, n, bits_of_f16);
}

void br__f32_from_bf16(float *out, const char *in, int64_t n)
{
    widen(out, in, n, bits_of_bf16);
}
