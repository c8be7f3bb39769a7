/* models/llama_family.c - the family of Llama 2 and 3, and of SmolLM2. */
#include "models/llama_gguf.h"
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

static const br_gguf_key gguf_keys[] = {
    ZOO_GGUF_KEYS,
    ZOO_GGUF_INTEGER("attention.head_count_kv", "num_key_value_heads"),
    ZOO_GGUF_INTEGER("attention.key_length", "head_dim"),
    { .name = NULL },
};

static const br_gguf_format gguf = {
    .architecture = "llama",
    .keys = gguf_keys,
    .flags = zoo_llama_flags,
    .names = { .prefix = "model.", .renames = zoo_llama_renames, .ignored = zoo_gguf_ignored },
    .changes = zoo_llama_changes,
    .more = zoo_gguf_more,
};

const br_model_family zoo_llama_family = ZOO_LLAMA_FAMILY("llama", defaults, classes, &gguf);
