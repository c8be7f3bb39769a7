/* backends/cpu/gemm/gemm_numbers.h - loads the elements of operands that are read in place; part of
 * variant.c and gemm_stored.c.
 *
 * `stored_real` is the type of an operand's element in memory: `real`, or in gemm_stored.c the 16
 * bits of a bf16 or f16 number, which are widened as they are loaded. */
#ifndef BR_KERNELS_GEMM_NUMBERS_H
#define BR_KERNELS_GEMM_NUMBERS_H

#include "backends/cpu/vector.h"

#if defined(BR_NUMBERS_BF16) || defined(BR_NUMBERS_F16)

#    include "tensor/half.h"

typedef uint16_t stored_real;
typedef uint16_t halves_at __attribute__((vector_size(VECTOR_BYTES / 2), aligned(2), may_alias));
typedef uint32_t words __attribute__((vector_size(VECTOR_BYTES)));

/* Returns the number as a float. */
ALWAYS_INLINE real widened(stored_real x)
{
#    if defined(BR_NUMBERS_BF16)
    return br__from_bf16(x);
#    else
    return br__from_f16(x);
#    endif
}

/* Returns VECTOR numbers. */
ALWAYS_INLINE vec load_numbers(const stored_real *from)
{
#    if defined(BR_NUMBERS_BF16)
    return (vec)(__builtin_convertvector(*(const halves_at *)from, words) << 16);
#    elif defined(__AVX512F__)
    return (vec)_mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)from));
#    else
    real lanes[VECTOR];
    for (int i = 0; i < VECTOR; i++)
        lanes[i] = widened(from[i]);
    return *(const vec_at *)lanes;
#    endif
}

/* Returns the first `count` numbers of a vector; other lanes are 0. */
ALWAYS_INLINE vec load_part_of_numbers(const stored_real *from, int64_t count)
{
    stored_real lanes[VECTOR] = { 0 };
    memcpy(lanes, from, (size_t)count * sizeof *from);
    return load_numbers(lanes);
}

#else

typedef real stored_real;

ALWAYS_INLINE vec load_numbers(const stored_real *from)
{
    return *(const vec_at *)from;
}

ALWAYS_INLINE vec load_part_of_numbers(const stored_real *from, int64_t count)
{
    return load_part(from, count);
}

#endif

#endif
