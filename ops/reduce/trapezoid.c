/* ops/reduce/trapezoid.c - integrals by the trapezoidal rule. */
#include "ops/pointwise/widen.h"
#include "ops/reduce/reduce_internal.h"

#include <inttypes.h>

/* Returns y[i] + y[i + 1] along dim. */
static br_tensor *sums_of_neighbours(br_tensor *y, int64_t dim)
{
    return br_add(br_slice(y, dim, 0, -1, 1), br_slice(y, dim, 1, BR_ALL, 1));
}

/* Returns x with the dimensions of y, which it lacks: a vector gets its place in dimension dim,
 * other tensors get new dimensions in front. */
static br_tensor *fitted(const char *op, br_tensor *x, const br_tensor *y, int64_t dim)
{
    int64_t sizes[BR_MAX_DIMS];
    if (x->ndim == 1 && x->sizes[0] != y->sizes[dim])
        return br_fail(BR_ERROR_SHAPE, op,
                       "x %s must have one element for each of dimension %" PRId64 " of y %s",
                       br__shape(x), dim, br__shape(y));
    if (x->ndim >= y->ndim)
        return x;
    for (int d = 0; d < y->ndim; d++)
        sizes[d] = d < y->ndim - x->ndim ? 1 : x->sizes[d - (y->ndim - x->ndim)];
    if (x->ndim == 1) {
        sizes[y->ndim - 1] = 1;
        sizes[dim] = x->sizes[0];
    }
    return br_reshape(x, y->ndim, sizes);
}

static bool broadcast(const br_tensor *a, const br_tensor *b)
{
    bool fit = true;
    for (int i = 1; i <= a->ndim && i <= b->ndim; i++) {
        const int64_t m = a->sizes[a->ndim - i], n = b->sizes[b->ndim - i];
        fit &= m == n || m == 1 || n == 1;
    }
    return fit;
}

/* Returns twice the area between neighbours: (y[i] + y[i + 1]) (x[i + 1] - x[i]). */
static br_tensor *areas(const char *op, br_tensor *y, br_tensor *x, int64_t dim)
{
    br_tensor *points = fitted(op, x, y, dim);
    if (!points)
        return NULL;
    br_tensor *heights = sums_of_neighbours(y, dim);
    br_tensor *left = br_slice(points, dim, 0, -1, 1), *right = br_slice(points, dim, 1, BR_ALL, 1);
    br_tensor *widths = br_sub(right, left);
    if (heights && widths && !broadcast(heights, widths))
        return br_fail(
            BR_ERROR_SHAPE, op,
            "x %s does not fit y %s: starting from the last dimension, each size must be "
            "equal or 1",
            br__shape(x), br__shape(y));
    return br_mul(heights, widths);
}

/* Checks the arguments, and makes the dimension, which is one of y, not negative. */
static bool check(const char *op, br_tensor *y, br_tensor *x, int64_t *dim)
{
    return br__is_number(op, "y", y) && br__wrap_dim_nonscalar(op, y, dim) &&
           (!x || (br__is_number(op, "x", x) && br__same_device(op, "y", y, "x", x)));
}

/* Returns the sum of dimension dim of y, in which the first and the last element count half.
 * Nothing cancels, unlike in PyTorch, which subtracts them from twice the sum. */
static br_tensor *weighted_sum(br_tensor *y, int64_t dim)
{
    const int64_t n = y->sizes[dim];
    br_tensor *inside = br_sum_dim(br_slice(y, dim, 1, -1, 1), BR_DIMS(dim), false);
    br_tensor *first = br__as_floating(br_select(y, dim, 0));
    br_tensor *last = br__as_floating(br_select(y, dim, n - 1));
    return br_add(inside, br_mul_scalar(br_add(first, last), n > 1 ? 0.5 : 0));
}

br_tensor *br_trapezoid(br_tensor *y, br_tensor *x, double dx, int64_t dim)
{
    static const char op[] = "trapezoid";
    BR_OP(op);
    if (!check(op, y, x, &dim))
        return NULL;
    br_scope *scope = br_scope_begin();
    if (y->sizes[dim] == 0) /* zeros of y's dtype, as in PyTorch */
        return br__composed(scope, br_zero_(br__reduced(op, y, 1U << dim, false, y->dtype)));
    const br_rounding rounding = BR_WIDEN(&y, &x);
    br_tensor *sum;
    if (x)
        sum = br_div_scalar(br_sum_dim(areas(op, y, x, dim), BR_DIMS(dim), false), 2);
    else
        sum = br_mul_scalar(weighted_sum(y, dim), dx);
    return br__composed(scope, br__narrowed(rounding, sum));
}

br_tensor *br_cumulative_trapezoid(br_tensor *y, br_tensor *x, double dx, int64_t dim)
{
    static const char op[] = "cumulative_trapezoid";
    BR_OP(op);
    if (!check(op, y, x, &dim))
        return NULL;
    br_scope *scope = br_scope_begin();
    const br_rounding rounding = BR_WIDEN(&y, &x);
    br_tensor *parts = x ? br_div_scalar(areas(op, y, x, dim), 2)
                         : br_mul_scalar(br__as_floating(sums_of_neighbours(y, dim)), dx / 2);
    return br__composed(scope, br__narrowed(rounding, br_cumsum(parts, dim)));
}
