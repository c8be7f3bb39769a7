/* backends/cpu/reduce/resample.c - weighted sums of neighbours along a dimension, and the adjoint.
 *
 * y[o] = sum over t of weights[o][t] x[starts[o] + t]
 *
 * A tensor is viewed as [before, n, after] around the dimension. Up to TILE columns are processed
 * together, so that memory is read in order, and their sums are doubles. Each sum is added up in
 * the order of its terms, so that results do not depend on the number of threads. */
#include "backends/cpu/hints.h"
#include "backends/cpu/reduce/reduce_internal.h"
#include "tensor/min_max.h"

#include <string.h>

enum {
    TILE = 256,
    FEW = 4, /* terms of a sum that is computed in one pass */
};

typedef struct job job;
struct job {
    void (*kernel)(const job *j, int64_t before, int64_t column, int64_t columns);
    char *x, *y; /* of the adjoint: dx, and dy, which it only reads */
    int64_t n, outputs, after, tiles, units, units_per_task, taps;
    const int64_t *starts;
    const double *weights;
    bool selects; /* each output is one element with weight 1 */
};

/* Defines the kernels for an element type, which is why they are macros. Elements with a weight of
 * 0 are not read, because they may be infinite. `taps` and `n` are constants after inlining. */
#define RESAMPLE(type)                                                                         \
    ALWAYS_INLINE void sums_of_line_##type(const job *j, int64_t taps, const type *x, type *y) \
    {                                                                                          \
        for (int64_t o = 0; o < j->outputs; o++) {                                             \
            const double *weight = j->weights + o * taps;                                      \
            const type *from = x + j->starts[o];                                               \
            double sum = 0;                                                                    \
            for (int64_t t = 0; t < taps; t++)                                                 \
                sum += weight[t] != 0 ? weight[t] * (double)from[t] : 0;                       \
            y[o] = (type)sum;                                                                  \
        }                                                                                      \
    }                                                                                          \
    static void line_##type(const job *j, const type *x, type *y)                              \
    {                                                                                          \
        if (j->selects)                                                                        \
            for (int64_t o = 0; o < j->outputs; o++)                                           \
                y[o] = x[j->starts[o]];                                                        \
        else if (j->taps == 2)                                                                 \
            sums_of_line_##type(j, 2, x, y);                                                   \
        else if (j->taps == 4)                                                                 \
            sums_of_line_##type(j, 4, x, y);                                                   \
        else                                                                                   \
            sums_of_line_##type(j, j->taps, x, y);                                             \
    }                                                                                          \
    ALWAYS_INLINE void sums_of_rows_##type(int n, int64_t columns, const type *const *rows,    \
                                           const double *weights, type *y)                     \
    {                                                                                          \
        const type *a = rows[0], *b = rows[n > 1], *c = rows[n > 2 ? 2 : 0],                   \
                   *d = rows[n > 3 ? 3 : 0];                                                   \
        const double wa = weights[0], wb = weights[n > 1], wc = weights[n > 2 ? 2 : 0],        \
                     wd = weights[n > 3 ? 3 : 0];                                              \
        FOR_EACH(type, k, columns, {                                                           \
            double sum = 0 + wa * (double)a[k];                                                \
            if (n > 1)                                                                         \
                sum += wb * (double)b[k];                                                      \
            if (n > 2)                                                                         \
                sum += wc * (double)c[k];                                                      \
            if (n > 3)                                                                         \
                sum += wd * (double)d[k];                                                      \
            y[k] = (type)sum;                                                                  \
        })                                                                                     \
    }                                                                                          \
    static void sums_of_many_##type(const job *j, int64_t columns, const type *x,              \
                                    const double *weight, type *y)                             \
    {                                                                                          \
        double sum[TILE] = { 0 };                                                              \
        for (int64_t t = 0; t < j->taps; t++)                                                  \
            if (weight[t] != 0)                                                                \
                for (int64_t c = 0; c < columns; c++)                                          \
                    sum[c] += weight[t] * (double)x[t * j->after + c];                         \
        for (int64_t c = 0; c < columns; c++)                                                  \
            y[c] = (type)sum[c];                                                               \
    }                                                                                          \
    static void row_##type(const job *j, int64_t columns, const type *x, const double *weight, \
                           type *y)                                                            \
    {                                                                                          \
        const type *rows[FEW];                                                                 \
        double weights[FEW];                                                                   \
        int n = 0;                                                                             \
        for (int64_t t = 0; j->taps <= FEW && t < j->taps; t++)                                \
            if (weight[t] != 0) {                                                              \
                weights[n] = weight[t];                                                        \
                rows[n++] = x + t * j->after;                                                  \
            }                                                                                  \
        if (j->selects)                                                                        \
            memcpy(y, x, (size_t)columns * sizeof *y);                                         \
        else if (n == 1)                                                                       \
            sums_of_rows_##type(1, columns, rows, weights, y);                                 \
        else if (n == 2)                                                                       \
            sums_of_rows_##type(2, columns, rows, weights, y);                                 \
        else if (n == 4)                                                                       \
            sums_of_rows_##type(4, columns, rows, weights, y);                                 \
        else                                                                                   \
            sums_of_many_##type(j, columns, x, weight, y);                                     \
    }                                                                                          \
    static void forward_##type(const job *j, int64_t before, int64_t column, int64_t columns)  \
    {                                                                                          \
        const type *x = (const type *)(void *)j->x + before * j->n * j->after + column;        \
        type *y = (type *)(void *)j->y + before * j->outputs * j->after + column;              \
        if (j->after == 1)                                                                     \
            line_##type(j, x, y);                                                              \
        for (int64_t o = 0; j->after > 1 && o < j->outputs; o++)                               \
            row_##type(j, columns, x + j->starts[o] * j->after, j->weights + o * j->taps,      \
                       y + o * j->after);                                                      \
    }                                                                                          \
    /* Adds the outputs of one element, which are adjacent, in a register. */                  \
    static void adjoint_of_selection_##type(const job *j, type *x, const type *y)              \
    {                                                                                          \
        for (int64_t o = 0; o < j->outputs;) {                                                 \
            const int64_t at = j->starts[o];                                                   \
            type sum = x[at];                                                                  \
            for (; o < j->outputs && j->starts[o] == at; o++)                                  \
                sum += y[o];                                                                   \
            x[at] = sum;                                                                       \
        }                                                                                      \
    }                                                                                          \
    static void adjoint_##type(const job *j, int64_t before, int64_t column, int64_t columns)  \
    {                                                                                          \
        type *x = (type *)(void *)j->x + before * j->n * j->after + column;                    \
        const type *y = (const type *)(void *)j->y + before * j->outputs * j->after + column;  \
        if (j->after == 1 && j->selects) {                                                     \
            adjoint_of_selection_##type(j, x, y);                                              \
            return;                                                                            \
        }                                                                                      \
        for (int64_t o = 0; o < j->outputs; o++) {                                             \
            type *row = x + j->starts[o] * j->after;                                           \
            const type *from = y + o * j->after;                                               \
            const double *weight = j->weights + o * j->taps;                                   \
            for (int64_t t = 0; t < j->taps; t++, row += j->after) {                           \
                const double w = weight[t];                                                    \
                if (w == 1)                                                                    \
                    FOR_EACH(type, c, columns, row[c] += from[c];)                             \
                else if (w != 0)                                                               \
                    FOR_EACH(type, c, columns, row[c] += (type)(w * (double)from[c]);)         \
            }                                                                                  \
        }                                                                                      \
    }

RESAMPLE(float)
RESAMPLE(double)

static bool selects(const job *j)
{
    bool all = j->taps == 1;
    for (int64_t o = 0; all && o < j->outputs; o++)
        all = j->weights[o] == 1;
    return all;
}

static void run_task(void *context, int64_t task)
{
    const job *j = context;
    int64_t first = task * j->units_per_task, last = br__min(first + j->units_per_task, j->units);
    for (int64_t unit = first; unit < last; unit++) {
        const int64_t column = unit % j->tiles * TILE;
        j->kernel(j, unit / j->tiles, column, br__min(j->after - column, TILE));
    }
}

static void run(const br_tensor *x, const br_tensor *y, const br_resampling *work, bool adjoint)
{
    const bool narrow = x->dtype == BR_F32;
    job j = { .kernel = adjoint ? (narrow ? adjoint_float : adjoint_double)
                                : (narrow ? forward_float : forward_double),
              .x = x->data,
              .y = y->data,
              .n = x->sizes[work->dim],
              .outputs = y->sizes[work->dim],
              .after = 1,
              .taps = work->taps,
              .starts = br__element(work->starts, 0),
              .weights = br__element(work->weights, 0) };
    j.selects = selects(&j);
    int64_t before = 1;
    for (int i = 0; i < x->ndim; i++)
        if (i != work->dim)
            *(i < work->dim ? &before : &j.after) *= x->sizes[i];
    j.tiles = (j.after + TILE - 1) / TILE;
    j.units = before * j.tiles;
    const int64_t columns = br__min(j.after, TILE);
    j.units_per_task = BR_GRAIN / (br__max(j.n, j.outputs * j.taps) * columns) + 1;
    br__parallel((j.units + j.units_per_task - 1) / j.units_per_task, run_task, &j);
}

void br__cpu_resample(const br_tensor *y, const br_tensor *x, const br_resampling *work)
{
    run(x, y, work, false);
}

void br__cpu_resample_grad(const br_tensor *dx, const br_tensor *dy, const br_resampling *work)
{
    run(dx, dy, work, true);
}
