/* brasa/ops/matmul.h - products of matrices and vectors, linear layers, Einstein notation; part of
 * brasa/ops.h. Floating-point dtypes and integers, whose products wrap around.
 * br_set_float32_matmul_precision() of brasa/tensor.h makes f32 products faster and less accurate.
 * Implemented in ops/matmul/. */
#ifndef BRASA_OPS_MATMUL_H
#define BRASA_OPS_MATMUL_H

#include <brasa/autograd.h>

#ifdef __cplusplus
extern "C" {
#endif

BR_API br_tensor *br_mm(br_tensor *a, br_tensor *b);  /* [n,k] x [k,m] -> [n,m] */
BR_API br_tensor *br_bmm(br_tensor *a, br_tensor *b); /* [b,n,k] x [b,k,m] -> [b,n,m] */
/* Multiplies like torch.matmul: dot product, matrix-vector and matrix-matrix product, and batches
 * of them whose leading dimensions broadcast. */
BR_API br_tensor *br_matmul(br_tensor *a, br_tensor *b);
BR_API br_tensor *br_mv(br_tensor *a, br_tensor *b);    /* [n,k] x [k] -> [n] */
BR_API br_tensor *br_dot(br_tensor *a, br_tensor *b);   /* [k] x [k] -> [] */
BR_API br_tensor *br_outer(br_tensor *a, br_tensor *b); /* [n] x [m] -> [n,m] */
/* Return beta * input + alpha * product (PyTorch's defaults are 1 and 1). The product is mat1 mat2,
 * mat vec, the batch of products batch1 batch2, or the sum of that batch (br_addbmm()). input
 * broadcasts to the product; if beta is 0, input is ignored, even if it is NaN. For
 * integers, beta and alpha are truncated. */
BR_API br_tensor *br_addmm(br_tensor *input, br_tensor *mat1, br_tensor *mat2, double beta,
                           double alpha);
BR_API br_tensor *br_addmv(br_tensor *input, br_tensor *mat, br_tensor *vec, double beta,
                           double alpha);
BR_API br_tensor *br_baddbmm(br_tensor *input, br_tensor *batch1, br_tensor *batch2, double beta,
                             double alpha);
BR_API br_tensor *br_addbmm(br_tensor *input, br_tensor *batch1, br_tensor *batch2, double beta,
                            double alpha);
/* Returns beta * input + alpha * outer product of vec1 [n] and vec2 [m], in the same way. bool
 * operands stay bool. */
BR_API br_tensor *br_addr(br_tensor *input, br_tensor *vec1, br_tensor *vec2, double beta,
                          double alpha);
/* Returns the cross products of vectors of three elements along dim; a and b broadcast. dim BR_ALL
 * is the first dimension of size 3, as in torch.cross; torch.linalg.cross has -1. */
BR_API br_tensor *br_cross(br_tensor *a, br_tensor *b, int64_t dim);
/* Sums the products of a and b over pairs of dimensions: a_dims[i] of a and b_dims[i] of b. The
 * result has the other dimensions of a, and then those of b. PyTorch's dims=n is the last n of a
 * and the first n of b. */
BR_API br_tensor *br_tensordot(br_tensor *a, br_tensor *b, int na, const int64_t *a_dims, int nb,
                               const int64_t *b_dims);
/* Returns the Kronecker product: each element of a times all of b, as blocks. */
BR_API br_tensor *br_kron(br_tensor *a, br_tensor *b);
/* Computes a sum of products in Einstein notation: br_einsum("bij,bjk->bik", BR_INPUTS(a, b)). A
 * letter names a dimension; "..." stands for the unnamed ones, which broadcast. Dimensions that the
 * result does not have are summed; a letter that is repeated in one operand selects its diagonal.
 * Without "->" the result has "..." and the letters that occur once, in alphabetical order, upper
 * case first. */
BR_API br_tensor *br_einsum(const char *equation, int n, br_tensor *const *operands);
/* Returns x weight^T + bias for x [*, in], weight [out, in], bias [out] or NULL: [*, out]. With a
 * weight [in] and a bias [] or NULL the result is [*]. */
BR_API br_tensor *br_f_linear(br_tensor *x, br_tensor *weight, br_tensor *bias);
/* Returns x1^T weight[o] x2 + bias[o] for x1 [*, in1], x2 [*, in2], weight [out, in1, in2] and bias
 * [out] or NULL: [*, out]. */
BR_API br_tensor *br_f_bilinear(br_tensor *x1, br_tensor *x2, br_tensor *weight, br_tensor *bias);

#ifdef __cplusplus
}
#endif

#endif
