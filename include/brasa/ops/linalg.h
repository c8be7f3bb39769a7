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
/* Returns the same factor. A matrix that is not positive definite is no error, unless
 * `check_errors`; its factor is what LAPACK leaves. *info, i32 [*], is then the order of the first
 * leading minor that is not positive, else 0. */
BR_API br_tensor *br_linalg_cholesky_ex(br_tensor *a, bool upper, bool check_errors,
                                        br_tensor **info);
/* Returns the inverse [*, n, n] of a matrix from its Cholesky factor, which is upper or lower
 * triangular. Fails if an element of the diagonal is 0. */
BR_API br_tensor *br_cholesky_inverse(br_tensor *factor, bool upper);
/* Returns the solution x of a x = b, b [*, n, k], from the Cholesky factor of a, which is upper or
 * lower triangular. Batches broadcast. */
BR_API br_tensor *br_cholesky_solve(br_tensor *b, br_tensor *factor, bool upper);
/* Returns the determinants [*] of a [*, n, n]; 1 for n = 0. The second gradient of a matrix of rank
 * n - 2 or less is NaN. */
BR_API br_tensor *br_linalg_det(br_tensor *a);
/* Returns the logarithm of |det a|, -infinity for a singular matrix, and, unless `sign` is NULL,
 * the sign of the determinant, -1, 0 or 1, in *sign. The gradient of a singular matrix is an error.
 */
BR_API br_tensor *br_linalg_slogdet(br_tensor *a, br_tensor **sign);
/* Returns log det a: NaN where the determinant is negative. */
BR_API br_tensor *br_logdet(br_tensor *a);

/* ---- Decompositions -------------------------------------------------------------------------- */

typedef enum br_qr_mode {
    BR_QR_REDUCED,  /* q [*, m, k], r [*, k, n], k = min(m, n) */
    BR_QR_COMPLETE, /* q [*, m, m], r [*, m, n] */
    BR_QR_R,        /* only r, as for BR_QR_REDUCED; q is empty, with shape [0] */
} br_qr_mode;

/* Returns the QR decomposition of a [*, m, n]: q with orthonormal columns, and, unless `r` is NULL,
 * the upper triangular matrix with q r = a in *r. The gradient assumes that the first min(m, n)
 * columns of a are linearly independent. It is an error with BR_QR_R, and with BR_QR_COMPLETE if
 * m > n. */
BR_API br_tensor *br_linalg_qr(br_tensor *a, br_qr_mode mode, br_tensor **r);

/* Returns the first n columns of the product of k Householder reflections I - tau[i] v_i v_i^T, k
 * <= n <= m: v_i has zeros, a 1 in row i, and below it the elements of column i of a [*, m, n]. tau
 * is
 * [*, k]. */
BR_API br_tensor *br_linalg_householder_product(br_tensor *a, br_tensor *tau);

/* Returns the eigenvalues [*, n] of a [*, n, n], ascending, and, unless `vectors` is NULL, the
 * orthonormal eigenvectors [*, n, n] in the columns of *vectors. a is symmetric: only its lower
 * triangle is read, or the upper one if `upper`. An eigenvector is defined up to its sign. The
 * gradient of eigenvectors is infinite or NaN if two eigenvalues are equal. Fails if the triangle
 * contains NaN or infinity. */
BR_API br_tensor *br_linalg_eigh(br_tensor *a, bool upper, br_tensor **vectors);
/* Returns the same eigenvalues; eigenvectors are computed only if a needs a gradient. */
BR_API br_tensor *br_linalg_eigvalsh(br_tensor *a, bool upper);

/* Returns the singular value decomposition u diag(s) vh = a of a [*, m, n]: u [*, m, k], and,
 * unless they are NULL, the singular values in *s [*, k], descending, and *vh [*, k, n], k =
 * min(m, n). If `full_matrices`, PyTorch's default, u is [*, m, m] and vh [*, n, n]; as in PyTorch,
 * the gradient ignores the additional vectors, which a does not determine. A pair of singular
 * vectors is defined up to its sign. The gradient of singular vectors is infinite or NaN if two
 * singular values are equal, or if one is 0 and m is not n. Fails if a contains NaN or infinity. */
BR_API br_tensor *br_linalg_svd(br_tensor *a, bool full_matrices, br_tensor **s, br_tensor **vh);
/* Returns the same singular values; vectors are computed only if a needs a gradient. */
BR_API br_tensor *br_linalg_svdvals(br_tensor *a);

/* Returns the Moore-Penrose inverse [*, n, m] of a [*, m, n], by the singular value decomposition,
 * or by eigenvalues if `hermitian`, where only the lower triangle of a is read. Singular values up
 * to max(atol, rtol * the largest one) count as 0. atol and rtol are numbers, such as
 * br_scalar(1e-3, BR_F64), or tensors that broadcast to [*], and have no gradient. NULL for atol
 * means 0. NULL for rtol means max(m, n) times the machine epsilon, or 0 where atol is positive.
 * The gradient assumes that the rank does not change. */
BR_API br_tensor *br_linalg_pinv(br_tensor *a, br_tensor *atol, br_tensor *rtol, bool hermitian);
/* Returns the rank of each matrix, i64 [*]: the number of singular values, or of absolute
 * eigenvalues, that do not count as 0. The arguments are the same as br_linalg_pinv()'s. */
BR_API br_tensor *br_linalg_matrix_rank(br_tensor *a, br_tensor *atol, br_tensor *rtol,
                                        bool hermitian);

/* ---- Least squares --------------------------------------------------------------------------- */

/* The routine of LAPACK, as in PyTorch, whose default on the CPU is gelsy. */
typedef enum br_lstsq_driver {
    BR_LSTSQ_GELSY, /* QR with pivoting */
    BR_LSTSQ_GELS,  /* QR; a must have full rank */
    BR_LSTSQ_GELSD, /* singular values, by divide and conquer */
    BR_LSTSQ_GELSS, /* singular values */
} br_lstsq_driver;

/* Returns the solution x [*, n, k] of a x = b in the sense of least squares, with the smallest norm
 * if there are several. a is [*, m, n], and b [*, m, k]; batches broadcast, and vectors are as in
 * br_linalg_solve(). Singular values up to rcond times the largest one count as 0; BR_NONE_F64 is
 * max(m, n) times the machine epsilon. Unless they are NULL, the other pointers receive
 * - the squared norms [*, k] of the columns of a x - b, if m > n, the driver is not GELSY, and all
 *   matrices have rank n; otherwise an empty tensor [0]
 * - the ranks, i64 [*]; [0] for GELS
 * - the singular values [*, min(m, n)] for GELSD and GELSS; otherwise [0]
 * The gradient of the solution assumes that the rank does not change. Fails if a or b contains NaN
 * or infinity, and, with GELS, if the factorization finds that a has not full rank. */
BR_API br_tensor *br_linalg_lstsq(br_tensor *a, br_tensor *b, double rcond, br_lstsq_driver driver,
                                  br_tensor **residuals, br_tensor **rank,
                                  br_tensor **singular_values);

/* ---- Norms of matrices ----------------------------------------------------------------------- */

/* PyTorch's `ord`. */
typedef enum br_matrix_norm {
    BR_MATRIX_NORM_FRO,     /* "fro": the root of the sum of squares */
    BR_MATRIX_NORM_NUC,     /* "nuc": the sum of the singular values */
    BR_MATRIX_NORM_INF,     /* inf: the largest sum of absolute values of a row */
    BR_MATRIX_NORM_NEG_INF, /* -inf: the smallest one */
    BR_MATRIX_NORM_1,       /* 1: the largest sum of absolute values of a column */
    BR_MATRIX_NORM_NEG_1,   /* -1: the smallest one */
    BR_MATRIX_NORM_2,       /* 2: the largest singular value */
    BR_MATRIX_NORM_NEG_2,   /* -2: the smallest singular value */
} br_matrix_norm;

/* Returns a norm of the matrices in two dimensions of a: dims[0] has the rows, dims[1] the columns;
 * PyTorch's default is BR_DIMS(-2, -1). With keepdim the dimensions are kept with size 1. Norms
 * without singular values need no LAPACK. Norms of vectors are br_norm_dim(). */
BR_API br_tensor *br_linalg_matrix_norm(br_tensor *a, br_matrix_norm ord, int ndims,
                                        const int64_t *dims, bool keepdim);
/* Returns the condition number of each matrix of a [*, m, n]: the largest singular value divided by
 * the smallest one for BR_MATRIX_NORM_2, PyTorch's default, and the inverse for
 * BR_MATRIX_NORM_NEG_2. For other norms it is the norm of a times the norm of its inverse; a is
 * square then. Infinity for singular matrices, 0 for empty ones. */
BR_API br_tensor *br_linalg_cond(br_tensor *a, br_matrix_norm ord);

/* ---- Functions of matrices ------------------------------------------------------------------- */

/* Returns the exponential of each matrix of a [*, n, n]. Needs no LAPACK. */
BR_API br_tensor *br_linalg_matrix_exp(br_tensor *a);
/* Returns a [*, n, n] to the power of n; if n is negative, the inverse to the power of -n. */
BR_API br_tensor *br_linalg_matrix_power(br_tensor *a, int64_t n);
/* Returns the product of n >= 2 matrices in the order that takes the fewest multiplications. The
 * first and the last one may be vectors, a row and a column; their dimension is removed. */
BR_API br_tensor *br_linalg_multi_dot(int n, br_tensor *const *tensors);

/* ---- LU factorization ------------------------------------------------------------------------ */

/* Returns the permutation matrix p [*, m, m] of the factorization p l u = a of a [*, m, n] with
 * partial pivoting, and, unless they are NULL, *l [*, m, k] with ones on its diagonal and *u
 * [*, k, n], k = min(m, n). The gradient assumes that the first k columns, in the order of the
 * rows, are not singular. */
BR_API br_tensor *br_linalg_lu(br_tensor *a, br_tensor **l, br_tensor **u);
/* Returns both factors in one tensor [*, m, n], without the ones, and the pivots, i32 [*, k], in
 * *pivots unless it is NULL: row i was exchanged with row pivots[i] - 1, i = 0, 1, ... Fails with
 * the place of the matrix if u has a 0 on its diagonal. */
BR_API br_tensor *br_linalg_lu_factor(br_tensor *a, br_tensor **pivots);
/* Returns the solution x of a x = b, or of x a = b unless `left`, from br_linalg_lu_factor(a), a
 * [*, n, n]; with the transpose of a if `adjoint`. b is [*, n, k], or [*, k, n] unless `left`;
 * batches broadcast. PyTorch's defaults are true and false. */
BR_API br_tensor *br_linalg_lu_solve(br_tensor *lu, br_tensor *pivots, br_tensor *b, bool left,
                                     bool adjoint);

/* ---- Tensors as matrices --------------------------------------------------------------------- */

/* Returns the Vandermonde matrices [*, k, n] of x [*, k]: the powers 0 .. n - 1 of each element.
 * n is at least 2; 0 means k. */
BR_API br_tensor *br_linalg_vander(br_tensor *x, int64_t n);
/* Returns the inverse of a with respect to br_tensordot(): the first `ind` dimensions are the rows
 * of a matrix, the others its columns. PyTorch's default is 2. */
BR_API br_tensor *br_linalg_tensorinv(br_tensor *a, int64_t ind);
/* Returns the solution x of br_tensordot(a, x, all dimensions of x) = b. a has the
 * dimensions of b, then the dimensions of x. The given dimensions of a are moved to the end
 * first. */
BR_API br_tensor *br_linalg_tensorsolve(br_tensor *a, br_tensor *b, int ndims, const int64_t *dims);

#ifdef __cplusplus
}
#endif

#endif
