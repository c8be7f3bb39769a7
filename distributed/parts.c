/* distributed/parts.c - which elements of the buckets belong to which rank.
 *
 * Each bucket is cut into one part per rank. A rank reduces the gradients of its parts, and a
 * sharded optimizer keeps the state of these elements. A part may end within a parameter, unless
 * the parameter's optimizer needs it as a whole. The ranks that have received less in earlier
 * buckets come first and receive more, so that the sums over all buckets are about equal. */
#include "distributed/data_parallel.h"
#include "tensor/min_max.h"

#include <brasa/autograd.h>
#include <brasa/ops.h>
#include <stdlib.h>

enum { LINE = 64 }; /* elements; parts are whole cache lines */

/* Returns the end of a part that begins at `begin` and should end at about `end`. */
static int64_t place_end(const br_bucket *b, int64_t begin, int64_t end)
{
    end = (end + LINE - 1) / LINE * LINE;
    for (int i = 0; i < b->n_params; i++) {
        int64_t first = b->params[i]->offset;
        int64_t next = i + 1 < b->n_params ? b->params[i + 1]->offset : b->n;
        if (end <= first || end >= next || !b->params[i]->whole)
            continue;
        end = end - first < next - end && first > begin ? first : next;
    }
    return br__min(end, b->n);
}

/* Sorts the ranks by what they have received. */
static void sort(int n, const int64_t *bytes, int *ranks)
{
    for (int i = 0; i < n; i++) {
        int k = i;
        for (; k > 0 && bytes[ranks[k - 1]] > bytes[i]; k--)
            ranks[k] = ranks[k - 1];
        ranks[k] = i;
    }
}

/* Cuts one bucket. bytes[r]: what rank r has received. */
static void cut(br_bucket *b, int n_ranks, int64_t *bytes, int *ranks)
{
    int64_t element = (int64_t)br_dtype_size(b->dtype), at = 0, left = b->n * element;
    sort(n_ranks, bytes, ranks);
    for (int i = 0; i < n_ranks; i++)
        left += bytes[i];
    for (int i = 0; i < n_ranks; i++) {
        int r = ranks[i];
        int64_t more = left / (n_ranks - i) - bytes[r];
        int64_t end = i + 1 == n_ranks ? b->n : at;
        if (more > 0 && i + 1 < n_ranks)
            end = place_end(b, at, at + (more + element - 1) / element);
        left -= bytes[r] + (end - at) * element;
        bytes[r] += (end - at) * element;
        b->parts[r] = (br_dist_part){ at, end };
        at = end;
    }
}

bool br__parallel_cut(br_data_parallel *p)
{
    int n = br_dist_size(p->group), rank = br_dist_rank(p->group);
    int64_t *bytes = calloc((size_t)n, sizeof *bytes);
    int *ranks = br__dist_malloc((size_t)n * sizeof *ranks);
    if (!bytes && !br_failed())
        br_raise(BR_ERROR_MEMORY, "data_parallel: cannot allocate memory");
    for (int k = 0; bytes && ranks && k < p->n_buckets; k++) {
        br_bucket *b = &p->buckets[k];
        cut(b, n, bytes, ranks);
        if (b->data)
            b->own = b->data + (size_t)b->parts[rank].begin * br_dtype_size(b->dtype);
    }
    bool ok = bytes && ranks;
    free(bytes);
    free(ranks);
    return ok;
}

bool br__bucket_make_part(br_bucket *b)
{
    if (!b->owner->scatter || b->part || br_failed())
        return !br_failed();
    br_dist_part own = b->parts[br_dist_rank(b->owner->group)];
    br_scope *scope = br_no_grad_begin();
    b->part =
        br_retain(br__zeros_on_host("data_parallel", BR_SHAPE(own.end - own.begin), b->dtype));
    b->own = b->part ? br_data(b->part) : NULL;
    br_scope_end(scope);
    return !br_failed();
}

/* ---- Slices ---------------------------------------------------------------------------------- */

bool br__parallel_slice(const br_parallel_param *q, int rank, int64_t *from, int64_t *count)
{
    br_dist_part part = q->bucket->parts[rank];
    int64_t begin = part.begin - q->offset, end = part.end - q->offset;
    begin = br__max(begin, 0);
    end = br__min(end, q->numel);
    *from = begin < end ? begin : 0;
    *count = begin < end ? end - begin : 0;
    return *count > 0 || (q->numel == 0 && rank == 0);
}

br_tensor *br__parallel_slice_of(br_tensor *t, int64_t from, int64_t count)
{
    if (count == br_numel(t))
        return br_detach(t);
    br_tensor *flat = br_view(br_contiguous(br_detach(t)), BR_SHAPE(br_numel(t)));
    return br_narrow(flat, 0, from, count);
}

bool br__parallel_has_gradient(const br_parallel_param *q)
{
    return q->owner->scatter ? q->has_gradient : br_grad_of(q->param) != NULL;
}

br_tensor *br__parallel_gradient(const br_parallel_param *q, int64_t from, int64_t count)
{
    if (!br__parallel_has_gradient(q))
        return NULL;
    if (!q->owner->scatter)
        return br__parallel_slice_of(br_grad_of(q->param), from, count);
    if (count == 0)
        return br_zeros_like(q->param);
    const br_bucket *b = q->bucket;
    int64_t begin = b->parts[br_dist_rank(q->owner->group)].begin;
    br_tensor *flat = br_narrow(b->part, 0, q->offset + from - begin, count);
    return count == q->numel ? br_view(flat, br_ndim(q->param), br_sizes(q->param)) : flat;
}
