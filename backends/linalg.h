/* backends/linalg.h - work of linear algebra: factorizations of matrices, eigenvalues and singular
 * values, systems of linear equations and least squares. */
#ifndef BR_BACKEND_LINALG_H
#define BR_BACKEND_LINALG_H

#include <brasa/tensor.h>

typedef enum br_linalg_routine {
    BR_LINALG_LU,       /* replaces a by its factors: P L U = a; writes `pivots` */
    BR_LINALG_SOLVE,    /* the same for square a, and replaces b by the solution unless a is
                           singular */
    BR_LINALG_CHOLESKY, /* replaces the lower triangle of a by L, L L^T = a; reads no other element
                           of a */
    BR_LINALG_TRIANGULAR_SOLVE, /* replaces b by the solution for a triangle of a */
    BR_LINALG_QR,               /* replaces a by R and the Householder vectors of Q below it, whose
                                   factors go to `values` */
    BR_LINALG_QR_Q,             /* replaces such vectors by the first n columns of Q, m >= n; a has
                                   as many vectors as `values` has factors, at most n */
    BR_LINALG_EIGEN,            /* writes the eigenvalues of the triangle of a symmetric matrix to
                                   `values`, ascending; replaces a by the eigenvectors if `vectors`,
                                   and overwrites it otherwise */
    BR_LINALG_SVD,              /* writes the singular values to `values`, descending, and the
                                   singular vectors to u and vt unless they are NULL; overwrites a */
    /* Least squares: replace the first n rows of b by the solution of the smallest norm, and
     * overwrite a. */
    BR_LINALG_GELS,  /* a has full rank, otherwise info is not 0; if m > n, the squares of the other
                        m - n rows of b add up to those of the residuals */
    BR_LINALG_GELSY, /* by QR with pivoting; writes `rank` */
    BR_LINALG_GELSD, /* by the SVD (divide and conquer); writes `rank` and `values`; the rows of b
                        as in GELS if the rank is n */
    BR_LINALG_GELSS, /* the same by another algorithm */
} br_linalg_routine;

/* A batch of matrices a with m rows and n columns, and right-hand sides b with k columns: a x = b.
 * Matrices are stored by columns: a is [.., n, m], transposed, and b is [.., k, m], in least
 * squares [.., k, max(m, n)]. All tensors are contiguous, and a and b are not empty; all
 * floating-point tensors have one dtype, f32 or f64. Singular values and eigenvectors exist only
 * for finite numbers: a and b of these routines have no NaN and no infinity. */
typedef struct br_linalg_work {
    br_linalg_routine routine;
    int64_t batch, m, n, k;
    /* Read and written, except for a in triangular systems; b is NULL for factorizations. */
    const br_tensor *a, *b;
    /* i32 [.., min(m, n)]: row i was exchanged with row pivots[i] - 1, i = 0, ..; LU and SOLVE */
    const br_tensor *pivots;
    /* i64 [..]: 0, or the first i for which U[i, i] is 0, or the leading minor of order i is not
     * positive, counted from 1, or another number if an iteration did not converge; NULL for
     * triangular systems */
    const br_tensor *info;
    /* [.., count]: factors of Householder vectors, eigenvalues or singular values */
    const br_tensor *values;
    /* singular vectors, stored by columns: u [.., count or m, m], vt [.., n, count or n] */
    const br_tensor *u, *vt;
    const br_tensor *rank;     /* i64 [..] */
    bool upper, unit, vectors; /* the triangle; the elements of its diagonal count as 1 */
    double rcond; /* least squares: values below this times the largest one count as 0 */
} br_linalg_work;

#endif
