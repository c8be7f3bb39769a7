/* backends/cpu/shape/padding.c - copies planes into zero-padded planes.
 *
 * padding.h describes the layout: each row of the padded plane is stored as `fold` runs, and run r
 * holds its columns r, r + fold, r + 2 fold, ... For each run, the columns lo .. hi - 1 come from
 * the plane, `fold` elements apart, and are copied row by row. All others are zeros, which are
 * written only if `clear` is true, that is, for the first plane in a buffer. The loops are
 * memory-bound, so there is one build for all instruction sets. */
#include "backends/cpu/shape/padding.h"
#include "backends/cpu/hints.h"
#include "tensor/min_max.h"

#include <string.h>

/* Returns the index of the first column of a run that is at or after column `at` of the padded
 * plane, at most p->columns. */
static int64_t first_in_run(const br_padding *p, int64_t run, int64_t at)
{
    const int64_t first = at > run ? (at - run + p->fold - 1) / p->fold : 0;
    return br__min(first, p->columns);
}

/* Copies n elements of `size` bytes, which is a constant after inlining. Most rows are short: for 4
 * to 16 elements, two copies of constant size, which may overlap, avoid a call of memcpy(). */
ALWAYS_INLINE void copy_run(int64_t size, int64_t n, const char *restrict from, char *restrict to)
{
    if (n > 16) {
        memcpy(to, from, (size_t)(n * size));
    } else if (n >= 8) {
        memcpy(to, from, (size_t)(8 * size));
        memcpy(to + (n - 8) * size, from + (n - 8) * size, (size_t)(8 * size));
    } else if (n >= 4) {
        memcpy(to, from, (size_t)(4 * size));
        memcpy(to + (n - 4) * size, from + (n - 4) * size, (size_t)(4 * size));
    } else {
        for (int64_t i = 0; i < n; i++)
            memcpy(to + i * size, from + i * size, (size_t)size);
    }
}

/* Copies n elements that are `step` elements apart to contiguous ones. A step of 2, the most common
 * one above 1, has a loop of its own. */
ALWAYS_INLINE void copy_apart(int64_t size, int64_t n, int64_t step, const char *restrict from,
                              char *restrict to)
{
    if (step == 1)
        copy_run(size, n, from, to);
    else if (step == 2)
        for (int64_t i = 0; i < n; i++)
            memcpy(to + i * size, from + 2 * i * size, (size_t)size);
    else
        for (int64_t i = 0; i < n; i++)
            memcpy(to + i * size, from + i * step * size, (size_t)size);
}

ALWAYS_INLINE void pad(int64_t size, const br_padding *p, bool clear, const char *plane,
                       char *padded)
{
    const int64_t top = br__min(p->before[0], p->rows);
    const int64_t rows = br__min(p->size[0], p->rows - top);
    if (clear)
        memset(padded, 0, (size_t)(br__padded_size(p) * size));
    for (int64_t run = 0; run < p->fold; run++) {
        const int64_t lo = first_in_run(p, run, p->before[1]);
        const int64_t hi = first_in_run(p, run, p->before[1] + p->size[1]);
        const int64_t first = lo * p->fold + run - p->before[1];
        const int64_t at = br__padded_at(p, top, run) + lo;
        for (int64_t y = 0; y < rows && lo < hi; y++)
            copy_apart(size, hi - lo, p->fold, plane + (first + y * p->size[1]) * size,
                       padded + (at + y * p->fold * p->columns) * size);
    }
}

void br__pad(size_t element_size, const br_padding *p, bool clear, const void *plane, void *padded)
{
    if (element_size == 4)
        pad(4, p, clear, plane, padded);
    else
        pad(8, p, clear, plane, padded);
}
