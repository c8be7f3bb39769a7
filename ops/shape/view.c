/* ops/shape/view.c - shapes and views: other sizes and strides over the same storage.
 *
 * Data is copied only by br_clone(), by br_contiguous() for a tensor that is not contiguous, and by
 * br_reshape() and br_flatten() if no strides describe the result. */
#include "ops/shape/view_internal.h"

#include <inttypes.h>
#include <string.h>

br_tensor *br__recorded(const br_op *op, br_tensor *y, br_tensor *x, const void *params,
                        size_t params_size)
{
    if (y)
        br_record(op, y, BR_INPUTS(x), params, params_size);
    return br_failed() ? NULL : y;
}

/* The gradient of an operation that keeps the elements and their order. */
static void reshape_backward(br_node *node, br_tensor *dy, br_tensor **dx)
{
    int ndim;
    const int64_t *sizes = br_input_sizes(node, 0, &ndim);
    dx[0] = br_reshape(dy, ndim, sizes);
}

/* The gradient of a copy or an expansion: passes dy on. Autograd sums it to the shape of the
 * expanded x. */
static void pass_backward(br_node *node, br_tensor *dy, br_tensor **dx)
{
    (void)node;
    dx[0] = dy;
}

/* ---- Copies ---------------------------------------------------------------------------------- */

static br_tensor *copied(const char *op, br_tensor *x)
{
    br_tensor *y = br__new_on(op, x, x->ndim, x->sizes, x->dtype);
    if (y)
        br__copy(y, x);
    return y;
}

static const br_op clone_op = { .name = "clone", .backward = pass_backward };

br_tensor *br_clone(br_tensor *x)
{
    BR_OP("clone");
    if (!br__required("clone", "x", x))
        return NULL;
    return br__recorded(&clone_op, copied("clone", x), x, NULL, 0);
}

static const br_op contiguous_op = { .name = "contiguous", .backward = pass_backward };

br_tensor *br_contiguous(br_tensor *x)
{
    BR_OP("contiguous");
    if (!br__required("contiguous", "x", x))
        return NULL;
    if (x->contiguous)
        return x;
    return br__recorded(&contiguous_op, copied("contiguous", x), x, NULL, 0);
}

/* ---- Reshaping ------------------------------------------------------------------------------- */

/* Computes the size for -1, given `known`, the product of the other sizes. */
static bool infer_size(const char *op, const br_tensor *x, const char *requested, int64_t known,
                       int64_t *size)
{
    if (known == 0) {
        br_fail(BR_ERROR_SHAPE, op,
                "cannot reshape x %s to %s: the size for -1 is ambiguous, because the other sizes "
                "multiply to 0",
                br__shape(x), requested);
        return false;
    }
    if (x->numel % known != 0) {
        br_fail(BR_ERROR_SHAPE, op,
                "cannot reshape x %s to %s: %" PRId64 " elements are not a multiple of %" PRId64
                ", the product of the other sizes",
                br__shape(x), requested, x->numel, known);
        return false;
    }
    *size = x->numel / known;
    return true;
}

/* Checks that the sizes hold as many elements as x, and writes them to `complete` with -1
 * replaced. */
static bool complete_sizes(const char *op, const br_tensor *x, int ndim, const int64_t *sizes,
                           int64_t *complete)
{
    int inferred = -1;
    int64_t known;
    for (int i = 0; i < ndim && ndim <= BR_MAX_DIMS && sizes; i++) {
        complete[i] = sizes[i];
        if (sizes[i] != -1)
            continue;
        if (inferred >= 0) {
            br_fail(BR_ERROR_SHAPE, op, "cannot reshape x %s to %s: only one size may be -1",
                    br__shape(x), br__shape_of(ndim, sizes));
            return false;
        }
        inferred = i;
        complete[i] = 1;
    }
    if (!br__check_sizes(op, ndim, ndim > 0 && sizes ? complete : sizes, x->dtype, &known))
        return false;
    if (inferred >= 0)
        return infer_size(op, x, br__shape_of(ndim, sizes), known, &complete[inferred]);
    if (known == x->numel)
        return true;
    br_fail(BR_ERROR_SHAPE, op,
            "cannot reshape x %s to %s: x has %" PRId64 " elements, but the new shape has %" PRId64,
            br__shape(x), br__shape_of(ndim, sizes), x->numel, known);
    return false;
}

/* Computes strides that view x's elements, in order, with the new sizes; returns false if there are
 * none. Works from the last dimension to the first: adjacent dimensions of x that are contiguous
 * with each other are merged, and each merged dimension is divided into new ones. */
static bool view_strides(const br_tensor *x, int ndim, const int64_t *sizes, int64_t *strides)
{
    br__default_strides(ndim, sizes, strides);
    if (x->numel == 0)
        return true;
    int v = ndim - 1;
    for (int d = x->ndim - 1; d >= 0;) {
        int64_t step = x->strides[d], run = x->sizes[d], covered = 1;
        while (--d >= 0 && (x->sizes[d] == 1 || x->strides[d] == step * run))
            run *= x->sizes[d];
        for (; v >= 0 && (covered < run || sizes[v] == 1); v--) {
            strides[v] = step * covered;
            covered *= sizes[v];
        }
        if (covered != run)
            return false;
    }
    return true;
}

/* Returns x with new sizes for the same number of elements: a view if possible, otherwise a
 * copy. */
static br_tensor *reshaped(const br_op *op, br_tensor *x, int ndim, const int64_t *sizes)
{
    int64_t strides[BR_MAX_DIMS];
    if (view_strides(x, ndim, sizes, strides))
        return br__recorded(op, br__view_of(x, ndim, sizes, strides, 0), x, NULL, 0);
    br_tensor *y = br__new_on(op->name, x, ndim, sizes, x->dtype);
    if (!y)
        return NULL;
    int64_t dense[BR_MAX_DIMS];
    br_tensor window = br__window(y);
    br__default_strides(x->ndim, x->sizes, dense);
    br__window_reshape(&window, x->ndim, x->sizes, dense);
    br__copy(&window, x);
    return br__recorded(op, y, x, NULL, 0);
}

static const br_op reshape_op = { .name = "reshape", .backward = reshape_backward };

br_tensor *br_reshape(br_tensor *x, int ndim, const int64_t *sizes)
{
    BR_OP("reshape");
    int64_t complete[BR_MAX_DIMS];
    if (!br__required("reshape", "x", x) || !complete_sizes("reshape", x, ndim, sizes, complete))
        return NULL;
    return reshaped(&reshape_op, x, ndim, complete);
}

static const br_op view_op = { .name = "view", .backward = reshape_backward };

br_tensor *br_view(br_tensor *x, int ndim, const int64_t *sizes)
{
    BR_OP("view");
    int64_t complete[BR_MAX_DIMS], strides[BR_MAX_DIMS];
    if (!br__required("view", "x", x) || !complete_sizes("view", x, ndim, sizes, complete))
        return NULL;
    if (!view_strides(x, ndim, complete, strides))
        return br_fail(
            BR_ERROR_SHAPE, "view",
            "x %s with strides %s cannot be viewed as %s without a copy: use br_reshape()",
            br__shape(x), br__shape_of(x->ndim, x->strides), br__shape_of(ndim, complete));
    return br__recorded(&view_op, br__view_of(x, ndim, complete, strides, 0), x, NULL, 0);
}

static const br_op flatten_op = { .name = "flatten", .backward = reshape_backward };

br_tensor *br_flatten(br_tensor *x, int64_t start, int64_t end)
{
    BR_OP("flatten");
    if (!br__required("flatten", "x", x) || !br__wrap_dim("flatten", "start", x, &start) ||
        !br__wrap_dim("flatten", "end", x, &end))
        return NULL;
    if (start > end)
        return br_fail(BR_ERROR_ARGUMENT, "flatten",
                       "start %" PRId64 " comes after end %" PRId64 " for x %s", start, end,
                       br__shape(x));
    if (x->ndim == 0)
        return reshaped(&flatten_op, x, BR_SHAPE(1));
    int64_t sizes[BR_MAX_DIMS];
    int ndim = 0;
    for (int i = 0; i < x->ndim; i++) {
        if (i > start && i <= end)
            sizes[ndim - 1] *= x->sizes[i];
        else
            sizes[ndim++] = x->sizes[i];
    }
    return reshaped(&flatten_op, x, ndim, sizes);
}

static const br_op unflatten_op = { .name = "unflatten", .backward = reshape_backward };

br_tensor *br_unflatten(br_tensor *x, int64_t dim, int ndim, const int64_t *sizes)
{
    BR_OP("unflatten");
    int64_t all[BR_MAX_DIMS];
    if (!br__wrap_dim_nonscalar("unflatten", x, &dim))
        return NULL;
    if (ndim < 1 || !sizes || ndim > BR_MAX_DIMS - x->ndim + 1)
        return br_fail(BR_ERROR_SHAPE, "unflatten",
                       "dimension %" PRId64 " of x %s cannot become %d dimensions: must be 1 .. %d",
                       dim, br__shape(x), sizes ? ndim : 0, BR_MAX_DIMS - x->ndim + 1);
    br_tensor part = { .ndim = 1, .numel = x->sizes[dim], .sizes = { x->sizes[dim] } };
    if (!complete_sizes("unflatten", &part, ndim, sizes, all + dim))
        return NULL;
    memcpy(all, x->sizes, (size_t)dim * sizeof *all);
    memcpy(all + dim + ndim, x->sizes + dim + 1, (size_t)(x->ndim - 1 - dim) * sizeof *all);
    return reshaped(&unflatten_op, x, x->ndim - 1 + ndim, all);
}

static const br_op unsqueeze_op = { .name = "unsqueeze", .backward = reshape_backward };

br_tensor *br_unsqueeze(br_tensor *x, int64_t dim)
{
    BR_OP("unsqueeze");
    if (!br__required("unsqueeze", "x", x))
        return NULL;
    int n = x->ndim;
    if (n == BR_MAX_DIMS)
        return br_fail(BR_ERROR_SHAPE, "unsqueeze",
                       "x %s already has the maximum number of dimensions", br__shape(x));
    if (dim < -n - 1 || dim > n)
        return br_fail(BR_ERROR_INDEX, "unsqueeze",
                       "dim is %" PRId64 ", must be in %d .. %d for x %s", dim, -n - 1, n,
                       br__shape(x));
    int at = (int)(dim < 0 ? dim + n + 1 : dim);
    int64_t sizes[BR_MAX_DIMS], strides[BR_MAX_DIMS];
    for (int i = 0; i <= n; i++) {
        sizes[i] = i == at ? 1 : x->sizes[i < at ? i : i - 1];
        strides[i] = i != at  ? x->strides[i < at ? i : i - 1]
                     : at < n ? x->strides[at] * x->sizes[at]
                              : 1;
    }
    return br__recorded(&unsqueeze_op, br__view_of(x, n + 1, sizes, strides, 0), x, NULL, 0);
}

static const br_op squeeze_op = { .name = "squeeze", .backward = reshape_backward };

/* Returns x without the dimensions of size 1 whose bits are set. */
static br_tensor *squeezed(br_tensor *x, unsigned dims)
{
    int64_t sizes[BR_MAX_DIMS], strides[BR_MAX_DIMS];
    int ndim = 0;
    for (int i = 0; i < x->ndim; i++) {
        if (x->sizes[i] == 1 && (dims >> i & 1))
            continue;
        sizes[ndim] = x->sizes[i];
        strides[ndim++] = x->strides[i];
    }
    return br__recorded(&squeeze_op, br__view_of(x, ndim, sizes, strides, 0), x, NULL, 0);
}

br_tensor *br_squeeze(br_tensor *x, int64_t dim)
{
    BR_OP("squeeze");
    if (!br__required("squeeze", "x", x) ||
        (dim != BR_ALL && !br__wrap_dim("squeeze", "dim", x, &dim)))
        return NULL;
    return squeezed(x, dim == BR_ALL ? ~0u : 1u << dim);
}

br_tensor *br_squeeze_dims(br_tensor *x, int ndims, const int64_t *dims)
{
    unsigned set = 0;
    BR_OP("squeeze_dims");
    if (!br__required("squeeze_dims", "x", x) ||
        !br__dims_to_bits("squeeze_dims", x, ndims, dims, &set))
        return NULL;
    /* An empty list removes no dimension, although in reductions it means all dimensions. */
    return squeezed(x, ndims == 0 ? 0 : set);
}

/* ---- Order of dimensions --------------------------------------------------------------------- */

typedef struct order {
    int64_t dims[BR_MAX_DIMS];
} order;

/* Returns y with dimension dims[i] of x as its dimension i. */
static br_tensor *permuted(const br_op *op, br_tensor *x, const order *o)
{
    int64_t sizes[BR_MAX_DIMS], strides[BR_MAX_DIMS];
    for (int i = 0; i < x->ndim; i++) {
        sizes[i] = x->sizes[o->dims[i]];
        strides[i] = x->strides[o->dims[i]];
    }
    return br__recorded(op, br__view_of(x, x->ndim, sizes, strides, 0), x, o, sizeof *o);
}

static void permute_backward(br_node *node, br_tensor *dy, br_tensor **dx)
{
    const order *o = br_params(node);
    int64_t inverse[BR_MAX_DIMS];
    for (int i = 0; i < dy->ndim; i++)
        inverse[o->dims[i]] = i;
    dx[0] = br_permute(dy, dy->ndim, inverse);
}

static const br_op transpose_op = { .name = "transpose", .backward = permute_backward };

static br_tensor *transposed(br_tensor *x, int64_t dim0, int64_t dim1)
{
    order o = { 0 };
    for (int i = 0; i < x->ndim; i++)
        o.dims[i] = i == dim0 ? dim1 : i == dim1 ? dim0 : i;
    return permuted(&transpose_op, x, &o);
}

br_tensor *br_transpose(br_tensor *x, int64_t dim0, int64_t dim1)
{
    BR_OP("transpose");
    if (!br__required("transpose", "x", x) || !br__wrap_dim("transpose", "dim0", x, &dim0) ||
        !br__wrap_dim("transpose", "dim1", x, &dim1))
        return NULL;
    return transposed(x, dim0, dim1);
}

br_tensor *br_t(br_tensor *x)
{
    BR_OP("t");
    if (!br__required("t", "x", x))
        return NULL;
    if (x->ndim > 2)
        return br_fail(BR_ERROR_SHAPE, "t", "x %s has %d dimensions, must have at most 2",
                       br__shape(x), x->ndim);
    return x->ndim == 2 ? transposed(x, 0, 1) : transposed(x, 0, 0);
}

static const br_op permute_op = { .name = "permute", .backward = permute_backward };

br_tensor *br_permute(br_tensor *x, int ndims, const int64_t *dims)
{
    BR_OP("permute");
    if (!br__required("permute", "x", x))
        return NULL;
    if (ndims != x->ndim || (ndims > 0 && !dims))
        return br_fail(BR_ERROR_SHAPE, "permute",
                       "%d dims for x %s, must name each of its %d dimensions once",
                       dims ? ndims : 0, br__shape(x), x->ndim);
    order o = { 0 };
    bool seen[BR_MAX_DIMS] = { false };
    for (int i = 0; i < ndims; i++) {
        o.dims[i] = dims[i];
        if (!br__wrap_dim("permute", "dims", x, &o.dims[i]))
            return NULL;
        if (seen[o.dims[i]])
            return br_fail(BR_ERROR_ARGUMENT, "permute",
                           "dims %s for x %s name dimension %" PRId64 " twice",
                           br__shape_of(ndims, dims), br__shape(x), o.dims[i]);
        seen[o.dims[i]] = true;
    }
    return permuted(&permute_op, x, &o);
}

/* ---- Expansion ------------------------------------------------------------------------------- */

/* Computes the sizes of the expanded x, with -1 replaced, and its strides. */
static bool expanded_sizes(const char *op, const br_tensor *x, int ndim, const int64_t *requested,
                           int64_t *sizes, int64_t *strides)
{
    int fresh = ndim - x->ndim;
    for (int i = 0; i < ndim; i++) {
        int64_t own = i < fresh ? 1 : x->sizes[i - fresh];
        sizes[i] = requested[i] == -1 && i >= fresh ? own : requested[i];
        strides[i] = i < fresh || (own == 1 && sizes[i] != 1) ? 0 : x->strides[i - fresh];
        if (i >= fresh && own != 1 && sizes[i] != own) {
            br_fail(BR_ERROR_SHAPE, op,
                    "cannot expand x %s to %s: size %" PRId64
                    " of dimension %d must be 1 or equal to %" PRId64,
                    br__shape(x), br__shape_of(ndim, requested), own, i - ndim, sizes[i]);
            return false;
        }
    }
    return true;
}

static const br_op expand_op = { .name = "expand", .backward = pass_backward };

static br_tensor *expand(const char *op, br_tensor *x, int ndim, const int64_t *sizes)
{
    BR_OP(op);
    int64_t full[BR_MAX_DIMS], strides[BR_MAX_DIMS], numel;
    if (!br__required(op, "x", x))
        return NULL;
    if (ndim < x->ndim || ndim > BR_MAX_DIMS || (ndim > 0 && !sizes))
        return br_fail(BR_ERROR_SHAPE, op,
                       "cannot expand x %s to %s: the new shape must have %d .. %d dimensions",
                       br__shape(x), br__shape_of(ndim, sizes), x->ndim, BR_MAX_DIMS);
    if (!expanded_sizes(op, x, ndim, sizes, full, strides) ||
        !br__check_sizes(op, ndim, full, x->dtype, &numel))
        return NULL;
    return br__recorded(&expand_op, br__view_of(x, ndim, full, strides, 0), x, NULL, 0);
}

br_tensor *br_expand(br_tensor *x, int ndim, const int64_t *sizes)
{
    return expand("expand", x, ndim, sizes);
}

br_tensor *br_expand_as(br_tensor *x, br_tensor *other)
{
    if (!br__required("expand_as", "other", other))
        return NULL;
    return expand("expand_as", x, other->ndim, other->sizes);
}
