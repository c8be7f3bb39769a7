/* distributed/base.c - what all parts of this folder share: the ranks and their groups, memory,
 * the clock, and the errors of jobs. */
#include "distributed/distributed_internal.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

br_dist_state br__dist;

int64_t br__dist_nanoseconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

double br__dist_seconds(void)
{
    return 1e-9 * (double)br__dist_nanoseconds();
}

/* ---- Jobs ------------------------------------------------------------------------------------ */

bool br__dist_job_fail(br_dist_job *job, const char *format, ...)
{
    if (job->failed)
        return false;
    va_list args;
    va_start(args, format);
    vsnprintf(job->error, sizeof job->error, format, args);
    va_end(args);
    job->failed = true;
    return false;
}

/* ---- Memory ---------------------------------------------------------------------------------- */

void *br__dist_malloc(size_t bytes)
{
    void *block = malloc(bytes ? bytes : 1);
    if (!block)
        br_raise(BR_ERROR_MEMORY, "cannot allocate %zu bytes", bytes);
    return block;
}

br_tensor *br__dist_buffer(size_t bytes)
{
    br_scope *scope = br_no_grad_begin();
    br_tensor *buffer =
        br_retain(br__new_on_host("distributed", BR_SHAPE(bytes ? (int64_t)bytes : 1), BR_BOOL));
    br_scope_end(scope);
    return buffer;
}

br_tensor *br__dist_job_buffer(br_dist_job *job, size_t bytes)
{
    br_tensor *buffer = br__dist_buffer(bytes);
    if (!buffer) {
        br__dist_job_fail(job, "%s: %s", job->op, br_error_message());
        br_clear_error();
    }
    return buffer;
}

bool br__dist_written(const char *op, br_tensor *t, br_tensor *copy)
{
    if (br_data(copy) != br_data(t))
        br_copy_(t, copy);
    return !br_failed() && br_before_in_place(op, t, 0, NULL); /* gives t a new version */
}

/* ---- Groups ---------------------------------------------------------------------------------- */

bool br__dist_group_begin(br_dist_job *job, br_dist_group *g, int rank, int size)
{
    size_t n = (size_t)size;
    *g = (br_dist_group){ .rank = rank, .size = size };
    g->world = malloc(n * sizeof *g->world);
    g->notes = malloc(n * sizeof *g->notes);
    g->transfers = malloc(2 * n * sizeof *g->transfers);
    return (g->world && g->notes && g->transfers) ||
           br__dist_job_fail(job, "cannot allocate memory for a group of %d ranks", size);
}

void br__dist_group_end(br_dist_group *g)
{
    free(g->world);
    free(g->notes);
    free(g->transfers);
    *g = (br_dist_group){ .size = 1 };
}

const br_dist_group *br__dist_group(const br_dist_group *group)
{
    return group ? group : br__dist.initialized ? &br__dist.all : NULL;
}

int br_dist_rank(const br_dist_group *group)
{
    const br_dist_group *g = BR_LIVE_GROUP("dist_rank", group) ? br__dist_group(group) : NULL;
    return g ? g->rank : 0;
}

int br_dist_size(const br_dist_group *group)
{
    const br_dist_group *g = BR_LIVE_GROUP("dist_size", group) ? br__dist_group(group) : NULL;
    return g ? g->size : 1;
}
