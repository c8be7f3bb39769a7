/* backends/cpu/gemm/gemm.h - matrix products of floating-point dtypes on plain memory.
 *
 * Operands may have any strides: transposed, strided and broadcast operands need no contiguous
 * copy. The results do not depend on the number of threads. f32 operands are rounded to bf16 if
 * br_set_float32_matmul_precision() allows it. Products of bf16 and f16 are summed in f32, and an
 * element of C is rounded once; their operands must not be listed. */
#ifndef BR_GEMM_H
#define BR_GEMM_H

#include "tensor/dtype.h"

#include <stdbool.h>
#include <stdint.h>

enum { BR_GEMM_BATCH_DIMS = 8 };
enum { BR_GEMM_PADDING = 64 }; /* bytes after each listed element of B that must be readable */

/* C = A B or C = A B + bias, or either added to C, for each combination of batch indices. Strides
 * are in elements; a batch stride of 0 reuses an operand. */
typedef struct br_gemm {
    br_dtype dtype;
    int64_t m, n, k; /* C [m, n], A [m, k], B [k, n]; any may be 0 */
    const void *a, *b;
    void *c; /* the elements of a row are contiguous */
    int64_t a_row, a_col, b_row, b_col, c_row;
    const void *bias; /* [n], contiguous, added to every row; or NULL */
    /* If these are not NULL, B(p, j) is b[b_rows[p] + b_columns[j]] and C(i, j) is c[i * c_row +
     * c_columns[j]]; b_row and b_col are ignored, and there must be no bias. Columns are in
     * ascending order. BR_GEMM_PADDING more bytes must be readable after each listed element of
     * B. */
    const int64_t *b_rows, *b_columns, *c_columns;
    bool accumulate;
    int batch_ndim; /* 0: one product; the first index varies fastest */
    int64_t batch_sizes[BR_GEMM_BATCH_DIMS];
    int64_t a_batch[BR_GEMM_BATCH_DIMS], b_batch[BR_GEMM_BATCH_DIMS], c_batch[BR_GEMM_BATCH_DIMS];
} br_gemm;

/* Computes the products. Returns false with an error if memory for packing A cannot be allocated.
 */
bool br__gemm(const br_gemm *g);

struct br_gemm_kernels;
/* Returns the size of the k-blocks into which these kernels divide k products. The last one may be
 * smaller. */
int64_t br__gemm_k_block(const struct br_gemm_kernels *kernels, int64_t k);

/* gemm_blis.c: computes one product by BLIS in the caller's thread; ignores the batch and the bias.
 * For processors with neither AVX2 nor AVX-512. m, n and k must be at least 1. */
void br__gemm_blis(const br_gemm *g);

#endif
