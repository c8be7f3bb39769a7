/* ops/reduce/sort_topk.c - the order of elements along a dimension: sort, argsort, topk, median.
 *
 * Indices are sorted, and the values are gathered with them, so the gradients are those of
 * gather. */
#include "ops/index/index_internal.h"
#include "ops/reduce/reduce_internal.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* ---- Sorted indices -------------------------------------------------------------------------- */

/* Returns a new tensor of the indices, with x's sizes except for `count` along dim. */
static br_tensor *places(const char *op, br_tensor *x, const br_order *o)
{
    int64_t sizes[BR_MAX_DIMS];
    memcpy(sizes, x->sizes, sizeof sizes);
    sizes[o->dim] = o->count;
    br_tensor *out = br__new_on(op, x, x->ndim, sizes, BR_I64);
    const br_backend *backend = BR_BACKEND(op, x, sort);
    br_scope *scope = br_no_grad_begin();
    br_tensor *dense = backend ? br_contiguous(x) : NULL;
    BR_TRAFFIC(out, dense);
    if (out && dense && out->numel > 0)
        backend->sort(op, out, dense, o);
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
static br_tensor *at_places(const char *op, br_tensor *x, const br_order *o, br_tensor **indices)
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
    br_order o = { .dim = dim, .count = size_along(x, dim), .descending = descending };
    return at_places("sort", x, &o, indices);
}

br_tensor *br_argsort(br_tensor *x, int64_t dim, bool descending)
{
    BR_OP("argsort");
    if (!br__required("argsort", "x", x) || !br__wrap_dim("argsort", "dim", x, &dim))
        return NULL;
    br_order o = { .dim = dim, .count = size_along(x, dim), .descending = descending };
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
    br_order o = { .dim = dim, .count = k, .descending = largest };
    return at_places("topk", x, &o, indices);
}

br_tensor *br_kthvalue(br_tensor *x, int64_t k, int64_t dim, bool keepdim, br_tensor **indices)
{
    BR_OP("kthvalue");
    if (indices)
        *indices = NULL;
    if (!br__required("kthvalue", "x", x) || !br__wrap_dim("kthvalue", "dim", x, &dim))
        return NULL;
    const int64_t n = size_along(x, dim);
    if (k < 1 || k > n)
        return br_fail(BR_ERROR_INDEX, "kthvalue",
                       "k is %" PRId64 ", must be in 1 .. %" PRId64
                       ", the size of dimension %" PRId64 " of x %s",
                       k, n, dim, br__shape(x));
    br_order o = { .dim = dim, .count = k };
    br_scope *scope = br_scope_begin();
    br_tensor *line = as_line(x), *index = line ? places("kthvalue", line, &o) : NULL;
    index = br_narrow(index, dim, k - 1, 1);
    br_tensor *y = br_gather(line, dim, index);
    if (!keepdim || x->ndim == 0) {
        y = br_squeeze(y, dim);
        index = br_squeeze(index, dim);
    }
    if (indices)
        *indices = br_failed() ? NULL : br_scope_return(scope, br_contiguous(index));
    return br__composed(scope, y);
}

/* ---- Rows ------------------------------------------------------------------------------------ */

br_tensor *br__argsort_rows(const char *op, br_tensor *rows)
{
    if (br_ndim(rows) == 2 && rows->sizes[1] == 1)
        return br_argsort(br_reshape(rows, BR_SHAPE(rows->sizes[0])), 0, false);
    br_tensor *dense = br_contiguous(rows);
    br_tensor *ordered = dense ? br__new_on(op, dense, BR_SHAPE(dense->sizes[0]), BR_I64) : NULL;
    const br_backend *backend = ordered ? BR_BACKEND(op, dense, sort_rows) : NULL;
    if (backend && dense->numel > 0)
        backend->sort_rows(op, ordered, dense);
    return br_failed() ? NULL : ordered;
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
    br_order o = { .dim = dim, .count = 1, .median = true };
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
        return br_new_full(x, BR_SCALAR, NAN, x->dtype);
    br_scope *scope = br_no_grad_begin();
    br_tensor *y = br_median_dim(br_flatten(x, 0, -1), 0, false, NULL);
    br_scope_return(scope, y);
    br_scope_end(scope);
    br_node *node = br_record(&median_op, y, BR_INPUTS(x), NULL, 0);
    br_save(node, 0, x);
    br_save(node, 1, y);
    return br_failed() ? NULL : y;
}
