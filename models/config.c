/* models/config.c - shared by the models: checks of configurations, activations by name, initial
 * weights. */
#include "models/models_internal.h"

#include "nn/nn_internal.h"

#include <inttypes.h>
#include <string.h>

/* ---- Configurations -------------------------------------------------------------------------- */

bool br__good_config(const char *model, const void *config)
{
    if (!br_failed() && !config)
        br_raise(BR_ERROR_ARGUMENT, "%s: config is NULL, but it is required", model);
    return !br_failed();
}

bool br__good_size(const char *model, const char *name, int64_t size)
{
    if (!br_failed() && (size < 1 || size > INT32_MAX))
        br_raise(BR_ERROR_ARGUMENT, "%s: %s is %" PRId64 ", must be 1 .. %d", model, name, size,
                 INT32_MAX);
    return !br_failed();
}

bool br__good_multiple(const char *model, const char *name, int64_t size, const char *by_name,
                       int64_t by)
{
    if (!br__good_size(model, name, size) || !br__good_size(model, by_name, by))
        return false;
    if (size % by != 0)
        br_raise(BR_ERROR_ARGUMENT, "%s: %s %" PRId64 " is not divisible by %s %" PRId64, model,
                 name, size, by_name, by);
    return !br_failed();
}

bool br__good_probability(const char *model, const char *name, double p)
{
    if (!br_failed() && !(p >= 0 && p <= 1))
        br_raise(BR_ERROR_ARGUMENT, "%s: %s is %g, must be 0 .. 1", model, name, p);
    return !br_failed();
}

bool br__good_positive(const char *model, const char *name, double value)
{
    if (!br_failed() && !(value > 0))
        br_raise(BR_ERROR_ARGUMENT, "%s: %s is %g, must be positive", model, name, value);
    return !br_failed();
}

bool br__good_deviation(const char *model, const char *name, double value)
{
    if (!br_failed() && !(value >= 0))
        br_raise(BR_ERROR_ARGUMENT, "%s: %s is %g, must be at least 0", model, name, value);
    return !br_failed();
}

/* ---- Activations ----------------------------------------------------------------------------- */

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

/* MEGA's: the distribution function of the normal distribution with this mean and deviation. */
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
    br__activation function;
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

br__activation br__find_activation(const char *name)
{
    int i = find_row(name);
    return i < 0 ? NULL : activations[i].function;
}

/* Writes what is wrong with the name, and the names that are allowed. */
enum { REASON = 600 };
static const char *reason(const char *name, bool may_be_gated, char text[REASON])
{
    bool has_weights = name && (strcmp(name, "prelu") == 0 || strcmp(name, "xielu") == 0);
    snprintf(text, REASON, "%smust be one of ",
             has_weights ? "which has weights and is not supported; " : "");
    for (int i = 0; i < N_ACTIVATIONS; i++) {
        size_t used = strlen(text);
        snprintf(text + used, REASON - used, "%s%s", i ? ", " : "", activations[i].name);
    }
    if (may_be_gated) {
        size_t used = strlen(text);
        snprintf(text + used, REASON - used, ", or \"gated-\" and one of them");
    }
    return text;
}

bool br__good_activation(const char *model, const char *key, const char *name)
{
    char text[REASON];
    if (!br_failed() && find_row(name) < 0)
        br_raise(BR_ERROR_ARGUMENT, "%s: %s is %s, %s", model, key,
                 name ? br__printable(name) : "NULL", reason(name, false, text));
    return !br_failed();
}

const char *br__config_activation(const br_auto_config *config, const char *key, bool *gated)
{
    static const char prefix[] = "gated-";
    const char *value = br_auto_config_string(config, key), *name = value;
    bool has_prefix = value && gated && strncmp(value, prefix, strlen(prefix)) == 0;
    if (has_prefix)
        name += strlen(prefix);
    int i = find_row(name);
    char text[REASON];
    if (name && i < 0)
        br__fail_file(BR_ERROR_FORMAT, "auto_config", br_auto_config_path(config),
                      "%s is \"%s\", %s", key, br__printable(value), reason(name, gated, text));
    if (gated)
        *gated = has_prefix;
    return i < 0 ? NULL : activations[i].name;
}

/* ---- Initial weights ------------------------------------------------------------------------- */

bool br__ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

void *br__init_module(br_module *module, br__init_fn init, const void *config)
{
    br_named_list *list = br_parameters(module);
    for (int64_t i = 0; list && i < list->count && !br_failed(); i++)
        init(config, list->items[i].name, list->items[i].tensor);
    br_named_list_free(list);
    if (br_failed() && module->state)
        module->state->incomplete = true;
    return module;
}
