/* tensor/half.h - conversions between f32 and the floats of 16 bits.
 *
 * BF16 is the upper half of an F32. F16 has 5 bits of exponent with bias 15, and 10 of fraction;
 * F32 has 8 with bias 127, and 23. Conversions to 16 bits round to the nearest, ties to even; what
 * is too large becomes infinite. A NaN keeps its sign and the upper bits of its payload, and
 * becomes quiet; conversion from BF16 keeps all its bits. There are no branches, so that loops can
 * be vectorized, and the results do not depend on whether the processor flushes subnormals. */
#ifndef BR_TENSOR_HALF_H
#define BR_TENSOR_HALF_H

#include <stdint.h>
#include <string.h>

static inline uint32_t br__bits_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static inline float br__of_bits(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static inline float br__from_bf16(uint16_t half)
{
    return br__of_bits((uint32_t)half << 16);
}

static inline uint16_t br__bf16(float x)
{
    const uint32_t bits = br__bits_of(x), rounded = bits + 0x7fff + (bits >> 16 & 1);
    const uint32_t is_nan = (bits & 0x7fffffff) > 0x7f800000;
    return (uint16_t)((is_nan ? bits | 0x400000 : rounded) >> 16);
}

/* A normal number is shifted to the place of an F32's fields, and the difference of the biases is
 * added. A subnormal one is converted as an integer, and multiplied by 2^-24, which is exact. */
static inline float br__from_f16(uint16_t half)
{
    enum { SHIFT = 23 - 10, SUBNORMAL = 1 << 10, AN_INFINITY = 31 << 10 };
    const uint32_t bias = (uint32_t)(127 - 15) << 23, magnitude = half & 0x7fff;
    uint32_t normal = (magnitude << SHIFT) + bias;
    if (magnitude >= AN_INFINITY)
        normal += bias; /* exponent 31 + 112 + 112 = 255 */
    if (magnitude > AN_INFINITY)
        normal |= UINT32_C(1) << 22; /* a quiet NaN */
    const uint32_t subnormal = br__bits_of((float)(int32_t)magnitude * 0x1p-24f);
    return br__of_bits((uint32_t)(half & 0x8000) << 16 |
                       (magnitude < SUBNORMAL ? subnormal : normal));
}

/* The sum of 1/2 and a number below 2^-14, the smallest normal F16, is rounded to a multiple of
 * 2^-24, like a subnormal F16; its lower bits are that multiple. */
static inline uint16_t br__f16(float x)
{
    enum { SHIFT = 23 - 10, AN_INFINITY = 31 << 10 };
    const uint32_t bias = (uint32_t)(127 - 15) << 10, bits = br__bits_of(x);
    const uint32_t magnitude = bits & 0x7fffffff;
    const uint32_t normal = ((magnitude + 0xfff + (magnitude >> SHIFT & 1)) >> SHIFT) - bias;
    const uint32_t subnormal = br__bits_of(br__of_bits(magnitude) + 0.5f) - br__bits_of(0.5f);
    uint32_t half = magnitude < br__bits_of(0x1p-14f) ? subnormal : normal;
    if (magnitude >= br__bits_of(0x1p16f))
        half = AN_INFINITY;
    if (magnitude > 0x7f800000)
        half = AN_INFINITY | 0x200 | (magnitude >> SHIFT & 0x3ff);
    return (uint16_t)((bits >> 16 & 0x8000) | half);
}

#endif
