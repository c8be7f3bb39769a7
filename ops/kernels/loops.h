/* ops/kernels/loops.h - bodies of pointwise loops, for any element type.
 *
 * Each loop has a plain form for operands without gaps, which the compiler vectorises, the same for
 * an operand that is one value throughout, and a form for all other strides. The output may be one
 * of the inputs but must not overlap one otherwise. */
#ifndef BR_LOOPS_H
#define BR_LOOPS_H

#include "tensor/loop.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

/* No iteration depends on another: spares the compiler the check, which in-place use would fail. */
#if defined(__clang__)
#    pragma clang diagnostic ignored "-Wpass-failed" /* f64 functions of libm stay scalar */
#    define INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#    define INDEPENDENT _Pragma("GCC ivdep")
#endif

/* Element i of operand k at a distance of `step` bytes. */
#define AT(type, k, i, step) (*(type *)(void *)(data[k] + (i) * (step)))

#define FOR_EACH_ELEMENT \
    INDEPENDENT          \
    for (int64_t i = 0; i < n; i++)

#define UNARY_LOOP(name, type, expression)                                               \
    static void name(int64_t n, char *const *data, const int64_t *s, const void *params) \
    {                                                                                    \
        enum { SIZE = sizeof(type) };                                                    \
        (void)params;                                                                    \
        if (s[0] == SIZE && s[1] == SIZE) {                                              \
            FOR_EACH_ELEMENT                                                             \
            {                                                                            \
                const type x = AT(const type, 1, i, SIZE);                               \
                AT(type, 0, i, SIZE) = expression;                                       \
            }                                                                            \
        } else if (s[0] == SIZE && s[1] == 0) {                                          \
            const type x = AT(const type, 1, 0, SIZE);                                   \
            const type y = expression;                                                   \
            FOR_EACH_ELEMENT                                                             \
            AT(type, 0, i, SIZE) = y;                                                    \
        } else {                                                                         \
            for (int64_t i = 0; i < n; i++) {                                            \
                const type x = AT(const type, 1, i, s[1]);                               \
                AT(type, 0, i, s[0]) = expression;                                       \
            }                                                                            \
        }                                                                                \
    }

#define BINARY_LOOP(name, type, out_type, expression)                                      \
    static void name(int64_t n, char *const *data, const int64_t *s, const void *params)   \
    {                                                                                      \
        enum { SIZE = sizeof(type), OUT_SIZE = sizeof(out_type) };                         \
        (void)params;                                                                      \
        if (s[0] == OUT_SIZE && s[1] == SIZE && s[2] == SIZE) {                            \
            FOR_EACH_ELEMENT                                                               \
            {                                                                              \
                const type a = AT(const type, 1, i, SIZE), b = AT(const type, 2, i, SIZE); \
                AT(out_type, 0, i, OUT_SIZE) = expression;                                 \
            }                                                                              \
        } else if (s[0] == OUT_SIZE && s[1] == SIZE && s[2] == 0) {                        \
            const type b = AT(const type, 2, 0, SIZE);                                     \
            FOR_EACH_ELEMENT                                                               \
            {                                                                              \
                const type a = AT(const type, 1, i, SIZE);                                 \
                AT(out_type, 0, i, OUT_SIZE) = expression;                                 \
            }                                                                              \
        } else if (s[0] == OUT_SIZE && s[1] == 0 && s[2] == SIZE) {                        \
            const type a = AT(const type, 1, 0, SIZE);                                     \
            FOR_EACH_ELEMENT                                                               \
            {                                                                              \
                const type b = AT(const type, 2, i, SIZE);                                 \
                AT(out_type, 0, i, OUT_SIZE) = expression;                                 \
            }                                                                              \
        } else {                                                                           \
            for (int64_t i = 0; i < n; i++) {                                              \
                const type a = AT(const type, 1, i, s[1]), b = AT(const type, 2, i, s[2]); \
                AT(out_type, 0, i, s[0]) = expression;                                     \
            }                                                                              \
        }                                                                                  \
    }

#define TERNARY_LOOP(name, type, expression)                                               \
    static void name(int64_t n, char *const *data, const int64_t *s, const void *params)   \
    {                                                                                      \
        enum { SIZE = sizeof(type) };                                                      \
        (void)params;                                                                      \
        if (s[0] == SIZE && s[1] == SIZE && s[2] == SIZE && s[3] == SIZE) {                \
            FOR_EACH_ELEMENT                                                               \
            {                                                                              \
                const type a = AT(const type, 1, i, SIZE), b = AT(const type, 2, i, SIZE); \
                const type c = AT(const type, 3, i, SIZE);                                 \
                AT(type, 0, i, SIZE) = expression;                                         \
            }                                                                              \
        } else if (s[0] == SIZE && s[1] == SIZE && s[2] == SIZE && s[3] == 0) {            \
            const type c = AT(const type, 3, 0, SIZE);                                     \
            FOR_EACH_ELEMENT                                                               \
            {                                                                              \
                const type a = AT(const type, 1, i, SIZE), b = AT(const type, 2, i, SIZE); \
                AT(type, 0, i, SIZE) = expression;                                         \
            }                                                                              \
        } else {                                                                           \
            for (int64_t i = 0; i < n; i++) {                                              \
                const type a = AT(const type, 1, i, s[1]), b = AT(const type, 2, i, s[2]); \
                const type c = AT(const type, 3, i, s[3]);                                 \
                AT(type, 0, i, s[0]) = expression;                                         \
            }                                                                              \
        }                                                                                  \
    }

#define WHERE_LOOP(name, type)                                                                   \
    static void name(int64_t n, char *const *data, const int64_t *s, const void *params)         \
    {                                                                                            \
        enum { SIZE = sizeof(type) };                                                            \
        (void)params;                                                                            \
        if (s[0] == SIZE && s[1] == 1 && s[2] == SIZE && s[3] == SIZE) {                         \
            FOR_EACH_ELEMENT                                                                     \
            {                                                                                    \
                const type a = AT(const type, 2, i, SIZE), b = AT(const type, 3, i, SIZE);       \
                AT(type, 0, i, SIZE) = data[1][i] ? a : b;                                       \
            }                                                                                    \
        } else if (s[0] == SIZE && s[1] == 1 && s[2] == 0 && s[3] == SIZE) {                     \
            const type a = AT(const type, 2, 0, SIZE);                                           \
            FOR_EACH_ELEMENT                                                                     \
            {                                                                                    \
                const type b = AT(const type, 3, i, SIZE);                                       \
                AT(type, 0, i, SIZE) = data[1][i] ? a : b;                                       \
            }                                                                                    \
        } else {                                                                                 \
            for (int64_t i = 0; i < n; i++)                                                      \
                AT(type, 0, i, s[0]) =                                                           \
                    data[1][i * s[1]] ? AT(const type, 2, i, s[2]) : AT(const type, 3, i, s[3]); \
        }                                                                                        \
    }

/* |a - b| <= atol + rtol |b|; params are { rtol, atol }. */
static inline bool is_close(double a, double b, const void *params)
{
    const double *tolerance = params;
    double error = fabs(a - b);
    return a == b || (error <= tolerance[1] + tolerance[0] * fabs(b) && error < INFINITY);
}

#endif
