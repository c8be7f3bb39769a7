/* models/mistral_family.c - the family of Mistral, whose layers all have a window in some versions.
 */
#include "models/llama_internal.h"

static const br_config_default defaults[] = {
    ZOO_LLAMA_DEFAULTS("32000", "4096", "14336", "32", "32", "131072", "null", "1", "2"),
    { "num_key_value_heads", "8" },
    { "head_dim", "null" },
    { "hidden_act", "\"silu\"" },
    { "sliding_window", "4096" },
    { "attention_dropout", "0.0" },
    { "tie_word_embeddings", "false" },
    { NULL, NULL },
};

static const br_model_class classes[] = {
    ZOO_LLAMA_CLASSES("Mistral"),
    { .name = NULL },
};

const br_model_family zoo_mistral_family = ZOO_LLAMA_FAMILY("mistral", defaults, classes, NULL);
