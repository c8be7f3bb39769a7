/* ops/kernels/dropout.h - dropout; part of variant.c. */
#ifndef BR_KERNELS_DROPOUT_H
#define BR_KERNELS_DROPOUT_H

#include "ops/kernels/gemm_pack.h"

#include <stdint.h>

/* SplitMix64 (Steele, Lea and Flood, 2014), each of whose numbers can be had by itself: number i of
 * a key is mixed(random_state(key, i)), and the states of following numbers are RANDOM_STEP apart.
 */
#define RANDOM_STEP 0x9e3779b97f4a7c15u

ALWAYS_INLINE uint64_t random_state(uint64_t key, uint64_t i)
{
    return key + (i + 1) * RANDOM_STEP;
}

ALWAYS_INLINE uint64_t mixed(uint64_t z)
{
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
}

ALWAYS_INLINE uint64_t random_bits(uint64_t key, uint64_t i)
{
    return mixed(random_state(key, i));
}

/* What each of the two elements of a number gets, read where the numbers were made. */
typedef uint32_t half_of_bits __attribute__((may_alias));

/* Element i of the whole tensor falls if its 32 bits are below the threshold; two elements share a
 * number. `first`, the number of the first element, is even. */
static void dropout_kernel(int64_t n, int64_t first, const br_dropout_work *d, const void *x_data,
                           void *y_data)
{
    enum { RUN = 512 };
    const real scale = (real)d->scale;
    const uint32_t threshold = d->threshold;
    uint64_t bits[RUN / 2];
    const half_of_bits *draw = (const half_of_bits *)bits;
    for (int64_t i = 0; i < n; i += RUN) {
        const real *restrict x = (const real *)x_data + i;
        real *restrict y = (real *)y_data + i;
        for (int64_t k = 0; i + RUN < n && k < RUN; k += LINE) {
            __builtin_prefetch(x + RUN + k);
            __builtin_prefetch(y + RUN + k, 1);
        }
        for (int64_t k = 0; k < RUN / 2; k++)
            bits[k] = random_bits(d->key, (uint64_t)((first + i) / 2 + k));
        FOR_EACH(real, k, n - i < RUN ? n - i : RUN, y[k] = draw[k] < threshold ? 0 : x[k] * scale;)
    }
}

#endif
