/* nn/find_activation.c - activation functions by their names in transformers (ACT2FN). */
#include "nn/nn_internal.h"

#include <string.h>

static br_tensor *gelu(br_tensor *x)
{
    return br_may_overwrite(x) ? br_gelu_(x, BR_GELU_ERF) : br_gelu(x, BR_GELU_ERF);
}

static br_tensor *gelu_tanh(br_tensor *x)
{
    return br_may_overwrite(x) ? br_gelu_(x, BR_GELU_TANH) : br_gelu(x, BR_GELU_TANH);
}

static br_tensor *relu(br_tensor *x)
{
    return br_may_overwrite(x) ? br_relu_(x) : br_relu(x);
}

static br_tensor *silu(br_tensor *x)
{
    return br_may_overwrite(x) ? br_silu_(x) : br_silu(x);
}

static br_tensor *tanh_of(br_tensor *x)
{
    return br_may_overwrite(x) ? br_tanh_(x) : br_tanh(x);
}

static br_tensor *sigmoid(br_tensor *x)
{
    return br_may_overwrite(x) ? br_sigmoid_(x) : br_sigmoid(x);
}

static br_tensor *gelu_10(br_tensor *x)
{
    return br_clamp(gelu(x), -10, 10);
}

static br_tensor *quick_gelu(br_tensor *x)
{
    return br_mul(x, br_sigmoid(br_mul_scalar(x, 1.702)));
}

/* The activation of MEGA: the normal distribution function with mean mu and standard deviation
 * sigma. */
static br_tensor *laplace(br_tensor *x)
{
    const double mu = 0.707107, sigma = 0.282095, sqrt2 = 1.4142135623730951;
    br_tensor *z = br_div_scalar(br_sub_scalar(x, mu), sigma * sqrt2);
    return br_mul_scalar(br_add_scalar(br_erf(z), 1), 0.5);
}

static br_tensor *leaky_relu(br_tensor *x)
{
    return br_leaky_relu(x, 0.01);
}

static br_tensor *linear(br_tensor *x)
{
    return x;
}

static br_tensor *relu2(br_tensor *x)
{
    return br_square(relu(x));
}

static br_tensor *sqrtsoftplus(br_tensor *x)
{
    return br_sqrt(br_softplus(x, 1, 20));
}

/* transformers' ACT2FN. gelu_fast rounds sqrt(2/pi) to ten digits, which changes results by less
 * than the rounding of f32. */
static const struct {
    const char *name;
    br_unary_fn function;
} activations[] = {
    { "gelu", gelu },
    { "gelu_10", gelu_10 },
    { "gelu_accurate", gelu_tanh },
    { "gelu_fast", gelu_tanh },
    { "gelu_new", gelu_tanh },
    { "gelu_python", gelu },
    { "gelu_python_tanh", gelu_tanh },
    { "gelu_pytorch_tanh", gelu_tanh },
    { "hardswish", br_hardswish },
    { "laplace", laplace },
    { "leaky_relu", leaky_relu },
    { "linear", linear },
    { "mish", br_mish },
    { "quick_gelu", quick_gelu },
    { "relu", relu },
    { "relu2", relu2 },
    { "relu6", br_relu6 },
    { "sigmoid", sigmoid },
    { "silu", silu },
    { "sqrtsoftplus", sqrtsoftplus },
    { "swish", silu },
    { "tanh", tanh_of },
};
enum { N_ACTIVATIONS = sizeof activations / sizeof *activations };

/* Returns the row of the name, or -1. */
static int find_row(const char *name)
{
    for (int i = 0; name && i < N_ACTIVATIONS; i++)
        if (strcmp(name, activations[i].name) == 0)
            return i;
    return -1;
}

br_unary_fn br_find_activation(const char *name)
{
    int i = find_row(name);
    return i < 0 ? NULL : activations[i].function;
}

const char *br__activation_name(const char *name)
{
    int i = find_row(name);
    return i < 0 ? NULL : activations[i].name;
}

const char *br__activation_reason(const char *name, bool may_be_gated, char text[BR_REASON])
{
    bool has_weights = name && (strcmp(name, "prelu") == 0 || strcmp(name, "xielu") == 0);
    snprintf(text, BR_REASON, "%smust be one of ",
             has_weights ? "which has weights and is not supported; " : "");
    for (int i = 0; i < N_ACTIVATIONS; i++) {
        size_t used = strlen(text);
        snprintf(text + used, BR_REASON - used, "%s%s", i ? ", " : "", activations[i].name);
    }
    if (may_be_gated) {
        size_t used = strlen(text);
        snprintf(text + used, BR_REASON - used, ", or \"gated-\" and one of them");
    }
    return text;
}

bool br_require_activation(const char *op, const char *key, const char *name)
{
    char text[BR_REASON];
    if (!br_failed() && find_row(name) < 0)
        br_raise(BR_ERROR_ARGUMENT, "%s: %s is %s, %s", op ? op : "activation", key ? key : "name",
                 name ? br_printable(name) : "NULL", br__activation_reason(name, false, text));
    return !br_failed();
}
