/* ops/pointwise/promotion.h - operations on operands of different dtypes. */
#ifndef BR_PROMOTION_H
#define BR_PROMOTION_H

#include "ops/ops_internal.h"

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
/* Converts both operands to one dtype. */
void br__promote(br_tensor **a, br_tensor **b);
/* At the beginning of an operation of more arguments: if a and b, which are variables, have
 * different dtypes, converts them and returns `call`, the same operation. */
#define BR_IF_PROMOTED(a, b, call)          \
    if (br__mixed(a, b)) {                  \
        br_scope *scope = br_scope_begin(); \
        br__promote(&(a), &(b));            \
        return br__composed(scope, call);   \
    }
/* Fails unless a may be changed to a result of a and b. */
bool br__can_store_result(const char *op, br_tensor *a, br_tensor *b);
/* Sets a to function(a, b), converted to a's dtype, if a can be changed to the result's dtype. The
 * gradient of `op` is br__pass_backward(). Returns a, or NULL with an error. */
br_tensor *br__overwrite_mixed(const br_op *op, br__binary_function *function, br_tensor *a,
                               br_tensor *b);
void br__pass_backward(br_node *node, br_tensor *dy, br_tensor **dx);
/* Returns the dtype of a result of elements of a dtype and a number. */
br_dtype br__scalar_result(br_dtype dtype, double s);

#endif
