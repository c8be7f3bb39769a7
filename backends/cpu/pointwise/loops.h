/* backends/cpu/pointwise/loops.h - templates of pointwise loops for any element type.
 *
 * A template is a macro, because C has no other way to write a loop once for several types and
 * expressions. The expression is in terms of x (unary), a and b (binary), or a, b and c (ternary).
 * For example, UNARY_LOOP(f32_neg, float, -x) defines, in essence, the loop
 *
 *     static void f32_neg(int64_t n, char *const *data, const int64_t *s, const void *params)
 *     {
 *         if (n > 1 && (s[0] != 4 || s[1] != 4)) {
 *             br__by_blocks(n, data, s, params, f32_neg, LOOP_FORM(1, 4, 4, 0, 0));
 *             return;
 *         }
 *         FOR_EACH(float, i, n, ((float *)data[0])[i] = -((const float *)data[1])[i];)
 *     }
 *
 * Each loop is written once, for contiguous operands, and the compiler vectorizes it.
 * br__by_blocks() copies other operands into contiguous buffers. Only memory-bound operations also
 * have loops for a scalar operand. The output may be one of the inputs, but must not overlap an
 * input partially. */
#ifndef BR_LOOPS_H
#define BR_LOOPS_H

#include "backends/cpu/hints.h"
#include "backends/cpu/pointwise/block_loop.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

/* Element i of operand k with a stride of `step` bytes. */
#define AT(type, k, i, step) (*(type *)(void *)(data[k] + (i) * (step)))

/* The head of a loop over all elements, which the compiler vectorizes. The body follows it. */
#define FOR_EACH_ELEMENT \
    INDEPENDENT          \
    for (int64_t i = 0; i < n; i++)

/* The head of a function of type br_loop. */
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

/* The body of a binary loop: sets element i of the output to the expression in terms of a and b. */
#define BINARY_ELEMENT(type, out_type, expression)                                 \
    {                                                                              \
        const type a = AT(const type, 1, i, SIZE), b = AT(const type, 2, i, SIZE); \
        AT(out_type, 0, i, OUT_SIZE) = expression;                                 \
    }

/* Returns whether the operands of a binary loop are contiguous. */
static inline bool contiguous(int64_t n, const int64_t *s, int64_t out_size, int64_t size)
{
    return n <= 1 || (s[0] == out_size && s[1] == size && s[2] == size);
}

#define BINARY_LOOP(name, type, out_type, expression)                                       \
    LOOP(name)                                                                              \
    {                                                                                       \
        enum { SIZE = sizeof(type), OUT_SIZE = sizeof(out_type) };                          \
        if (!contiguous(n, s, OUT_SIZE, SIZE)) {                                            \
            br__by_blocks(n, data, s, params, name, LOOP_FORM(1, OUT_SIZE, SIZE, SIZE, 0)); \
            return;                                                                         \
        }                                                                                   \
        FOR_EACH(type, i, n, BINARY_ELEMENT(type, out_type, expression))                    \
    }

/* Compares to bool. Elements are processed in groups whose results, of one byte each, fill a
 * vector. */
#define COMPARE_LOOP(name, type, expression)                                                \
    LOOP(name)                                                                              \
    {                                                                                       \
        enum { SIZE = sizeof(type), OUT_SIZE = 1 };                                         \
        if (!contiguous(n, s, OUT_SIZE, SIZE)) {                                            \
            br__by_blocks(n, data, s, params, name, LOOP_FORM(1, OUT_SIZE, SIZE, SIZE, 0)); \
            return;                                                                         \
        }                                                                                   \
        FOR_EACH(bool, i, n, BINARY_ELEMENT(type, bool, expression))                        \
    }

/* The same, with loops for a scalar operand. */
#define ARITHMETIC_LOOP(name, type, expression)                                             \
    LOOP(name)                                                                              \
    {                                                                                       \
        enum { SIZE = sizeof(type), OUT_SIZE = SIZE };                                      \
        if (s[0] == SIZE && s[1] == SIZE && s[2] == 0) {                                    \
            const type b = AT(const type, 2, 0, SIZE);                                      \
            FOR_EACH(type, i, n, {                                                          \
                const type a = AT(const type, 1, i, SIZE);                                  \
                AT(type, 0, i, SIZE) = expression;                                          \
            })                                                                              \
            return;                                                                         \
        }                                                                                   \
        if (s[0] == SIZE && s[1] == 0 && s[2] == SIZE) {                                    \
            const type a = AT(const type, 1, 0, SIZE);                                      \
            FOR_EACH(type, i, n, {                                                          \
                const type b = AT(const type, 2, i, SIZE);                                  \
                AT(type, 0, i, SIZE) = expression;                                          \
            })                                                                              \
            return;                                                                         \
        }                                                                                   \
        if (!contiguous(n, s, OUT_SIZE, SIZE)) {                                            \
            br__by_blocks(n, data, s, params, name, LOOP_FORM(1, OUT_SIZE, SIZE, SIZE, 0)); \
            return;                                                                         \
        }                                                                                   \
        FOR_EACH(type, i, n, BINARY_ELEMENT(type, type, expression))                        \
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

/* out = condition ? a : b; operand 1 is the condition, of one byte. With a loop for a scalar a. */
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

/* These macros define one loop for all strides, for functions of libm and for types of which a
 * vector has few elements. They copy the strides, because for the compiler a store to i64 elements
 * might change the array s. UNARY_STRIDED(i64_copy, int64_t, x) defines the loop i64_copy(). */
#define UNARY_STRIDED(name, type, expression)            \
    LOOP(name)                                           \
    {                                                    \
        const int64_t out_step = s[0], x_step = s[1];    \
        (void)params;                                    \
        for (int64_t i = 0; i < n; i++) {                \
            const type x = AT(const type, 1, i, x_step); \
            AT(type, 0, i, out_step) = expression;       \
        }                                                \
    }

#define BINARY_STRIDED(name, type, out_type, expression)             \
    LOOP(name)                                                       \
    {                                                                \
        const int64_t out_step = s[0], a_step = s[1], b_step = s[2]; \
        (void)params;                                                \
        for (int64_t i = 0; i < n; i++) {                            \
            const type a = AT(const type, 1, i, a_step);             \
            const type b = AT(const type, 2, i, b_step);             \
            AT(out_type, 0, i, out_step) = expression;               \
        }                                                            \
    }

/* |a - b| <= atol + rtol |b|; params are { rtol, atol }. */
static inline bool is_close(double a, double b, const void *params)
{
    const double *tolerance = params;
    double error = fabs(a - b);
    return a == b || (error <= tolerance[1] + tolerance[0] * fabs(b) && error < INFINITY);
}

#endif
