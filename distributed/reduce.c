/* distributed/reduce.c - reductions whose results do not depend on the number of messages or on
 * their order.
 *
 * MPI_Allreduce may add in any order, and does so differently for different sizes and numbers of
 * ranks. Here every rank owns a part of the elements. It receives that part from all ranks, adds in
 * the order of the ranks, and gives the result to all. Each rank sends and receives 2 (N - 1) / N
 * times the data, which is the least that any algorithm needs. */
#include "distributed/distributed_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LINE = 64 }; /* bytes of a cache line */

MPI_Datatype br__dist_type(br_dtype dtype)
{
    switch (dtype) {
    case BR_F32:
        return MPI_FLOAT;
    case BR_F64:
        return MPI_DOUBLE;
    case BR_I64:
        return MPI_INT64_T;
    case BR_BOOL:
        break;
    }
    return MPI_C_BOOL;
}

/* ---- Elements -------------------------------------------------------------------------------- */

/* Defines the sum, the maximum and the quotient of arrays of a floating-point type. */
#define DEFINE_FLOATING(type, suffix)                                                 \
    static void add_##suffix(type *restrict to, const type *restrict from, int64_t n) \
    {                                                                                 \
        for (int64_t i = 0; i < n; i++)                                               \
            to[i] += from[i];                                                         \
    }                                                                                 \
    static void max_##suffix(type *restrict to, const type *restrict from, int64_t n) \
    {                                                                                 \
        for (int64_t i = 0; i < n; i++)                                               \
            to[i] = from[i] > to[i] || isnan(from[i]) ? from[i] : to[i];              \
    }                                                                                 \
    static void divide_##suffix(type *to, int64_t n, type by)                         \
    {                                                                                 \
        for (int64_t i = 0; i < n; i++)                                               \
            to[i] /= by;                                                              \
    }
DEFINE_FLOATING(float, f32)
DEFINE_FLOATING(double, f64)

static void combine_i64(br_dist_reduction reduction, int64_t *to, const int64_t *from, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        if (reduction == BR_DIST_MAX)
            to[i] = from[i] > to[i] ? from[i] : to[i];
        else /* wraps around, as in PyTorch */
            to[i] = (int64_t)((uint64_t)to[i] + (uint64_t)from[i]);
    }
}

static void combine_bool(bool *to, const bool *from, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        to[i] = to[i] || from[i];
}

void br__dist_combine(br_dtype dtype, br_dist_reduction reduction, void *to, const void *from,
                      int64_t n)
{
    switch (dtype) {
    case BR_F32:
        (reduction == BR_DIST_MAX ? max_f32 : add_f32)(to, from, n);
        break;
    case BR_F64:
        (reduction == BR_DIST_MAX ? max_f64 : add_f64)(to, from, n);
        break;
    case BR_I64:
        combine_i64(reduction, to, from, n);
        break;
    case BR_BOOL:
        combine_bool(to, from, n);
        break;
    }
}

void br__dist_divide(br_dtype dtype, void *to, int64_t n, double by)
{
    if (dtype == BR_F32)
        divide_f32(to, n, (float)by);
    else if (dtype == BR_F64)
        divide_f64(to, n, by);
}

/* ---- Parts ----------------------------------------------------------------------------------- */

void br__dist_even_parts(int64_t n, int size, br_dist_part *parts)
{
    int64_t lines = (n + LINE - 1) / LINE, each = (lines + size - 1) / size * LINE;
    for (int r = 0; r < size; r++) {
        parts[r].begin = r * each < n ? r * each : n;
        parts[r].end = n - parts[r].begin > each ? parts[r].begin + each : n;
    }
}

/* The counts and offsets of an all-to-all exchange, in elements. */
typedef struct parts {
    int *send_count, *send_at, *count, *at;
} parts;

static bool parts_begin(br_dist_job *job, const br_dist_group *g, const br_dist_part *given,
                        parts *p)
{
    size_t size = (size_t)g->size;
    p->send_count = NULL;
    for (int r = 0; r < g->size; r++)
        if (given[r].end > BR_DIST_MAX_ELEMENTS)
            return br__dist_job_fail(job, "%lld elements are too many for one message",
                                     (long long)given[r].end);
    p->send_count = malloc(4 * size * sizeof(int));
    if (!p->send_count)
        return br__dist_job_fail(job, "cannot allocate memory for %d ranks", g->size);
    p->send_at = p->send_count + size;
    p->count = p->send_at + size;
    p->at = p->count + size;
    int64_t own = given[g->rank].end - given[g->rank].begin;
    for (int r = 0; r < g->size; r++) {
        p->send_count[r] = (int)(given[r].end - given[r].begin);
        p->send_at[r] = (int)given[r].begin;
        p->count[r] = (int)own;
        p->at[r] = (int)(r * own);
    }
    return true;
}

bool br__dist_exchange_parts(br_dist_job *job, const br_dist_group *g, br_dtype dtype,
                             const void *data, const br_dist_part *given, void *received)
{
    parts p;
    MPI_Request request;
    MPI_Datatype type = br__dist_type(dtype);
    bool ok = parts_begin(job, g, given, &p) &&
              br__dist_ok(job, "MPI_Ialltoallv",
                          MPI_Ialltoallv(data, p.send_count, p.send_at, type, received, p.count,
                                         p.at, type, g->comm, &request)) &&
              br__dist_complete(job, g, 1, &request);
    free(p.send_count);
    return ok;
}

bool br__dist_gather_parts(br_dist_job *job, const br_dist_group *g, br_dtype dtype, void *data,
                           const br_dist_part *given)
{
    parts p;
    MPI_Request request;
    MPI_Datatype type = br__dist_type(dtype);
    bool ok = parts_begin(job, g, given, &p) &&
              br__dist_ok(job, "MPI_Iallgatherv",
                          MPI_Iallgatherv(MPI_IN_PLACE, 0, type, data, p.send_count, p.send_at,
                                          type, g->comm, &request)) &&
              br__dist_complete(job, g, 1, &request);
    free(p.send_count);
    return ok;
}

bool br__dist_collect_parts(br_dist_job *job, const br_dist_group *g, br_dtype dtype,
                            const void *part, void *data, const br_dist_part *given,
                            int destination)
{
    parts p;
    MPI_Request request;
    MPI_Datatype type = br__dist_type(dtype);
    bool ok = parts_begin(job, g, given, &p) &&
              br__dist_ok(job, "MPI_Igatherv",
                          MPI_Igatherv(part, p.send_count[g->rank], type, data, p.send_count,
                                       p.send_at, type, destination, g->comm, &request)) &&
              br__dist_complete(job, g, 1, &request);
    free(p.send_count);
    return ok;
}
