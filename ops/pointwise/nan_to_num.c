/* ops/pointwise/nan_to_num.c - numbers in place of NaN and infinities. */
#include "ops/ops_internal.h"

#include <math.h>

static void nan_to_num_backward(br_node *node, br_tensor *dy, br_tensor **dx)
{
    dx[0] = br_masked_fill(dy, br_logical_not(br_isfinite(br_saved(node, 0))), 0);
}

static const br_op nan_to_num_op = { "nan_to_num", nan_to_num_backward, false };

br_tensor *br_nan_to_num(br_tensor *x, double nan, double posinf, double neginf)
{
    const char *op = nan_to_num_op.name;
    BR_OP(op);
    if (!br__required(op, "x", x))
        return NULL;
    if (!br_is_floating(x))
        return br__composed(NULL, br_clone(x));
    const double largest = br__largest(x->dtype);
    const double params[] = { isnan(nan) ? 0 : nan, isnan(posinf) ? largest : posinf,
                              isnan(neginf) ? -largest : neginf };
    br_tensor *y = br__new_like(op, x, x->dtype);
    if (!y)
        return NULL;
    br__pointwise(BR_POINTWISE(nan_to_num), 2, (const br_tensor *[]){ y, x }, params);
    br_save(br_record(&nan_to_num_op, y, BR_INPUTS(x), NULL, 0), 0, x);
    return br_failed() ? NULL : y;
}
