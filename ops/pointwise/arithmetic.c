/* ops/pointwise/arithmetic.c - sums, products, quotients and powers of tensors and scalars.
 *
 * Autograd sums gradients down to the shapes of broadcast inputs, so the backward functions here
 * may assume equal shapes. */
#include "ops/all_elements.h"
#include "ops/pointwise/promotion.h"
#include "ops/pointwise/widen.h"

/* ---- Two tensors ----------------------------------------------------------------------------- */

void br__add_backward(br_node *node, br_tensor *dy, br_tensor **dx)
{
    (void)node;
    dx[0] = dx[1] = dy;
}

static const br_op add_op = { "add", br__add_backward, false };

br_tensor *br_add(br_tensor *a, br_tensor *b)
{
    BR_OP("add");
    if (br__mixed(a, b))
        return br__promoted("add", br_add, a, b);
    br_tensor *y = br__binary("add", BR_POINTWISE(add), a, b);
    br_record(&add_op, y, BR_INPUTS(a, b), NULL, 0);
    return y;
}

void br__sub_backward(br_node *node, br_tensor *dy, br_tensor **dx)
{
    dx[0] = dy;
    if (br_needs_input_grad(node, 1))
        dx[1] = br_neg(dy);
}

static const br_op sub_op = { "sub", br__sub_backward, false };

br_tensor *br_sub(br_tensor *a, br_tensor *b)
{
    BR_OP("sub");
    if (br__mixed(a, b))
        return br__promoted("sub", br_sub, a, b);
    br_tensor *y = br__binary("sub", BR_POINTWISE(sub), a, b);
    br_record(&sub_op, y, BR_INPUTS(a, b), NULL, 0);
    return y;
}

/* Each operand is saved only if the other one's gradient needs it. */
void br__mul_backward(br_node *node, br_tensor *dy, br_tensor **dx)
{
    if (br_needs_input_grad(node, 0))
        dx[0] = br_mul(dy, br_saved(node, 1));
    if (br_needs_input_grad(node, 1))
        dx[1] = br_mul(dy, br_saved(node, 0));
}

static const br_op mul_op = { "mul", br__mul_backward, false };

br_tensor *br_mul(br_tensor *a, br_tensor *b)
{
    BR_OP("mul");
    if (br__mixed(a, b))
        return br__promoted("mul", br_mul, a, b);
    br_tensor *y = br__binary("mul", BR_POINTWISE(mul), a, b);
    br_node *node = br_record(&mul_op, y, BR_INPUTS(a, b), NULL, 0);
    if (br_needs_input_grad(node, 1))
        br_save(node, 0, a);
    if (br_needs_input_grad(node, 0))
        br_save(node, 1, b);
    return y;
}

static br_tensor *quotient_slope(br_tensor *dy, br_tensor *da, br_tensor *y, br_tensor *b)
{
    return br__finite(da) ? br_mul(da, y) : br_mul(dy, br_div(y, b));
}

/* da = dy / b, db = -dy a / b^2 = -(dy / b) y, or -dy (y / b) if dy / b overflows. */
static void div_backward(br_node *node, br_tensor *dy, br_tensor **dx)
{
    dx[0] = br_div(dy, br_saved(node, 0));
    if (br_needs_input_grad(node, 1))
        dx[1] = br_neg(quotient_slope(dy, dx[0], br_saved(node, 1), br_saved(node, 0)));
}

static const br_op div_op = { "div", div_backward, false };

br_tensor *br_div(br_tensor *a, br_tensor *b)
{
    BR_OP("div");
    if (br__mixed(a, b))
        return br__promoted("div", br_div, a, b);
    if (!br__compatible("div", "a", a, "b", b))
        return NULL;
    a = br__as_floating(a);
    b = br__as_floating(b);
    br_tensor *y = br__binary("div", BR_POINTWISE(div), a, b);
    br_node *node = br_record(&div_op, y, BR_INPUTS(a, b), NULL, 0);
    br_save(node, 0, b);
    if (br_needs_input_grad(node, 1))
        br_save(node, 1, y);
    return y;
}

/* Returns b a^(b-1), or (b / a) a^b where a^(b-1) overflows. */
static br_tensor *slope_of_base(br_tensor *a, br_tensor *b)
{
    br_tensor *slope = br_mul(b, br_pow(a, br_sub_scalar(b, 1)));
    if (br__finite(slope))
        return slope;
    br_scope *scope = br_no_grad_begin();
    br_tensor *number = br_logical_and(br_ne_scalar(a, 0), br_isfinite(a));
    br_tensor *overflows = br__composed(scope, br_logical_and(br_isinf(slope), number));
    /* Each branch gets a base of 1 where the other one is taken, so that its gradient is finite. */
    br_tensor *tiny = br_masked_fill(a, br_logical_not(overflows), 1);
    br_tensor *other = br_masked_fill(a, overflows, 1);
    slope = br_mul(b, br_pow(other, br_sub_scalar(b, 1)));
    return br_where(overflows, br_mul(br_div(b, tiny), br_pow(tiny, b)), slope);
}

/* da = dy b a^(b-1), and 0 where b = 0. db = dy y log a, and 0 where a = 0 and b >= 0, because the
 * product would be 0 times infinity there. */
static void pow_backward(br_node *node, br_tensor *dy, br_tensor **dx)
{
    br_tensor *a = br_saved(node, 0), *b = br_saved(node, 1);
    if (br_needs_input_grad(node, 0)) {
        br_tensor *slope = slope_of_base(a, b);
        dx[0] = br_masked_fill(br_mul(dy, slope), br_eq_scalar(b, 0), 0);
    }
    if (br_needs_input_grad(node, 1)) {
        br_tensor *slope = br_mul(br_saved(node, 2), br_log(a));
        br_tensor *zero = br_logical_and(br_eq_scalar(a, 0), br_ge_scalar(b, 0));
        dx[1] = br_masked_fill(br_mul(dy, slope), zero, 0);
    }
}

static const br_op pow_op = { "pow", pow_backward, false };

br_tensor *br_pow(br_tensor *a, br_tensor *b)
{
    BR_OP("pow");
    if (br__mixed(a, b))
        return br__promoted("pow", br_pow, a, b);
    br_tensor *y = br__binary("pow", BR_POINTWISE(pow), a, b);
    br_node *node = br_record(&pow_op, y, BR_INPUTS(a, b), NULL, 0);
    br_save(node, 0, a);
    br_save(node, 1, b);
    if (br_needs_input_grad(node, 1))
        br_save(node, 2, y);
    return y;
}

/* ---- One tensor ------------------------------------------------------------------------------ */

static void neg_backward(br_node *node, br_tensor *dy, br_tensor **dx)
{
    (void)node;
    dx[0] = br_neg(dy);
}

static const br_op neg_op = { "neg", neg_backward, false };

br_tensor *br_neg(br_tensor *a)
{
    BR_OP("neg");
    br_tensor *y = br__unary("neg", BR_POINTWISE(neg), a);
    br_record(&neg_op, y, BR_INPUTS(a), NULL, 0);
    return y;
}

/* ---- A tensor and a scalar ------------------------------------------------------------------- */

static double scalar_of(const br_node *node)
{
    return *(const double *)br_params(node);
}

void br__add_scalar_backward(br_node *node, br_tensor *dy, br_tensor **dx)
{
    (void)node;
    dx[0] = dy;
}

static const br_op add_scalar_op = { "add_scalar", br__add_scalar_backward, false };

br_tensor *br_add_scalar(br_tensor *a, double s)
{
    BR_OP("add_scalar");
    br_tensor *y = br__binary_scalar("add_scalar", BR_POINTWISE(add), a, s, false);
    br_record(&add_scalar_op, y, BR_INPUTS(a), NULL, 0);
    return y;
}

static const br_op sub_scalar_op = { "sub_scalar", br__add_scalar_backward, false };

br_tensor *br_sub_scalar(br_tensor *a, double s)
{
    BR_OP("sub_scalar");
    br_tensor *y = br__binary_scalar("sub_scalar", BR_POINTWISE(sub), a, s, false);
    br_record(&sub_scalar_op, y, BR_INPUTS(a), NULL, 0);
    return y;
}

static const br_op rsub_scalar_op = { "rsub_scalar", neg_backward, false };

br_tensor *br_rsub_scalar(br_tensor *a, double s)
{
    BR_OP("rsub_scalar");
    br_tensor *y = br__binary_scalar("rsub_scalar", BR_POINTWISE(sub), a, s, true);
    br_record(&rsub_scalar_op, y, BR_INPUTS(a), NULL, 0);
    return y;
}

void br__mul_scalar_backward(br_node *node, br_tensor *dy, br_tensor **dx)
{
    dx[0] = br_mul_scalar(dy, scalar_of(node));
}

static const br_op mul_scalar_op = { "mul_scalar", br__mul_scalar_backward, false };

br_tensor *br_mul_scalar(br_tensor *a, double s)
{
    BR_OP("mul_scalar");
    br_tensor *y = br__binary_scalar("mul_scalar", BR_POINTWISE(mul), a, s, false);
    br_record(&mul_scalar_op, y, BR_INPUTS(a), &s, sizeof s);
    return y;
}

void br__div_scalar_backward(br_node *node, br_tensor *dy, br_tensor **dx)
{
    dx[0] = br_div_scalar(dy, scalar_of(node));
}

static const br_op div_scalar_op = { "div_scalar", br__div_scalar_backward, false };

br_tensor *br_div_scalar(br_tensor *a, double s)
{
    BR_OP("div_scalar");
    a = br__required("div_scalar", "a", a) ? br__as_floating(a) : NULL;
    br_tensor *y = br__binary_scalar("div_scalar", BR_POINTWISE(div), a, s, false);
    br_record(&div_scalar_op, y, BR_INPUTS(a), &s, sizeof s);
    return y;
}

/* y = s / a, dy/da = -s / a^2 = -y / a. */
static void rdiv_scalar_backward(br_node *node, br_tensor *dy, br_tensor **dx)
{
    dx[0] = br_neg(br_mul(dy, br_div(br_saved(node, 1), br_saved(node, 0))));
}

static const br_op rdiv_scalar_op = { "rdiv_scalar", rdiv_scalar_backward, false };

br_tensor *br_rdiv_scalar(br_tensor *a, double s)
{
    BR_OP("rdiv_scalar");
    a = br__required("rdiv_scalar", "a", a) ? br__as_floating(a) : NULL;
    br_tensor *y = br__binary_scalar("rdiv_scalar", BR_POINTWISE(div), a, s, true);
    br_node *node = br_record(&rdiv_scalar_op, y, BR_INPUTS(a), NULL, 0);
    br_save(node, 0, a);
    br_save(node, 1, y);
    return y;
}

/* da = dy s a^(s-1), and 0 for s = 0 even where a = 0. */
static void pow_scalar_backward(br_node *node, br_tensor *dy, br_tensor **dx)
{
    double s = scalar_of(node);
    dx[0] = s == 0 ? br_zeros_like(dy)
                   : br_mul(dy, br_mul_scalar(br_pow_scalar(br_saved(node, 0), s - 1), s));
}

static const br_op pow_scalar_op = { "pow_scalar", pow_scalar_backward, false };

/* Uses cheaper kernels for the exponents that do not need pow(). */
static br_tensor *power(br_tensor *a, double s)
{
    static const char name[] = "pow_scalar";
    if (s == 1)
        return br__unary(name, BR_POINTWISE(copy), a);
    if (s == 2)
        return br__binary(name, BR_POINTWISE(mul), a, a);
    if (s == 3)
        return br__unary(name, BR_POINTWISE(power_3), a);
    if (s == 0.5)
        return br__unary(name, BR_POINTWISE(sqrt), a);
    if (s == -0.5)
        return br__unary(name, BR_POINTWISE(rsqrt), a);
    if (s == -1)
        return br__binary_scalar(name, BR_POINTWISE(div), a, 1, true);
    return br__binary_scalar(name, BR_POINTWISE(pow), a, s, false);
}

br_tensor *br_pow_scalar(br_tensor *a, double s)
{
    BR_OP("pow_scalar");
    if (!br__required("pow_scalar", "a", a))
        return NULL;
    const br_dtype dtype = br__scalar_result(a->dtype, s);
    BR_IF_CONVERTED(dtype != a->dtype, br_pow_scalar(br_to(a, dtype), s))
    if (!br__is_floating(a->dtype) && s < 0)
        return br_fail(BR_ERROR_ARGUMENT, "pow_scalar", "s is %g, must be at least 0 for %s", s,
                       br_dtype_name(a->dtype));
    br_tensor *y = power(a, s);
    br_node *node = br_record(&pow_scalar_op, y, BR_INPUTS(a), &s, sizeof s);
    br_save(node, 0, a);
    return y;
}
