/* models/config.c - checks of configurations that the models share. */
#include "models/models_internal.h"

#include <inttypes.h>

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
        br_raise(BR_ERROR_ARGUMENT, "%s: %s %" PRId64 " is no multiple of %s %" PRId64, model, name,
                 size, by_name, by);
    return !br_failed();
}
