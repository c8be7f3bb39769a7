/* ops/random/random_ops.h - random tensors that several operations use. */
#ifndef BR_RANDOM_OPS_H
#define BR_RANDOM_OPS_H

#include <brasa/ops.h>

/* Returns a tensor of x's sizes, dtype and device with numbers of the exponential distribution with
 * rate 1: contiguous, or in x's memory order. It is not recorded. `op` is the prefix of
 * messages. */
br_tensor *br__new_exponential(const char *op, const br_tensor *x, bool in_order);

#endif
