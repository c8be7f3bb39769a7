/* ops/reduce/statistics.c - statistics composed of other operations: pairs of a variance or a
 * standard deviation and a mean, quantiles, and counts. */
#include "ops/pointwise/widen.h"
#include "ops/reduce/reduce_internal.h"

#include <inttypes.h>
#include <math.h>

/* ---- var_mean, std_mean ---------------------------------------------------------------------- */

typedef br_tensor *spread_function(br_tensor *x, int ndims, const int64_t *dims, double correction,
                                   bool keepdim);

static br_tensor *with_mean(const char *op, spread_function *spread, br_tensor *x, int ndims,
                            const int64_t *dims, double correction, bool keepdim, br_tensor **mean)
{
    BR_OP(op);
    unsigned bits;
    if (mean)
        *mean = NULL;
    if (!br__required(op, "mean", mean) || !br__floating(op, "x", x) ||
        !br__dims_to_bits(op, x, ndims, dims, &bits))
        return NULL;
    br_tensor *y = spread(x, ndims, dims, correction, keepdim);
    br_tensor *average = br_mean_dim(x, ndims, dims, keepdim);
    *mean = br_failed() ? NULL : average;
    return br__composed(NULL, y);
}

br_tensor *br_var_mean(br_tensor *x, int ndims, const int64_t *dims, double correction,
                       bool keepdim, br_tensor **mean)
{
    return with_mean("var_mean", br_var_dim, x, ndims, dims, correction, keepdim, mean);
}

br_tensor *br_std_mean(br_tensor *x, int ndims, const int64_t *dims, double correction,
                       bool keepdim, br_tensor **mean)
{
    return with_mean("std_mean", br_std_dim, x, ndims, dims, correction, keepdim, mean);
}

/* ---- count_nonzero, histc -------------------------------------------------------------------- */

br_tensor *br_count_nonzero(br_tensor *x, int ndims, const int64_t *dims)
{
    static const char op[] = "count_nonzero";
    BR_OP(op);
    unsigned bits;
    if (!br__required(op, "x", x) || !br__dims_to_bits(op, x, ndims, dims, &bits))
        return NULL;
    br_scope *scope = br_no_grad_begin();
    return br__composed(scope, br_sum_dim(br_to(x, BR_BOOL), ndims, dims, false));
}

/* Sets min .. max to the range of the elements if both are 0, and widens a range of no length. */
static bool find_range(const char *op, br_tensor *x, double *min, double *max)
{
    if (*min == *max && x->numel > 0) {
        *min = br_item(br_min(x));
        *max = br_item(br_max(x));
    }
    if (*min == *max) {
        *min -= 1;
        *max += 1;
    }
    if (!br_failed() && (!isfinite(*min) || !isfinite(*max) || *min > *max))
        br_fail(BR_ERROR_ARGUMENT, op, "the range %g .. %g must be finite, and min at most max",
                *min, *max);
    return !br_failed();
}

br_tensor *br_histc(br_tensor *x, int64_t bins, double min, double max)
{
    static const char op[] = "histc";
    BR_OP(op);
    if (!br__floating(op, "x", x))
        return NULL;
    if (bins < 1)
        return br_fail(BR_ERROR_ARGUMENT, op, "bins is %" PRId64 ", must be at least 1", bins);
    const br_dtype dtype = x->dtype;
    br_scope *scope = br_no_grad_begin();
    BR_WIDEN(&x);
    if (!x || !find_range(op, x, &min, &max))
        return br__composed(scope, NULL);
    br_tensor *outside = br_logical_not(br_logical_and(br_ge_scalar(x, min), br_le_scalar(x, max)));
    br_tensor *part = br_mul_scalar(br_sub_scalar(x, min), (double)bins);
    part = br_clamp(br_to(br_div_scalar(part, max - min), BR_I64), 0, (double)(bins - 1));
    part = br_flatten(br_masked_fill(part, outside, (double)bins), 0, -1); /* not counted below */
    br_tensor *counts = br_narrow(br_bincount(part, NULL, bins + 1), 0, 0, bins);
    return br__composed(scope, br_to(counts, dtype));
}

/* ---- quantile, nanquantile ------------------------------------------------------------------- */

static bool check_q(const char *op, const br_tensor *x, br_tensor *q)
{
    if (!br__floating(op, "x", x) || !br__compatible(op, "x", x, "q", q))
        return false;
    if (q->ndim > 1)
        br_fail(BR_ERROR_SHAPE, op, "q %s must have at most one dimension", br__shape(q));
    else if (x->numel == 0)
        br_fail(BR_ERROR_SHAPE, op, "x %s must have elements", br__shape(x));
    br_scope *scope = br_no_grad_begin();
    br_tensor *inside = br_logical_and(br_ge_scalar(q, 0), br_le_scalar(q, 1));
    if (!br_failed() && br_item(br_all(inside)) != 1)
        br_fail(BR_ERROR_ARGUMENT, op, "q %s has elements outside 0 .. 1", br__shape(q));
    br_scope_end(scope);
    return !br_failed();
}

/* Returns the rank of each quantile among the elements of each line: q (n - 1), where n is their
 * number or, if `skip_nan`, the number of those that are not NaN. A line with NaN, which are last,
 * has the rank of the last element, unless all are NaN: then it is 0. `sorted` is [lines, n]. */
static br_tensor *ranks(br_tensor *sorted, br_tensor *q, bool skip_nan)
{
    const double last = (double)(br_size(sorted, 1) - 1);
    br_scope *scope = br_scope_begin();
    br_tensor *nan = br_isnan(sorted), *rank;
    if (skip_nan) {
        br_tensor *count = br_sum_dim(br_logical_not(nan), BR_DIMS(1), true);
        rank = br_clamp(br_mul(br_sub_scalar(br_to(count, br_dtype_of(q)), 1), q), 0, INFINITY);
    } else {
        rank = br_mul_scalar(br_expand(q, BR_SHAPE(br_size(sorted, 0), br_size(q, 0))), last);
        rank = br_masked_fill(rank, br_any_dim(nan, BR_DIMS(1), true), last);
    }
    return br__composed(scope, rank);
}

/* Returns the elements of the lines of x at ranks of their order. They are looked up in x, so that
 * the gradient has terms for these elements only. */
static br_tensor *at_ranks(br_tensor *x, br_tensor *order, br_tensor *rank, br_interpolation how)
{
    if (how == BR_INTERPOLATION_LOWER)
        rank = br_floor(rank);
    else if (how == BR_INTERPOLATION_HIGHER)
        rank = br_ceil(rank);
    else if (how == BR_INTERPOLATION_NEAREST)
        rank = br_round(rank);
    br_tensor *below = br_to(rank, BR_I64), *low = br_gather(x, 1, br_gather(order, 1, below));
    if (how != BR_INTERPOLATION_LINEAR && how != BR_INTERPOLATION_MIDPOINT)
        return low;
    br_tensor *part = how == BR_INTERPOLATION_LINEAR
                          ? br_sub(rank, br_to(below, br_dtype_of(rank)))
                          : br_new_full(rank, BR_SCALAR, 0.5, br_dtype_of(rank));
    br_tensor *above = br_to(br_ceil(rank), BR_I64);
    br_tensor *high = br_gather(x, 1, br_gather(order, 1, above));
    return br_lerp(low, high, part);
}

/* Returns the quantiles, [lines, q], in the result's shape: the sizes of x without the dimension,
 * after the size of q. */
static br_tensor *shaped(br_tensor *y, const br_tensor *x, int64_t dim, bool keepdim,
                         const br_tensor *q)
{
    const bool all = dim == BR_ALL;
    int64_t sizes[BR_MAX_DIMS + 1], n = 0;
    if (q->ndim > 0)
        sizes[n++] = q->sizes[0];
    for (int i = 0; i < x->ndim; i++)
        if (!all && i != dim)
            sizes[n++] = x->sizes[i];
        else if (keepdim)
            sizes[n++] = 1;
    return br_reshape(br_t(y), (int)n, sizes);
}

static br_tensor *quantile(const char *op, br_tensor *x, br_tensor *q, int64_t dim, bool keepdim,
                           br_interpolation how, bool skip_nan)
{
    BR_OP(op);
    if (!check_q(op, x, q) || (dim != BR_ALL && !br__wrap_dim(op, "dim", x, &dim)))
        return NULL;
    if (how < BR_INTERPOLATION_LINEAR || how > BR_INTERPOLATION_NEAREST)
        return br_fail(BR_ERROR_ARGUMENT, op, "interpolation is %d, must be a br_interpolation",
                       (int)how);
    br_scope *scope = br_scope_begin();
    const br_rounding rounding = BR_WIDEN(&x, &q);
    if (br_failed())
        return br__composed(scope, NULL);
    br_tensor *line = dim == BR_ALL || x->ndim == 0 ? br_flatten(x, 0, -1)
                                                    : br_movedim(x, BR_DIMS(dim), BR_DIMS(-1));
    const int64_t n = line ? line->sizes[line->ndim - 1] : 1;
    br_tensor *lines = br_reshape(line, BR_SHAPE(-1, n)), *order = NULL;
    br_scope *unrecorded = br_no_grad_begin();
    br_tensor *sorted = br_sort(lines, 1, false, &order);
    br_scope_return(unrecorded, sorted);
    br_scope_return(unrecorded, order);
    br_scope_end(unrecorded);
    br_tensor *rank = sorted ? ranks(sorted, br_reshape(q, BR_SHAPE(-1)), skip_nan) : NULL;
    br_tensor *y = rank ? at_ranks(lines, order, rank, how) : NULL;
    y = y ? shaped(y, x, dim, keepdim, q) : NULL;
    return br__composed(scope, br__narrowed(rounding, y));
}

br_tensor *br_quantile(br_tensor *x, br_tensor *q, int64_t dim, bool keepdim,
                       br_interpolation interpolation)
{
    return quantile("quantile", x, q, dim, keepdim, interpolation, false);
}

br_tensor *br_nanquantile(br_tensor *x, br_tensor *q, int64_t dim, bool keepdim,
                          br_interpolation interpolation)
{
    return quantile("nanquantile", x, q, dim, keepdim, interpolation, true);
}
