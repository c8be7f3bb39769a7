/* backends/cpu/loss/class_rows.c - cross entropy of rows of class scores, in parallel over the
 * rows. The results of a row do not depend on other rows. Rows of a storage dtype are widened one
 * by one. */
#include "backends/cpu/loss/class_rows.h"
#include "backends/cpu/loss/loss_internal.h"
#include "backends/cpu/pointwise/widened.h"

#include <math.h>
#include <string.h>

static int64_t size_of(const br_class_rows *r)
{
    return (int64_t)br__dtype_size(r->dtype);
}

static double load(const br_class_rows *r, const char *values, int64_t i)
{
    return br__get(r->dtype, values + i * size_of(r));
}

static void store(const br_class_rows *r, char *values, int64_t i, double value)
{
    br__put(r->dtype, values + i * size_of(r), value);
}

br_class_rows br__class_rows(const br_class_loss *s, int64_t classes,
                             const br_cross_entropy_tensors *t)
{
    const br_dtype dtype = br__computed(t->losses ? t->losses->dtype : t->dscores->dtype);
    return (br_class_rows){ .kernels = br__kernels_of(dtype),
                            .s = *s,
                            .rows = t->target->numel,
                            .classes = classes,
                            .dtype = dtype,
                            .scores = t->scores ? t->scores->dtype : dtype,
                            .x = br__element(t->scores, 0),
                            .target = br__element(t->target, 0),
                            .weight = br__element(t->class_weight, 0),
                            .losses = br__element(t->losses, 0),
                            .sums = br__element(t->sums, 0),
                            .dy = br__element(t->dy, 0),
                            .dy_of_rows = t->dy && t->dy->numel == t->target->numel,
                            .dx = br__element(t->dscores, 0) };
}

br_class_rows br__class_rows_part(const br_class_rows *r, int64_t first, int64_t n)
{
    br_class_rows part = *r;
    part.rows = n;
    part.target += first;
    part.losses = br__offset_pointer(r->losses, first * size_of(r));
    if (r->dy_of_rows)
        part.dy = br__offset_pointer(r->dy, first * size_of(r));
    return part;
}

void br__class_rows_weigh(br_class_rows *r, br_class_loss *loss)
{
    r->s.counted = r->s.weight_sum = 0;
    for (int64_t i = 0; i < r->rows; i++)
        if (r->target[i] != r->s.ignore)
            r->s.counted += r->weight ? load(r, r->weight, r->target[i]) : 1;
    for (int64_t c = 0; c < r->classes; c++)
        r->s.weight_sum += r->weight ? load(r, r->weight, c) : 1;
    *loss = r->s;
}

/* ---- One row --------------------------------------------------------------------------------- */

/* Returns the bytes of a row of scores. */
static int64_t row_bytes(const br_class_rows *r)
{
    return r->classes * (int64_t)br__dtype_size(r->scores);
}

/* Copies a row of a storage dtype to floats. */
static void widen_row(const br_class_rows *r, int64_t row, float *copy)
{
    br__widen(r->scores, copy, r->classes, r->x + row * row_bytes(r),
              (int64_t)br__dtype_size(r->scores));
}

/* Returns a of the formula in backends/loss.h. */
static double own_part(const br_class_rows *r, int64_t row)
{
    return (1 - r->s.smoothing) * (r->weight ? load(r, r->weight, r->target[row]) : 1);
}

/* Returns b of that formula. */
static double spread_part(const br_class_rows *r)
{
    return r->s.smoothing / (double)r->classes;
}

/* Computes the loss of a row, whose scores are x. */
static void loss_of_scores(const br_class_rows *r, int64_t row, const char *x)
{
    if (r->target[row] == r->s.ignore) {
        store(r, r->losses, row, 0);
        for (int i = 0; i < BR_CLASS_SUMS; i++)
            store(r, r->sums, BR_CLASS_SUMS * row + i, 0);
        return;
    }
    br_cross_entropy_sums sums;
    r->kernels->cross_entropy_sums(r->classes, x, r->target[row], &sums);
    double log_sum = sums.own == 1 ? log1p(sums.rest) : log(sums.own + sums.rest);
    double spread = spread_part(r), own = own_part(r, row);
    double loss = own == 0 ? 0 : own * (log_sum - (load(r, x, r->target[row]) - sums.row_max));
    if (spread > 0)
        loss += spread * (r->s.weight_sum * log_sum -
                          r->kernels->shifted_dot(r->classes, x, r->weight, sums.row_max));
    store(r, r->sums, BR_CLASS_SUMS * row, sums.row_max);
    store(r, r->sums, BR_CLASS_SUMS * row + 1, sums.own);
    store(r, r->sums, BR_CLASS_SUMS * row + 2, sums.rest);
    store(r, r->losses, row, loss);
}

/* The copies are not in the functions that call these, which would have large frames without using
 * them. */
static __attribute__((noinline)) void loss_of_widened_row(const br_class_rows *r, int64_t row)
{
    float copy[BR_LONGEST_ROW];
    widen_row(r, row, copy);
    loss_of_scores(r, row, (const char *)copy);
}

static void loss_of_row(const br_class_rows *r, int64_t row)
{
    if (br__is_stored(r->scores))
        loss_of_widened_row(r, row);
    else
        loss_of_scores(r, row, r->x + row * row_bytes(r));
}

/* Computes dx of a row that is not ignored, whose scores are x. */
static void gradient_of_scores(const br_class_rows *r, int64_t row, const char *x, char *dx)
{
    double scale = load(r, r->dy, r->dy_of_rows ? row : 0);
    if (r->s.mean)
        scale /= r->s.counted;
    double spread = spread_part(r);
    br_cross_entropy_row terms = { .row_max = load(r, r->sums, BR_CLASS_SUMS * row),
                                   .own_exp = load(r, r->sums, BR_CLASS_SUMS * row + 1),
                                   .rest = load(r, r->sums, BR_CLASS_SUMS * row + 2),
                                   .own = scale * own_part(r, row),
                                   .shared = spread == 0 ? 0 : scale * spread * r->s.weight_sum,
                                   .spread = scale * spread,
                                   .target = r->target[row] };
    r->kernels->cross_entropy_grad(r->classes, x, r->weight, &terms, dx);
}

static __attribute__((noinline)) void gradient_of_widened_row(const br_class_rows *r, int64_t row,
                                                              char *dx)
{
    float copy[BR_LONGEST_ROW];
    widen_row(r, row, copy);
    gradient_of_scores(r, row, (const char *)copy, (char *)copy);
    br__narrow(r->scores, dx, (int64_t)br__dtype_size(r->scores), copy, r->classes);
}

static void gradient_of_row(const br_class_rows *r, int64_t row)
{
    const int64_t bytes = row_bytes(r);
    char *dx = r->dx + row * bytes;
    if (r->target[row] == r->s.ignore)
        memset(dx, 0, (size_t)bytes);
    else if (br__is_stored(r->scores))
        gradient_of_widened_row(r, row, dx);
    else
        gradient_of_scores(r, row, r->x + row * bytes, dx);
}

/* ---- All rows -------------------------------------------------------------------------------- */

typedef struct job {
    const br_class_rows *rows;
    void (*process)(const br_class_rows *r, int64_t row);
    int64_t rows_per_task;
} job;

static void run_task(void *context, int64_t i)
{
    const job *j = context;
    int64_t last = (i + 1) * j->rows_per_task;
    for (int64_t row = i * j->rows_per_task; row < last && row < j->rows->rows; row++)
        j->process(j->rows, row);
}

static void run(const br_class_rows *r, void (*process)(const br_class_rows *r, int64_t row))
{
    job j = { r, process, BR_GRAIN / 4 / (r->classes > 0 ? r->classes : 1) + 1 };
    br__parallel((r->rows + j.rows_per_task - 1) / j.rows_per_task, run_task, &j);
}

void br__class_rows_losses(const br_class_rows *r)
{
    run(r, loss_of_row);
}

void br__class_rows_gradient(const br_class_rows *r)
{
    run(r, gradient_of_row);
}

void br__class_rows_reduce(const br_class_rows *r, const br_tensor *reduced)
{
    double sum = 0;
    for (int64_t i = 0; i < r->rows; i++)
        sum += load(r, r->losses, i);
    if (r->s.mean)
        sum /= r->s.counted;
    store(r, reduced->data, 0, sum);
}

/* ---- The entries ----------------------------------------------------------------------------- */

static int64_t last_size(const br_tensor *t)
{
    return t->sizes[t->ndim - 1];
}

bool br__cpu_cross_entropy_widens(const br_cross_entropy_tensors *work)
{
    return br__rows_fit(last_size(work->scores));
}

void br__cpu_cross_entropy(br_class_loss *loss, const br_cross_entropy_tensors *work)
{
    br_class_rows r = br__class_rows(loss, last_size(work->scores), work);
    br__class_rows_weigh(&r, loss);
    br__class_rows_losses(&r);
    if (work->reduced)
        br__class_rows_reduce(&r, work->reduced);
}

void br__cpu_cross_entropy_grad(const br_class_loss *loss, const br_cross_entropy_tensors *work)
{
    const br_class_rows r = br__class_rows(loss, last_size(work->scores), work);
    br__class_rows_gradient(&r);
}
