/* ops/kernels/integer.c - the kernels of i64 and bool. Arithmetic wraps around, as PyTorch's does.
 */
#include "ops/kernels/kernels.h"
#include "ops/kernels/loops.h"

static inline int64_t wrap(uint64_t x)
{
    return (int64_t)x;
}

/* Bounds are { min, max }. */
static inline int64_t clamp_integer(int64_t x, const void *params)
{
    const int64_t *bounds = params;
    int64_t y = x > bounds[0] ? x : bounds[0];
    return y < bounds[1] ? y : bounds[1];
}

UNARY_LOOP(i64_copy, int64_t, x)
UNARY_LOOP(i64_neg, int64_t, wrap(-(uint64_t)x))
UNARY_LOOP(i64_abs, int64_t, x < 0 ? wrap(-(uint64_t)x) : x)
UNARY_LOOP(i64_sign, int64_t, (x > 0) - (x < 0))
UNARY_LOOP(i64_square, int64_t, wrap((uint64_t)x *(uint64_t)x))
UNARY_LOOP(i64_clamp, int64_t, clamp_integer(x, params))
BINARY_LOOP(i64_maximum, int64_t, int64_t, a > b ? a : b)
BINARY_LOOP(i64_minimum, int64_t, int64_t, a < b ? a : b)
BINARY_LOOP(i64_add, int64_t, int64_t, wrap((uint64_t)a + (uint64_t)b))
BINARY_LOOP(i64_sub, int64_t, int64_t, wrap((uint64_t)a - (uint64_t)b))
BINARY_LOOP(i64_mul, int64_t, int64_t, wrap((uint64_t)a *(uint64_t)b))
/* No divisor is 0. A quotient by -1 may be out of range, and then wraps around. */
static inline int64_t trunc_divide(int64_t a, int64_t b)
{
    return b == -1 ? wrap(-(uint64_t)a) : a / b;
}

static inline int64_t rest(int64_t a, int64_t b)
{
    return b == -1 ? 0 : a % b;
}

static inline bool rounds_up(int64_t a, int64_t b)
{
    return rest(a, b) != 0 && (a < 0) != (b < 0);
}

BINARY_LOOP(i64_trunc_divide, int64_t, int64_t, trunc_divide(a, b))
BINARY_LOOP(i64_floor_divide, int64_t, int64_t, trunc_divide(a, b) - rounds_up(a, b))
BINARY_LOOP(i64_fmod, int64_t, int64_t, rest(a, b))
BINARY_LOOP(i64_remainder, int64_t, int64_t, rest(a, b) + (rounds_up(a, b) ? b : 0))
BINARY_LOOP(i64_eq, int64_t, bool, a == b)
BINARY_LOOP(i64_ne, int64_t, bool, a != b)
BINARY_LOOP(i64_lt, int64_t, bool, a < b)
BINARY_LOOP(i64_le, int64_t, bool, a <= b)
BINARY_LOOP(i64_gt, int64_t, bool, a > b)
BINARY_LOOP(i64_ge, int64_t, bool, a >= b)
BINARY_LOOP(i64_close, int64_t, bool, is_close((double)a, (double)b, params))
WHERE_LOOP(i64_where, int64_t)

UNARY_LOOP(bool_copy, bool, x)
UNARY_LOOP(bool_not, bool, !x)
BINARY_LOOP(bool_and, bool, bool, a &b)
BINARY_LOOP(bool_or, bool, bool, a | b)
BINARY_LOOP(bool_eq, bool, bool, a == b)
BINARY_LOOP(bool_ne, bool, bool, a != b)
BINARY_LOOP(bool_lt, bool, bool, a < b)
BINARY_LOOP(bool_le, bool, bool, a <= b)
BINARY_LOOP(bool_gt, bool, bool, a > b)
BINARY_LOOP(bool_ge, bool, bool, a >= b)
WHERE_LOOP(bool_where, bool)

/* ---- Reductions ------------------------------------------------------------------------------ */

#define INTEGER_FOLDS(prefix, type)                                                \
    static inline int64_t prefix##_element(const br_fold *f, int64_t i, int64_t j) \
    {                                                                              \
        const char *x = f->x + i * f->row_stride + j * f->column_stride;           \
        return (int64_t) * (const type *)(const void *)x;                          \
    }                                                                              \
    static void prefix##_sum(const br_fold *f)                                     \
    {                                                                              \
        for (int64_t j = 0; j < f->columns; j++) {                                 \
            uint64_t sum = (uint64_t)f->value[j].i;                                \
            for (int64_t i = 0; i < f->rows; i++)                                  \
                sum += (uint64_t)prefix##_element(f, i, j);                        \
            f->value[j].i = wrap(sum);                                             \
        }                                                                          \
    }                                                                              \
    static void prefix##_max(const br_fold *f)                                     \
    {                                                                              \
        for (int64_t j = 0; j < f->columns; j++)                                   \
            for (int64_t i = 0; i < f->rows; i++) {                                \
                int64_t x = prefix##_element(f, i, j);                             \
                f->value[j].i = x > f->value[j].i ? x : f->value[j].i;             \
            }                                                                      \
    }                                                                              \
    static void prefix##_min(const br_fold *f)                                     \
    {                                                                              \
        for (int64_t j = 0; j < f->columns; j++)                                   \
            for (int64_t i = 0; i < f->rows; i++) {                                \
                int64_t x = prefix##_element(f, i, j);                             \
                f->value[j].i = x < f->value[j].i ? x : f->value[j].i;             \
            }                                                                      \
    }                                                                              \
    static void prefix##_prod(const br_fold *f)                                    \
    {                                                                              \
        for (int64_t j = 0; j < f->columns; j++) {                                 \
            uint64_t product = (uint64_t)f->value[j].i;                            \
            for (int64_t i = 0; i < f->rows; i++)                                  \
                product *= (uint64_t)prefix##_element(f, i, j);                    \
            f->value[j].i = wrap(product);                                         \
        }                                                                          \
    }                                                                              \
    static void prefix##_argmin(const br_fold *f)                                  \
    {                                                                              \
        for (int64_t j = 0; j < f->columns; j++)                                   \
            for (int64_t i = 0; i < f->rows; i++) {                                \
                int64_t x = prefix##_element(f, i, j);                             \
                if (x >= f->value[j].i)                                            \
                    continue;                                                      \
                f->value[j].i = x;                                                 \
                f->index[j] = f->first_row + i;                                    \
            }                                                                      \
    }                                                                              \
    static void prefix##_argmax(const br_fold *f)                                  \
    {                                                                              \
        for (int64_t j = 0; j < f->columns; j++)                                   \
            for (int64_t i = 0; i < f->rows; i++) {                                \
                int64_t x = prefix##_element(f, i, j);                             \
                if (x <= f->value[j].i)                                            \
                    continue;                                                      \
                f->value[j].i = x;                                                 \
                f->index[j] = f->first_row + i;                                    \
            }                                                                      \
    }
INTEGER_FOLDS(i64, int64_t)
INTEGER_FOLDS(bool, bool)

/* ---- The tables ------------------------------------------------------------------------------ */

const br_kernels br__kernels_i64 = {
    .name = "i64",
    .copy = i64_copy,
    .neg = i64_neg,
    .abs = i64_abs,
    .sign = i64_sign,
    .floor = i64_copy,
    .ceil = i64_copy,
    .round = i64_copy,
    .trunc = i64_copy,
    .square = i64_square,
    .clamp = i64_clamp,
    .maximum = i64_maximum,
    .minimum = i64_minimum,
    .add = i64_add,
    .sub = i64_sub,
    .mul = i64_mul,
    .trunc_divide = i64_trunc_divide,
    .floor_divide = i64_floor_divide,
    .fmod = i64_fmod,
    .remainder = i64_remainder,
    .eq = i64_eq,
    .ne = i64_ne,
    .lt = i64_lt,
    .le = i64_le,
    .gt = i64_gt,
    .ge = i64_ge,
    .close = i64_close,
    .where = i64_where,
    .sum = i64_sum,
    .max = i64_max,
    .argmax = i64_argmax,
    .min = i64_min,
    .argmin = i64_argmin,
    .prod = i64_prod,
};

const br_kernels br__kernels_bool = {
    .name = "bool",
    .copy = bool_copy,
    .maximum = bool_or,
    .minimum = bool_and,
    .logical_and = bool_and,
    .logical_or = bool_or,
    .logical_xor = bool_ne,
    .logical_not = bool_not,
    .eq = bool_eq,
    .ne = bool_ne,
    .lt = bool_lt,
    .le = bool_le,
    .gt = bool_gt,
    .ge = bool_ge,
    .where = bool_where,
    .sum = bool_sum,
    .max = bool_max,
    .argmax = bool_argmax,
    .min = bool_min,
    .argmin = bool_argmin,
    .prod = bool_prod,
};
