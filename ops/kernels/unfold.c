/* ops/kernels/unfold.c - unfolding of planes for convolutions. Bound by memory, so one build serves
 * every instruction set. */
#include "ops/kernels/unfold.h"

#include <string.h>

/* Rows are mostly short: loops spare the calls that compilers would make of them. */
#define UNFOLD(type, suffix)                                                                     \
    static void copy_row_##suffix(const br_kernel_tap *at, int64_t n, int64_t stride,            \
                                  const type *from, type *to)                                    \
    {                                                                                            \
        int64_t x = 0;                                                                           \
        for (; x < at->lo; x++)                                                                  \
            to[x] = 0;                                                                           \
        if (stride == 1)                                                                         \
            for (; x < at->hi; x++)                                                              \
                to[x] = from[at->start + x];                                                     \
        for (; x < at->hi; x++)                                                                  \
            to[x] = from[at->start + x * stride];                                                \
        for (; x < n; x++)                                                                       \
            to[x] = 0;                                                                           \
    }                                                                                            \
    static void add_row_##suffix(const br_kernel_tap *at, int64_t stride, const type *from,      \
                                 type *to)                                                       \
    {                                                                                            \
        int64_t x = at->lo;                                                                      \
        if (stride == 1)                                                                         \
            for (; x < at->hi; x++)                                                              \
                to[at->start + x] += from[x];                                                    \
        for (; x < at->hi; x++)                                                                  \
            to[at->start + x * stride] += from[x];                                               \
    }                                                                                            \
    void br__unfold_##suffix(const br_columns *u, const void *plane, void *matrix)               \
    {                                                                                            \
        for (int64_t t = 0; t < u->kernel[0] * u->kernel[1]; t++) {                              \
            const br_kernel_tap at = br__tap_at(u, t);                                           \
            type *to = (type *)matrix + t * u->tap;                                              \
            for (int64_t y = 0; y < u->rows; y++, to += u->columns) {                            \
                int64_t row = (u->first_row + y) * u->stride[0] + at.row;                        \
                if (row >= 0 && row < u->size[0])                                                \
                    copy_row_##suffix(&at, u->columns, u->stride[1],                             \
                                      (const type *)plane + row * u->size[1], to);               \
                else                                                                             \
                    memset(to, 0, (size_t)u->columns * sizeof *to);                              \
            }                                                                                    \
        }                                                                                        \
    }                                                                                            \
    void br__fold_##suffix(const br_columns *u, const void *matrix, void *plane)                 \
    {                                                                                            \
        for (int64_t t = 0; t < u->kernel[0] * u->kernel[1]; t++) {                              \
            const br_kernel_tap at = br__tap_at(u, t);                                           \
            const type *from = (const type *)matrix + t * u->tap;                                \
            for (int64_t y = 0; y < u->rows; y++, from += u->columns) {                          \
                int64_t row = (u->first_row + y) * u->stride[0] + at.row;                        \
                if (row >= 0 && row < u->size[0])                                                \
                    add_row_##suffix(&at, u->stride[1], from, (type *)plane + row * u->size[1]); \
            }                                                                                    \
        }                                                                                        \
    }
UNFOLD(float, f32)
UNFOLD(double, f64)
