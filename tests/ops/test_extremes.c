/* tests/ops/test_extremes.c - results that are ordinary numbers although squares or products in
 * between leave the range of the dtype, or an element that is left out is infinite. The expected
 * values are exact, to the digits that are written. */
#include "tests/ops/values.h"

#include <brasa/optim.h>

TestSuite(extremes, .init = check_begin, .fini = check_end);

enum { MOST = 6 };

typedef struct numbers {
    int n;
    double at[MOST];
} numbers;

/* A function of x, and of `other` unless that has no elements; its results; and the gradients of
 * the sum 1 y[0] + 4 y[1] + 9 y[2] + ... */
typedef struct example {
    const char *label;
    br_tensor *(*call)(br_tensor *x, br_tensor *other);
    br_dtype dtype;
    numbers x, other, y, dx, dother;
} example;

#define FUNCTION(name, value)                              \
    static br_tensor *name(br_tensor *x, br_tensor *other) \
    {                                                      \
        (void)other;                                       \
        return value;                                      \
    }
FUNCTION(prod, br_prod(x))
FUNCTION(std_of, br_std(x, 1))
FUNCTION(var_of, br_var(x, 1))
FUNCTION(norm_2, br_norm(x, 2))
FUNCTION(norm_3, br_norm(x, 3))
FUNCTION(layer_norm, br_f_layer_norm(x, BR_SHAPE(3), NULL, NULL, 1e-5))
FUNCTION(rms_norm, br_f_rms_norm(x, BR_SHAPE(3), NULL, BR_NONE_F64))
FUNCTION(group_norm,
         br_flatten(br_f_group_norm(br_reshape(x, BR_SHAPE(1, 1, 3)), 1, NULL, NULL, 1e-5), 0, -1))
FUNCTION(prelu, br_f_prelu(x, other))
FUNCTION(atan2_of, br_atan2(x, other))
FUNCTION(asinh_of, br_asinh(x))
FUNCTION(sinc_of, br_sinc(x))
FUNCTION(erfcx_of, br_erfcx(x))
FUNCTION(remainder_of, br_remainder(x, other))
FUNCTION(fmod_of, br_fmod(x, other))
FUNCTION(celu_negative, br_celu(x, -1))
FUNCTION(celu_small, br_celu(x, 1e-3))
FUNCTION(logsumexp, br_logsumexp(x, 0, NULL, false))
FUNCTION(hardtanh, br_hardtanh(x, -1, 1))
FUNCTION(relu6, br_relu6(x))
FUNCTION(cosine, br_cosine_similarity(x, other, 0, 1e-8))
FUNCTION(distance, br_pairwise_distance(x, other, 2, 0, false))
FUNCTION(kl_div, br_kl_div(x, other, BR_REDUCTION_SUM, false))
FUNCTION(pow_of, br_pow(x, other))
FUNCTION(mean_of, br_mean(x))
FUNCTION(cumprod, br_cumprod(x, 0))

/* Returns the derivative of sinc, which can be differentiated again. */
static br_tensor *sinc_slope(br_tensor *x, br_tensor *other)
{
    (void)other;
    br_tensor *y = br_sinc(x), *dy = br_ones_like(y), *dx = NULL;
    br_grad(1, &y, 1, &x, &dx, BR_OPTIONS(br_grad, .gradients = &dy, .create_graph = true));
    return dx;
}

/* Cases of the losses: `other` has the weights of the classes or the target. */
static br_tensor *two_rows(br_tensor *x)
{
    return br_reshape(x, BR_SHAPE(2, 2));
}

static br_tensor *labels(int64_t first, int64_t second)
{
    return br_from_i64(BR_SHAPE(2), (int64_t[]){ first, second });
}

FUNCTION(scatter_prod, br_scatter_reduce(br_ones(BR_SHAPE(1), BR_F32), 0,
                                         br_zeros(BR_SHAPE(2), BR_I64), x, BR_SCATTER_PROD, true))
FUNCTION(batch_norm,
         br_flatten(br_f_batch_norm(br_unsqueeze(x, 1), NULL, NULL, NULL, NULL, true, .1, 1e-5), 0,
                    -1))
FUNCTION(acosh_of, br_acosh(x))
FUNCTION(gelu_tanh, br_gelu(x, BR_GELU_TANH))
FUNCTION(cosine_loss,
         br_cosine_embedding_loss(x, other, br_scalar(1, BR_F32), 0, BR_REDUCTION_MEAN))
FUNCTION(nll, br_nll_loss(two_rows(x), labels(-100, 1), NULL))
FUNCTION(nll_weighted, br_nll_loss(two_rows(x), labels(0, 1),
                                   BR_OPTIONS(br_cross_entropy, .weight = br_detach(other))))
FUNCTION(ce_weighted, br_cross_entropy(two_rows(x), labels(0, 1),
                                       BR_OPTIONS(br_cross_entropy, .weight = br_detach(other))))
FUNCTION(ce_probabilities, br_cross_entropy(x, br_detach(other), NULL))
FUNCTION(ce_smoothing, br_cross_entropy(x, br_scalar(1, BR_I64),
                                        BR_OPTIONS(br_cross_entropy, .weight = br_detach(other),
                                                   .label_smoothing = 1)))
FUNCTION(bce,
         br_binary_cross_entropy_with_logits(x, br_detach(other), NULL, BR_REDUCTION_SUM, NULL))

/* clang-format off */
#define N(...) { sizeof((double[]){ __VA_ARGS__ }) / sizeof(double), { __VA_ARGS__ } }
#define NONE { 0 }
static const example examples[] = {
    { "prod", prod, BR_F32, N(0, 0, 1e20, 1e20), NONE, N(0), N(0, 0, 0, 0), NONE },
    { "prod", prod, BR_F64, N(0, 0, 1e200, 1e200), NONE, N(0), N(0, 0, 0, 0), NONE },
    { "prod", prod, BR_F32, N(1e30, 1e30, 1e-30, 1e-30), NONE, N(1), N(1e-30, 1e-30, 1e30, 1e30), NONE },
    { "scatter_reduce prod", scatter_prod, BR_F32, N(1e30, 1e20), NONE, N(INFINITY), N(1e20, 1e30), NONE },
    { "std", std_of, BR_F32, N(4e19, 0, 0), NONE, N(2.30940108e19), N(.577350269, -.288675135, -.288675135), NONE },
    { "std", std_of, BR_F64, N(4e190, 0, 0), NONE, N(2.30940108e190), N(.577350269, -.288675135, -.288675135), NONE },
    { "std", std_of, BR_F32, N(4e-30, 0, 0), NONE, N(2.30940108e-30), N(.577350269, -.288675135, -.288675135), NONE },
    { "var", var_of, BR_F32, N(3e19, 1e19, 0), NONE, N(2.33333333e38), N(1.66666667e19, -3.33333333e18, -1.33333333e19), NONE },
    { "norm 2", norm_2, BR_F32, N(3e30, -4e30), NONE, N(5e30), N(.6, -.8), NONE },
    { "norm 2", norm_2, BR_F32, N(3e-30, -4e-30), NONE, N(5e-30), N(.6, -.8), NONE },
    { "norm 2", norm_2, BR_F64, N(3e300, -4e300), NONE, N(5e300), N(.6, -.8), NONE },
    { "norm 3", norm_3, BR_F32, N(2e30, -2e30), NONE, N(2.51984210e30), N(.629960525, -.629960525), NONE },
    { "layer_norm", layer_norm, BR_F32, N(1e20, 2e20, 3e20), NONE, N(-1.22474487, 0, 1.22474487), N(4.08248290e-21, -8.16496581e-21, 4.08248290e-21), NONE },
    { "rms_norm", rms_norm, BR_F32, N(1e20, 2e20, 3e20), NONE, N(.46291005, .9258201, 1.38873015), N(-7.27430078e-21, -5.29040057e-21, 5.95170064e-21), NONE },
    { "group_norm", group_norm, BR_F32, N(1e20, 2e20, 3e20), NONE, N(-1.22474487, 0, 1.22474487), N(4.08248290e-21, -8.16496581e-21, 4.08248290e-21), NONE },
    { "batch_norm", batch_norm, BR_F32, N(1e20, 2e20, 3e20), NONE, N(-1.22474487, 0, 1.22474487), N(4.08248290e-21, -8.16496581e-21, 4.08248290e-21), NONE },
    { "prelu", prelu, BR_F32, N(INFINITY, -1), N(.25), N(INFINITY, -.25), N(1, 1), N(-4) },
    { "prelu", prelu, BR_F32, N(2, -1), N(INFINITY), N(2, -INFINITY), N(1, INFINITY), N(-4) },
    { "atan2", atan2_of, BR_F32, N(0), N(1e-30), N(0), N(1e30), N(0) },
    { "atan2", atan2_of, BR_F32, N(3e30), N(4e30), N(.643501109), N(1.6e-31), N(-1.2e-31) },
    { "atan2", atan2_of, BR_F64, N(3e-200), N(4e-200), N(.643501109), N(1.6e199), N(-1.2e199) },
    { "atan2", atan2_of, BR_F32, N(0, 3e30), N(0, 4e30), N(0, .643501109), N(0, 6.4e-31), N(0, -4.8e-31) },
    { "asinh", asinh_of, BR_F32, N(1e30, -1e25), NONE, N(69.7707001, -58.2577746), N(1e-30, 4e-25), NONE },
    { "acosh", acosh_of, BR_F32, N(1e30), NONE, N(69.7707001), N(1e-30), NONE },
    { "sinc", sinc_of, BR_F32, N(0, 1e-3, .05), NONE, N(1, .999998355, .995892735), N(0, -.0131594603, -1.47679106), NONE },
    { "sinc", sinc_of, BR_F64, N(0, 1e-9, 2.5), NONE, N(1, 1, .127323954473516), N(0, -1.31594725347858e-8, -.458366237046667), NONE },
    { "erfcx", erfcx_of, BR_F32, N(-1, 8, 1e10), NONE, N(5.00898008, .0699851662, 5.64189584e-11), N(-11.1463393, -.0344660315, -5.07770625e-20), NONE },
    { "erfcx", erfcx_of, BR_F64, N(11.5, 30, 100), NONE, N(.0488765468959823, .0187958888614168, .00564161378298943), N(-.00421858848792022, -.00250334164202994, -.000507694478633939), NONE },
    { "erfcx", erfcx_of, BR_F64, N(-30, -1e200, INFINITY), NONE, N(INFINITY, INFINITY, 0), N(-INFINITY, -INFINITY, 0), NONE },
    { "slope of sinc", sinc_slope, BR_F32, N(0, 1e-3, .05), NONE, N(0, -.00328986506, -.164087895), N(-3.28986813, -13.1594336, -29.3899643), NONE },
    { "remainder", remainder_of, BR_F32, N(1), N(-INFINITY), N(-INFINITY), N(1), N(1) },
    { "fmod", fmod_of, BR_F32, N(1), N(-INFINITY), N(1), N(1), N(0) },
    { "gelu tanh", gelu_tanh, BR_F32, N(2e13, 1), NONE, N(2e13, .841191991), N(1, 4.33185634), NONE },
    { "celu, alpha -1", celu_negative, BR_F64, N(-1, 0, 2), NONE, N(-1.71828183, 0, 2), N(2.71828183, 4, 9), NONE },
    { "celu, alpha 1e-3", celu_small, BR_F32, N(3e37, .1, -1), NONE, N(3e37, .1, -1e-3), N(1, 4, 0), NONE },
    { "logsumexp", logsumexp, BR_F64, N(1000, INFINITY, 0), NONE, N(INFINITY), N(0, NAN, 0), NONE },
    { "hardtanh", hardtanh, BR_F32, N(NAN, 1, .5), NONE, N(NAN, 1, .5), N(1, 0, 9), NONE },
    { "relu6", relu6, BR_F32, N(NAN, 6, .5), NONE, N(NAN, 6, .5), N(1, 0, 9), NONE },
    { "cosine_similarity", cosine, BR_F32, N(3e25, 4e25), N(1, 0), N(.6), N(1.28e-26, -9.6e-27), N(0, .8) },
    { "cosine_embedding_loss", cosine_loss, BR_F32, N(3e25, 4e25), N(1, 0), N(.4), N(-1.28e-26, 9.6e-27), NONE },
    { "pairwise_distance", distance, BR_F32, N(3e25, 4e25), N(0, 0), N(5e25), N(.6, .8), N(-.6, -.8) },
    { "pow", pow_of, BR_F32, N(0x1p-133), N(1e-30), N(1), N(1.08890357e10), N(-92.1885751) },
    { "mean", mean_of, BR_F32, N(3e38, 3e38, 3e38), NONE, N(3e38), N(.333333333, .333333333, .333333333), NONE },
    { "mean", mean_of, BR_F64, N(1e308, 1e308, -5e307), NONE, N(5e307), N(.333333333, .333333333, .333333333), NONE },
    { "cumprod", cumprod, BR_F32, N(1e20, 1e20, 1e-20, 1e-20), NONE, N(1e20, INFINITY, 1e20, 1), N(4e20, 4e20, INFINITY, 1.6e21), NONE },
    { "layer_norm", layer_norm, BR_F64, N(1e200, 2e200, 3e200), NONE, N(-1.22474487, 0, 1.22474487), N(4.08248290e-201, -8.16496581e-201, 4.08248290e-201), NONE },
    { "nll_loss", nll, BR_F32, N(-INFINITY, -.5, -.25, -1.5), NONE, N(1.5), N(0, 0, 0, -1), NONE },
    { "nll_loss, weights", nll_weighted, BR_F32, N(-INFINITY, -.5, -.25, -1.5), N(0, 2), N(1.5), N(0, 0, 0, -1), NONE },
    { "cross_entropy, weights", ce_weighted, BR_F32, N(-INFINITY, -.5, .5, .5), N(0, 2), N(.693147181), N(0, 0, .5, -.5), NONE },
    { "cross_entropy, probabilities", ce_probabilities, BR_F32, N(-INFINITY, 2), N(0, 1), N(0), N(0, 0), NONE },
    { "cross_entropy, smoothing 1", ce_smoothing, BR_F32, N(-INFINITY, .5, .5), N(0, 2, 2), N(.46209812), N(0, 0, 0), NONE },
    { "kl_div", kl_div, BR_F32, N(-INFINITY, -1), N(0, 1), N(1), N(0, -1), NONE },
    { "bce_with_logits", bce, BR_F32, N(-INFINITY, INFINITY, 0), N(0, 1, 1), N(.693147181), N(0, 0, -.5), NONE },
};
/* clang-format on */

static void check_numbers(const example *e, const char *what, br_tensor *t, const numbers *want)
{
    br_tensor *got = br_contiguous(br_to(t, BR_F64));
    double close = e->dtype == BR_F64 ? 2e-8 : 2e-6;
    check_ok();
    cr_assert_eq(br_numel(got), want->n, "%s: %s", e->label, what);
    for (int i = 0; i < want->n; i++) {
        double value = br_data_f64(got)[i], right = want->at[i];
        cr_expect(value == right || (isnan(value) && isnan(right)) ||
                      fabs(value - right) <= close * fabs(right),
                  "%s in %s: %s %d is %.9g, expected %.9g", e->label, br_dtype_name(e->dtype), what,
                  i, value, right);
    }
}

static br_tensor *tensor_of(const numbers *values, br_dtype dtype)
{
    br_scope *scope = br_no_grad_begin();
    br_tensor *t = br_to(br_from_f64(BR_SHAPE(values->n), values->at), dtype);
    br_scope_return(scope, t);
    br_scope_end(scope);
    return leaf(t);
}

static void check_example(const example *e, bool create_graph)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x = tensor_of(&e->x, e->dtype), *other = tensor_of(&e->other, e->dtype), *dx[2];
    br_tensor *y = e->call(x, other);
    br_tensor *place = br_arange(1, e->y.n + 1, 1, e->dtype), *weights = br_mul(place, place);
    weights = br_reshape(weights, br_ndim(y), br_sizes(y));
    check_numbers(e, "result", y, &e->y);
    br_grad(1, &y, 2, (br_tensor *[]){ x, other }, dx,
            BR_OPTIONS(br_grad, .gradients = &weights, .create_graph = create_graph,
                       .allow_unused = true));
    check_ok();
    check_numbers(e, create_graph ? "recorded gradient" : "gradient", dx[0], &e->dx);
    if (e->dother.n > 0)
        check_numbers(e, create_graph ? "recorded other gradient" : "other gradient", dx[1],
                      &e->dother);
    br_scope_end(scope);
}

/* With create_graph the gradients are composed of other operations. */
Test(extremes, results_and_gradients_are_exact)
{
    for (size_t i = 0; i < sizeof examples / sizeof *examples; i++) {
        check_example(&examples[i], false);
        check_example(&examples[i], true);
    }
}

/* The squares of the gradients overflow, or are 0, even in f64. */
Test(extremes, total_norms)
{
    const double sizes[] = { 1e200, 1e-200 };
    for (int i = 0; i < 2; i++) {
        br_scope *scope = br_scope_begin();
        br_tensor *x = br_from_f64(BR_SHAPE(2), (double[]){ 3 * sizes[i], -4 * sizes[i] });
        double norm = br_get_total_norm(1, &x, 2, true);
        check_ok();
        cr_expect(fabs(norm / sizes[i] - 5) <= 1e-14, "%g", norm);
        br_scope_end(scope);
    }
}

/* d/db of d/db (a / b) = 2 a / b^3, which is 0 for a = 0 although b^2 is 0 in f32. */
Test(extremes, second_derivative_of_a_quotient)
{
    br_scope *scope = br_scope_begin();
    br_tensor *a = br_scalar(0, BR_F32), *b = leaf(br_scalar(1e-20, BR_F32));
    br_tensor *y = br_div(a, b), *first, *second;
    br_grad(1, &y, 1, &b, &first, BR_OPTIONS(br_grad, .create_graph = true));
    br_grad(1, &first, 1, &b, &second, NULL);
    check_ok();
    cr_expect(br_item(first) == 0 && br_item(second) == 0, "%g %g", br_item(first),
              br_item(second));
    br_scope_end(scope);
}
