/* ops/index/scatter.c - writing and adding by index: scatter, scatter_add, index_add, index_copy,
 * index_fill, and their in-place variants.
 *
 * All are one entry of the backend, which processes elements in the index's order, so the last
 * value is kept if indices are equal. */
#include "autograd/in_place.h"
#include "ops/index/index_internal.h"
#include "ops/pointwise/widen.h"

#include <inttypes.h>
#include <string.h>

/* ---- Shared by the operations ---------------------------------------------------------------- */

/* An operation. With `slices` an index selects a slice, as in index_add; else one element, as in
 * scatter. */
typedef struct kind {
    br_op op;
    bool slices, adds, in_place;
} kind;

/* The arguments of a call, which writes `source`, or `value` if `by_value` is set. */
typedef struct request {
    br_tensor *x;
    int64_t dim;
    br_tensor *index, *source;
    double value;
    bool by_value;
} request;

static bool check_slices(const char *op, const request *r)
{
    if (r->index->ndim > 1)
        br_fail(BR_ERROR_SHAPE, op, "index %s must have one dimension", br__shape(r->index));
    if (br_failed())
        return false;
    br_tensor x = br__line(r->x), source = br__line(r->by_value ? r->x : r->source);
    bool fits = r->by_value || (source.ndim == x.ndim && source.sizes[r->dim] == r->index->numel);
    for (int i = 0; fits && i < x.ndim; i++)
        fits = i == r->dim || source.sizes[i] == x.sizes[i];
    if (!fits)
        br_fail(BR_ERROR_SHAPE, op,
                "source %s for x %s and index %s: must have the sizes of x, except in dimension "
                "%" PRId64 ", where it must have the size of index",
                br__shape(r->source), br__shape(r->x), br__shape(r->index), r->dim);
    return fits && br__check_index(op, r->index, r->x, r->dim);
}

static bool check(const kind *k, request *r)
{
    const char *op = k->op.name;
    br_scalar_operand scalar;
    if (!br__required(op, "x", r->x) || !br__wrap_dim(op, "dim", r->x, &r->dim) ||
        !br__has_dtype(op, "index", r->index, BR_I64))
        return false;
    if (r->by_value ? !br__element_operand(op, r->value, r->x->dtype, &scalar)
                    : !br__compatible(op, "x", r->x, k->slices ? "source" : "src", r->source))
        return false;
    return k->slices ? check_slices(op, r)
                     : br__check_scatter(op, r->x, r->dim, r->index, r->source);
}

/* Applies the request to `target`, which shares no memory with index and source. */
static void place(const kind *k, const br_tensor *target, const request *r)
{
    br_scalar_operand scalar;
    br_tensor x = br__line(target), index = br__line(r->index), source;
    if (k->slices) {
        int64_t stride = index.strides[0];
        index.ndim = x.ndim;
        memcpy(index.sizes, x.sizes, sizeof x.sizes);
        memset(index.strides, 0, sizeof index.strides);
        index.sizes[r->dim] = index.numel;
        index.strides[r->dim] = stride;
    }
    if (r->by_value && br__element_operand(k->op.name, r->value, x.dtype, &scalar))
        source = br__window(&scalar.tensor);
    else
        source = br__line(r->source);
    source.ndim = x.ndim;
    memcpy(source.sizes, index.sizes, sizeof index.sizes);
    source.numel = 1;
    for (int i = 0; i < x.ndim; i++)
        source.numel *= source.sizes[i];
    br__scatter(k->op.name, &x, &source, &index, (int)r->dim, -1,
                k->adds ? BR_COMBINE_ADD : BR_COMBINE_REPLACE);
}

static br_tensor *apart(br_tensor *t, const br_tensor *x)
{
    return t && br_shares_storage(t, x) ? br_clone(t) : t;
}

enum { X, SOURCE }; /* inputs */

/* Performs the operation on x or on a copy of x. Saves the index for backward. */
static br_tensor *apply(const kind *k, request r)
{
    BR_OP(k->op.name);
    if ((!k->slices || k->adds) && br__is_short_index(r.index)) {
        br_scope *scope = br_scope_begin();
        r.index = br_to(r.index, BR_I64);
        return br__composed(scope, apply(k, r));
    }
    if (!check(k, &r))
        return NULL;
    br_tensor *y = k->in_place ? r.x : br__new_like(k->op.name, r.x, r.x->dtype);
    br_scope *scope = br_scope_begin();
    br_node *node = NULL;
    int n_inputs = r.by_value ? 1 : 2;
    br_tensor **inputs = (br_tensor *[]){ r.x, r.source };
    if (k->in_place) {
        r.index = apart(r.index, r.x);
        r.source = inputs[SOURCE] = apart(r.source, r.x);
    } else if (y) {
        br__copy(y, r.x);
    }
    if (!br_failed() && (!k->in_place || br__before_change(k->op.name, "x", y, n_inputs, inputs))) {
        place(k, y, &r);
        node = (k->in_place ? br_record_in_place : br_record)(&k->op, y, n_inputs, inputs, &r.dim,
                                                              sizeof r.dim);
        br_save(node, 0, r.index);
    }
    br_scope_end(scope);
    return br_failed() ? NULL : y;
}

/* ---- Gradients ------------------------------------------------------------------------------- */

static int64_t dim_of(const br_node *node)
{
    return *(const int64_t *)br_params(node);
}

/* Pads the gathered gradient with zeros to the sizes of a source that is larger than the index. */
static br_tensor *widened(br_tensor *t, int ndim, const int64_t *sizes)
{
    int64_t pad[2 * BR_MAX_DIMS];
    bool fits = true;
    for (int i = 0; t && i < ndim; i++) {
        int64_t more = sizes[ndim - 1 - i] - br_size(t, ndim - 1 - i);
        pad[2 * i] = 0;
        pad[2 * i + 1] = more;
        fits = fits && more == 0;
    }
    return fits ? t : br_pad(t, 2 * ndim, pad, BR_PAD_CONSTANT, 0);
}

br_tensor *br__last_of_equal(br_tensor *chosen, int64_t dim, br_tensor *index, int ndim,
                             const int64_t *sizes)
{
    br_scope *scope = br_no_grad_begin();
    br_tensor *own = br_new_arange(index, 0, (double)br_numel(index), 1, BR_I64);
    own = br_reshape(own, index->ndim, index->sizes);
    if (chosen)
        own = br_where(chosen, own, br_new_full(index, index->ndim, index->sizes, -1, BR_I64));
    br_tensor *last = br_new_full(index, ndim, sizes, -1, BR_I64);
    if (own && last) {
        br_tensor to = br__line(last), from = br__line(own), by = br__line(index);
        br__scatter("scatter", &to, &from, &by, (int)dim, -1, BR_COMBINE_MAX);
    }
    last = br_eq(br_gather(last, dim, index), own);
    return br__composed(scope, chosen ? br_logical_and(chosen, last) : last);
}

/* Returns dsrc with 0 for the elements that were overwritten: all but the last of equal indices. */
static br_tensor *of_the_last(br_tensor *dsrc, int64_t dim, br_tensor *index, int ndim,
                              const int64_t *sizes)
{
    if (!index)
        return NULL;
    br_tensor *last = br__last_of_equal(NULL, dim, index, ndim, sizes);
    return br_masked_fill(dsrc, br_logical_not(last), 0);
}

/* The same for slices. */
static br_tensor *of_the_last_slices(br_tensor *dsource, int64_t dim, br_tensor *index,
                                     int64_t size)
{
    br_tensor *own = br_new_arange(index, 0, (double)br_numel(index), 1, BR_I64);
    br_tensor *line = br_flatten(index, 0, -1);
    br_tensor *last = br_index_copy_(br_new_zeros(index, BR_SHAPE(size), BR_I64), 0, line, own);
    br_tensor *lost = br_ne(br_index_select(last, 0, line), own);
    if (br_ndim(dsource) == 0)
        return dsource;
    for (int i = (int)dim + 1; i < br_ndim(dsource); i++)
        lost = br_unsqueeze(lost, -1);
    return br_masked_fill(dsource, lost, 0);
}

static br_tensor *source_gradient(br_node *node, br_tensor *dy, bool slices, bool adds)
{
    int ndim, x_ndim;
    const int64_t *sizes = br_input_sizes(node, SOURCE, &ndim);
    const int64_t *x_sizes = br_input_sizes(node, X, &x_ndim);
    br_tensor *index = br_saved(node, 0);
    int64_t dim = dim_of(node);
    if (slices) {
        br_tensor *dsource = br_index_select(dy, dim, index);
        if (!adds)
            dsource = of_the_last_slices(dsource, dim, index, x_ndim > 0 ? x_sizes[dim] : 1);
        return br_reshape(dsource, ndim, sizes);
    }
    if (index && index->numel == 0)
        return br_new_zeros(dy, ndim, sizes, br_dtype_of(dy));
    br_tensor *dsrc = br_gather(dy, dim, index);
    return widened(adds ? dsrc : of_the_last(dsrc, dim, index, x_ndim, x_sizes), ndim, sizes);
}

static void scatter_backward(br_node *node, br_tensor *dy, br_tensor **dx)
{
    if (br_needs_input_grad(node, X))
        dx[X] = br_scatter_scalar(dy, dim_of(node), br_saved(node, 0), 0);
    if (br_needs_input_grad(node, SOURCE))
        dx[SOURCE] = source_gradient(node, dy, false, false);
}

static void scatter_add_backward(br_node *node, br_tensor *dy, br_tensor **dx)
{
    dx[X] = dy;
    if (br_needs_input_grad(node, SOURCE))
        dx[SOURCE] = source_gradient(node, dy, false, true);
}

static void index_copy_backward(br_node *node, br_tensor *dy, br_tensor **dx)
{
    if (br_needs_input_grad(node, X))
        dx[X] = br_index_fill(dy, dim_of(node), br_saved(node, 0), 0);
    if (br_needs_input_grad(node, SOURCE))
        dx[SOURCE] = source_gradient(node, dy, true, false);
}

static void index_add_backward(br_node *node, br_tensor *dy, br_tensor **dx)
{
    dx[X] = dy;
    if (br_needs_input_grad(node, SOURCE))
        dx[SOURCE] = source_gradient(node, dy, true, true);
}

/* ---- The operations -------------------------------------------------------------------------- */

#define SCATTER(name, in_place)                                   \
    {                                                             \
        { name, scatter_backward, false }, false, false, in_place \
    }
#define SCATTER_ADD(name, in_place)                                  \
    {                                                                \
        { name, scatter_add_backward, false }, false, true, in_place \
    }
#define INDEX_COPY(name, in_place)                                  \
    {                                                               \
        { name, index_copy_backward, false }, true, false, in_place \
    }
#define INDEX_ADD(name, in_place)                                 \
    {                                                             \
        { name, index_add_backward, false }, true, true, in_place \
    }

br_tensor *br_scatter(br_tensor *x, int64_t dim, br_tensor *index, br_tensor *src)
{
    static const kind k = SCATTER("scatter", false);
    return apply(&k, (request){ x, dim, index, src, 0, false });
}

br_tensor *br_scatter_(br_tensor *x, int64_t dim, br_tensor *index, br_tensor *src)
{
    static const kind k = SCATTER("scatter_", true);
    return apply(&k, (request){ x, dim, index, src, 0, false });
}

br_tensor *br_scatter_scalar(br_tensor *x, int64_t dim, br_tensor *index, double value)
{
    static const kind k = SCATTER("scatter_scalar", false);
    return apply(&k, (request){ x, dim, index, NULL, value, true });
}

br_tensor *br_scatter_scalar_(br_tensor *x, int64_t dim, br_tensor *index, double value)
{
    static const kind k = SCATTER("scatter_scalar_", true);
    return apply(&k, (request){ x, dim, index, NULL, value, true });
}

br_tensor *br_scatter_add(br_tensor *x, int64_t dim, br_tensor *index, br_tensor *src)
{
    static const kind k = SCATTER_ADD("scatter_add", false);
    return apply(&k, (request){ x, dim, index, src, 0, false });
}

br_tensor *br_scatter_add_(br_tensor *x, int64_t dim, br_tensor *index, br_tensor *src)
{
    static const kind k = SCATTER_ADD("scatter_add_", true);
    return apply(&k, (request){ x, dim, index, src, 0, false });
}

br_tensor *br_index_copy(br_tensor *x, int64_t dim, br_tensor *index, br_tensor *source)
{
    static const kind k = INDEX_COPY("index_copy", false);
    return apply(&k, (request){ x, dim, index, source, 0, false });
}

br_tensor *br_index_copy_(br_tensor *x, int64_t dim, br_tensor *index, br_tensor *source)
{
    static const kind k = INDEX_COPY("index_copy_", true);
    return apply(&k, (request){ x, dim, index, source, 0, false });
}

/* Fills the slices at the index. Unlike in the other operations here, negative indices count from
 * the end. */
static br_tensor *fill(const kind *k, br_tensor *x, int64_t dim, br_tensor *index, double value)
{
    BR_OP(k->op.name);
    if (!br__required(k->op.name, "x", x) || !br__wrap_dim(k->op.name, "dim", x, &dim) ||
        !br__has_dtype(k->op.name, "index", index, BR_I64))
        return NULL;
    br_scope *scope = br_scope_begin();
    index = br__wrap_index(k->op.name, index, x, br__line(x).sizes[dim]);
    br_tensor *y = apply(k, (request){ x, dim, index, NULL, value, true });
    return br__composed(scope, y);
}

br_tensor *br_index_fill(br_tensor *x, int64_t dim, br_tensor *index, double value)
{
    static const kind k = INDEX_COPY("index_fill", false);
    return fill(&k, x, dim, index, value);
}

br_tensor *br_index_fill_(br_tensor *x, int64_t dim, br_tensor *index, double value)
{
    static const kind k = INDEX_COPY("index_fill_", true);
    return fill(&k, x, dim, index, value);
}

br_tensor *br_index_fill_tensor(br_tensor *x, int64_t dim, br_tensor *index, br_tensor *value)
{
    static const char op[] = "index_fill_tensor";
    BR_OP(op);
    if (!br__required(op, "x", x) || !br__wrap_dim(op, "dim", x, &dim) ||
        !br__has_dtype(op, "index", index, BR_I64) || !br__compatible(op, "x", x, "value", value))
        return NULL;
    if (value->ndim != 0 || index->ndim > 1)
        return br_fail(BR_ERROR_SHAPE, op,
                       "value %s must have no dimensions, and index %s at most one",
                       br__shape(value), br__shape(index));
    br_scope *scope = br_scope_begin();
    br_tensor line = br__line(x);
    index = br__wrap_index(op, index, x, line.sizes[dim]);
    line.sizes[dim] = br_numel(index);
    br_tensor *source = br_expand(value, line.ndim, line.sizes);
    return br__composed(scope, br_index_copy(x, dim, index, source));
}

static br_tensor *add(const kind *k, br_tensor *x, int64_t dim, br_tensor *index, br_tensor *source,
                      double alpha)
{
    if (alpha == 1)
        return apply(k, (request){ x, dim, index, source, 0, false });
    BR_OP(k->op.name);
    br_scalar_operand scalar;
    if (!br__required(k->op.name, "source", source) ||
        !br__scalar_operand(k->op.name, alpha, br__computed(source->dtype), &scalar))
        return NULL;
    br_scope *scope = br_scope_begin();
    source = source->dtype == BR_BOOL ? br_zeros_like(source) : br_mul_scalar(source, alpha);
    br_tensor *y = apply(k, (request){ x, dim, index, source, 0, false });
    return br__composed(scope, y);
}

br_tensor *br_index_add(br_tensor *x, int64_t dim, br_tensor *index, br_tensor *source,
                        double alpha)
{
    static const kind k = INDEX_ADD("index_add", false);
    return add(&k, x, dim, index, source, alpha);
}

br_tensor *br_index_add_(br_tensor *x, int64_t dim, br_tensor *index, br_tensor *source,
                         double alpha)
{
    static const kind k = INDEX_ADD("index_add_", true);
    return add(&k, x, dim, index, source, alpha);
}
