/* brasa/ops.h - differentiable operations on tensors.
 *
 * Names, argument order and semantics are those of PyTorch. Unless stated otherwise, the tensors of
 * a call must have the same dtype (br_to() converts), and their shapes broadcast as in NumPy. A
 * dimension may be negative; -1 is the last. The result is a new tensor that belongs to the
 * innermost scope. Gradients exist for f32 and f64. A function that shares its name with a module
 * of nn.h has the prefix br_f_, as in br_f_linear() for PyTorch's F.linear. On invalid arguments a
 * function returns NULL, and the error message names the operation, the argument and the shapes,
 * and says what was expected. */
#ifndef BRASA_OPS_H
#define BRASA_OPS_H

#include <brasa/autograd.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Arithmetic (ops/arithmetic.c): f32, f64, i64 ------------------------------------------- */

/* Scalars are converted to the tensor's dtype first; for i64 they must be integers, for bool 0 or
 * 1. Integer arithmetic wraps around. */

BR_API br_tensor *br_add(br_tensor *a, br_tensor *b); /* a + b */
BR_API br_tensor *br_sub(br_tensor *a, br_tensor *b); /* a - b */
BR_API br_tensor *br_mul(br_tensor *a, br_tensor *b); /* a * b */
BR_API br_tensor *br_div(br_tensor *a, br_tensor *b); /* a / b; f32 for integers */
BR_API br_tensor *br_pow(br_tensor *a, br_tensor *b); /* a ^ b; f32, f64 */
BR_API br_tensor *br_neg(br_tensor *a);               /* -a */
BR_API br_tensor *br_add_scalar(br_tensor *a, double s);
BR_API br_tensor *br_sub_scalar(br_tensor *a, double s);
BR_API br_tensor *br_rsub_scalar(br_tensor *a, double s); /* s - a */
BR_API br_tensor *br_mul_scalar(br_tensor *a, double s);
BR_API br_tensor *br_div_scalar(br_tensor *a, double s);  /* f32 for integers */
BR_API br_tensor *br_rdiv_scalar(br_tensor *a, double s); /* s / a; f32 for integers */
BR_API br_tensor *br_pow_scalar(br_tensor *a, double s);

/* ---- Unary functions (ops/functions.c, activation.c): f32, f64 ------------------------------- */

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

/* These also support i64. The gradient of br_abs() at 0 is 0; that of the others is 0
 * everywhere. */
BR_API br_tensor *br_abs(br_tensor *x);
BR_API br_tensor *br_sign(br_tensor *x); /* -1, 0 or 1; 0 for NaN */
BR_API br_tensor *br_floor(br_tensor *x);
BR_API br_tensor *br_ceil(br_tensor *x);
BR_API br_tensor *br_round(br_tensor *x); /* half to even */
/* Rounds to `decimals` decimal places or, if negative, to -decimals positions left of the decimal
 * point; f32, f64. */
BR_API br_tensor *br_round_decimals(br_tensor *x, int64_t decimals);
/* Clamps x to min .. max; the result is max if min > max. Also supports i64. -INFINITY and INFINITY
 * mean no bound. If a bound is NaN, all elements become NaN; NaN elements stay NaN. The gradient is
 * 0 unless x is strictly between the bounds. */
BR_API br_tensor *br_clamp(br_tensor *x, double min, double max);

BR_API br_tensor *br_silu(br_tensor *x); /* x sigmoid(x) */
/* Returns x if x > 0, else negative_slope * x (PyTorch's default is 0.01). */
BR_API br_tensor *br_leaky_relu(br_tensor *x, double negative_slope);
/* Returns x if x > 0, else alpha (exp(x) - 1) (PyTorch's default is 1). */
BR_API br_tensor *br_elu(br_tensor *x, double alpha);
/* Returns log(1 + exp(beta x)) / beta, or x if beta x > threshold (PyTorch's defaults are 1 and
 * 20). */
BR_API br_tensor *br_softplus(br_tensor *x, double beta, double threshold);

/* In ops/functions.c. */
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
BR_API br_tensor *br_square(br_tensor *x);      /* br_square() and br_trunc() also support i64 */
BR_API br_tensor *br_trunc(br_tensor *x);       /* rounds towards 0; the gradient is 0 */
BR_API br_tensor *br_frac(br_tensor *x);        /* x - trunc(x) */
BR_API br_tensor *br_logsigmoid(br_tensor *x);  /* log sigmoid(x) */
BR_API br_tensor *br_softsign(br_tensor *x);    /* x / (1 + |x|) */
BR_API br_tensor *br_mish(br_tensor *x);        /* x tanh(softplus(x)) */
BR_API br_tensor *br_relu6(br_tensor *x);       /* min(max(x, 0), 6) */
BR_API br_tensor *br_hardsigmoid(br_tensor *x); /* relu6(x + 3) / 6 */
BR_API br_tensor *br_hardswish(br_tensor *x);   /* x hardsigmoid(x) */
BR_API br_tensor *br_selu(br_tensor *x);        /* 1.0507 elu(x, 1.6733) */
BR_API br_tensor *br_tanhshrink(br_tensor *x);  /* x - tanh(x) */
/* Clamps x to min .. max (PyTorch's defaults are -1 and 1). */
BR_API br_tensor *br_hardtanh(br_tensor *x, double min, double max);
/* Returns alpha elu(x / alpha, 1) (PyTorch's default is 1). */
BR_API br_tensor *br_celu(br_tensor *x, double alpha);
/* Both return 0 where |x| <= lambda (PyTorch's default is 0.5). Elsewhere br_hardshrink() returns
 * x, and br_softshrink() returns x moved towards 0 by lambda. */
BR_API br_tensor *br_hardshrink(br_tensor *x, double lambda);
BR_API br_tensor *br_softshrink(br_tensor *x, double lambda);
/* Returns x if x > threshold, else value. */
BR_API br_tensor *br_threshold(br_tensor *x, double threshold, double value);
/* Gated linear unit. Returns the first half of dimension dim times the sigmoid of the second half
 * (PyTorch's default for dim is -1). */
BR_API br_tensor *br_glu(br_tensor *x, int64_t dim);
/* Returns x if x > 0, else weight * x. weight has one element, or one for each channel (dimension 1
 * of x). */
BR_API br_tensor *br_f_prelu(br_tensor *x, br_tensor *weight);

typedef enum br_gelu_approximate {
    BR_GELU_ERF,  /* x/2 (1 + erf(x / sqrt 2)) */
    BR_GELU_TANH, /* x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) */
} br_gelu_approximate;
/* Gaussian error linear unit, Hendrycks and Gimpel, 2016. */
BR_API br_tensor *br_gelu(br_tensor *x, br_gelu_approximate approximate);
/* The in-place variant; see brasa/ops/in_place.h. */
BR_API br_tensor *br_gelu_(br_tensor *a, br_gelu_approximate approximate);

/* ---- Elementwise functions of several tensors (ops/between.c, functions.c) ------------------- */

/* Return the elementwise maximum or minimum, for any dtype; NaN if either element is NaN. Equal
 * elements share the gradient evenly. If one element is 0 and the other -0, a's is returned; in
 * PyTorch this depends on the element's position in a vector. */
BR_API br_tensor *br_maximum(br_tensor *a, br_tensor *b);
BR_API br_tensor *br_minimum(br_tensor *a, br_tensor *b);
/* Clamps x elementwise to min .. max. One of the bounds may be NULL; all tensors broadcast. */
BR_API br_tensor *br_clamp_tensor(br_tensor *x, br_tensor *min, br_tensor *max);
/* Return input + value * tensor1 * tensor2, and input + value * tensor1 / tensor2. */
BR_API br_tensor *br_addcmul(br_tensor *input, br_tensor *tensor1, br_tensor *tensor2,
                             double value);
BR_API br_tensor *br_addcdiv(br_tensor *input, br_tensor *tensor1, br_tensor *tensor2,
                             double value);
/* f32, f64. In ops/functions.c. */
BR_API br_tensor *br_atan2(br_tensor *a, br_tensor *b);     /* the angle of the point (b, a) */
BR_API br_tensor *br_hypot(br_tensor *a, br_tensor *b);     /* sqrt(a^2 + b^2) */
BR_API br_tensor *br_logaddexp(br_tensor *a, br_tensor *b); /* log(exp(a) + exp(b)) */
BR_API br_tensor *br_xlogy(br_tensor *a, br_tensor *b);     /* a log(b); 0 where a is 0 */
/* Division with a remainder. These also support i64, for which b must not contain 0. br_fmod()
 * returns the remainder of a / b with the sign of a, and br_remainder() the one with the sign of b.
 * br_floor_divide() returns floor(a / b). br_div_mode() is torch.div with rounding_mode. */
BR_API br_tensor *br_fmod(br_tensor *a, br_tensor *b);
BR_API br_tensor *br_remainder(br_tensor *a, br_tensor *b);
BR_API br_tensor *br_floor_divide(br_tensor *a, br_tensor *b);
typedef enum br_rounding_mode {
    BR_ROUNDING_NONE, /* like br_div() */
    BR_ROUNDING_TRUNC,
    BR_ROUNDING_FLOOR,
} br_rounding_mode;
BR_API br_tensor *br_div_mode(br_tensor *a, br_tensor *b, br_rounding_mode mode);
/* Returns start + weight (end - start); all three broadcast. f32, f64. */
BR_API br_tensor *br_lerp(br_tensor *start, br_tensor *end, br_tensor *weight);
BR_API br_tensor *br_lerp_scalar(br_tensor *start, br_tensor *end, double weight);

/* ---- Comparison and selection (ops/compare.c) ------------------------------------------------ */

/* Compare tensors of any dtype. Return bool tensors, without gradients. */
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
/* Logical operations on any dtype: elements other than 0 are true. Return bool tensors. */
BR_API br_tensor *br_logical_and(br_tensor *a, br_tensor *b);
BR_API br_tensor *br_logical_or(br_tensor *a, br_tensor *b);
BR_API br_tensor *br_logical_xor(br_tensor *a, br_tensor *b);
BR_API br_tensor *br_logical_not(br_tensor *a);
/* Return bool tensors, for any dtype; all integers are finite. */
BR_API br_tensor *br_isnan(br_tensor *x);
BR_API br_tensor *br_isinf(br_tensor *x);
BR_API br_tensor *br_isfinite(br_tensor *x);
/* Returns true where a == b or |a - b| <= atol + rtol |b|. With equal_nan, two NaNs are also close.
 * a and b broadcast (PyTorch's defaults are 1e-5, 1e-8 and false). */
BR_API br_tensor *br_isclose(br_tensor *a, br_tensor *b, double rtol, double atol, bool equal_nan);
/* Returns a where the bool tensor `condition` is true, else b; all three broadcast. */
BR_API br_tensor *br_where(br_tensor *condition, br_tensor *a, br_tensor *b);
/* Returns x with `value` where the bool tensor `mask` is true; the two broadcast. */
BR_API br_tensor *br_masked_fill(br_tensor *x, br_tensor *mask, double value);
/* The same with a 0-d tensor of x's dtype as value. */
BR_API br_tensor *br_masked_fill_tensor(br_tensor *x, br_tensor *mask, br_tensor *value);
/* Converts x to another dtype; returns x itself if it has that dtype. Floating-point numbers are
 * truncated to integers; any number other than 0 converts to true. The gradient is converted to x's
 * dtype. */
BR_API br_tensor *br_to(br_tensor *x, br_dtype dtype);
/* Return true if a and b have the same shape and dtype, and all elements are equal (br_equal()) or
 * satisfy |a - b| <= atol + rtol |b| (br_allclose()). NaN is not equal to anything. Return false
 * while an error is pending. */
BR_API bool br_equal(br_tensor *a, br_tensor *b);
BR_API bool br_allclose(br_tensor *a, br_tensor *b, double rtol, double atol);

/* ---- Reductions (ops/reduce.c, extreme.c, statistics.c, scan.c) ------------------------------ */

/* Reduce all elements to a 0-d tensor. Sums of i64 and bool are i64; means require f32 or f64. */
BR_API br_tensor *br_sum(br_tensor *x);
BR_API br_tensor *br_mean(br_tensor *x);
BR_API br_tensor *br_max(br_tensor *x); /* the gradient is shared evenly among equal maxima */
BR_API br_tensor *br_min(br_tensor *x);
BR_API br_tensor *br_prod(br_tensor *x); /* i64 for i64 and bool */
/* Return a bool tensor: whether all elements, or any element, are true, that is, not 0. br_all() of
 * an empty tensor is true. */
BR_API br_tensor *br_all(br_tensor *x);
BR_API br_tensor *br_any(br_tensor *x);
/* Reduce the given dimensions: br_sum_dim(x, BR_DIMS(0, -1), true). With keepdim the reduced
 * dimensions are kept with size 1, otherwise they are removed. */
BR_API br_tensor *br_sum_dim(br_tensor *x, int ndims, const int64_t *dims, bool keepdim);
BR_API br_tensor *br_mean_dim(br_tensor *x, int ndims, const int64_t *dims, bool keepdim);
BR_API br_tensor *br_all_dim(br_tensor *x, int ndims, const int64_t *dims, bool keepdim);
BR_API br_tensor *br_any_dim(br_tensor *x, int ndims, const int64_t *dims, bool keepdim);
BR_API br_tensor *br_prod_dim(br_tensor *x, int64_t dim, bool keepdim);
/* Returns the largest element along dim and, unless `indices` is NULL, its first position (i64) in
 * *indices. NaN counts as largest. The gradient goes to that position. */
BR_API br_tensor *br_max_dim(br_tensor *x, int64_t dim, bool keepdim, br_tensor **indices);
/* The same for the smallest element; NaN counts as smallest. */
BR_API br_tensor *br_min_dim(br_tensor *x, int64_t dim, bool keepdim, br_tensor **indices);
/* Return the first position (i64) of the largest or smallest element along dim, or in the flattened
 * x if dim is BR_ALL. */
BR_API br_tensor *br_argmax(br_tensor *x, int64_t dim, bool keepdim);
BR_API br_tensor *br_argmin(br_tensor *x, int64_t dim, bool keepdim);
/* Sums x to a shape that broadcasts to x's shape: the adjoint of br_expand(). */
BR_API br_tensor *br_sum_to_size(br_tensor *x, int ndim, const int64_t *sizes);

/* Return the variance, sum of (x - mean)^2 / (n - correction), or its square root, over all
 * elements or over the given dimensions. PyTorch's default for correction is 1. These and the
 * functions below require f32 or f64. */
BR_API br_tensor *br_var(br_tensor *x, double correction);
BR_API br_tensor *br_std(br_tensor *x, double correction);
BR_API br_tensor *br_var_dim(br_tensor *x, int ndims, const int64_t *dims, double correction,
                             bool keepdim);
BR_API br_tensor *br_std_dim(br_tensor *x, int ndims, const int64_t *dims, double correction,
                             bool keepdim);
/* Return the p-norm, (sum of |x|^p)^(1/p). It is the largest |x| for p = INFINITY, the smallest for
 * -INFINITY, and the number of elements other than 0 for p = 0. */
BR_API br_tensor *br_norm(br_tensor *x, double p);
BR_API br_tensor *br_norm_dim(br_tensor *x, double p, int ndims, const int64_t *dims, bool keepdim);
/* Returns log(sum of exp(x)), computed from x - max x. */
BR_API br_tensor *br_logsumexp(br_tensor *x, int ndims, const int64_t *dims, bool keepdim);

/* ---- Cumulative sums and sorting (ops/scan.c, sort.c) ---------------------------------------- */

/* Return the cumulative sum or product: element i is the sum or product of elements 0 .. i along
 * dim. The result is i64 for bool. If x contains zeros, the gradient of br_cumprod() needs as much
 * memory as x times the size of dim. */
BR_API br_tensor *br_cumsum(br_tensor *x, int64_t dim);
BR_API br_tensor *br_cumprod(br_tensor *x, int64_t dim);
/* Sorts x along dim and, unless `indices` is NULL, returns the original index of each element (i64)
 * in *indices. NaN counts as largest; equal elements keep their order. Any dtype. */
BR_API br_tensor *br_sort(br_tensor *x, int64_t dim, bool descending, br_tensor **indices);
BR_API br_tensor *br_argsort(br_tensor *x, int64_t dim, bool descending);
/* Returns the k largest or smallest elements along dim in sorted order: the first k of
 * br_sort(). */
BR_API br_tensor *br_topk(br_tensor *x, int64_t k, int64_t dim, bool largest, br_tensor **indices);
/* Return the median, the lower of two middle elements; NaN if x contains NaN. The gradient of
 * br_median() is shared evenly among equal elements; that of br_median_dim() goes to one
 * position. */
BR_API br_tensor *br_median(br_tensor *x);
BR_API br_tensor *br_median_dim(br_tensor *x, int64_t dim, bool keepdim, br_tensor **indices);

/* ---- Shapes and views (ops/view.c, slice.c, diagonal.c, arrange.c): any dtype ---------------- */

/* Returns a view if strides allow it, else a copy. One size may be -1: it is inferred. */
BR_API br_tensor *br_reshape(br_tensor *x, int ndim, const int64_t *sizes);
/* The same, but fails if a copy would be needed. */
BR_API br_tensor *br_view(br_tensor *x, int ndim, const int64_t *sizes);
/* Merges dimensions start .. end, both included, into one. */
BR_API br_tensor *br_flatten(br_tensor *x, int64_t start, int64_t end);
/* Replaces dimension dim by several, the inverse of br_flatten(). One size may be -1. */
BR_API br_tensor *br_unflatten(br_tensor *x, int64_t dim, int ndim, const int64_t *sizes);
BR_API br_tensor *br_unsqueeze(br_tensor *x, int64_t dim);
/* Removes dimension dim if its size is 1; if dim is BR_ALL, all dimensions of size 1. */
BR_API br_tensor *br_squeeze(br_tensor *x, int64_t dim);
/* Removes those of the given dimensions that have size 1. */
BR_API br_tensor *br_squeeze_dims(br_tensor *x, int ndims, const int64_t *dims);
BR_API br_tensor *br_transpose(br_tensor *x, int64_t dim0, int64_t dim1);
/* Transposes a matrix; a tensor with fewer than 2 dimensions stays as it is. */
BR_API br_tensor *br_t(br_tensor *x);
BR_API br_tensor *br_permute(br_tensor *x, int ndims, const int64_t *dims);
/* Moves dimension source[i] to position destination[i]; the others keep their order. */
BR_API br_tensor *br_movedim(br_tensor *x, int nsource, const int64_t *source, int ndestination,
                             const int64_t *destination);
/* Broadcasts dimensions of size 1 to larger sizes without copying. -1 keeps a size; new dimensions
 * are added in front. */
BR_API br_tensor *br_expand(br_tensor *x, int ndim, const int64_t *sizes);
BR_API br_tensor *br_expand_as(br_tensor *x, br_tensor *other);
/* Returns elements start, start + step, ... before `end` of a dimension. Negative start and end
 * count from the end, and both are clipped to the dimension. BR_ALL is the end of the dimension.
 * step must be at least 1. */
BR_API br_tensor *br_slice(br_tensor *x, int64_t dim, int64_t start, int64_t end, int64_t step);
/* Returns the slice at `index` and removes the dimension. */
BR_API br_tensor *br_select(br_tensor *x, int64_t dim, int64_t index);
BR_API br_tensor *br_narrow(br_tensor *x, int64_t dim, int64_t start, int64_t length);
/* Returns all slices of `size` elements of a dimension, each `step` after the previous one
 * (Tensor.unfold). Dimension dim of the result indexes the slices; a new last dimension indexes the
 * elements of a slice. */
BR_API br_tensor *br_unfold(br_tensor *x, int64_t dim, int64_t size, int64_t step);
/* Returns elements (i, i + offset) of dim1 and dim2 as one dimension, the last (PyTorch's defaults
 * are 0, 0 and 1). */
BR_API br_tensor *br_diagonal(br_tensor *x, int64_t offset, int64_t dim1, int64_t dim2);
/* Returns x itself if it is contiguous, else a contiguous copy. */
BR_API br_tensor *br_contiguous(br_tensor *x);
BR_API br_tensor *br_clone(br_tensor *x);

/* ---- Splitting (ops/split.c): any dtype ------------------------------------------------------ */

/* These write views to parts[0 .. capacity - 1], set the entries after the last view to NULL, and
 * return the number of views. On error, including when there are more than `capacity` parts, they
 * return -1 and set all entries to NULL. BR_PARTS() passes the length of an array and the array. */
#define BR_PARTS(array) (int)(sizeof(array) / sizeof(br_tensor *)), (array)

/* Splits into parts of split_size; the last one may be smaller. */
BR_API int br_split(br_tensor *x, int64_t split_size, int64_t dim, int capacity, br_tensor **parts);
/* Splits into parts of the given sizes, whose sum must be the size of dim. `parts` must have n
 * entries. */
BR_API int br_split_with_sizes(br_tensor *x, int n, const int64_t *sizes, int64_t dim,
                               br_tensor **parts);
/* Splits into at most `chunks` parts of equal size, except for the last. */
BR_API int br_chunk(br_tensor *x, int64_t chunks, int64_t dim, int capacity, br_tensor **parts);
/* Returns all slices along dim, without that dimension. */
BR_API int br_unbind(br_tensor *x, int64_t dim, int capacity, br_tensor **parts);

/* ---- Rearranging and padding (ops/arrange.c, join.c, diagonal.c, pad.c): any dtype ----------- */

/* Reverses the order of elements along the dimensions. */
BR_API br_tensor *br_flip(br_tensor *x, int ndims, const int64_t *dims);
/* Shifts elements by shifts[i] along dims[i], with wraparound. Without dims, shifts the flattened x
 * by shifts[0]. */
BR_API br_tensor *br_roll(br_tensor *x, int nshifts, const int64_t *shifts, int ndims,
                          const int64_t *dims);
/* Repeats x counts[i] times along dimension i; new dimensions are added in front. */
BR_API br_tensor *br_repeat(br_tensor *x, int ndim, const int64_t *counts);
/* The same, but if there are fewer counts than dimensions, they apply to the last ones. */
BR_API br_tensor *br_tile(br_tensor *x, int ndim, const int64_t *counts);
/* Repeats each element along dim; if dim is BR_ALL, x is flattened first. `repeats` is an i64
 * tensor with one count for all elements, or with one count for each. */
BR_API br_tensor *br_repeat_interleave(br_tensor *x, br_tensor *repeats, int64_t dim);
BR_API br_tensor *br_repeat_interleave_scalar(br_tensor *x, int64_t repeats, int64_t dim);
/* Returns a tensor of zeros except for the diagonal of dim1 and dim2, which is x's last dimension
 * (PyTorch's defaults are 0, -2 and -1). */
BR_API br_tensor *br_diag_embed(br_tensor *x, int64_t offset, int64_t dim1, int64_t dim2);
/* Returns a matrix with a vector as its diagonal, or a copy of a matrix's diagonal as a vector. */
BR_API br_tensor *br_diag(br_tensor *x, int64_t diagonal);
BR_API br_tensor *br_trace(br_tensor *x); /* the sum of a matrix's diagonal */
/* Return the row and column indices, i64 [2, n], of the elements on and below (above) a diagonal of
 * a row x col matrix. */
BR_API br_tensor *br_tril_indices(int64_t row, int64_t col, int64_t offset);
BR_API br_tensor *br_triu_indices(int64_t row, int64_t col, int64_t offset);

typedef enum br_pad_mode {
    BR_PAD_CONSTANT,  /* `value` */
    BR_PAD_REFLECT,   /* c b | a b c | b a */
    BR_PAD_REPLICATE, /* a a | a b c | c c */
    BR_PAD_CIRCULAR,  /* b c | a b c | a b */
} br_pad_mode;
/* Pads x: pad[0] and pad[1] elements before and after the last dimension, pad[2] and pad[3] for the
 * one before it, and so on, as in F.pad. Negative numbers remove elements. BR_DIMS(1, 1) passes n
 * and pad. */
BR_API br_tensor *br_pad(br_tensor *x, int n, const int64_t *pad, br_pad_mode mode, double value);

/* ---- Joining and indexing (ops/join.c, index.c, scatter*.c, masked.c, getitem.c): any dtype -- */

/* Concatenates tensors, whose sizes must be equal except in dimension dim. BR_INPUTS(a, b) passes n
 * and tensors. A tensor of shape [0] may be combined with any others and adds nothing. */
BR_API br_tensor *br_cat(int n, br_tensor *const *tensors, int64_t dim);
/* Joins tensors of equal shapes along a new dimension. */
BR_API br_tensor *br_stack(int n, br_tensor *const *tensors, int64_t dim);

/* Indices are i64 and, unless stated otherwise, at least 0. A 0-d tensor is treated as 1-d of size
 * 1. */

/* Returns the slices of x along dim at the indices in `index` (1-d). */
BR_API br_tensor *br_index_select(br_tensor *x, int64_t dim, br_tensor *index);
/* Returns the elements of x at the indices along dim: for dim = 1, out[i][j][k] =
 * x[i][index[i][j][k]][k]. index must have as many dimensions as x and must not be larger than x,
 * except in dim. The result has index's shape. */
BR_API br_tensor *br_gather(br_tensor *x, int64_t dim, br_tensor *index);
/* The same, but x and index broadcast except in dim, and negative indices count from the end. If
 * dim is BR_ALL, both are flattened. */
BR_API br_tensor *br_take_along_dim(br_tensor *x, br_tensor *index, int64_t dim);
/* Returns elements of the flattened x, in index's shape. Negative indices count from the end. */
BR_API br_tensor *br_take(br_tensor *x, br_tensor *index);
/* Returns x[i0, i1, ...] with an index for each of the first dimensions; NULL selects a whole
 * dimension, as in BR_INPUTS(i0, NULL, i2). The indices broadcast. Their shape replaces the indexed
 * dimensions, or comes first if these are not adjacent. Negative indices count from the end. A bool
 * tensor selects the positions where it is true. */
BR_API br_tensor *br_index(br_tensor *x, int n, br_tensor *const *indices);
/* Returns x[items], where `items` is the text between Python's brackets and "?" stands for a
 * tensor: br_getitem(x, "0:3, ..., None, ?, -1", BR_INPUTS(index)). Steps must be at least 1.
 * Without tensors the result is a view. In ops/getitem.c. */
BR_API br_tensor *br_getitem(br_tensor *x, const char *items, int n, br_tensor *const *indices);
/* Returns the elements for which the bool tensor `mask` is true, as a 1-d tensor; x and mask
 * broadcast. */
BR_API br_tensor *br_masked_select(br_tensor *x, br_tensor *mask);
/* Returns the positions at which x is not 0: [n, number of dimensions], i64. */
BR_API br_tensor *br_nonzero(br_tensor *x);

/* Returns x with elements of src written to the positions that br_gather() reads: for dim = 1,
 * out[i][index[i][j][k]][k] = src[i][j][k]. If indices are equal, the last value is kept. src must
 * be at least as large as index in every dimension. */
BR_API br_tensor *br_scatter(br_tensor *x, int64_t dim, br_tensor *index, br_tensor *src);
BR_API br_tensor *br_scatter_scalar(br_tensor *x, int64_t dim, br_tensor *index, double value);
/* The same, but adds to x; for bool, logical or. */
BR_API br_tensor *br_scatter_add(br_tensor *x, int64_t dim, br_tensor *index, br_tensor *src);

typedef enum br_scatter_reduction {
    BR_SCATTER_SUM,
    BR_SCATTER_PROD,
    BR_SCATTER_MEAN,
    BR_SCATTER_AMAX,
    BR_SCATTER_AMIN,
} br_scatter_reduction;
/* The same, but reduces all elements of src that have the same position in x and, if include_self,
 * x's element. BR_SCATTER_MEAN requires f32 or f64. */
BR_API br_tensor *br_scatter_reduce(br_tensor *x, int64_t dim, br_tensor *index, br_tensor *src,
                                    br_scatter_reduction reduce, bool include_self);

/* Returns x with its slices along dim at `index` (1-d) replaced by the slices of source. If indices
 * are equal, the last slice is kept. */
BR_API br_tensor *br_index_copy(br_tensor *x, int64_t dim, br_tensor *index, br_tensor *source);
/* The same, but adds alpha times source to x; for bool, logical or. */
BR_API br_tensor *br_index_add(br_tensor *x, int64_t dim, br_tensor *index, br_tensor *source,
                               double alpha);
/* Return x with its slices along dim at `index` filled with `value`, a number or a 0-d tensor of
 * x's dtype. Negative indices count from the end. */
BR_API br_tensor *br_index_fill(br_tensor *x, int64_t dim, br_tensor *index, double value);
BR_API br_tensor *br_index_fill_tensor(br_tensor *x, int64_t dim, br_tensor *index,
                                       br_tensor *value);
/* Returns x with values written to the positions that br_index() reads or, if `accumulate`, added
 * there. values broadcasts to the shape of br_index()'s result. */
BR_API br_tensor *br_index_put(br_tensor *x, int n, br_tensor *const *indices, br_tensor *values,
                               bool accumulate);
/* Returns x with the elements of source, in order, where the bool tensor `mask` is true; x and mask
 * broadcast. */
BR_API br_tensor *br_masked_scatter(br_tensor *x, br_tensor *mask, br_tensor *source);

/* Returns the rows of weight [n, d] at the indices: [*, d] for an index [*]. Row padding_idx gets
 * no gradient; -1 means that there is no such row. */
BR_API br_tensor *br_f_embedding(br_tensor *weight, br_tensor *index, int64_t padding_idx);

/* ---- One-hot, counting and unique elements (ops/unique.c): no gradients ---------------------- */

/* Returns an i64 tensor with a row of num_classes elements for each index: 1 at the index, 0
 * elsewhere. With num_classes = -1 the number of classes is the largest index + 1. */
BR_API br_tensor *br_one_hot(br_tensor *index, int64_t num_classes);
/* Counts how often 0, 1, ... occur in x (i64, 1-d), or sums their weights (weights may be NULL).
 * Returns at least minlength counts. */
BR_API br_tensor *br_bincount(br_tensor *x, br_tensor *weights, int64_t minlength);
/* Returns the unique elements, sorted, 1-d. Unless the pointers are NULL, *inverse receives the
 * index of each element of x in the result (x's shape), and *counts how often each unique element
 * occurs; both are i64. NaNs are distinct from each other. */
BR_API br_tensor *br_unique(br_tensor *x, br_tensor **inverse, br_tensor **counts);
/* The same, but removes only consecutive duplicates and keeps x's order. */
BR_API br_tensor *br_unique_consecutive(br_tensor *x, br_tensor **inverse, br_tensor **counts);
/* The same for slices along dim, sorted lexicographically, or with consecutive duplicates removed.
 * The result is x with another size of dim; *inverse is 1-d with an index for each slice of x. */
BR_API br_tensor *br_unique_dim(br_tensor *x, int64_t dim, br_tensor **inverse, br_tensor **counts);
BR_API br_tensor *br_unique_consecutive_dim(br_tensor *x, int64_t dim, br_tensor **inverse,
                                            br_tensor **counts);

/* ---- Triangular matrices (ops/index.c) ------------------------------------------------------- */

/* Return the elements on and below (above) diagonal `diagonal` of the last two dimensions; the
 * others are 0. */
BR_API br_tensor *br_tril(br_tensor *x, int64_t diagonal);
BR_API br_tensor *br_triu(br_tensor *x, int64_t diagonal);

/* ---- Products (ops/matmul.c, products.c, einsum.c): f32, f64 --------------------------------- */

BR_API br_tensor *br_mm(br_tensor *a, br_tensor *b);  /* [n,k] x [k,m] -> [n,m] */
BR_API br_tensor *br_bmm(br_tensor *a, br_tensor *b); /* [b,n,k] x [b,k,m] -> [b,n,m] */
/* Multiplies like torch.matmul: dot product, matrix-vector and matrix-matrix product, and batches
 * of them whose leading dimensions broadcast. */
BR_API br_tensor *br_matmul(br_tensor *a, br_tensor *b);
BR_API br_tensor *br_mv(br_tensor *a, br_tensor *b);    /* [n,k] x [k] -> [n] */
BR_API br_tensor *br_dot(br_tensor *a, br_tensor *b);   /* [k] x [k] -> [] */
BR_API br_tensor *br_outer(br_tensor *a, br_tensor *b); /* [n] x [m] -> [n,m]; also i64 */
/* Return beta * input + alpha * product (PyTorch's defaults are 1 and 1). The product is mat1 mat2,
 * mat vec, the batch of products batch1 batch2, or the sum of that batch (br_addbmm()). input
 * broadcasts to the product; if beta is 0, input is ignored, even if it is NaN. */
BR_API br_tensor *br_addmm(br_tensor *input, br_tensor *mat1, br_tensor *mat2, double beta,
                           double alpha);
BR_API br_tensor *br_addmv(br_tensor *input, br_tensor *mat, br_tensor *vec, double beta,
                           double alpha);
BR_API br_tensor *br_baddbmm(br_tensor *input, br_tensor *batch1, br_tensor *batch2, double beta,
                             double alpha);
BR_API br_tensor *br_addbmm(br_tensor *input, br_tensor *batch1, br_tensor *batch2, double beta,
                            double alpha);
/* Computes a sum of products in Einstein notation: br_einsum("bij,bjk->bik", BR_INPUTS(a, b)). A
 * letter names a dimension; "..." stands for the unnamed ones, which broadcast. Dimensions that the
 * result does not have are summed; a letter that is repeated in one operand selects its diagonal.
 * Without "->" the result has "..." and the letters that occur once, in alphabetical order, upper
 * case first. */
BR_API br_tensor *br_einsum(const char *equation, int n, br_tensor *const *operands);
/* Returns x weight^T + bias for x [*, in], weight [out, in], bias [out] or NULL: [*, out]. With a
 * weight [in] and a bias [] or NULL the result is [*]. */
BR_API br_tensor *br_f_linear(br_tensor *x, br_tensor *weight, br_tensor *bias);

/* ---- Convolutions and pooling (ops/conv.c, pool.c): f32, f64 --------------------------------- */

/* Pairs are for height and width; in one dimension only the first number is used. */
typedef struct br_conv_options {
    size_t struct_size;
    br_pair stride, padding, dilation;
    int64_t groups;
    bool same;              /* pad so that the output has the size of the input; stride must be 1.
                               Not for transposed convolutions */
    br_pair output_padding; /* transposed convolutions only: added to the output's size, at the
                               end */
} br_conv_options;
#define br_conv_default_fields \
    .struct_size = sizeof(br_conv_options), .stride = { 1, 1 }, .dilation = { 1, 1 }, .groups = 1
BR_API br_conv_options br_conv_defaults(void);

/* Returns y[n][o] = bias[o] + the sum over input channels c of the cross-correlation of x[n][c]
 * with weight[o][c]. x is [N, C, L] or [C, L] with weight [O, C / groups, K], or [N, C, H, W] or
 * [C, H, W] with weight [O, C / groups, Kh, Kw]. bias is [O] or NULL. `options` may be NULL. */
BR_API br_tensor *br_f_conv1d(br_tensor *x, br_tensor *weight, br_tensor *bias,
                              const br_conv_options *options);
BR_API br_tensor *br_f_conv2d(br_tensor *x, br_tensor *weight, br_tensor *bias,
                              const br_conv_options *options);
/* Transposed convolution. Returns the gradient of a convolution with weight [C, O / groups, ...]
 * with respect to its input, for an output gradient x, plus bias, which is [O] or NULL. */
BR_API br_tensor *br_f_conv_transpose1d(br_tensor *x, br_tensor *weight, br_tensor *bias,
                                        const br_conv_options *options);
BR_API br_tensor *br_f_conv_transpose2d(br_tensor *x, br_tensor *weight, br_tensor *bias,
                                        const br_conv_options *options);

/* Pairs are for height and width; in one dimension only the first number is used. */
typedef struct br_pool_options {
    size_t struct_size;
    br_pair kernel_size; /* required */
    br_pair stride;      /* 0: kernel_size */
    br_pair padding;     /* at most half the kernel; filled with -INFINITY in max pooling, else 0 */
    br_pair dilation;    /* max pooling only */
    bool ceil_mode;      /* the last window may reach beyond the padding */
    bool count_include_pad;   /* the average also counts elements of the padding */
    int64_t divisor_override; /* the average divides by this; 0: by its number of elements */
} br_pool_options;
#define br_pool_default_fields \
    .struct_size = sizeof(br_pool_options), .dilation = { 1, 1 }, .count_include_pad = true
BR_API br_pool_options br_pool_defaults(void);

/* Return the largest element of each window, or NaN if the window contains NaN. Unless `indices` is
 * NULL, *indices receives the position (i64) of that element in its channel's plane, in row-major
 * order. x is [N, C, L] or [C, L], or [N, C, H, W] or [C, H, W]. */
BR_API br_tensor *br_f_max_pool1d(br_tensor *x, const br_pool_options *options,
                                  br_tensor **indices);
BR_API br_tensor *br_f_max_pool2d(br_tensor *x, const br_pool_options *options,
                                  br_tensor **indices);
/* Return the mean of each window. */
BR_API br_tensor *br_f_avg_pool1d(br_tensor *x, const br_pool_options *options);
BR_API br_tensor *br_f_avg_pool2d(br_tensor *x, const br_pool_options *options);
/* Return the means of the given number of windows, which cover x evenly and may overlap by one
 * element. */
BR_API br_tensor *br_f_adaptive_avg_pool1d(br_tensor *x, int64_t output_size);
BR_API br_tensor *br_f_adaptive_avg_pool2d(br_tensor *x, int64_t height, int64_t width);

/* ---- Normalisation and regularisation (ops/softmax.c, layer_norm.c, channel_norm.c, dropout.c) */

/* Return the softmax along dim, exp(x) / sum exp(x), or its logarithm, computed from x - max x. A
 * row that contains only -inf gives NaN, as in PyTorch. */
BR_API br_tensor *br_softmax(br_tensor *x, int64_t dim);
BR_API br_tensor *br_log_softmax(br_tensor *x, int64_t dim);
/* Returns (x - mean) / sqrt(variance + eps) * weight + bias over the last `ndims` dimensions of x,
 * whose sizes must be `sizes`. The variance divides by the number of elements. weight and bias have
 * the shape `sizes` or are NULL. Ba, Kiros and Hinton, 2016. */
BR_API br_tensor *br_f_layer_norm(br_tensor *x, int ndims, const int64_t *sizes, br_tensor *weight,
                                  br_tensor *bias, double eps);
/* Returns x / sqrt(mean of x^2 + eps) * weight over the last dimensions, as above. BR_NONE_F64 as
 * eps means PyTorch's default, the machine epsilon of x's dtype. Zhang and Sennrich, 2019. */
BR_API br_tensor *br_f_rms_norm(br_tensor *x, int ndims, const int64_t *sizes, br_tensor *weight,
                                double eps);
/* Returns (x - mean) / sqrt(variance + eps) * weight + bias for x [N, C, ...], with the mean and
 * variance of each channel over the batch and the dimensions after C. weight and bias are [C] or
 * NULL. If `training`, mean and variance are computed from x, and running_mean and running_var [C],
 * unless NULL, are updated in place with `momentum`; the variance for running_var divides by n - 1.
 * Otherwise the running statistics are used and must not be NULL. Ioffe and Szegedy, 2015. */
BR_API br_tensor *br_f_batch_norm(br_tensor *x, br_tensor *running_mean, br_tensor *running_var,
                                  br_tensor *weight, br_tensor *bias, bool training,
                                  double momentum, double eps);
/* The same with statistics computed from x for each item of the batch and each of num_groups equal
 * groups of adjacent channels. Wu and He, 2018. */
BR_API br_tensor *br_f_group_norm(br_tensor *x, int64_t num_groups, br_tensor *weight,
                                  br_tensor *bias, double eps);
/* Batch norm with separate statistics for each item and channel. x [N, C, ...] must have at least
 * one dimension after C. use_input_stats corresponds to `training`; the running statistics are
 * updated with the mean over the batch. Ulyanov, Vedaldi and Lempitsky, 2016. */
BR_API br_tensor *br_f_instance_norm(br_tensor *x, br_tensor *running_mean, br_tensor *running_var,
                                     br_tensor *weight, br_tensor *bias, bool use_input_stats,
                                     double momentum, double eps);
/* If `training`, sets each element to 0 with probability p, 0 <= p <= 1, and multiplies the others
 * by 1 / (1 - p); otherwise returns x itself. Uses this thread's random number generator. */
BR_API br_tensor *br_f_dropout(br_tensor *x, double p, bool training);

/* ---- Attention (ops/attention.c, rotary.c): f32, f64 ----------------------------------------- */

typedef struct br_attention_options {
    size_t struct_size;
    double dropout_p; /* probability of dropping an attention weight; others are multiplied by 1 /
                         (1 - dropout_p) */
    bool is_causal;   /* query i attends to keys 0 .. i; attn_mask must be NULL */
    double scale;     /* factor of query key^T; BR_NONE_F64: 1 / sqrt(E) */
    bool enable_gqa;  /* grouped heads: query head h uses head h / (Hq / H) of key and value */
} br_attention_options;
#define br_attention_default_fields \
    .struct_size = sizeof(br_attention_options), .scale = BR_NONE_F64
BR_API br_attention_options br_attention_defaults(void);

/* Returns softmax(scale query key^T + mask) value, [*, L, Ev], for query [*, L, E], key [*, S, E]
 * and value [*, S, Ev]. Leading dimensions broadcast. With enable_gqa the last of them is the
 * heads: Hq in query and H in key and value, where Hq is a multiple of H. attn_mask, or NULL,
 * broadcasts to [*, L, S]. A bool mask is true where a query may attend to a key; a mask of the
 * query's dtype is added to the scores. If a query may attend to no key, its result is zeros and
 * its gradients are 0, as in PyTorch.
 *
 * Memory is linear in L and S, also in the gradient: scores are computed, used and recomputed block
 * by block. The gradient of a mask that requires grad has the mask's shape. Dropout uses this
 * thread's random number generator; the same generator state drops the same weights, regardless of
 * the values and the number of threads. Second-order gradients are computed by plain operations.
 * `options` may be NULL: no dropout, not causal, no groups. Dao, 2023. */
BR_API br_tensor *br_scaled_dot_product_attention(br_tensor *query, br_tensor *key,
                                                  br_tensor *value, br_tensor *attn_mask,
                                                  const br_attention_options *options);

/* Rotates pairs of elements of x's last dimension: (x1 cos - x2 sin, x2 cos + x1 sin), where cos
 * and sin broadcast to x's shape with its last dimension halved. Pair i consists of element i of
 * each half or, if interleaved, of elements 2 i and 2 i + 1. In ops/rotary.c. Su et al., 2021. */
BR_API br_tensor *br_f_rotary_embedding(br_tensor *x, br_tensor *cos, br_tensor *sin,
                                        bool interleaved);

#ifdef __cplusplus
}
#endif

#include <brasa/ops/in_place.h>
#include <brasa/ops/losses.h>

#endif
