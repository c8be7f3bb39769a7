/* ops/reduce/reduce_internal.h - shared by the reductions. */
#ifndef BR_REDUCE_INTERNAL_H
#define BR_REDUCE_INTERNAL_H

#include "ops/ops_internal.h"

/* Converts a list of dimensions to a bit set; an empty list means all dimensions. Returns false
 * with an error if one is out of range or repeated. */
bool br__dims_to_bits(const char *op, const br_tensor *x, int n, const int64_t *dims,
                      unsigned *bits);

/* Returns the number of elements along the dimensions in `bits`. */
int64_t br__reduced_count(int ndim, const int64_t *sizes, unsigned bits);

/* Allocates the result: x's sizes without the reduced dimensions, or with size 1 for them if
 * keepdim. */
br_tensor *br__reduced(const char *op, const br_tensor *x, unsigned bits, bool keepdim,
                       br_dtype dtype);

/* Backward of max, min and median over all elements: shares dy evenly among the elements equal to
 * the result, or among the NaNs if the result is NaN. Saved values: 0 x, 1 the result. */
void br__share_evenly(br_node *node, br_tensor *dy, br_tensor **dx);

#endif
