/* backends/cpu/reduce/resample.c - weighted sums of neighbours along a dimension, and the adjoint.
 *
 * y[o] = sum over t of weights[o][t] x[starts[o] + t]
 *
 * A tensor is viewed as [before, n, after] around the dimension. Up to TILE columns are processed
 * together, so that memory is read in order, and their sums are doubles. Each sum is added up in
 * the order of its terms, so that results do not depend on the number of threads. */
#include "backends/cpu/reduce/reduce_internal.h"
#include "tensor/min_max.h"

enum { TILE = 64 };

typedef struct job job;
struct job {
    void (*kernel)(const job *j, int64_t before, int64_t column, int64_t columns);
    char *x, *y; /* of the adjoint: dx, and dy, which it only reads */
    int64_t n, outputs, after, tiles, units, units_per_task, taps;
    const int64_t *starts;
    const double *weights;
};

/* Defines both kernels for an element type, which is why they are macros. */
#define RESAMPLE(type)                                                                            \
    static inline double weighted_sum_##type(int64_t taps, const double *weight, const type *x)   \
    {                                                                                             \
        double sum = 0;                                                                           \
        for (int64_t t = 0; t < taps; t++)                                                        \
            sum += weight[t] != 0 ? weight[t] * (double)x[t] : 0;                                 \
        return sum;                                                                               \
    }                                                                                             \
    static void forward_##type(const job *j, int64_t before, int64_t column, int64_t columns)     \
    {                                                                                             \
        const type *x = (const type *)(void *)j->x + before * j->n * j->after + column;           \
        type *y = (type *)(void *)j->y + before * j->outputs * j->after + column;                 \
        for (int64_t o = 0; o < j->outputs; o++) {                                                \
            const type *row = x + j->starts[o] * j->after;                                        \
            const double *weight = j->weights + o * j->taps;                                      \
            if (j->after == 1) {                                                                  \
                y[o] = (type)weighted_sum_##type(j->taps, weight, row);                           \
                continue;                                                                         \
            }                                                                                     \
            double sum[TILE];                                                                     \
            for (int64_t c = 0; c < columns; c++)                                                 \
                sum[c] = 0;                                                                       \
            for (int64_t t = 0; t < j->taps; t++)                                                 \
                if (weight[t] != 0)                                                               \
                    for (int64_t c = 0; c < columns; c++)                                         \
                        sum[c] += weight[t] * (double)row[t * j->after + c];                      \
            for (int64_t c = 0; c < columns; c++)                                                 \
                y[o * j->after + c] = (type)sum[c];                                               \
        }                                                                                         \
    }                                                                                             \
    static void adjoint_##type(const job *j, int64_t before, int64_t column, int64_t columns)     \
    {                                                                                             \
        type *x = (type *)(void *)j->x + before * j->n * j->after + column;                       \
        const type *y = (const type *)(void *)j->y + before * j->outputs * j->after + column;     \
        for (int64_t o = 0; o < j->outputs; o++) {                                                \
            type *row = x + j->starts[o] * j->after;                                              \
            const double *weight = j->weights + o * j->taps;                                      \
            for (int64_t t = 0; t < j->taps; t++)                                                 \
                if (weight[t] != 0)                                                               \
                    for (int64_t c = 0; c < columns; c++)                                         \
                        row[t * j->after + c] += (type)(weight[t] * (double)y[o * j->after + c]); \
        }                                                                                         \
    }

RESAMPLE(float)
RESAMPLE(double)

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
