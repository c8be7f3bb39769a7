/* ops/reduce/max_argmax.c - largest and smallest elements and their positions. NaN counts as both
 * the largest and the smallest. */
#include "ops/index/index_internal.h"
#include "ops/reduce/reduce_internal.h"

#include <math.h>

/* max or min: its kernels, and their initial value. */
typedef struct extreme {
    const char *name, *arg_name;
    br_fold_kind kind, arg_kind;
    double start;
} extreme;

static const extreme largest = { "max", "argmax", BR_FOLD(max), BR_FOLD(argmax), -INFINITY };
static const extreme smallest = { "min", "argmin", BR_FOLD(min), BR_FOLD(argmin), INFINITY };

/* ---- Over all elements ----------------------------------------------------------------------- */

bool br__has_elements(const char *op, const br_tensor *x, unsigned bits)
{
    if (br__reduced_count(x->ndim, x->sizes, bits) > 0)
        return true;
    br_fail(BR_ERROR_SHAPE, op, "x %s has no elements along the reduced dimension%s", br__shape(x),
            x->ndim > 1 && (bits & (bits - 1)) ? "s" : "");
    return false;
}

void br__share_evenly(br_node *node, br_tensor *dy, br_tensor **dx)
{
    br_tensor *x = br_saved(node, 0), *y = br_saved(node, 1);
    br_tensor *selected = y && isnan(br_item(y)) ? br_ne(x, x) : br_eq(x, y);
    br_tensor *weight = br_to(selected, br_dtype_of(dy));
    dx[0] = br_mul(weight, br_div(dy, br_sum(weight)));
}

static const br_op max_op = { "max", br__share_evenly, false };
static const br_op min_op = { "min", br__share_evenly, false };

static br_tensor *extreme_of(const extreme *e, const br_op *op, br_tensor *x)
{
    BR_OP(e->name);
    if (!br__required(e->name, "x", x))
        return NULL;
    unsigned bits = (1u << x->ndim) - 1;
    br_tensor *y =
        br__has_elements(e->name, x, bits) ? br__reduced(e->name, x, bits, false, x->dtype) : NULL;
    br_reducer fold = { e->kind, e->start, 1, y, NULL };
    if (!y || !br__reduce(e->name, x, bits, &fold))
        return NULL;
    br_node *node = br_record(op, y, BR_INPUTS(x), NULL, 0);
    br_save(node, 0, x);
    br_save(node, 1, y);
    return y;
}

br_tensor *br_max(br_tensor *x)
{
    return extreme_of(&largest, &max_op, x);
}

br_tensor *br_min(br_tensor *x)
{
    return extreme_of(&smallest, &min_op, x);
}

/* ---- amax, amin ------------------------------------------------------------------------------ */

typedef struct amax_params {
    unsigned bits;
    bool keepdim;
} amax_params;

/* Reshapes t, which has the shape of a result, so that the reduced dimensions of x have size 1. */
static br_tensor *kept(br_tensor *t, const br_tensor *x, const amax_params *p)
{
    int64_t sizes[BR_MAX_DIMS];
    const int n = br__reduced_sizes(x->ndim, x->sizes, p->bits, true, sizes);
    return br_reshape(t, n, sizes);
}

/* Shares dy evenly among the elements equal to the result. */
static void amax_backward(br_node *node, br_tensor *dy, br_tensor **dx)
{
    const amax_params *p = br_params(node);
    br_tensor *x = br_saved(node, 0), *y = br_saved(node, 1);
    int64_t dims[BR_MAX_DIMS];
    int n = 0;
    if (!x || !y)
        return;
    for (int d = 0; d < x->ndim; d++)
        if (p->bits >> d & 1)
            dims[n++] = d;
    br_tensor *weight = br_to(br_eq(x, kept(y, x, p)), br_dtype_of(dy));
    dx[0] = br_mul(weight, br_div(kept(dy, x, p), br_sum_dim(weight, n, dims, true)));
}

static const br_op amax_op = { "amax", amax_backward, false };
static const br_op amin_op = { "amin", amax_backward, false };

static br_tensor *extremes(const extreme *e, const br_op *op, br_tensor *x, int ndims,
                           const int64_t *dims, bool keepdim)
{
    BR_OP(op->name);
    amax_params p = { .keepdim = keepdim };
    if (!br__required(op->name, "x", x) || !br__dims_to_bits(op->name, x, ndims, dims, &p.bits) ||
        !br__has_elements(op->name, x, p.bits))
        return NULL;
    br_tensor *y = br__reduced(op->name, x, p.bits, keepdim, x->dtype);
    br_reducer fold = { e->kind, e->start, 1, y, NULL };
    if (!y || !br__reduce(op->name, x, p.bits, &fold))
        return NULL;
    br_node *node = br_record(op, y, BR_INPUTS(x), &p, sizeof p);
    br_save(node, 0, x);
    br_save(node, 1, y);
    return br_failed() ? NULL : y;
}

br_tensor *br_amax(br_tensor *x, int ndims, const int64_t *dims, bool keepdim)
{
    return extremes(&largest, &amax_op, x, ndims, dims, keepdim);
}

br_tensor *br_amin(br_tensor *x, int ndims, const int64_t *dims, bool keepdim)
{
    return extremes(&smallest, &amin_op, x, ndims, dims, keepdim);
}

/* ---- Along a dimension ----------------------------------------------------------------------- */

typedef struct dim_params {
    int64_t dim;
    bool keepdim;
} dim_params;

/* Puts dy at the saved index along dim, and zeros elsewhere. */
static void dim_backward(br_node *node, br_tensor *dy, br_tensor **dx)
{
    const dim_params *p = br_params(node);
    br_tensor *index = br_saved(node, 0);
    int ndim = 0;
    const int64_t *sizes = br_input_sizes(node, 0, &ndim);
    if (ndim == 0) {
        dx[0] = dy;
        return;
    }
    if (!p->keepdim) {
        dy = br_unsqueeze(dy, p->dim);
        index = br_unsqueeze(index, p->dim);
    }
    dx[0] = br__index_add(dy, index, &(br_index_selection){ (int)p->dim, false, -1 }, ndim, sizes);
}

static const br_op max_dim_op = { "max", dim_backward, false };
static const br_op min_dim_op = { "min", dim_backward, false };

/* Returns the positions along the dimensions, and writes the values to y unless it is NULL. */
static br_tensor *positions(const extreme *e, const char *op, const br_tensor *x, unsigned bits,
                            bool keepdim, br_tensor *y)
{
    br_tensor *index = br__reduced(op, x, bits, keepdim, BR_I64);
    br_reducer fold = { e->arg_kind, e->start, 1, y, index };
    return index && br__reduce(op, x, bits, &fold) ? index : NULL;
}

static br_tensor *extreme_dim(const extreme *e, const br_op *op, br_tensor *x, int64_t dim,
                              bool keepdim, br_tensor **indices)
{
    BR_OP(e->name);
    if (indices)
        *indices = NULL;
    if (!br__required(e->name, "x", x) || !br__wrap_dim(e->name, "dim", x, &dim))
        return NULL;
    unsigned bits = x->ndim > 0 ? 1u << dim : 0;
    br_tensor *y = br__has_elements(e->name, x, bits)
                       ? br__reduced(e->name, x, bits, keepdim, x->dtype)
                       : NULL;
    br_tensor *index = y ? positions(e, e->name, x, bits, keepdim, y) : NULL;
    if (!index)
        return NULL;
    dim_params params = { dim, keepdim };
    br_node *node = br_record(op, y, BR_INPUTS(x), &params, sizeof params);
    br_save(node, 0, index);
    if (indices)
        *indices = index;
    return y;
}

br_tensor *br_max_dim(br_tensor *x, int64_t dim, bool keepdim, br_tensor **indices)
{
    return extreme_dim(&largest, &max_dim_op, x, dim, keepdim, indices);
}

br_tensor *br_min_dim(br_tensor *x, int64_t dim, bool keepdim, br_tensor **indices)
{
    return extreme_dim(&smallest, &min_dim_op, x, dim, keepdim, indices);
}

static br_tensor *position(const extreme *e, br_tensor *x, int64_t dim, bool keepdim)
{
    const char *op = e->arg_name;
    BR_OP(op);
    if (!br__required(op, "x", x) || (dim != BR_ALL && !br__wrap_dim(op, "dim", x, &dim)))
        return NULL;
    unsigned bits = dim == BR_ALL ? (1u << x->ndim) - 1 : x->ndim > 0 ? 1u << dim : 0;
    if (!br__has_elements(op, x, bits))
        return NULL;
    if (dim != BR_ALL || x->contiguous)
        return positions(e, op, x, bits, keepdim, NULL);
    /* Positions must be in row-major order, but the reduction counts in memory order, so x is
     * copied first. */
    br_scope *scope = br_scope_begin();
    br_tensor *dense = scope ? br__new_on(op, x, x->ndim, x->sizes, x->dtype) : NULL;
    if (dense)
        br__copy(dense, x);
    br_tensor *index = dense ? positions(e, op, dense, bits, keepdim, NULL) : NULL;
    br_scope_return(scope, index);
    br_scope_end(scope);
    return index;
}

br_tensor *br_argmax(br_tensor *x, int64_t dim, bool keepdim)
{
    return position(&largest, x, dim, keepdim);
}

br_tensor *br_argmin(br_tensor *x, int64_t dim, bool keepdim)
{
    return position(&smallest, x, dim, keepdim);
}
