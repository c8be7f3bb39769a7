/* ops/linalg/linalg_internal.h - shared by the operations of linear algebra. */
#ifndef BR_LINALG_INTERNAL_H
#define BR_LINALG_INTERNAL_H

#include "ops/ops_internal.h"

/* Returns true if t is f32 or f64 and has square matrices; fails otherwise. */
bool br__square(const char *op, const char *name, const br_tensor *t);
/* Returns true if t is f32 or f64; fails otherwise. */
bool br__linalg_dtype(const char *op, const char *name, const br_tensor *t);
/* Returns the transposed matrices of x. */
static inline br_tensor *br__mt(br_tensor *x)
{
    return br_transpose(x, -2, -1);
}
/* Returns a new contiguous tensor with the matrices of x stored by columns. */
br_tensor *br__by_columns(br_tensor *x);
/* Describes square matrices that are stored by columns; b may be NULL. Makes the tensors
 * that work->routine writes. */
bool br__linalg_begin(br_tensor *a, br_tensor *b, br_linalg_work *work);
/* Calls the backend unless the work is empty. */
bool br__linalg_run(const char *op, const br_linalg_work *work);
/* Fails if a matrix has an info other than 0: with the text `what`, which has one %PRId64. */
bool br__linalg_succeeded(const char *op, const br_tensor *a, const br_tensor *info,
                          const char *what);

#endif
