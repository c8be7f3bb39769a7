/* ops/dims.h - dimensions in the arguments of operations, and the sizes that a reduction leaves. */
#ifndef BR_DIMS_H
#define BR_DIMS_H

#include "tensor/tensor_internal.h"

#include <brasa/ops.h>

/* Like br__wrap_dim(), but fails unless x is given and has at least one dimension. */
bool br__wrap_dim_nonscalar(const char *op, const br_tensor *x, int64_t *dim);

/* Converts a list of dimensions to a bit set; an empty list means all dimensions. Returns false
 * with an error if one is out of range or repeated. */
bool br__dims_to_bits(const char *op, const br_tensor *x, int n, const int64_t *dims,
                      unsigned *bits);

/* Writes the sizes without the reduced dimensions, or with size 1 for them if keepdim. Returns
 * their number. */
int br__reduced_sizes(int ndim, const int64_t *sizes, unsigned bits, bool keepdim, int64_t *out);

/* Returns the number of elements along the dimensions in `bits`. */
int64_t br__reduced_count(int ndim, const int64_t *sizes, unsigned bits);

/* Allocates the result: x's sizes without the reduced dimensions, or with size 1 for them if
 * keepdim. */
br_tensor *br__reduced(const char *op, const br_tensor *x, unsigned bits, bool keepdim,
                       br_dtype dtype);

#endif
