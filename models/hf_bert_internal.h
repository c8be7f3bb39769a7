/* models/hf_bert_internal.h - what BERT's heads need of the model. */
#ifndef BR_HF_BERT_INTERNAL_H
#define BR_HF_BERT_INTERNAL_H

#include "models/auto_model_internal.h"

#include <brasa/models/hf_bert.h>

/* A good configuration; or, with an error pending, one with which constructors run to their end
 * without effect. */
br_hf_bert_config br__hf_bert_checked(const br_hf_bert_config *config);
/* The model, of such a configuration; its weights are drawn as br__skip_init() says. */
br_hf_bert *br__hf_bert_make(br_hf_bert_config config, bool pooler);
/* Gives a weight its first value, by a br_hf_bert_config. */
bool br__hf_bert_init(const void *config, const char *key, br_tensor *weight);
/* Hands what a forward gave by its options from the innermost scope to the one outside. */
void br__hf_bert_hand_out(const br_hf_bert *self, const br_hf_bert_options *options);

#endif
