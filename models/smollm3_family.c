/* models/smollm3_family.c - the family of SmolLM3: every fourth layer has no positions. */
#include "models/llama_gguf.h"
#include "models/llama_internal.h"

static const br_config_default defaults[] = {
    ZOO_LLAMA_DEFAULTS("128256", "2048", "11008", "36", "16", "32768", "128004", "128000",
                       "128001"),
    { "num_key_value_heads", "4" },
    { "hidden_act", "\"silu\"" },
    { "use_sliding_window", "false" },
    { "sliding_window", "null" },
    { "no_rope_layers", "null" },
    { "no_rope_layer_interval", "4" },
    { "layer_types", "null" },
    { "attention_bias", "false" },
    { "mlp_bias", "false" },
    { "attention_dropout", "0.0" },
    { "tie_word_embeddings", "true" },
    { NULL, NULL },
};

static const br_model_class classes[] = {
    ZOO_LLAMA_CLASSES("SmolLM3"),
    { .name = NULL },
};

static const br_gguf_key gguf_keys[] = {
    ZOO_GGUF_KEYS,
    ZOO_GGUF_REQUIRED("attention.head_count_kv", "num_key_value_heads"),
    { .name = NULL },
};

static const br_gguf_format gguf = {
    .architecture = "smollm3",
    .keys = gguf_keys,
    .flags = zoo_llama_flags,
    .names = { .prefix = "model.", .renames = zoo_llama_renames, .ignored = zoo_gguf_ignored },
    .changes = zoo_llama_changes,
    .more = zoo_gguf_more,
};

const br_model_family zoo_smollm3_family = ZOO_LLAMA_FAMILY("smollm3", defaults, classes, &gguf);
