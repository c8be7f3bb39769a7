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

static const char *const activation_names[] = { "gelu", "gelu_new", "gelu_pytorch_tanh",
                                                "relu", "silu",     "swish",
                                                "tanh" };
static const br__activation activations[] = {
    gelu, gelu_tanh, gelu_tanh, relu, silu, silu, tanh_of
};
enum { N_ACTIVATIONS = sizeof activations / sizeof *activations };

br__activation br__find_activation(const char *name)
{
    for (int i = 0; name && i < N_ACTIVATIONS; i++)
        if (strcmp(name, activation_names[i]) == 0)
            return activations[i];
    return NULL;
}

bool br__good_activation(const char *model, const char *key, const char *name)
{
    if (!br_failed() && !br__find_activation(name))
        br_raise(BR_ERROR_ARGUMENT, "%s: %s is %s, which is not a supported activation", model, key,
                 name ? br__printable(name) : "NULL");
    return !br_failed();
}

const char *br__config_activation(const br_auto_config *config, const char *key)
{
    int i = br_auto_config_choice(config, key, N_ACTIVATIONS, activation_names);
    return i < 0 ? NULL : activation_names[i];
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
