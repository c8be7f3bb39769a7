/* ops/scaling.h - for operations whose intermediate results may leave the range of the dtype. */
#ifndef BR_SCALING_H
#define BR_SCALING_H

#include "ops/ops_internal.h"

/* Returns false if an element is infinite, NaN, 0, or so small that a sum of squares which gave it
 * may have lost digits. Returns true if an error is pending. */
bool br__in_range(br_tensor *values);
/* Returns x where the element of `values` is in range, and y elsewhere. */
br_tensor *br__where_in_range(br_tensor *values, br_tensor *x, br_tensor *y);
/* Returns true if all elements are finite and their sum does not overflow. */
bool br__finite(br_tensor *values);
/* Returns for each element of `size`, which is not negative, the largest power of two that is not
 * above it, but a normal number; 1 for 0, infinity and NaN. Division by it is exact. The result is
 * not recorded. */
br_tensor *br__power_of_two(br_tensor *size);
/* Returns such a power of two for each slice of x along the dimensions whose bits are set, which
 * are kept with size 1: divided by it, the elements of the slice are smaller than 2. */
br_tensor *br__scale_of(const char *op, br_tensor *x, unsigned dims);
/* For norms that add eps to the variance, so that only large elements need scaling: returns the
 * scale of each slice, at least 1, or NULL if no square of an element is near the end of the
 * range. */
br_tensor *br__scale_of_large(const char *op, br_tensor *x, unsigned dims);
/* Returns variance + eps, or variance + eps / scale^2 unless scale is NULL. */
br_tensor *br__add_scaled_eps(br_tensor *variance, double eps, br_tensor *scale);

#endif
