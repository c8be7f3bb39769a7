/* ops/pointwise/logit.c - the inverse of the sigmoid. */
#include "ops/pointwise/widen.h"

#include <math.h>

/* The bounds to which x is clamped: eps and 1 - eps, or none. */
typedef struct bounds {
    double min, max;
    bool given;
} bounds;

/* Returns dy / (x (1 - x)). Outside of the bounds, and of 0 .. 1 if there are none, it is 0 or NaN,
 * as in PyTorch. */
static void logit_backward(br_node *node, br_tensor *dy, br_tensor **dx)
{
    const bounds *b = br_params(node);
    br_tensor *x = br_saved(node, 0);
    br_tensor *below = br_lt_scalar(x, b->given ? b->min : 0);
    br_tensor *above = br_gt_scalar(x, b->given ? b->max : 1);
    BR_WIDEN(&x, &dy);
    br_tensor *slope = br_div(dy, br_mul(x, br_rsub_scalar(x, 1)));
    dx[0] = br_masked_fill(slope, br_logical_or(below, above), b->given ? 0 : NAN);
}

static const br_op logit_op = { "logit", logit_backward, false };

br_tensor *br_logit(br_tensor *x, double eps)
{
    const char *op = logit_op.name;
    BR_OP(op);
    if (!br__required(op, "x", x))
        return NULL;
    BR_IF_CONVERTED(!br_is_floating(x), br_logit(br__as_floating(x), eps))
    const bool given = eps >= 0; /* a negative eps is none, as in PyTorch */
    const double min = given ? br__rounded(x->dtype, eps) : -INFINITY;
    const double max = given ? br__rounded(x->dtype, 1 - min) : INFINITY;
    const bounds b = { min, max, given };
    br_tensor *y = br__new_like(op, x, x->dtype);
    if (!y)
        return NULL;
    br__pointwise(BR_POINTWISE(logit), 2, (const br_tensor *[]){ y, x }, (double[]){ min, max });
    br_save(br_record(&logit_op, y, BR_INPUTS(x), &b, sizeof b), 0, x);
    return br_failed() ? NULL : y;
}
