/* ops/reduce.c - sums, means and maxima. */
#include "ops/index_internal.h"
#include "ops/ops_internal.h"

#include <inttypes.h>
#include <math.h>

/* ---- Dimensions ------------------------------------------------------------------------------ */

/* The dimensions as bits; an empty list means all of them. */
static bool dims_to_bits(const char *op, const br_tensor *x, int n, const int64_t *dims,
                         unsigned *bits)
{
    if (n < 0 || (n > 0 && !dims)) {
        br__fail(BR_ERROR_ARGUMENT, op, "%d dimensions at dims %s", n, dims ? "" : "NULL");
        return false;
    }
    *bits = n == 0 ? (1u << x->ndim) - 1 : 0;
    for (int i = 0; i < n; i++) {
        int64_t dim = dims[i];
        if (!br__wrap_dim(op, "dim", x, &dim))
            return false;
        if (*bits >> dim & 1) {
            br__fail(BR_ERROR_ARGUMENT, op, "dimension %" PRId64 " of x %s is given twice", dim,
                     br__shape(x));
            return false;
        }
        *bits |= 1u << dim;
    }
    return true;
}

/* x's sizes without the reduced dimensions, or with 1 for them. Returns their number. */
static int reduced_sizes(int ndim, const int64_t *sizes, unsigned bits, bool keepdim, int64_t *out)
{
    int n = 0;
    for (int d = 0; d < ndim; d++) {
        if (!(bits >> d & 1))
            out[n++] = sizes[d];
        else if (keepdim)
            out[n++] = 1;
    }
    return n;
}

static int64_t count_of(int ndim, const int64_t *sizes, unsigned bits)
{
    int64_t count = 1;
    for (int d = 0; d < ndim; d++)
        count *= bits >> d & 1 ? sizes[d] : 1;
    return count;
}

/* A new tensor for the result. */
static br_tensor *result(const char *op, const br_tensor *x, unsigned bits, bool keepdim,
                         br_dtype dtype)
{
    int64_t sizes[BR_MAX_DIMS];
    int n = reduced_sizes(x->ndim, x->sizes, bits, keepdim, sizes);
    return br__new(op, n, sizes, dtype);
}

/* The adjoint of a sum: dy repeated along the reduced dimensions of input 0. Where it is not to be
 * differentiated again, that is one view. */
static br_tensor *spread(const br_node *node, br_tensor *dy, unsigned bits)
{
    int ndim = 0;
    int64_t kept[BR_MAX_DIMS], strides[BR_MAX_DIMS];
    const int64_t *sizes = br_input_sizes(node, 0, &ndim);
    if (br_requires_grad(dy) || !dy) {
        reduced_sizes(ndim, sizes, bits, true, kept);
        return br_expand(br_reshape(dy, ndim, kept), ndim, sizes);
    }
    bool keepdim = dy->ndim == ndim; /* or nothing was reduced */
    for (int d = 0, own = 0; d < ndim; d++) {
        bool reduced = bits >> d & 1;
        strides[d] = reduced ? 0 : dy->strides[own];
        own += !reduced || keepdim;
    }
    return br__view_of(dy, ndim, sizes, strides, dy->data);
}

/* ---- Sum and mean ---------------------------------------------------------------------------- */

static br_dtype sum_dtype(br_dtype dtype)
{
    return dtype == BR_BOOL ? BR_I64 : dtype;
}

static br_tensor *sum_into(const char *op, br_tensor *y, const br_tensor *x, unsigned bits,
                           double divisor)
{
    br_reducer sum = { .kernel = BR_FOLD(sum), .divisor = divisor, .values = y };
    return y && br__reduce(op, x, bits, &sum) ? y : NULL;
}

static void sum_backward(br_node *node, br_tensor *dy, br_tensor **dx)
{
    dx[0] = spread(node, dy, *(const unsigned *)br_params(node));
}

static const br_op sum_op = { "sum", sum_backward, false };

br_tensor *br_sum_dim(br_tensor *x, int ndims, const int64_t *dims, bool keepdim)
{
    BR_OP("sum");
    unsigned bits;
    if (!br__required("sum", "x", x) || !dims_to_bits("sum", x, ndims, dims, &bits))
        return NULL;
    br_tensor *y =
        sum_into("sum", result("sum", x, bits, keepdim, sum_dtype(x->dtype)), x, bits, 1);
    br_record(&sum_op, y, BR_INPUTS(x), &bits, sizeof bits);
    return y;
}

br_tensor *br_sum(br_tensor *x)
{
    return br_sum_dim(x, 0, NULL, false);
}

static void mean_backward(br_node *node, br_tensor *dy, br_tensor **dx)
{
    unsigned bits = *(const unsigned *)br_params(node);
    int ndim = 0;
    const int64_t *sizes = br_input_sizes(node, 0, &ndim);
    dx[0] = spread(node, br_div_scalar(dy, (double)count_of(ndim, sizes, bits)), bits);
}

static const br_op mean_op = { "mean", mean_backward, false };

br_tensor *br_mean_dim(br_tensor *x, int ndims, const int64_t *dims, bool keepdim)
{
    BR_OP("mean");
    unsigned bits;
    if (!br__floating("mean", "x", x) || !dims_to_bits("mean", x, ndims, dims, &bits))
        return NULL;
    double count = (double)count_of(x->ndim, x->sizes, bits);
    br_tensor *y = sum_into("mean", result("mean", x, bits, keepdim, x->dtype), x, bits, count);
    br_record(&mean_op, y, BR_INPUTS(x), &bits, sizeof bits);
    return y;
}

br_tensor *br_mean(br_tensor *x)
{
    return br_mean_dim(x, 0, NULL, false);
}

static void sum_to_size_backward(br_node *node, br_tensor *dy, br_tensor **dx)
{
    int ndim = 0;
    const int64_t *sizes = br_input_sizes(node, 0, &ndim);
    dx[0] = br_expand(dy, ndim, sizes);
}

static const br_op sum_to_size_op = { "sum_to_size", sum_to_size_backward, false };

br_tensor *br_sum_to_size(br_tensor *x, int ndim, const int64_t *sizes)
{
    BR_OP("sum_to_size");
    int64_t numel;
    if (!br__required("sum_to_size", "x", x) ||
        !br__check_sizes("sum_to_size", ndim, sizes, x->dtype, &numel))
        return NULL;
    bool fits = ndim <= x->ndim;
    unsigned bits = 0;
    for (int d = 0; fits && d < x->ndim; d++) {
        int own = d - (x->ndim - ndim);
        int64_t size = own < 0 ? 1 : sizes[own];
        fits = size == 1 || size == x->sizes[d];
        bits |= (unsigned)(own < 0 || size != x->sizes[d]) << d;
    }
    if (!fits)
        return br__fail(BR_ERROR_SHAPE, "sum_to_size",
                        "%s does not broadcast to x %s: from the last on, each size must be equal "
                        "or 1",
                        br__shape_of(ndim, sizes), br__shape(x));
    if (bits == 0 && x->dtype != BR_BOOL)
        return x;
    br_tensor *y = br__new("sum_to_size", ndim, sizes, sum_dtype(x->dtype));
    y = sum_into("sum_to_size", y, x, bits, 1);
    br_record(&sum_to_size_op, y, BR_INPUTS(x), NULL, 0);
    return y;
}

/* ---- Maximum --------------------------------------------------------------------------------- */

/* A maximum of nothing does not exist; empty results are fine. */
static bool has_elements(const char *op, const br_tensor *x, unsigned bits)
{
    if (count_of(x->ndim, x->sizes, bits) > 0)
        return true;
    br__fail(BR_ERROR_SHAPE, op, "x %s has no elements along the reduced dimension%s", br__shape(x),
             x->ndim > 1 && (bits & (bits - 1)) ? "s" : "");
    return false;
}

/* dy shared evenly among the elements that are as large as y. */
static void max_backward(br_node *node, br_tensor *dy, br_tensor **dx)
{
    br_tensor *x = br_saved(node, 0), *y = br_saved(node, 1);
    br_tensor *largest = y && isnan(br_item(y)) ? br_ne(x, x) : br_eq(x, y);
    br_tensor *weight = br_to(largest, br_dtype_of(dy));
    dx[0] = br_mul(weight, br_div(dy, br_sum(weight)));
}

static const br_op max_op = { "max", max_backward, false };

br_tensor *br_max(br_tensor *x)
{
    BR_OP("max");
    if (!br__required("max", "x", x))
        return NULL;
    unsigned bits = (1u << x->ndim) - 1;
    br_tensor *y = has_elements("max", x, bits) ? result("max", x, bits, false, x->dtype) : NULL;
    br_reducer max = { BR_FOLD(max), -INFINITY, 1, y, NULL };
    if (!y || !br__reduce("max", x, bits, &max))
        return NULL;
    br_node *node = br_record(&max_op, y, BR_INPUTS(x), NULL, 0);
    br_save(node, 0, x);
    br_save(node, 1, y);
    return y;
}

typedef struct max_dim_params {
    int64_t dim;
    bool keepdim;
} max_dim_params;

/* dy where the position along dim is the index. */
static void max_dim_backward(br_node *node, br_tensor *dy, br_tensor **dx)
{
    const max_dim_params *p = br_params(node);
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
    dx[0] = br__index_add(dy, index, &(br_choice){ (int)p->dim, false, -1 }, ndim, sizes);
}

static const br_op max_dim_op = { "max", max_dim_backward, false };

/* Positions along the dimensions, and the values unless y is NULL. */
static br_tensor *positions(const char *op, const br_tensor *x, unsigned bits, bool keepdim,
                            br_tensor *y)
{
    br_tensor *index = result(op, x, bits, keepdim, BR_I64);
    br_reducer max = { BR_FOLD(argmax), -INFINITY, 1, y, index };
    return index && br__reduce(op, x, bits, &max) ? index : NULL;
}

br_tensor *br_max_dim(br_tensor *x, int64_t dim, bool keepdim, br_tensor **indices)
{
    BR_OP("max");
    static const char op[] = "max";
    if (indices)
        *indices = NULL;
    if (!br__required(op, "x", x) || !br__wrap_dim(op, "dim", x, &dim))
        return NULL;
    unsigned bits = x->ndim > 0 ? 1u << dim : 0;
    br_tensor *y = has_elements(op, x, bits) ? result(op, x, bits, keepdim, x->dtype) : NULL;
    br_tensor *index = y ? positions(op, x, bits, keepdim, y) : NULL;
    if (!index)
        return NULL;
    max_dim_params params = { dim, keepdim };
    br_node *node = br_record(&max_dim_op, y, BR_INPUTS(x), &params, sizeof params);
    br_save(node, 0, index);
    if (indices)
        *indices = index;
    return y;
}

br_tensor *br_argmax(br_tensor *x, int64_t dim, bool keepdim)
{
    BR_OP("argmax");
    static const char op[] = "argmax";
    if (!br__required(op, "x", x) || (dim != BR_ALL && !br__wrap_dim(op, "dim", x, &dim)))
        return NULL;
    unsigned bits = dim == BR_ALL ? (1u << x->ndim) - 1 : x->ndim > 0 ? 1u << dim : 0;
    if (!has_elements(op, x, bits))
        return NULL;
    if (dim != BR_ALL || x->contiguous)
        return positions(op, x, bits, keepdim, NULL);
    /* Positions count in row-major order, folding goes by memory. */
    br_scope *scope = br_scope_begin();
    br_tensor *dense = scope ? br__new(op, x->ndim, x->sizes, x->dtype) : NULL;
    if (dense)
        br__copy(dense, x);
    br_tensor *index = dense ? positions(op, dense, bits, keepdim, NULL) : NULL;
    br_scope_return(scope, index);
    br_scope_end(scope);
    return index;
}
