/* brasa/ops/in_place.h - operations that change their first argument in place; part of
 * brasa/ops.h. */
#ifndef BRASA_OPS_IN_PLACE_H
#define BRASA_OPS_IN_PLACE_H

#include <brasa/autograd.h>

#ifdef __cplusplus
extern "C" {
#endif

/* These change a in place and return it. b must broadcast to the shape of a. They fail on a leaf
 * that requires grad while grad mode is on, as in PyTorch. */
BR_API br_tensor *br_add_(br_tensor *a, br_tensor *b);
BR_API br_tensor *br_mul_(br_tensor *a, br_tensor *b);
BR_API br_tensor *br_add_scalar_(br_tensor *a, double s);
BR_API br_tensor *br_mul_scalar_(br_tensor *a, double s);
BR_API br_tensor *br_sub_(br_tensor *a, br_tensor *b);
BR_API br_tensor *br_sub_scalar_(br_tensor *a, double s);
BR_API br_tensor *br_div_scalar_(br_tensor *a, double s);
BR_API br_tensor *br_pow_scalar_(br_tensor *a, double s);
/* Only these two accept an expanded tensor, whose elements share memory, as in PyTorch. */
BR_API br_tensor *br_fill_(br_tensor *a, double value);
BR_API br_tensor *br_zero_(br_tensor *a);
/* Fills elements (i, i, ...) of a, of at least two dimensions, which are equal if there are more.
 * If `wrap`, the diagonal of a matrix with more rows than columns begins anew below each square,
 * after an empty row. PyTorch's default is false. */
BR_API br_tensor *br_fill_diagonal_(br_tensor *a, double value, bool wrap);
/* Fill t (floating-point) with random numbers, as Tensor.uniform_ and Tensor.normal_ do, and return
 * it. low must be at most high, std at least 0. A view that is not contiguous is filled in memory
 * order. The gradient with respect to the old elements is 0. */
BR_API br_tensor *br_uniform_(br_tensor *t, double low, double high);
BR_API br_tensor *br_normal_(br_tensor *t, double mean, double std);
/* Copies the elements of b to a, converted to a's dtype. */
BR_API br_tensor *br_copy_(br_tensor *a, br_tensor *b);
BR_API br_tensor *br_masked_fill_(br_tensor *a, br_tensor *mask, double value);

/* Unary and binary functions: a = function(a), or a = function(a, b). */
BR_API br_tensor *br_neg_(br_tensor *a);
BR_API br_tensor *br_abs_(br_tensor *a);
BR_API br_tensor *br_sign_(br_tensor *a);
BR_API br_tensor *br_floor_(br_tensor *a);
BR_API br_tensor *br_ceil_(br_tensor *a);
BR_API br_tensor *br_round_(br_tensor *a);
BR_API br_tensor *br_trunc_(br_tensor *a);
BR_API br_tensor *br_exp_(br_tensor *a);
BR_API br_tensor *br_exp2_(br_tensor *a);
BR_API br_tensor *br_expm1_(br_tensor *a);
BR_API br_tensor *br_log_(br_tensor *a);
BR_API br_tensor *br_log2_(br_tensor *a);
BR_API br_tensor *br_log10_(br_tensor *a);
BR_API br_tensor *br_log1p_(br_tensor *a);
BR_API br_tensor *br_sqrt_(br_tensor *a);
BR_API br_tensor *br_rsqrt_(br_tensor *a);
BR_API br_tensor *br_reciprocal_(br_tensor *a);
BR_API br_tensor *br_square_(br_tensor *a);
BR_API br_tensor *br_sin_(br_tensor *a);
BR_API br_tensor *br_cos_(br_tensor *a);
BR_API br_tensor *br_sinc_(br_tensor *a);
BR_API br_tensor *br_tan_(br_tensor *a);
BR_API br_tensor *br_asin_(br_tensor *a);
BR_API br_tensor *br_acos_(br_tensor *a);
BR_API br_tensor *br_atan_(br_tensor *a);
BR_API br_tensor *br_sinh_(br_tensor *a);
BR_API br_tensor *br_cosh_(br_tensor *a);
BR_API br_tensor *br_tanh_(br_tensor *a);
BR_API br_tensor *br_asinh_(br_tensor *a);
BR_API br_tensor *br_acosh_(br_tensor *a);
BR_API br_tensor *br_atanh_(br_tensor *a);
BR_API br_tensor *br_erf_(br_tensor *a);
BR_API br_tensor *br_erfc_(br_tensor *a);
BR_API br_tensor *br_sigmoid_(br_tensor *a);
BR_API br_tensor *br_relu_(br_tensor *a);
BR_API br_tensor *br_silu_(br_tensor *a);
BR_API br_tensor *br_div_(br_tensor *a, br_tensor *b);
BR_API br_tensor *br_pow_(br_tensor *a, br_tensor *b);
BR_API br_tensor *br_atan2_(br_tensor *a, br_tensor *b);
BR_API br_tensor *br_hypot_(br_tensor *a, br_tensor *b);
BR_API br_tensor *br_fmod_(br_tensor *a, br_tensor *b);
BR_API br_tensor *br_remainder_(br_tensor *a, br_tensor *b);
BR_API br_tensor *br_floor_divide_(br_tensor *a, br_tensor *b);
BR_API br_tensor *br_xlogy_(br_tensor *a, br_tensor *b);
BR_API br_tensor *br_clamp_(br_tensor *a, double min, double max);
BR_API br_tensor *br_lerp_(br_tensor *a, br_tensor *end, br_tensor *weight);
BR_API br_tensor *br_addcmul_(br_tensor *a, br_tensor *tensor1, br_tensor *tensor2, double value);
BR_API br_tensor *br_addcdiv_(br_tensor *a, br_tensor *tensor1, br_tensor *tensor2, double value);

/* Writing by index; see the functions without "_" in brasa/ops.h. */
BR_API br_tensor *br_scatter_(br_tensor *x, int64_t dim, br_tensor *index, br_tensor *src);
BR_API br_tensor *br_scatter_scalar_(br_tensor *x, int64_t dim, br_tensor *index, double value);
BR_API br_tensor *br_scatter_add_(br_tensor *x, int64_t dim, br_tensor *index, br_tensor *src);
BR_API br_tensor *br_index_copy_(br_tensor *x, int64_t dim, br_tensor *index, br_tensor *source);
BR_API br_tensor *br_index_add_(br_tensor *x, int64_t dim, br_tensor *index, br_tensor *source,
                                double alpha);
BR_API br_tensor *br_index_fill_(br_tensor *x, int64_t dim, br_tensor *index, double value);

#ifdef __cplusplus
}
#endif
#endif
