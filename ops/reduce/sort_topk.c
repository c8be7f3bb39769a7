/* ops/reduce/sort_topk.c - the order of elements along a dimension: sort, argsort, topk, median.
 *
 * Indices are sorted, and the values are gathered with them, so the gradients are those of
 * gather. */
#include "backends/cpu/reduce/sort.h"
#include "ops/index/index_internal.h"
#include "ops/reduce/reduce_internal.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* ---- Sorted indices -------------------------------------------------------------------------- */

typedef struct order {
    int64_t dim, count; /* return the indices of the first `count` elements in sorted order */
    bool descending;
    bool median; /* return the index of the median, or of the first NaN, instead */
} order;

typedef struct job {
    const br_sort_type *type;
    order o;
    const char *x;
    int64_t *out;
    int64_t n, after, lines, lines_per_task, size;
    br_sort_entry *entries; /* two lines for each task */
} job;

/* Returns the index of the median, the lower of the middle two, or of the first NaN. */
static int64_t median_of(const br_sort_type *type, const br_sort_entry *sorted, int64_t n)
{
    int64_t i = (n - 1) / 2;
    if (type->nan && sorted[n - 1].key == type->nan)
        for (i = n - 1; i > 0 && sorted[i - 1].key == type->nan;)
            i--;
    return sorted[i].index;
}

static void sort_line(const job *j, int64_t line, br_sort_entry *entries)
{
    int64_t block = line / j->after, column = line % j->after;
    const char *x = j->x + (block * j->n * j->after + column) * j->size;
    int64_t *out = j->out + block * j->o.count * j->after + column;
    j->type->keys(j->n, x, j->after * j->size, entries);
    const br_sort_entry *sorted =
        br__sort(j->n, entries, entries + j->n, j->type->bytes, j->o.descending);
    if (j->o.median)
        *out = median_of(j->type, sorted, j->n);
    for (int64_t i = 0; !j->o.median && i < j->o.count; i++)
        out[i * j->after] = sorted[i].index;
}

static void run_task(void *context, int64_t task)
{
    const job *j = context;
    int64_t first = task * j->lines_per_task, last = first + j->lines_per_task;
    for (int64_t line = first; line < last && line < j->lines; line++)
        sort_line(j, line, j->entries + task * 2 * j->n);
}

/* Writes the indices, [before, count, after], for a contiguous x. */
static void find_places(const char *op, const br_tensor *x, const order *o, const br_tensor *out)
{
    enum { MAX_TASKS = 64 };
    job j = { .type = &br__sort_types[x->dtype],
              .o = *o,
              .x = x->data,
              .out = (int64_t *)(void *)out->data,
              .n = x->sizes[o->dim],
              .after = 1,
              .size = (int64_t)br_dtype_size(x->dtype) };
    for (int i = (int)o->dim + 1; i < x->ndim; i++)
        j.after *= x->sizes[i];
    j.lines = x->numel / j.n;
    /* Sorting costs many simple operations per element. */
    int64_t worth = x->numel / (BR_GRAIN / 8) + 1;
    int64_t tasks = worth < MAX_TASKS ? worth : MAX_TASKS;
    j.lines_per_task = (j.lines + tasks - 1) / tasks;
    tasks = (j.lines + j.lines_per_task - 1) / j.lines_per_task;
    br_extent *extent;
    size_t bytes = (size_t)(tasks * 2 * j.n) * sizeof *j.entries;
    j.entries = br__block_alloc(op, bytes, &extent);
    if (!j.entries)
        return;
    BR_TRAFFIC(out, x);
    br__parallel(tasks, run_task, &j);
    br__block_free(j.entries, bytes, extent);
}

/* Returns a new tensor of the indices, with x's sizes except for `count` along dim. */
static br_tensor *places(const char *op, br_tensor *x, const order *o)
{
    int64_t sizes[BR_MAX_DIMS];
    memcpy(sizes, x->sizes, sizeof sizes);
    sizes[o->dim] = o->count;
    br_tensor *out = br__new(op, x->ndim, sizes, BR_I64);
    br_scope *scope = br_no_grad_begin();
    br_tensor *dense = br_contiguous(x);
    if (out && dense && out->numel > 0)
        find_places(op, dense, o, out);
    br_scope_end(scope);
    return br_failed() ? NULL : out;
}

/* A 0-d tensor is sorted like one of shape [1]. */
static br_tensor *as_line(br_tensor *x)
{
    return br_ndim(x) == 0 ? br_reshape(x, BR_SHAPE(1)) : x;
}

static br_tensor *as_before(br_tensor *y, const br_tensor *x)
{
    return x->ndim == 0 ? br_reshape(y, BR_SCALAR) : y;
}

/* Returns the selected values, and their indices in *indices unless that is NULL. */
static br_tensor *at_places(const char *op, br_tensor *x, const order *o, br_tensor **indices)
{
    br_tensor *line = as_line(x), *index = line ? places(op, line, o) : NULL;
    br_tensor *y = index ? as_before(br_gather(line, o->dim, index), x) : NULL;
    if (indices)
        *indices = y ? as_before(index, x) : NULL;
    return br_failed() ? NULL : y;
}

/* ---- sort, argsort, topk --------------------------------------------------------------------- */

static int64_t size_along(const br_tensor *x, int64_t dim)
{
    return x->ndim == 0 ? 1 : x->sizes[dim];
}

br_tensor *br_sort(br_tensor *x, int64_t dim, bool descending, br_tensor **indices)
{
    BR_OP("sort");
    if (indices)
        *indices = NULL;
    if (!br__required("sort", "x", x) || !br__wrap_dim("sort", "dim", x, &dim))
        return NULL;
    order o = { .dim = dim, .count = size_along(x, dim), .descending = descending };
    return at_places("sort", x, &o, indices);
}

br_tensor *br_argsort(br_tensor *x, int64_t dim, bool descending)
{
    BR_OP("argsort");
    if (!br__required("argsort", "x", x) || !br__wrap_dim("argsort", "dim", x, &dim))
        return NULL;
    order o = { .dim = dim, .count = size_along(x, dim), .descending = descending };
    br_scope *scope = br_no_grad_begin();
    br_tensor *line = as_line(x), *index = line ? places("argsort", line, &o) : NULL;
    index = br_scope_return(scope, index ? as_before(index, x) : NULL);
    br_scope_end(scope);
    return index;
}

br_tensor *br_topk(br_tensor *x, int64_t k, int64_t dim, bool largest, br_tensor **indices)
{
    BR_OP("topk");
    if (indices)
        *indices = NULL;
    if (!br__required("topk", "x", x) || !br__wrap_dim("topk", "dim", x, &dim))
        return NULL;
    int64_t n = size_along(x, dim);
    if (k < 0 || k > n)
        return br_fail(BR_ERROR_INDEX, "topk",
                       "k is %" PRId64 ", must be in 0 .. %" PRId64
                       ", the size of dimension %" PRId64 " of x %s",
                       k, n, dim, br__shape(x));
    if (x->ndim == 0)
        k = 1; /* as in PyTorch, the result is 0-d for k = 0 too */
    order o = { .dim = dim, .count = k, .descending = largest };
    return at_places("topk", x, &o, indices);
}

/* ---- Rows ------------------------------------------------------------------------------------ */

br_tensor *br__argsort_rows(const char *op, br_tensor *rows)
{
    if (br_ndim(rows) == 2 && rows->sizes[1] == 1)
        return br_argsort(br_reshape(rows, BR_SHAPE(rows->sizes[0])), 0, false);
    br_tensor *dense = br_contiguous(rows);
    br_tensor *ordered = dense ? br__new(op, BR_SHAPE(dense->sizes[0]), BR_I64) : NULL;
    br_tensor *spare = ordered ? br__new_like(op, ordered, BR_I64) : NULL;
    br_extent *extent;
    size_t bytes = dense ? (size_t)dense->numel * sizeof(br_sort_entry) : 0;
    br_sort_entry *keys = spare && bytes ? br__block_alloc(op, bytes, &extent) : NULL;
    if (!keys)
        return br_failed() ? NULL : ordered;
    br__sort_types[dense->dtype].keys(dense->numel, dense->data,
                                      (int64_t)br_dtype_size(dense->dtype), keys);
    br__sort_rows(dense->sizes[0], dense->sizes[1], keys, (int64_t *)(void *)ordered->data,
                  (int64_t *)(void *)spare->data);
    br__block_free(keys, bytes, extent);
    return ordered;
}

/* ---- median ---------------------------------------------------------------------------------- */

br_tensor *br_median_dim(br_tensor *x, int64_t dim, bool keepdim, br_tensor **indices)
{
    BR_OP("median");
    if (indices)
        *indices = NULL;
    if (!br__required("median", "x", x) || !br__wrap_dim("median", "dim", x, &dim))
        return NULL;
    if (size_along(x, dim) == 0)
        return br_fail(BR_ERROR_SHAPE, "median", "x %s has no elements along dimension %" PRId64,
                       br__shape(x), dim);
    order o = { .dim = dim, .count = 1, .median = true };
    br_tensor *index, *y = at_places("median", x, &o, &index);
    if (!keepdim && x->ndim > 0) {
        y = br_squeeze(y, dim);
        index = br_squeeze(index, dim);
    }
    if (indices)
        *indices = y ? index : NULL;
    if (y && BR_PROFILING)
        br__thread.events->result(y);
    return br_failed() ? NULL : y;
}

static const br_op median_op = { "median", br__share_evenly, false };

br_tensor *br_median(br_tensor *x)
{
    BR_OP("median");
    if (!br__required("median", "x", x))
        return NULL;
    if (x->numel == 0 && br_is_floating(x))
        return br_full(BR_SCALAR, NAN, x->dtype);
    br_scope *scope = br_no_grad_begin();
    br_tensor *y = br_median_dim(br_flatten(x, 0, -1), 0, false, NULL);
    br_scope_return(scope, y);
    br_scope_end(scope);
    br_node *node = br_record(&median_op, y, BR_INPUTS(x), NULL, 0);
    br_save(node, 0, x);
    br_save(node, 1, y);
    return br_failed() ? NULL : y;
}
