/* ops/linalg/linalg_internal.h - shared by the operations of linear algebra. */
#ifndef BR_LINALG_INTERNAL_H
#define BR_LINALG_INTERNAL_H

#include "ops/ops_internal.h"

/* Returns true if t is f32 or f64 and has matrices, or square matrices; fails otherwise. */
bool br__matrices(const char *op, const char *name, const br_tensor *t);
bool br__square(const char *op, const char *name, const br_tensor *t);
/* Returns true if t has square matrices, of any dtype; fails otherwise. */
bool br__are_square(const char *op, const char *name, const br_tensor *t);
/* Returns the transposed matrices of x. */
static inline br_tensor *br__mt(br_tensor *x)
{
    return br_transpose(x, -2, -1);
}
/* Returns a new contiguous tensor with the matrices of x stored by columns. */
br_tensor *br__by_columns(br_tensor *x);
/* Describes matrices that are stored by columns; b may be NULL. Makes the tensors that
 * work->routine writes, except for `values` if given, u and vt. */
bool br__linalg_begin(const char *op, br_tensor *a, br_tensor *b, br_linalg_work *work);
/* Calls the backend unless the work is empty. */
bool br__linalg_run(const char *op, const br_linalg_work *work);
/* Fails if a matrix has an info other than 0: with the text `what`, which has one %PRId64. */
bool br__linalg_succeeded(const char *op, const br_tensor *a, const br_tensor *info,
                          const char *what);
/* Returns true if all matrices of t are finite; fails otherwise, with the place of the matrix. Some
 * iterations of LAPACK never end with NaN. */
bool br__linalg_finite(const char *op, const char *name, br_tensor *t);
/* Returns a + b, where NULL counts as 0. */
static inline br_tensor *br__plus(br_tensor *a, br_tensor *b)
{
    return a && b ? br_add(a, b) : a ? a : b;
}
/* Returns x - x^T. */
static inline br_tensor *br__skew(br_tensor *x)
{
    return br_sub(x, br__mt(x));
}
/* Returns [rows, columns] with ones on the diagonal, with the dtype and the device of x. */
br_tensor *br__eye_like(const br_tensor *x, int64_t rows, int64_t columns);
/* Returns an identity matrix with the size of the last dimension of x, its dtype and its device. */
br_tensor *br__identity_like(const br_tensor *x);
/* Returns x [*] as [*, 1, 1]: a number for each matrix. */
static inline br_tensor *br__per_matrix(br_tensor *x)
{
    return br_unsqueeze(br_unsqueeze(x, -1), -1);
}
/* Writes the sizes of a, with matrices of these rows and columns instead. */
void br__matrix_sizes(const br_tensor *a, int64_t rows, int64_t columns, int64_t *sizes);
/* Returns whether an operation on a is recorded; to be asked before a no-grad scope begins. */
static inline bool br__needs_gradient(const br_tensor *a)
{
    return br_grad_enabled() && br_requires_grad(a);
}
/* Expands the batches of both to their common shape; fails if they do not broadcast. */
bool br__join_batches(const char *op, br_tensor **a, br_tensor **b);
/* Returns whether b is a vector for a: it has one dimension, or the sizes of a without the last. */
bool br__is_vector(const br_tensor *a, const br_tensor *b);
/* A singular value decomposition; u and vh are NULL if only singular values are computed. */
typedef struct br_singular {
    br_tensor *u, *s, *vh;
} br_singular;
/* Decomposes a and records it. Messages begin with op. */
bool br__svd(const char *op, br_tensor *a, bool full, bool has_vectors, br_singular *p);
/* Return the singular values, or the eigenvalues and, unless `vectors` is NULL, the eigenvectors.
 * Vectors are also computed if a needs a gradient. Messages begin with op. */
br_tensor *br__svdvals(const char *op, br_tensor *a);
br_tensor *br__eigh(const char *op, br_tensor *a, bool upper, br_tensor **vectors);
/* Returns zeros for results on the device of a. Messages begin with op. */
br_tensor *br__linalg_zeros(const char *op, const br_tensor *a, int ndim, const int64_t *sizes,
                            br_dtype dtype);
/* Returns the part of the largest singular value that counts as 0 by default: the larger size of
 * the matrices times the machine epsilon. */
double br__linalg_rtol(const br_tensor *a);
/* Returns the gradient of y, the pseudoinverse of a, with respect to a. */
br_tensor *br__pinv_gradient(br_tensor *a, br_tensor *y, br_tensor *dy);
/* Factorizes a. Returns the factors, stored by columns, or NULL with an error; work->pivots has the
 * exchanged rows, and work->info the row of a 0 on the diagonal of U. */
br_tensor *br__lu_by_columns(const char *op, br_tensor *a, br_linalg_work *work);
/* Returns bool [*]: whether the LU factorization of each square matrix has a 0 on the diagonal of
 * U. */
br_tensor *br__is_singular(const char *op, br_tensor *a);
/* Returns the first n rows or columns of the matrices of x. */
static inline br_tensor *br__rows(br_tensor *x, int64_t n)
{
    return br_narrow(x, -2, 0, n);
}
static inline br_tensor *br__columns(br_tensor *x, int64_t n)
{
    return br_narrow(x, -1, 0, n);
}

#endif
