/* models/hf_bert_internal.h - the functions of BertModel that its heads use. */
#ifndef BR_HF_BERT_INTERNAL_H
#define BR_HF_BERT_INTERNAL_H

#include "models/models_internal.h"

#include <brasa/models/hf_bert.h>

/* Returns the configuration if it is valid. Otherwise an error is pending: returns one with the
 * smallest sizes, so that the constructors can go on and do nothing. */
br_hf_bert_config zoo_hf_bert_checked(const br_hf_bert_config *config);
/* Makes the model from a checked configuration. Weights are not initialized under br_skip_init().
 */
br_hf_bert *zoo_hf_bert_make(br_hf_bert_config config, bool pooler);
/* The names of the classes with heads, whose addresses the next function compares. */
extern const char zoo_bert_pretraining[], zoo_bert_masked_lm[], zoo_bert_next_sentence[],
    zoo_bert_classification[];
/* Make a model with the pretraining heads of the class, or with a classifier. */
br_hf_bert_pretraining *zoo_hf_bert_make_pretraining(br_hf_bert_config config, const char *name);
br_hf_bert_classifier *zoo_hf_bert_make_classifier(br_hf_bert_config config);
/* Initializes a weight. `config` is a br_hf_bert_config. */
bool zoo_hf_bert_init(const void *config, const char *key, br_tensor *weight);
/* Moves the outputs requested by the options from the innermost scope to the enclosing one. */
void zoo_hf_bert_store_outputs(const br_hf_bert *self, const br_hf_bert_options *options);

#endif
