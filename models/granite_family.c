/* models/granite_family.c - the family of Granite 3: Llama with factors of scores, embeddings, the
 * parts of layers, and logits. */
#include "models/llama_gguf.h"
#include "models/llama_internal.h"

static const br_config_default defaults[] = {
    ZOO_LLAMA_DEFAULTS("32000", "4096", "11008", "32", "32", "2048", "null", "1", "2"),
    { "num_key_value_heads", "|=num_attention_heads" },
    { "hidden_act", "\"silu\"" },
    { "attention_bias", "false" },
    { "mlp_bias", "false" },
    { "embedding_multiplier", "1.0" },
    { "logits_scaling", "1.0" },
    { "residual_multiplier", "1.0" },
    { "attention_multiplier", "1.0" },
    { "attention_dropout", "0.0" },
    { "tie_word_embeddings", "false" },
    { NULL, NULL },
};

static const br_model_class classes[] = {
    ZOO_LLAMA_BASE("GraniteModel"), /* transformers has no classifier */
    ZOO_LLAMA_LM("GraniteForCausalLM"),
    { .name = NULL },
};

/* The converter of llama.cpp writes all four factors. */
#define FACTOR(key, config_key)                                                           \
    {                                                                                     \
        .name = key, .config = config_key, .type = BR_GGUF_NEEDS_NUMBER, .required = true \
    }
static const br_gguf_key gguf_keys[] = {
    ZOO_GGUF_KEYS,
    ZOO_GGUF_INTEGER("attention.head_count_kv", "num_key_value_heads"),
    ZOO_GGUF_INTEGER("attention.key_length", NULL),
    FACTOR("attention.scale", "attention_multiplier"),
    FACTOR("embedding_scale", "embedding_multiplier"),
    FACTOR("residual_scale", "residual_multiplier"),
    FACTOR("logit_scale", "logits_scaling"),
    { .name = NULL },
};

static const br_gguf_format gguf = {
    .architecture = "granite",
    .keys = gguf_keys,
    .flags = zoo_llama_flags,
    .names = { .prefix = "model.", .renames = zoo_llama_renames, .ignored = zoo_gguf_ignored },
    .changes = zoo_llama_changes,
    .more = zoo_gguf_more,
};

const br_model_family zoo_granite_family = ZOO_LLAMA_FAMILY("granite", defaults, classes, &gguf);
