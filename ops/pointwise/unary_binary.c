/* ops/pointwise/unary_binary.c - unary and binary pointwise functions, as tables. A row has the
 * function, its kernel, what it saves, and its gradient. Functions whose gradient has a kernel of
 * its own are in activation.c. */
#include "ops/all_elements.h"
#include "ops/pointwise/promotion.h"
#include "ops/pointwise/widen.h"

#include <inttypes.h>
#include <math.h>

/* ---- Unary functions ------------------------------------------------------------------------- */

#define TWO_OVER_SQRT_PI 1.12837916709551257390
#define LN_2             0.69314718055994530942
#define LN_10            2.30258509299404568402

static br_tensor *one_plus_square(br_tensor *t)
{
    return br_add_scalar(br_mul(t, t), 1);
}

static br_tensor *one_minus_square(br_tensor *t)
{
    return br_rsub_scalar(br_mul(t, t), 1);
}

/* Returns 1 / sqrt(t^2 + add), which is 1 / |t| where t^2 would overflow. */
static br_tensor *rsqrt_of_square(br_tensor *t, double add)
{
    br_scope *scope = br_no_grad_begin();
    br_tensor *size = br_abs(t), *large = br_ge_scalar(size, 0x1p60);
    bool fits = !br__any_true(large);
    br_scope_return(scope, large);
    br_scope_end(scope);
    if (fits)
        return br_rsqrt(br_add_scalar(br_mul(t, t), add));
    br_tensor *small = br_masked_fill(t, large, 2);
    br_tensor *slope = br_rsqrt(br_add_scalar(br_mul(small, small), add));
    return br_where(large, br_reciprocal(br_abs(t)), slope);
}

/* Returns the derivative 2 / sqrt(pi) exp(-x^2). */
static br_tensor *erf_slope(br_tensor *x)
{
    return br_mul_scalar(br_exp(br_neg(br_mul(x, x))), TWO_OVER_SQRT_PI);
}

/* Returns the derivative 2 x y - 2 / sqrt(pi) with y = erfcx(x). For large x the two terms cancel;
 * there, the asymptotic series of y leaves -2 / sqrt(pi) (z - 3 z^2 + 3 5 z^3 - ...) with z = 1 /
 * (2 x^2), whose first term left out is below 1e-17 of the sum in f64, and 1e-8 in f32. */
static br_tensor *erfcx_slope(br_tensor *x)
{
    br_scope *scope = br_no_grad_begin();
    br_tensor *is_large = br_ge_scalar(x, br__epsilon(br_dtype_of(x)) < 1e-10 ? 12 : 6);
    const bool any = br__any_true(is_large);
    br_scope_return(scope, is_large);
    br_scope_end(scope);
    br_tensor *small = any ? br_masked_fill(x, is_large, 0) : x;
    br_tensor *product = br_mul_scalar(br_mul(small, br_erfcx(small)), 2);
    br_tensor *slope = br_sub_scalar(product, TWO_OVER_SQRT_PI);
    if (!any)
        return slope;
    br_tensor *large = br_masked_fill(x, br_logical_not(is_large), INFINITY);
    br_tensor *z = br_mul_scalar(br_square(br_reciprocal(large)), 0.5);
    br_tensor *series = br_rsub_scalar(br_mul_scalar(z, 25), 1);
    for (int k = 23; k >= 3; k -= 2)
        series = br_rsub_scalar(br_mul(br_mul_scalar(z, k), series), 1);
    return br_where(is_large, br_mul_scalar(br_mul(z, series), -TWO_OVER_SQRT_PI), slope);
}

/* Returns the derivative sqrt(pi) / 2 exp(y^2). */
static br_tensor *erfinv_slope(br_tensor *y)
{
    return br_mul_scalar(br_exp(br_mul(y, y)), 1 / TWO_OVER_SQRT_PI);
}

/* Returns the derivative tanh(s) + x (1 - tanh(s)^2) sigmoid(x) with s = softplus(x). */
static br_tensor *mish_slope(br_tensor *x)
{
    br_tensor *t = br_tanh(br_softplus(x, 1, 20));
    return br_add(t, br_mul(br_mul(x, br_sigmoid(x)), one_minus_square(t)));
}

/* Returns the derivative (cos(pi x) - sinc(x)) / x. Near 0 the two terms cancel, so it is pi^2 x
 * times the Taylor series sum of (-1)^k 2k / (2k + 1)! (pi x)^(2k - 2) over k = 1, 2, ... there.
 * Its first term left out is below 1e-17 of the sum. */
static br_tensor *sinc_slope(br_tensor *x)
{
    static const double series[] = {
        -2.0 / 6,         4.0 / 120,         -6.0 / 5040,           8.0 / 362880,
        -10.0 / 39916800, 12.0 / 6227020800, -14.0 / 1307674368000, 16.0 / 355687428096000
    };
    int k = sizeof series / sizeof *series - 1;
    br_tensor *is_near = br_lt_scalar(br_abs(x), 0.25), *far = br_masked_fill(x, is_near, 1);
    br_tensor *near = br_masked_fill(x, br_logical_not(is_near), 0);
    br_tensor *square = br_square(br_mul_scalar(near, M_PI));
    br_tensor *sum = br_add_scalar(br_mul_scalar(square, series[k]), series[k - 1]);
    for (k -= 2; k >= 0; k--)
        sum = br_add_scalar(br_mul(sum, square), series[k]);
    br_tensor *cosine = br_cos(br_mul_scalar(far, M_PI));
    return br_where(is_near, br_mul(sum, br_mul_scalar(near, M_PI * M_PI)),
                    br_div(br_sub(cosine, br_sinc(far)), far));
}

/* clang-format off */
#define FUNCTIONS(ROW)                                                                            \
    ROW(br_exp, exp, Y, br_mul(dy, t))                                                            \
    ROW(br_exp2, exp2, Y, br_mul(dy, br_mul_scalar(t, LN_2)))                                     \
    ROW(br_expm1, expm1, Y, br_mul(dy, br_add_scalar(t, 1)))                                      \
    ROW(br_log, log, X, br_div(dy, t))                                                            \
    ROW(br_log2, log2, X, br_div(dy, br_mul_scalar(t, LN_2)))                                     \
    ROW(br_log10, log10, X, br_div(dy, br_mul_scalar(t, LN_10)))                                  \
    ROW(br_log1p, log1p, X, br_div(dy, br_add_scalar(t, 1)))                                      \
    ROW(br_sqrt, sqrt, Y, br_div(dy, br_mul_scalar(t, 2)))                                        \
    ROW(br_rsqrt, rsqrt, Y, br_mul(dy, br_mul_scalar(br_pow_scalar(t, 3), -0.5)))                 \
    ROW(br_reciprocal, reciprocal, Y, br_neg(br_mul(dy, br_mul(t, t))))                           \
    ROW(br_square, square, X, br_mul(dy, br_mul_scalar(t, 2)))                                    \
    ROW(br_erf, erf, X, br_mul(dy, erf_slope(t)))                                                 \
    ROW(br_erfc, erfc, X, br_mul(dy, br_neg(erf_slope(t))))                                       \
    ROW(br_erfcx, erfcx, X, br_mul(dy, erfcx_slope(t)))                                           \
    ROW(br_lgamma, lgamma, X, br_mul(dy, br_digamma(t)))                                          \
    ROW(br_digamma, digamma, X, br_mul(dy, br_polygamma(1, t)))                                   \
    ROW(br_erfinv, erfinv, Y, br_mul(dy, erfinv_slope(t)))                                        \
    ROW(br_sin, sin, X, br_mul(dy, br_cos(t)))                                                    \
    ROW(br_cos, cos, X, br_neg(br_mul(dy, br_sin(t))))                                            \
    ROW(br_sinc, sinc, X, br_mul(dy, sinc_slope(t)))                                              \
    ROW(br_tan, tan, Y, br_mul(dy, one_plus_square(t)))                                           \
    ROW(br_asin, asin, X, br_mul(dy, br_rsqrt(one_minus_square(t))))                              \
    ROW(br_acos, acos, X, br_neg(br_mul(dy, br_rsqrt(one_minus_square(t)))))                      \
    ROW(br_atan, atan, X, br_div(dy, one_plus_square(t)))                                         \
    ROW(br_sinh, sinh, X, br_mul(dy, br_cosh(t)))                                                 \
    ROW(br_cosh, cosh, X, br_mul(dy, br_sinh(t)))                                                 \
    ROW(br_asinh, asinh, X, br_mul(dy, rsqrt_of_square(t, 1)))                                    \
    ROW(br_acosh, acosh, X, br_mul(dy, rsqrt_of_square(t, -1)))                                   \
    ROW(br_atanh, atanh, X, br_div(dy, one_minus_square(t)))                                      \
    ROW(br_abs, abs, X, br_mul(dy, br_sign(t)))                                                   \
    ROW(br__logistic, sigmoid, X, br_mul(dy, br_mul(br__logistic(t), br__logistic(br_neg(t)))))   \
    ROW(br_softsign, softsign, X, br_div(dy, br_square(br_add_scalar(br_abs(t), 1))))             \
    ROW(br_mish, mish, X, br_mul(dy, mish_slope(t)))                                              \
    /* The gradient of a step function is 0 everywhere, also at the jumps. */                     \
    ROW(br_sign, sign, NOTHING, br_zeros_like(dy))                                                \
    ROW(br_floor, floor, NOTHING, br_zeros_like(dy))                                              \
    ROW(br_ceil, ceil, NOTHING, br_zeros_like(dy))                                                \
    ROW(br_round, round, NOTHING, br_zeros_like(dy))                                              \
    ROW(br_trunc, trunc, NOTHING, br_zeros_like(dy))
/* clang-format on */

/* In `gradient`, t is the saved value. */
#define DEFINE_FUNCTION(public_name, name, keeps, gradient)                   \
    static void name##_backward(br_node *node, br_tensor *dy, br_tensor **dx) \
    {                                                                         \
        br_tensor *t = br_saved(node, 0);                                     \
        BR_WIDEN(&t, &dy);                                                    \
        dx[0] = gradient;                                                     \
    }                                                                         \
    br_tensor *public_name(br_tensor *x)                                      \
    {                                                                         \
        static const br__function f = { { #name, name##_backward, false },    \
                                        BR_POINTWISE(name),                   \
                                        BR_SAVES_##keeps };                   \
        return br__apply_function(&f, x);                                     \
    }
FUNCTIONS(DEFINE_FUNCTION)

/* ---- polygamma ------------------------------------------------------------------------------- */

static void polygamma_backward(br_node *node, br_tensor *dy, br_tensor **dx)
{
    const double *n = br_params(node);
    dx[0] = br_mul(dy, br_polygamma((int64_t)*n + 1, br_saved(node, 0)));
}

br_tensor *br_polygamma(int64_t n, br_tensor *x)
{
    static const br_op op = { "polygamma", polygamma_backward, false };
    BR_OP(op.name);
    if (!br__required(op.name, "x", x))
        return NULL;
    if (n < 0)
        return br_fail(BR_ERROR_ARGUMENT, op.name, "n is %" PRId64 ", must be at least 0", n);
    const double order = (double)n;
    br_scope *scope = br_scope_begin();
    x = br__as_floating(x);
    br_tensor *y = x ? br__new_like(op.name, x, x->dtype) : NULL;
    if (y) {
        br__pointwise(n == 1 ? BR_POINTWISE(trigamma) : BR_POINTWISE(polygamma), 2,
                      (const br_tensor *[]){ y, x }, &order);
        br_save(br_record(&op, y, BR_INPUTS(x), &order, sizeof order), 0, x);
    }
    return br__composed(scope, y);
}

/* ---- Binary functions ------------------------------------------------------------------------ */

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

/* Returns x dy / (a^2 + b^2), and 0 where a and b are 0, as in PyTorch. If the squares leave the
 * range of the dtype, x, a and b are divided by a power of two first, and the quotient by it
 * again. */
static br_tensor *over_squares(br_tensor *x, br_tensor *dy, br_tensor *a, br_tensor *b)
{
    br_tensor *origin = br_logical_and(br_eq_scalar(a, 0), br_eq_scalar(b, 0));
    br_tensor *squares = br_masked_fill(br_add(br_mul(a, a), br_mul(b, b)), origin, 1);
    if (br__in_range(squares))
        return br_mul(dy, br_div(x, squares));
    br_scope *scope = br_no_grad_begin();
    br_tensor *scale = br__power_of_two(br_maximum(br_abs(a), br_abs(b)));
    scale = br__composed(scope, scale);
    br_tensor *near_a = br_div(a, scale), *near_b = br_div(b, scale);
    squares = br_add(br_mul(near_a, near_a), br_mul(near_b, near_b));
    squares = br_masked_fill(squares, origin, 1);
    return br_div(br_mul(dy, br_div(br_div(x, scale), squares)), scale);
}

br_tensor *br__trunc_divide(br_tensor *a, br_tensor *b);

static br_tensor *xlogy_slope(br_tensor *a, br_tensor *b)
{
    br_tensor *zero = br_logical_and(br_eq_scalar(a, 0), br_logical_not(br_isnan(b)));
    br_tensor *log = br_log(b);
    return br_masked_fill(log, br_logical_and(zero, br_le_scalar(b, 0)), 0);
}

/* Returns dy times the sign by which copysign has multiplied a, the quotient of the result and a: 0
 * for a = 0, and NaN for infinity and NaN, as in PyTorch. */
static br_tensor *with_copied_sign(br_tensor *dy, br_tensor *y, br_tensor *a)
{
    return br_mul(dy, br_masked_fill(br_div(y, a), br_eq_scalar(a, 0), 0));
}

/* clang-format off */
#define FUNCTIONS_2(ROW)                                                                          \
    ROW(br_atan2, atan2, over_squares(b, dy, a, b), br_neg(over_squares(a, dy, a, b)))            \
    ROW(br_fmod, fmod, dy, br_neg(br_mul(dy, br__trunc_divide(a, b))))                            \
    ROW(br_remainder, remainder, dy, br_neg(br_mul(dy, br_floor_divide(a, b))))                   \
    ROW(br_floor_divide, floor_divide, br_zeros_like(dy), br_zeros_like(dy))                      \
    ROW(br__trunc_divide, trunc_divide, br_zeros_like(dy), br_zeros_like(dy))                     \
    ROW(br_logaddexp, logaddexp, br_mul(dy, br__logistic(br_sub(a, b))),                          \
        br_mul(dy, br__logistic(br_sub(b, a))))                                                   \
    ROW(br_xlogy, xlogy, br_mul(dy, xlogy_slope(a, b)), br_mul(dy, br_div(a, b)))                 \
    ROW(br_copysign, copysign, with_copied_sign(dy, br_copysign(a, b), a), br_zeros_like(dy))
/* clang-format on */

#define DEFINE_FUNCTION_2(public_name, name, by_a, by_b)                                           \
    static void name##_backward(br_node *node, br_tensor *dy, br_tensor **dx)                      \
    {                                                                                              \
        br_tensor *a = br_saved(node, 0), *b = br_saved(node, 1);                                  \
        BR_WIDEN(&a, &b, &dy);                                                                     \
        if (a && b && br_needs_input_grad(node, 0))                                                \
            dx[0] = by_a;                                                                          \
        if (a && b && br_needs_input_grad(node, 1))                                                \
            dx[1] = by_b;                                                                          \
    }                                                                                              \
    br_tensor *public_name(br_tensor *a, br_tensor *b)                                             \
    {                                                                                              \
        static const br__function_2 f = { { #name, name##_backward, false }, BR_POINTWISE(name) }; \
        if (br__mixed(a, b))                                                                       \
            return br__promoted(#name, public_name, a, b);                                         \
        return br__apply_function_2(&f, a, b);                                                     \
    }
FUNCTIONS_2(DEFINE_FUNCTION_2)

/* da = dy a / y and db = dy b / y, with the result y. */
static void hypot_backward(br_node *node, br_tensor *dy, br_tensor **dx)
{
    br_tensor *a = br_saved(node, 0), *b = br_saved(node, 1);
    BR_WIDEN(&a, &b, &dy);
    br_tensor *y = br_hypot(a, b);
    if (br_needs_input_grad(node, 0))
        dx[0] = br_mul(dy, br_div(a, y));
    if (br_needs_input_grad(node, 1))
        dx[1] = br_mul(dy, br_div(b, y));
}

br_tensor *br_hypot(br_tensor *a, br_tensor *b)
{
    static const br__function_2 f = { { "hypot", hypot_backward, false }, BR_POINTWISE(hypot) };
    if (br__mixed(a, b))
        return br__promoted("hypot", br_hypot, a, b);
    return br__apply_function_2(&f, a, b);
}

static void copysign_scalar_backward(br_node *node, br_tensor *dy, br_tensor **dx)
{
    br_tensor *a = br_saved(node, 0);
    BR_WIDEN(&a, &dy);
    dx[0] = with_copied_sign(dy, br_copysign_scalar(a, *(const double *)br_params(node)), a);
}

br_tensor *br_copysign_scalar(br_tensor *a, double s)
{
    static const br_op op = { "copysign_scalar", copysign_scalar_backward, false };
    BR_OP(op.name);
    if (!br__required(op.name, "a", a))
        return NULL;
    BR_IF_CONVERTED(!br_is_floating(a), br_copysign_scalar(br__as_floating(a), s))
    const double sign = copysign(1, s); /* every dtype has this number */
    br_tensor *y = br__binary_scalar(op.name, BR_POINTWISE(copysign), a, sign, false);
    br_save(br_record(&op, y, BR_INPUTS(a), &sign, sizeof sign), 0, a);
    return y;
}

br_tensor *br_div_mode(br_tensor *a, br_tensor *b, br_rounding_mode mode)
{
    static const char op[] = "div_mode";
    static const br_pointwise kernels[] = { BR_POINTWISE(div), BR_POINTWISE(trunc_divide),
                                            BR_POINTWISE(floor_divide) };
    BR_OP(op);
    int ndim;
    int64_t sizes[BR_MAX_DIMS];
    if (mode < BR_ROUNDING_NONE || mode > BR_ROUNDING_FLOOR)
        return br_fail(BR_ERROR_ARGUMENT, op, "mode is %d, must be a br_rounding_mode", (int)mode);
    BR_IF_PROMOTED(a, b, br_div_mode(a, b, mode))
    if (!br__compatible(op, "a", a, "b", b) ||
        (mode != BR_ROUNDING_NONE && !br__has_kernel(op, "a", a, kernels[mode])) ||
        !br__broadcast_named(op, "a", a, "b", b, &ndim, sizes))
        return NULL;
    return br__composed(NULL, mode == BR_ROUNDING_NONE    ? br_div(a, b)
                              : mode == BR_ROUNDING_TRUNC ? br__trunc_divide(a, b)
                                                          : br_floor_divide(a, b));
}

/* ---- Composed functions ---------------------------------------------------------------------- */

#define DEFINE_COMPOSED(name, check, value)                        \
    br_tensor *br_##name(br_tensor *x)                             \
    {                                                              \
        BR_OP(#name);                                              \
        if (!check(#name, "x", x))                                 \
            return NULL;                                           \
        br_scope *scope = br_scope_begin();                        \
        const br_rounding rounding = BR_WIDEN(&x);                 \
        return br__composed(scope, br__narrowed(rounding, value)); \
    }
DEFINE_COMPOSED(frac, br__floating, br_sub(x, br_trunc(x)))
DEFINE_COMPOSED(tanhshrink, br__is_number, br_sub(x, br_tanh(x)))
/* Constants of self-normalizing networks: Klambauer et al., 2017. */
DEFINE_COMPOSED(selu, br__floating,
                br_mul_scalar(br_elu(x, 1.6732632423543772848170429916717),
                              1.0507009873554804934193349852946))

br_tensor *br_relu6(br_tensor *x)
{
    BR_OP("relu6");
    if (!br__is_number("relu6", "x", x))
        return NULL;
    return br__composed(NULL, br_hardtanh(x, 0, 6));
}

br_tensor *br_round_decimals(br_tensor *x, int64_t decimals)
{
    BR_OP("round_decimals");
    if (!br__floating("round_decimals", "x", x))
        return NULL;
    br_scope *scope = br_scope_begin();
    const br_rounding rounding = BR_WIDEN(&x);
    double scale = pow(10, fabs((double)decimals));
    br_tensor *scaled = decimals < 0 ? br_div_scalar(x, scale) : br_mul_scalar(x, scale);
    br_tensor *y = br_round(scaled);
    y = decimals < 0 ? br_mul_scalar(y, scale) : br_div_scalar(y, scale);
    return br__composed(scope, br__narrowed(rounding, y));
}

br_tensor *br_celu(br_tensor *x, double alpha)
{
    BR_OP("celu");
    if (!br__floating("celu", "x", x))
        return NULL;
    if (alpha == 0)
        return br_fail(BR_ERROR_ARGUMENT, "celu", "alpha must not be 0");
    br_scope *scope = br_scope_begin();
    const br_rounding rounding = BR_WIDEN(&x);
    br_tensor *above = br_gt_scalar(x, 0);
    br_tensor *z = br_div_scalar(br_masked_fill(x, above, 0), alpha);
    br_tensor *below = br_mul_scalar(alpha > 0 ? br_elu(z, 1) : br_expm1(z), alpha);
    return br__composed(scope, br__narrowed(rounding, br_where(above, x, below)));
}

br_tensor *br_hardshrink(br_tensor *x, double lambda)
{
    BR_OP("hardshrink");
    if (!br__floating("hardshrink", "x", x))
        return NULL;
    br_scope *scope = br_scope_begin();
    return br__composed(scope, br_masked_fill(x, br_le_scalar(br_abs(x), lambda), 0));
}

br_tensor *br_softshrink(br_tensor *x, double lambda)
{
    BR_OP("softshrink");
    if (!br__floating("softshrink", "x", x))
        return NULL;
    if (!(lambda >= 0))
        return br_fail(BR_ERROR_ARGUMENT, "softshrink", "lambda is %g, must be at least 0", lambda);
    br_scope *scope = br_scope_begin();
    const br_rounding rounding = BR_WIDEN(&x);
    br_tensor *inside = br_le_scalar(br_abs(x), lambda); /* the gradient is 0 at the bounds, too */
    br_tensor *y = br_masked_fill(br_sub(x, br_clamp(x, -lambda, lambda)), inside, 0);
    return br__composed(scope, br__narrowed(rounding, y));
}

br_tensor *br_threshold(br_tensor *x, double threshold, double value)
{
    BR_OP("threshold");
    if (!br__is_number("threshold", "x", x))
        return NULL;
    br_scope *scope = br_scope_begin();
    return br__composed(scope, br_masked_fill(x, br_le_scalar(x, threshold), value));
}

/* Returns true if the tensors are on one device and broadcast; fails otherwise. b and c may be
 * NULL. */
static bool three(const char *op, const char *a_name, const br_tensor *a, const char *b_name,
                  const br_tensor *b, const char *c_name, const br_tensor *c)
{
    br_tensor both;
    int ndim;
    int64_t sizes[BR_MAX_DIMS];
    if (!br__required(op, a_name, a))
        return false;
    both = br__window(a);
    if (b && (!br__same_device(op, a_name, a, b_name, b) ||
              !br__broadcast_named(op, a_name, a, b_name, b, &both.ndim, both.sizes)))
        return false;
    return !c || (br__same_device(op, a_name, a, c_name, c) &&
                  br__broadcast_named(op, "the broadcast input", &both, c_name, c, &ndim, sizes));
}

/* y = input + value tensor1 tensor2 or input + value tensor1 / tensor2 */
enum { INPUT, FIRST, SECOND };

static void addcmul_backward(br_node *node, br_tensor *dy, br_tensor **dx)
{
    br_tensor *first = br_saved(node, FIRST), *second = br_saved(node, SECOND);
    dx[INPUT] = dy;
    if (!first && !second)
        return; /* only the input needs a gradient */
    BR_WIDEN(&first, &second, &dy);
    br_tensor *scaled = br_mul_scalar(dy, *(const double *)br_params(node));
    if (br_needs_input_grad(node, FIRST))
        dx[FIRST] = br_mul(scaled, second);
    if (br_needs_input_grad(node, SECOND))
        dx[SECOND] = br_mul(scaled, first);
}

static void addcdiv_backward(br_node *node, br_tensor *dy, br_tensor **dx)
{
    br_tensor *first = br_saved(node, FIRST), *second = br_saved(node, SECOND);
    dx[INPUT] = dy;
    if (!second)
        return; /* only the input needs a gradient */
    BR_WIDEN(&first, &second, &dy);
    br_tensor *share = br_div(br_mul_scalar(dy, *(const double *)br_params(node)), second);
    if (br_needs_input_grad(node, FIRST))
        dx[FIRST] = share;
    if (br_needs_input_grad(node, SECOND))
        dx[SECOND] = br_neg(br_mul(share, br_div(first, second)));
}

static const br_op addcmul_op = { "addcmul", addcmul_backward, false };
static const br_op addcdiv_op = { "addcdiv", addcdiv_backward, false };

/* Computes the operation for operands of one floating dtype. */
static br_tensor *add_scaled(const br_op *op, br_pointwise kernel, br_tensor *input,
                             br_tensor *first, br_tensor *second, double value)
{
    static const char *const names[] = { "input", "tensor1", "the broadcast input", "tensor2" };
    br_tensor *y =
        br__ternary(op->name, kernel, (const br_tensor *[]){ input, first, second }, names, &value);
    br_node *node = br_record(op, y, BR_INPUTS(input, first, second), &value, sizeof value);
    if (br_needs_input_grad(node, SECOND))
        br_save(node, FIRST, first);
    if (br_needs_input_grad(node, FIRST) || br_needs_input_grad(node, SECOND))
        br_save(node, SECOND, second);
    return y;
}

static bool of_one_floating_dtype(const br_tensor *a, const br_tensor *b, const br_tensor *c)
{
    return a->dtype == b->dtype && a->dtype == c->dtype && br__is_floating(a->dtype);
}

br_tensor *br_addcmul(br_tensor *input, br_tensor *tensor1, br_tensor *tensor2, double value)
{
    BR_OP("addcmul");
    if (!br__required("addcmul", "tensor1", tensor1) ||
        !br__required("addcmul", "tensor2", tensor2) ||
        !three("addcmul", "input", input, "tensor1", tensor1, "tensor2", tensor2) ||
        !br__has_kernel("addcmul", "input", input, BR_POINTWISE(mul)))
        return NULL;
    if (of_one_floating_dtype(input, tensor1, tensor2))
        return add_scaled(&addcmul_op, BR_POINTWISE(addcmul), input, tensor1, tensor2, value);
    br_scope *scope = br_scope_begin();
    const br_rounding rounding = BR_WIDEN(&input, &tensor1, &tensor2);
    br_tensor *product = br_mul(tensor1, tensor2);
    return br__composed(scope,
                        br__narrowed(rounding, br_add(input, br_mul_scalar(product, value))));
}

br_tensor *br_addcdiv(br_tensor *input, br_tensor *tensor1, br_tensor *tensor2, double value)
{
    BR_OP("addcdiv");
    if (!br__required("addcdiv", "tensor1", tensor1) ||
        !br__required("addcdiv", "tensor2", tensor2) || !br__floating("addcdiv", "input", input) ||
        !three("addcdiv", "input", input, "tensor1", tensor1, "tensor2", tensor2))
        return NULL;
    if (of_one_floating_dtype(input, tensor1, tensor2))
        return add_scaled(&addcdiv_op, BR_POINTWISE(addcdiv), input, tensor1, tensor2, value);
    br_scope *scope = br_scope_begin();
    const br_rounding rounding = BR_WIDEN(&input, &tensor1, &tensor2);
    br_tensor *quotient = br_div(tensor1, tensor2);
    return br__composed(scope,
                        br__narrowed(rounding, br_add(input, br_mul_scalar(quotient, value))));
}

/* Returns y, the clamped x, recorded in another way where min and max are equal: there, the
 * gradient goes to x, min or max alone, as in PyTorch. maximum and minimum would divide it. */
static br_tensor *with_equal_bounds(br_tensor *y, br_tensor *x, br_tensor *min, br_tensor *max)
{
    if (!br_requires_grad(y))
        return y;
    br_scope *scope = br_no_grad_begin();
    br_tensor *equal = br_scope_return(scope, br_eq(min, max));
    const bool any = br__any_true(equal);
    br_scope_end(scope);
    if (!any)
        return y;
    br_tensor *chosen = br_where(br_lt(x, min), min, br_where(br_gt(x, max), max, x));
    return br_where(equal, chosen, y);
}

br_tensor *br_clamp_tensor(br_tensor *x, br_tensor *min, br_tensor *max)
{
    static const char op[] = "clamp_tensor";
    BR_OP(op);
    if (!three(op, "x", x, "min", min, "max", max))
        return NULL;
    if (!min && !max)
        return br_fail(BR_ERROR_ARGUMENT, op, "min and max are NULL: at least one is required");
    br_scope *scope = br_scope_begin();
    br_tensor *y = min ? br_maximum(x, min) : x;
    y = max ? br_minimum(y, max) : y;
    return br__composed(scope, min && max ? with_equal_bounds(y, x, min, max) : y);
}
