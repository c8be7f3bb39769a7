/* ops/conv/convolution_internal.h - convolutions whose arguments have been checked. */
#ifndef BR_CONVOLUTION_INTERNAL_H
#define BR_CONVOLUTION_INTERNAL_H

#include "ops/ops_internal.h"

/* Returns true if a number of the options, such as a stride, is minimum .. 2^31 - 1. Otherwise
 * records an error and returns false. */
bool br__check_conv_number(const char *op, const char *name, int64_t value, int64_t minimum);
/* Checks options that do not depend on the operands, so that a layer's constructor can refuse them.
 * Returns false and sets an error if one is invalid. `dims` is 1 or 2. */
bool br__check_conv_options(const char *op, int dims, bool transposed,
                            const br_conv_options *options);

/* Puts zeros between the elements of the last dimension, which are those of windows: the adjoint of
 * taking every dilation-th of `span` elements. */
br_tensor *br__spread(br_tensor *x, int64_t dilation, int64_t span);

/* br__convolve() computes y from x, weight and bias, which is [outputs] or NULL.
 * br__convolve_back(), its adjoint, computes x from y and weight. Autograd records both. The shapes
 * must have been checked. */
br_tensor *br__convolve(const br_convolution *g, br_tensor *x, br_tensor *weight, br_tensor *bias);
br_tensor *br__convolve_back(const br_convolution *g, br_tensor *y, br_tensor *weight);

#endif
