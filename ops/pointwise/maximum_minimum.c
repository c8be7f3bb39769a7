/* ops/pointwise/maximum_minimum.c - maximum, minimum, fmax, fmin and lerp. */
#include "ops/ops_internal.h"
#include "ops/pointwise/promotion.h"

/* ---- maximum and minimum --------------------------------------------------------------------- */

/* Returns the gradient of one operand: 0 where it was not selected (`not_selected`), dy / 2 where
 * the operands are equal, and dy elsewhere. NaN is neither larger nor smaller, so both operands get
 * dy, as in PyTorch. */
static br_tensor *share(br_tensor *dy, br_tensor *equal, br_tensor *not_selected)
{
    return br_masked_fill(br_where(equal, br_mul_scalar(dy, 0.5), dy), not_selected, 0);
}

static void share_between(br_node *node, br_tensor *dy, br_tensor **dx, bool largest)
{
    br_tensor *a = br_saved(node, 0), *b = br_saved(node, 1), *equal = br_eq(a, b);
    if (br_needs_input_grad(node, 0))
        dx[0] = share(dy, equal, largest ? br_lt(a, b) : br_gt(a, b));
    if (br_needs_input_grad(node, 1))
        dx[1] = share(dy, equal, largest ? br_gt(a, b) : br_lt(a, b));
}

static void maximum_backward(br_node *node, br_tensor *dy, br_tensor **dx)
{
    share_between(node, dy, dx, true);
}

static void minimum_backward(br_node *node, br_tensor *dy, br_tensor **dx)
{
    share_between(node, dy, dx, false);
}

static br_tensor *one_of(const br_op *op, br_pointwise kernel, br_tensor *a, br_tensor *b)
{
    BR_OP(op->name);
    br_tensor *y = br__binary(op->name, kernel, a, b);
    br_node *node = br_record(op, y, BR_INPUTS(a, b), NULL, 0);
    br_save(node, 0, a);
    br_save(node, 1, b);
    return y;
}

static const br_op maximum_op = { "maximum", maximum_backward, false };
static const br_op minimum_op = { "minimum", minimum_backward, false };

br_tensor *br_maximum(br_tensor *a, br_tensor *b)
{
    return br__mixed(a, b) ? br__promoted("maximum", br_maximum, a, b)
                           : one_of(&maximum_op, BR_POINTWISE(maximum), a, b);
}

br_tensor *br_minimum(br_tensor *a, br_tensor *b)
{
    return br__mixed(a, b) ? br__promoted("minimum", br_minimum, a, b)
                           : one_of(&minimum_op, BR_POINTWISE(minimum), a, b);
}

/* ---- fmax and fmin --------------------------------------------------------------------------- */

/* Of a number and NaN, the number gets dy; of two NaNs, a gets it, as in PyTorch. */
static void share_between_numbers(br_node *node, br_tensor *dy, br_tensor **dx, bool largest)
{
    br_tensor *a = br_saved(node, 0), *b = br_saved(node, 1), *equal = br_eq(a, b);
    br_tensor *beyond = largest ? br_gt(a, b) : br_lt(a, b);
    br_tensor *a_alone = br_logical_or(beyond, br_isnan(b));
    if (br_needs_input_grad(node, 0))
        dx[0] = share(dy, equal, br_logical_not(br_logical_or(a_alone, equal)));
    if (br_needs_input_grad(node, 1))
        dx[1] = share(dy, equal, a_alone);
}

static void fmax_backward(br_node *node, br_tensor *dy, br_tensor **dx)
{
    share_between_numbers(node, dy, dx, true);
}

static void fmin_backward(br_node *node, br_tensor *dy, br_tensor **dx)
{
    share_between_numbers(node, dy, dx, false);
}

static const br_op fmax_op = { "fmax", fmax_backward, false };
static const br_op fmin_op = { "fmin", fmin_backward, false };

br_tensor *br_fmax(br_tensor *a, br_tensor *b)
{
    return br__mixed(a, b) ? br__promoted("fmax", br_fmax, a, b)
                           : one_of(&fmax_op, BR_POINTWISE(fmax), a, b);
}

br_tensor *br_fmin(br_tensor *a, br_tensor *b)
{
    return br__mixed(a, b) ? br__promoted("fmin", br_fmin, a, b)
                           : one_of(&fmin_op, BR_POINTWISE(fmin), a, b);
}

/* ---- lerp ------------------------------------------------------------------------------------ */

enum { START, END, WEIGHT };

/* y = (1 - weight) start + weight end. */
static void lerp_backward(br_node *node, br_tensor *dy, br_tensor **dx)
{
    br_tensor *weight = br_saved(node, WEIGHT);
    if (br_needs_input_grad(node, START))
        dx[START] = br_mul(dy, br_rsub_scalar(weight, 1));
    if (br_needs_input_grad(node, END))
        dx[END] = br_mul(dy, weight);
    if (br_needs_input_grad(node, WEIGHT))
        dx[WEIGHT] = br_mul(dy, br_sub(br_saved(node, END), br_saved(node, START)));
}

static const br_op lerp_op = { "lerp", lerp_backward, false };

static br_tensor *lerp(const char *op, const br_tensor *start, const br_tensor *end,
                       const br_tensor *weight)
{
    static const char *const names[] = { "start", "end", "start and end", "weight" };
    return br__ternary(op, BR_POINTWISE(lerp), (const br_tensor *[]){ start, end, weight }, names,
                       NULL);
}

br_tensor *br_lerp(br_tensor *start, br_tensor *end, br_tensor *weight)
{
    BR_OP("lerp");
    if (!br__floating("lerp", "start", start) ||
        !br__compatible("lerp", "start", start, "end", end) ||
        !br__compatible("lerp", "start", start, "weight", weight))
        return NULL;
    br_tensor *y = lerp("lerp", start, end, weight);
    br_node *node = br_record(&lerp_op, y, BR_INPUTS(start, end, weight), NULL, 0);
    if (br_needs_input_grad(node, WEIGHT)) {
        br_save(node, START, start);
        br_save(node, END, end);
    }
    if (br_needs_input_grad(node, START) || br_needs_input_grad(node, END))
        br_save(node, WEIGHT, weight);
    return y;
}

static void lerp_scalar_backward(br_node *node, br_tensor *dy, br_tensor **dx)
{
    double weight = *(const double *)br_params(node);
    if (br_needs_input_grad(node, START))
        dx[START] = br_mul_scalar(dy, 1 - weight);
    if (br_needs_input_grad(node, END))
        dx[END] = br_mul_scalar(dy, weight);
}

static const br_op lerp_scalar_op = { "lerp_scalar", lerp_scalar_backward, false };

br_tensor *br_lerp_scalar(br_tensor *start, br_tensor *end, double weight)
{
    BR_OP("lerp_scalar");
    br_scalar_operand scalar;
    if (!br__floating("lerp_scalar", "start", start) ||
        !br__compatible("lerp_scalar", "start", start, "end", end) ||
        !br__scalar_operand("lerp_scalar", weight, br__computed(start->dtype), &scalar))
        return NULL;
    br_tensor *y = lerp("lerp_scalar", start, end, &scalar.tensor);
    br_record(&lerp_scalar_op, y, BR_INPUTS(start, end), &weight, sizeof weight);
    return y;
}
