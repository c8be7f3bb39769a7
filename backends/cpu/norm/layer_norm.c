/* backends/cpu/norm/layer_norm.c - layer norm and RMS norm in parallel over rows. Rows of a storage
 * dtype are widened block by block; all other operands have the dtype of the computation. */
#include "backends/cpu/kernels.h"
#include "backends/cpu/norm/norm_internal.h"
#include "backends/cpu/pointwise/widened.h"
#include "backends/cpu/reduce/reduce_internal.h"
#include "tensor/min_max.h"

#include <string.h>

/* ---- Tasks ---------------------------------------------------------------------------------- */

typedef struct job {
    br_layer_norm_work all; /* pointers to the first row, or to the sums of the first task */
    void (*kernel)(const br_layer_norm_work *work);
    br_dtype dtype;         /* of the rows */
    int64_t size, sum_size; /* bytes of an element of the rows, and of all other operands */
    int64_t rows_per_task;
} job;

/* Returns the part of the work that begins with row `first`. */
static br_layer_norm_work rows_from(const job *j, const br_layer_norm_work *all, int64_t first,
                                    int64_t rows)
{
    const int64_t elements = first * all->n * j->size, row = first * j->sum_size;
    br_layer_norm_work work = *all;
    work.rows = rows;
    work.x = br__offset_pointer(work.x, elements);
    work.dy = br__offset_pointer(work.dy, elements);
    work.y = br__offset_pointer(work.y, elements);
    work.dx = br__offset_pointer(work.dx, elements);
    work.mean = br__offset_pointer(work.mean, row);
    work.rstd = br__offset_pointer(work.rstd, row);
    return work;
}

bool br__cpu_layer_norm_widens(const br_layer_norm_tensors *t)
{
    const int64_t rows = t->rstd->numel;
    return rows == 0 || br__rows_fit(t->x->numel / rows);
}

/* Runs the kernel on rows of a storage dtype, whose result is y or dx. */
static __attribute__((noinline)) void run_widened(const job *j, const br_layer_norm_work *all)
{
    float x[BR_LONGEST_ROW], dy[BR_LONGEST_ROW], out[BR_LONGEST_ROW];
    const int64_t block = br__rows_of_block(all->n);
    for (int64_t i = 0; i < all->rows; i += block) {
        br_layer_norm_work work = rows_from(j, all, i, br__min(all->rows - i, block));
        const int64_t n = work.rows * work.n;
        void *const result = work.y ? work.y : work.dx;
        br__widen(j->dtype, x, n, work.x, j->size);
        if (work.dy)
            br__widen(j->dtype, dy, n, work.dy, j->size);
        work.x = x;
        work.dy = work.dy ? dy : NULL;
        work.y = work.y ? out : NULL;
        work.dx = work.dx ? out : NULL;
        j->kernel(&work);
        if (result)
            br__narrow(j->dtype, result, j->size, out, n);
    }
}

static void run_task(void *context, int64_t i)
{
    const job *j = context;
    const int64_t first = i * j->rows_per_task, rest = j->all.rows - first;
    const int64_t sums = i * j->all.n * j->sum_size;
    br_layer_norm_work work = rows_from(j, &j->all, first, br__min(rest, j->rows_per_task));
    work.dweight = br__offset_pointer(work.dweight, sums);
    work.dbias = br__offset_pointer(work.dbias, sums);
    if (br__is_stored(j->dtype))
        run_widened(j, &work);
    else
        j->kernel(&work);
}

/* Returns a job for rows of the dtype of x. */
static job job_of(const br_tensor *x)
{
    return (job){ .dtype = x->dtype,
                  .size = (int64_t)br__dtype_size(x->dtype),
                  .sum_size = (int64_t)br__dtype_size(br__computed(x->dtype)) };
}

static int64_t task_count(const job *j)
{
    return (j->all.rows + j->rows_per_task - 1) / j->rows_per_task;
}

/* ---- The norm -------------------------------------------------------------------------------- */

void br__cpu_layer_norm(const br_layer_norm_tensors *t)
{
    const int64_t rows = t->rstd->numel;
    job j = job_of(t->x);
    j.kernel = br__kernels_of(br__computed(t->x->dtype))->layer_norm;
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
    const br_dtype computed = br__computed(t->x->dtype);
    job j = job_of(t->x);
    j.kernel = br__kernels_of(computed)->layer_norm_grad;
    j.rows_per_task = br__max(rows / MAX_TASKS + 1, MIN_ROWS);
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
    br_tensor *weights = t->dweight ? br__zeros_on_host(op, 2, sums, computed) : NULL;
    br_tensor *biases = t->dbias ? br__zeros_on_host(op, 2, sums, computed) : NULL;
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
