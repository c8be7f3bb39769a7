/* ops/reduce/var_norm_logsumexp.c - variance, standard deviation, norms and logsumexp.
 *
 * Each is computed from other operations without recording them, and saves its input and result.
 * The gradients are composed of operations, so that they can be differentiated again. */
#include "ops/pointwise/widen.h"
#include "ops/reduce/reduce_internal.h"
#include "ops/scaling.h"

#include <math.h>

/* Lists the dimensions in `bits`; returns their number. */
static int list_dims(unsigned bits, int64_t *dims)
{
    int n = 0;
    for (int d = 0; d < BR_MAX_DIMS; d++)
        if (bits >> d & 1)
            dims[n++] = d;
    return n;
}

static br_tensor *sum_over(br_tensor *x, unsigned bits, bool keepdim)
{
    int64_t dims[BR_MAX_DIMS];
    int n = list_dims(bits, dims);
    return br_sum_dim(x, n, dims, keepdim);
}

static br_tensor *mean_over(br_tensor *x, unsigned bits)
{
    int64_t dims[BR_MAX_DIMS];
    int n = list_dims(bits, dims);
    return br_mean_dim(x, n, dims, true);
}

/* Returns the largest or smallest elements along the dimensions, which are kept with size 1. */
static br_tensor *extreme_over(const char *op, br_tensor *x, unsigned bits, bool largest)
{
    br_tensor *y = x ? br__reduced(op, x, bits, true, x->dtype) : NULL;
    br_reducer fold = { largest ? BR_FOLD(max) : BR_FOLD(min), largest ? -INFINITY : INFINITY, 1, y,
                        NULL };
    return y && br__reduce(op, x, bits, &fold) ? y : NULL;
}

/* Multiplies a result by the scale, which has the shape with the kept dimensions. */
static br_tensor *scaled_back(br_tensor *y, br_tensor *scale)
{
    return y ? br_mul(y, br_reshape(scale, br_ndim(y), br_sizes(y))) : NULL;
}

/* Reshapes t, which has the shape of a result, so that the reduced dimensions of x have size 1. */
static br_tensor *kept(br_tensor *t, br_tensor *x, unsigned bits)
{
    int64_t sizes[BR_MAX_DIMS];
    for (int d = 0; d < br_ndim(x); d++)
        sizes[d] = bits >> d & 1 ? 1 : br_sizes(x)[d];
    return x ? br_reshape(t, br_ndim(x), sizes) : NULL;
}

/* Parameters of the operations. */
typedef struct params {
    unsigned bits;
    bool keepdim;
    double value; /* correction, or the norm's p */
} params;

typedef struct statistic {
    br_op op;
    br_tensor *(*compute)(const char *op, br_tensor *x, const params *p);
} statistic;

enum { X, Y }; /* saved values */

static br_tensor *apply(const statistic *s, br_tensor *x, int ndims, const int64_t *dims,
                        bool keepdim, double value)
{
    BR_OP(s->op.name);
    params p = { .keepdim = keepdim, .value = value };
    if (!br__floating(s->op.name, "x", x) || !br__dims_to_bits(s->op.name, x, ndims, dims, &p.bits))
        return NULL;
    if (br__is_half(x)) {
        br_scope *outer = br_scope_begin();
        const br_rounding rounding = BR_WIDEN(&x);
        br_tensor *wide = apply(s, x, ndims, dims, keepdim, value);
        return br__composed(outer, br__narrowed(rounding, wide));
    }
    br_scope *scope = br_no_grad_begin();
    br_tensor *y = br_scope_return(scope, s->compute(s->op.name, x, &p));
    br_scope_end(scope);
    br_node *node = br_record(&s->op, y, BR_INPUTS(x), &p, sizeof p);
    br_save(node, X, x);
    br_save(node, Y, y);
    return br_failed() ? NULL : y;
}

/* ---- Variance -------------------------------------------------------------------------------- */

static double count_of(const br_tensor *x, unsigned bits)
{
    return x ? (double)br__reduced_count(x->ndim, x->sizes, bits) : 0;
}

static double degrees_of_freedom(const br_tensor *x, const params *p)
{
    return fmax(0, count_of(x, p->bits) - p->value);
}

static br_tensor *variance_unscaled(br_tensor *x, const params *p)
{
    br_tensor *deviation = br_sub(x, mean_over(x, p->bits));
    br_tensor *sum = sum_over(br_mul(deviation, deviation), p->bits, p->keepdim);
    return br_div_scalar(sum, degrees_of_freedom(x, p));
}

/* Returns the variance of x / *scale. *scale is NULL, which stands for 1, unless a square left the
 * range of the dtype. */
static br_tensor *scaled_variance(const char *op, br_tensor *x, const params *p, br_tensor **scale)
{
    br_tensor *y = variance_unscaled(x, p);
    *scale = br__in_range(y) ? NULL : br__scale_of(op, x, p->bits);
    return *scale ? variance_unscaled(br_div(x, *scale), p) : y;
}

static br_tensor *variance(const char *op, br_tensor *x, const params *p)
{
    br_tensor *scale, *y = scaled_variance(op, x, p, &scale);
    return scale ? scaled_back(scaled_back(y, scale), scale) : y;
}

/* dx = 2 (x - mean) / (count - correction) * dy, where dy has the reduced dimensions with size 1.
 * Without degrees of freedom this is infinity, or NaN where x is the mean: PyTorch's signs are
 * positive. */
static br_tensor *variance_gradient(br_tensor *x, br_tensor *dy, const params *p)
{
    double n = degrees_of_freedom(x, p);
    br_tensor *deviation = br_sub(x, mean_over(x, p->bits));
    return br_mul(dy, br_mul_scalar(n > 0 ? deviation : br_abs(deviation), 2 / n));
}

/* Returns true if the deviations of x from their mean are finite, whose variance is y. */
static bool deviations_fit(br_tensor *y)
{
    return br__in_range(y ? br_mul_scalar(y, 16) : NULL);
}

/* With x = scale z, the variance is scale^2 var(z), so its gradient is scale times that of
 * var(z). */
static void var_backward(br_node *node, br_tensor *dy, br_tensor **dx)
{
    const params *p = br_params(node);
    br_tensor *x = br_saved(node, X);
    dy = kept(dy, x, p->bits);
    if (deviations_fit(br_saved(node, Y))) {
        dx[0] = variance_gradient(x, dy, p);
        return;
    }
    br_tensor *scale = br__scale_of("var", x, p->bits);
    dx[0] = br_mul(variance_gradient(br_div(x, scale), dy, p), scale);
}

static const statistic var_statistic = { { "var", var_backward, false }, variance };

br_tensor *br_var_dim(br_tensor *x, int ndims, const int64_t *dims, double correction, bool keepdim)
{
    return apply(&var_statistic, x, ndims, dims, keepdim, correction);
}

br_tensor *br_var(br_tensor *x, double correction)
{
    return br_var_dim(x, 0, NULL, correction, false);
}

static br_tensor *deviation_of(const char *op, br_tensor *x, const params *p)
{
    br_tensor *scale, *y = br_sqrt(scaled_variance(op, x, p, &scale));
    return scale ? scaled_back(y, scale) : y;
}

/* If all elements are equal, std is 0 and the gradient is set to 0. With x = scale z, the gradient
 * of std(x) is that of std(z). */
static void std_backward(br_node *node, br_tensor *dy, br_tensor **dx)
{
    const params *p = br_params(node);
    br_tensor *x = br_saved(node, X), *y = kept(br_saved(node, Y), x, p->bits);
    if (!br__in_range(y ? br_mul(y, y) : NULL)) {
        br_tensor *scale = br__scale_of("std", x, p->bits);
        x = br_div(x, scale);
        y = br_div(y, scale);
    }
    br_tensor *dvar = br_div(kept(dy, x, p->bits), br_mul_scalar(y, 2));
    dvar = br_masked_fill(dvar, br_eq_scalar(y, 0), 0);
    dx[0] = variance_gradient(x, dvar, p);
}

static const statistic std_statistic = { { "std", std_backward, false }, deviation_of };

br_tensor *br_std_dim(br_tensor *x, int ndims, const int64_t *dims, double correction, bool keepdim)
{
    return apply(&std_statistic, x, ndims, dims, keepdim, correction);
}

br_tensor *br_std(br_tensor *x, double correction)
{
    return br_std_dim(x, 0, NULL, correction, false);
}

/* ---- logsumexp ------------------------------------------------------------------------------- */

/* Returns the maximum along the dimensions, as a constant for autograd; 0 where it is infinite,
 * because x - max would be NaN. */
static br_tensor *shift_of(const char *op, br_tensor *x, const params *p)
{
    br_scope *scope = br_no_grad_begin();
    br_tensor *max_value = extreme_over(op, x, p->bits, true);
    return br__composed(scope, br_masked_fill(max_value, br_isinf(max_value), 0));
}

static br_tensor *log_sum_exp(const char *op, br_tensor *x, const params *p)
{
    br_tensor *max_value = shift_of(op, x, p);
    br_tensor *sum = sum_over(br_exp(br_sub(x, max_value)), p->bits, p->keepdim);
    br_tensor *log = br_log(sum);
    return log ? br_add(log, br_reshape(max_value, br_ndim(log), br_sizes(log))) : NULL;
}

/* dx = dy exp(x - max x) / sum exp(x - max x). This is more accurate than dy exp(x - y), because y
 * is rounded to the precision of the largest x. If the maximum is infinity, the exponentials are 0,
 * or NaN where x is infinity, and are not divided, as in PyTorch. */
static void logsumexp_backward(br_node *node, br_tensor *dy, br_tensor **dx)
{
    const params *p = br_params(node);
    br_tensor *x = br_saved(node, X), *y = kept(br_saved(node, Y), x, p->bits);
    if (br_failed())
        return;
    br_tensor *infinite = br_eq_scalar(y, INFINITY);
    br_tensor *shift = br_masked_fill(shift_of("logsumexp", x, p), infinite, INFINITY);
    br_tensor *e = br_exp(br_sub(x, shift));
    br_tensor *sum = br_masked_fill(sum_over(e, p->bits, true), infinite, 1);
    dx[0] = br_mul(br_div(kept(dy, x, p->bits), sum), e);
}

static const statistic logsumexp_statistic = { { "logsumexp", logsumexp_backward, false },
                                               log_sum_exp };

br_tensor *br_logsumexp(br_tensor *x, int ndims, const int64_t *dims, bool keepdim)
{
    if (!br__required("logsumexp", "x", x))
        return NULL;
    br_scope *scope = br_scope_begin();
    br_tensor *real = br__as_floating(x);
    return br__composed(scope, apply(&logsumexp_statistic, real, ndims, dims, keepdim, 0));
}

/* ---- Norms ----------------------------------------------------------------------------------- */

static br_tensor *sum_of_powers(br_tensor *x, const params *p)
{
    br_tensor *powers = p->value == 2 ? br_mul(x, x) : br_pow_scalar(br_abs(x), p->value);
    return sum_over(powers, p->bits, p->keepdim);
}

static br_tensor *root(br_tensor *sum, double p)
{
    return p == 2 ? br_sqrt(sum) : br_pow_scalar(sum, 1 / p);
}

static br_tensor *norm(const char *op, br_tensor *x, const params *p)
{
    if (isnan(p->value))
        return br_fail(BR_ERROR_ARGUMENT, op, "p is %g, must be a number", p->value);
    if (isinf(p->value) || p->value < 0) {
        if (br__reduced_count(x->ndim, x->sizes, p->bits) == 0)
            return br_fail(BR_ERROR_SHAPE, op,
                           "x %s has no elements along the reduced dimensions: the norm of no "
                           "elements is undefined for p = %g",
                           br__shape(x), p->value);
    }
    if (isinf(p->value)) {
        br_tensor *y = extreme_over(op, br_abs(x), p->bits, p->value > 0);
        int64_t sizes[BR_MAX_DIMS];
        int n = 0;
        for (int d = 0; d < x->ndim; d++)
            if (!(p->bits >> d & 1) || p->keepdim)
                sizes[n++] = p->bits >> d & 1 ? 1 : x->sizes[d];
        return br_reshape(y, n, sizes);
    }
    if (p->value == 0)
        return sum_over(br_to(br_ne_scalar(x, 0), x->dtype), p->bits, p->keepdim);
    if (p->value == 1)
        return sum_over(br_abs(x), p->bits, p->keepdim);
    br_tensor *sum = sum_of_powers(x, p);
    if (p->value < 0 || br__in_range(sum))
        return root(sum, p->value);
    br_tensor *scale = br__scale_of(op, x, p->bits);
    br_tensor *y = scaled_back(root(sum_of_powers(br_div(x, scale), p), p->value), scale);
    return br__where_in_range(sum, root(sum, p->value), y);
}

/* Shares dy evenly among the elements whose magnitude is y. */
static br_tensor *extreme_norm_gradient(br_tensor *x, br_tensor *y, br_tensor *dy, unsigned bits)
{
    br_tensor *size = br_abs(x);
    br_tensor *selected = br_logical_or(br_eq(size, y), br_isnan(size));
    br_tensor *weight = br_to(selected, br_dtype_of(x));
    return br_mul(br_mul(br_sign(x), weight), br_div(dy, sum_over(weight, bits, true)));
}

/* dx = sign(x) (|x| / y)^(p-1) dy; 0 where y is 0 or, for p < 1, where x is 0. */
static br_tensor *power_norm_gradient(br_tensor *x, br_tensor *y, br_tensor *dy, double p)
{
    br_tensor *scale = br_div(dy, br_pow_scalar(y, p - 1));
    br_tensor *zero = p < 1 ? br_eq_scalar(x, 0) : br_eq_scalar(y, 0);
    br_tensor *slope = br_mul(br_sign(x), br_pow_scalar(br_abs(x), p - 1));
    if (p < 1)
        slope = br_masked_fill(slope, zero, 0);
    else
        scale = br_masked_fill(scale, zero, 0);
    return br_mul(slope, scale);
}

/* Computes the same gradient for p > 1 if y or its powers leave the range of the dtype: divides
 * before it computes powers. With x = scale z, the gradient of the norm of x is that of the norm of
 * z. */
static br_tensor *scaled_norm_gradient(br_tensor *x, br_tensor *dy, const params *p)
{
    const params with_kept = { p->bits, true, p->value };
    br_tensor *z = br_div(x, br__scale_of("norm", x, p->bits));
    br_tensor *sum = sum_of_powers(z, &with_kept);
    br_tensor *y = root(br_masked_fill(sum, br_eq_scalar(sum, 0), 1), p->value);
    if (p->value == 2)
        return br_mul(z, br_div(dy, y));
    br_tensor *ratio = br_div(z, y);
    return br_mul(br_mul(br_sign(x), br_pow_scalar(br_abs(ratio), p->value - 1)), dy);
}

/* The gradient for a finite p other than 0 and 1. */
static br_tensor *root_norm_gradient(br_tensor *x, br_tensor *y, br_tensor *dy, const params *p)
{
    if (br_failed())
        return NULL;
    br_tensor *not_zero = br_masked_fill(y, br_eq_scalar(y, 0), 1);
    if (p->value > 1 && !br__in_range(br_pow_scalar(not_zero, fmax(p->value, 2))))
        return scaled_norm_gradient(x, dy, p);
    if (p->value == 2)
        return br_mul(x, br_masked_fill(br_div(dy, y), br_eq_scalar(y, 0), 0));
    return power_norm_gradient(x, y, dy, p->value);
}

static void norm_backward(br_node *node, br_tensor *dy, br_tensor **dx)
{
    const params *p = br_params(node);
    br_tensor *x = br_saved(node, X), *y = kept(br_saved(node, Y), x, p->bits);
    dy = kept(dy, x, p->bits);
    if (p->value == 0)
        dx[0] = br_zeros_like(x);
    else if (p->value == 1)
        dx[0] = br_mul(br_sign(x), dy);
    else if (isinf(p->value))
        dx[0] = extreme_norm_gradient(x, y, dy, p->bits);
    else
        dx[0] = root_norm_gradient(x, y, dy, p);
}

static const statistic norm_statistic = { { "norm", norm_backward, false }, norm };

br_tensor *br_norm_dim(br_tensor *x, double p, int ndims, const int64_t *dims, bool keepdim)
{
    return apply(&norm_statistic, x, ndims, dims, keepdim, p);
}

br_tensor *br_norm(br_tensor *x, double p)
{
    return br_norm_dim(x, p, 0, NULL, false);
}
