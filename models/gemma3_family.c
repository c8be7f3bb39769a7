/* models/gemma3_family.c - the family of the texts of Gemma 3: Gemma 2 with normalized queries and
 * keys, a window in five of six layers, and other positions there. */
#include "models/llama_gguf.h"
#include "models/llama_internal.h"

static const br_config_default defaults[] = {
    ZOO_LLAMA_DEFAULTS("262208", "2304", "9216", "26", "8", "131072", "0", "2", "1"),
    { "num_key_value_heads", "4" },
    { "head_dim", "256" },
    { "hidden_activation", "\"gelu_pytorch_tanh\"" },
    { "attention_bias", "false" },
    { "query_pre_attn_scalar", "256" },
    { "sliding_window", "4096" },
    { "layer_types", "null" },
    { "final_logit_softcapping", "null" },
    { "attn_logit_softcapping", "null" },
    { "use_bidirectional_attention", "|false" },
    { "attention_dropout", "|0.0" },
    { "tie_word_embeddings", "true" },
    { NULL, NULL },
};

static const br_model_class classes[] = {
    ZOO_LLAMA_BASE("Gemma3TextModel"),
    ZOO_LLAMA_LM("Gemma3ForCausalLM"),
    ZOO_LLAMA_CLASSIFIER("Gemma3TextForSequenceClassification"),
    { .name = NULL },
};

static const br_gguf_key gguf_keys[] = {
    ZOO_GGUF_KEYS,
    ZOO_GGUF_REQUIRED("attention.head_count_kv", "num_key_value_heads"),
    ZOO_GGUF_REQUIRED("attention.key_length", "head_dim"),
    ZOO_GGUF_REQUIRED("attention.sliding_window", "sliding_window"),
    ZOO_GGUF_INTEGER("attention.sliding_window_pattern", "sliding_window_pattern"),
    ZOO_GGUF_NUMBER("rope.freq_base_swa", "rope_local_base_freq"),
    ZOO_GGUF_NUMBER("final_logit_softcapping", "final_logit_softcapping"),
    { .name = NULL },
};

static const br_gguf_format gguf = {
    .architecture = "gemma3",
    .keys = gguf_keys,
    .names = { .prefix = "model.", .renames = zoo_gemma_renames, .ignored = zoo_gguf_ignored },
    .changes = zoo_gemma_changes,
    .more = zoo_gemma_gguf_more,
};

const br_model_family zoo_gemma3_family = ZOO_LLAMA_FAMILY_WITH(
    "gemma3_text", classes, &gguf, .defaults = defaults, .limits = zoo_gemma3_limits);
