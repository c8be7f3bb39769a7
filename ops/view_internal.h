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

#endif
