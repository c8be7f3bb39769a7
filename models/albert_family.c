/* models/albert_family.c - the family of ALBERT: a BERT whose layers share their weights in groups,
 * and whose embeddings may be narrower than its layers. */
#include "models/hf_bert_internal.h"

/* ---- config.json ----------------------------------------------------------------------------- */

static const br_config_default defaults[] = {
    { "vocab_size", "30000" },
    { "embedding_size", "128" },
    { "hidden_size", "4096" },
    { "num_hidden_layers", "12" },
    { "num_hidden_groups", "1" },
    { "num_attention_heads", "64" },
    { "intermediate_size", "16384" },
    { "inner_group_num", "1" },
    { "hidden_act", "\"gelu_new\"" },
    { "hidden_dropout_prob", "0" },
    { "attention_probs_dropout_prob", "0" },
    { "max_position_embeddings", "512" },
    { "type_vocab_size", "2" },
    { "initializer_range", "0.02" },
    { "layer_norm_eps", "1e-12" },
    { "classifier_dropout_prob", "0.1" },
    { "pad_token_id", "0" },
    { "bos_token_id", "2" },
    { "eos_token_id", "3" },
    { "tie_word_embeddings", "true" },
    { NULL, NULL },
};

static const br_config_limit limits[] = {
    { "is_encoder_decoder", "false", false },
    { "position_embedding_type", "\"absolute\"", false },
    { NULL, NULL, false },
};

/* In the oldest files; no code has read them. */
static const char *const harmless[] = {
    "down_scale_factor",  "gap_size",          "layers_to_keep",
    "net_structure_type", "num_memory_blocks", NULL,
};

/* ---- Classes and weights --------------------------------------------------------------------- */

static const br_model_class classes[] = {
    ZOO_BERT_BASE("AlbertModel"),
    { .name = "AlbertForPreTraining", .make = zoo_bert_make_pretraining },
    ZOO_BERT_HEADS("Albert"),
    { .name = NULL },
};

/* "attention.output" is after "output": saving undoes the renames from the last to the first. */
static const br_key_rename renames[] = {
    { "encoder.embedding_hidden_mapping_in", "embeddings_project", false },
    { "ffn", "intermediate.dense", false },
    { "ffn_output", "output.dense", false },
    { "full_layer_layer_norm", "output.LayerNorm", false },
    { "attention.query", "attention.self.query", false },
    { "attention.key", "attention.self.key", false },
    { "attention.value", "attention.self.value", false },
    { "attention.dense", "attention.output.dense", false },
    { "attention.LayerNorm", "attention.output.LayerNorm", false },
    { "pooler", "pooler.dense", false },
    { "predictions.dense", "cls.predictions.transform.dense", false },
    { "predictions.LayerNorm", "cls.predictions.transform.LayerNorm", false },
    { "predictions.decoder", "cls.predictions.decoder", false },
    { "predictions.bias", "cls.predictions.bias", false },
    { "sop_classifier.classifier", "cls.seq_relationship", false },
    { NULL, NULL, false },
};
static const char *const layers[] = { "num_hidden_groups", "inner_group_num", NULL };

/* ---- The family ------------------------------------------------------------------------------ */

const br_model_family zoo_albert_family = {
    .model_type = "albert",
    .config = { .defaults = defaults, .limits = limits, .harmless = harmless },
    .classes = classes,
    .packs = true,
    .tokenizer_class = "AlbertTokenizer",
    .keys = { .prefix = "albert.", .renames = renames, .ignored = zoo_bert_ignored },
    .heads = zoo_bert_heads,
    .pooler = "pooler.",
    .init = zoo_bert_init_weight,
    .layers = layers,
    .rows = zoo_bert_rows,
    .differing_key = zoo_bert_differing_key,
};
