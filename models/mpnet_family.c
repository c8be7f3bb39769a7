/* models/mpnet_family.c - the family of MPNet: a RoBERTa without token types whose layers share a
 * bias of relative positions. */
#include "models/hf_bert_internal.h"

/* ---- config.json ----------------------------------------------------------------------------- */

static const br_config_default defaults[] = {
    { "vocab_size", "30527" },
    { "hidden_size", "768" },
    { "num_hidden_layers", "12" },
    { "num_attention_heads", "12" },
    { "intermediate_size", "3072" },
    { "hidden_act", "\"gelu\"" },
    { "hidden_dropout_prob", "0.1" },
    { "attention_probs_dropout_prob", "0.1" },
    { "max_position_embeddings", "512" },
    { "initializer_range", "0.02" },
    { "layer_norm_eps", "1e-12" },
    { "relative_attention_num_buckets", "32" },
    { "pad_token_id", "1" },
    { "bos_token_id", "0" },
    { "eos_token_id", "2" },
    { "tie_word_embeddings", "true" },
    { NULL, NULL },
};

static const br_config_limit limits[] = {
    { "is_encoder_decoder", "false", false },
    { NULL, NULL, false },
};

/* ---- Classes and weights --------------------------------------------------------------------- */

static const br_model_class classes[] = {
    ZOO_BERT_BASE("MPNetModel"),
    ZOO_BERT_HEADS("MPNet"),
    { .name = NULL },
};

static const br_key_rename renames[] = {
    { "attention.attn.q", "attention.self.query", false },
    { "attention.attn.k", "attention.self.key", false },
    { "attention.attn.v", "attention.self.value", false },
    { "attention.attn.o", "attention.output.dense", false },
    { "attention.LayerNorm", "attention.output.LayerNorm", false },
    ZOO_BERT_LM_HEAD,
    { NULL, NULL, false },
};

/* ---- The family ------------------------------------------------------------------------------ */

const br_model_family zoo_mpnet_family = {
    .model_type = "mpnet",
    .config = { .defaults = defaults, .limits = limits },
    .classes = classes,
    .tokenizer_class = "MPNetTokenizer",
    .max_tokens = zoo_bert_max_tokens,
    .keys = { .prefix = "mpnet.", .renames = renames, .ignored = zoo_bert_ignored },
    .heads = zoo_bert_heads,
    .pooler = "pooler.",
    .packs = true,
    .init = zoo_bert_init_weight,
    .layers = zoo_bert_layers,
    .rows = zoo_bert_rows,
    .differing_key = zoo_bert_differing_key,
};
