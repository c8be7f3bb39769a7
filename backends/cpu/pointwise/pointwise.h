/* backends/cpu/pointwise/pointwise.h - the float loops of BR_POINTWISE_KERNELS; part of variant.c.
 *
 * y[i] = f(x[i]) or f(a[i], b[i]). kernels.h lists the names and the expressions in three groups,
 * each with its own kind of loop: plain expressions use the templates of loops.h; functions of
 * math.h, which are long vector code, have one loop over whole vectors; and functions of libm (for
 * f64, those of math.h, too) are called for one element at a time. In the first two kinds,
 * br__by_blocks() copies operands that are not contiguous. The last kind follows the strides. Some
 * kernels are composed of other loops, which exchange their intermediate results through buffers of
 * PART elements. An element's result depends on no other element. */
#ifndef BR_KERNELS_POINTWISE_H
#define BR_KERNELS_POINTWISE_H

#include "backends/cpu/gemm/gemm_tile.h"
#include "backends/cpu/math.h"
#include "backends/cpu/pointwise/loops.h"
#include "backends/cpu/pointwise/ordinary.h"
#include "backends/cpu/pointwise/special_kernels.h"

/* Element i of operand k, which is contiguous. */
#define REAL_AT(k, i) (((real *)(void *)data[k])[i])

/* Parameter i of the loop. */
#define PARAM(i) ((real)((const double *)params)[i])

#define REAL_UNARY(name, expression)    UNARY_LOOP(name##_loop, real, expression)
#define REAL_BINARY(name, expression)   BINARY_LOOP(name##_loop, real, real, expression)
#define REAL_COMPARE(name, expression)  COMPARE_LOOP(name##_loop, real, expression)
#define CALLED_UNARY(name, expression)  UNARY_STRIDED(name##_loop, real, expression)
#define CALLED_BINARY(name, expression) BINARY_STRIDED(name##_loop, real, real, expression)

#define REAL_ARITHMETIC(name, expression) ARITHMETIC_LOOP(name##_loop, real, expression)

/* Loops of BR_WHOLE_KERNELS. For f64 they call libm. For f32 they are long vector code, which
 * exists only once, for whole vectors; by_vectors() pads the last vector, which is also faster than
 * one element at a time. */
#ifdef BR_KERNEL_F64
#    define WHOLE_UNARY  CALLED_UNARY
#    define WHOLE_BINARY CALLED_BINARY
#else

/* Loads the first `count` elements of a vector and fills the rest with ones, for which every
 * function is fast. */
static inline vec load_with_ones(const real *from, int64_t count)
{
    enum { MAX_VECTOR = 16 }; /* elements of the largest vector */
    static const real ones[2 * MAX_VECTOR] = {
        [MAX_VECTOR] = 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1
    };
    typedef BY_TYPE(int32_t, int64_t) bits __attribute__((vector_size(VECTOR_BYTES)));
    const vec v = load_part(from, count), rest = *(const vec_at *)(ones + MAX_VECTOR - count);
    return (vec)((bits)v | (bits)rest);
}

/* Runs `loop`, which requires whole vectors, over any n elements of operands of this type. */
static __attribute__((noinline)) void by_vectors(int64_t n, char *const *data, const int64_t *s,
                                                 const void *params, br_loop loop, int operands)
{
    enum { SIZE = sizeof(real) };
    const bool dense = s[0] == SIZE && s[1] == SIZE && (operands < 3 || s[2] == SIZE);
    if (!dense && n > 1) {
        br__by_blocks(n, data, s, params, loop,
                      LOOP_FORM(VECTOR, SIZE, SIZE, operands < 3 ? 0 : SIZE, 0));
        return;
    }
    static const int64_t steps[] = { SIZE, SIZE, SIZE };
    const int64_t whole = n & -VECTOR;
    if (whole > 0)
        loop(whole, data, steps, params);
    vec last[3];
    for (int k = 1; k < operands; k++)
        last[k] = load_with_ones((const real *)(void *)data[k] + whole, n - whole);
    loop(VECTOR, (char *[]){ (char *)&last[0], (char *)&last[1], (char *)&last[2] }, steps, params);
    store_part((real *)(void *)data[0] + whole, last[0], n - whole);
}

/* Returns whether the operands are whole, contiguous vectors. If not, a loop lets by_vectors() call
 * it again with such vectors. */
static inline bool are_whole_vectors(int64_t n, const int64_t *s, int operands)
{
    enum { SIZE = sizeof(real) };
    return n % VECTOR == 0 && s[0] == SIZE && s[1] == SIZE && (operands < 3 || s[2] == SIZE);
}

/* WHOLE_UNARY(tanh, real_tanh(x)) defines the loop tanh_loop(), in essence
 *
 *     if (not whole, contiguous vectors) {
 *         by_vectors(n, data, s, params, tanh_loop, 2);
 *         return;
 *     }
 *     for (int64_t i = 0; i < n; i++)
 *         ((float *)data[0])[i] = real_tanh(((const float *)data[1])[i]);
 */
#    define WHOLE_UNARY(name, expression)                        \
        LOOP(name##_loop)                                        \
        {                                                        \
            if (!are_whole_vectors(n, s, 2)) {                   \
                by_vectors(n, data, s, params, name##_loop, 2);  \
                return;                                          \
            }                                                    \
            n &= -VECTOR; /* the compiler does not infer this */ \
            FOR_EACH_ELEMENT                                     \
            {                                                    \
                const real x = REAL_AT(1, i);                    \
                REAL_AT(0, i) = expression;                      \
            }                                                    \
        }
#    define WHOLE_BINARY(name, expression)                       \
        LOOP(name##_loop)                                        \
        {                                                        \
            if (!are_whole_vectors(n, s, 3)) {                   \
                by_vectors(n, data, s, params, name##_loop, 3);  \
                return;                                          \
            }                                                    \
            n &= -VECTOR; /* the compiler does not infer this */ \
            FOR_EACH_ELEMENT                                     \
            {                                                    \
                const real a = REAL_AT(1, i), b = REAL_AT(2, i); \
                REAL_AT(0, i) = expression;                      \
            }                                                    \
        }
#endif

BR_PLAIN_KERNELS(REAL_UNARY, REAL_BINARY, REAL_ARITHMETIC, REAL_COMPARE)
BR_WHOLE_KERNELS(WHOLE_UNARY, WHOLE_BINARY)
BR_ORDINARY_KERNELS(ORDINARY_UNARY, ORDINARY_BINARY)
BR_LIBM_KERNELS(CALLED_UNARY)
BINARY_STRIDED(close_loop, real, bool, is_close((double)a, (double)b, params))
WHERE_LOOP(where_loop, real)
TERNARY_LOOP(lerp_loop, real, real_lerp(a, b, c))
TERNARY_LOOP(addcmul_loop, real, a + PARAM(0) * b * c)
TERNARY_LOOP(addcdiv_loop, real, a + PARAM(0) * b / c)

/* ---- Composed of others ---------------------------------------------------------------------- */

LOOP(ne_loop)
{
    eq_loop(n, data, s, params);
    const br_loop invert = br__kernels_bool.pointwise[BR_POINTWISE(logical_not)];
    invert(n, (char *[]){ data[0], data[0] }, (int64_t[]){ s[0], s[0] }, NULL);
}

LOOP(gt_loop)
{
    lt_loop(n, (char *[]){ data[0], data[2], data[1] }, (int64_t[]){ s[0], s[2], s[1] }, params);
}

LOOP(ge_loop)
{
    le_loop(n, (char *[]){ data[0], data[2], data[1] }, (int64_t[]){ s[0], s[2], s[1] }, params);
}

/* Applies a loop in place to n contiguous elements. */
static __attribute__((noinline)) void apply_to(real *x, int64_t n, br_loop loop)
{
    loop(n, (char *[]){ (char *)x, (char *)x }, (int64_t[]){ sizeof *x, sizeof *x }, NULL);
}

enum { PART = 256 }; /* elements of an intermediate result, which stays in the L1 cache */

/* Writes softplus of n elements at `from`, `step` bytes apart, to contiguous elements. */
static void softplus_part(int64_t n, real *to, const char *from, int64_t step, double threshold)
{
    softplus_loop(n, (char *[]){ (char *)to, (char *)from }, (int64_t[]){ sizeof *to, step },
                  (const double[]){ 1, threshold });
}

/* x tanh(softplus(x)). Above the threshold of 20, where softplus returns x, the tanh is 1 in both
 * types. */
LOOP(mish_loop)
{
    real y[PART];
    (void)params;
    for (int64_t i = 0; i < n; i += PART) {
        const int64_t count = n - i < PART ? n - i : PART;
        char *x = data[1] + i * s[1];
        softplus_part(count, y, x, s[1], 20);
        apply_to(y, count, tanh_loop);
        mul_loop(count, (char *[]){ data[0] + i * s[0], x, (char *)y },
                 (int64_t[]){ s[0], s[1], sizeof *y }, NULL);
    }
}

/* A loop's entry in the table of variant.c. */
#define LOOP_ENTRY(name, ...) POINTWISE(name) = name##_loop,

#endif
