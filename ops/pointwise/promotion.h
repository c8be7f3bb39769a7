/* ops/pointwise/promotion.h - operations on operands of different dtypes. */
#ifndef BR_PROMOTION_H
#define BR_PROMOTION_H

#include "tensor/tensor_internal.h"

#include <brasa/ops/promotion.h>

/* Returns whether the operands have different dtypes; false if they must be refused anyway. */
static inline bool br__mixed(const br_tensor *a, const br_tensor *b)
{
    return a && b && a->dtype != b->dtype && a->mark == BR_MARK_LIVE && b->mark == BR_MARK_LIVE &&
           !br__failed();
}

typedef br_tensor *br__binary_function(br_tensor *a, br_tensor *b);

/* Returns function(a, b) of the operands converted to one dtype. */
br_tensor *br__promoted(const char *op, br__binary_function *function, br_tensor *a, br_tensor *b);
/* Fails unless a may be changed to a result of a and b. */
bool br__can_store_result(const char *op, br_tensor *a, br_tensor *b);
/* Returns the dtype of a result of elements of a dtype and a number. */
br_dtype br__scalar_result(br_dtype dtype, double s);

#endif
