/* brasa/ops/linalg.h - linear algebra; part of brasa/ops.h. Implemented in ops/linalg/.
 *
 * Matrices are the last two dimensions; all other dimensions are a batch. The dtypes are f32 and
 * f64. LAPACK computes, a library that is opened by the first call: liblapack.so.3 of the Debian
 * package liblapack3, or the file that the environment variable BRASA_LAPACK names. Without it, the
 * functions fail with BR_ERROR_IO. */
#ifndef BRASA_OPS_LINALG_H
#define BRASA_OPS_LINALG_H

#include <brasa/autograd.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Returns the solution x of a x = b, or of x a = b unless `left`. a is [*, n, n], and b [*, n, k],
 * or [*, k, n] unless `left`; their batches broadcast. As in PyTorch, b [*, n] is a vector if it
 * has one dimension, or the shape of a without the last dimension; then x is a vector, too. Fails
 * with the place of the matrix if a is singular. */
BR_API br_tensor *br_linalg_solve(br_tensor *a, br_tensor *b, bool left);
/* Returns the solution of a x = b, or of x a = b unless `left`, where only the upper or the lower
 * triangle of a [*, n, n] is read. If `unitriangular`, the elements of its diagonal count as 1.
 * b is [*, n, k], or [*, k, n] unless `left`; batches broadcast. A 0 on the diagonal gives
 * infinities or NaN. */
BR_API br_tensor *br_linalg_solve_triangular(br_tensor *a, br_tensor *b, bool upper, bool left,
                                             bool unitriangular);
/* Returns the inverse of a [*, n, n]. Fails like br_linalg_solve(). */
BR_API br_tensor *br_linalg_inv(br_tensor *a);
/* Returns the Cholesky factor of a [*, n, n], which is symmetric and positive definite: L, with
 * L L^T = a, or L^T if `upper`. Only the lower triangle of a is read, or the upper one if `upper`.
 * Fails with the place of the matrix and the order of the leading minor that is not positive. */
BR_API br_tensor *br_linalg_cholesky(br_tensor *a, bool upper);
/* Returns the solution x of a x = b, b [*, n, k], from the Cholesky factor of a, which is upper or
 * lower triangular. Batches broadcast. */
BR_API br_tensor *br_cholesky_solve(br_tensor *b, br_tensor *factor, bool upper);
/* Returns the determinants [*] of a [*, n, n]; 1 for n = 0. The gradient of a singular matrix is an
 * error. */
BR_API br_tensor *br_linalg_det(br_tensor *a);
/* Returns the logarithm of |det a|, -infinity for a singular matrix, and, unless `sign` is NULL,
 * the sign of the determinant, -1, 0 or 1, in *sign. The gradient is like that of br_linalg_det().
 */
BR_API br_tensor *br_linalg_slogdet(br_tensor *a, br_tensor **sign);
/* Returns log det a: NaN where the determinant is negative. */
BR_API br_tensor *br_logdet(br_tensor *a);

#ifdef __cplusplus
}
#endif

#endif
