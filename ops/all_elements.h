/* ops/all_elements.h - facts about all elements of a tensor. */
#ifndef BR_ALL_ELEMENTS_H
#define BR_ALL_ELEMENTS_H

#include "ops/ops_internal.h"

/* Return true if all elements of a bool tensor are true, or any; false if an error is pending. */
bool br__all_true(const br_tensor *t);
bool br__any_true(const br_tensor *t);
/* Returns false if an element is infinite, NaN, 0, or so small that a sum of squares which gave it
 * may have lost digits. Returns true if an error is pending. */
bool br__in_range(const br_tensor *values);
/* Returns the smallest number that is in range for the dtype of the values. */
double br__least_in_range(const br_tensor *values);
/* Returns true if all elements are finite and their sum does not overflow. */
bool br__finite(const br_tensor *values);

#endif
