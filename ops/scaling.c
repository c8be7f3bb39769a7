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

br_tensor *br__where_in_range(br_tensor *values, br_tensor *x, br_tensor *y)
{
    if (br_failed() || !values)
        return NULL;
    br_scope *scope = br_no_grad_begin();
    br_tensor *size = br_abs(values);
    br_tensor *large_enough = br_ge_scalar(size, br__least_in_range(values));
    br_tensor *in_range = br_logical_and(large_enough, br_lt_scalar(size, INFINITY));
    in_range = br__composed(scope, in_range);
    return br_where(in_range, x, y);
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
