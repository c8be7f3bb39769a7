/* models/t5_internal.h - shared by T5's files. */
#ifndef BR_T5_INTERNAL_H
#define BR_T5_INTERNAL_H

#include "models/models_internal.h"

#include <brasa/models/t5.h>

/* Returns the configuration if it is valid. Otherwise an error is pending: returns one with the
 * smallest sizes, so that the constructors can go on and do nothing. */
br_t5_config zoo_t5_checked(const br_t5_config *config);
/* The names of the classes, whose addresses the next function compares. */
extern const char zoo_t5_model[], zoo_t5_generation[];
/* Makes a model of the class from a checked configuration. Weights are not initialized under
 * br_skip_init(). */
br_t5 *zoo_t5_make(br_t5_config config, const char *class);
/* Initializes a weight. `config` is a br_t5_config. */
bool zoo_t5_init(const void *config, const char *key, br_tensor *weight);

#endif
