/* backends/cpu/index/scatter.c - gathers elements, and combines elements with those at the
 * positions of an index.
 *
 * Along the dimension, elements are processed in the index's order. Threads split the other
 * dimensions, so that no two write to the same element and sums do not depend on the number of
 * threads. */
#include "backends/cpu/index/index.h"
#include "backends/cpu/index/index_internal.h"
#include "backends/cpu/pointwise/for_each.h"
#include "tensor/min_max.h"

#include <string.h>

typedef struct scatter_job {
    br_tensor x, y, index; /* windows with size 1 along the dimension */
    int cut;               /* the dimension that is split into tasks: the largest */
    int64_t piece;
    br_scatter_work work;
} scatter_job;

static void scatter_piece(void *context, int64_t i)
{
    const scatter_job *job = context;
    br_tensor x = job->x, y = job->y, index = job->index;
    int64_t start = i * job->piece, rest = y.sizes[job->cut] - start;
    int64_t length = br__min(rest, job->piece);
    br__window_slice(&x, job->cut, start, length, 1);
    br__window_slice(&y, job->cut, start, length, 1);
    br__window_slice(&index, job->cut, start, length, 1);
    br__run_loop(3, (const br_tensor *[]){ &x, &y, &index }, br__scatter_lines, &job->work);
}

/* Splits the largest other dimension into pieces of whole cache lines, one for each task. Pieces
 * are large, because rows are read in runs of a piece's length. */
static void run(scatter_job *job, int64_t numel)
{
    enum { CACHE_LINE = 64 };
    for (int i = 0; i < job->y.ndim; i++)
        if (job->y.sizes[i] > job->y.sizes[job->cut])
            job->cut = i;
    const int64_t threads = br_get_num_threads(), max_tasks = threads > 1 ? 2 * threads : 1;
    const int64_t worth = numel / BR_GRAIN + 1, tasks = br__min(worth, max_tasks);
    const int64_t n = job->y.sizes[job->cut];
    const int64_t line = CACHE_LINE / (int64_t)br__dtype_size(job->x.dtype);
    job->piece = ((n + tasks - 1) / tasks + line - 1) / line * line;
    br__parallel((n + job->piece - 1) / job->piece, scatter_piece, job);
}

static br_loop combining_loop(br_combine combine, br_dtype dtype)
{
    const br_scatter_loops *loops = &br__scatter_loops[dtype];
    switch (combine) {
    case BR_COMBINE_ADD:
        return loops->add;
    case BR_COMBINE_MUL:
        return loops->mul;
    case BR_COMBINE_MAX:
        return loops->max;
    case BR_COMBINE_MIN:
        return loops->min;
    default:
        return br__scatter_loop(br__dtype_size(dtype));
    }
}

void br__cpu_scatter(const br_tensor *x, const br_tensor *y, const br_tensor *index, int dim,
                     int64_t skip, br_combine combine)
{
    if (y->numel == 0)
        return;
    int64_t size = (int64_t)br__dtype_size(x->dtype);
    scatter_job job = {
        .x = br__window(x), .y = br__window(y), .index = br__window(index), .cut = dim
    };
    memcpy(job.x.sizes, y->sizes, sizeof job.x.sizes);
    job.work = (br_scatter_work){ y->sizes[dim],
                                  x->strides[dim] * size,
                                  y->strides[dim] * size,
                                  index->strides[dim] * (int64_t)sizeof(int64_t),
                                  skip,
                                  combining_loop(combine, x->dtype) };
    br__window_slice(&job.x, dim, 0, 1, 1);
    br__window_slice(&job.y, dim, 0, 1, 1);
    br__window_slice(&job.index, dim, 0, 1, 1);
    run(&job, y->numel);
}

void br__cpu_gather(const br_tensor *y, const br_tensor *x, const br_tensor *index, int dim)
{
    const size_t size = br__dtype_size(x->dtype);
    const int64_t stride = x->strides[dim] * (int64_t)size;
    br_tensor from = br__window(x);
    memcpy(from.sizes, y->sizes, sizeof from.sizes);
    from.strides[dim] = 0;
    br__run_loop(3, (const br_tensor *[]){ y, &from, index }, br__gather_loop(size), &stride);
}
