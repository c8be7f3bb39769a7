/* backends/cpu/conv/pool.c - pooling in parallel over planes. */
#include "backends/cpu/conv/conv_internal.h"
#include "backends/cpu/conv/pool_kernels.h"

typedef enum pooling { LARGEST, AVERAGE, SPREAD } pooling; /* SPREAD: the gradient of AVERAGE */

typedef struct job {
    br_pool_work pool;
    pooling kind;
    char *plane, *out; /* of the first plane */
    int64_t *indices;  /* for LARGEST */
    int64_t planes, per_task;
    br_dtype dtype;
} job;

static void run_plane(const job *j, int64_t i)
{
    const br_pool_kernels *kernels = &br__pool_kernels[j->dtype];
    int64_t size = (int64_t)br__dtype_size(j->dtype);
    int64_t outputs = j->pool.out[0] * j->pool.out[1];
    char *plane = j->plane + i * j->pool.size[0] * j->pool.size[1] * size;
    char *out = j->out + i * outputs * size;
    if (j->kind == LARGEST)
        kernels->max(&j->pool, plane, out, j->indices + i * outputs);
    else if (j->kind == AVERAGE)
        kernels->average(&j->pool, plane, out);
    else
        kernels->average_back(&j->pool, out, plane);
}

static void run_task(void *context, int64_t task)
{
    const job *j = context;
    int64_t first = task * j->per_task, last = first + j->per_task;
    for (int64_t i = first; i < last && i < j->planes; i++)
        run_plane(j, i);
}

/* Runs a kernel between x and y, or between their gradients. */
static bool run(const br_pool_geometry *p, pooling kind, const br_tensor *x, const br_tensor *y,
                const br_tensor *indices)
{
    int64_t outputs = p->out[0] * p->out[1], area = p->size[0] * p->size[1];
    br_pool_window *windows = br_malloc((size_t)(p->out[0] + p->out[1]) * sizeof *windows);
    if (!windows)
        return false;
    for (int d = 0, at = 0; d < 2; at += (int)p->out[d++])
        for (int64_t i = 0; i < p->out[d]; i++)
            windows[at + i] = br__pool_window(p, d, i);
    job j = { .pool = { .size = { p->size[0], p->size[1] },
                        .out = { p->out[0], p->out[1] },
                        .step = { p->dilation[0], p->dilation[1] },
                        .rows = windows,
                        .columns = windows + p->out[0],
                        .divisor = (double)p->divisor },
              .kind = kind,
              .plane = x->data,
              .out = y->data,
              .indices = indices ? (int64_t *)(void *)indices->data : NULL,
              .planes = y->numel / outputs,
              .per_task = BR_GRAIN / (area + outputs) + 1,
              .dtype = x->dtype };
    br__parallel((j.planes + j.per_task - 1) / j.per_task, run_task, &j);
    br_free(windows);
    return true;
}

bool br__cpu_max_pool(const br_pool_geometry *p, const br_tensor *y, const br_tensor *indices,
                      const br_tensor *x)
{
    return run(p, LARGEST, x, y, indices);
}

bool br__cpu_avg_pool(const br_pool_geometry *p, const br_tensor *y, const br_tensor *x)
{
    return run(p, AVERAGE, x, y, NULL);
}

bool br__cpu_avg_pool_grad(const br_pool_geometry *p, const br_tensor *dx, const br_tensor *dy)
{
    return run(p, SPREAD, dx, dy, NULL);
}
