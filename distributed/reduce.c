/* distributed/reduce.c - reductions whose results do not depend on the number of messages or on
 * their order.
 *
 * MPI_Allreduce, for example, may add in any order, and does so differently for different sizes and
 * numbers of ranks. Here every rank owns a part of the elements. It receives that part from all
 * ranks, adds in the order of the ranks, and gives the result to all. Each rank sends and receives
 * 2 (N - 1) / N times the data, which is the least that any algorithm needs. */
#include "backends/backend.h"
#include "distributed/distributed_internal.h"
#include "tensor/host.h"
#include "tensor/min_max.h"
#include "tensor/parallel.h"

#include <stdlib.h>
#include <string.h>

enum { LINE = 64 }; /* bytes of a cache line */

/* ---- Elements -------------------------------------------------------------------------------- */

/* Returns a header of n elements in the host's memory. */
static br_tensor row(br_dtype dtype, void *data, int64_t n)
{
    br_tensor t;
    br__host_number(&t, dtype, data);
    t.ndim = 1;
    t.sizes[0] = t.numel = n;
    t.strides[0] = 1;
    return t;
}

/* Computes to = kernel(to, from) for n elements. `from` has as many, or one. Works in pieces that
 * the backend does not share among threads: they belong to the computation. */
static void apply(br_pointwise kernel, br_dtype dtype, char *to, const void *from, int64_t from_n,
                  int64_t n)
{
    const int64_t size = (int64_t)br_dtype_size(dtype);
    for (int64_t at = 0; at < n; at += BR_GRAIN) {
        const int64_t piece = br__min(n - at, BR_GRAIN);
        br_tensor a = row(dtype, to + at * size, piece);
        br_tensor b = row(dtype, (char *)(uintptr_t)from + (from_n > 1 ? at * size : 0),
                          from_n > 1 ? piece : from_n);
        br__cpu_backend.pointwise(kernel, 3, (const br_tensor *[]){ &a, &a, &b }, NULL);
    }
}

void br__dist_combine(br_dtype dtype, br_dist_reduction reduction, void *to, const void *from,
                      int64_t n)
{
    br_pointwise kernel = reduction == BR_DIST_MAX   ? BR_POINTWISE(maximum)
                          : reduction == BR_DIST_MIN ? BR_POINTWISE(minimum)
                                                     : BR_POINTWISE(add);
    if (dtype == BR_BOOL && kernel == BR_POINTWISE(add)) /* true if any is */
        kernel = BR_POINTWISE(maximum);
    apply(kernel, dtype, to, from, n, n);
}

void br__dist_divide(br_dtype dtype, void *to, int64_t n, double by)
{
    double element;
    if (!br__is_floating(dtype)) /* integers and bool have no mean */
        return;
    br__put(dtype, &element, by);
    apply(BR_POINTWISE(div), dtype, to, &element, 1, n);
}

/* ---- Parts ----------------------------------------------------------------------------------- */

void br__dist_even_parts(int64_t n, int size, br_dist_part *parts)
{
    int64_t lines = (n + LINE - 1) / LINE, each = (lines + size - 1) / size * LINE;
    for (int r = 0; r < size; r++) {
        parts[r].begin = br__min(r * each, n);
        parts[r].end = n - parts[r].begin > each ? parts[r].begin + each : n;
    }
}

/* Returns the address and the size of a rank's part. */
static char *part_of(const void *data, br_dtype dtype, br_dist_part part, size_t *bytes)
{
    *bytes = (size_t)(part.end - part.begin) * br_dtype_size(dtype);
    return (char *)data + (size_t)part.begin * br_dtype_size(dtype);
}

bool br__dist_exchange_parts(br_dist_job *job, const br_dist_group *g, br_dtype dtype,
                             const void *data, const br_dist_part *parts, void *received)
{
    br_dist_exchange x = br__dist_exchange(job, g);
    size_t own, bytes;
    const char *mine = part_of(data, dtype, parts[g->rank], &own);
    for (int i = 1; i < g->size; i++) {
        int to = (g->rank + i) % g->size, from = (g->rank + g->size - i) % g->size;
        const char *theirs = part_of(data, dtype, parts[to], &bytes);
        br__dist_recv_from(&x, from, (char *)received + (size_t)from * own, own);
        br__dist_send_to(&x, to, theirs, bytes);
    }
    memcpy((char *)received + (size_t)g->rank * own, mine, own);
    return br__dist_complete(&x);
}

bool br__dist_gather_parts(br_dist_job *job, const br_dist_group *g, br_dtype dtype, void *data,
                           const br_dist_part *parts)
{
    br_dist_exchange x = br__dist_exchange(job, g);
    size_t own, bytes;
    const char *mine = part_of(data, dtype, parts[g->rank], &own);
    for (int i = 1; i < g->size; i++) {
        int to = (g->rank + i) % g->size, from = (g->rank + g->size - i) % g->size;
        char *theirs = part_of(data, dtype, parts[from], &bytes);
        br__dist_recv_from(&x, from, theirs, bytes);
        br__dist_send_to(&x, to, mine, own);
    }
    return br__dist_complete(&x);
}

bool br__dist_collect_parts(br_dist_job *job, const br_dist_group *g, br_dtype dtype,
                            const void *part, void *data, const br_dist_part *parts,
                            int destination)
{
    br_dist_exchange x = br__dist_exchange(job, g);
    size_t bytes;
    char *place = part_of(data, dtype, parts[g->rank], &bytes);
    if (g->rank != destination)
        br__dist_send_to(&x, destination, part, bytes);
    else
        memcpy(place, part, bytes);
    for (int r = 0; g->rank == destination && r < g->size; r++) {
        char *theirs = part_of(data, dtype, parts[r], &bytes);
        if (r != destination)
            br__dist_recv_from(&x, r, theirs, bytes);
    }
    return br__dist_complete(&x);
}

/* Cuts bytes into parts of the ranks but `source`; few bytes are everybody's part. */
static void cut_broadcast(int64_t bytes, int size, int source, br_dist_part *parts)
{
    enum { FEW = 1 << 15 }; /* more bytes are faster in parts, in spite of more messages */
    if (bytes > FEW)
        br__dist_even_parts(bytes, size - 1, parts);
    for (int r = size - 1; r >= 0; r--) {
        if (bytes <= FEW)
            parts[r] = (br_dist_part){ 0, bytes };
        else if (r > source)
            parts[r] = parts[r - 1];
    }
    parts[source] = (br_dist_part){ 0, 0 };
}

bool br__dist_broadcast_bytes(br_dist_job *job, const br_dist_group *g, char *data, int64_t bytes,
                              int source)
{
    br_dist_exchange x = br__dist_exchange(job, g);
    br_dist_part *parts = malloc((size_t)g->size * sizeof *parts);
    if (!parts)
        return br__dist_job_fail(job, "cannot allocate memory for %d ranks", g->size);
    cut_broadcast(bytes, g->size, source, parts);
    size_t own, theirs;
    char *mine = part_of(data, BR_BOOL, parts[g->rank], &own);
    for (int i = 1; g->rank == source && i < g->size; i++) {
        int to = (source + i) % g->size;
        const char *part = part_of(data, BR_BOOL, parts[to], &theirs);
        br__dist_send_to(&x, to, part, theirs);
    }
    br__dist_recv_from(&x, source, mine, own);
    bool ok = br__dist_complete(&x);
    for (int i = 1; ok && g->rank != source && (int64_t)own < bytes && i < g->size; i++) {
        int to = (g->rank + i) % g->size, from = (g->rank + g->size - i) % g->size;
        char *part = part_of(data, BR_BOOL, parts[from], &theirs);
        br__dist_recv_from(&x, from, part, theirs);
        if (to != source)
            br__dist_send_to(&x, to, mine, own);
    }
    ok = ok && br__dist_complete(&x);
    free(parts);
    return ok;
}
