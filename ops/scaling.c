/* ops/scaling.c - powers of two that bring values near 1 before they are squared or multiplied.
 *
 * The square of a number above 1.8e19 is infinite in f32, and the square of a number below 1e-19
 * loses digits or is 0, although the norm, the standard deviation or the quotient that is computed
 * from the squares is an ordinary number. An operation first computes its formula as it stands, and
 * asks br__in_range() whether the squares were representable. Only if they were not, it divides its
 * input by a power of two, which is exact, computes the formula again, and scales the result
 * back. */
#include "ops/scaling.h"

#include "ops/reduce/reduce_internal.h"

#include <math.h>

/* Returns the smallest number that is in range. Partial sums may have lost terms below the smallest
 * normal number, so the limit leaves room for the precision of the type. */
static double least_of(const br_tensor *values)
{
    const br_dtype_info *info = &br__dtypes[br_dtype_of(values)];
    return ldexp(1, info->min_exponent + info->digits + 2);
}

bool br__in_range(br_tensor *values)
{
    if (br_failed() || !values || br_numel(values) == 0)
        return true;
    br_scope *scope = br_no_grad_begin();
    br_tensor *size = br_abs(values);
    bool in_range = br_item(br_min(size)) >= least_of(values) && br_item(br_max(size)) < INFINITY;
    br_scope_end(scope);
    return in_range;
}

br_tensor *br__where_in_range(br_tensor *values, br_tensor *x, br_tensor *y)
{
    if (br_failed() || !values)
        return NULL;
    br_scope *scope = br_no_grad_begin();
    br_tensor *size = br_abs(values);
    br_tensor *large_enough = br_ge_scalar(size, least_of(values));
    br_tensor *in_range = br_logical_and(large_enough, br_lt_scalar(size, INFINITY));
    in_range = br__composed(scope, in_range);
    return br_where(in_range, x, y);
}

bool br__finite(br_tensor *values)
{
    br_scope *scope = br_no_grad_begin();
    double sum = br_item(br_sum(values));
    br_scope_end(scope);
    return br_failed() || isfinite(sum);
}

br_tensor *br__power_of_two(br_tensor *size)
{
    if (br_failed() || !size)
        return NULL;
    /* The reciprocal of a smaller power would be infinite in gradients. */
    double smallest = br__smallest_normal(br_dtype_of(size));
    br_scope *scope = br_no_grad_begin();
    br_tensor *none = br_logical_or(br_eq_scalar(size, 0), br_logical_not(br_isfinite(size)));
    br_tensor *power = br_exp2(br_floor(br_log2(size)));
    return br__composed(scope, br_masked_fill(br_clamp(power, smallest, INFINITY), none, 1));
}

br_tensor *br__scale_of(const char *op, br_tensor *x, unsigned dims)
{
    if (br_failed() || !x)
        return NULL;
    br_scope *scope = br_no_grad_begin();
    br_tensor *size = br_abs(x), *largest = br__reduced(op, x, dims, true, x->dtype);
    br_reducer fold = { BR_FOLD(max), -INFINITY, 1, largest, NULL };
    bool done = size && largest && br__reduce(op, size, dims, &fold);
    return br__composed(scope, done ? br__power_of_two(largest) : NULL);
}

br_tensor *br__scale_of_large(const char *op, br_tensor *x, unsigned dims)
{
    if (br_failed() || !x || br_numel(x) == 0)
        return NULL;
    double most = ldexp(1, br__dtypes[br_dtype_of(x)].max_exponent / 6);
    br_scope *scope = br_no_grad_begin();
    bool small = br_item(br_max(br_abs(x))) < most;
    return br__composed(scope, small ? NULL : br_clamp(br__scale_of(op, x, dims), 1, INFINITY));
}

br_tensor *br__add_scaled_eps(br_tensor *variance, double eps, br_tensor *scale)
{
    if (!scale)
        return br_add_scalar(variance, eps);
    return br_add(variance, br_rdiv_scalar(br_mul(scale, scale), eps));
}
