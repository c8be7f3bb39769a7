/* distributed/bucket.c - the reduction of a bucket, in the progress thread.
 *
 * For each parameter of the bucket, the job computes
 *
 *     sum:   G <- ((G + g_0) + g_1) + ...            mean:   G <- G + ((g_0 + g_1) + ...) / N
 *
 * where G is the gradient of earlier passes, if there is one, and g_r is the gradient of rank r, if
 * rank r's pass reached the parameter. The order is that of the ranks, so all ranks, all runs and,
 * for the sum, one process that makes the passes one after the other get the same bits. Each rank
 * computes its part of the elements. Then all ranks exchange their parts, or, with `scatter`, keep
 * them. */
#include "distributed/data_parallel.h"
#include "tensor/min_max.h"

#include <string.h>

static bool arrived(const br_bucket *b, int rank, int param)
{
    return br__dist_bit(br__dist_group(b->owner->group), rank, param);
}

/* Returns a rank that has not joined, or -1. */
static int active_rank(const br_dist_group *g)
{
    for (int r = 0; r < g->size; r++)
        if (!(br__dist_flags(g, r) & BR_JOINED))
            return r;
    return -1;
}

static bool holds_gradient(const br_bucket *b, int rank, int param)
{
    return br__dist_bit(br__dist_group(b->owner->group), rank, b->n_params + param);
}

/* Checks that the ranks hold gradients of the same parameters. Ranks that have joined do not
 * count: they keep the memory, but drop no gradients. */
static bool same_gradients(br_dist_job *job, const br_bucket *b, int active)
{
    const br_dist_group *g = br__dist_group(b->owner->group);
    for (int r = 0; r < g->size; r++) {
        if (br__dist_flags(g, r) & BR_JOINED)
            continue;
        for (int i = 0; i < b->n_params; i++)
            if (holds_gradient(b, r, i) != holds_gradient(b, active, i))
                return br__dist_job_fail(job,
                                         "data_parallel: %s has a gradient before the pass on rank "
                                         "%d, but not on rank %d: drop or keep the gradients on "
                                         "all ranks",
                                         b->params[i]->name,
                                         g->world[holds_gradient(b, r, i) ? r : active],
                                         g->world[holds_gradient(b, r, i) ? active : r]);
    }
    return true;
}

char *br__bucket_sum(const br_bucket *b, int i, char *sum, char *received, int64_t n, int64_t from,
                     int64_t to)
{
    const br_dist_group *g = br__dist_group(b->owner->group);
    for (int r = 0; r < g->size; r++) {
        if (!arrived(b, r, i))
            continue;
        char *own = received + (size_t)(r * n + from) * br_dtype_size(b->dtype);
        if (sum)
            br__dist_combine(b->dtype, BR_DIST_SUM, sum, own, to - from);
        else
            sum = own;
    }
    if (sum && b->owner->reduction == BR_DIST_MEAN)
        br__dist_divide(b->dtype, sum, to - from, g->size);
    return sum;
}

/* Reduces elements [from, to) of this rank's part, which belong to parameter i. `received` has the
 * parts, n elements each, of all ranks. */
static void reduce_param(const br_bucket *b, int i, int active, char *received, int64_t n,
                         int64_t from, int64_t to)
{
    size_t size = br_dtype_size(b->dtype);
    char *memory = b->own + (size_t)from * size;
    bool holds = holds_gradient(b, active, i), mean = b->owner->reduction == BR_DIST_MEAN;
    char *sum = br__bucket_sum(b, i, holds && !mean ? memory : NULL, received, n, from, to);
    if (!sum)
        return;
    if (holds && mean)
        br__dist_combine(b->dtype, BR_DIST_SUM, memory, sum, to - from);
    else if (sum != memory)
        memcpy(memory, sum, (size_t)(to - from) * size);
}

static bool reduce(br_dist_job *job, br_bucket *b, int active)
{
    const br_dist_group *g = br__dist_group(b->owner->group);
    br_dist_part own = b->parts[g->rank];
    int64_t n = own.end - own.begin;
    br_tensor *buffer = br__dist_job_buffer(job, (size_t)(g->size * n) * br_dtype_size(b->dtype));
    if (!buffer)
        return false;
    char *received = br_data(buffer);
    bool ok = br__dist_exchange_parts(job, g, b->dtype, b->send, b->parts, received);
    br__bucket_drop_copy(b);
    for (int i = 0; ok && i < b->n_params; i++) {
        int64_t from = b->params[i]->offset - own.begin, to = from + b->params[i]->numel;
        from = br__max(from, 0);
        to = br__min(to, n);
        if (from < to)
            reduce_param(b, i, active, received, n, from, to);
    }
    br_release(buffer);
    return ok && (b->owner->scatter || br__dist_gather_parts(job, g, b->dtype, b->data, b->parts));
}

void br__bucket_drop_copy(br_bucket *b)
{
    br_release(b->copy);
    b->copy = NULL;
    b->send = b->data;
}

/* Ranks that have joined make no steps, but a sharded optimizer needs all ranks in each step. */
static bool can_join(br_dist_job *job, const br_bucket *b, int active)
{
    const br_dist_group *g = br__dist_group(b->owner->group);
    for (int r = 0; r < g->size; r++)
        if ((br__dist_flags(g, r) & BR_JOINED) && (b->owner->scatter || b->owner->sharded))
            return br__dist_job_fail(job,
                                     "data_parallel_join: rank %d has no more data, but rank %d "
                                     "has: with sharding, all ranks must have the same number of "
                                     "batches",
                                     g->world[r], g->world[active]);
    return true;
}

void br__bucket_run(br_dist_job *job)
{
    br_bucket *b = (br_bucket *)job;
    if (b->early)
        b->early->sent_by_any = false;
    const br_dist_group *g = br__dist_group(b->owner->group);
    br_dist_note note = { .op = "data_parallel",
                          .dtype = b->dtype,
                          .ndim = 1,
                          .sizes = { b->n },
                          .argument = b->number,
                          .argument_name = "the bucket",
                          .error = *b->error ? b->error : NULL,
                          .flags = b->flags,
                          .bits = b->bits,
                          .n_bits = 2 * b->n_params };
    bool ok = br__dist_agree(job, g, &note);
    job->in_step = false; /* other buckets of the pass may be under way */
    int active = ok ? active_rank(g) : -1;
    b->all_joined = ok && active < 0;
    if (!ok || active < 0 || !can_join(job, b, active) || !same_gradients(job, b, active))
        return;
    b->owner->active = active;
    for (int r = 0; b->early && r < g->size; r++)
        b->early->sent_by_any |= (br__dist_flags(g, r) & BR_PARTIAL) != 0;
    bool any = false;
    for (int i = 0; i < b->n_params; i++) {
        bool reached = false;
        for (int r = 0; r < g->size; r++)
            reached |= arrived(b, r, i);
        any |= reached;
        b->params[i]->has_gradient = reached || holds_gradient(b, active, i);
    }
    if (any)
        reduce(job, b, active);
}
