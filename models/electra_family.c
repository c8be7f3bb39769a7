/* models/electra_family.c - the family of ELECTRA: a BERT whose embeddings may be narrower than its
 * layers, with a generator of tokens or a discriminator of replaced tokens. */
#include "models/hf_bert_internal.h"

/* ---- config.json ----------------------------------------------------------------------------- */

static const br_config_default defaults[] = {
    { "vocab_size", "30522" },
    { "embedding_size", "128" },
    { "hidden_size", "256" },
    { "num_hidden_layers", "12" },
    { "num_attention_heads", "4" },
    { "intermediate_size", "1024" },
    { "hidden_act", "\"gelu\"" },
    { "hidden_dropout_prob", "0.1" },
    { "attention_probs_dropout_prob", "0.1" },
    { "max_position_embeddings", "512" },
    { "type_vocab_size", "2" },
    { "initializer_range", "0.02" },
    { "layer_norm_eps", "1e-12" },
    { "summary_type", "\"first\"" },
    { "summary_use_proj", "true" },
    { "summary_activation", "\"gelu\"" },
    { "summary_last_dropout", "0.1" },
    { "pad_token_id", "0" },
    { "bos_token_id", "null" },
    { "eos_token_id", "null" },
    { "classifier_dropout", "null" },
    { "use_cache", "true" },
    { "is_decoder", "false" },
    { "add_cross_attention", "false" },
    { "tie_word_embeddings", "true" },
    { NULL, NULL },
};

static const br_config_limit limits[] = {
    { "is_decoder", "false", true },
    { "add_cross_attention", "false", true },
    { "is_encoder_decoder", "false", false },
    { "position_embedding_type", "\"absolute\"", false },
    { NULL, NULL, false },
};

/* ---- Classes and weights --------------------------------------------------------------------- */

static const br_model_class classes[] = {
    ZOO_BERT_BASE("ElectraModel"),
    { .name = "ElectraForPreTraining",
      .make = zoo_bert_make_discriminator,
      .forward = zoo_bert_run_classifier },
    ZOO_BERT_HEADS("Electra"),
    { .name = NULL },
};

static const br_key_rename renames[] = {
    { "generator_predictions.dense", "cls.predictions.transform.dense", false },
    { "generator_predictions.LayerNorm", "cls.predictions.transform.LayerNorm", false },
    { "generator_lm_head", "cls.predictions.decoder", false },
    { NULL, NULL, false },
};

/* ---- The family ------------------------------------------------------------------------------ */

const br_model_family zoo_electra_family = {
    .model_type = "electra",
    .config = { .defaults = defaults, .limits = limits },
    .classes = classes,
    .packs = true,
    .tokenizer_class = "BertTokenizer",
    .keys = { .prefix = "electra.", .renames = renames, .ignored = zoo_bert_ignored },
    .heads = zoo_bert_heads,
    .init = zoo_bert_init_weight,
    .layers = zoo_bert_layers,
    .rows = zoo_bert_rows,
    .differing_key = zoo_bert_differing_key,
};
