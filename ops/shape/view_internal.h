/* ops/shape/view_internal.h - shared by the operations that return views or rearrange elements. */
#ifndef BR_VIEW_INTERNAL_H
#define BR_VIEW_INTERNAL_H

#include "ops/dims.h"

#include <brasa/ops.h>

/* Records y as the result of `op` applied to x and returns y; returns NULL if recording fails or y
 * is NULL. */
br_tensor *br__recorded(const br_op *op, br_tensor *y, br_tensor *x, const void *params,
                        size_t params_size);

/* Returns true if the list has at least one tensor, and none is NULL. */
bool br__check_list(const char *op, int n, br_tensor *const *tensors);

/* ---- Windows (ops/shape/window_view.c) ------------------------------------------------------- */

/* A view of a subset of a tensor's elements: slice, select, diagonal, unfold. Its kind defines the
 * meaning of up to six numbers, br_window.args. */
typedef struct br_window_kind {
    br_op op;                                          /* its gradient is br__window_backward */
    void (*narrow)(br_tensor *w, const int64_t *args); /* changes x's header into the view's */
} br_window_kind;

typedef struct br_window {
    const br_window_kind *kind;
    int64_t args[6];
    /* 0 if no two elements of the view are the same element of x. Otherwise the number of adjacent
     * last indices for which this is true, at each index of the `outer` dimensions before. */
    int64_t distinct;
    int outer;
} br_window;

/* Removes a dimension of size 1 from a header. */
void br__window_drop(br_tensor *w, int dim);
/* Returns the part of x that the window describes, as a view. */
br_tensor *br__view_window(br_tensor *x, const br_window *window);
/* The adjoint: returns a tensor of the given sizes that is zero except where the window selects
 * elements. There y is added. */
br_tensor *br__fill_window(br_tensor *y, int ndim, const int64_t *sizes, const br_window *window);
void br__window_backward(br_node *node, br_tensor *dy, br_tensor **dx);
/* The adjoint of br_unfold(x, dim, size, step) for a dimension of `length` elements: adds the
 * slices of y. */
br_tensor *br__fold(br_tensor *y, int64_t dim, int64_t length, int64_t size, int64_t step);

#endif
