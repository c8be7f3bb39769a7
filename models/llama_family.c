/* models/llama_family.c - the family of Llama 2 and 3, and of SmolLM2. */
#include "models/llama_internal.h"

static const br_config_default defaults[] = {
    ZOO_LLAMA_DEFAULTS("32000", "4096", "11008", "32", "32", "2048", "null", "1", "2"),
    { "num_key_value_heads", "|=num_attention_heads" },
    { "head_dim", "null" },
    { "hidden_act", "\"silu\"" },
    { "attention_bias", "false" },
    { "mlp_bias", "false" },
    { "pretraining_tp", "1" },
    { "attention_dropout", "|0.0" },
    { "tie_word_embeddings", "false" },
    { NULL, NULL },
};

static const br_model_class classes[] = {
    ZOO_LLAMA_CLASSES("Llama"),
    { .name = NULL },
};

const br_model_family zoo_llama_family = ZOO_LLAMA_FAMILY("llama", defaults, classes);
