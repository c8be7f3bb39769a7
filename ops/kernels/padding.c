/* ops/kernels/padding.c - planes among zeros. Bound by memory, so one build serves every
 * instruction set. */
#include "ops/kernels/padding.h"

#include <string.h>

enum { LONG = 16 }; /* elements for which a call is worth its price */

/* The first of the run's columns that is not before column `at`, at most all of them. */
static int64_t first_in_run(const br_padding *p, int64_t run, int64_t at)
{
    const int64_t first = at > run ? (at - run + p->fold - 1) / p->fold : 0;
    return first < p->columns ? first : p->columns;
}

/* Rows are mostly short: loops spare the calls that compilers would make of them. */
#define PAD(type, suffix)                                                                       \
    static void pad_run_##suffix(const br_padding *p, int64_t run, int64_t lo, int64_t hi,      \
                                 const type *restrict from, type *restrict to)                  \
    {                                                                                           \
        const int64_t fold = p->fold, shift = run - p->before[1];                               \
        for (int64_t x = 0; x < lo; x++)                                                        \
            to[x] = 0;                                                                          \
        if (fold == 1 && hi - lo >= LONG)                                                       \
            memcpy(to + lo, from + lo + shift, (size_t)(hi - lo) * sizeof *to);                 \
        else                                                                                    \
            for (int64_t x = lo; x < hi; x++)                                                   \
                to[x] = from[x * fold + shift];                                                 \
        for (int64_t x = hi; x < p->columns; x++)                                               \
            to[x] = 0;                                                                          \
    }                                                                                           \
    void br__pad_##suffix(const br_padding *p, const void *plane, void *padded)                 \
    {                                                                                           \
        const int64_t width = p->fold * p->columns;                                             \
        for (int64_t run = 0; run < p->fold; run++) {                                           \
            const int64_t lo = first_in_run(p, run, p->before[1]);                              \
            const int64_t hi = first_in_run(p, run, p->before[1] + p->size[1]);                 \
            type *to = (type *)padded + run * p->columns;                                       \
            for (int64_t y = -p->before[0]; y < p->rows - p->before[0]; y++, to += width)       \
                if (y < 0 || y >= p->size[0])                                                   \
                    memset(to, 0, (size_t)p->columns * sizeof *to);                             \
                else                                                                            \
                    pad_run_##suffix(p, run, lo, hi, (const type *)plane + y * p->size[1], to); \
        }                                                                                       \
    }
PAD(float, f32)
PAD(double, f64)
