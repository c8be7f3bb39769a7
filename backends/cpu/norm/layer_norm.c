/* backends/cpu/norm/layer_norm.c - layer norm and RMS norm in parallel over rows. */
#include "backends/cpu/kernels.h"
#include "backends/cpu/norm/norm_internal.h"
#include "backends/cpu/reduce/reduce_internal.h"
#include "tensor/min_max.h"

#include <string.h>

/* ---- Tasks ---------------------------------------------------------------------------------- */

typedef struct job {
    br_layer_norm_work all; /* pointers to the first row, or to the sums of the first task */
    void (*kernel)(const br_layer_norm_work *work);
    int64_t size, rows_per_task;
} job;

static void run_task(void *context, int64_t i)
{
    const job *j = context;
    int64_t first = i * j->rows_per_task, rest = j->all.rows - first;
    int64_t rows = first * j->all.n * j->size, row = first * j->size, sums = i * j->all.n * j->size;
    br_layer_norm_work work = j->all;
    work.rows = br__min(rest, j->rows_per_task);
    work.x = br__offset_pointer(work.x, rows);
    work.dy = br__offset_pointer(work.dy, rows);
    work.y = br__offset_pointer(work.y, rows);
    work.dx = br__offset_pointer(work.dx, rows);
    work.mean = br__offset_pointer(work.mean, row);
    work.rstd = br__offset_pointer(work.rstd, row);
    work.dweight = br__offset_pointer(work.dweight, sums);
    work.dbias = br__offset_pointer(work.dbias, sums);
    j->kernel(&work);
}

static int64_t task_count(const job *j)
{
    return (j->all.rows + j->rows_per_task - 1) / j->rows_per_task;
}

/* ---- The norm -------------------------------------------------------------------------------- */

void br__cpu_layer_norm(const br_layer_norm_tensors *t)
{
    const int64_t rows = t->rstd->numel;
    job j = { .kernel = br__kernels_of(t->x->dtype)->layer_norm,
              .size = (int64_t)br__dtype_size(t->x->dtype) };
    j.all = (br_layer_norm_work){ .n = t->x->numel / rows,
                                  .rows = rows,
                                  .eps = t->eps,
                                  .x = t->x->data,
                                  .weight = br__element(t->weight, 0),
                                  .bias = br__element(t->bias, 0),
                                  .y = t->y->data,
                                  .mean = br__element(t->mean, 0),
                                  .rstd = t->rstd->data };
    j.rows_per_task = br__piece_size(rows, BR_GRAIN / j.all.n + 1, 1);
    br__parallel(task_count(&j), run_task, &j);
}

/* ---- The gradient ---------------------------------------------------------------------------- */

/* Sums the rows of [tasks, n], in their order, to `to`, which has n elements. */
static bool sum_tasks(const char *op, const br_tensor *parts, const br_tensor *to)
{
    br_tensor sum = br__window(to);
    br__window_reshape(&sum, 1, &parts->sizes[1], (const int64_t[]){ 1 });
    return br__cpu_reduce(op, parts, 1,
                          &(br_reducer){ .kind = BR_FOLD(sum), .divisor = 1, .values = &sum });
}

/* One pass over the rows computes dx and, for each task, partial sums of dweight and dbias, which
 * are then added in the order of the tasks. */
bool br__cpu_layer_norm_grad(const char *op, const br_layer_norm_tensors *t)
{
    enum { MAX_TASKS = 64, MIN_ROWS = 16 };
    const int64_t rows = t->rstd->numel;
    const br_tensor *feature = t->dweight ? t->dweight : t->dbias;
    job j = { .kernel = br__kernels_of(t->x->dtype)->layer_norm_grad,
              .size = (int64_t)br__dtype_size(t->x->dtype),
              .rows_per_task = rows / MAX_TASKS + 1 };
    if (j.rows_per_task < MIN_ROWS)
        j.rows_per_task = MIN_ROWS;
    j.all = (br_layer_norm_work){ .n = rows > 0  ? t->x->numel / rows
                                       : feature ? feature->numel
                                                 : 0,
                                  .rows = rows,
                                  .x = t->x->data,
                                  .weight = br__element(t->weight, 0),
                                  .dy = t->dy->data,
                                  .mean = br__element(t->mean, 0),
                                  .rstd = t->rstd->data,
                                  .dx = br__element(t->dx, 0) };
    const int64_t sums[] = { task_count(&j), j.all.n };
    br_scope *scope = br_scope_begin();
    br_tensor *weights = t->dweight ? br__zeros_on_host(op, 2, sums, t->x->dtype) : NULL;
    br_tensor *biases = t->dbias ? br__zeros_on_host(op, 2, sums, t->x->dtype) : NULL;
    bool ok = !br__failed();
    if (ok) {
        j.all.dweight = br__element(weights, 0);
        j.all.dbias = br__element(biases, 0);
        br__parallel(task_count(&j), run_task, &j);
        ok = (!weights || sum_tasks(op, weights, t->dweight)) &&
             (!biases || sum_tasks(op, biases, t->dbias));
    }
    br_scope_end(scope);
    return ok;
}
