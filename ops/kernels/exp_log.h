/* ops/kernels/exp_log.h - loops of exp, log and pow; part of variant.c.
 *
 * For f32 they take runs of elements and look first whether all of a run are ordinary: then range
 * checks and what is done for denormal numbers, most of the work, fall away. An element's result
 * does not depend on its neighbours: both ways give the same bits. */
#ifndef BR_KERNELS_EXP_LOG_H
#define BR_KERNELS_EXP_LOG_H

#include "ops/kernels/loops.h"
#include "ops/kernels/math.h"

#ifdef BR_KERNEL_F64

UNARY_LOOP(exp_loop, real, real_exp(x))
UNARY_LOOP(log_loop, real, real_log(x))
BINARY_LOOP(pow_loop, real, real, pow(a, b))

#else

enum { ORDINARY_RUN = 512 };

UNARY_LOOP(exp_any_loop, real, real_exp(x))
UNARY_LOOP(log_any_loop, real, real_log(x))

/* An element is ordinary if key(x) <= most. */
#    define EXP_KEY(x) (bits_of(x) << 1)
#    define EXP_MOST   0x855c0000u /* |x| <= 87 */
#    define LOG_KEY(x) (bits_of(x) - 0x00800000u)
#    define LOG_MOST   0x7effffffu /* 2^-126 <= x < infinity */

#    define ORDINARY_LOOP(name, any_loop, key, most, ordinary)                               \
        static bool name##_run(int64_t n, const real *x, real *y)                            \
        {                                                                                    \
            uint32_t largest = 0;                                                            \
            for (int64_t i = 0; i < n; i++)                                                  \
                largest = key(x[i]) > largest ? key(x[i]) : largest;                         \
            if (largest > most)                                                              \
                return false;                                                                \
            INDEPENDENT                                                                      \
            for (int64_t i = 0; i < n; i++)                                                  \
                y[i] = ordinary(x[i]);                                                       \
            return true;                                                                     \
        }                                                                                    \
        static void name(int64_t n, char *const *data, const int64_t *s, const void *params) \
        {                                                                                    \
            enum { SIZE = sizeof(real) };                                                    \
            if (s[0] != SIZE || s[1] != SIZE) {                                              \
                any_loop(n, data, s, params);                                                \
                return;                                                                      \
            }                                                                                \
            for (int64_t i = 0; i < n; i += ORDINARY_RUN) {                                  \
                char *at[] = { data[0] + i * SIZE, data[1] + i * SIZE };                     \
                int64_t count = n - i < ORDINARY_RUN ? n - i : ORDINARY_RUN;                 \
                if (!name##_run(count, (const void *)at[1], (void *)at[0]))                  \
                    any_loop(count, at, s, params);                                          \
            }                                                                                \
        }
ORDINARY_LOOP(exp_loop, exp_any_loop, EXP_KEY, EXP_MOST, exp_ordinary)
ORDINARY_LOOP(log_loop, log_any_loop, LOG_KEY, LOG_MOST, log_ordinary)

/* ---- Powers ---------------------------------------------------------------------------------- */

static void load_run(real *to, const char *from, int64_t step, int64_t n)
{
    if (step == sizeof(real))
        memcpy(to, from, (size_t)n * sizeof(real));
    else
        for (int64_t i = 0; i < n; i++)
            to[i] = *(const real *)(const void *)(from + i * step);
}

static inline bool power_is_ordinary(real a, real b)
{
    return LOG_KEY(a) <= LOG_MOST && EXP_KEY(b) < bits_of(INFINITY) << 1;
}

static void pow_run(int64_t n, const real *a, const real *b, real *y)
{
    int others = 0;
    for (int64_t i = 0; i < n; i++)
        others |= !power_is_ordinary(a[i], b[i]);
    for (int64_t i = 0; i < n; i++)
        y[i] = pow_ordinary(a[i], b[i]);
    for (int64_t i = 0; others && i < n; i++)
        if (!power_is_ordinary(a[i], b[i]))
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
        pow_run(count, a, b, y);
        for (int64_t k = 0; k < count; k++)
            AT(real, 0, i + k, s[0]) = y[k];
    }
}

#endif

#endif
