/* ops/view_internal.h - what the operations that move elements share. */
#ifndef BR_VIEW_INTERNAL_H
#define BR_VIEW_INTERNAL_H

#include "tensor/tensor_internal.h"

#include <brasa/ops.h>

/* y, recorded as what `op` made of x alone; NULL if that failed or y is NULL. */
br_tensor *br__recorded(const br_op *op, br_tensor *y, br_tensor *x, const void *params,
                        size_t params_size);

/* As br__wrap_dim(), for operations that cut a dimension: x must be there and have one. */
bool br__cut_dim(const char *op, const br_tensor *x, int64_t *dim);

/* ---- Windows (ops/window.c) ------------------------------------------------------------------ */

/* A view that shows some of a tensor's elements: slice, select, diagonal, unfold. The kind tells
 * how, in terms of up to four numbers. */
typedef struct br_window_kind {
    br_op op;                                          /* its gradient is br__window_backward */
    void (*narrow)(br_tensor *w, const int64_t *args); /* turns x's header into the view's */
} br_window_kind;

typedef struct br_window {
    const br_window_kind *kind;
    int64_t args[4];
    bool overlaps; /* elements with different last indices may be the same one */
} br_window;

/* Takes a dimension of size 1 out of a header. */
void br__window_drop(br_tensor *w, int dim);
/* The view of x. */
br_tensor *br__view_window(br_tensor *x, const br_window *window);
/* Its adjoint: zeros of the given sizes to which y is added where the window shows them. */
br_tensor *br__fill_window(br_tensor *y, int ndim, const int64_t *sizes, const br_window *window);
void br__window_backward(br_node *node, br_tensor *dy, br_tensor **dx);

#endif
