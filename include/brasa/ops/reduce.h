/* brasa/ops/reduce.h - sums, extremes, statistics, cumulative sums, sorting, counting; part of
 * brasa/ops.h. Implemented in ops/reduce/. */
#ifndef BRASA_OPS_REDUCE_H
#define BRASA_OPS_REDUCE_H

#include <brasa/autograd.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Reductions (ops/reduce/sum_mean.c, max_argmax.c, var_norm_logsumexp.c, cumulative.c) ---- */

/* Reduce all elements to a 0-d tensor. Sums of i64 and bool are i64; means require a floating-point
 * dtype. */
BR_API br_tensor *br_sum(br_tensor *x);
BR_API br_tensor *br_mean(br_tensor *x);
BR_API br_tensor *br_max(br_tensor *x); /* the gradient is shared evenly among equal maxima */
BR_API br_tensor *br_min(br_tensor *x);
BR_API br_tensor *br_prod(br_tensor *x); /* i64 for i64 and bool */
/* Return a bool tensor, or u8 if x is u8: whether all elements, or any element, are true, that is,
 * not 0. br_all() of an empty tensor is true. */
BR_API br_tensor *br_all(br_tensor *x);
BR_API br_tensor *br_any(br_tensor *x);
/* Reduce the given dimensions: br_sum_dim(x, BR_DIMS(0, -1), true). With keepdim the reduced
 * dimensions are kept with size 1, otherwise they are removed. */
BR_API br_tensor *br_sum_dim(br_tensor *x, int ndims, const int64_t *dims, bool keepdim);
BR_API br_tensor *br_mean_dim(br_tensor *x, int ndims, const int64_t *dims, bool keepdim);
BR_API br_tensor *br_all_dim(br_tensor *x, int ndims, const int64_t *dims, bool keepdim);
BR_API br_tensor *br_any_dim(br_tensor *x, int ndims, const int64_t *dims, bool keepdim);
BR_API br_tensor *br_prod_dim(br_tensor *x, int64_t dim, bool keepdim);
/* Return the sum and the mean of the elements that are not NaN. If all are NaN, the sum is 0, and
 * the mean and its gradient are NaN. br_nansum() of integers and bool is br_sum(). */
BR_API br_tensor *br_nansum(br_tensor *x);
BR_API br_tensor *br_nanmean(br_tensor *x);
BR_API br_tensor *br_nansum_dim(br_tensor *x, int ndims, const int64_t *dims, bool keepdim);
BR_API br_tensor *br_nanmean_dim(br_tensor *x, int ndims, const int64_t *dims, bool keepdim);
/* Returns the largest element along dim and, unless `indices` is NULL, its first position (i64) in
 * *indices. NaN counts as largest. The gradient goes to that position. */
BR_API br_tensor *br_max_dim(br_tensor *x, int64_t dim, bool keepdim, br_tensor **indices);
/* The same for the smallest element; NaN counts as smallest. */
BR_API br_tensor *br_min_dim(br_tensor *x, int64_t dim, bool keepdim, br_tensor **indices);
/* Return the largest or the smallest elements over the given dimensions. Equal elements share the
 * gradient evenly. */
BR_API br_tensor *br_amax(br_tensor *x, int ndims, const int64_t *dims, bool keepdim);
BR_API br_tensor *br_amin(br_tensor *x, int ndims, const int64_t *dims, bool keepdim);
/* Return the first position (i64) of the largest or smallest element along dim, or in the flattened
 * x if dim is BR_ALL. */
BR_API br_tensor *br_argmax(br_tensor *x, int64_t dim, bool keepdim);
BR_API br_tensor *br_argmin(br_tensor *x, int64_t dim, bool keepdim);
/* Sums x to a shape that broadcasts to x's shape: the adjoint of br_expand(). */
BR_API br_tensor *br_sum_to_size(br_tensor *x, int ndim, const int64_t *sizes);

/* Return the variance, sum of (x - mean)^2 / (n - correction), or its square root, over all
 * elements or over the given dimensions. PyTorch's default for correction is 1. These and the
 * functions below require a floating-point dtype. */
BR_API br_tensor *br_var(br_tensor *x, double correction);
BR_API br_tensor *br_std(br_tensor *x, double correction);
BR_API br_tensor *br_var_dim(br_tensor *x, int ndims, const int64_t *dims, double correction,
                             bool keepdim);
BR_API br_tensor *br_std_dim(br_tensor *x, int ndims, const int64_t *dims, double correction,
                             bool keepdim);
/* Return br_var_dim() or br_std_dim(), and br_mean_dim() in *mean. Without dimensions, these are
 * over all elements. */
BR_API br_tensor *br_var_mean(br_tensor *x, int ndims, const int64_t *dims, double correction,
                              bool keepdim, br_tensor **mean);
BR_API br_tensor *br_std_mean(br_tensor *x, int ndims, const int64_t *dims, double correction,
                              bool keepdim, br_tensor **mean);
/* Return the p-norm, (sum of |x|^p)^(1/p). It is the largest |x| for p = INFINITY, the smallest for
 * -INFINITY, and the number of elements other than 0 for p = 0. */
BR_API br_tensor *br_norm(br_tensor *x, double p);
BR_API br_tensor *br_norm_dim(br_tensor *x, double p, int ndims, const int64_t *dims, bool keepdim);
/* Returns log(sum of exp(x)), computed from x - max x. */
BR_API br_tensor *br_logsumexp(br_tensor *x, int ndims, const int64_t *dims, bool keepdim);

/* ---- Cumulative sums and sorting (ops/reduce/cumulative.c, sort_topk.c) ---------------------- */

/* Return the cumulative sum or product: element i is the sum or product of elements 0 .. i along
 * dim. The result is i64 for bool. If x contains zeros, the gradient of br_cumprod() needs as much
 * memory as x times the size of dim. */
BR_API br_tensor *br_cumsum(br_tensor *x, int64_t dim);
BR_API br_tensor *br_cumprod(br_tensor *x, int64_t dim);
/* Returns log(sum of exp) of elements 0 .. i along dim. Floating-point dtypes. */
BR_API br_tensor *br_logcumsumexp(br_tensor *x, int64_t dim);
/* Return the largest or the smallest of elements 0 .. i along dim and, unless `indices` is NULL,
 * its position (i64) in *indices: the last one of equal elements. NaN counts as largest and as
 * smallest. The gradient goes to that position. */
BR_API br_tensor *br_cummax(br_tensor *x, int64_t dim, br_tensor **indices);
BR_API br_tensor *br_cummin(br_tensor *x, int64_t dim, br_tensor **indices);
/* Returns the differences x[i + 1] - x[i] along dim, n times in turn; for bool, whether the
 * elements differ. `prepend` and `append` are joined to x before, and may be NULL. */
BR_API br_tensor *br_diff(br_tensor *x, int64_t n, int64_t dim, br_tensor *prepend,
                          br_tensor *append);
/* Return the integral of samples y along dim by the trapezoidal rule, and the integrals up to each
 * sample but the first. The samples are at the points x, 1-d or broadcast with y, or, if x is NULL,
 * dx apart (PyTorch's defaults are NULL, 1 and -1). Integers give f32. */
BR_API br_tensor *br_trapezoid(br_tensor *y, br_tensor *x, double dx, int64_t dim);
BR_API br_tensor *br_cumulative_trapezoid(br_tensor *y, br_tensor *x, double dx, int64_t dim);
/* Sorts x along dim and, unless `indices` is NULL, returns the original index of each element (i64)
 * in *indices. NaN counts as largest; equal elements keep their order. Any dtype. */
BR_API br_tensor *br_sort(br_tensor *x, int64_t dim, bool descending, br_tensor **indices);
BR_API br_tensor *br_argsort(br_tensor *x, int64_t dim, bool descending);
/* Returns the k largest or smallest elements along dim in sorted order: the first k of
 * br_sort(). */
BR_API br_tensor *br_topk(br_tensor *x, int64_t k, int64_t dim, bool largest, br_tensor **indices);
/* Returns the k-th smallest element along dim, k >= 1, and, unless `indices` is NULL, its position
 * (i64) in *indices. */
BR_API br_tensor *br_kthvalue(br_tensor *x, int64_t k, int64_t dim, bool keepdim,
                              br_tensor **indices);
/* Return the median, the lower of two middle elements; NaN if x contains NaN. The gradient of
 * br_median() is shared evenly among equal elements; that of br_median_dim() goes to one
 * position. */
BR_API br_tensor *br_median(br_tensor *x);
BR_API br_tensor *br_median_dim(br_tensor *x, int64_t dim, bool keepdim, br_tensor **indices);

/* How br_quantile() computes a value between two elements. */
typedef enum br_interpolation {
    BR_INTERPOLATION_LINEAR,
    BR_INTERPOLATION_LOWER,
    BR_INTERPOLATION_HIGHER,
    BR_INTERPOLATION_MIDPOINT,
    BR_INTERPOLATION_NEAREST,
} br_interpolation;
/* Returns the q-quantiles along dim, or of the flattened x if dim is BR_ALL. q is 0-d, or 1-d,
 * which gives the result a new first dimension; its elements are in 0 .. 1. NaN in x gives NaN;
 * br_nanquantile() leaves NaN out. */
BR_API br_tensor *br_quantile(br_tensor *x, br_tensor *q, int64_t dim, bool keepdim,
                              br_interpolation interpolation);
BR_API br_tensor *br_nanquantile(br_tensor *x, br_tensor *q, int64_t dim, bool keepdim,
                                 br_interpolation interpolation);

/* ---- Searching (ops/reduce/search.c): no gradients ------------------------------------------- */

/* Returns how many elements of the sorted sequence are less than each value or, if `right`, less
 * than or equal to it: the index at which the value can be inserted. i64, in the shape of values.
 * sorted_sequence is 1-d, or its last dimension has the sequences and its other dimensions are
 * equal to the dimensions of values. `sorter`, i64, gives the order that sorts it, or is NULL. */
BR_API br_tensor *br_searchsorted(br_tensor *sorted_sequence, br_tensor *values, bool right,
                                  br_tensor *sorter);
/* The same for values x and a 1-d sequence of boundaries. */
BR_API br_tensor *br_bucketize(br_tensor *x, br_tensor *boundaries, bool right);
/* Returns a bool tensor: whether each element is one of test_elements or, if `invert`, whether it
 * is none of them. NaN is equal to nothing. */
BR_API br_tensor *br_isin(br_tensor *elements, br_tensor *test_elements, bool invert);
/* Returns how many elements are not 0 (i64) over the given dimensions. */
BR_API br_tensor *br_count_nonzero(br_tensor *x, int ndims, const int64_t *dims);
/* Counts the elements in each of `bins` equal parts of min .. max, both included, in x's
 * floating-point dtype. If both are 0, they are the smallest and the largest element. Other
 * elements, and NaN, are not counted. (PyTorch's defaults are 100, 0 and 0.) */
BR_API br_tensor *br_histc(br_tensor *x, int64_t bins, double min, double max);

/* ---- One-hot, counting and unique elements (ops/reduce/unique.c): no gradients --------------- */

/* Returns an i64 tensor with a row of num_classes elements for each index: 1 at the index, 0
 * elsewhere. With num_classes = -1 the number of classes is the largest index + 1. */
BR_API br_tensor *br_one_hot(br_tensor *index, int64_t num_classes);
/* Counts how often 0, 1, ... occur in x (integers, 1-d), or sums their weights (weights may be
 * NULL). Returns at least minlength counts. */
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

#ifdef __cplusplus
}
#endif

#endif
