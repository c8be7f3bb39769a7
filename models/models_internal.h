/* models/models_internal.h - checks that the models share. */
#ifndef BR_MODELS_INTERNAL_H
#define BR_MODELS_INTERNAL_H

#include <brasa/models/auto_config.h>

/* False and an error that names the file unless the size under `key` is a multiple of that under
 * `by`. */
bool br__config_multiple(const br_auto_config *config, const char *key, const char *by);

#endif
