/* ops/quantized.h - weights of BR_QUANTIZED in the operations that take them. */
#ifndef BR_OPS_QUANTIZED_H
#define BR_OPS_QUANTIZED_H

#include "tensor/tensor_internal.h"

/* Same as br__compatible() for an operand x and a weight. If the weight is quantized, it must be a
 * matrix, and x must be f32. */
bool br__fits_weight(const char *op, const char *x_name, const br_tensor *x,
                     const char *weight_name, const br_tensor *weight);
/* Returns a weight of one of br_linear()'s gradients of higher order: a quantized one in f32. */
br_tensor *br__dequantized(br_tensor *weight);

#endif
