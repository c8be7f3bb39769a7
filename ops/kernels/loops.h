/* ops/kernels/loops.h - templates of pointwise loops for any element type.
 *
 * Each loop is written once, for contiguous operands, and the compiler vectorizes it.
 * br__by_blocks() copies other operands into contiguous buffers. Only memory-bound operations also
 * have loops for a scalar operand. The output may be one of the inputs, but must not overlap an
 * input partially. */
#ifndef BR_LOOPS_H
#define BR_LOOPS_H

#include "ops/kernels/block_loop.h"
#include "ops/kernels/hints.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

/* Element i of operand k with a stride of `step` bytes. */
#define AT(type, k, i, step) (*(type *)(void *)(data[k] + (i) * (step)))

#define FOR_EACH_ELEMENT \
    INDEPENDENT          \
    for (int64_t i = 0; i < n; i++)

#define LOOP(name) \
    static void name(int64_t n, char *const *data, const int64_t *s, const void *params)

/* With a single element the strides do not matter. */
#define UNARY_LOOP(name, type, expression)                                           \
    LOOP(name)                                                                       \
    {                                                                                \
        enum { SIZE = sizeof(type) };                                                \
        if (n > 1 && (s[0] != SIZE || s[1] != SIZE)) {                               \
            br__by_blocks(n, data, s, params, name, LOOP_FORM(1, SIZE, SIZE, 0, 0)); \
            return;                                                                  \
        }                                                                            \
        FOR_EACH(type, i, n, {                                                       \
            const type x = AT(const type, 1, i, SIZE);                               \
            AT(type, 0, i, SIZE) = expression;                                       \
        })                                                                           \
    }

#define BINARY_ELEMENT(type, out_type, expression)                                 \
    {                                                                              \
        const type a = AT(const type, 1, i, SIZE), b = AT(const type, 2, i, SIZE); \
        AT(out_type, 0, i, OUT_SIZE) = expression;                                 \
    }

#define BINARY_BY_BLOCKS(name)                                                          \
    if (n > 1 && (s[0] != OUT_SIZE || s[1] != SIZE || s[2] != SIZE)) {                  \
        br__by_blocks(n, data, s, params, name, LOOP_FORM(1, OUT_SIZE, SIZE, SIZE, 0)); \
        return;                                                                         \
    }

#define BINARY_LOOP(name, type, out_type, expression)                    \
    LOOP(name)                                                           \
    {                                                                    \
        enum { SIZE = sizeof(type), OUT_SIZE = sizeof(out_type) };       \
        BINARY_BY_BLOCKS(name)                                           \
        FOR_EACH(type, i, n, BINARY_ELEMENT(type, out_type, expression)) \
    }

/* Elements are processed in groups whose results, of one byte each, fill a vector. */
#define COMPARE_LOOP(name, type, expression)                         \
    LOOP(name)                                                       \
    {                                                                \
        enum { SIZE = sizeof(type), OUT_SIZE = 1 };                  \
        BINARY_BY_BLOCKS(name)                                       \
        FOR_EACH(bool, i, n, BINARY_ELEMENT(type, bool, expression)) \
    }

/* The same, with loops for a scalar operand. */
#define ARITHMETIC_LOOP(name, type, expression)                      \
    LOOP(name)                                                       \
    {                                                                \
        enum { SIZE = sizeof(type), OUT_SIZE = SIZE };               \
        if (s[0] == SIZE && s[1] == SIZE && s[2] == 0) {             \
            const type b = AT(const type, 2, 0, SIZE);               \
            FOR_EACH(type, i, n, {                                   \
                const type a = AT(const type, 1, i, SIZE);           \
                AT(type, 0, i, SIZE) = expression;                   \
            })                                                       \
            return;                                                  \
        }                                                            \
        if (s[0] == SIZE && s[1] == 0 && s[2] == SIZE) {             \
            const type a = AT(const type, 1, 0, SIZE);               \
            FOR_EACH(type, i, n, {                                   \
                const type b = AT(const type, 2, i, SIZE);           \
                AT(type, 0, i, SIZE) = expression;                   \
            })                                                       \
            return;                                                  \
        }                                                            \
        BINARY_BY_BLOCKS(name)                                       \
        FOR_EACH(type, i, n, BINARY_ELEMENT(type, type, expression)) \
    }

#define TERNARY_LOOP(name, type, expression)                                               \
    LOOP(name)                                                                             \
    {                                                                                      \
        enum { SIZE = sizeof(type) };                                                      \
        if (n > 1 && (s[0] != SIZE || s[1] != SIZE || s[2] != SIZE || s[3] != SIZE)) {     \
            br__by_blocks(n, data, s, params, name, LOOP_FORM(1, SIZE, SIZE, SIZE, SIZE)); \
            return;                                                                        \
        }                                                                                  \
        FOR_EACH(type, i, n, {                                                             \
            const type a = AT(const type, 1, i, SIZE), b = AT(const type, 2, i, SIZE);     \
            const type c = AT(const type, 3, i, SIZE);                                     \
            AT(type, 0, i, SIZE) = expression;                                             \
        })                                                                                 \
    }

#define WHERE_LOOP(name, type)                                                          \
    EVERY_WIDTH LOOP(name)                                                              \
    {                                                                                   \
        enum { SIZE = sizeof(type) };                                                   \
        if (s[0] == SIZE && s[1] == 1 && s[2] == 0 && s[3] == SIZE) {                   \
            const type a = AT(const type, 2, 0, SIZE);                                  \
            FOR_EVERY(i, n, {                                                           \
                const type b = AT(const type, 3, i, SIZE);                              \
                AT(type, 0, i, SIZE) = data[1][i] ? a : b;                              \
            })                                                                          \
            return;                                                                     \
        }                                                                               \
        if (n > 1 && (s[0] != SIZE || s[1] != 1 || s[2] != SIZE || s[3] != SIZE)) {     \
            br__by_blocks(n, data, s, params, name, LOOP_FORM(1, SIZE, 1, SIZE, SIZE)); \
            return;                                                                     \
        }                                                                               \
        FOR_EVERY(i, n, {                                                               \
            const type a = AT(const type, 2, i, SIZE), b = AT(const type, 3, i, SIZE);  \
            AT(type, 0, i, SIZE) = data[1][i] ? a : b;                                  \
        })                                                                              \
    }

/* These macros define loops that call a function for each element. One loop handles all strides. */
#define UNARY_CALLS(name, type, expression)            \
    LOOP(name)                                         \
    {                                                  \
        (void)params;                                  \
        for (int64_t i = 0; i < n; i++) {              \
            const type x = AT(const type, 1, i, s[1]); \
            AT(type, 0, i, s[0]) = expression;         \
        }                                              \
    }

#define BINARY_CALLS(name, type, out_type, expression)                                 \
    LOOP(name)                                                                         \
    {                                                                                  \
        (void)params;                                                                  \
        for (int64_t i = 0; i < n; i++) {                                              \
            const type a = AT(const type, 1, i, s[1]), b = AT(const type, 2, i, s[2]); \
            AT(out_type, 0, i, s[0]) = expression;                                     \
        }                                                                              \
    }

/* |a - b| <= atol + rtol |b|; params are { rtol, atol }. */
static inline bool is_close(double a, double b, const void *params)
{
    const double *tolerance = params;
    double error = fabs(a - b);
    return a == b || (error <= tolerance[1] + tolerance[0] * fabs(b) && error < INFINITY);
}

#endif
