/* backends/cpu/pointwise/dropout.h - dropout (Srivastava et al., 2014); part of variant.c.
 *
 * y is x times `scale` if the element's random bit is 1, and x times 0 if not.
 * dropout_bits_kernel() generates the bits. Bit i is a function of the key and i only, so it
 * depends neither on the number of threads nor on how the elements are divided. dropout_kernel()
 * applies them, one word of bits at a time: a table of masks with a single bit spreads a word over
 * vector lanes. The bits are kept for the gradient, which is the same kernel; they take a 32nd of
 * the memory of f32. */
#ifndef BR_KERNELS_DROPOUT_H
#define BR_KERNELS_DROPOUT_H

#include "backends/cpu/gemm/gemm_pack.h"
#include "backends/cpu/math.h"
#include "backends/cpu/pointwise/dropout_kernels.h"

#include <stdint.h>

/* An integer with as many bits as a real. */
typedef BY_TYPE(uint32_t, uint64_t) lane_bits;
enum { LANE_BITS = 8 * sizeof(lane_bits) };

/* Lists of masks with a single bit set. They are macros, because the initializer of a static table
 * must be constant. FOUR_BITS(8) is 1 << 8, 1 << 9, 1 << 10, 1 << 11. */
#define BIT(i)       (lane_bits)1 << (i)
#define FOUR_BITS(i) BIT(i), BIT((i) + 1), BIT((i) + 2), BIT((i) + 3)
#define HALF_BITS(i) FOUR_BITS(i), FOUR_BITS((i) + 4), FOUR_BITS((i) + 8), FOUR_BITS((i) + 12)
#define ALL_BITS(i)  HALF_BITS(i), HALF_BITS((i) + 16)
#ifdef BR_KERNEL_F64
#    define LANES_BITS ALL_BITS(0), ALL_BITS(32)
#else
#    define LANES_BITS ALL_BITS(0)
#endif

/* Returns x * scale, or 0 if the element is dropped, with the sign of x, as in PyTorch. PyTorch
 * multiplies by 0, which gives NaN for infinity and NaN; here a dropped element is left out. */
ALWAYS_INLINE real kept_or_zero(real x, real scale, bool kept)
{
    return kept ? x * scale : REAL(copysign)(0, x);
}

static void dropout_kernel(int64_t n, const br_dropout_work *d, const void *x_data, void *y_data)
{
    static const lane_bits bit[LANE_BITS] = { LANES_BITS };
    const real scale = (real)d->scale;
    const uint64_t *bits = d->bits;
    int64_t i = 0;
    for (; i + LANE_BITS <= n; i += LANE_BITS) {
        const lane_bits word = (lane_bits)(bits[i / 64] >> i % 64);
        const real *restrict x = (const real *)x_data + i;
        real *restrict y = (real *)y_data + i;
        /* A word of f32 elements takes two lines. These are read four words later. */
        __builtin_prefetch(x + 8 * LINE);
        __builtin_prefetch(x + 9 * LINE);
        FOR_VECTORS(real, k, LANE_BITS, y[k] = kept_or_zero(x[k], scale, word & bit[k]);)
    }
    for (; i < n; i++)
        ((real *)y_data)[i] =
            kept_or_zero(((const real *)x_data)[i], scale, bits[i / 64] >> i % 64 & 1);
}

/* ---- Counter-based generator ----------------------------------------------------------------- */

/* Returns output i of SplitMix64 (Steele, Lea and Flood, 2014), whose outputs can be computed
 * independently of each other. */
ALWAYS_INLINE uint64_t random_bits(uint64_t key, uint64_t i)
{
    uint64_t z = key + (i + 1) * 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
}

typedef uint64_t draw_lanes __attribute__((vector_size(VECTOR_BYTES)));

/* Each 64-bit random number decides two elements: its lower half the even one, its upper half the
 * odd one. An element is dropped if its half is below the threshold, which is the case if the
 * difference of the two borrows and so has bit 63 set. NUMBERS numbers decide a word. Lane k of
 * `below` collects the bits of numbers k, k + AT_ONCE, ..., and is shifted into place at the end.
 */
static void dropout_bits_kernel(int64_t n, int64_t first, uint64_t key, uint32_t threshold,
                                uint64_t *bits)
{
    enum { NUMBERS = 32, AT_ONCE = VECTOR_BYTES / 8 };
    uint64_t draw[NUMBERS] __attribute__((aligned(VECTOR_BYTES)));
    for (int64_t i = 0; i < n; i += 64) {
        const uint64_t number = (uint64_t)(first + i) / 2;
        INDEPENDENT
        for (int k = 0; k < NUMBERS; k++)
            draw[k] = random_bits(key, number + (uint64_t)k);
        draw_lanes below = { 0 };
        for (int k = 0; k < NUMBERS; k += AT_ONCE) {
            const draw_lanes z = *(const draw_lanes *)(draw + k);
            below |= ((z & UINT32_MAX) - threshold) >> 63 << 2 * k;
            below |= ((z >> 32) - threshold) >> 63 << (2 * k + 1);
        }
        uint64_t dropped = 0;
        for (int k = 0; k < AT_ONCE; k++)
            dropped |= below[k] << 2 * k;
        bits[i / 64] = ~dropped;
    }
}

#endif
