/* backends/cpu/integer.c - the kernels of i64 and bool.
 *
 * Pointwise loops come from the templates of loops.h: mostly from those with one loop for all
 * strides, because vectors of two elements gain little. Arithmetic wraps around, as PyTorch's does:
 * it is computed in uint64_t, since signed overflow is undefined in C. Wrapping sums and products
 * are associative, so reductions are exact in any order: a sum along a column uses two accumulators
 * to shorten the chain of additions. A sum of bools counts in i64. There is one build for all
 * instruction sets. */
#include "backends/cpu/kernels.h"
#include "backends/cpu/pointwise/loops.h"
#include "backends/cpu/reduce/reduce_internal.h"
#include "tensor/min_max.h"

#include <math.h>

/* ---- i64 ------------------------------------------------------------------------------------- */

static inline int64_t wrap(uint64_t x)
{
    return (int64_t)x;
}

/* params are { min, max }. */
static inline int64_t clamp_integer(int64_t x, const void *params)
{
    const int64_t *bounds = params;
    int64_t y = br__max(x, bounds[0]);
    return br__min(y, bounds[1]);
}

UNARY_STRIDED(i64_copy, int64_t, x)
UNARY_STRIDED(i64_neg, int64_t, wrap(-(uint64_t)x))
UNARY_STRIDED(i64_abs, int64_t, x < 0 ? wrap(-(uint64_t)x) : x)
UNARY_STRIDED(i64_sign, int64_t, (x > 0) - (x < 0))
UNARY_STRIDED(i64_square, int64_t, wrap((uint64_t)x *(uint64_t)x))
UNARY_STRIDED(i64_power_3, int64_t, wrap((uint64_t)x *(uint64_t)x *(uint64_t)x))
UNARY_STRIDED(i64_relu, int64_t, br__max(x, 0))
UNARY_STRIDED(i64_clamp, int64_t, clamp_integer(x, params))
BINARY_STRIDED(i64_maximum, int64_t, int64_t, br__max(a, b))
BINARY_STRIDED(i64_minimum, int64_t, int64_t, br__min(a, b))
ARITHMETIC_LOOP(i64_add, int64_t, wrap((uint64_t)a + (uint64_t)b))
ARITHMETIC_LOOP(i64_sub, int64_t, wrap((uint64_t)a - (uint64_t)b))
BINARY_STRIDED(i64_mul, int64_t, int64_t, wrap((uint64_t)a *(uint64_t)b))

/* b must not be 0. Division by -1 can overflow, and then wraps around. */
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

/* A negative power is 0, but for 1 and -1, as in PyTorch. */
static inline int64_t power(int64_t a, int64_t b)
{
    uint64_t result = 1, factor = (uint64_t)a;
    if (b < 0)
        return a == 1 ? 1 : a == -1 ? 1 - 2 * (b & 1) : 0;
    for (; b > 0; b >>= 1, factor *= factor)
        result *= b & 1 ? factor : 1;
    return wrap(result);
}
BINARY_STRIDED(i64_pow, int64_t, int64_t, power(a, b))

BINARY_STRIDED(i64_trunc_divide, int64_t, int64_t, trunc_divide(a, b))
BINARY_STRIDED(i64_floor_divide, int64_t, int64_t, trunc_divide(a, b) - rounds_up(a, b))
BINARY_STRIDED(i64_fmod, int64_t, int64_t, rest(a, b))
BINARY_STRIDED(i64_remainder, int64_t, int64_t, rest(a, b) + (rounds_up(a, b) ? b : 0))

BINARY_STRIDED(i64_and, int64_t, int64_t, a &b)
BINARY_STRIDED(i64_or, int64_t, int64_t, a | b)
BINARY_STRIDED(i64_xor, int64_t, int64_t, a ^ b)
UNARY_STRIDED(i64_not, int64_t, ~x)

/* A shift by more bits than there are moves out all of them, and so does a negative one, as in
 * PyTorch. A shift to the right keeps the sign. */
static inline int64_t shift_left(int64_t a, int64_t b)
{
    return b < 0 || b > 63 ? 0 : wrap((uint64_t)a << b);
}

static inline int64_t shift_right(int64_t a, int64_t b)
{
    return a >> (b < 0 || b > 63 ? 63 : b);
}
BINARY_STRIDED(i64_left_shift, int64_t, int64_t, shift_left(a, b))
BINARY_STRIDED(i64_right_shift, int64_t, int64_t, shift_right(a, b))

static inline uint64_t magnitude(int64_t x)
{
    return x < 0 ? -(uint64_t)x : (uint64_t)x;
}

/* Returns the greatest common divisor, by Euclid's algorithm; that of 0 and b is |b|. */
static inline uint64_t common_divisor(int64_t a, int64_t b)
{
    uint64_t larger = magnitude(a), smaller = magnitude(b);
    while (smaller != 0) {
        const uint64_t left = larger % smaller;
        larger = smaller;
        smaller = left;
    }
    return larger;
}

/* Returns the least common multiple; 0 if a or b is 0. */
static inline int64_t common_multiple(int64_t a, int64_t b)
{
    const uint64_t divisor = common_divisor(a, b);
    return divisor == 0 ? 0 : wrap(magnitude(wrap(magnitude(a) / divisor * magnitude(b))));
}
BINARY_STRIDED(i64_gcd, int64_t, int64_t, wrap(common_divisor(a, b)))
BINARY_STRIDED(i64_lcm, int64_t, int64_t, common_multiple(a, b))

/* |a - b| <= atol + rtol |b|, where the difference is exact; params are { rtol, atol }. */
static inline bool is_close_integer(int64_t a, int64_t b, const void *params)
{
    const double *tolerance = params, most = tolerance[1] + tolerance[0] * fabs((double)b);
    const uint64_t error = a > b ? (uint64_t)a - (uint64_t)b : (uint64_t)b - (uint64_t)a;
    if (error == 0 || most >= 0x1p64)
        return true;
    return most >= 0 && error <= (uint64_t)most;
}
BINARY_STRIDED(i64_close, int64_t, bool, is_close_integer(a, b, params))

BINARY_LOOP(i64_eq, int64_t, bool, a == b)
BINARY_LOOP(i64_ne, int64_t, bool, a != b)
BINARY_LOOP(i64_lt, int64_t, bool, a < b)
BINARY_LOOP(i64_le, int64_t, bool, a <= b)

/* Defines a loop by swapping the operands of another: a > b is b < a. */
#define SWAPPED(name, swapped)                                                               \
    LOOP(name)                                                                               \
    {                                                                                        \
        swapped(n, (char *[]){ data[0], data[2], data[1] }, (int64_t[]){ s[0], s[2], s[1] }, \
                params);                                                                     \
    }
SWAPPED(i64_gt, i64_lt)
SWAPPED(i64_ge, i64_le)

LOOP(i64_where)
{
    const int64_t out_step = s[0], if_step = s[1], a_step = s[2], b_step = s[3];
    (void)params;
    for (int64_t i = 0; i < n; i++)
        AT(int64_t, 0, i, out_step) = AT(const bool, 1, i, if_step)
                                          ? AT(const int64_t, 2, i, a_step)
                                          : AT(const int64_t, 3, i, b_step);
}

/* ---- bool ------------------------------------------------------------------------------------ */

UNARY_LOOP(bool_copy, bool, x)
BINARY_LOOP(bool_and, bool, bool, a &b)
BINARY_LOOP(bool_or, bool, bool, a | b)
BINARY_LOOP(bool_eq, bool, bool, a == b)
BINARY_LOOP(bool_ne, bool, bool, a != b)

/* The compiler does not vectorize !x. */
LOOP(bool_not)
{
    bool yes = true;
    bool_ne(n, (char *[]){ data[0], data[1], (char *)&yes }, (int64_t[]){ s[0], s[1], 0 }, params);
}

BINARY_STRIDED(bool_lt, bool, bool, a < b)
BINARY_STRIDED(bool_le, bool, bool, a <= b)
BINARY_STRIDED(bool_gt, bool, bool, a > b)
BINARY_STRIDED(bool_ge, bool, bool, a >= b)
TERNARY_LOOP(bool_where, bool, (a & b) | (!a & c))

/* ---- Reductions ------------------------------------------------------------------------------ */

static const int64_t *i64_element(const br_fold *f, int64_t i, int64_t j)
{
    return (const int64_t *)(const void *)(f->x + i * f->row_stride + j * f->column_stride);
}

/* Whether the columns are adjacent, so that memory is read in order row by row. */
static bool by_rows(const br_fold *f)
{
    return f->column_stride == sizeof(int64_t) && f->columns > 1;
}

static void i64_sum(const br_fold *f)
{
    br_accumulator *value = f->value;
    for (int64_t i = 0; by_rows(f) && i < f->rows; i++) {
        const int64_t *x = i64_element(f, i, 0);
        FOR_EACH(int64_t, j, f->columns, value[j].i = wrap((uint64_t)value[j].i + (uint64_t)x[j]);)
    }
    for (int64_t j = 0; !by_rows(f) && j < f->columns; j++) {
        uint64_t even = (uint64_t)value[j].i, odd = 0;
        int64_t i = 0;
        for (; i + 4 <= f->rows; i += 4) {
            even += (uint64_t)*i64_element(f, i, j);
            odd += (uint64_t)*i64_element(f, i + 1, j);
            even += (uint64_t)*i64_element(f, i + 2, j);
            odd += (uint64_t)*i64_element(f, i + 3, j);
        }
        for (; i < f->rows; i++)
            even += (uint64_t)*i64_element(f, i, j);
        value[j].i = wrap(even + odd);
    }
}

/* Replaces the maximum so far, and its row, if an element exceeds it. With a `turn` of -1 it is the
 * minimum: the maximum of ~x, which reverses the order, and x ^ turn is x or ~x. The row is written
 * even if only the value is needed. */
static inline void take(const br_fold *f, int64_t i, int64_t j, int64_t turn)
{
    const int64_t x = *i64_element(f, i, j);
    const bool larger = (x ^ turn) > (f->value[j].i ^ turn);
    f->value[j].i = larger ? x : f->value[j].i;
    f->index[j] = larger ? f->first_row + i : f->index[j];
}

static void i64_extreme(const br_fold *f, int64_t turn)
{
    if (by_rows(f)) {
        for (int64_t i = 0; i < f->rows; i++)
            for (int64_t j = 0; j < f->columns; j++)
                take(f, i, j, turn);
        return;
    }
    for (int64_t j = 0; j < f->columns; j++)
        for (int64_t i = 0; i < f->rows; i++)
            take(f, i, j, turn);
}

static void i64_max(const br_fold *f)
{
    i64_extreme(f, 0);
}

static void i64_min(const br_fold *f)
{
    i64_extreme(f, -1);
}

static void i64_store(void *out, const br_accumulator *v, int64_t n, int64_t step, double by)
{
    (void)by;
    for (int64_t j = 0; j < n; j++)
        ((int64_t *)out)[j * step] = v[j].i;
}

static void bool_store(void *out, const br_accumulator *v, int64_t n, int64_t step, double by)
{
    (void)by;
    for (int64_t j = 0; j < n; j++)
        ((bool *)out)[j * step] = v[j].i != 0;
}

static void i64_prod(const br_fold *f)
{
    for (int64_t j = 0; j < f->columns; j++) {
        uint64_t product = (uint64_t)f->value[j].i;
        for (int64_t i = 0; i < f->rows; i++)
            product *= (uint64_t)*i64_element(f, i, j);
        f->value[j].i = wrap(product);
    }
}

/* ---- Tables ---------------------------------------------------------------------------------- */

const br_kernels br__kernels_i64 = {
    .name = "i64",
    POINTWISE(copy) = i64_copy,
    POINTWISE(neg) = i64_neg,
    POINTWISE(abs) = i64_abs,
    POINTWISE(sign) = i64_sign,
    POINTWISE(floor) = i64_copy,
    POINTWISE(ceil) = i64_copy,
    POINTWISE(round) = i64_copy,
    POINTWISE(trunc) = i64_copy,
    POINTWISE(square) = i64_square,
    POINTWISE(power_3) = i64_power_3,
    POINTWISE(relu) = i64_relu,
    POINTWISE(clamp) = i64_clamp,
    POINTWISE(maximum) = i64_maximum,
    POINTWISE(minimum) = i64_minimum,
    POINTWISE(fmax) = i64_maximum,
    POINTWISE(fmin) = i64_minimum,
    POINTWISE(add) = i64_add,
    POINTWISE(sub) = i64_sub,
    POINTWISE(mul) = i64_mul,
    POINTWISE(pow) = i64_pow,
    POINTWISE(trunc_divide) = i64_trunc_divide,
    POINTWISE(floor_divide) = i64_floor_divide,
    POINTWISE(fmod) = i64_fmod,
    POINTWISE(remainder) = i64_remainder,
    POINTWISE(eq) = i64_eq,
    POINTWISE(ne) = i64_ne,
    POINTWISE(lt) = i64_lt,
    POINTWISE(le) = i64_le,
    POINTWISE(gt) = i64_gt,
    POINTWISE(ge) = i64_ge,
    POINTWISE(close) = i64_close,
    POINTWISE(where) = i64_where,
    POINTWISE(bitwise_and) = i64_and,
    POINTWISE(bitwise_or) = i64_or,
    POINTWISE(bitwise_xor) = i64_xor,
    POINTWISE(bitwise_not) = i64_not,
    POINTWISE(left_shift) = i64_left_shift,
    POINTWISE(right_shift) = i64_right_shift,
    POINTWISE(gcd) = i64_gcd,
    POINTWISE(lcm) = i64_lcm,
    .reduce[BR_FOLD(sum)] = i64_sum,
    .reduce[BR_FOLD(max)] = i64_max,
    .reduce[BR_FOLD(argmax)] = i64_max,
    .reduce[BR_FOLD(min)] = i64_min,
    .reduce[BR_FOLD(argmin)] = i64_min,
    .reduce[BR_FOLD(prod)] = i64_prod,
    .store_results = i64_store,
};

/* Sums are "or", products "and". */
const br_kernels br__kernels_bool = {
    .name = "bool",
    POINTWISE(add) = bool_or,
    POINTWISE(mul) = bool_and,
    POINTWISE(copy) = bool_copy,
    POINTWISE(maximum) = bool_or,
    POINTWISE(minimum) = bool_and,
    POINTWISE(fmax) = bool_or,
    POINTWISE(fmin) = bool_and,
    POINTWISE(logical_and) = bool_and,
    POINTWISE(logical_or) = bool_or,
    POINTWISE(logical_xor) = bool_ne,
    POINTWISE(logical_not) = bool_not,
    POINTWISE(bitwise_and) = bool_and,
    POINTWISE(bitwise_or) = bool_or,
    POINTWISE(bitwise_xor) = bool_ne,
    POINTWISE(bitwise_not) = bool_not,
    POINTWISE(eq) = bool_eq,
    POINTWISE(ne) = bool_ne,
    POINTWISE(lt) = bool_lt,
    POINTWISE(le) = bool_le,
    POINTWISE(gt) = bool_gt,
    POINTWISE(ge) = bool_ge,
    POINTWISE(where) = bool_where,
    .reduce[BR_FOLD(sum)] = br__bool_sum,
    .reduce[BR_FOLD(max)] = br__bool_max,
    .reduce[BR_FOLD(argmax)] = br__bool_argmax,
    .reduce[BR_FOLD(min)] = br__bool_min,
    .reduce[BR_FOLD(argmin)] = br__bool_argmin,
    .reduce[BR_FOLD(prod)] = br__bool_min,
    .store_results = bool_store,
};
