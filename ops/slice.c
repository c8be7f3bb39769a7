/* ops/slice.c - parts of a dimension: slice, narrow, select. They are views; their gradient is zero
 * outside the part. */
#include "ops/view_internal.h"

#include <inttypes.h>

typedef struct part {
    int dim;
    int64_t start, step;
} part;

static br_tensor *unslice(br_tensor *dy, int ndim, const int64_t *sizes, const part *p);

static void unslice_backward(br_node *node, br_tensor *ddy, br_tensor **dx)
{
    const part *p = br_params(node);
    int ndim;
    int64_t length = br_input_sizes(node, 0, &ndim)[p->dim];
    int64_t end = length > 0 ? p->start + (length - 1) * p->step + 1 : p->start;
    dx[0] = br_slice(ddy, p->dim, p->start, end, p->step);
}

static const br_op unslice_op = { .name = "slice_backward", .backward = unslice_backward };

/* Zeros of the given sizes with dy in the part that was sliced: the adjoint of slicing, whose own
 * adjoint is slicing. */
static br_tensor *unslice(br_tensor *dy, int ndim, const int64_t *sizes, const part *p)
{
    BR_OP(unslice_op.name);
    if (!dy)
        return NULL;
    br_tensor *x = br_zeros(ndim, sizes, dy->dtype);
    if (!x)
        return NULL;
    br_tensor window = br__window(x);
    br__window_slice(&window, p->dim, p->start, dy->sizes[p->dim], p->step);
    br__copy(&window, dy);
    return br__recorded(&unslice_op, x, dy, p, sizeof *p);
}

static void slice_backward(br_node *node, br_tensor *dy, br_tensor **dx)
{
    int ndim;
    const int64_t *sizes = br_input_sizes(node, 0, &ndim);
    dx[0] = unslice(dy, ndim, sizes, br_params(node));
}

static br_tensor *sliced(const br_op *op, br_tensor *x, const part *p, int64_t length)
{
    br_tensor window = br__window(x);
    br__window_slice(&window, p->dim, p->start, length, p->step);
    br_tensor *y = br__view_of(x, window.ndim, window.sizes, window.strides, window.data);
    return br__recorded(op, y, x, p, sizeof *p);
}

bool br__cut_dim(const char *op, const br_tensor *x, int64_t *dim)
{
    if (!br__required(op, "x", x))
        return false;
    if (x->ndim == 0)
        br__fail(BR_ERROR_SHAPE, op, "x [] has no dimension, must have at least one");
    return x->ndim > 0 && br__wrap_dim(op, "dim", x, dim);
}

/* A bound of a slice: from the end if negative, then clipped to the dimension. */
static int64_t clip_bound(int64_t bound, int64_t size)
{
    if (bound < 0)
        bound += size;
    return bound < 0 ? 0 : bound > size ? size : bound;
}

static const br_op slice_op = { .name = "slice", .backward = slice_backward };

br_tensor *br_slice(br_tensor *x, int64_t dim, int64_t start, int64_t end, int64_t step)
{
    BR_OP("slice");
    if (!br__cut_dim("slice", x, &dim))
        return NULL;
    if (step < 1)
        return br__fail(BR_ERROR_ARGUMENT, "slice", "step is %" PRId64 ", must be at least 1",
                        step);
    part p = { (int)dim, clip_bound(start, x->sizes[dim]), step };
    int64_t last = clip_bound(end, x->sizes[dim]);
    int64_t length = last > p.start ? (last - p.start - 1) / step + 1 : 0;
    return sliced(&slice_op, x, &p, length);
}

static const br_op narrow_op = { .name = "narrow", .backward = slice_backward };

br_tensor *br_narrow(br_tensor *x, int64_t dim, int64_t start, int64_t length)
{
    BR_OP("narrow");
    if (!br__cut_dim("narrow", x, &dim))
        return NULL;
    int64_t size = x->sizes[dim], first = start < 0 ? start + size : start;
    if (first < 0 || first > size || length < 0 || length > size - first)
        return br__fail(BR_ERROR_INDEX, "narrow",
                        "start %" PRId64 " and length %" PRId64 " leave dimension %" PRId64
                        " of x %s",
                        start, length, dim, br__shape(x));
    return sliced(&narrow_op, x, &(part){ (int)dim, first, 1 }, length);
}

static void select_backward(br_node *node, br_tensor *dy, br_tensor **dx)
{
    const part *p = br_params(node);
    int ndim;
    const int64_t *sizes = br_input_sizes(node, 0, &ndim);
    dx[0] = unslice(br_unsqueeze(dy, p->dim), ndim, sizes, p);
}

static const br_op select_op = { .name = "select", .backward = select_backward };

br_tensor *br_select(br_tensor *x, int64_t dim, int64_t index)
{
    BR_OP("select");
    if (!br__cut_dim("select", x, &dim))
        return NULL;
    int64_t size = x->sizes[dim];
    if (index < -size || index >= size)
        return br__fail(BR_ERROR_INDEX, "select",
                        "index %" PRId64 " is outside dimension %" PRId64 " of x %s", index, dim,
                        br__shape(x));
    part p = { (int)dim, index < 0 ? index + size : index, 1 };
    int64_t sizes[BR_MAX_DIMS], strides[BR_MAX_DIMS];
    for (int i = 0; i < x->ndim - 1; i++) {
        sizes[i] = x->sizes[i < dim ? i : i + 1];
        strides[i] = x->strides[i < dim ? i : i + 1];
    }
    char *data = x->data + p.start * x->strides[dim] * (int64_t)br_dtype_size(x->dtype);
    return br__recorded(&select_op, br__view_of(x, x->ndim - 1, sizes, strides, data), x, &p,
                        sizeof p);
}
