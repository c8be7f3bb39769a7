/* ops/index/gather_embedding.c - lookup by index: index_select, gather, embedding; and tril, triu.
 *
 * The three lookups are one strided loop over the result, x and the index. In this loop x has
 * stride 0 along the dimension, and the index selects the slice instead. The adjoint adds along
 * that dimension (ops/index/scatter.c). */
#include "ops/index/index_internal.h"
#include "ops/kernels/index.h"

#include <inttypes.h>
#include <string.h>

/* ---- Checks ---------------------------------------------------------------------------------- */

/* Returns the position of the first element outside 0 .. size - 1, or -1. */
static int64_t first_outside(const int64_t *index, int64_t n, int64_t size)
{
    for (int64_t i = 0; i < n; i++)
        if ((uint64_t)index[i] >= (uint64_t)size)
            return i;
    return -1;
}

const char *br__position(const br_tensor *t, int64_t i)
{
    int64_t position[BR_MAX_DIMS];
    for (int d = t->ndim - 1; d >= 0; d--) {
        position[d] = i % t->sizes[d];
        i /= t->sizes[d];
    }
    return br__shape_of(t->ndim, position);
}

bool br__check_index(const char *op, br_tensor *index, int64_t size)
{
    br_scope *scope = br_scope_begin();
    br_tensor *dense = br_contiguous(index);
    const int64_t *values = dense ? (const int64_t *)(const void *)dense->data : NULL;
    int64_t bad = dense ? first_outside(values, dense->numel, size) : -1;
    if (bad >= 0)
        br_fail(BR_ERROR_INDEX, op, "index %" PRId64 " at position %s is outside 0 .. %" PRId64,
                values[bad], br__position(index, bad), size - 1);
    br_scope_end(scope);
    return !br_failed();
}

br_tensor *br__wrap_index(const char *op, br_tensor *index, int64_t size)
{
    br_tensor *dense = br_contiguous(index);
    const int64_t *values = dense ? (const int64_t *)(const void *)dense->data : NULL;
    bool negative = false;
    for (int64_t i = 0; dense && i < dense->numel; i++) {
        if (values[i] < -size || values[i] >= size)
            return br_fail(BR_ERROR_INDEX, op,
                           "index %" PRId64 " at position %s is outside %" PRId64 " .. %" PRId64,
                           values[i], br__position(index, i), -size, size - 1);
        negative = negative || values[i] < 0;
    }
    br_tensor *wrapped = negative ? br__new_like(op, dense, BR_I64) : dense;
    int64_t *out = negative && wrapped ? (int64_t *)(void *)wrapped->data : NULL;
    for (int64_t i = 0; out && i < dense->numel; i++)
        out[i] = values[i] + (values[i] < 0 ? size : 0);
    return wrapped;
}

/* ---- The lookup and its adjoint -------------------------------------------------------------- */

br_tensor br__line(const br_tensor *t)
{
    br_tensor w = br__window(t);
    if (t->ndim == 0) {
        w.ndim = 1;
        w.sizes[0] = w.strides[0] = 1;
    }
    return w;
}

/* Returns a header of t for the loops. If the index selects slices, t must be contiguous, and its
 * dimensions that come from the index are merged into one, so that the header has as many
 * dimensions as x. */
static br_tensor chosen_window(const br_tensor *t, const br_tensor *index,
                               const br_index_selection *c, int ndim, const int64_t *sizes)
{
    br_tensor w = br__line(t);
    if (!c->slices)
        return w;
    w.ndim = ndim;
    memcpy(w.sizes, sizes, (size_t)ndim * sizeof *sizes);
    w.sizes[c->dim] = index->numel;
    br__default_strides(ndim, w.sizes, w.strides);
    return w;
}

/* Returns a header of the contiguous index in the shape of the result's window. */
static br_tensor index_window(const br_tensor *index, const br_index_selection *c,
                              const br_tensor *like)
{
    br_tensor w = br__line(index);
    if (!c->slices)
        return w;
    w.ndim = like->ndim;
    memcpy(w.sizes, like->sizes, sizeof w.sizes);
    memset(w.strides, 0, sizeof w.strides);
    w.strides[c->dim] = 1;
    return w;
}

static void gather_elements(const br_tensor *y, const br_tensor *x, const br_tensor *index,
                            const br_index_selection *c)
{
    br_tensor from = br__line(x), to = chosen_window(y, index, c, from.ndim, from.sizes);
    br_tensor by = index_window(index, c, &to);
    size_t size = br_dtype_size(x->dtype);
    int64_t stride = from.strides[c->dim] * (int64_t)size;
    memcpy(from.sizes, to.sizes, sizeof from.sizes);
    /* With stride 0, br__for_each() reports the memory traffic of one slice of x only; BR_TRAFFIC
     * adds the others. */
    from.strides[c->dim] = 0;
    BR_TRAFFIC(y);
    br__for_each(3, (const br_tensor *[]){ &to, &from, &by }, br__gather_loop(size), &stride);
}

/* Adds the contiguous y to x at the indexed positions. */
static void add_up(const br_tensor *x, const br_tensor *y, const br_tensor *index,
                   const br_index_selection *c)
{
    br_tensor to = br__line(x), from = chosen_window(y, index, c, to.ndim, to.sizes);
    br_tensor by = index_window(index, c, &from);
    br__scatter(&to, &from, &by, c->dim, c->skip, br__scatter_loops_of(x->dtype)->add);
}

static void lookup_backward(br_node *node, br_tensor *dy, br_tensor **dx)
{
    int ndim;
    const int64_t *sizes = br_input_sizes(node, 0, &ndim);
    br_tensor *index = br_saved(node, 0);
    const br_tensor *sum = index ? br_accumulated_grad(node, 0) : NULL;
    if (!sum) {
        dx[0] = br__index_add(dy, index, br_params(node), ndim, sizes);
        return;
    }
    br_tensor *dense = br_contiguous(dy);
    if (dense && dense->numel > 0)
        add_up(sum, dense, index, br_params(node));
}

/* Returns the elements of x that the index selects, as a tensor of the given sizes. All indices
 * must be in range. Saves the index for backward. */
static br_tensor *lookup(const br_op *op, br_tensor *x, br_tensor *index,
                         const br_index_selection *c, int ndim, const int64_t *sizes)
{
    br_tensor *y = br__new(op->name, ndim, sizes, x->dtype);
    br_scope *scope = br_scope_begin();
    br_tensor *by = br_contiguous(index);
    if (y && by && y->numel > 0)
        gather_elements(y, x, by, c);
    br_save(br_record(op, y, BR_INPUTS(x), c, sizeof *c), 0, by);
    br_scope_end(scope);
    return br_failed() ? NULL : y;
}

static const br_op lookup_again_op = { .name = "index_add_backward", .backward = lookup_backward };

static void index_add_backward(br_node *node, br_tensor *ddx, br_tensor **ddy)
{
    const br_index_selection *c = br_params(node);
    br_tensor *index = br_saved(node, 0);
    int ndim;
    const int64_t *sizes = br_input_sizes(node, 0, &ndim);
    if (!index)
        return;
    ddy[0] = lookup(&lookup_again_op, ddx, index, c, ndim, sizes);
    if (c->skip >= 0) {
        br_tensor *skipped = br_eq_scalar(index, (double)c->skip);
        for (int i = index->ndim; i < ndim; i++)
            skipped = br_unsqueeze(skipped, -1);
        ddy[0] = br_masked_fill(ddy[0], skipped, 0);
    }
}

static const br_op index_add_op = { .name = "index_add", .backward = index_add_backward };

br_tensor *br__index_add(br_tensor *dy, br_tensor *index, const br_index_selection *choice,
                         int ndim, const int64_t *sizes)
{
    BR_OP(index_add_op.name);
    if (!dy || !index)
        return NULL;
    br_tensor *x = br_zeros(ndim, sizes, dy->dtype);
    br_scope *scope = br_scope_begin();
    br_tensor *dense = br_contiguous(dy), *by = br_contiguous(index);
    if (x && dense && by && dense->numel > 0)
        add_up(x, dense, by, choice);
    br_save(br_record(&index_add_op, x, BR_INPUTS(dy), choice, sizeof *choice), 0, by);
    br_scope_end(scope);
    return br_failed() ? NULL : x;
}

/* ---- The operations -------------------------------------------------------------------------- */

/* A 0-d x or index is treated as 1-d of size 1, as in PyTorch. */
static int64_t size_along(const br_tensor *x, int64_t dim)
{
    return x->ndim == 0 ? 1 : x->sizes[dim];
}

static const br_op index_select_op = { .name = "index_select", .backward = lookup_backward };

br_tensor *br_index_select(br_tensor *x, int64_t dim, br_tensor *index)
{
    BR_OP("index_select");
    if (!br__required("index_select", "x", x) || !br__wrap_dim("index_select", "dim", x, &dim) ||
        !br__has_dtype("index_select", "index", index, BR_I64))
        return NULL;
    if (index->ndim > 1)
        return br_fail(BR_ERROR_SHAPE, "index_select", "index %s must have one dimension",
                       br__shape(index));
    if (x->ndim == 0 && index->numel != 1)
        return br_fail(BR_ERROR_SHAPE, "index_select",
                       "index %s must have one element, because x [] has no dimensions",
                       br__shape(index));
    if (!br__check_index("index_select", index, size_along(x, dim)))
        return NULL;
    int64_t sizes[BR_MAX_DIMS];
    memcpy(sizes, x->sizes, sizeof sizes);
    sizes[dim] = index->numel;
    return lookup(&index_select_op, x, index, &(br_index_selection){ (int)dim, true, -1 }, x->ndim,
                  sizes);
}

static const br_op gather_op = { .name = "gather", .backward = lookup_backward };

br_tensor *br_gather(br_tensor *x, int64_t dim, br_tensor *index)
{
    BR_OP("gather");
    if (!br__required("gather", "x", x) || !br__wrap_dim("gather", "dim", x, &dim) ||
        !br__has_dtype("gather", "index", index, BR_I64))
        return NULL;
    br_tensor of = br__line(x), at = br__line(index);
    bool fits = at.ndim == of.ndim;
    for (int i = 0; fits && i < of.ndim; i++)
        fits = i == dim || at.sizes[i] <= of.sizes[i];
    if (!fits)
        return br_fail(BR_ERROR_SHAPE, "gather",
                       "index %s for x %s: must have the same number of dimensions, and index "
                       "must not be larger than x except in dimension %" PRId64,
                       br__shape(index), br__shape(x), dim);
    if (!br__check_index("gather", index, size_along(x, dim)))
        return NULL;
    return lookup(&gather_op, x, index, &(br_index_selection){ (int)dim, false, -1 }, index->ndim,
                  index->sizes);
}

static const br_op embedding_op = { .name = "embedding", .backward = lookup_backward };

br_tensor *br_f_embedding(br_tensor *weight, br_tensor *index, int64_t padding_idx)
{
    BR_OP("embedding");
    if (!br__required("embedding", "weight", weight) ||
        !br__has_dtype("embedding", "index", index, BR_I64))
        return NULL;
    if (weight->ndim != 2)
        return br_fail(BR_ERROR_SHAPE, "embedding", "weight %s must have two dimensions",
                       br__shape(weight));
    int64_t rows = weight->sizes[0];
    if (padding_idx < -1 || padding_idx >= rows)
        return br_fail(BR_ERROR_INDEX, "embedding",
                       "padding_idx is %" PRId64 ", must be in 0 .. %" PRId64
                       " (the rows of weight %s), or -1 for none",
                       padding_idx, rows - 1, br__shape(weight));
    if (!br__check_index("embedding", index, rows))
        return NULL;
    int64_t sizes[BR_MAX_DIMS + 1];
    memcpy(sizes, index->sizes, sizeof index->sizes);
    sizes[index->ndim] = weight->sizes[1];
    return lookup(&embedding_op, weight, index, &(br_index_selection){ 0, true, padding_idx },
                  index->ndim + 1, sizes);
}

/* ---- Triangles ------------------------------------------------------------------------------- */

typedef struct triangle {
    int64_t diagonal;
    bool upper;
} triangle;

typedef struct triangle_job {
    char *data; /* contiguous matrices */
    int64_t rows, columns, total_rows, rows_per_task;
    size_t size;
    triangle t;
} triangle_job;

/* Sets the elements outside the triangle to 0: columns from .. to - 1 of each row. */
static void clear_rows(void *context, int64_t task)
{
    const triangle_job *job = context;
    int64_t last = (task + 1) * job->rows_per_task;
    for (int64_t row = task * job->rows_per_task; row < last && row < job->total_rows; row++) {
        int64_t i = row % job->rows, from = 0, to = job->columns, edge;
        /* The first column above the diagonal for tril, the first on or above it for triu. */
        if (__builtin_add_overflow(i + !job->t.upper, job->t.diagonal, &edge))
            edge = INT64_MAX;
        edge = edge < 0 ? 0 : edge > to ? to : edge;
        *(job->t.upper ? &to : &from) = edge;
        memset(job->data + (size_t)(row * job->columns + from) * job->size, 0,
               (size_t)(to - from) * job->size);
    }
}

static br_tensor *cut_triangle(const br_op *op, br_tensor *x, const triangle *t)
{
    BR_OP(op->name);
    if (!br__required(op->name, "x", x))
        return NULL;
    if (x->ndim < 2)
        return br_fail(BR_ERROR_SHAPE, op->name, "x %s must have at least two dimensions",
                       br__shape(x));
    br_tensor *y = br__new(op->name, x->ndim, x->sizes, x->dtype);
    if (y && y->numel > 0) {
        br__copy(y, x);
        int64_t columns = y->sizes[y->ndim - 1];
        triangle_job job = { y->data,
                             y->sizes[y->ndim - 2],
                             columns,
                             y->numel / columns,
                             BR_GRAIN / columns + 1,
                             br_dtype_size(y->dtype),
                             *t };
        br__parallel((job.total_rows - 1) / job.rows_per_task + 1, clear_rows, &job);
    }
    return br__recorded(op, y, x, t, sizeof *t);
}

static void triangle_backward(br_node *node, br_tensor *dy, br_tensor **dx)
{
    const triangle *t = br_params(node);
    dx[0] = t->upper ? br_triu(dy, t->diagonal) : br_tril(dy, t->diagonal);
}

static const br_op tril_op = { .name = "tril", .backward = triangle_backward };
static const br_op triu_op = { .name = "triu", .backward = triangle_backward };

br_tensor *br_tril(br_tensor *x, int64_t diagonal)
{
    return cut_triangle(&tril_op, x, &(triangle){ diagonal, false });
}

br_tensor *br_triu(br_tensor *x, int64_t diagonal)
{
    return cut_triangle(&triu_op, x, &(triangle){ diagonal, true });
}
