/* ops/pointwise/dropout_internal.h - the random mask of dropout. */
#ifndef BR_DROPOUT_INTERNAL_H
#define BR_DROPOUT_INTERNAL_H

#include "tensor/tensor_internal.h"

/* Generates the mask for n elements, each of which is dropped with probability p, 0 < p < 1.
 * Returns an i64 tensor with one bit for each element, 0 if it is dropped, in order from the lowest
 * bit of the first word; one extra word follows the last. Returns NULL with an error if memory runs
 * out. `op` is the prefix of messages. */
br_tensor *br__dropout_bits(const char *op, const br_tensor *x, int64_t n, double p);
/* Computes y from x: drops the elements whose bits are 0 and multiplies the others by `scale`. Both
 * are contiguous in the order of the bits. */
void br__drop(const br_tensor *y, const br_tensor *x, const br_tensor *bits, double scale);
/* Returns 1 / (1 - p), the factor of the elements that are not dropped, rounded as in PyTorch. */
double br__dropout_scale(br_dtype dtype, double p);

#endif
