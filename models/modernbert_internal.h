/* models/modernbert_internal.h - the functions of ModernBERT that its heads and its family use. */
#ifndef BR_MODERNBERT_INTERNAL_H
#define BR_MODERNBERT_INTERNAL_H

#include "models/models_internal.h"

#include <brasa/models/modernbert.h>

/* Returns the configuration if it is valid. Otherwise an error is pending: returns one with the
 * smallest sizes, so that the constructors can go on and do nothing. */
br_modernbert_config zoo_modernbert_checked(const br_modernbert_config *config);
/* Make a model from a checked configuration. Weights are not initialized under br_skip_init(). */
br_modernbert *zoo_modernbert_make(br_modernbert_config config);
br_modernbert_lm *zoo_modernbert_make_lm(br_modernbert_config config);
br_modernbert_classifier *zoo_modernbert_make_classifier(br_modernbert_config config,
                                                         br_model_task task);
/* Returns true if layer i attends only to near tokens. */
bool zoo_modernbert_is_local(const br_modernbert_config *config, int64_t i);
/* Makes a LayerNorm with the configuration's eps and bias. */
br_layer_norm *zoo_modernbert_norm(const br_modernbert_config *config);
/* Initializes a weight. `config` is a br_modernbert_config. */
bool zoo_modernbert_init(const void *config, const char *key, br_tensor *weight);
/* Moves the outputs requested by the options from the innermost scope to the enclosing one. */
void zoo_modernbert_store_outputs(const br_modernbert *self, const br_modernbert_options *options);

#endif
