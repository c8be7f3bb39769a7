/* ops/pointwise/activation.c - unary functions whose gradient has a kernel: tanh, sigmoid, relu,
 * logsigmoid, gelu, silu, and functions with parameters: leaky_relu, elu, softplus, clamp.
 *
 * While backward is itself recorded, the gradient is composed of operations instead, so that it can
 * be differentiated again. */
#include "ops/ops_internal.h"

#include <math.h>

/* ---- tanh, sigmoid, logsigmoid, relu, gelu --------------------------------------------------- */

/* dx = dy (1 - y^2). */
static void tanh_backward(br_node *node, br_tensor *dy, br_tensor **dx)
{
    br_tensor *y = br_saved(node, 0);
    dx[0] = br_grad_enabled() ? br_mul(dy, br_rsub_scalar(br_mul(y, y), 1))
                              : br__binary("tanh", BR_POINTWISE(tanh_grad), dy, y);
}

static const br__function tanh_function = { { "tanh", tanh_backward, false },
                                            BR_POINTWISE(tanh),
                                            BR_SAVES_Y };

br_tensor *br_tanh(br_tensor *x)
{
    return br__apply_function(&tanh_function, x);
}

/* dx = dy y (1 - y). */
static void sigmoid_backward(br_node *node, br_tensor *dy, br_tensor **dx)
{
    br_tensor *y = br_saved(node, 0);
    dx[0] = br_grad_enabled() ? br_mul(br_mul(dy, br_rsub_scalar(y, 1)), y)
                              : br__binary("sigmoid", BR_POINTWISE(sigmoid_grad), dy, y);
}

static const br__function sigmoid_function = { { "sigmoid", sigmoid_backward, false },
                                               BR_POINTWISE(sigmoid),
                                               BR_SAVES_Y };

br_tensor *br_sigmoid(br_tensor *x)
{
    return br__apply_function(&sigmoid_function, x);
}

/* dx = dy sigmoid(-x). */
static void logsigmoid_backward(br_node *node, br_tensor *dy, br_tensor **dx)
{
    br_tensor *x = br_saved(node, 0);
    dx[0] = br_grad_enabled() ? br_mul(dy, br__logistic(br_neg(x)))
                              : br__binary("logsigmoid", BR_POINTWISE(logsigmoid_grad), dy, x);
}

static const br__function logsigmoid_function = { { "logsigmoid", logsigmoid_backward, false },
                                                  BR_POINTWISE(logsigmoid),
                                                  BR_SAVES_X };

br_tensor *br_logsigmoid(br_tensor *x)
{
    return br__apply_function(&logsigmoid_function, x);
}

/* dx = dy where y > 0, else 0. */
static void relu_backward(br_node *node, br_tensor *dy, br_tensor **dx)
{
    br_tensor *y = br_saved(node, 0);
    dx[0] = br_grad_enabled() ? br_masked_fill(dy, br_le_scalar(y, 0), 0)
                              : br__binary("relu", BR_POINTWISE(relu_grad), dy, y);
}

static const br__function relu_function = { { "relu", relu_backward, false },
                                            BR_POINTWISE(relu),
                                            BR_SAVES_Y };

br_tensor *br_relu(br_tensor *x)
{
    return br__apply_function(&relu_function, x);
}

/* dx = dy (Phi(x) + x phi(x)) with the standard normal distribution function Phi and density
 * phi. */
static void gelu_erf_backward(br_node *node, br_tensor *dy, br_tensor **dx)
{
    br_tensor *x = br_saved(node, 0);
    if (!br_grad_enabled()) {
        dx[0] = br__binary("gelu", BR_POINTWISE(gelu_erf_grad), dy, x);
        return;
    }
    br_tensor *below =
        br_mul_scalar(br_add_scalar(br_erf(br_mul_scalar(x, 0.70710678118654752440)), 1), 0.5);
    br_tensor *density =
        br_mul_scalar(br_exp(br_mul_scalar(br_mul(x, x), -0.5)), 0.39894228040143267794);
    dx[0] = br_mul(dy, br_add(below, br_mul(x, density)));
}

static const br__function gelu_erf_function = { { "gelu", gelu_erf_backward, false },
                                                BR_POINTWISE(gelu_erf),
                                                BR_SAVES_X };

/* With z = sqrt(8/pi) (x + 0.044715 x^3) and s = sigmoid(z), y = x s and dx = dy (s + x s (1 - s)
 * z'). */
static void gelu_tanh_backward(br_node *node, br_tensor *dy, br_tensor **dx)
{
    static const double scale = 1.59576912160573071176, cubic = 0.044715;
    br_tensor *x = br_saved(node, 0);
    if (!br_grad_enabled()) {
        dx[0] = br__binary("gelu", BR_POINTWISE(gelu_tanh_grad), dy, x);
        return;
    }
    /* Beyond 10 the derivative is 0 or 1 to the last digit, but powers of x could overflow. */
    x = br_clamp(x, -10, 10);
    br_tensor *square = br_mul(x, x);
    br_tensor *z = br_mul_scalar(br_mul(x, br_add_scalar(br_mul_scalar(square, cubic), 1)), scale);
    br_tensor *slope = br_mul_scalar(br_add_scalar(br_mul_scalar(square, 3 * cubic), 1), scale);
    br_tensor *s = br__logistic(z);
    br_tensor *bend = br_mul(br_mul(x, slope), br__logistic(br_neg(z)));
    dx[0] = br_mul(dy, br_mul(s, br_add_scalar(bend, 1)));
}

static const br__function gelu_tanh_function = { { "gelu", gelu_tanh_backward, false },
                                                 BR_POINTWISE(gelu_tanh),
                                                 BR_SAVES_X };

br_tensor *br_gelu(br_tensor *x, br_gelu_approximate approximate)
{
    switch (approximate) {
    case BR_GELU_ERF:
        return br__apply_function(&gelu_erf_function, x);
    case BR_GELU_TANH:
        return br__apply_function(&gelu_tanh_function, x);
    }
    return br_fail(BR_ERROR_ARGUMENT, "gelu",
                   "approximate is %d, must be BR_GELU_ERF or BR_GELU_TANH", (int)approximate);
}

/* ---- Functions that save x and may have parameters ------------------------------------------- */

/* Parameters of the kernels. */
typedef struct params {
    double value[2];
} params;

static br_tensor *apply(const br_op *op, br_pointwise kernel, br_tensor *x, double first,
                        double second)
{
    BR_OP(op->name);
    params p = { { first, second } };
    bool known = br__floating(op->name, "x", x) && br__has_kernel(op->name, "x", x, kernel);
    br_tensor *y = known ? br__new_like(op->name, x, x->dtype) : NULL;
    if (!y)
        return NULL;
    br__pointwise(kernel, 2, (const br_tensor *[]){ y, x }, &p);
    br_save(br_record(op, y, BR_INPUTS(x), &p, sizeof p), 0, x);
    return y;
}

/* Computes the gradient with its kernel. */
static br_tensor *fused(const char *op, br_pointwise kernel, br_node *node, br_tensor *dy)
{
    br_tensor *x = br_saved(node, 0);
    br_tensor *dx = x && dy ? br__new_like(op, x, x->dtype) : NULL;
    if (dx)
        br__pointwise(kernel, 3, (const br_tensor *[]){ dx, dy, x }, br_params(node));
    return dx;
}

static double param(const br_node *node, int i)
{
    return ((const params *)br_params(node))->value[i];
}

/* ---- silu ------------------------------------------------------------------------------------ */

/* dx = dy s (1 + x (1 - s)) with s = sigmoid(x). */
static void silu_backward(br_node *node, br_tensor *dy, br_tensor **dx)
{
    if (!br_grad_enabled()) {
        dx[0] = fused("silu", BR_POINTWISE(silu_grad), node, dy);
        return;
    }
    br_tensor *x = br_saved(node, 0), *s = br_sigmoid(x);
    br_tensor *slope = br_mul(s, br_add_scalar(br_mul(x, br_rsub_scalar(s, 1)), 1));
    dx[0] = br_mul(dy, slope);
}

static const br_op silu_op = { "silu", silu_backward, false };

br_tensor *br_silu(br_tensor *x)
{
    return apply(&silu_op, BR_POINTWISE(silu), x, 0, 0);
}

/* ---- hardsigmoid, hardswish ------------------------------------------------------------------ */

/* Returns whether -3 < x < 3, where hardsigmoid is not constant. */
static br_tensor *is_between(br_tensor *x)
{
    return br_lt_scalar(br_abs(x), 3);
}

static void hardsigmoid_backward(br_node *node, br_tensor *dy, br_tensor **dx)
{
    dx[0] = br_grad_enabled() ? br_masked_fill(br_div_scalar(dy, 6),
                                               br_logical_not(is_between(br_saved(node, 0))), 0)
                              : fused("hardsigmoid", BR_POINTWISE(hardsigmoid_grad), node, dy);
}

static const br_op hardsigmoid_op = { "hardsigmoid", hardsigmoid_backward, false };

br_tensor *br_hardsigmoid(br_tensor *x)
{
    return apply(&hardsigmoid_op, BR_POINTWISE(hardsigmoid), x, 0, 0);
}

/* The slope is x / 3 + 1/2 between -3 and 3, and else 0 or 1. */
static void hardswish_backward(br_node *node, br_tensor *dy, br_tensor **dx)
{
    if (!br_grad_enabled()) {
        dx[0] = fused("hardswish", BR_POINTWISE(hardswish_grad), node, dy);
        return;
    }
    br_tensor *x = br_saved(node, 0);
    br_tensor *slope = br_add_scalar(br_div_scalar(x, 3), 0.5);
    dx[0] = br_mul(dy, br_where(is_between(x), slope, br_hardsigmoid(x)));
}

static const br_op hardswish_op = { "hardswish", hardswish_backward, false };

br_tensor *br_hardswish(br_tensor *x)
{
    return apply(&hardswish_op, BR_POINTWISE(hardswish), x, 0, 0);
}

/* ---- leaky_relu ------------------------------------------------------------------------------ */

static void leaky_relu_backward(br_node *node, br_tensor *dy, br_tensor **dx)
{
    if (!br_grad_enabled()) {
        dx[0] = fused("leaky_relu", BR_POINTWISE(leaky_relu_grad), node, dy);
        return;
    }
    br_tensor *above = br_gt_scalar(br_saved(node, 0), 0);
    dx[0] = br_where(above, dy, br_mul_scalar(dy, param(node, 0)));
}

static const br_op leaky_relu_op = { "leaky_relu", leaky_relu_backward, false };

br_tensor *br_leaky_relu(br_tensor *x, double negative_slope)
{
    return apply(&leaky_relu_op, BR_POINTWISE(leaky_relu), x, negative_slope, 0);
}

/* ---- elu ------------------------------------------------------------------------------------- */

/* dx = dy alpha exp(x) for x <= 0, else dy. Positive x are set to 0 first. Their exponential is not
 * used, but it may be infinite, and the second-order gradient would multiply it by 0, which gives
 * NaN. The second derivative at 0 is 0, as in PyTorch. */
static void elu_backward(br_node *node, br_tensor *dy, br_tensor **dx)
{
    if (!br_grad_enabled()) {
        dx[0] = fused("elu", BR_POINTWISE(elu_grad), node, dy);
        return;
    }
    br_tensor *x = br_saved(node, 0);
    br_tensor *above = br_gt_scalar(x, 0);
    br_tensor *below = br_masked_fill(x, br_ge_scalar(x, 0), 0);
    dx[0] = br_where(above, dy, br_mul(dy, br_mul_scalar(br_exp(below), param(node, 0))));
}

static const br_op elu_op = { "elu", elu_backward, false };

br_tensor *br_elu(br_tensor *x, double alpha)
{
    return apply(&elu_op, BR_POINTWISE(elu), x, alpha, 0);
}

/* ---- softplus -------------------------------------------------------------------------------- */

/* dx = dy sigmoid(beta x), and dy above the threshold. */
static void softplus_backward(br_node *node, br_tensor *dy, br_tensor **dx)
{
    if (!br_grad_enabled()) {
        dx[0] = fused("softplus", BR_POINTWISE(softplus_grad), node, dy);
        return;
    }
    br_tensor *z = br_mul_scalar(br_saved(node, 0), param(node, 0));
    dx[0] = br_where(br_gt_scalar(z, param(node, 1)), dy, br_mul(dy, br__logistic(z)));
}

static const br_op softplus_op = { "softplus", softplus_backward, false };

br_tensor *br_softplus(br_tensor *x, double beta, double threshold)
{
    return apply(&softplus_op, BR_POINTWISE(softplus), x, beta, threshold);
}

/* ---- clamp ----------------------------------------------------------------------------------- */

/* Returns true where x is strictly between the bounds; NULL if both are infinite. */
static br_tensor *inside(br_tensor *x, double min, double max)
{
    br_tensor *above = min == -INFINITY ? NULL : br_gt_scalar(x, min);
    br_tensor *below = max == INFINITY ? NULL : br_lt_scalar(x, max);
    return above && below ? br_logical_and(above, below) : above ? above : below;
}

static void clamp_backward(br_node *node, br_tensor *dy, br_tensor **dx)
{
    if (!br_grad_enabled()) {
        dx[0] = fused("clamp", BR_POINTWISE(clamp_grad), node, dy);
        return;
    }
    br_tensor *passes = inside(br_saved(node, 0), param(node, 0), param(node, 1));
    dx[0] = passes ? br_masked_fill(dy, br_logical_not(passes), 0) : dy;
}

static const br_op clamp_op = { "clamp", clamp_backward, false };

/* Converts a bound to i64; an infinite one becomes the limit of the type. */
static bool integer_bound(const char *op, double bound, int64_t *value)
{
    br_scalar_operand scalar;
    if (isinf(bound))
        *value = bound < 0 ? INT64_MIN : INT64_MAX;
    else if (br__scalar_operand(op, bound, BR_I64, &scalar))
        *value = scalar.value.i64;
    return !br_failed();
}

static br_tensor *clamp_integers(const char *op, br_tensor *x, double min, double max)
{
    BR_OP(op);
    int64_t bounds[2];
    if (!integer_bound(op, min, &bounds[0]) || !integer_bound(op, max, &bounds[1]))
        return NULL;
    br_tensor *y = br__new_like(op, x, x->dtype);
    if (y)
        br__pointwise(BR_POINTWISE(clamp), 2, (const br_tensor *[]){ y, x }, bounds);
    return y;
}

br_tensor *br_clamp(br_tensor *x, double min, double max)
{
    if (!br_failed() && x && br__is_kind(x->dtype, BR_KIND_INTEGER))
        return clamp_integers("clamp", x, min, max);
    return apply(&clamp_op, BR_POINTWISE(clamp), x, min, max);
}

/* ---- hardtanh -------------------------------------------------------------------------------- */

/* The function is clamp, but its gradient passes NaN, as in PyTorch. */
static void hardtanh_backward(br_node *node, br_tensor *dy, br_tensor **dx)
{
    if (!br_grad_enabled()) {
        dx[0] = fused("hardtanh", BR_POINTWISE(hardtanh_grad), node, dy);
        return;
    }
    br_tensor *x = br_saved(node, 0);
    br_tensor *below = br_le_scalar(x, param(node, 0)), *above = br_ge_scalar(x, param(node, 1));
    dx[0] = br_masked_fill(dy, br_logical_or(below, above), 0);
}

static const br_op hardtanh_op = { "hardtanh", hardtanh_backward, false };

br_tensor *br_hardtanh(br_tensor *x, double min, double max)
{
    if (!(min <= max))
        return br_fail(BR_ERROR_ARGUMENT, "hardtanh", "min %g must be at most max %g", min, max);
    if (x && br__is_kind(x->dtype, BR_KIND_INTEGER)) /* the bounds are truncated, as in PyTorch */
        return clamp_integers("hardtanh", x, trunc(min), trunc(max));
    return apply(&hardtanh_op, BR_POINTWISE(clamp), x, min, max);
}
