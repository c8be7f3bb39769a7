/* ops/kernels/exp_log.h - loops of exp, log, pow and sqrt; part of variant.c.
 *
 * For f32 they take runs of elements and look first whether all of a run are ordinary: then range
 * checks and what is done for denormal numbers, most of the work, fall away. An element's result
 * does not depend on its neighbours: both ways give the same bits. */
#ifndef BR_KERNELS_EXP_LOG_H
#define BR_KERNELS_EXP_LOG_H

#include "ops/kernels/pointwise.h"

#ifdef BR_KERNEL_F64

CALLED_UNARY(exp, real_exp(x))
CALLED_UNARY(log, real_log(x))
CALLED_BINARY(pow, pow(a, b))

#else

enum { ORDINARY_RUN = 512 };

/* An element is ordinary if key(x) <= most. */
#    define EXP_KEY(x) (bits_of(x) << 1)
#    define EXP_MOST   0x855c0000u /* |x| <= 87 */
#    define LOG_KEY(x) (bits_of(x) - 0x00800000u)
#    define LOG_MOST   0x7effffffu /* 2^-126 <= x < infinity */

/* Each run looks at the next one while it computes, which spreads the reads of memory evenly. Where
 * less than a run is left, the last elements of that number are looked at: those that were computed
 * in place may then seem not to be ordinary, which does no harm. n is a number of whole vectors. */
#    define ORDINARY_LOOP(name, key, most, ordinary, any)                                         \
        static __attribute__((noinline)) uint32_t name##_largest(int64_t n, const real *x)        \
        {                                                                                         \
            uint32_t largest = 0;                                                                 \
            n &= -VECTOR;                                                                         \
            for (int64_t i = 0; i < n; i++)                                                       \
                largest = key(x[i]) > largest ? key(x[i]) : largest;                              \
            return largest;                                                                       \
        }                                                                                         \
        static uint32_t name##_run_ordinary(int64_t n, const real *x, real *y, const real *next)  \
        {                                                                                         \
            uint32_t largest = 0;                                                                 \
            n &= -VECTOR;                                                                         \
            FOR_EACH_ELEMENT                                                                      \
            {                                                                                     \
                y[i] = ordinary(x[i]);                                                            \
                largest = key(next[i]) > largest ? key(next[i]) : largest;                        \
            }                                                                                     \
            return largest;                                                                       \
        }                                                                                         \
        static uint32_t name##_run_any(int64_t n, const real *x, real *y, const real *next)       \
        {                                                                                         \
            n &= -VECTOR;                                                                         \
            FOR_EACH_ELEMENT                                                                      \
            y[i] = any(x[i]);                                                                     \
            return name##_largest(n, next);                                                       \
        }                                                                                         \
        LOOP(name##_loop)                                                                         \
        {                                                                                         \
            WHOLE_VECTORS(name##_loop, 2)                                                         \
            const real *x = &REAL_AT(1, 0);                                                       \
            int64_t count = n < ORDINARY_RUN ? n : ORDINARY_RUN;                                  \
            uint32_t largest = name##_largest(count, x);                                          \
            for (int64_t i = 0; i < n; i += count) {                                              \
                count = n - i < ORDINARY_RUN ? n - i : ORDINARY_RUN;                              \
                const real *next = x + (i + count < n - count ? i + count : n - count);           \
                largest = (largest <= most ? name##_run_ordinary                                  \
                                           : name##_run_any)(count, x + i, &REAL_AT(0, i), next); \
            }                                                                                     \
        }
ORDINARY_LOOP(exp, EXP_KEY, EXP_MOST, exp_ordinary, real_exp)
ORDINARY_LOOP(log, LOG_KEY, LOG_MOST, log_ordinary, real_log)

/* ---- Powers ---------------------------------------------------------------------------------- */

/* Filled up to whole vectors with ones. */
static void load_run(real *to, const char *from, int64_t step, int64_t n)
{
    if (step == sizeof(real) && n > 1)
        memcpy(to, from, (size_t)n * sizeof(real));
    else
        for (int64_t i = 0; i < n; i++)
            to[i] = *(const real *)(const void *)(from + i * step);
    for (; n % VECTOR != 0; n++)
        to[n] = 1;
}

static void store_run(const real *from, char *to, int64_t step, int64_t n)
{
    if (step == sizeof(real) && n > 1)
        memcpy(to, from, (size_t)n * sizeof(real));
    else
        for (int64_t i = 0; i < n; i++)
            *(real *)(void *)(to + i * step) = from[i];
}

#    define POWER_MOST ((bits_of(INFINITY) << 1) - 1) /* finite */

/* n is a number of whole vectors. */
static void pow_run(int64_t n, const real *a, const real *b, real *y)
{
    const bool ordinary = log_largest(n, a) <= LOG_MOST && exp_largest(n, b) <= POWER_MOST;
    FOR_VECTORS(real, i, n, y[i] = pow_ordinary(a[i], b[i]);)
    for (int64_t i = 0; !ordinary && i < n; i++)
        if (LOG_KEY(a[i]) > LOG_MOST || EXP_KEY(b[i]) > POWER_MOST)
            y[i] = powf(a[i], b[i]);
}

static void pow_loop(int64_t n, char *const *data, const int64_t *s, const void *params)
{
    real a[ORDINARY_RUN], b[ORDINARY_RUN], y[ORDINARY_RUN];
    (void)params;
    for (int64_t i = 0; i < n; i += ORDINARY_RUN) {
        int64_t count = n - i < ORDINARY_RUN ? n - i : ORDINARY_RUN;
        load_run(a, data[1] + i * s[1], s[1], count);
        load_run(b, data[2] + i * s[2], s[2], count);
        pow_run((count + VECTOR - 1) & -VECTOR, a, b, y);
        store_run(y, data[0] + i * s[0], s[0], count);
    }
}

#endif

/* ---- Square roots ---------------------------------------------------------------------------- */

#if defined(__AVX512F__) && !defined(BR_KERNEL_F64)

enum { ROOT_LEAST = 0x0d800000, ROOT_MOST = 0x71ffffff }; /* 2^-100 <= x < infinity */

/* The root rounded to nearest, as the processor's own instruction gives it in more than twice the
 * time: g near the root and h near half its inverse are made better by what lacks of g h = 1/2, g
 * then by what lacks of g g = x, which is exact. Any estimate within 2^-14 gives the same number
 * for every significand and both parities of the exponent: they were all tried. */
ALWAYS_INLINE __m512 root_of_vector(__m512 x)
{
    const __m512i key = _mm512_sub_epi32(_mm512_castps_si512(x), _mm512_set1_epi32(ROOT_LEAST));
    if (_mm512_cmpgt_epu32_mask(key, _mm512_set1_epi32(ROOT_MOST)) != 0)
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
    WHOLE_VECTORS(sqrt_loop, 2)
    for (int64_t i = 0; i < n; i += VECTOR)
        *(vec_at *)&REAL_AT(0, i) = root_of_vector(*(const vec_at *)&REAL_AT(1, i));
}

#else

REAL_UNARY(sqrt, real_sqrt(x))

#endif

#endif
