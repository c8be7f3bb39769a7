/* models/hf_bert_internal.h - what BERT's heads need of the model. */
#ifndef BR_HF_BERT_INTERNAL_H
#define BR_HF_BERT_INTERNAL_H

#include "models/auto_model_internal.h"

#include <brasa/models/hf_bert.h>

/* The function that hidden_act names; NULL (no error) if there is none. */
br_hf_bert_activation br__hf_bert_activation(const char *hidden_act);
/* A good configuration; or, with an error pending, one with which constructors run to their end
 * without effect. */
br_hf_bert_config br__hf_bert_checked(const br_hf_bert_config *config);
/* The model, of such a configuration; its weights are drawn as br__skip_init() says. */
br_hf_bert *br__hf_bert_make(br_hf_bert_config config, bool pooler);
/* Gives one weight, all weights of a tree their first values. The latter returns the module. */
bool br__hf_bert_init(const br_hf_bert_config *config, const char *key, br_tensor *weight);
void *br__hf_bert_finish(br_module *module, const br_hf_bert_config *config);
/* Hands what a forward gave by its options from the innermost scope to the one outside. */
void br__hf_bert_hand_out(const br_hf_bert *self, const br_hf_bert_options *options);

#endif
