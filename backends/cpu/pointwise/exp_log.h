/* backends/cpu/pointwise/exp_log.h - loops of exp, log and sqrt; part of variant.c. math.h has
 * the functions themselves.
 *
 * For f32 the loops of exp and log process runs of ORDINARY_RUN elements. If all elements of a run
 * are ordinary, they skip the range checks and the handling of denormals, which are most of the
 * work. All paths give an element the same bits, so its result does not depend on its neighbours.
 * With AVX-512 the square root is computed by Goldschmidt's iteration, which is faster than the
 * instruction. For f64 the loops call libm. */
#ifndef BR_KERNELS_EXP_LOG_H
#define BR_KERNELS_EXP_LOG_H

#include "backends/cpu/pointwise/pointwise.h"

#ifdef BR_KERNEL_F64

CALLED_UNARY(exp, real_exp(x))
CALLED_UNARY(log, real_log(x))

#else

/* Elements of a run. 2 KiB, so that a run and the next one stay in the L1 cache after the check. */
enum { ORDINARY_RUN = 512 };

/* An element is ordinary if key(x) <= most. EXP_KEY drops the sign bit, so that keys are in the
 * order of |x|, with NaN last. LOG_KEY subtracts the bits of 2^-126: the keys of 0 and of denormals
 * wrap around, and those of infinity, NaN and negative numbers are too large as they are. */
#    define EXP_KEY(x) (bits_of(x) << 1)
#    define EXP_MOST   0x855c0000u /* |x| <= 87 */
#    define LOG_KEY(x) (bits_of(x) - 0x00800000u)
#    define LOG_MOST   0x7effffffu /* 2^-126 <= x < infinity */

/* Defines name_loop. It is a macro, because C has no templates and `ordinary`, `any` and `key` must
 * be inlined for the loops to be vectorized. ORDINARY_LOOP(exp, EXP_KEY, EXP_MOST, exp_ordinary,
 * real_exp) defines exp_largest(), exp_run_ordinary(), exp_run_any() and exp_loop().
 *
 * While the loop computes one run, it checks the next, which spreads the memory reads evenly. If
 * less than a whole run is left, it checks the last run-sized part of the array. If the operation
 * is in place, some of these elements may already be overwritten and look out of range. This is
 * harmless: it only selects the slower path. n is a multiple of the vector length. */
#    define ORDINARY_LOOP(name, key, limit, ordinary, any)                                         \
        static __attribute__((noinline)) uint32_t name##_largest(int64_t n, const real *x)         \
        {                                                                                          \
            uint32_t largest = 0;                                                                  \
            n &= -VECTOR;                                                                          \
            for (int64_t i = 0; i < n; i++)                                                        \
                largest = key(x[i]) > largest ? key(x[i]) : largest;                               \
            return largest;                                                                        \
        }                                                                                          \
        static uint32_t name##_run_ordinary(int64_t n, const real *x, real *y, const real *next)   \
        {                                                                                          \
            uint32_t largest = 0;                                                                  \
            n &= -VECTOR;                                                                          \
            FOR_EACH_ELEMENT                                                                       \
            {                                                                                      \
                y[i] = ordinary(x[i]);                                                             \
                largest = key(next[i]) > largest ? key(next[i]) : largest;                         \
            }                                                                                      \
            return largest;                                                                        \
        }                                                                                          \
        static uint32_t name##_run_any(int64_t n, const real *x, real *y, const real *next)        \
        {                                                                                          \
            n &= -VECTOR;                                                                          \
            FOR_EACH_ELEMENT                                                                       \
            y[i] = any(x[i]);                                                                      \
            return name##_largest(n, next);                                                        \
        }                                                                                          \
        LOOP(name##_loop)                                                                          \
        {                                                                                          \
            if (!are_whole_vectors(n, s, 2)) {                                                     \
                by_vectors(n, data, s, params, name##_loop, 2);                                    \
                return;                                                                            \
            }                                                                                      \
            n &= -VECTOR;                                                                          \
            const real *x = &REAL_AT(1, 0);                                                        \
            int64_t count = n < ORDINARY_RUN ? n : ORDINARY_RUN;                                   \
            uint32_t largest = name##_largest(count, x);                                           \
            for (int64_t i = 0; i < n; i += count) {                                               \
                count = n - i < ORDINARY_RUN ? n - i : ORDINARY_RUN;                               \
                const real *next = x + (i + count < n - count ? i + count : n - count);            \
                largest = (largest <= limit ? name##_run_ordinary                                  \
                                            : name##_run_any)(count, x + i, &REAL_AT(0, i), next); \
            }                                                                                      \
        }
ORDINARY_LOOP(exp, EXP_KEY, EXP_MOST, exp_ordinary, real_exp)
ORDINARY_LOOP(log, LOG_KEY, LOG_MOST, log_ordinary, real_log)

#endif

/* ---- Square roots ---------------------------------------------------------------------------- */

#if defined(__AVX512F__) && !defined(BR_KERNEL_F64)

/* The bits of 2^-100, and the bits of the largest float minus these. From 2^-100 on g g is a
 * multiple of 2^-146, so that a float can hold the residual below exactly. */
enum { ROOT_MIN = 0x0d800000, ROOT_MAX = 0x71ffffff };

/* Returns the correctly rounded square roots in less than half the time of vsqrtps. Estimates g of
 * the root and h of half its inverse are refined by one step of Goldschmidt's iteration (1964),
 * with the residual 1/2 - g h. Then g is corrected by the residual x - g g, which is exact with FMA
 * (Markstein, 1990). Any estimate within 2^-14 gives the same result: this was tested for every
 * significand and both parities of the exponent. */
ALWAYS_INLINE __m512 root_of_vector(__m512 x)
{
    const __m512i key = _mm512_sub_epi32(_mm512_castps_si512(x), _mm512_set1_epi32(ROOT_MIN));
    if (_mm512_cmpgt_epu32_mask(key, _mm512_set1_epi32(ROOT_MAX)) != 0)
        return _mm512_sqrt_ps(x);
    const __m512 half = _mm512_set1_ps(0.5f), inverse = _mm512_rsqrt14_ps(x);
    __m512 g = x * inverse, h = half * inverse;
    const __m512 lacks = _mm512_fnmadd_ps(g, h, half);
    g = _mm512_fmadd_ps(g, lacks, g);
    h = _mm512_fmadd_ps(h, lacks, h);
    return _mm512_fmadd_ps(h, _mm512_fnmadd_ps(g, g, x), g);
}

LOOP(sqrt_loop)
{
    if (!are_whole_vectors(n, s, 2)) {
        by_vectors(n, data, s, params, sqrt_loop, 2);
        return;
    }
    n &= -VECTOR;
    for (int64_t i = 0; i < n; i += VECTOR)
        *(vec_at *)&REAL_AT(0, i) = root_of_vector(*(const vec_at *)&REAL_AT(1, i));
}

#else

REAL_UNARY(sqrt, real_sqrt(x))

#endif

#endif
