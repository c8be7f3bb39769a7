/* models/gemma2_family.c - the family of Gemma 2: norms before and after each part, softcaps, and a
 * window in every other layer. */
#include "models/llama_gguf.h"
#include "models/llama_internal.h"

static const br_config_default defaults[] = {
    ZOO_LLAMA_DEFAULTS("256000", "2304", "9216", "26", "8", "8192", "0", "2", "1"),
    { "num_key_value_heads", "4" },
    { "head_dim", "256" },
    { "hidden_activation", "\"gelu_pytorch_tanh\"" },
    { "attention_bias", "false" },
    { "query_pre_attn_scalar", "256" },
    { "sliding_window", "4096" },
    { "layer_types", "null" },
    { "final_logit_softcapping", "30.0" },
    { "attn_logit_softcapping", "50.0" },
    { "use_bidirectional_attention", "null" },
    { "attention_dropout", "|0.0" },
    { "tie_word_embeddings", "true" },
    { NULL, NULL },
};

static const br_model_class classes[] = {
    ZOO_LLAMA_CLASSES("Gemma2"),
    { .name = NULL },
};

static const br_gguf_key gguf_keys[] = {
    ZOO_GGUF_KEYS,
    ZOO_GGUF_REQUIRED("attention.head_count_kv", "num_key_value_heads"),
    ZOO_GGUF_REQUIRED("attention.key_length", "head_dim"),
    ZOO_GGUF_REQUIRED("attention.sliding_window", "sliding_window"),
    ZOO_GGUF_NUMBER("attn_logit_softcapping", "attn_logit_softcapping"),
    ZOO_GGUF_NUMBER("final_logit_softcapping", "final_logit_softcapping"),
    { .name = NULL },
};

static const br_gguf_format gguf = {
    .architecture = "gemma2",
    .keys = gguf_keys,
    .names = { .prefix = "model.", .renames = zoo_gemma_renames, .ignored = zoo_gguf_ignored },
    .changes = zoo_gemma_changes,
    .more = zoo_gemma_gguf_more,
};

const br_model_family zoo_gemma2_family = ZOO_LLAMA_FAMILY("gemma2", defaults, classes, &gguf);
