/* ops/kernels/index.c - looking elements up by index, and adding them up again. Bound by memory, so
 * one build serves every instruction set. */
#include "ops/kernels/index.h"

#include <stdbool.h>

#include <string.h>

static inline int64_t load_index(const char *p)
{
    return *(const int64_t *)(const void *)p;
}

#define GATHER_LOOP(name, type)                                                           \
    static void name(int64_t n, char *const *data, const int64_t *s, const void *params)  \
    {                                                                                     \
        enum { SIZE = sizeof(type) };                                                     \
        const int64_t stride = *(const int64_t *)params;                                  \
        if (s[2] == 0 && s[0] == SIZE && s[1] == SIZE) {                                  \
            memcpy(data[0], data[1] + load_index(data[2]) * stride, (size_t)n * SIZE);    \
            return;                                                                       \
        }                                                                                 \
        for (int64_t i = 0; i < n; i++) {                                                 \
            const char *x = data[1] + i * s[1] + load_index(data[2] + i * s[2]) * stride; \
            *(type *)(void *)(data[0] + i * s[0]) = *(const type *)(const void *)x;       \
        }                                                                                 \
    }
GATHER_LOOP(gather_1, uint8_t)
GATHER_LOOP(gather_4, uint32_t)
GATHER_LOOP(gather_8, uint64_t)

br_loop br__gather_loop(size_t element_size)
{
    return element_size == 8 ? gather_8 : element_size == 4 ? gather_4 : gather_1;
}

/* One index for all n lines: they are taken as one run. Otherwise each line by itself, or, where
 * neighbours lie closer across the lines than along them, all lines a step at a time. */
#define SCATTER_LOOP(name, type, expression)                                                       \
    static inline void name##_at(char *x, const char *y)                                           \
    {                                                                                              \
        const type a = *(const type *)(const void *)x, b = *(const type *)(const void *)y;         \
        (void)a;                                                                                   \
        *(type *)(void *)x = expression;                                                           \
    }                                                                                              \
    static void name##_run(int64_t n, char *x, int64_t xs, const char *y, int64_t ys)              \
    {                                                                                              \
        enum { SIZE = sizeof(type) };                                                              \
        for (int64_t i = 0; xs == SIZE && ys == SIZE && i < n; i++)                                \
            name##_at(x + i * SIZE, y + i * SIZE);                                                 \
        for (int64_t i = 0; !(xs == SIZE && ys == SIZE) && i < n; i++)                             \
            name##_at(x + i * xs, y + i * ys);                                                     \
    }                                                                                              \
    static void name##_one(char *const *data, const int64_t *s, const br_scatter_work *w,          \
                           int64_t i, int64_t k)                                                   \
    {                                                                                              \
        int64_t j = load_index(data[2] + i * s[2] + k * w->index_stride);                          \
        if (j != w->skip)                                                                          \
            name##_at(data[0] + i * s[0] + j * w->x_stride, data[1] + i * s[1] + k * w->y_stride); \
    }                                                                                              \
    static void name(int64_t n, char *const *data, const int64_t *s, const void *params)           \
    {                                                                                              \
        const br_scatter_work *w = params;                                                         \
        for (int64_t k = 0; s[2] == 0 && k < w->count; k++) {                                      \
            int64_t j = load_index(data[2] + k * w->index_stride);                                 \
            if (j != w->skip)                                                                      \
                name##_run(n, data[0] + j * w->x_stride, s[0], data[1] + k * w->y_stride, s[1]);   \
        }                                                                                          \
        if (s[2] == 0)                                                                             \
            return;                                                                                \
        if (s[1] <= w->y_stride) {                                                                 \
            for (int64_t k = 0; k < w->count; k++)                                                 \
                for (int64_t i = 0; i < n; i++)                                                    \
                    name##_one(data, s, w, i, k);                                                  \
            return;                                                                                \
        }                                                                                          \
        for (int64_t i = 0; i < n; i++)                                                            \
            for (int64_t k = 0; k < w->count; k++)                                                 \
                name##_one(data, s, w, i, k);                                                      \
    }

SCATTER_LOOP(scatter_1, uint8_t, b)
SCATTER_LOOP(scatter_4, uint32_t, b)
SCATTER_LOOP(scatter_8, uint64_t, b)

br_loop br__scatter_loop(size_t element_size)
{
    return element_size == 8 ? scatter_8 : element_size == 4 ? scatter_4 : scatter_1;
}

#define FLOAT_LOOPS(suffix, type)                                                             \
    SCATTER_LOOP(add_##suffix, type, a + b)                                                   \
    SCATTER_LOOP(mul_##suffix, type, a *b)                                                    \
    SCATTER_LOOP(max_##suffix, type, a > b || a != a ? a : b)                                 \
    SCATTER_LOOP(min_##suffix, type, a < b || a != a ? a : b)                                 \
    const br_scatter_loops br__scatter_##suffix = { add_##suffix, mul_##suffix, max_##suffix, \
                                                    min_##suffix };
FLOAT_LOOPS(f32, float)
FLOAT_LOOPS(f64, double)

/* Sums and products wrap around. */
SCATTER_LOOP(add_i64, int64_t, (int64_t)((uint64_t)a + (uint64_t)b))
SCATTER_LOOP(mul_i64, int64_t, (int64_t)((uint64_t)a *(uint64_t)b))
SCATTER_LOOP(max_i64, int64_t, a > b ? a : b)
SCATTER_LOOP(min_i64, int64_t, a < b ? a : b)
const br_scatter_loops br__scatter_i64 = { add_i64, mul_i64, max_i64, min_i64 };

/* The sum and the largest are or, the product and the smallest and. */
SCATTER_LOOP(or_bool, bool, a | b)
SCATTER_LOOP(and_bool, bool, a &b)
const br_scatter_loops br__scatter_bool = { or_bool, and_bool, or_bool, and_bool };
