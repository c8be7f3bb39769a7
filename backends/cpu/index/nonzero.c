/* backends/cpu/index/nonzero.c - the positions at which a mask is true. */
#include "backends/cpu/index/index_internal.h"
#include "tensor/min_max.h"

/* A contiguous mask of bytes, processed in pieces of BR_GRAIN, and where each piece's positions
 * begin in the result. */
typedef struct places_job {
    const char *mask;
    int64_t n, *starts;
    int64_t *out; /* the positions, in rows of ndim */
    int ndim;
    const int64_t *sizes;
} places_job;

static int64_t end_of(const places_job *job, int64_t piece)
{
    int64_t end = (piece + 1) * BR_GRAIN;
    return br__min(end, job->n);
}

static void count_piece(void *context, int64_t piece)
{
    const places_job *job = context;
    int64_t count = 0;
    for (int64_t i = piece * BR_GRAIN; i < end_of(job, piece); i++)
        count += job->mask[i];
    job->starts[piece + 1] = count;
}

static void write_piece(void *context, int64_t piece)
{
    const places_job *job = context;
    int64_t *row = job->out + job->starts[piece] * job->ndim;
    for (int64_t i = piece * BR_GRAIN; i < end_of(job, piece); i++) {
        if (!job->mask[i])
            continue;
        for (int64_t d = job->ndim - 1, rest = i; d >= 0; rest /= job->sizes[d--])
            row[d] = rest % job->sizes[d];
        row += job->ndim;
    }
}

br_tensor *br__cpu_nonzero(const char *op, const br_tensor *mask, int ndim, const int64_t *sizes)
{
    int64_t pieces = (mask->numel + BR_GRAIN - 1) / BR_GRAIN;
    places_job job = { mask->data, mask->numel, NULL, NULL, ndim, sizes };
    job.starts = br_calloc((size_t)pieces + 1, sizeof *job.starts);
    if (!job.starts)
        return NULL;
    br__parallel(pieces, count_piece, &job);
    for (int64_t i = 0; i < pieces; i++)
        job.starts[i + 1] += job.starts[i];
    br_tensor *out = br__new_on(op, mask, BR_SHAPE(job.starts[pieces], ndim), BR_I64);
    if (out) {
        job.out = (int64_t *)(void *)out->data;
        br__parallel(pieces, write_piece, &job);
    }
    br_free(job.starts);
    return out;
}
