/* ops/shape/window_view.c - views of some of a tensor's elements, and their gradient: zeros with dy
 * at the view's elements. The two are each other's adjoint, so both can be differentiated any
 * number of times. */
#include "ops/ops_internal.h"
#include "ops/shape/view_internal.h"
#include "tensor/min_max.h"

void br__window_drop(br_tensor *w, int dim)
{
    w->ndim--;
    for (int i = dim; i < w->ndim; i++) {
        w->sizes[i] = w->sizes[i + 1];
        w->strides[i] = w->strides[i + 1];
    }
}

static void fill_backward(br_node *node, br_tensor *ddx, br_tensor **ddy)
{
    ddy[0] = br__view_window(ddx, br_params(node));
}

static const br_op fill_op = { .name = "view_backward", .backward = fill_backward };

static br_tensor window_of(const br_tensor *x, const br_window *window)
{
    br_tensor w = br__window(x);
    window->kind->narrow(&w, window->args);
    return w;
}

static void add(const br_tensor *to, const br_tensor *y)
{
    br__pointwise(BR_POINTWISE(add), 3, (const br_tensor *[]){ to, to, y }, NULL);
}

/* Adds y to a window that may contain an element more than once, one index of the dimensions from
 * `dim` on at a time. A slice of `distinct` last indices has no duplicates, and is added in one
 * loop. */
static void add_overlapping(const br_tensor *window, const br_tensor *y, int dim, int64_t distinct)
{
    const bool last = dim == y->ndim - 1;
    const int64_t step = last ? distinct : 1;
    for (int64_t i = 0; i < y->sizes[dim]; i += step) {
        const int64_t n = br__min(step, y->sizes[dim] - i);
        br_tensor to = br__window(window), from = br__window(y);
        br__window_slice(&to, dim, i, n, 1);
        br__window_slice(&from, dim, i, n, 1);
        if (last)
            add(&to, &from);
        else
            add_overlapping(&to, &from, dim + 1, distinct);
    }
}

br_tensor *br__fill_window(br_tensor *y, int ndim, const int64_t *sizes, const br_window *window)
{
    br_tensor *x = y ? br_new_zeros(y, ndim, sizes, y->dtype) : NULL;
    if (!x)
        return NULL;
    br_tensor place = window_of(x, window);
    if (window->distinct > 0)
        add_overlapping(&place, y, y->ndim - 1 - window->outer, window->distinct);
    else
        br__copy(&place, y);
    return br__recorded(&fill_op, x, y, window, sizeof *window);
}

void br__window_backward(br_node *node, br_tensor *dy, br_tensor **dx)
{
    int ndim;
    const int64_t *sizes = br_input_sizes(node, 0, &ndim);
    const br_window *window = br_params(node);
    const br_tensor *sum = br_accumulated_grad(node, 0);
    if (!sum || window->distinct > 0) {
        dx[0] = br__fill_window(dy, ndim, sizes, window);
        return;
    }
    br_tensor place = window_of(sum, window);
    add(&place, dy);
}

br_tensor *br__view_window(br_tensor *x, const br_window *window)
{
    if (!x)
        return NULL;
    br_tensor w = window_of(x, window);
    br_tensor *y = br__view_at(x, &w);
    return br__recorded(&window->kind->op, y, x, window, sizeof *window);
}
