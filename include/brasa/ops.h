/* brasa/ops.h - the differentiable operations, by family.
 *
 * Names, argument order and semantics are PyTorch's. Unless said otherwise: tensors of one call
 * have the same dtype (br_to() converts), shapes broadcast as in NumPy, dimensions may be negative
 * (-1 is the last), results are new tensors of the innermost scope, and gradients exist for f32 and
 * f64. A function that shares its name with a module of nn.h is written as in PyTorch's F.linear:
 * br_f_linear(). On bad input the result is NULL and the message names the operation, the argument,
 * the shapes and the rule. */
#ifndef BRASA_OPS_H
#define BRASA_OPS_H

#include <brasa/autograd.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Arithmetic (ops/arithmetic.c): f32, f64, i64 ------------------------------------------- */

/* A scalar is rounded to the tensor's dtype first; i64 takes integers only, bool 0 and 1. Integer
 * arithmetic wraps around. */

BR_API br_tensor *br_add(br_tensor *a, br_tensor *b); /* a + b */
BR_API br_tensor *br_sub(br_tensor *a, br_tensor *b); /* a - b */
BR_API br_tensor *br_mul(br_tensor *a, br_tensor *b); /* a * b */
BR_API br_tensor *br_div(br_tensor *a, br_tensor *b); /* a / b; f32, f64 */
BR_API br_tensor *br_pow(br_tensor *a, br_tensor *b); /* a ^ b; f32, f64 */
BR_API br_tensor *br_neg(br_tensor *a);               /* -a */
BR_API br_tensor *br_add_scalar(br_tensor *a, double s);
BR_API br_tensor *br_sub_scalar(br_tensor *a, double s);
BR_API br_tensor *br_rsub_scalar(br_tensor *a, double s); /* s - a */
BR_API br_tensor *br_mul_scalar(br_tensor *a, double s);
BR_API br_tensor *br_div_scalar(br_tensor *a, double s);
BR_API br_tensor *br_rdiv_scalar(br_tensor *a, double s); /* s / a */
BR_API br_tensor *br_pow_scalar(br_tensor *a, double s);

/* ---- Functions of one element (ops/functions.c, activation.c): f32, f64 ---------------------- */

BR_API br_tensor *br_exp(br_tensor *x);
BR_API br_tensor *br_log(br_tensor *x);
BR_API br_tensor *br_sqrt(br_tensor *x);
BR_API br_tensor *br_rsqrt(br_tensor *x); /* 1 / sqrt(x) */
BR_API br_tensor *br_sin(br_tensor *x);
BR_API br_tensor *br_cos(br_tensor *x);
BR_API br_tensor *br_erf(br_tensor *x);
BR_API br_tensor *br_tanh(br_tensor *x);
BR_API br_tensor *br_sigmoid(br_tensor *x); /* 1 / (1 + exp(-x)) */
BR_API br_tensor *br_relu(br_tensor *x);    /* max(x, 0); the gradient at 0 is 0 */

/* Of i64 too. The gradient of |x| at 0 is 0, that of the steps is 0 everywhere. */
BR_API br_tensor *br_abs(br_tensor *x);
BR_API br_tensor *br_sign(br_tensor *x); /* -1, 0 or 1; 0 for NaN */
BR_API br_tensor *br_floor(br_tensor *x);
BR_API br_tensor *br_ceil(br_tensor *x);
BR_API br_tensor *br_round(br_tensor *x); /* halves to the even neighbour */
/* Rounded to that many decimals, or, below 0, to tens; f32, f64. */
BR_API br_tensor *br_round_decimals(br_tensor *x, int64_t decimals);
/* x brought into min .. max, of i64 too; max where min is larger. -INFINITY and INFINITY are no
 * bound, NaN makes everything NaN, and NaN stays. The gradient passes strictly between them. */
BR_API br_tensor *br_clamp(br_tensor *x, double min, double max);

BR_API br_tensor *br_silu(br_tensor *x); /* x sigmoid(x) */
/* x above 0, negative_slope x below (PyTorch's default is 0.01). */
BR_API br_tensor *br_leaky_relu(br_tensor *x, double negative_slope);
/* x above 0, alpha (exp(x) - 1) below (PyTorch's default is 1). */
BR_API br_tensor *br_elu(br_tensor *x, double alpha);
/* log(1 + exp(beta x)) / beta, and x where beta x is above the threshold (PyTorch's defaults are 1
 * and 20). */
BR_API br_tensor *br_softplus(br_tensor *x, double beta, double threshold);

/* ops/functions.c. */
BR_API br_tensor *br_exp2(br_tensor *x);
BR_API br_tensor *br_expm1(br_tensor *x); /* exp(x) - 1 */
BR_API br_tensor *br_log2(br_tensor *x);
BR_API br_tensor *br_log10(br_tensor *x);
BR_API br_tensor *br_log1p(br_tensor *x); /* log(1 + x) */
BR_API br_tensor *br_tan(br_tensor *x);
BR_API br_tensor *br_asin(br_tensor *x);
BR_API br_tensor *br_acos(br_tensor *x);
BR_API br_tensor *br_atan(br_tensor *x);
BR_API br_tensor *br_sinh(br_tensor *x);
BR_API br_tensor *br_cosh(br_tensor *x);
BR_API br_tensor *br_asinh(br_tensor *x);
BR_API br_tensor *br_acosh(br_tensor *x);
BR_API br_tensor *br_atanh(br_tensor *x);
BR_API br_tensor *br_erfc(br_tensor *x); /* 1 - erf(x) */
BR_API br_tensor *br_reciprocal(br_tensor *x);
BR_API br_tensor *br_square(br_tensor *x);      /* of i64, too; and so is trunc */
BR_API br_tensor *br_trunc(br_tensor *x);       /* towards 0; its gradient is 0 */
BR_API br_tensor *br_frac(br_tensor *x);        /* x - trunc(x) */
BR_API br_tensor *br_logsigmoid(br_tensor *x);  /* log sigmoid(x) */
BR_API br_tensor *br_softsign(br_tensor *x);    /* x / (1 + |x|) */
BR_API br_tensor *br_mish(br_tensor *x);        /* x tanh(softplus(x)) */
BR_API br_tensor *br_relu6(br_tensor *x);       /* x brought into 0 .. 6 */
BR_API br_tensor *br_hardsigmoid(br_tensor *x); /* relu6(x + 3) / 6 */
BR_API br_tensor *br_hardswish(br_tensor *x);   /* x hardsigmoid(x) */
BR_API br_tensor *br_selu(br_tensor *x);        /* 1.0507 elu(x, 1.6733) */
BR_API br_tensor *br_tanhshrink(br_tensor *x);  /* x - tanh(x) */
/* x brought into min .. max (PyTorch's defaults are -1 and 1). */
BR_API br_tensor *br_hardtanh(br_tensor *x, double min, double max);
/* alpha elu(x / alpha, 1) (PyTorch's default is 1). */
BR_API br_tensor *br_celu(br_tensor *x, double alpha);
/* 0 in -lambda .. lambda, and x outside, or x brought nearer to 0 by lambda (PyTorch's default is
 * 0.5). */
BR_API br_tensor *br_hardshrink(br_tensor *x, double lambda);
BR_API br_tensor *br_softshrink(br_tensor *x, double lambda);
/* x above the threshold, else `value`. */
BR_API br_tensor *br_threshold(br_tensor *x, double threshold, double value);
/* The first half of dimension dim times the sigmoid of the second (PyTorch's default is -1). */
BR_API br_tensor *br_glu(br_tensor *x, int64_t dim);
/* x above 0, weight x below: one weight, or one for each of dimension 1. */
BR_API br_tensor *br_f_prelu(br_tensor *x, br_tensor *weight);

typedef enum br_gelu_form {
    BR_GELU_ERF,  /* x/2 (1 + erf(x / sqrt 2)) */
    BR_GELU_TANH, /* x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) */
} br_gelu_form;
/* Gaussian error linear unit, Hendrycks and Gimpel, 2016. */
BR_API br_tensor *br_gelu(br_tensor *x, br_gelu_form form);
/* In place, as what brasa/ops/in_place.h has. */
BR_API br_tensor *br_gelu_(br_tensor *a, br_gelu_form form);

/* ---- Between tensors (ops/between.c, functions.c) -------------------------------------------- */

/* Element by element, of any dtype; NaN if either is NaN. Equal elements share the gradient. */
BR_API br_tensor *br_maximum(br_tensor *a, br_tensor *b);
BR_API br_tensor *br_minimum(br_tensor *a, br_tensor *b);
/* x brought into min .. max, of which one may be NULL; all broadcast. */
BR_API br_tensor *br_clamp_tensor(br_tensor *x, br_tensor *min, br_tensor *max);
/* input + value tensor1 tensor2, or input + value tensor1 / tensor2. */
BR_API br_tensor *br_addcmul(br_tensor *input, br_tensor *tensor1, br_tensor *tensor2,
                             double value);
BR_API br_tensor *br_addcdiv(br_tensor *input, br_tensor *tensor1, br_tensor *tensor2,
                             double value);
/* ops/functions.c, f32 and f64: the angle of (b, a), the length of (a, b), log(exp(a) + exp(b)),
 * and a log(b), 0 where a is. */
BR_API br_tensor *br_atan2(br_tensor *a, br_tensor *b);
BR_API br_tensor *br_hypot(br_tensor *a, br_tensor *b);
BR_API br_tensor *br_logaddexp(br_tensor *a, br_tensor *b);
BR_API br_tensor *br_xlogy(br_tensor *a, br_tensor *b);
/* Of i64, too, of which none is divided by 0: the rest of a / b of a's or of b's sign, the floor of
 * a / b, and torch.div's rounding_mode. */
BR_API br_tensor *br_fmod(br_tensor *a, br_tensor *b);
BR_API br_tensor *br_remainder(br_tensor *a, br_tensor *b);
BR_API br_tensor *br_floor_divide(br_tensor *a, br_tensor *b);
typedef enum br_rounding_mode {
    BR_ROUNDING_NONE, /* as br_div */
    BR_ROUNDING_TRUNC,
    BR_ROUNDING_FLOOR,
} br_rounding_mode;
BR_API br_tensor *br_div_mode(br_tensor *a, br_tensor *b, br_rounding_mode mode);
/* start + weight (end - start); the three broadcast. f32, f64. */
BR_API br_tensor *br_lerp(br_tensor *start, br_tensor *end, br_tensor *weight);
BR_API br_tensor *br_lerp_scalar(br_tensor *start, br_tensor *end, double weight);

/* ---- Comparison and choice (ops/compare.c) --------------------------------------------------- */

/* Bool results, no gradient; any dtype. */
BR_API br_tensor *br_eq(br_tensor *a, br_tensor *b);
BR_API br_tensor *br_ne(br_tensor *a, br_tensor *b);
BR_API br_tensor *br_lt(br_tensor *a, br_tensor *b);
BR_API br_tensor *br_le(br_tensor *a, br_tensor *b);
BR_API br_tensor *br_gt(br_tensor *a, br_tensor *b);
BR_API br_tensor *br_ge(br_tensor *a, br_tensor *b);
BR_API br_tensor *br_eq_scalar(br_tensor *a, double s);
BR_API br_tensor *br_ne_scalar(br_tensor *a, double s);
BR_API br_tensor *br_lt_scalar(br_tensor *a, double s);
BR_API br_tensor *br_le_scalar(br_tensor *a, double s);
BR_API br_tensor *br_gt_scalar(br_tensor *a, double s);
BR_API br_tensor *br_ge_scalar(br_tensor *a, double s);
/* Of any dtype: what is not 0 is true. */
BR_API br_tensor *br_logical_and(br_tensor *a, br_tensor *b);
BR_API br_tensor *br_logical_or(br_tensor *a, br_tensor *b);
BR_API br_tensor *br_logical_xor(br_tensor *a, br_tensor *b);
BR_API br_tensor *br_logical_not(br_tensor *a);
/* Bool results of any dtype: integers are finite. */
BR_API br_tensor *br_isnan(br_tensor *x);
BR_API br_tensor *br_isinf(br_tensor *x);
BR_API br_tensor *br_isfinite(br_tensor *x);
/* Where |a - b| <= atol + rtol |b|, or a and b are equal, or, with equal_nan, both are NaN; the two
 * broadcast (PyTorch's defaults are 1e-5, 1e-8 and false). */
BR_API br_tensor *br_isclose(br_tensor *a, br_tensor *b, double rtol, double atol, bool equal_nan);
/* a where the bool tensor `condition` is true, else b; the three broadcast. */
BR_API br_tensor *br_where(br_tensor *condition, br_tensor *a, br_tensor *b);
/* x with `value` where the bool `mask` is true; the two broadcast. */
BR_API br_tensor *br_masked_fill(br_tensor *x, br_tensor *mask, double value);
/* The same with a 0-d tensor of x's dtype. */
BR_API br_tensor *br_masked_fill_tensor(br_tensor *x, br_tensor *mask, br_tensor *value);
/* x as another dtype. Floats become integers by truncation, everything but 0 becomes true. The
 * gradient goes back in x's dtype. Returns x itself if it has that dtype. */
BR_API br_tensor *br_to(br_tensor *x, br_dtype dtype);
/* True if shapes and dtypes are equal and all elements are: exactly, or with
 * |a - b| <= atol + rtol |b|. NaN is equal to nothing. False while an error is pending. */
BR_API bool br_equal(br_tensor *a, br_tensor *b);
BR_API bool br_allclose(br_tensor *a, br_tensor *b, double rtol, double atol);

/* ---- Reductions (ops/reduce.c, extreme.c, statistics.c, scan.c) ------------------------------ */

/* Over all elements, to a 0-d tensor. Sums of i64 and bool are i64; means want f32 or f64. */
BR_API br_tensor *br_sum(br_tensor *x);
BR_API br_tensor *br_mean(br_tensor *x);
BR_API br_tensor *br_max(br_tensor *x); /* the gradient is shared evenly among equal maxima */
BR_API br_tensor *br_min(br_tensor *x);
BR_API br_tensor *br_prod(br_tensor *x); /* of i64 and bool i64 */
/* Whether all are true, or any is; what is not 0 is true, and all of nothing are. Bool. */
BR_API br_tensor *br_all(br_tensor *x);
BR_API br_tensor *br_any(br_tensor *x);
/* Over the given dimensions: br_sum_dim(x, BR_DIMS(0, -1), true). keepdim leaves them with size 1.
 */
BR_API br_tensor *br_sum_dim(br_tensor *x, int ndims, const int64_t *dims, bool keepdim);
BR_API br_tensor *br_mean_dim(br_tensor *x, int ndims, const int64_t *dims, bool keepdim);
BR_API br_tensor *br_all_dim(br_tensor *x, int ndims, const int64_t *dims, bool keepdim);
BR_API br_tensor *br_any_dim(br_tensor *x, int ndims, const int64_t *dims, bool keepdim);
BR_API br_tensor *br_prod_dim(br_tensor *x, int64_t dim, bool keepdim);
/* The largest element along dim and, unless `indices` is NULL, its first position (i64) in
 * *indices. NaN counts as largest. The gradient goes to that position. */
BR_API br_tensor *br_max_dim(br_tensor *x, int64_t dim, bool keepdim, br_tensor **indices);
/* The same for the smallest; NaN counts as smallest, too. */
BR_API br_tensor *br_min_dim(br_tensor *x, int64_t dim, bool keepdim, br_tensor **indices);
/* First position of the largest or smallest element along dim, or in the flattened x for BR_ALL
 * (i64). */
BR_API br_tensor *br_argmax(br_tensor *x, int64_t dim, bool keepdim);
BR_API br_tensor *br_argmin(br_tensor *x, int64_t dim, bool keepdim);
/* x summed down to a shape that broadcasts to x's: the adjoint of br_expand(). */
BR_API br_tensor *br_sum_to_size(br_tensor *x, int ndim, const int64_t *sizes);

/* Sum of (x - mean)^2 / (n - correction), and its square root: over all elements, or over the given
 * dimensions. PyTorch's default for correction is 1. f32, f64; so are the ones below. */
BR_API br_tensor *br_var(br_tensor *x, double correction);
BR_API br_tensor *br_std(br_tensor *x, double correction);
BR_API br_tensor *br_var_dim(br_tensor *x, int ndims, const int64_t *dims, double correction,
                             bool keepdim);
BR_API br_tensor *br_std_dim(br_tensor *x, int ndims, const int64_t *dims, double correction,
                             bool keepdim);
/* (sum of |x|^p)^(1/p); the largest |x| for p = INFINITY, the smallest for -INFINITY, the number of
 * elements that are not 0 for p = 0. */
BR_API br_tensor *br_norm(br_tensor *x, double p);
BR_API br_tensor *br_norm_dim(br_tensor *x, double p, int ndims, const int64_t *dims, bool keepdim);
/* log of the sum of exp(x), computed from x - max x. */
BR_API br_tensor *br_logsumexp(br_tensor *x, int ndims, const int64_t *dims, bool keepdim);

/* ---- Running sums and order (ops/scan.c, sort.c) --------------------------------------------- */

/* Element i is the sum, or the product, of elements 0 .. i along dim; of bools i64. Where x has
 * zeros, cumprod's gradient takes memory for the size of dim times x. */
BR_API br_tensor *br_cumsum(br_tensor *x, int64_t dim);
BR_API br_tensor *br_cumprod(br_tensor *x, int64_t dim);
/* x in order along dim and, unless `indices` is NULL, where each element stood (i64) in *indices.
 * NaN counts as largest; equal elements keep their order. Any dtype. */
BR_API br_tensor *br_sort(br_tensor *x, int64_t dim, bool descending, br_tensor **indices);
BR_API br_tensor *br_argsort(br_tensor *x, int64_t dim, bool descending);
/* The k largest, or smallest, along dim in that order: br_sort()'s first k. */
BR_API br_tensor *br_topk(br_tensor *x, int64_t k, int64_t dim, bool largest, br_tensor **indices);
/* The middle element, the lower of two; NaN if there is one. The gradient is shared evenly among
 * equal ones, or goes to the one position along dim. */
BR_API br_tensor *br_median(br_tensor *x);
BR_API br_tensor *br_median_dim(br_tensor *x, int64_t dim, bool keepdim, br_tensor **indices);

/* ---- Shapes and views (ops/view.c, slice.c, diagonal.c, arrange.c): any dtype ---------------- */

/* A view where strides allow, else a copy. One size may be -1: it is inferred. */
BR_API br_tensor *br_reshape(br_tensor *x, int ndim, const int64_t *sizes);
/* The same, but an error where a copy would be needed. */
BR_API br_tensor *br_view(br_tensor *x, int ndim, const int64_t *sizes);
/* Merges dimensions start .. end, both included. */
BR_API br_tensor *br_flatten(br_tensor *x, int64_t start, int64_t end);
/* The other way: dimension dim becomes several, of which one size may be -1. */
BR_API br_tensor *br_unflatten(br_tensor *x, int64_t dim, int ndim, const int64_t *sizes);
BR_API br_tensor *br_unsqueeze(br_tensor *x, int64_t dim);
/* Removes dimension dim if its size is 1; with BR_ALL, every one of size 1. */
BR_API br_tensor *br_squeeze(br_tensor *x, int64_t dim);
/* Removes those of the dimensions that have size 1. */
BR_API br_tensor *br_squeeze_dims(br_tensor *x, int ndims, const int64_t *dims);
BR_API br_tensor *br_transpose(br_tensor *x, int64_t dim0, int64_t dim1);
/* Transpose of a matrix (at most 2 dimensions). */
BR_API br_tensor *br_t(br_tensor *x);
BR_API br_tensor *br_permute(br_tensor *x, int ndims, const int64_t *dims);
/* Dimension source[i] goes to place destination[i]; the others keep their order. */
BR_API br_tensor *br_movedim(br_tensor *x, int nsource, const int64_t *source, int ndestination,
                             const int64_t *destination);
/* Dimensions of size 1 repeated without copying; -1 keeps a size; new dimensions come in front. */
BR_API br_tensor *br_expand(br_tensor *x, int ndim, const int64_t *sizes);
BR_API br_tensor *br_expand_as(br_tensor *x, br_tensor *other);
/* Elements start, start + step, ... before end of a dimension; negative start and end count from
 * the end, both are clipped to the dimension, BR_ALL is its end; step is at least 1. */
BR_API br_tensor *br_slice(br_tensor *x, int64_t dim, int64_t start, int64_t end, int64_t step);
/* Slice number `index` of a dimension, which goes away. */
BR_API br_tensor *br_select(br_tensor *x, int64_t dim, int64_t index);
BR_API br_tensor *br_narrow(br_tensor *x, int64_t dim, int64_t start, int64_t length);
/* All parts of `size` elements of a dimension, each `step` behind the one before: the dimension
 * counts the parts, a new one at the end their elements (Tensor.unfold). */
BR_API br_tensor *br_unfold(br_tensor *x, int64_t dim, int64_t size, int64_t step);
/* Elements (i, i + offset) of dim1 and dim2 as one dimension, the last (PyTorch's defaults are 0, 0
 * and 1). */
BR_API br_tensor *br_diagonal(br_tensor *x, int64_t offset, int64_t dim1, int64_t dim2);
/* x itself if it is contiguous, else a copy that is. */
BR_API br_tensor *br_contiguous(br_tensor *x);
BR_API br_tensor *br_clone(br_tensor *x);

/* ---- All parts of a dimension (ops/split.c): any dtype --------------------------------------- */

/* Each writes views into parts[0 .. room - 1], NULL behind the last one, and returns their number;
 * -1 and NULL everywhere on error, also where there are more parts than room. An array and its room
 * are spelled BR_PARTS(array). */
#define BR_PARTS(array) (int)(sizeof(array) / sizeof(br_tensor *)), (array)

/* Parts of split_size; the last one may be smaller. */
BR_API int br_split(br_tensor *x, int64_t split_size, int64_t dim, int room, br_tensor **parts);
/* Parts of the sizes, which sum up to that of dim. */
BR_API int br_split_with_sizes(br_tensor *x, int n, const int64_t *sizes, int64_t dim,
                               br_tensor **parts);
/* At most `chunks` parts of equal size but the last. */
BR_API int br_chunk(br_tensor *x, int64_t chunks, int64_t dim, int room, br_tensor **parts);
/* Every slice along dim, without that dimension. */
BR_API int br_unbind(br_tensor *x, int64_t dim, int room, br_tensor **parts);

/* ---- Arranging and padding (ops/arrange.c, join.c, diagonal.c, pad.c): any dtype ------------- */

/* The order of elements along the dimensions reversed. */
BR_API br_tensor *br_flip(br_tensor *x, int ndims, const int64_t *dims);
/* Elements moved by `shifts` along the dims, and from the end to the front again; without dims, by
 * one shift among all elements. */
BR_API br_tensor *br_roll(br_tensor *x, int nshifts, const int64_t *shifts, int ndims,
                          const int64_t *dims);
/* x copied `counts` times along each dimension; new dimensions come in front. */
BR_API br_tensor *br_repeat(br_tensor *x, int ndim, const int64_t *counts);
/* The same; fewer counts than dimensions are those of the last ones. */
BR_API br_tensor *br_tile(br_tensor *x, int ndim, const int64_t *counts);
/* Each element along dim, or of the flattened x for BR_ALL, as often as `repeats` says: an i64
 * tensor of one count, or of one for each. */
BR_API br_tensor *br_repeat_interleave(br_tensor *x, br_tensor *repeats, int64_t dim);
BR_API br_tensor *br_repeat_interleave_scalar(br_tensor *x, int64_t repeats, int64_t dim);
/* Zeros with x's last dimension as the diagonal of dim1 and dim2 (PyTorch's defaults are 0, -2,
 * -1).
 */
BR_API br_tensor *br_diag_embed(br_tensor *x, int64_t offset, int64_t dim1, int64_t dim2);
/* A vector as the diagonal of a matrix; a matrix's diagonal as a vector, copied. */
BR_API br_tensor *br_diag(br_tensor *x, int64_t diagonal);
BR_API br_tensor *br_trace(br_tensor *x); /* the sum of a matrix's diagonal */
/* Rows and columns of the elements on and below (above) a diagonal: [2, n], i64. */
BR_API br_tensor *br_tril_indices(int64_t row, int64_t col, int64_t offset);
BR_API br_tensor *br_triu_indices(int64_t row, int64_t col, int64_t offset);

typedef enum br_pad_mode {
    BR_PAD_CONSTANT,  /* `value` */
    BR_PAD_REFLECT,   /* c b | a b c | b a */
    BR_PAD_REPLICATE, /* a a | a b c | c c */
    BR_PAD_CIRCULAR,  /* b c | a b c | a b */
} br_pad_mode;
/* Borders around x: pad[0] and pad[1] before and behind the last dimension, pad[2] and pad[3] the
 * one before, and so on, as in F.pad. Negative ones take elements away. Of n numbers, spelled
 * BR_DIMS(1, 1). */
BR_API br_tensor *br_pad(br_tensor *x, int n, const int64_t *pad, br_pad_mode mode, double value);

/* ---- Joining and indexing (ops/join.c, index.c, scatter*.c, masked.c, getitem.c): any dtype -- */

/* Tensors of equal sizes but for `dim`, one after the other. Spell them with BR_INPUTS(a, b).
 * Tensors of shape [0] may be among any others, and add nothing. */
BR_API br_tensor *br_cat(int n, br_tensor *const *tensors, int64_t dim);
/* Tensors of equal shapes along a new dimension. */
BR_API br_tensor *br_stack(int n, br_tensor *const *tensors, int64_t dim);

/* Indices are i64, at least 0 unless said otherwise; a 0-d tensor counts as one of size 1. */

/* The slices of x along dim that `index` (1-d) names. */
BR_API br_tensor *br_index_select(br_tensor *x, int64_t dim, br_tensor *index);
/* out[i][j][k] = x[i][index[i][j][k]][k] for dim = 1. index has x's number of dimensions and, but
 * for dim, sizes no larger than x's; the result has index's shape. */
BR_API br_tensor *br_gather(br_tensor *x, int64_t dim, br_tensor *index);
/* The same, where x and index broadcast but for dim; of the flattened tensors for BR_ALL. Negative
 * indices count from the end. */
BR_API br_tensor *br_take_along_dim(br_tensor *x, br_tensor *index, int64_t dim);
/* Elements of the flattened x, in index's shape; negative indices count from the end. */
BR_API br_tensor *br_take(br_tensor *x, br_tensor *index);
/* x[i0, i1, ...]: one index for each of the first dimensions, NULL for all of one, spelled
 * BR_INPUTS(i0, NULL, i2). They broadcast with each other; their shape takes the place of the
 * indexed dimensions, or stands in front where these are not side by side. Negative indices count
 * from the end; a bool tensor stands for the places where it is true. */
BR_API br_tensor *br_index(br_tensor *x, int n, br_tensor *const *indices);
/* x[...] with what stands between Python's brackets as text, "?" in it for a tensor:
 * br_getitem(x, "0:3, ..., None, ?, -1", BR_INPUTS(index)). Steps are at least 1; without tensors
 * the result is a view. (ops/getitem.c.) */
BR_API br_tensor *br_getitem(br_tensor *x, const char *items, int n, br_tensor *const *indices);
/* The elements for which the bool mask is true, in one dimension; x and mask broadcast. */
BR_API br_tensor *br_masked_select(br_tensor *x, br_tensor *mask);
/* Where x is not 0: [n, number of dimensions], i64. */
BR_API br_tensor *br_nonzero(br_tensor *x);

/* x with elements of src in other places, those that gather() would find: for dim = 1
 * out[i][index[i][j][k]][k] = src[i][j][k], the last one where indices are equal. src has sizes no
 * smaller than the index's. */
BR_API br_tensor *br_scatter(br_tensor *x, int64_t dim, br_tensor *index, br_tensor *src);
BR_API br_tensor *br_scatter_scalar(br_tensor *x, int64_t dim, br_tensor *index, double value);
/* The same, added to what is there; of bools, or. */
BR_API br_tensor *br_scatter_add(br_tensor *x, int64_t dim, br_tensor *index, br_tensor *src);

typedef enum br_scatter_reduction {
    BR_SCATTER_SUM,
    BR_SCATTER_PROD,
    BR_SCATTER_MEAN,
    BR_SCATTER_AMAX,
    BR_SCATTER_AMIN,
} br_scatter_reduction;
/* The same, reduced with what is there, unless that does not count: include_self is false. Means
 * are of f32 and f64. */
BR_API br_tensor *br_scatter_reduce(br_tensor *x, int64_t dim, br_tensor *index, br_tensor *src,
                                    br_scatter_reduction reduce, bool include_self);

/* x with slices of source in place of those along dim that `index` (1-d) names; the last one where
 * indices are equal. */
BR_API br_tensor *br_index_copy(br_tensor *x, int64_t dim, br_tensor *index, br_tensor *source);
/* The same, alpha times source added to what is there; of bools, or. */
BR_API br_tensor *br_index_add(br_tensor *x, int64_t dim, br_tensor *index, br_tensor *source,
                               double alpha);
/* `value`, or a 0-d tensor of x's dtype, in place of those slices; negative indices count from the
 * end. */
BR_API br_tensor *br_index_fill(br_tensor *x, int64_t dim, br_tensor *index, double value);
BR_API br_tensor *br_index_fill_tensor(br_tensor *x, int64_t dim, br_tensor *index,
                                       br_tensor *value);
/* x with values, which broadcast to br_index()'s result, in its places, or added there. */
BR_API br_tensor *br_index_put(br_tensor *x, int n, br_tensor *const *indices, br_tensor *values,
                               bool accumulate);
/* x with elements of source, in their order, where the bool mask is true; x and mask broadcast. */
BR_API br_tensor *br_masked_scatter(br_tensor *x, br_tensor *mask, br_tensor *source);

/* Rows of weight [n, d]: [*index, d]. The gradient leaves row padding_idx out (-1: no such row). */
BR_API br_tensor *br_f_embedding(br_tensor *weight, br_tensor *index, int64_t padding_idx);

/* ---- Classes and different elements (ops/unique.c): no gradients ----------------------------- */

/* For each index a row of num_classes zeros with 1 in the index's place, i64; -1: as many classes
 * as the largest index wants. */
BR_API br_tensor *br_one_hot(br_tensor *index, int64_t num_classes);
/* How often 0, 1, ... are in x (i64, 1-d), or the sums of their weights; at least minlength counts.
 * weights may be NULL. */
BR_API br_tensor *br_bincount(br_tensor *x, br_tensor *weights, int64_t minlength);
/* The different elements in order, 1-d; for each of x its place there (x's shape) and how often
 * each occurs, both i64, unless the pointers are NULL. NaN is different from every other. */
BR_API br_tensor *br_unique(br_tensor *x, br_tensor **inverse, br_tensor **counts);
/* The same of runs of equal elements, in x's order. */
BR_API br_tensor *br_unique_consecutive(br_tensor *x, br_tensor **inverse, br_tensor **counts);
/* The different slices along dim, ordered by their first elements that differ, or of runs of equal
 * ones: x with another size of dim; for each of its slices the place there (1-d), and how often
 * each occurs. */
BR_API br_tensor *br_unique_dim(br_tensor *x, int64_t dim, br_tensor **inverse, br_tensor **counts);
BR_API br_tensor *br_unique_consecutive_dim(br_tensor *x, int64_t dim, br_tensor **inverse,
                                            br_tensor **counts);

/* ---- Triangles (ops/index.c) ----------------------------------------------------------------- */

/* The elements on and below (above) diagonal number `diagonal` of the last two dimensions, else 0.
 */
BR_API br_tensor *br_tril(br_tensor *x, int64_t diagonal);
BR_API br_tensor *br_triu(br_tensor *x, int64_t diagonal);

/* ---- Products (ops/matmul.c, products.c, einsum.c): f32, f64 --------------------------------- */

BR_API br_tensor *br_mm(br_tensor *a, br_tensor *b);  /* [n,k] x [k,m] -> [n,m] */
BR_API br_tensor *br_bmm(br_tensor *a, br_tensor *b); /* [b,n,k] x [b,k,m] -> [b,n,m] */
/* torch.matmul: dot product, matrix-vector, matrix-matrix, and batches of them whose leading
 * dimensions broadcast. */
BR_API br_tensor *br_matmul(br_tensor *a, br_tensor *b);
BR_API br_tensor *br_mv(br_tensor *a, br_tensor *b);    /* [n,k] x [k] -> [n] */
BR_API br_tensor *br_dot(br_tensor *a, br_tensor *b);   /* [k] x [k] -> [] */
BR_API br_tensor *br_outer(br_tensor *a, br_tensor *b); /* [n] x [m] -> [n,m]; i64, too */
/* beta input + alpha (the product), to which input broadcasts; where beta is 0 it does not count,
 * not even NaN (PyTorch's defaults are 1 and 1): of two matrices, of a matrix and a vector, of the
 * matrices of two batches, and of these summed over the batch. */
BR_API br_tensor *br_addmm(br_tensor *input, br_tensor *mat1, br_tensor *mat2, double beta,
                           double alpha);
BR_API br_tensor *br_addmv(br_tensor *input, br_tensor *mat, br_tensor *vec, double beta,
                           double alpha);
BR_API br_tensor *br_baddbmm(br_tensor *input, br_tensor *batch1, br_tensor *batch2, double beta,
                             double alpha);
BR_API br_tensor *br_addbmm(br_tensor *input, br_tensor *batch1, br_tensor *batch2, double beta,
                            double alpha);
/* Sums of products in Einstein's notation: br_einsum("bij,bjk->bik", BR_INPUTS(a, b)). A letter
 * names a dimension, "..." those that are not named, which broadcast; what the result does not have
 * is summed; a letter twice in one operand is its diagonal. Without "->" the result has "..." and
 * the letters that occur once, in order. */
BR_API br_tensor *br_einsum(const char *equation, int n, br_tensor *const *operands);
/* x w^T + bias with x [*, in], weight [out, in], bias [out] or NULL -> [*, out]. With a weight [in]
 * and a bias [] the result is [*]. */
BR_API br_tensor *br_f_linear(br_tensor *x, br_tensor *weight, br_tensor *bias);

/* ---- Convolutions and pooling (ops/conv.c, pool.c): f32, f64 --------------------------------- */

/* Pairs are for height and width; in one dimension the first counts. */
typedef struct br_conv_options {
    int64_t stride[2]; /* 0: 1 */
    int64_t padding[2];
    int64_t dilation[2];       /* 0: 1 */
    int64_t groups;            /* 0: 1 */
    bool same;                 /* as much padding as keeps the size; the stride is 1 */
    int64_t output_padding[2]; /* of transposed ones: added to the result's end */
} br_conv_options;

/* y[n][o] = bias[o] + the sum over channels c of x[n][c] met by weight[o][c]: x [N, C, L] or [C, L]
 * with weight [O, C / groups, K]; x [N, C, H, W] or [C, H, W] with weight [O, C / groups, Kh, Kw].
 * bias is [O] or NULL. `options` may be NULL. */
BR_API br_tensor *br_f_conv1d(br_tensor *x, br_tensor *weight, br_tensor *bias,
                              const br_conv_options *options);
BR_API br_tensor *br_f_conv2d(br_tensor *x, br_tensor *weight, br_tensor *bias,
                              const br_conv_options *options);
/* The adjoint: the gradient that such a convolution with weight [C, O / groups, ...] gives its
 * input from one of x's shape; bias is [O] or NULL. */
BR_API br_tensor *br_f_conv_transpose1d(br_tensor *x, br_tensor *weight, br_tensor *bias,
                                        const br_conv_options *options);
BR_API br_tensor *br_f_conv_transpose2d(br_tensor *x, br_tensor *weight, br_tensor *bias,
                                        const br_conv_options *options);

/* Pairs are for height and width; in one dimension the first counts. */
typedef struct br_pool_options {
    int64_t kernel_size[2];
    int64_t stride[2];   /* 0: kernel_size */
    int64_t padding[2];  /* at most half the kernel; of max pooling -INFINITY, else zeros */
    int64_t dilation[2]; /* of max pooling; 0: 1 */
    bool ceil_mode;      /* a last window may reach beyond the padding */
    bool exclude_pad;    /* an average divides by its elements inside x (count_include_pad=False) */
    int64_t divisor_override; /* an average divides by this; 0: by its number of elements */
} br_pool_options;

/* The largest element of each window, NaN if there is one, of x [N, C, L] or [C, L], or
 * [N, C, H, W] or [C, H, W]; and, unless `indices` is NULL, its place in the plane (i64) in
 * *indices. */
BR_API br_tensor *br_f_max_pool1d(br_tensor *x, const br_pool_options *options,
                                  br_tensor **indices);
BR_API br_tensor *br_f_max_pool2d(br_tensor *x, const br_pool_options *options,
                                  br_tensor **indices);
/* The mean of each window. */
BR_API br_tensor *br_f_avg_pool1d(br_tensor *x, const br_pool_options *options);
BR_API br_tensor *br_f_avg_pool2d(br_tensor *x, const br_pool_options *options);
/* The mean of each of so many windows, even ones that may overlap by one. */
BR_API br_tensor *br_f_adaptive_avg_pool1d(br_tensor *x, int64_t output_size);
BR_API br_tensor *br_f_adaptive_avg_pool2d(br_tensor *x, int64_t height, int64_t width);

/* ---- Normalisation and regularisation (ops/softmax.c, layer_norm.c, channel_norm.c, dropout.c) */

/* exp(x) / sum exp(x) along dim, and its logarithm, computed from x - max x. A row of -inf only
 * gives NaN, as in PyTorch. */
BR_API br_tensor *br_softmax(br_tensor *x, int64_t dim);
BR_API br_tensor *br_log_softmax(br_tensor *x, int64_t dim);
/* (x - mean) / sqrt(variance + eps) * weight + bias over the last `ndims` dimensions, whose sizes
 * are given; the variance divides by their number of elements. weight and bias have that shape,
 * either may be NULL. Ba, Kiros and Hinton, 2016. */
BR_API br_tensor *br_f_layer_norm(br_tensor *x, int ndims, const int64_t *sizes, br_tensor *weight,
                                  br_tensor *bias, double eps);
/* x / sqrt(mean of x^2 + eps) * weight over the last dimensions, as above; an eps below 0 is
 * PyTorch's default, the distance from 1 to the next number of x's dtype. Zhang and Sennrich, 2019.
 */
BR_API br_tensor *br_f_rms_norm(br_tensor *x, int ndims, const int64_t *sizes, br_tensor *weight,
                                double eps);
/* (x - mean) / sqrt(variance + eps) * weight + bias of x [N, C, ...], where mean and variance are
 * those of a channel over the batch and all dimensions behind; weight and bias are [C] or NULL. In
 * training they are computed, and running_mean and running_var [C], unless NULL, move towards them
 * by `momentum`, with the variance that divides by n - 1; otherwise they are the running ones,
 * which must be there. Ioffe and Szegedy, 2015. */
BR_API br_tensor *br_f_batch_norm(br_tensor *x, br_tensor *running_mean, br_tensor *running_var,
                                  br_tensor *weight, br_tensor *bias, bool training,
                                  double momentum, double eps);
/* The same with mean and variance of each item of the batch over num_groups equal runs of channels
 * and all dimensions behind. Wu and He, 2018. */
BR_API br_tensor *br_f_group_norm(br_tensor *x, int64_t num_groups, br_tensor *weight,
                                  br_tensor *bias, double eps);
/* batch_norm with mean and variance of each item and channel by itself, of x [N, C, ...] with
 * dimensions behind: use_input_stats is what `training` is there, and the running ones move towards
 * the batch's mean of them. Ulyanov, Vedaldi and Lempitsky, 2016. */
BR_API br_tensor *br_f_instance_norm(br_tensor *x, br_tensor *running_mean, br_tensor *running_var,
                                     br_tensor *weight, br_tensor *bias, bool use_input_stats,
                                     double momentum, double eps);
/* In training: each element is 0 with probability p, else x / (1 - p); otherwise x itself. The
 * choice is drawn from this thread's generator; 0 <= p <= 1. */
BR_API br_tensor *br_f_dropout(br_tensor *x, double p, bool training);

/* ---- Attention (ops/attention.c, rotary.c): f32, f64 ----------------------------------------- */

typedef struct br_attention_options {
    double dropout_p; /* a probability is 0 with this one, else it is divided by 1 - dropout_p */
    bool is_causal;   /* query i sees keys 0 .. i; attn_mask must be NULL */
    double scale;     /* of query key^T; 0: 1 / sqrt(E) */
    bool enable_gqa;  /* grouped heads: query head h goes with head h / (Hq / H) of key and value */
} br_attention_options;

/* softmax(scale query key^T + mask) value, of query [*, L, E], key [*, S, E] and value [*, S, Ev]:
 * [*, L, Ev]. Leading dimensions broadcast; with enable_gqa the last of them is the heads, Hq of
 * the query and H of key and value, of which Hq is a multiple. attn_mask, or NULL, broadcasts to
 * [*, L, S]; a bool one is true where a key takes part, one of the query's dtype is added. A query
 * for which no key takes part gets zeros, and its gradients are 0, as in PyTorch.
 *
 * Memory is linear in L and S, in the gradient too: scores are made, used and made again block by
 * block. The gradient of a mask that asks for one has the mask's shape. What dropout lets fall goes
 * by one number that is drawn from the thread's generator; for the same number it is the same
 * whatever the values, blocks and threads. Gradients of gradients go by the composed form.
 * `options` may be NULL: no dropout, not causal, no groups. Dao, 2023. */
BR_API br_tensor *br_scaled_dot_product_attention(br_tensor *query, br_tensor *key,
                                                  br_tensor *value, br_tensor *attn_mask,
                                                  const br_attention_options *options);

/* Pairs of x's last dimension turned: (x1 cos - x2 sin, x2 cos + x1 sin), where cos and sin
 * broadcast to x's shape with half the last size. A pair is number i of both halves or,
 * interleaved, numbers 2 i and 2 i + 1. (ops/rotary.c.) Su et al., 2021. */
BR_API br_tensor *br_f_rotary_embedding(br_tensor *x, br_tensor *cos, br_tensor *sin,
                                        bool interleaved);

/* ---- Losses (ops/loss.c, nll.c, distance.c, margin.c) ---------------------------------------- */

typedef enum br_reduction {
    BR_REDUCTION_MEAN,
    BR_REDUCTION_SUM,
    BR_REDUCTION_NONE,
    BR_REDUCTION_BATCHMEAN, /* kl_div only: the sum divided by the first dimension's size */
} br_reduction;

typedef struct br_cross_entropy_options {
    br_reduction reduction;
    bool has_ignore_index;  /* false: ignore_index is -100, PyTorch's default */
    int64_t ignore_index;   /* targets of this value do not count */
    br_tensor *weight;      /* [c], what a target of each class counts; NULL: 1 */
    double label_smoothing; /* this part of each target is spread over all classes */
} br_cross_entropy_options;

/* -log softmax(input)[target] with class scores input [n, c], [c] or [n, c, d1, ...] and targets
 * (i64) [n], [] or [n, d1, ...]; or targets of the input's dtype and shape, the classes'
 * probabilities. The mean of class targets is divided by what counts of them, their weights; it is
 * NaN if none does, as in PyTorch. `options` may be NULL. */
BR_API br_tensor *br_cross_entropy(br_tensor *input, br_tensor *target,
                                   const br_cross_entropy_options *options);
/* The same of logarithms of probabilities, -input[target]; label_smoothing must be 0. */
BR_API br_tensor *br_nll_loss(br_tensor *input, br_tensor *target,
                              const br_cross_entropy_options *options);

/* Of input and target, which broadcast, element by element: (input - target)^2, |input - target|,
 * and the latter with a square below beta, |d| < beta ? d^2 / (2 beta) : |d| - beta / 2 (PyTorch's
 * default is 1). Both may want gradients. */
BR_API br_tensor *br_mse_loss(br_tensor *input, br_tensor *target, br_reduction reduction);
BR_API br_tensor *br_l1_loss(br_tensor *input, br_tensor *target, br_reduction reduction);
BR_API br_tensor *br_smooth_l1_loss(br_tensor *input, br_tensor *target, br_reduction reduction,
                                    double beta);
/* delta times smooth_l1_loss with beta = delta (PyTorch's default is 1). */
BR_API br_tensor *br_huber_loss(br_tensor *input, br_tensor *target, br_reduction reduction,
                                double delta);
/* -weight (target log input + (1 - target) log(1 - input)) of probabilities, whose logarithms are
 * at least -100. weight broadcasts to the input and may be NULL. */
BR_API br_tensor *br_binary_cross_entropy(br_tensor *input, br_tensor *target, br_tensor *weight,
                                          br_reduction reduction);
/* -weight (pos_weight target log s + (1 - target) log(1 - s)) with s = sigmoid(input), without
 * computing s. Both weights broadcast to the input and may be NULL. */
BR_API br_tensor *br_binary_cross_entropy_with_logits(br_tensor *input, br_tensor *target,
                                                      br_tensor *weight, br_reduction reduction,
                                                      br_tensor *pos_weight);
/* target (log target - input), of logarithms of probabilities and probabilities; with log_target
 * of two logarithms. */
BR_API br_tensor *br_kl_div(br_tensor *input, br_tensor *target, br_reduction reduction,
                            bool log_target);
/* x1 x2 / (max(|x1|, eps) max(|x2|, eps)) along dim of the shape they broadcast to (PyTorch's
 * default is dimension 1 and 1e-8). */
BR_API br_tensor *br_cosine_similarity(br_tensor *x1, br_tensor *x2, int64_t dim, double eps);
/* The norm p of x1 - x2 + eps along the last dimension (PyTorch's defaults are 2 and 1e-6). */
BR_API br_tensor *br_pairwise_distance(br_tensor *x1, br_tensor *x2, double p, double eps,
                                       bool keepdim);

/* Targets of 1 and -1 below are of the input's dtype. max(x, 0) is written x+. */

typedef struct br_triplet_options {
    double margin, p, eps; /* PyTorch's defaults: 1, 2, 1e-6 */
    bool swap;             /* the negative's distance is that to the nearer of the two others */
} br_triplet_options;
/* (margin + |anchor - positive| - |anchor - negative|)+ of pairwise_distance's distances; `options`
 * may be NULL. */
BR_API br_tensor *br_triplet_margin_loss(br_tensor *anchor, br_tensor *positive,
                                         br_tensor *negative, const br_triplet_options *options,
                                         br_reduction reduction);
/* (margin - target (input1 - input2))+. */
BR_API br_tensor *br_margin_ranking_loss(br_tensor *input1, br_tensor *input2, br_tensor *target,
                                         double margin, br_reduction reduction);
/* target 1: input; -1: (margin - input)+. */
BR_API br_tensor *br_hinge_embedding_loss(br_tensor *input, br_tensor *target, double margin,
                                          br_reduction reduction);
/* With the cosine c of input1 and input2, [n, d]: target 1: 1 - c; -1: (c - margin)+. */
BR_API br_tensor *br_cosine_embedding_loss(br_tensor *input1, br_tensor *input2, br_tensor *target,
                                           double margin, br_reduction reduction);
/* log(1 + exp(-target input)). */
BR_API br_tensor *br_soft_margin_loss(br_tensor *input, br_tensor *target, br_reduction reduction);

#ifdef __cplusplus
}
#endif

#include <brasa/ops/in_place.h>

#endif
