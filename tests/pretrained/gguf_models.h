/* tests/pretrained/gguf_models.h - the models of test_gguf_model.c: their keys in config.json and
 * in the metadata of a GGUF file. */
#ifndef BR_TESTS_PRETRAINED_GGUF_MODELS_H
#define BR_TESTS_PRETRAINED_GGUF_MODELS_H

#include <stdbool.h>
#include <stddef.h>

typedef struct key {
    const char *name;
    char type; /* u: uint32, f: float32, b: bool, s: string in `text` */
    double value;
    const char *text;
} key;

/* What distinguishes a model. All have the sizes of `sizes`. */
typedef struct model {
    const char *architecture, *class;
    const char *config; /* keys of config.json, beside those of `sizes` */
    key keys[10];       /* the same as metadata; the last has no name */
    bool is_llama;      /* queries and keys are interleaved */
    bool is_gemma;      /* norms have weight + 1, and there are four */
    bool rope_freqs;    /* has Llama 3.1's positions */
    bool factors;       /* has the positions of longrope */
} model;

static const char sizes[] =
    "\"vocab_size\": 19, \"hidden_size\": 16, \"intermediate_size\": 24, \"num_hidden_layers\": 7, "
    "\"num_attention_heads\": 4, \"num_key_value_heads\": 2, \"max_position_embeddings\": 64, "
    "\"rms_norm_eps\": 0.0009765625, \"pad_token_id\": null, \"bos_token_id\": 1, "
    "\"eos_token_id\": 2";

static const key size_keys[] = {
    { "context_length", 'u', 64, NULL },
    { "embedding_length", 'u', 16, NULL },
    { "block_count", 'u', 7, NULL },
    { "feed_forward_length", 'u', 24, NULL },
    { "attention.head_count", 'u', 4, NULL },
    { "attention.head_count_kv", 'u', 2, NULL },
    { "attention.layer_norm_rms_epsilon", 'f', 0.0009765625, NULL },
    { NULL, 0, 0, NULL },
};

/* Tests name the first rows and the last one by their numbers: add a row before the last. */
static const model models[] = {
    {
        .architecture = "llama",
        .class = "LlamaForCausalLM",
        .config = "\"model_type\": \"llama\", \"rope_theta\": 500.0, \"head_dim\": 8, "
                  "\"attention_bias\": true, \"mlp_bias\": true, \"rope_scaling\": {\"type\": "
                  "\"yarn\", \"factor\": 3.0, \"original_max_position_embeddings\": 20, "
                  "\"beta_fast\": 3.0, \"beta_slow\": 0.25}",
        .keys = { { "rope.freq_base", 'f', 500, NULL },
                  { "rope.scaling.type", 's', 0, "yarn" },
                  { "rope.scaling.factor", 'f', 3, NULL },
                  { "rope.scaling.original_context_length", 'u', 20, NULL },
                  { "rope.scaling.yarn_beta_fast", 'f', 3, NULL },
                  { "rope.scaling.yarn_beta_slow", 'f', 0.25, NULL },
                  { "rope.dimension_count", 'u', 8, NULL },
                  { "attention.key_length", 'u', 8, NULL },
                  { "attention.value_length", 'u', 8, NULL } },
        .is_llama = true,
    },
    {
        .architecture = "llama",
        .class = "LlamaForCausalLM",
        .config = "\"model_type\": \"llama\", \"rope_theta\": 500000.0, \"head_dim\": 64, "
                  "\"rope_scaling\": {\"rope_type\": \"llama3\", \"factor\": 8.0, "
                  "\"low_freq_factor\": 1.0, \"high_freq_factor\": 4.0, "
                  "\"original_max_position_embeddings\": 8192}, \"tie_word_embeddings\": true",
        .keys = { { "rope.freq_base", 'f', 500000, NULL },
                  { "rope.scaling.type", 's', 0, "none" },
                  { "attention.key_length", 'u', 64, NULL } },
        .is_llama = true,
        .rope_freqs = true,
    },
    {
        .architecture = "smollm3",
        .class = "SmolLM3ForCausalLM",
        .config = "\"model_type\": \"smollm3\", \"rope_theta\": 5000.0, "
                  "\"tie_word_embeddings\": true",
        .keys = { { "rope.freq_base", 'f', 5000, NULL } },
        .is_llama = true,
    },
    {
        .architecture = "qwen2",
        .class = "Qwen2ForCausalLM",
        .config = "\"model_type\": \"qwen2\", \"rope_theta\": 50.0, \"rope_scaling\": {\"type\": "
                  "\"linear\", \"factor\": 2.5}",
        .keys = { { "rope.freq_base", 'f', 50, NULL },
                  { "rope.scaling.type", 's', 0, "linear" },
                  { "rope.scaling.factor", 'f', 2.5, NULL } },
    },
    {
        .architecture = "qwen3",
        .class = "Qwen3ForCausalLM",
        .config = "\"model_type\": \"qwen3\", \"rope_theta\": 1000000.0, \"head_dim\": 6, "
                  "\"tie_word_embeddings\": true",
        .keys = { { "rope.freq_base", 'f', 1000000, NULL },
                  { "attention.key_length", 'u', 6, NULL },
                  { "attention.value_length", 'u', 6, NULL } },
    },
    {
        .architecture = "gemma2",
        .class = "Gemma2ForCausalLM",
        .config = "\"model_type\": \"gemma2\", \"head_dim\": 6, \"query_pre_attn_scalar\": 6, "
                  "\"sliding_window\": 3, \"attn_logit_softcapping\": 1.5, "
                  "\"final_logit_softcapping\": 2.0, \"tie_word_embeddings\": true",
        .keys = { { "attention.key_length", 'u', 6, NULL },
                  { "attention.sliding_window", 'u', 3, NULL },
                  { "attn_logit_softcapping", 'f', 1.5, NULL },
                  { "final_logit_softcapping", 'f', 2, NULL } },
        .is_gemma = true,
    },
    {
        .architecture = "gemma3",
        .class = "Gemma3ForCausalLM",
        .config = "\"model_type\": \"gemma3_text\", \"head_dim\": 6, \"query_pre_attn_scalar\": 6, "
                  "\"sliding_window\": 3, \"rope_theta\": 500000.0, \"rope_scaling\": "
                  "{\"rope_type\": \"linear\", \"factor\": 8.0}, \"tie_word_embeddings\": true",
        .keys = { { "attention.key_length", 'u', 6, NULL },
                  { "attention.sliding_window", 'u', 3, NULL },
                  { "rope.freq_base", 'f', 500000, NULL },
                  { "rope.scaling.type", 's', 0, "linear" },
                  { "rope.scaling.factor", 'f', 8, NULL } },
        .is_gemma = true,
    },
    {
        .architecture = "gemma3",
        .class = "Gemma3ForCausalLM",
        .config = "\"model_type\": \"gemma3_text\", \"head_dim\": 6, \"query_pre_attn_scalar\": 6, "
                  "\"sliding_window\": 3, \"rope_theta\": 50.0, \"rope_local_base_freq\": 20.0, "
                  "\"sliding_window_pattern\": 3, \"tie_word_embeddings\": false",
        .keys = { { "attention.key_length", 'u', 6, NULL },
                  { "attention.sliding_window", 'u', 3, NULL },
                  { "attention.sliding_window_pattern", 'u', 3, NULL },
                  { "rope.freq_base", 'f', 50, NULL },
                  { "rope.freq_base_swa", 'f', 20, NULL } },
        .is_gemma = true,
    },
    {
        .architecture = "phi3",
        .class = "Phi3ForCausalLM",
        .config = "\"model_type\": \"phi3\", \"rope_theta\": 50.0, \"sliding_window\": 3, "
                  "\"partial_rotary_factor\": 0.5",
        .keys = { { "rope.freq_base", 'f', 50, NULL },
                  { "rope.dimension_count", 'u', 2, NULL },
                  { "attention.sliding_window", 'u', 3, NULL } },
    },
    {
        .architecture = "granite",
        .class = "GraniteForCausalLM",
        .config = "\"model_type\": \"granite\", \"rope_theta\": 5000.0, \"attention_bias\": true, "
                  "\"attention_multiplier\": 0.25, \"embedding_multiplier\": 12.0, "
                  "\"residual_multiplier\": 0.375, \"logits_scaling\": 8.0",
        .keys = { { "rope.freq_base", 'f', 5000, NULL },
                  { "attention.scale", 'f', 0.25, NULL },
                  { "embedding_scale", 'f', 12, NULL },
                  { "residual_scale", 'f', 0.375, NULL },
                  { "logit_scale", 'f', 8, NULL } },
        .is_llama = true,
    },
    {
        .architecture = "phi3",
        .class = "Phi3ForCausalLM",
        .config = "\"model_type\": \"phi3\", \"original_max_position_embeddings\": 6, "
                  "\"rope_scaling\": {\"type\": \"longrope\", \"short_factor\": [1, 1.5], "
                  "\"long_factor\": [2, 2.5], \"attention_factor\": 1.25}",
        .keys = { { "rope.scaling.original_context_length", 'u', 6, NULL },
                  { "rope.dimension_count", 'u', 4, NULL },
                  { "attention.sliding_window", 'u', 0, NULL },
                  { "rope.scaling.attn_factor", 'f', 1.25, NULL } },
        .factors = true,
    },
};
enum { N_MODELS = sizeof models / sizeof *models };

#endif
