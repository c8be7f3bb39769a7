/* ops/reduce/reduce_internal.h - shared by the reductions. */
#ifndef BR_REDUCE_INTERNAL_H
#define BR_REDUCE_INTERNAL_H

#include "ops/dims.h"
#include "ops/ops_internal.h"

/* Backward of max, min and median over all elements: shares dy evenly among the elements equal to
 * the result, or among the NaNs if the result is NaN. Saved values: 0 x, 1 the result. */
void br__share_evenly(br_node *node, br_tensor *dy, br_tensor **dx);

/* Returns sums, products or logarithms of sums along a dimension, recorded with the description of
 * the work as parameters. Bools are converted to i64. */
br_tensor *br__scan(const br_op *op, br_tensor *x, const br_scan_work *work);

/* Fails if there is nothing to reduce. An empty result is allowed. */
bool br__has_elements(const char *op, const br_tensor *x, unsigned bits);

#endif
