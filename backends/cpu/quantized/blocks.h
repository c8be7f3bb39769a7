/* backends/cpu/quantized/blocks.h - dequantizes the blocks of GGUF files; part of variant.c for
 * f32.
 *
 * The types ending in _0 and _1 have 32 elements and one scale, and the types ending in _1 also a
 * minimum. The types ending in _k have 256 elements in groups of 16 or 32, with a small integer
 * scale for each group, and one or two f16 scales for the block.
 *
 * Products of an f16 scale (11 bits) with a group's scale (at most 8 bits with the sign) and an
 * element (at most 6 bits) have at most 24 bits, so they are exact in f32. Only the subtraction or
 * addition of a minimum rounds. A compiler may therefore fuse it with the product, and the bits are
 * the same on all machines.
 *
 * Elements are written with the compiler's operators for vectors: left to itself, the compiler
 * would use vectors as long as the 16 bytes of the elements. */
#ifndef BR_KERNELS_QUANTIZED_BLOCKS_H
#define BR_KERNELS_QUANTIZED_BLOCKS_H

#include "backends/cpu/vector.h"
#include "tensor/block_types.h"
#include "tensor/half.h"

/* As many integers as a vector has floats. */
typedef int32_t ints __attribute__((vector_size(VECTOR_BYTES)));
typedef int32_t ints_at __attribute__((vector_size(VECTOR_BYTES), aligned(4), may_alias));
typedef uint32_t words_of_bits __attribute__((vector_size(VECTOR_BYTES)));

/* Return VECTOR bytes as integers. GCC does not convert vectors of bytes by one instruction. */
#if defined(__AVX512F__)
ALWAYS_INLINE ints ints_from(const unsigned char *bytes)
{
    return (ints)_mm512_cvtepu8_epi32(_mm_loadu_si128((const void *)bytes));
}
ALWAYS_INLINE ints ints_from_signed(const unsigned char *bytes)
{
    return (ints)_mm512_cvtepi8_epi32(_mm_loadu_si128((const void *)bytes));
}
#elif defined(__AVX2__)
ALWAYS_INLINE ints ints_from(const unsigned char *bytes)
{
    return (ints)_mm256_cvtepu8_epi32(_mm_loadl_epi64((const void *)bytes));
}
ALWAYS_INLINE ints ints_from_signed(const unsigned char *bytes)
{
    return (ints)_mm256_cvtepi8_epi32(_mm_loadl_epi64((const void *)bytes));
}
#else
ALWAYS_INLINE ints ints_from(const unsigned char *bytes)
{
    return (ints){ bytes[0], bytes[1], bytes[2], bytes[3] };
}
ALWAYS_INLINE ints ints_from_signed(const unsigned char *bytes)
{
    return (ints){ (int8_t)bytes[0], (int8_t)bytes[1], (int8_t)bytes[2], (int8_t)bytes[3] };
}
#endif

ALWAYS_INLINE void put_floats(float *to, vec numbers)
{
    *(vec_at *)to = numbers;
}

/* Returns the integers as floats. */
#define FLOATS(x) __builtin_convertvector((x), vec)

/* for (int i = 0; i < n; i += VECTOR) body, where n is a constant multiple of VECTOR. */
#define EACH(i, n, body)                    \
    UNROLLED                                \
    for (int i = 0; i < (n); i += VECTOR) { \
        body                                \
    }

ALWAYS_INLINE float f16_at(const unsigned char *p)
{
    uint16_t half;
    memcpy(&half, p, sizeof half);
    return br__from_f16(half);
}

ALWAYS_INLINE uint32_t bits_at(const unsigned char *p)
{
    uint32_t bits;
    memcpy(&bits, p, sizeof bits);
    return bits;
}

/* ---- Blocks of 32 ---------------------------------------------------------------------------- */

/* Of 16 bytes, the lower halves are the elements 0 to 15, and the upper halves 16 to 31. There is
 * no sum with a minimum of 0, which would make -0 positive. */
ALWAYS_INLINE void q4_0_block(float *restrict to, const unsigned char *restrict block)
{
    const float d = f16_at(block);
    EACH(i, 16, put_floats(to + i, d * FLOATS((ints_from(block + 2 + i) & 15) - 8));)
    EACH(i, 16, put_floats(to + 16 + i, d * FLOATS((ints_from(block + 2 + i) >> 4) - 8));)
}

ALWAYS_INLINE void q4_1_block(float *restrict to, const unsigned char *restrict block)
{
    const float d = f16_at(block), min = f16_at(block + 2);
    EACH(i, 16, put_floats(to + i, d * FLOATS(ints_from(block + 4 + i) & 15) + min);)
    EACH(i, 16, put_floats(to + 16 + i, d * FLOATS(ints_from(block + 4 + i) >> 4) + min);)
}

/* The fifth bit of element i is bit i of a word. Returns those of the elements from i on in their
 * place, given the word shifted to the left by 4. */
ALWAYS_INLINE ints fifth(uint32_t word, int i)
{
    static const int32_t lanes[] = { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15 };
    const words_of_bits words = { 0 };
    return (ints)((words + word) >> (words_of_bits) * (const ints_at *)(lanes + i)) & 16;
}

ALWAYS_INLINE void q5_0_block(float *restrict to, const unsigned char *restrict block)
{
    const float d = f16_at(block);
    const uint32_t high = bits_at(block + 2), lower = high << 4, upper = high >> 12;
    EACH(i, 16,
         put_floats(to + i, d * FLOATS(((ints_from(block + 6 + i) & 15) | fifth(lower, i)) - 16));)
    EACH(i, 16,
         put_floats(to + 16 + i,
                    d * FLOATS(((ints_from(block + 6 + i) >> 4) | fifth(upper, i)) - 16));)
}

ALWAYS_INLINE void q5_1_block(float *restrict to, const unsigned char *restrict block)
{
    const float d = f16_at(block), min = f16_at(block + 2);
    const uint32_t high = bits_at(block + 4), lower = high << 4, upper = high >> 12;
    EACH(i, 16,
         put_floats(to + i, d * FLOATS((ints_from(block + 8 + i) & 15) | fifth(lower, i)) + min);)
    EACH(i, 16,
         put_floats(to + 16 + i,
                    d * FLOATS((ints_from(block + 8 + i) >> 4) | fifth(upper, i)) + min);)
}

ALWAYS_INLINE void q8_0_block(float *restrict to, const unsigned char *restrict block)
{
    const float d = f16_at(block);
    EACH(i, 32, put_floats(to + i, d * FLOATS(ints_from_signed(block + 2 + i)));)
}

/* ---- Blocks of 256 --------------------------------------------------------------------------- */

/* Elements of 2 bits: each byte has one element of each quarter of 128 elements. Returns the bytes
 * of the 16 elements of group g, of which they are the bits from 2 * (g % 8 / 2) on. */
ALWAYS_INLINE const unsigned char *quarter(const unsigned char *p, int g)
{
    return p + g / 8 * 32 + g % 2 * 16;
}

ALWAYS_INLINE void q2_k_block(float *restrict to, const unsigned char *restrict block)
{
    const unsigned char *scales = block;
    const float d = f16_at(block + 80), d_min = f16_at(block + 82);
    UNROLLED
    for (int g = 0; g < 16; g++, to += 16) {
        const unsigned char *low = quarter(block + 16, g);
        const int shift = g % 8 / 2 * 2;
        const float scale = d * (float)(scales[g] & 15), min = d_min * (float)(scales[g] >> 4);
        EACH(i, 16, put_floats(to + i, scale * FLOATS(ints_from(low + i) >> shift & 3) - min);)
    }
}

/* Returns the scale of group g, which has 6 bits: the lower 4 are in bytes 0 to 7, the upper 2 in
 * bytes 8 to 11. */
ALWAYS_INLINE int q3_scale(const unsigned char *scales, int g)
{
    const int low = scales[g % 8] >> (g / 8 * 4) & 15;
    const int high = scales[8 + g % 4] >> (g / 4 * 2) & 3;
    return (low | high << 4) - 32;
}

/* The third bit of an element is inverted: 4 is subtracted where it is 0. */
ALWAYS_INLINE void q3_k_block(float *restrict to, const unsigned char *restrict block)
{
    const float d = f16_at(block + 108);
    UNROLLED
    for (int g = 0; g < 16; g++, to += 16) {
        const unsigned char *high = block + g % 2 * 16, *low = quarter(block + 32, g);
        const int shift = g % 8 / 2 * 2, third = g / 2;
        const float scale = d * (float)q3_scale(block + 96, g);
        EACH(i, 16,
             put_floats(to + i, scale * FLOATS((ints_from(low + i) >> shift & 3) +
                                               ((ints_from(high + i) >> third & 1) << 2) - 4));)
    }
}

/* Unpacks the scale and the minimum of group g of Q4_K and Q5_K, 6 bits each. The upper 2 bits of
 * groups 4 to 7 are in the bytes of groups 0 to 3. */
ALWAYS_INLINE void k_scales(const unsigned char *p, int g, int *scale, int *min)
{
    if (g < 4) {
        *scale = p[g] & 63;
        *min = p[g + 4] & 63;
    } else {
        *scale = (p[g + 4] & 15) | p[g - 4] >> 6 << 4;
        *min = p[g + 4] >> 4 | p[g] >> 6 << 4;
    }
}

/* Groups 2k and 2k + 1 are the lower and the upper halves of 32 bytes. */
ALWAYS_INLINE void q4_k_block(float *restrict to, const unsigned char *restrict block)
{
    const float d = f16_at(block), d_min = f16_at(block + 2);
    UNROLLED
    for (int g = 0; g < 8; g++, to += 32) {
        const unsigned char *low = block + 16 + g / 2 * 32;
        const int shift = g % 2 * 4;
        int scale, min;
        k_scales(block + 4, g, &scale, &min);
        const float ds = d * (float)scale, dm = d_min * (float)min;
        EACH(i, 32, put_floats(to + i, ds * FLOATS(ints_from(low + i) >> shift & 15) - dm);)
    }
}

/* The same with a fifth bit of each element: bit g of 32 bytes. */
ALWAYS_INLINE void q5_k_block(float *restrict to, const unsigned char *restrict block)
{
    const unsigned char *high = block + 16;
    const float d = f16_at(block), d_min = f16_at(block + 2);
    UNROLLED
    for (int g = 0; g < 8; g++, to += 32) {
        const unsigned char *low = block + 48 + g / 2 * 32;
        const int shift = g % 2 * 4;
        int scale, min;
        k_scales(block + 4, g, &scale, &min);
        const float ds = d * (float)scale, dm = d_min * (float)min;
        EACH(i, 32,
             put_floats(to + i, ds * FLOATS((ints_from(low + i) >> shift & 15) |
                                            (ints_from(high + i) >> g & 1) << 4) -
                                    dm);)
    }
}

/* Each half of the block, 128 elements, has four quarters of 32 elements. The lower 4 bits of the
 * quarters are the lower halves of bytes 0 to 31 and 32 to 63, then their upper halves. */
ALWAYS_INLINE void q6_k_block(float *restrict to, const unsigned char *restrict block)
{
    const unsigned char *scales = block + 192;
    const float d = f16_at(block + 208);
    UNROLLED
    for (int g = 0; g < 16; g++, to += 16) {
        const int half = g / 8, quarter = g % 8 / 2, at = g % 2 * 16;
        const unsigned char *low = block + half * 64 + quarter % 2 * 32 + at;
        const unsigned char *high = block + 128 + half * 32 + at;
        const int low_shift = quarter / 2 * 4, high_shift = quarter * 2;
        const float scale = d * (float)(int8_t)scales[g];
        EACH(i, 16,
             put_floats(to + i, scale * FLOATS(((ints_from(low + i) >> low_shift & 15) |
                                                (ints_from(high + i) >> high_shift & 3) << 4) -
                                               32));)
    }
}

/* ---- Runs of blocks -------------------------------------------------------------------------- */

/* Distance in bytes from the block being converted to the block being prefetched. Between two runs
 * of a product the processor computes for so long that its own prefetching stops. */
enum { BLOCKS_AHEAD = 2048 };

/* Defines for each type a function that dequantizes n blocks. */
#define BR_RUN(name, text, elements, bytes)                                        \
    static void dequantize_##name(int64_t n, float *to, const unsigned char *from) \
    {                                                                              \
        for (int64_t i = 0; i < n; i++, to += (elements), from += (bytes)) {       \
            for (int k = 0; k < (bytes); k += 64)                                  \
                __builtin_prefetch(from + BLOCKS_AHEAD + k);                       \
            name##_block(to, from);                                                \
        }                                                                          \
    }
BR_BLOCK_TYPES(BR_RUN)
#undef BR_RUN

#endif
