/* ops/kernels/index.c - looking elements up by index, and adding them up again. Bound by memory, so
 * one build serves every instruction set. */
#include "ops/kernels/index.h"

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

/* One index for all n lines: they are added as one run. Otherwise each line by itself, or, where
 * neighbours lie closer across the lines than along them, all lines a step at a time. */
#define SCATTER_LOOP(name, type)                                                                 \
    static void name##_run(int64_t n, char *x, int64_t xs, const char *y, int64_t ys)            \
    {                                                                                            \
        enum { SIZE = sizeof(type) };                                                            \
        if (xs == SIZE && ys == SIZE) {                                                          \
            for (int64_t i = 0; i < n; i++)                                                      \
                ((type *)(void *)x)[i] += ((const type *)(const void *)y)[i];                    \
            return;                                                                              \
        }                                                                                        \
        for (int64_t i = 0; i < n; i++)                                                          \
            *(type *)(void *)(x + i * xs) += *(const type *)(const void *)(y + i * ys);          \
    }                                                                                            \
    static void name##_one(char *const *data, const int64_t *s, const br_scatter *w, int64_t i,  \
                           int64_t k)                                                            \
    {                                                                                            \
        int64_t j = load_index(data[2] + i * s[2] + k * w->index_stride);                        \
        if (j != w->skip)                                                                        \
            *(type *)(void *)(data[0] + i * s[0] + j * w->x_stride) +=                           \
                *(const type *)(const void *)(data[1] + i * s[1] + k * w->y_stride);             \
    }                                                                                            \
    static void name##_loop(int64_t n, char *const *data, const int64_t *s, const void *params)  \
    {                                                                                            \
        const br_scatter *w = params;                                                            \
        for (int64_t k = 0; s[2] == 0 && k < w->count; k++) {                                    \
            int64_t j = load_index(data[2] + k * w->index_stride);                               \
            if (j != w->skip)                                                                    \
                name##_run(n, data[0] + j * w->x_stride, s[0], data[1] + k * w->y_stride, s[1]); \
        }                                                                                        \
        if (s[2] == 0)                                                                           \
            return;                                                                              \
        if (s[1] <= w->y_stride) {                                                               \
            for (int64_t k = 0; k < w->count; k++)                                               \
                for (int64_t i = 0; i < n; i++)                                                  \
                    name##_one(data, s, w, i, k);                                                \
            return;                                                                              \
        }                                                                                        \
        for (int64_t i = 0; i < n; i++)                                                          \
            for (int64_t k = 0; k < w->count; k++)                                               \
                name##_one(data, s, w, i, k);                                                    \
    }                                                                                            \
    const br_loop br__##name = name##_loop;
SCATTER_LOOP(scatter_add_f32, float)
SCATTER_LOOP(scatter_add_f64, double)
