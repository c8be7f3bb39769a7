/* ops/pointwise.c - functions of one element. Each is a gradient, a descriptor and a call.
 *
 * The gradients of activations are one kernel each; while backward is itself recorded they are
 * composed of operations, which the tape can differentiate again. */
#include "ops/ops_internal.h"

typedef enum saves { SAVES_INPUT, SAVES_OUTPUT } saves;

/* A function of one element: its place on the tape, its kernel, and which side of it the gradient
 * is written in. */
typedef struct function {
    br_op op;
    size_t kernel;
    saves saves;
} function;

static br_tensor *apply(const function *f, br_tensor *x)
{
    BR_OP(f->op.name);
    br_tensor *y = br__unary(f->op.name, f->kernel, x);
    br_node *node = br_record(&f->op, y, BR_INPUTS(x), NULL, 0);
    br_save(node, 0, f->saves == SAVES_INPUT ? x : y);
    return y;
}

/* ---- Exponentials and roots ------------------------------------------------------------------ */

static void exp_backward(br_node *node, br_tensor *dy, br_tensor **dx)
{
    dx[0] = br_mul(dy, br_saved(node, 0));
}

static const function exp_function = { { "exp", exp_backward, false }, BR_LOOP(exp), SAVES_OUTPUT };

br_tensor *br_exp(br_tensor *x)
{
    return apply(&exp_function, x);
}

static void log_backward(br_node *node, br_tensor *dy, br_tensor **dx)
{
    dx[0] = br_div(dy, br_saved(node, 0));
}

static const function log_function = { { "log", log_backward, false }, BR_LOOP(log), SAVES_INPUT };

br_tensor *br_log(br_tensor *x)
{
    return apply(&log_function, x);
}

/* dy / (2 y). */
static void sqrt_backward(br_node *node, br_tensor *dy, br_tensor **dx)
{
    dx[0] = br_div(dy, br_mul_scalar(br_saved(node, 0), 2));
}

static const function sqrt_function = { { "sqrt", sqrt_backward, false },
                                        BR_LOOP(sqrt),
                                        SAVES_OUTPUT };

br_tensor *br_sqrt(br_tensor *x)
{
    return apply(&sqrt_function, x);
}

/* dy 2/sqrt(pi) exp(-x^2). */
static void erf_backward(br_node *node, br_tensor *dy, br_tensor **dx)
{
    br_tensor *x = br_saved(node, 0);
    br_tensor *slope = br_mul_scalar(br_exp(br_neg(br_mul(x, x))), 1.12837916709551257390);
    dx[0] = br_mul(dy, slope);
}

static const function erf_function = { { "erf", erf_backward, false }, BR_LOOP(erf), SAVES_INPUT };

br_tensor *br_erf(br_tensor *x)
{
    return apply(&erf_function, x);
}

/* -dy y^3 / 2. */
static void rsqrt_backward(br_node *node, br_tensor *dy, br_tensor **dx)
{
    br_tensor *cube = br_pow_scalar(br_saved(node, 0), 3);
    dx[0] = br_mul(dy, br_mul_scalar(cube, -0.5));
}

static const function rsqrt_function = { { "rsqrt", rsqrt_backward, false },
                                         BR_LOOP(rsqrt),
                                         SAVES_OUTPUT };

br_tensor *br_rsqrt(br_tensor *x)
{
    return apply(&rsqrt_function, x);
}

/* ---- Circular functions ---------------------------------------------------------------------- */

static void sin_backward(br_node *node, br_tensor *dy, br_tensor **dx)
{
    dx[0] = br_mul(dy, br_cos(br_saved(node, 0)));
}

static const function sin_function = { { "sin", sin_backward, false }, BR_LOOP(sin), SAVES_INPUT };

br_tensor *br_sin(br_tensor *x)
{
    return apply(&sin_function, x);
}

static void cos_backward(br_node *node, br_tensor *dy, br_tensor **dx)
{
    dx[0] = br_neg(br_mul(dy, br_sin(br_saved(node, 0))));
}

static const function cos_function = { { "cos", cos_backward, false }, BR_LOOP(cos), SAVES_INPUT };

br_tensor *br_cos(br_tensor *x)
{
    return apply(&cos_function, x);
}

/* ---- Size, sign, rounding -------------------------------------------------------------------- */

static void abs_backward(br_node *node, br_tensor *dy, br_tensor **dx)
{
    dx[0] = br_mul(dy, br_sign(br_saved(node, 0)));
}

static const function abs_function = { { "abs", abs_backward, false }, BR_LOOP(abs), SAVES_INPUT };

br_tensor *br_abs(br_tensor *x)
{
    return apply(&abs_function, x);
}

/* Steps are flat: their gradient is 0 everywhere, at the jumps too. */
static void step_backward(br_node *node, br_tensor *dy, br_tensor **dx)
{
    (void)node;
    dx[0] = br_zeros_like(dy);
}

static br_tensor *step(const br_op *op, size_t kernel, br_tensor *x)
{
    BR_OP(op->name);
    br_tensor *y = br__unary(op->name, kernel, x);
    br_record(op, y, BR_INPUTS(x), NULL, 0);
    return y;
}

static const br_op sign_op = { "sign", step_backward, false };
static const br_op floor_op = { "floor", step_backward, false };
static const br_op ceil_op = { "ceil", step_backward, false };
static const br_op round_op = { "round", step_backward, false };

br_tensor *br_sign(br_tensor *x)
{
    return step(&sign_op, BR_LOOP(sign), x);
}

br_tensor *br_floor(br_tensor *x)
{
    return step(&floor_op, BR_LOOP(floor), x);
}

br_tensor *br_ceil(br_tensor *x)
{
    return step(&ceil_op, BR_LOOP(ceil), x);
}

br_tensor *br_round(br_tensor *x)
{
    return step(&round_op, BR_LOOP(round), x);
}

/* ---- Activations ----------------------------------------------------------------------------- */

/* dy (1 - y^2). */
static void tanh_backward(br_node *node, br_tensor *dy, br_tensor **dx)
{
    br_tensor *y = br_saved(node, 0);
    dx[0] = br_grad_enabled() ? br_mul(dy, br_rsub_scalar(br_mul(y, y), 1))
                              : br__binary("tanh", BR_LOOP(tanh_grad), dy, y);
}

static const function tanh_function = { { "tanh", tanh_backward, false },
                                        BR_LOOP(tanh),
                                        SAVES_OUTPUT };

br_tensor *br_tanh(br_tensor *x)
{
    return apply(&tanh_function, x);
}

/* dy y (1 - y). */
static void sigmoid_backward(br_node *node, br_tensor *dy, br_tensor **dx)
{
    br_tensor *y = br_saved(node, 0);
    dx[0] = br_grad_enabled() ? br_mul(br_mul(dy, br_rsub_scalar(y, 1)), y)
                              : br__binary("sigmoid", BR_LOOP(sigmoid_grad), dy, y);
}

static const function sigmoid_function = { { "sigmoid", sigmoid_backward, false },
                                           BR_LOOP(sigmoid),
                                           SAVES_OUTPUT };

br_tensor *br_sigmoid(br_tensor *x)
{
    return apply(&sigmoid_function, x);
}

/* dy where y > 0. */
static void relu_backward(br_node *node, br_tensor *dy, br_tensor **dx)
{
    br_tensor *y = br_saved(node, 0);
    dx[0] = br_grad_enabled() ? br_masked_fill(dy, br_le_scalar(y, 0), 0)
                              : br__binary("relu", BR_LOOP(relu_grad), dy, y);
}

static const function relu_function = { { "relu", relu_backward, false },
                                        BR_LOOP(relu),
                                        SAVES_OUTPUT };

br_tensor *br_relu(br_tensor *x)
{
    return apply(&relu_function, x);
}

/* dy (Phi(x) + x phi(x)) with the normal distribution Phi and its density phi. */
static void gelu_erf_backward(br_node *node, br_tensor *dy, br_tensor **dx)
{
    br_tensor *x = br_saved(node, 0);
    if (!br_grad_enabled()) {
        dx[0] = br__binary("gelu", BR_LOOP(gelu_erf_grad), dy, x);
        return;
    }
    br_tensor *below =
        br_mul_scalar(br_add_scalar(br_erf(br_mul_scalar(x, 0.70710678118654752440)), 1), 0.5);
    br_tensor *density =
        br_mul_scalar(br_exp(br_mul_scalar(br_mul(x, x), -0.5)), 0.39894228040143267794);
    dx[0] = br_mul(dy, br_add(below, br_mul(x, density)));
}

static const function gelu_erf_function = { { "gelu", gelu_erf_backward, false },
                                            BR_LOOP(gelu_erf),
                                            SAVES_INPUT };

/* With z = sqrt(8/pi) (x + 0.044715 x^3) and s = sigmoid(z): y = x s, dy (s + x s (1 - s) z'). */
static void gelu_tanh_backward(br_node *node, br_tensor *dy, br_tensor **dx)
{
    static const double scale = 1.59576912160573071176, cubic = 0.044715;
    br_tensor *x = br_saved(node, 0);
    if (!br_grad_enabled()) {
        dx[0] = br__binary("gelu", BR_LOOP(gelu_tanh_grad), dy, x);
        return;
    }
    br_tensor *square = br_mul(x, x);
    br_tensor *z = br_mul_scalar(br_mul(x, br_add_scalar(br_mul_scalar(square, cubic), 1)), scale);
    br_tensor *slope = br_mul_scalar(br_add_scalar(br_mul_scalar(square, 3 * cubic), 1), scale);
    br_tensor *s = br_sigmoid(z);
    br_tensor *bend = br_mul(br_mul(x, slope), br_rsub_scalar(s, 1));
    dx[0] = br_mul(dy, br_mul(s, br_add_scalar(bend, 1)));
}

static const function gelu_tanh_function = { { "gelu", gelu_tanh_backward, false },
                                             BR_LOOP(gelu_tanh),
                                             SAVES_INPUT };

br_tensor *br_gelu(br_tensor *x, br_gelu_form form)
{
    switch (form) {
    case BR_GELU_ERF:
        return apply(&gelu_erf_function, x);
    case BR_GELU_TANH:
        return apply(&gelu_tanh_function, x);
    }
    return br__fail(BR_ERROR_ARGUMENT, "gelu", "form %d, must be BR_GELU_ERF or BR_GELU_TANH",
                    (int)form);
}
