/* models/qwen3_family.c - the family of Qwen3, which normalizes queries and keys. */
#include "models/llama_gguf.h"
#include "models/llama_internal.h"

static const br_config_default defaults[] = {
    ZOO_LLAMA_DEFAULTS("151936", "4096", "22016", "32", "32", "32768", "null", "null", "null"),
    { "num_key_value_heads", "32" },
    { "hidden_act", "\"silu\"" },
    { "use_sliding_window", "false" },
    { "sliding_window", "4096" },
    { "max_window_layers", "28" },
    { "layer_types", "null" },
    { "attention_dropout", "0.0" },
    { "tie_word_embeddings", "false" },
    { "head_dim", "128" },
    { "attention_bias", "false" },
    { NULL, NULL },
};

static const br_model_class classes[] = {
    ZOO_LLAMA_CLASSES("Qwen3"),
    { .name = NULL },
};

static const br_gguf_key gguf_keys[] = {
    ZOO_GGUF_KEYS,
    ZOO_GGUF_REQUIRED("attention.head_count_kv", "num_key_value_heads"),
    ZOO_GGUF_REQUIRED("attention.key_length", "head_dim"),
    { .name = NULL },
};

static const br_gguf_format gguf = {
    .architecture = "qwen3",
    .keys = gguf_keys,
    .flags = zoo_qwen3_flags,
    .names = { .prefix = "model.", .renames = zoo_llama_renames, .ignored = zoo_gguf_ignored },
    .more = zoo_gguf_more,
};

const br_model_family zoo_qwen3_family = ZOO_LLAMA_FAMILY("qwen3", defaults, classes, &gguf);
