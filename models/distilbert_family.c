/* models/distilbert_family.c - the family of DistilBERT: a BERT without token types and pooler,
 * whose keys have other names. */
#include "models/hf_bert_internal.h"

/* ---- config.json ----------------------------------------------------------------------------- */

static const br_config_default defaults[] = {
    { "vocab_size", "30522" },
    { "max_position_embeddings", "512" },
    { "n_layers", "6" },
    { "n_heads", "12" },
    { "dim", "768" },
    { "hidden_dim", "3072" },
    { "dropout", "0.1" },
    { "attention_dropout", "0.1" },
    { "activation", "\"gelu\"" },
    { "initializer_range", "0.02" },
    { "qa_dropout", "0.1" },
    { "seq_classif_dropout", "0.2" },
    { "pad_token_id", "0" },
    { "bos_token_id", "null" },
    { "eos_token_id", "null" },
    { "tie_word_embeddings", "true" },
    { "sinusoidal_pos_embds", "false" },
    { NULL, NULL },
};

static const br_config_alias aliases[] = {
    { "hidden_size", "dim" },
    { "num_attention_heads", "n_heads" },
    { "num_hidden_layers", "n_layers" },
    { NULL, NULL },
};

static const br_config_limit limits[] = {
    { "is_encoder_decoder", "false", false },
    { NULL, NULL, false },
};

/* In the oldest files; no code has read it. */
static const char *const harmless[] = { "tie_weights_", NULL };

/* ---- Classes and weights --------------------------------------------------------------------- */

static const br_model_class classes[] = {
    ZOO_BERT_BASE("DistilBertModel"),
    ZOO_BERT_HEADS("DistilBert"),
    { .name = NULL },
};

/* "attention.output" is after "output": saving undoes the renames from the last to the first. */
static const br_key_rename renames[] = {
    { "transformer.layer", "encoder.layer", false },
    { "ffn.lin1", "intermediate.dense", false },
    { "ffn.lin2", "output.dense", false },
    { "output_layer_norm", "output.LayerNorm", false },
    { "attention.q_lin", "attention.self.query", false },
    { "attention.k_lin", "attention.self.key", false },
    { "attention.v_lin", "attention.self.value", false },
    { "attention.out_lin", "attention.output.dense", false },
    { "sa_layer_norm", "attention.output.LayerNorm", false },
    { "vocab_transform", "cls.predictions.transform.dense", false },
    { "vocab_layer_norm", "cls.predictions.transform.LayerNorm", false },
    { "vocab_projector", "cls.predictions.decoder", false },
    { NULL, NULL, false },
};

/* ---- The family ------------------------------------------------------------------------------ */

const br_model_family zoo_distilbert_family = {
    .model_type = "distilbert",
    .config = { .defaults = defaults, .aliases = aliases, .limits = limits, .harmless = harmless },
    .classes = classes,
    .packs = true,
    .tokenizer_class = "BertTokenizer",
    .keys = { .prefix = "distilbert.", .renames = renames, .ignored = zoo_bert_ignored },
    .heads = zoo_bert_heads,
    .init = zoo_bert_init_weight,
    .layers = zoo_bert_layers,
    .rows = zoo_bert_rows,
    .differing_key = zoo_bert_differing_key,
};
