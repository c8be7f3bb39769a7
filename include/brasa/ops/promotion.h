/* brasa/ops/promotion.h - the dtype of a result of operands of several dtypes, as in PyTorch; part
 * of brasa/ops.h. Implemented in ops/pointwise/promotion.c.
 *
 * Arithmetic, functions of two tensors, comparisons, br_where(), br_cat() and br_stack() convert
 * operands of different dtypes to br_result_type() of them. Gradients have the dtypes of the
 * operands. An operation in place computes in this dtype, too, and converts the result to the
 * dtype of the tensor that it changes, if br_can_cast() allows it. Products, norms, attention and
 * most losses require one dtype. */
#ifndef BRASA_OPS_PROMOTION_H
#define BRASA_OPS_PROMOTION_H

#include <brasa/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Returns the dtype to which operands of the two dtypes are converted. A floating-point dtype is
 * above integers, and these are above bool. Two dtypes of a kind give the smallest one that
 * represents both: f32 for bf16 and f16; i32 for i8 and u8, for which PyTorch has i16. */
BR_API br_dtype br_promote_types(br_dtype a, br_dtype b);
/* Returns the dtype of a result of n tensors, n >= 1. Tensors without dimensions change the dtype
 * of the others only if they are of a higher kind: bf16 [3] and f64 [] give bf16, i64 [3] and f64
 * [] give f64. Returns BR_F32 with an error if a tensor is NULL. */
BR_API br_dtype br_result_type(int n, br_tensor *const *tensors);
/* Returns the dtype of a result of t and a number. A number that is not whole changes an integer
 * dtype or bool to f32, a whole one, which must fit into i64, changes bool to i64. */
BR_API br_dtype br_result_type_scalar(const br_tensor *t, double s);
/* Returns whether results of a dtype may be stored in a tensor of another one: unless a float would
 * become an integer or bool, or an integer bool. */
BR_API bool br_can_cast(br_dtype from, br_dtype to);

#ifdef __cplusplus
}
#endif

#endif
