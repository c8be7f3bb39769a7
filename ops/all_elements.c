/* ops/all_elements.c - facts about all elements of a tensor, by which operations and gradients
 * choose a formula. They use the backend only, no operations, and nothing is recorded. */
#include "ops/all_elements.h"

#include <math.h>

/* Returns the fold of all elements of t and `start`, or NaN if an error is pending. */
static double folded(const char *op, const br_tensor *t, br_fold_kind kind, double start)
{
    BR_OP(op);
    br_scope *scope = br_no_grad_begin();
    br_dtype dtype = kind == BR_FOLD(sum) ? br__sum_dtype(t->dtype) : t->dtype;
    br_tensor *y = br__new_on(op, t, BR_SCALAR, dtype);
    br_reducer fold = { kind, start, 1, y, NULL };
    double value = y && br__reduce(op, t, (1u << t->ndim) - 1, &fold) ? br_item(y) : NAN;
    br_scope_end(scope);
    return value;
}

bool br__all_true(const br_tensor *t)
{
    return t && folded("all", t, BR_FOLD(min), true) == 1;
}

bool br__any_true(const br_tensor *t)
{
    return t && folded("any", t, BR_FOLD(max), false) == 1;
}

bool br__finite(const br_tensor *values)
{
    return br_failed() || !values || isfinite(folded("sum", values, BR_FOLD(sum), 0)) ||
           br_failed();
}

/* Partial sums may have lost terms below the smallest normal number, so the limit leaves room for
 * the precision of the type. */
double br__least_in_range(const br_tensor *values)
{
    const br_dtype_info *info = &br__dtypes[br_dtype_of(values)];
    return ldexp(1, info->min_exponent + info->digits + 2);
}

bool br__in_range(const br_tensor *values)
{
    if (br_failed() || !values || br_numel(values) == 0)
        return true;
    br_scope *scope = br_no_grad_begin();
    br_tensor *size = br__new_like("abs", values, values->dtype);
    bool in_range =
        size && br__pointwise(BR_POINTWISE(abs), 2, (const br_tensor *[]){ size, values }, NULL) &&
        folded("min", size, BR_FOLD(min), INFINITY) >= br__least_in_range(values) &&
        folded("max", size, BR_FOLD(max), -INFINITY) < INFINITY;
    br_scope_end(scope);
    return in_range;
}
