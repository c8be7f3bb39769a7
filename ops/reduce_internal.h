/* ops/reduce_internal.h - what the reductions share. */
#ifndef BR_REDUCE_INTERNAL_H
#define BR_REDUCE_INTERNAL_H

#include "ops/ops_internal.h"

/* The dimensions as bits; an empty list means all of them. False and an error for a bad one. */
bool br__dims_to_bits(const char *op, const br_tensor *x, int n, const int64_t *dims,
                      unsigned *bits);

/* Elements along the dimensions. */
int64_t br__reduced_count(int ndim, const int64_t *sizes, unsigned bits);

/* A new tensor for the result: x's sizes without the reduced dimensions, or with 1 for them. */
br_tensor *br__reduced(const char *op, const br_tensor *x, unsigned bits, bool keepdim,
                       br_dtype dtype);

/* A gradient: dy shared evenly among the elements that are equal to the result, or among those that
 * are NaN if it is. Saved: 0 x, 1 the result of all elements. */
void br__share_evenly(br_node *node, br_tensor *dy, br_tensor **dx);

#endif
