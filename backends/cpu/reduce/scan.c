/* backends/cpu/reduce/scan.c - cumulative sums, products, logarithms of sums, and extremes.
 *
 * y[i] = x[0] + ... + x[i], or from the last element down if `reverse` is set. Up to TILE
 * columns advance together, row by row, so that memory is read in order even if a column's elements
 * are far apart; their running totals stay in the L1 cache. The totals of floats are doubles, and
 * each y is a rounded total. Additions are in the order of the elements, so the results do not
 * depend on the number of threads. Integers wrap around. */
#include "backends/cpu/reduce/reduce_internal.h"
#include "tensor/min_max.h"

#include <math.h>

/* ---- Kernels --------------------------------------------------------------------------------- */

enum { TILE = 64 };

/* Element i of column j is at [i * step + j]; there are at most TILE columns. Floats are
 * accumulated in double; integers wrap around. */
typedef struct block {
    int64_t n, columns, step;
    bool reverse; /* from the last to the first */
    const void *x;
    void *y;
    void *values; /* of positions */
} block;

/* Defines the kernel `name` for an element type and an operator, which is why it is a macro.
 * `wide` is the type of the running totals. The total of a single column stays in a register. */
#define SCAN(name, type, wide, start, operator)                     \
    static void name##_line(const block *w)                         \
    {                                                               \
        wide total = start;                                         \
        for (int64_t i = 0; i < w->n; i++) {                        \
            int64_t at = (w->reverse ? w->n - 1 - i : i) * w->step; \
            total = total operator(wide)((const type *)w->x)[at];   \
            ((type *)w->y)[at] = (type)total;                       \
        }                                                           \
    }                                                               \
    static void name(const block *w)                                \
    {                                                               \
        wide running[TILE];                                         \
        if (w->columns == 1) {                                      \
            name##_line(w);                                         \
            return;                                                 \
        }                                                           \
        for (int64_t j = 0; j < w->columns; j++)                    \
            running[j] = start;                                     \
        for (int64_t i = 0; i < w->n; i++) {                        \
            int64_t at = (w->reverse ? w->n - 1 - i : i) * w->step; \
            const type *x = (const type *)w->x + at;                \
            type *y = (type *)w->y + at;                            \
            for (int64_t j = 0; j < w->columns; j++) {              \
                running[j] = running[j] operator(wide) x[j];        \
                y[j] = (type)running[j];                            \
            }                                                       \
        }                                                           \
    }

SCAN(cumsum_f32, float, double, 0, +)
SCAN(cumsum_f64, double, double, 0, +)
SCAN(cumsum_i64, int64_t, uint64_t, 0, +)
SCAN(cumprod_f32, float, double, 1, *)
SCAN(cumprod_f64, double, double, 1, *)
SCAN(cumprod_i64, int64_t, uint64_t, 1, *)

/* Returns log(exp(a) + exp(b)). Two equal infinities have no difference. */
static double log_add_exp(double a, double b)
{
    double high = a > b ? a : b, low = a > b ? b : a;
    return high == low && isinf(high) ? high : high + log1p(exp(low - high));
}

#define LOG_SCAN(name, type)                                        \
    static void name(const block *w)                                \
    {                                                               \
        double running[TILE];                                       \
        for (int64_t j = 0; j < w->columns; j++)                    \
            running[j] = -INFINITY;                                 \
        for (int64_t i = 0; i < w->n; i++) {                        \
            int64_t at = (w->reverse ? w->n - 1 - i : i) * w->step; \
            const type *x = (const type *)w->x + at;                \
            type *y = (type *)w->y + at;                            \
            for (int64_t j = 0; j < w->columns; j++) {              \
                running[j] = log_add_exp(running[j], (double)x[j]); \
                y[j] = (type)running[j];                            \
            }                                                       \
        }                                                           \
    }

LOG_SCAN(logsumexp_f32, float)
LOG_SCAN(logsumexp_f64, double)

/* Positions of extremes. A NaN replaces every number, and only another NaN replaces it. */
#define ARG_SCAN(name, type, beats)                                            \
    static void name##_line(const block *w)                                    \
    {                                                                          \
        const type *x = w->x;                                                  \
        type best = x[0];                                                      \
        int64_t place = 0;                                                     \
        for (int64_t i = 0; i < w->n; i++) {                                   \
            const type next = x[i * w->step];                                  \
            if (next beats best || next != next) { /* rarely, and predicted */ \
                best = next;                                                   \
                place = i;                                                     \
            }                                                                  \
            ((int64_t *)w->y)[i * w->step] = place;                            \
            ((type *)w->values)[i * w->step] = best;                           \
        }                                                                      \
    }                                                                          \
    static void name(const block *w)                                           \
    {                                                                          \
        type best[TILE];                                                       \
        int64_t place[TILE];                                                   \
        if (w->columns == 1) {                                                 \
            name##_line(w);                                                    \
            return;                                                            \
        }                                                                      \
        for (int64_t i = 0; i < w->n; i++) {                                   \
            const type *x = (const type *)w->x + i * w->step;                  \
            int64_t *y = (int64_t *)w->y + i * w->step;                        \
            type *values = (type *)w->values + i * w->step;                    \
            for (int64_t j = 0; j < w->columns; j++) {                         \
                bool later = i == 0 || x[j] != x[j] || x[j] beats best[j];     \
                best[j] = later ? x[j] : best[j];                              \
                place[j] = later ? i : place[j];                               \
                y[j] = place[j];                                               \
                values[j] = best[j];                                           \
            }                                                                  \
        }                                                                      \
    }

ARG_SCAN(argmax_f32, float, >=)
ARG_SCAN(argmax_f64, double, >=)
ARG_SCAN(argmax_i64, int64_t, >=)
ARG_SCAN(argmin_f32, float, <=)
ARG_SCAN(argmin_f64, double, <=)
ARG_SCAN(argmin_i64, int64_t, <=)

typedef void (*kernel)(const block *w);

static const kernel kernels[BR_SCANS][BR_DTYPES] = {
    [BR_SCAN_SUM] = { [BR_F32] = cumsum_f32, [BR_F64] = cumsum_f64, [BR_I64] = cumsum_i64 },
    [BR_SCAN_PROD] = { [BR_F32] = cumprod_f32, [BR_F64] = cumprod_f64, [BR_I64] = cumprod_i64 },
    [BR_SCAN_LOGSUMEXP] = { [BR_F32] = logsumexp_f32, [BR_F64] = logsumexp_f64 },
    [BR_SCAN_ARGMAX] = { [BR_F32] = argmax_f32, [BR_F64] = argmax_f64, [BR_I64] = argmax_i64 },
    [BR_SCAN_ARGMIN] = { [BR_F32] = argmin_f32, [BR_F64] = argmin_f64, [BR_I64] = argmin_i64 },
};

/* ---- Tasks ----------------------------------------------------------------------------------- */

/* A contiguous tensor viewed as [before, n, after] around the dimension, processed in tiles of
 * contiguous columns. */
typedef struct job {
    kernel kernel;
    int64_t before, n, after, tiles, units_per_task;
    int64_t size, y_size;
    bool reverse;
    const char *x;
    char *y, *values;
} job;

static void run_task(void *context, int64_t task)
{
    const job *j = context;
    int64_t first = task * j->units_per_task, last = first + j->units_per_task;
    for (int64_t unit = first; unit < last && unit < j->before * j->tiles; unit++) {
        int64_t column = unit % j->tiles * TILE, rest = j->after - column;
        int64_t offset = unit / j->tiles * j->n * j->after + column;
        j->kernel(&(block){ .n = j->n,
                            .columns = br__min(rest, TILE),
                            .step = j->after,
                            .reverse = j->reverse,
                            .x = j->x + offset * j->size,
                            .y = j->y + offset * j->y_size,
                            .values = j->values ? j->values + offset * j->size : NULL });
    }
}

void br__cpu_scan(const br_tensor *y, const br_tensor *x, const br_scan_work *work)
{
    job j = { .kernel = kernels[work->kind][x->dtype],
              .before = 1,
              .n = 1,
              .after = 1,
              .size = (int64_t)br__dtype_size(x->dtype),
              .y_size = (int64_t)br__dtype_size(y->dtype),
              .reverse = work->reverse,
              .x = x->data,
              .y = y->data,
              .values = work->values ? work->values->data : NULL };
    for (int i = 0; i < x->ndim; i++)
        *(i < work->dim ? &j.before : i == work->dim ? &j.n : &j.after) *= x->sizes[i];
    j.tiles = (j.after + TILE - 1) / TILE;
    int64_t columns = br__min(j.after, TILE);
    j.units_per_task = BR_GRAIN / (j.n * columns) + 1;
    br__parallel((j.before * j.tiles + j.units_per_task - 1) / j.units_per_task, run_task, &j);
}
