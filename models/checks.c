/* models/checks.c - shared by the models: checks of configurations, and initial weights. */
#include "models/models_internal.h"

#include <inttypes.h>
#include <string.h>

/* ---- Configurations -------------------------------------------------------------------------- */

bool zoo_good_config(const char *model, const void *config)
{
    if (!br_error_pending() && !config)
        br_raise(BR_ERROR_ARGUMENT, "%s: config is NULL, but it is required", model);
    return !br_error_pending();
}

bool zoo_good_size(const char *model, const char *name, int64_t size)
{
    if (!br_error_pending() && (size < 1 || size > INT32_MAX))
        br_raise(BR_ERROR_ARGUMENT, "%s: %s is %" PRId64 ", must be 1 .. %d", model, name, size,
                 INT32_MAX);
    return !br_error_pending();
}

bool zoo_good_multiple(const char *model, const char *name, int64_t size, const char *by_name,
                       int64_t by)
{
    if (!zoo_good_size(model, name, size) || !zoo_good_size(model, by_name, by))
        return false;
    if (size % by != 0)
        br_raise(BR_ERROR_ARGUMENT, "%s: %s %" PRId64 " is not divisible by %s %" PRId64, model,
                 name, size, by_name, by);
    return !br_error_pending();
}

bool zoo_good_probability(const char *model, const char *name, double p)
{
    if (!br_error_pending() && !(p >= 0 && p <= 1))
        br_raise(BR_ERROR_ARGUMENT, "%s: %s is %g, must be 0 .. 1", model, name, p);
    return !br_error_pending();
}

bool zoo_good_positive(const char *model, const char *name, double value)
{
    if (!br_error_pending() && !(value > 0))
        br_raise(BR_ERROR_ARGUMENT, "%s: %s is %g, must be positive", model, name, value);
    return !br_error_pending();
}

bool zoo_good_deviation(const char *model, const char *name, double value)
{
    if (!br_error_pending() && !(value >= 0))
        br_raise(BR_ERROR_ARGUMENT, "%s: %s is %g, must be at least 0", model, name, value);
    return !br_error_pending();
}

/* ---- Initial weights ------------------------------------------------------------------------- */

bool zoo_ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

void *zoo_init_module(br_module *module, zoo_init_fn init, const void *config)
{
    br_named_list *list = br_parameters(module);
    for (int64_t i = 0; list && i < list->count && !br_error_pending(); i++)
        init(config, list->items[i].name, list->items[i].tensor);
    br_named_list_free(list);
    if (br_error_pending())
        br_module_set_incomplete(module);
    return module;
}
