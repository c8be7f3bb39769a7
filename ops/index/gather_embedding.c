/* ops/index/gather_embedding.c - lookup by index: index_select, gather, embedding.
 *
 * The three lookups are one entry of the backend over windows of the result, x and the index. The
 * index selects the slice of x along the dimension. The adjoint adds along that dimension. */
#include "ops/index/index_internal.h"
#include "ops/pointwise/widen.h"

#include <inttypes.h>
#include <string.h>

/* ---- The lookup and its adjoint -------------------------------------------------------------- */

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

/* Returns a header of the index, contiguous if it selects slices, in the shape of the result's
 * window. */
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

static void gather_elements(const char *op, const br_tensor *y, const br_tensor *x,
                            const br_tensor *index, const br_index_selection *c)
{
    const br_backend *backend = BR_BACKEND(op, x, gather);
    br_tensor from = br__line(x), to = chosen_window(y, index, c, from.ndim, from.sizes);
    br_tensor by = index_window(index, c, &to);
    BR_TRAFFIC(y, y, index); /* y->numel elements of x are read */
    if (backend)
        backend->gather(&to, &from, &by, c->dim);
}

/* Adds the contiguous y to x at the indexed positions. */
static void add_up(const br_tensor *x, const br_tensor *y, const br_tensor *index,
                   const br_index_selection *c)
{
    br_tensor to = br__line(x), from = chosen_window(y, index, c, to.ndim, to.sizes);
    br_tensor by = index_window(index, c, &from);
    br__scatter("index_add", &to, &from, &by, c->dim, c->skip, BR_COMBINE_ADD);
}

static void lookup_backward(br_node *node, br_tensor *dy, br_tensor **dx)
{
    int ndim;
    const int64_t *sizes = br_input_sizes(node, 0, &ndim);
    br_tensor *index = br_saved(node, 0);
    const br_tensor *sum = index ? br_accumulated_grad(node, 0) : NULL;
    if (!sum) {
        const br_index_selection *c = br_params(node);
        if (!c->slices) /* for slices, such as rows of an embedding, x may be large */
            BR_WIDEN(&dy);
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
    br_tensor *y = br__new_on(op->name, x, ndim, sizes, x->dtype);
    br_scope *scope = br_scope_begin();
    br_tensor *by = c->slices ? br_contiguous(index) : index;
    if (y && by && y->numel > 0)
        gather_elements(op->name, y, x, by, c);
    br_node *node = br_record(op, y, BR_INPUTS(x), c, sizeof *c);
    br_save(node, 0, by);
    if (c->slices && c->dim == 0 && x->ndim > 0 && index->numel < x->sizes[0])
        br_changes_few_rows(node);
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
    br_tensor *x = br_new_zeros(dy, ndim, sizes, dy->dtype);
    br_scope *scope = br_scope_begin();
    br_tensor *dense = br_contiguous(dy), *by = choice->slices ? br_contiguous(index) : index;
    if (x && dense && by && dense->numel > 0)
        add_up(x, dense, by, choice);
    br_save(br_record(&index_add_op, x, BR_INPUTS(dy), choice, sizeof *choice), 0, by);
    br_scope_end(scope);
    return br_failed() ? NULL : x;
}

/* ---- The operations -------------------------------------------------------------------------- */

static const br_op index_select_op = { .name = "index_select", .backward = lookup_backward };

br_tensor *br_index_select(br_tensor *x, int64_t dim, br_tensor *index)
{
    BR_OP("index_select");
    BR_IF_CONVERTED(br__is_short_index(index), br_index_select(x, dim, br_to(index, BR_I64)))
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
    if (!br__check_index("index_select", index, x, dim))
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
    BR_IF_CONVERTED(br__is_short_index(index), br_gather(x, dim, br_to(index, BR_I64)))
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
    if (!br__check_index("gather", index, x, dim))
        return NULL;
    return lookup(&gather_op, x, index, &(br_index_selection){ (int)dim, false, -1 }, index->ndim,
                  index->sizes);
}

br_tensor *br__as_gathered(br_tensor *y, br_tensor *x, int64_t dim, br_tensor *index)
{
    const br_index_selection c = { (int)dim, false, -1 };
    br_save(br_record(&gather_op, y, BR_INPUTS(x), &c, sizeof c), 0, index);
    return br_failed() ? NULL : y;
}

static const br_op embedding_op = { .name = "embedding", .backward = lookup_backward };

/* Returns the rows of a quantized weight in f32. Nothing is recorded, since the weight never
 * requires grad. */
static br_tensor *lookup_quantized(br_tensor *weight, br_tensor *index, const int64_t *sizes)
{
    const char *op = embedding_op.name;
    const br_backend *backend = BR_BACKEND(op, weight, dequantize);
    br_tensor *y = backend
                       ? br__new_on(op, weight, index->ndim + 1, sizes, br__computed(weight->dtype))
                       : NULL;
    br_scope *scope = br_scope_begin();
    const br_tensor *rows = br_contiguous(index);
    BR_TRAFFIC(y, index); /* as many elements of the weight are read, with fewer bytes */
    if (y && rows)
        backend->dequantize(y, weight, rows);
    br_scope_end(scope);
    return br_failed() ? NULL : y;
}

br_tensor *br_f_embedding(br_tensor *weight, br_tensor *index, int64_t padding_idx)
{
    BR_OP("embedding");
    BR_IF_CONVERTED(br__is_short_index(index),
                    br_f_embedding(weight, br_to(index, BR_I64), padding_idx))
    if (!br__required_any("embedding", "weight", weight) ||
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
    if (!br__check_index("embedding", index, weight, 0))
        return NULL;
    int64_t sizes[BR_MAX_DIMS + 1];
    memcpy(sizes, index->sizes, sizeof index->sizes);
    sizes[index->ndim] = weight->sizes[1];
    if (br__is_quantized(weight))
        return lookup_quantized(weight, index, sizes);
    return lookup(&embedding_op, weight, index, &(br_index_selection){ 0, true, padding_idx },
                  index->ndim + 1, sizes);
}
