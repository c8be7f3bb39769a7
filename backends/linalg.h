/* backends/linalg.h - work of linear algebra: factorizations of square matrices, and systems of
 * linear equations. */
#ifndef BR_BACKEND_LINALG_H
#define BR_BACKEND_LINALG_H

#include <brasa/tensor.h>

typedef enum br_linalg_routine {
    BR_LINALG_LU,       /* replaces a by its factors: P L U = a; writes `pivots` */
    BR_LINALG_SOLVE,    /* the same, and replaces b by the solution unless a is singular */
    BR_LINALG_CHOLESKY, /* replaces the lower triangle of a by L, L L^T = a; reads no other element
                           of a */
    BR_LINALG_TRIANGULAR_SOLVE, /* replaces b by the solution for a triangle of a */
} br_linalg_routine;

/* A batch of square matrices a of size n, and right-hand sides b with k columns: a x = b. Matrices
 * are stored by columns: a is [.., n, n], transposed, and b is [.., k, n]. All tensors are
 * contiguous and not empty; a and b have one dtype, f32 or f64. */
typedef struct br_linalg_work {
    br_linalg_routine routine;
    int64_t batch, n, k;
    /* Read and written, except for a in triangular systems; b is NULL for factorizations. */
    const br_tensor *a, *b;
    /* i32 [.., n]: row i was exchanged with row pivots[i] - 1, i = 0, ..; LU and SOLVE only */
    const br_tensor *pivots;
    /* i64 [..]: 0, or the first i for which U[i, i] is 0, or the leading minor of order i is not
     * positive, counted from 1; NULL for triangular systems */
    const br_tensor *info;
    bool upper, unit; /* the triangle; the elements of its diagonal count as 1 */
} br_linalg_work;

#endif
