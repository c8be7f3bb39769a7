/* backends/cpu/pointwise/ordinary.h - the loops of BR_ORDINARY_KERNELS; part of variant.c.
 *
 * For f32 a loop copies a run of elements, so that the result may replace an operand, and computes
 * all of them by the function for ordinary arguments. If some arguments are not ordinary, such as
 * an angle of 1e9, it computes these again by libm. An element has the same bits whatever its
 * neighbours are. For f64 the loop calls libm. */
#ifndef BR_ORDINARY_H
#define BR_ORDINARY_H

#include "backends/cpu/pointwise/loops.h"
#include "backends/cpu/wide_math.h"

#ifdef BR_KERNEL_F64

#    define ORDINARY_UNARY(name, by_libm, ordinary, condition)  CALLED_UNARY(name, by_libm)
#    define ORDINARY_BINARY(name, by_libm, ordinary, condition) CALLED_BINARY(name, by_libm)

#else

/* Computes n elements, a multiple of the vector length, from the operands p and q. */
typedef void (*run_function)(int64_t n, const real *p, const real *q, real *y);

/* Loads n elements, padded to whole vectors with ones. */
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

static void by_runs(int64_t n, char *const *data, const int64_t *s, run_function run, bool binary)
{
    enum { RUN = 512 }; /* 2 KiB, so that all operands stay in the L1 cache */
    real p[RUN], q[RUN], y[RUN];
    for (int64_t i = 0; i < n; i += RUN) {
        const int64_t count = n - i < RUN ? n - i : RUN;
        load_run(p, data[1] + i * s[1], s[1], count);
        if (binary)
            load_run(q, data[2] + i * s[2], s[2], count);
        run((count + VECTOR - 1) & -VECTOR, p, q, y);
        store_run(y, data[0] + i * s[0], s[0], count);
    }
}

#    define LOOP_BY_RUNS(name, by_libm, ordinary, condition, binary, arguments)                   \
        static __attribute__((noinline)) void name##_run(int64_t n, const real *p, const real *q, \
                                                         real *y)                                 \
        {                                                                                         \
            int others = 0;                                                                       \
            (void)q;                                                                              \
            n &= -VECTOR; /* the compiler does not infer this */                                  \
            FOR_EACH_ELEMENT                                                                      \
            {                                                                                     \
                arguments;                                                                        \
                y[i] = ordinary;                                                                  \
                others |= (condition) ? 0 : 1;                                                    \
            }                                                                                     \
            for (int64_t i = 0; others && i < n; i++) {                                           \
                arguments;                                                                        \
                if (!(condition))                                                                 \
                    y[i] = by_libm;                                                               \
            }                                                                                     \
        }                                                                                         \
        LOOP(name##_loop)                                                                         \
        {                                                                                         \
            (void)params;                                                                         \
            by_runs(n, data, s, name##_run, binary);                                              \
        }
#    define ORDINARY_UNARY(name, by_libm, ordinary, condition) \
        LOOP_BY_RUNS(name, by_libm, ordinary, condition, false, const real x = p[i])
#    define ORDINARY_BINARY(name, by_libm, ordinary, condition)                     \
        LOOP_BY_RUNS(name, by_libm, ordinary, condition, true, const real a = p[i]; \
                     const real b = q[i])

#endif
#endif
