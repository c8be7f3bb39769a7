/* ops/kernels/gemm.h - matrix products of f32 and f64 over plain memory.
 *
 * Operands may have any strides: transposed, strided and broadcast ones are multiplied as they lie.
 * What an element of C comes to does not depend on the number of threads. */
#ifndef BR_GEMM_H
#define BR_GEMM_H

#include <stdbool.h>
#include <stdint.h>

enum { BR_GEMM_BATCH_DIMS = 8 };

/* C = A B, C = A B + bias, or either added to C, for each combination of batch indices. Strides are
 * in elements; batch strides of 0 use an operand again. */
typedef struct br_gemm {
    bool is_double;
    int64_t m, n, k; /* C [m, n], A [m, k], B [k, n]; any may be 0 */
    const void *a, *b;
    void *c; /* rows without gaps inside */
    int64_t a_row, a_col, b_row, b_col, c_row;
    const void *bias; /* [n] without gaps, added to every row; or NULL */
    /* Not NULL: B(p, j) is b[b_rows[p] + b_columns[j]], whatever b_row and b_col say, and C(i, j)
     * is c[i * c_row + c_columns[j]]; then there is no bias. Listed columns ascend. Behind each
     * element of B that is listed 64 bytes more can be read. */
    const int64_t *b_rows, *b_columns, *c_columns;
    bool accumulate;
    int batch_ndim; /* 0: one product; the first index runs fastest */
    int64_t batch_sizes[BR_GEMM_BATCH_DIMS];
    int64_t a_batch[BR_GEMM_BATCH_DIMS], b_batch[BR_GEMM_BATCH_DIMS], c_batch[BR_GEMM_BATCH_DIMS];
} br_gemm;

/* False and an error if memory for a packed copy of A fails. */
bool br__gemm(const br_gemm *g);

/* gemm_blis.c: one product, no batch, in the caller's thread, by BLIS. For processors that have
 * none of our own kernels; m, n and k are at least 1 and there is no bias. */
void br__gemm_blis(const br_gemm *g);

#endif
