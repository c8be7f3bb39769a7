/* backends/matmul.h - work of matrix products. */
#ifndef BR_BACKEND_MATMUL_H
#define BR_BACKEND_MATMUL_H

#include <brasa/tensor.h>

/* C = A B + bias, or C += A B, for batches of matrices of one dtype, which is not
 * bool. A, B and the bias have any strides. The batches of A and B broadcast to the batch of C,
 * which is contiguous. B may be a quantized matrix if the others are f32; the CPU also takes
 * a contiguous matrix of bf16 or f16. */
typedef struct br_matmul_tensors {
    const br_tensor *a;    /* [..., m, k], or [k]: one row */
    const br_tensor *b;    /* [..., k, n], or [k]: one column */
    const br_tensor *bias; /* [n], or NULL; NULL if `accumulate` */
    const br_tensor *c;    /* [..., m, n], without m if A is one row, or n if B is one column */
    bool a_transposed, b_transposed; /* then a is [..., k, m], and b [..., n, k] */
    bool accumulate;                 /* add the product to C */
} br_matmul_tensors;

#endif
