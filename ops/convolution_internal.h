/* ops/convolution_internal.h - the forms of convolution, for the operations that check their
 * arguments. */
#ifndef BR_CONVOLUTION_INTERNAL_H
#define BR_CONVOLUTION_INTERNAL_H

#include "ops/ops_internal.h"

/* Between x [batch, channels, size], weight [outputs, channels / groups, kernel] and
 * y [batch, outputs, out]. Pairs are for rows and columns. */
typedef struct br_convolution {
    int64_t batch, channels, outputs, groups;
    int64_t size[2], out[2], kernel[2], stride[2], dilation[2];
    int64_t before[2]; /* zeros in front of x; what is missing behind is zeros too */
} br_convolution;

/* What the kernel meets in a plane of x, in all rows of y. */
br_columns br__columns_of(const br_convolution *g);

/* ops/depthwise.c: whether y and x, and whether the weight are made by the three below, which take
 * dense operands and add to what y (if it `keeps` what it holds), x and weight hold. */
bool br__is_depthwise(const br_convolution *g);
bool br__sums_depthwise(const br_convolution *g);
void br__depthwise(const br_convolution *g, const br_tensor *x, const br_tensor *weight,
                   const br_tensor *y, bool keeps);
void br__depthwise_back(const br_convolution *g, const br_tensor *x, const br_tensor *weight,
                        const br_tensor *y);
void br__depthwise_weight(const br_convolution *g, const br_tensor *x, const br_tensor *weight,
                          const br_tensor *y);

/* y from x and weight, with a bias [outputs] or NULL; and x from y and weight, the adjoint.
 * Recorded. Shapes have been checked. */
br_tensor *br__convolve(const br_convolution *g, br_tensor *x, br_tensor *weight, br_tensor *bias);
br_tensor *br__convolve_back(const br_convolution *g, br_tensor *y, br_tensor *weight);

#endif
