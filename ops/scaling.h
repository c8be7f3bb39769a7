/* ops/scaling.h - for operations whose intermediate results may leave the range of the dtype. */
#ifndef BR_SCALING_H
#define BR_SCALING_H

#include "ops/all_elements.h"

/* Returns x where the element of `values` is in range, and y elsewhere. */
br_tensor *br__where_in_range(br_tensor *values, br_tensor *x, br_tensor *y);
/* Returns a power of two (br__power_of_two()) for each slice of x along the dimensions whose bits
 * are set, which are kept with size 1: divided by it, the elements of the slice are smaller than 2.
 */
br_tensor *br__scale_of(const char *op, br_tensor *x, unsigned dims);
/* For norms that add eps to the variance, so that only large elements need scaling: returns the
 * scale of each slice, at least 1, or NULL if no square of an element is near the end of the
 * range. */
br_tensor *br__scale_of_large(const char *op, br_tensor *x, unsigned dims);
/* Returns variance + eps, or variance + eps / scale^2 unless scale is NULL. */
br_tensor *br__add_scaled_eps(br_tensor *variance, double eps, br_tensor *scale);

#endif
