/* models/gpt_neox_internal.h - the functions of GPT-NeoX that its family uses. */
#ifndef BR_GPT_NEOX_INTERNAL_H
#define BR_GPT_NEOX_INTERNAL_H

#include "models/models_internal.h"

#include <brasa/models/gpt_neox.h>

/* Returns the configuration if it is valid. Otherwise an error is pending: returns one with the
 * smallest sizes, so that the constructors can go on and do nothing. */
br_gpt_neox_config zoo_gpt_neox_checked(const br_gpt_neox_config *config);
/* Returns how many numbers of a head are turned. */
int64_t zoo_gpt_neox_rotary_dim(const br_gpt_neox_config *c);
/* Make a model from a checked configuration. Weights are not initialized under br_skip_init(). */
br_gpt_neox *zoo_gpt_neox_make(const br_gpt_neox_config *config);
br_gpt_neox_lm *zoo_gpt_neox_make_lm(const br_gpt_neox_config *config);
/* Initializes a weight. `config` is a br_gpt_neox_config. */
bool zoo_gpt_neox_init(const void *config, const char *key, br_tensor *weight);

#endif
