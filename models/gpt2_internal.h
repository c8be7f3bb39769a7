/* models/gpt2_internal.h - the functions of GPT-2 that its family uses. */
#ifndef BR_GPT2_INTERNAL_H
#define BR_GPT2_INTERNAL_H

#include "models/models_internal.h"

#include <brasa/models/gpt2.h>

/* Returns the configuration if it is valid. Otherwise an error is pending: returns one with the
 * smallest sizes, so that the constructors can go on and do nothing. */
br_gpt2_config zoo_gpt2_checked(const br_gpt2_config *config);
/* Make a model from a checked configuration. Weights are not initialized under br_skip_init(). */
br_gpt2 *zoo_gpt2_make(br_gpt2_config config);
br_gpt2_lm *zoo_gpt2_make_lm(br_gpt2_config config);
/* Initializes a weight. `config` is a br_gpt2_config. */
bool zoo_gpt2_init(const void *config, const char *key, br_tensor *weight);

#endif
