/* io/gguf_blocks.c - dequantizes the blocks of GGUF files.
 *
 * The types ending in _0 and _1 have 32 elements and one scale, and the types ending in _1 also a
 * minimum. The types ending in _K have 256 elements in groups of 16 or 32, with a small integer
 * scale for each group, and one or two f16 scales for the block.
 *
 * Products of an f16 scale (11 bits) with a group's scale (at most 8 bits with the sign) and an
 * element (at most 6 bits) have at most 24 bits, so they are exact in f32. Only the subtraction or
 * addition of a minimum rounds. A compiler may therefore fuse it with the product, and the bits are
 * the same on all machines. */
#include "io/gguf_internal.h"
#include "tensor/half.h"

#include <string.h>

static float half_at(const unsigned char *p)
{
    uint16_t half;
    memcpy(&half, p, sizeof half);
    return br__from_f16(half);
}

static uint32_t bits_at(const unsigned char *p)
{
    uint32_t bits;
    memcpy(&bits, p, sizeof bits);
    return bits;
}

/* ---- Blocks of 32 ---------------------------------------------------------------------------- */

/* Of 16 bytes, the lower halves are the elements 0 to 15, and the upper halves 16 to 31. `high` has
 * a fifth bit for each element. */
static void unpack_32(int *to, const unsigned char *low, uint32_t high)
{
    for (int i = 0; i < 16; i++) {
        to[i] = (low[i] & 15) | (int)(high >> i & 1) << 4;
        to[i + 16] = low[i] >> 4 | (int)(high >> (i + 16) & 1) << 4;
    }
}

static void scale_32(float *to, const int *q, int offset, float d, float min)
{
    for (int i = 0; i < 32; i++)
        to[i] = d * (float)(q[i] - offset) + min;
}

/* Scales without a minimum. Adding a minimum of 0 would make -0 positive. */
static void scale_32_symmetric(float *to, const int *q, int offset, float d)
{
    for (int i = 0; i < 32; i++)
        to[i] = d * (float)(q[i] - offset);
}

void br__gguf_q4_0(float *to, const unsigned char *block)
{
    int q[32];
    unpack_32(q, block + 2, 0);
    scale_32_symmetric(to, q, 8, half_at(block));
}

void br__gguf_q4_1(float *to, const unsigned char *block)
{
    int q[32];
    unpack_32(q, block + 4, 0);
    scale_32(to, q, 0, half_at(block), half_at(block + 2));
}

void br__gguf_q5_0(float *to, const unsigned char *block)
{
    int q[32];
    unpack_32(q, block + 6, bits_at(block + 2));
    scale_32_symmetric(to, q, 16, half_at(block));
}

void br__gguf_q5_1(float *to, const unsigned char *block)
{
    int q[32];
    unpack_32(q, block + 8, bits_at(block + 4));
    scale_32(to, q, 0, half_at(block), half_at(block + 2));
}

void br__gguf_q8_0(float *to, const unsigned char *block)
{
    float d = half_at(block);
    for (int i = 0; i < 32; i++)
        to[i] = d * (float)(int8_t)block[2 + i];
}

/* ---- Blocks of 256 --------------------------------------------------------------------------- */

/* Elements of 2 bits: each byte has one element of each quarter of 128 elements. Stores the 16
 * elements of group g. Groups 0 and 1 are the lowest bits of bytes 0 to 31. */
static void unpack_quarters(int *to, const unsigned char *p, int g)
{
    const unsigned char *from = p + g / 8 * 32 + g % 2 * 16;
    for (int i = 0; i < 16; i++)
        to[i] = from[i] >> (g % 8 / 2 * 2) & 3;
}

void br__gguf_q2_k(float *to, const unsigned char *block)
{
    const unsigned char *scales = block, *low = block + 16;
    float d = half_at(block + 80), d_min = half_at(block + 82);
    for (int g = 0; g < 16; g++) {
        int q[16];
        unpack_quarters(q, low, g);
        float scale = d * (float)(scales[g] & 15), min = d_min * (float)(scales[g] >> 4);
        for (int i = 0; i < 16; i++)
            to[16 * g + i] = scale * (float)q[i] - min;
    }
}

/* Returns the scale of group g, which has 6 bits: the lower 4 are in bytes 0 to 7, the upper 2 in
 * bytes 8 to 11. */
static int q3_scale(const unsigned char *scales, int g)
{
    int low = scales[g % 8] >> (g / 8 * 4) & 15;
    int high = scales[8 + g % 4] >> (g / 4 * 2) & 3;
    return (low | high << 4) - 32;
}

/* The third bit of an element is inverted: 4 is subtracted where it is 0. */
void br__gguf_q3_k(float *to, const unsigned char *block)
{
    const unsigned char *high = block, *low = block + 32;
    float d = half_at(block + 108);
    for (int g = 0; g < 16; g++) {
        int q[16];
        unpack_quarters(q, low, g);
        float scale = d * (float)q3_scale(block + 96, g);
        for (int i = 0; i < 16; i++) {
            int bit = high[g % 2 * 16 + i] >> (g / 2) & 1;
            to[16 * g + i] = scale * (float)(q[i] - (bit ? 0 : 4));
        }
    }
}

/* Unpacks the scale and the minimum of group g of Q4_K and Q5_K, 6 bits each. The upper 2 bits of
 * groups 4 to 7 are in the bytes of groups 0 to 3. */
static void k_scales(const unsigned char *p, int g, int *scale, int *min)
{
    if (g < 4) {
        *scale = p[g] & 63;
        *min = p[g + 4] & 63;
    } else {
        *scale = (p[g + 4] & 15) | p[g - 4] >> 6 << 4;
        *min = p[g + 4] >> 4 | p[g] >> 6 << 4;
    }
}

/* Q4_K, and Q5_K with a fifth bit of each element in `high`. Groups 2k and 2k + 1 are the lower and
 * the upper halves of 32 bytes. */
static void dequantize_k(float *to, const unsigned char *block, const unsigned char *high,
                         const unsigned char *low)
{
    float d = half_at(block), d_min = half_at(block + 2);
    for (int g = 0; g < 8; g++) {
        int scale, min;
        k_scales(block + 4, g, &scale, &min);
        float ds = d * (float)scale, dm = d_min * (float)min;
        for (int i = 0; i < 32; i++) {
            int q = low[g / 2 * 32 + i] >> (g % 2 * 4) & 15;
            if (high)
                q |= (high[i] >> g & 1) << 4;
            to[32 * g + i] = ds * (float)q - dm;
        }
    }
}

void br__gguf_q4_k(float *to, const unsigned char *block)
{
    dequantize_k(to, block, NULL, block + 16);
}

void br__gguf_q5_k(float *to, const unsigned char *block)
{
    dequantize_k(to, block, block + 16, block + 48);
}

/* Each half of the block, 128 elements, has four quarters of 32 elements. The lower 4 bits of the
 * quarters are the lower halves of bytes 0 to 31 and 32 to 63, then their upper halves. */
void br__gguf_q6_k(float *to, const unsigned char *block)
{
    const unsigned char *low = block, *high = block + 128, *scales = block + 192;
    float d = half_at(block + 208);
    for (int g = 0; g < 16; g++) {
        int half = g / 8, quarter = g % 8 / 2, at = g % 2 * 16;
        float scale = d * (float)(int8_t)scales[g];
        for (int i = 0; i < 16; i++) {
            int q = low[half * 64 + quarter % 2 * 32 + at + i] >> (quarter / 2 * 4) & 15;
            q |= (high[half * 32 + at + i] >> (quarter * 2) & 3) << 4;
            to[16 * g + i] = scale * (float)(q - 32);
        }
    }
}
