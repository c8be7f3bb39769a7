/* ops/kernels/padding.c - copies planes into zero-padded planes.
 *
 * padding.h describes the layout: each row of the padded plane is stored as `fold` runs, and run r
 * holds its columns r, r + fold, r + 2 fold, ... For each run, the columns lo .. hi - 1 come from
 * the plane, `fold` elements apart, and are copied row by row. All others are zeros, which are
 * written only if `clear` is true, that is, for the first plane in a buffer. The loops are
 * memory-bound, so there is one build for all instruction sets. */
#include "ops/kernels/padding.h"

#include <string.h>

/* Returns the index of the first column of a run that is at or after column `at` of the padded
 * plane, at most p->columns. */
static int64_t first_in_run(const br_padding *p, int64_t run, int64_t at)
{
    const int64_t first = at > run ? (at - run + p->fold - 1) / p->fold : 0;
    return first < p->columns ? first : p->columns;
}

/* Defines br__pad_suffix() for a type, which is why it is a macro. Most rows are short: for 4 to 16
 * elements, two copies of constant size, which may overlap, avoid a call of memcpy(). A fold of 2,
 * the most common one above 1, has a loop with a constant step. */
#define PAD(type, suffix)                                                                   \
    static void copy_##suffix(int64_t n, const type *restrict from, type *restrict to)      \
    {                                                                                       \
        if (n > 16) {                                                                       \
            memcpy(to, from, (size_t)n * sizeof *to);                                       \
        } else if (n >= 8) {                                                                \
            memcpy(to, from, 8 * sizeof *to);                                               \
            memcpy(to + n - 8, from + n - 8, 8 * sizeof *to);                               \
        } else if (n >= 4) {                                                                \
            memcpy(to, from, 4 * sizeof *to);                                               \
            memcpy(to + n - 4, from + n - 4, 4 * sizeof *to);                               \
        } else {                                                                            \
            for (int64_t i = 0; i < n; i++)                                                 \
                to[i] = from[i];                                                            \
        }                                                                                   \
    }                                                                                       \
    static void copy_apart_##suffix(int64_t n, int64_t step, const type *restrict from,     \
                                    type *restrict to)                                      \
    {                                                                                       \
        if (step == 1)                                                                      \
            copy_##suffix(n, from, to);                                                     \
        else if (step == 2)                                                                 \
            for (int64_t i = 0; i < n; i++)                                                 \
                to[i] = from[2 * i];                                                        \
        else                                                                                \
            for (int64_t i = 0; i < n; i++)                                                 \
                to[i] = from[i * step];                                                     \
    }                                                                                       \
    void br__pad_##suffix(const br_padding *p, bool clear, const void *plane, void *padded) \
    {                                                                                       \
        const int64_t top = p->before[0] < p->rows ? p->before[0] : p->rows;                \
        const int64_t rows = p->size[0] < p->rows - top ? p->size[0] : p->rows - top;       \
        if (clear)                                                                          \
            memset(padded, 0, (size_t)br__padded_size(p) * sizeof(type));                   \
        for (int64_t run = 0; run < p->fold; run++) {                                       \
            const int64_t lo = first_in_run(p, run, p->before[1]);                          \
            const int64_t hi = first_in_run(p, run, p->before[1] + p->size[1]);             \
            const type *from = (const type *)plane + (lo * p->fold + run - p->before[1]);   \
            type *to = (type *)padded + br__padded_at(p, top, run) + lo;                    \
            for (int64_t y = 0; y < rows && lo < hi; y++)                                   \
                copy_apart_##suffix(hi - lo, p->fold, from + y * p->size[1],                \
                                    to + y * p->fold * p->columns);                         \
        }                                                                                   \
    }
PAD(float, f32)
PAD(double, f64)
