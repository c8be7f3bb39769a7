/* ops/reduce/sum_mean.c - sum, mean, the same without NaN, all and any. */
#include "ops/all_elements.h"
#include "ops/pointwise/widen.h"
#include "ops/reduce/reduce_internal.h"

#include <math.h>

/* ---- The gradient of a sum ------------------------------------------------------------------- */

/* Up to this many copies of a gradient are written to memory instead of being broadcast by a view,
 * because the operations that follow run faster on contiguous memory. */
enum { SMALL_COUNT = 128 };

/* The adjoint of a sum: dy repeated along the reduced dimensions of input 0. If dy does not require
 * grad, this is a single view. */
static br_tensor *spread(const br_node *node, br_tensor *dy, unsigned bits)
{
    int ndim = 0;
    int64_t kept[BR_MAX_DIMS], strides[BR_MAX_DIMS];
    const int64_t *sizes = br_input_sizes(node, 0, &ndim);
    if (br_requires_grad(dy) || !dy) {
        br__reduced_sizes(ndim, sizes, bits, true, kept);
        return br_expand(br_reshape(dy, ndim, kept), ndim, sizes);
    }
    if (dy->numel == 1 && br__reduced_count(ndim, sizes, bits) <= SMALL_COUNT) {
        br_tensor *dx = br__new_on("sum", dy, ndim, sizes, dy->dtype);
        if (dx)
            br__pointwise(BR_POINTWISE(copy), 2, (const br_tensor *[]){ dx, dy }, NULL);
        return dx;
    }
    bool keepdim = dy->ndim == ndim; /* also if nothing was reduced */
    for (int d = 0, own = 0; d < ndim; d++) {
        bool reduced = bits >> d & 1;
        strides[d] = reduced ? 0 : dy->strides[own];
        own += !reduced || keepdim;
    }
    return br__view_of(dy, ndim, sizes, strides, 0);
}

/* ---- Sum and mean ---------------------------------------------------------------------------- */

static br_tensor *sum_into(const char *op, br_tensor *y, const br_tensor *x, unsigned bits,
                           double divisor)
{
    br_reducer sum = { .kind = BR_FOLD(sum), .divisor = divisor, .values = y };
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
    if (!br__required("sum", "x", x) || !br__dims_to_bits("sum", x, ndims, dims, &bits))
        return NULL;
    br_tensor *y =
        sum_into("sum", br__reduced("sum", x, bits, keepdim, br__sum_dtype(x->dtype)), x, bits, 1);
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
    dx[0] = spread(node, br_div_scalar(dy, (double)br__reduced_count(ndim, sizes, bits)), bits);
}

static const br_op mean_op = { "mean", mean_backward, false };

/* Computes means in f64 again if a sum has overflowed: divides by a power of two first, which is at
 * least the number of elements. Sums of f32 are doubles, which do not overflow. */
static bool mean_of_large(br_tensor *y, br_tensor *x, unsigned bits, double count)
{
    double scale = exp2(ceil(log2(count)));
    br_scope *scope = br_no_grad_begin();
    br_tensor *small = br_div_scalar(x, scale);
    bool done = small && sum_into("mean", y, small, bits, count) && br_mul_scalar_(y, scale);
    br_scope_end(scope);
    return done;
}

br_tensor *br_mean_dim(br_tensor *x, int ndims, const int64_t *dims, bool keepdim)
{
    BR_OP("mean");
    unsigned bits;
    if (!br__floating("mean", "x", x) || !br__dims_to_bits("mean", x, ndims, dims, &bits))
        return NULL;
    double count = (double)br__reduced_count(x->ndim, x->sizes, bits);
    br_tensor *y =
        sum_into("mean", br__reduced("mean", x, bits, keepdim, x->dtype), x, bits, count);
    if (y && !br__is_narrow(x->dtype) && !br__finite(y) && !mean_of_large(y, x, bits, count))
        return NULL;
    br_record(&mean_op, y, BR_INPUTS(x), &bits, sizeof bits);
    return y;
}

br_tensor *br_mean(br_tensor *x)
{
    return br_mean_dim(x, 0, NULL, false);
}

/* ---- Sum and mean without NaN ---------------------------------------------------------------- */

/* An infinite gradient, of the mean of no elements, gives NaN, as in PyTorch. */
static void nansum_backward(br_node *node, br_tensor *dy, br_tensor **dx)
{
    br_tensor *counts = br_logical_not(br_isnan(br_saved(node, 0)));
    dx[0] = br_mul(spread(node, dy, *(const unsigned *)br_params(node)), counts);
}

static const br_op nansum_op = { "nansum", nansum_backward, false };

br_tensor *br_nansum_dim(br_tensor *x, int ndims, const int64_t *dims, bool keepdim)
{
    const char *op = nansum_op.name;
    BR_OP(op);
    unsigned bits;
    if (!br__required(op, "x", x) || !br__dims_to_bits(op, x, ndims, dims, &bits))
        return NULL;
    if (!br_is_floating(x))
        return br__composed(NULL, br_sum_dim(x, ndims, dims, keepdim));
    br_tensor *y = br__reduced(op, x, bits, keepdim, x->dtype);
    const br_reducer sum = { .kind = BR_FOLD(nansum), .divisor = 1, .values = y };
    if (!y || !br__reduce(op, x, bits, &sum))
        return NULL;
    br_save(br_record(&nansum_op, y, BR_INPUTS(x), &bits, sizeof bits), 0, x);
    return y;
}

br_tensor *br_nansum(br_tensor *x)
{
    return br_nansum_dim(x, 0, NULL, false);
}

br_tensor *br_nanmean_dim(br_tensor *x, int ndims, const int64_t *dims, bool keepdim)
{
    static const char op[] = "nanmean";
    BR_OP(op);
    if (!br__floating(op, "x", x) || !br__dims_to_bits(op, x, ndims, dims, &(unsigned){ 0 }))
        return NULL;
    br_scope *scope = br_scope_begin();
    const br_rounding rounding = BR_WIDEN(&x); /* f16 cannot count beyond 65504 */
    br_tensor *count = br_sum_dim(br_logical_not(br_isnan(x)), ndims, dims, keepdim);
    br_tensor *mean = br_div(br_nansum_dim(x, ndims, dims, keepdim), count);
    return br__composed(scope, br__narrowed(rounding, mean));
}

br_tensor *br_nanmean(br_tensor *x)
{
    return br_nanmean_dim(x, 0, NULL, false);
}

/* ---- Sum to a shape -------------------------------------------------------------------------- */

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
        return br_fail(BR_ERROR_SHAPE, "sum_to_size",
                       "%s does not broadcast to x %s: starting from the last dimension, each "
                       "size must be equal or 1",
                       br__shape_of(ndim, sizes), br__shape(x));
    /* PyTorch sums integers to i64 for size []. */
    if (bits == 0 && (ndim > 0 || x->dtype == br__sum_dtype(x->dtype)))
        return x;
    br_tensor *y = br__new_on("sum_to_size", x, ndim, sizes, br__sum_dtype(x->dtype));
    y = sum_into("sum_to_size", y, x, bits, 1);
    br_record(&sum_to_size_op, y, BR_INPUTS(x), NULL, 0);
    return y;
}

/* ---- all and any ----------------------------------------------------------------------------- */

/* Computes all or any as the minimum or maximum of x converted to bool, with the initial value true
 * or false. */
static br_tensor *quantify(const char *op, br_tensor *x, int ndims, const int64_t *dims,
                           bool keepdim, bool all)
{
    BR_OP(op);
    unsigned bits;
    if (!br__required(op, "x", x) || !br__dims_to_bits(op, x, ndims, dims, &bits))
        return NULL;
    br_tensor *y = br__reduced(op, x, bits, keepdim, BR_BOOL);
    br_scope *scope = br_no_grad_begin();
    br_tensor *as_bool = br_to(x, BR_BOOL);
    br_reducer fold = { all ? BR_FOLD(min) : BR_FOLD(max), all, 1, y, NULL };
    bool done = y && as_bool && br__reduce(op, as_bool, bits, &fold);
    if (done && x->dtype == BR_U8) /* the result was u8 before PyTorch had bool, and still is */
        y = br_scope_return(scope, br_to(y, BR_U8));
    br_scope_end(scope);
    return done ? y : NULL;
}

br_tensor *br_all(br_tensor *x)
{
    return quantify("all", x, 0, NULL, false, true);
}

br_tensor *br_all_dim(br_tensor *x, int ndims, const int64_t *dims, bool keepdim)
{
    return quantify("all", x, ndims, dims, keepdim, true);
}

br_tensor *br_any(br_tensor *x)
{
    return quantify("any", x, 0, NULL, false, false);
}

br_tensor *br_any_dim(br_tensor *x, int ndims, const int64_t *dims, bool keepdim)
{
    return quantify("any", x, ndims, dims, keepdim, false);
}
