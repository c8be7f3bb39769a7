/* models/models_internal.h - checks of configurations that the models share. Messages begin with
 * the model's name; while an error is pending nothing passes. */
#ifndef BR_MODELS_INTERNAL_H
#define BR_MODELS_INTERNAL_H

#include <brasa/models/auto_config.h>

/* There is a configuration. */
bool br__good_config(const char *model, const void *config);
/* The size is 1 .. INT32_MAX, so that products of two cannot overflow; those of more are checked
 * where memory is taken. */
bool br__good_size(const char *model, const char *name, int64_t size);
/* A good size is a multiple of another, as a layer's is of its number of heads. */
bool br__good_multiple(const char *model, const char *name, int64_t size, const char *by_name,
                       int64_t by);

/* The same of sizes in a config.json, which messages name. */
bool br__config_multiple(const br_auto_config *config, const char *key, const char *by);

#endif
