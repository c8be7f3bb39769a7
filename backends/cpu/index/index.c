/* backends/cpu/index/index.c - gather and scatter loops.
 *
 * Gather: y[i] = x[index[i]]. Scatter: x[index[i]] = combine(x[index[i]], y[i]), for ascending i,
 * so that with equal indices sums have a fixed order, and the last value is kept when copying. One
 * call processes all elements of its lines, so nothing is atomic, and results do not depend on the
 * number of threads. If the index is the same for a whole row, the row is copied or combined as
 * contiguous memory. Gathering and copying only move bytes, so they have a loop for each element
 * size rather than for each type. The loops are memory-bound, so there is one build for all
 * instruction sets. */
#include "backends/cpu/index/index.h"
#include "backends/cpu/hints.h"
#include "backends/cpu/shape/copy.h"
#include "tensor/half.h"
#include "tensor/min_max.h"

#include <stdbool.h>
#include <string.h>

static inline int64_t load_index(const char *p)
{
    return *(const int64_t *)(const void *)p;
}

/* Gathers elements of `size` bytes, which is a constant after inlining. The strides and addresses
 * are copied, because for the compiler a store might change the arrays. */
ALWAYS_INLINE void gather(int64_t size, int64_t n, char *const *data, const int64_t *s,
                          int64_t stride)
{
    char *y = data[0];
    const char *x = data[1], *index = data[2];
    const int64_t y_step = s[0], x_step = s[1], index_step = s[2];
    if (index_step == 0 && y_step == size && x_step == size) {
        br__copy_bytes(y, x + load_index(index) * stride, n * size);
        return;
    }
    if (x_step == 0 && y_step == size && stride == size && index_step == sizeof(int64_t)) {
        const int64_t *at = (const int64_t *)(const void *)index; /* of a dense line */
        for (int64_t i = 0; i < n; i++)
            memcpy(y + i * size, x + at[i] * size, (size_t)size);
        return;
    }
    for (int64_t i = 0; i < n; i++)
        memcpy(y + i * y_step, x + i * x_step + load_index(index + i * index_step) * stride,
               (size_t)size);
}

static void gather_1(int64_t n, char *const *data, const int64_t *s, const void *params)
{
    gather(1, n, data, s, *(const int64_t *)params);
}

static void gather_2(int64_t n, char *const *data, const int64_t *s, const void *params)
{
    gather(2, n, data, s, *(const int64_t *)params);
}

static void gather_4(int64_t n, char *const *data, const int64_t *s, const void *params)
{
    gather(4, n, data, s, *(const int64_t *)params);
}

static void gather_8(int64_t n, char *const *data, const int64_t *s, const void *params)
{
    gather(8, n, data, s, *(const int64_t *)params);
}

br_loop br__gather_loop(size_t element_size)
{
    static const br_loop by_size[] = {
        [1] = gather_1, [2] = gather_2, [4] = gather_4, [8] = gather_8
    };
    return by_size[element_size];
}

/* Processes element k of all lines together if elements are closer across lines than along them.
 * Otherwise processes line by line. */
void br__scatter_lines(int64_t n, char *const *data, const int64_t *s, const void *params)
{
    const br_scatter_work *w = params;
    if (n > 1 && s[1] <= w->y_stride) {
        char *at[] = { data[0], data[1], data[2] };
        for (int64_t k = 0; k < w->count; k++) {
            w->combine(n, at, s, w);
            at[1] += w->y_stride;
            at[2] += w->index_stride;
        }
        return;
    }
    const int64_t along[] = { 0, w->y_stride, w->index_stride };
    for (int64_t i = 0; i < n; i++) {
        char *at[] = { data[0] + i * s[0], data[1] + i * s[1], data[2] + i * s[2] };
        w->combine(w->count, at, along, w);
    }
}

/* Defines a loop that combines the elements of y with x in order, with a fast path for elements
 * that share an index, such as a row. The expression is in terms of a, an element of x, and b, one
 * of y, which is why this is a macro. COMBINE_LOOP(add_f32, float, a + b) defines add_f32_at(),
 * which adds one element, and the loop add_f32(). */
#define COMBINE_LOOP(name, type, expression)                                                     \
    static inline void name##_at(char *x, const char *y)                                         \
    {                                                                                            \
        const type a = *(const type *)(const void *)x, b = *(const type *)(const void *)y;       \
        (void)a;                                                                                 \
        *(type *)(void *)x = expression;                                                         \
    }                                                                                            \
    static void name(int64_t n, char *const *data, const int64_t *s, const void *params)         \
    {                                                                                            \
        enum { SIZE = sizeof(type) };                                                            \
        const br_scatter_work *w = params;                                                       \
        const int64_t x_step = s[0], y_step = s[1], index_step = s[2];                           \
        const int64_t stride = w->x_stride, skip = w->skip;                                      \
        char *x = data[0];                                                                       \
        const char *y = data[1], *index = data[2];                                               \
        if (index_step == 0) {                                                                   \
            const int64_t k = load_index(index);                                                 \
            const bool dense = x_step == SIZE && y_step == SIZE;                                 \
            x += k * stride;                                                                     \
            if (k != skip && dense)                                                              \
                FOR_EACH(type, i, n, name##_at(x + i * SIZE, y + i * SIZE);)                     \
            for (int64_t i = 0; k != skip && !dense && i < n; i++)                               \
                name##_at(x + i * x_step, y + i * y_step);                                       \
            return;                                                                              \
        }                                                                                        \
        if (x_step == 0 && stride == SIZE && index_step == sizeof(int64_t)) { /* a dense line */ \
            const int64_t *at = (const int64_t *)(const void *)index;                            \
            for (int64_t i = 0; i < n; i++, y += y_step)                                         \
                if (at[i] != skip)                                                               \
                    name##_at(x + at[i] * SIZE, y);                                              \
            return;                                                                              \
        }                                                                                        \
        for (int64_t i = 0; i < n; i++) {                                                        \
            const int64_t k = load_index(index + i * index_step);                                \
            if (k != skip)                                                                       \
                name##_at(x + i * x_step + k * stride, y + i * y_step);                          \
        }                                                                                        \
    }

COMBINE_LOOP(put_1, uint8_t, b)
COMBINE_LOOP(put_2, uint16_t, b)
COMBINE_LOOP(put_4, uint32_t, b)
COMBINE_LOOP(put_8, uint64_t, b)

br_loop br__scatter_loop(size_t element_size)
{
    static const br_loop by_size[] = { [1] = put_1, [2] = put_2, [4] = put_4, [8] = put_8 };
    return by_size[element_size];
}

/* A maximum or minimum keeps a NaN in x, since a != a, and takes one in y, since then no comparison
 * holds. */
#define FLOAT_LOOPS(suffix, type)                             \
    COMBINE_LOOP(add_##suffix, type, a + b)                   \
    COMBINE_LOOP(mul_##suffix, type, a *b)                    \
    COMBINE_LOOP(max_##suffix, type, a > b || a != a ? a : b) \
    COMBINE_LOOP(min_##suffix, type, a < b || a != a ? a : b)
FLOAT_LOOPS(f32, float)
FLOAT_LOOPS(f64, double)

/* Sums and products wrap around. `wide` is the unsigned type in which C computes them: for small
 * types it is no smaller than int. */
#define INTEGER_LOOPS(suffix, type, wide)                       \
    COMBINE_LOOP(add_##suffix, type, (type)((wide)a + (wide)b)) \
    COMBINE_LOOP(mul_##suffix, type, (type)((wide)a * (wide)b)) \
    COMBINE_LOOP(max_##suffix, type, (type)br__max(a, b))       \
    COMBINE_LOOP(min_##suffix, type, (type)br__min(a, b))
INTEGER_LOOPS(i64, int64_t, uint64_t)
#define STORED_LOOPS(NAME, dtype, torch, min, max) INTEGER_LOOPS(dtype, torch##_t, uint32_t)
BR_STORED_INTEGERS(STORED_LOOPS)

/* Each sum and product is rounded, as PyTorch does. */
#define HALF_LOOPS(suffix)                                                         \
    COMBINE_LOOP(add_##suffix, uint16_t,                                           \
                 br__##suffix(br__from_##suffix(a) + br__from_##suffix(b)))        \
    COMBINE_LOOP(mul_##suffix, uint16_t,                                           \
                 br__##suffix(br__from_##suffix(a) * br__from_##suffix(b)))        \
    COMBINE_LOOP(max_##suffix, uint16_t,                                           \
                 keeps_larger(br__from_##suffix(a), br__from_##suffix(b)) ? a : b) \
    COMBINE_LOOP(min_##suffix, uint16_t,                                           \
                 keeps_larger(-br__from_##suffix(a), -br__from_##suffix(b)) ? a : b)
static inline bool keeps_larger(float a, float b)
{
    return a > b || a != a;
}
HALF_LOOPS(bf16)
HALF_LOOPS(f16)

/* Sum and maximum are "or"; product and minimum are "and". */
COMBINE_LOOP(or_bool, bool, a | b)
COMBINE_LOOP(and_bool, bool, a &b)

#define STORED_ENTRY(NAME, dtype, torch, min, max) \
    [BR_##NAME] = { add_##dtype, mul_##dtype, max_##dtype, min_##dtype },
const br_scatter_loops br__scatter_loops[BR_DTYPES] = {
    [BR_F32] = { add_f32, mul_f32, max_f32, min_f32 },
    [BR_F64] = { add_f64, mul_f64, max_f64, min_f64 },
    [BR_I64] = { add_i64, mul_i64, max_i64, min_i64 },
    [BR_BOOL] = { or_bool, and_bool, or_bool, and_bool },
    [BR_BF16] = { add_bf16, mul_bf16, max_bf16, min_bf16 },
    [BR_F16] = { add_f16, mul_f16, max_f16, min_f16 },
    BR_STORED_INTEGERS(STORED_ENTRY)
};
