/* pretrained/auto_config_types.c - for each model type: transformers' defaults of keys, synonyms of
 * keys, limits, and harmless keys. tests/pretrained/auto_config_defaults.json has the defaults and
 * synonyms from transformers itself. */
#include "pretrained/auto_config_internal.h"

#include <string.h>

/* ---- Every type ------------------------------------------------------------------------------ */

const br_config_default br__config_defaults[] = {
    { "architectures", "null" },
    { "is_encoder_decoder", "false" },
    { "chunk_size_feed_forward", "0" },
    { "output_hidden_states", "false" },
    { "output_attentions", "false" },
    { "problem_type", "null" },
    { "num_labels", "2" },
    { "id2label", "null" },
    { NULL, NULL },
};

const br_config_limit br__config_limits[] = {
    { "pruned_heads", "{}", false },
    { "tie_encoder_decoder", "false", false },
    { "quantization_config", "null", false },
    { "per_layer_config", "null", false },
    { NULL, NULL, false },
};

const char *const br__config_harmless[] = {
    /* the origin of a file */
    "model_type",
    "transformers_version",
    "_name_or_path",
    "name_or_path",
    "_commit_hash",
    "_num_labels",
    "label2id",
    "finetuning_task",
    "task_specific_params",
    "prefix",
    "tokenizer_class",
    "sep_token_id",
    /* how transformers computes, and what it returns */
    "dtype",
    "torch_dtype",
    "return_dict",
    "torchscript",
    "use_bfloat16",
    "tf_legacy_loss",
    "gradient_checkpointing",
    "attn_implementation",
    "_attn_implementation_autoset",
    "experts_implementation",
    "cross_attention_hidden_size",
    "output_past",
    /* generation: the models do not read these, but generation_config.c does */
    "assistant_confidence_threshold",
    "assistant_lookbehind",
    "bad_words_ids",
    "begin_suppress_tokens",
    "diversity_penalty",
    "do_sample",
    "early_stopping",
    "encoder_no_repeat_ngram_size",
    "encoder_repetition_penalty",
    "epsilon_cutoff",
    "eta_cutoff",
    "exponential_decay_length_penalty",
    "forced_bos_token_id",
    "forced_eos_token_id",
    "length_penalty",
    "max_length",
    "max_new_tokens",
    "min_length",
    "min_new_tokens",
    "min_p",
    "no_repeat_ngram_size",
    "num_assistant_tokens",
    "num_assistant_tokens_schedule",
    "num_beam_groups",
    "num_beams",
    "num_return_sequences",
    "output_scores",
    "remove_invalid_values",
    "repetition_penalty",
    "return_dict_in_generate",
    "suppress_tokens",
    "target_lookbehind",
    "temperature",
    "top_k",
    "top_p",
    "typical_p",
    NULL,
};

/* ---- bert ------------------------------------------------------------------------------------ */

static const br_config_default bert_defaults[] = {
    { "vocab_size", "30522" },
    { "hidden_size", "768" },
    { "num_hidden_layers", "12" },
    { "num_attention_heads", "12" },
    { "intermediate_size", "3072" },
    { "hidden_act", "\"gelu\"" },
    { "hidden_dropout_prob", "0.1" },
    { "attention_probs_dropout_prob", "0.1" },
    { "max_position_embeddings", "512" },
    { "type_vocab_size", "2" },
    { "initializer_range", "0.02" },
    { "layer_norm_eps", "1e-12" },
    { "pad_token_id", "0" },
    { "bos_token_id", "null" },
    { "eos_token_id", "null" },
    { "classifier_dropout", "null" },
    { "use_cache", "true" },
    { "is_decoder", "false" },
    { "add_cross_attention", "false" },
    { "tie_word_embeddings", "true" },
    { NULL, NULL },
};

static const br_config_limit bert_limits[] = {
    { "is_decoder", "false", true },
    { "add_cross_attention", "false", true },
    { "is_encoder_decoder", "false", false },
    { "position_embedding_type", "\"absolute\"", false },
    { NULL, NULL, false },
};

/* The pooler's keys are in multilingual BERT's file, and no code has ever read them. */
static const char *const bert_harmless[] = {
    "directionality",
    "pooler_fc_size",
    "pooler_num_attention_heads",
    "pooler_num_fc_layers",
    "pooler_size_per_head",
    "pooler_type",
    NULL,
};

/* ---- gpt2 ------------------------------------------------------------------------------------ */

static const br_config_default gpt2_defaults[] = {
    { "vocab_size", "50257" },
    { "n_positions", "1024" },
    { "n_embd", "768" },
    { "n_layer", "12" },
    { "n_head", "12" },
    { "n_inner", "null" },
    { "activation_function", "\"gelu_new\"" },
    { "resid_pdrop", "0.1" },
    { "embd_pdrop", "0.1" },
    { "attn_pdrop", "0.1" },
    { "layer_norm_epsilon", "1e-5" },
    { "initializer_range", "0.02" },
    { "summary_type", "\"cls_index\"" },
    { "summary_use_proj", "true" },
    { "summary_activation", "null" },
    { "summary_proj_to_labels", "true" },
    { "summary_first_dropout", "0.1" },
    { "scale_attn_weights", "true" },
    { "scale_attn_by_inverse_layer_idx", "false" },
    { "reorder_and_upcast_attn", "false" },
    { "bos_token_id", "50256" },
    { "eos_token_id", "50256" },
    { "pad_token_id", "null" },
    { "use_cache", "true" },
    { "add_cross_attention", "false" },
    { "tie_word_embeddings", "true" },
    { NULL, NULL },
};

static const br_config_limit gpt2_limits[] = {
    { "add_cross_attention", "false", true },
    { "is_encoder_decoder", "false", false },
    { NULL, NULL, false },
};

/* The first three are in the oldest files, where n_ctx equals n_positions. */
static const char *const gpt2_harmless[] = {
    "n_ctx", "n_special", "predict_special_tokens", "is_decoder", NULL,
};

static const br_config_alias gpt2_spellings[] = {
    { "hidden_size", "n_embd" },
    { "max_position_embeddings", "n_positions" },
    { "num_attention_heads", "n_head" },
    { "num_hidden_layers", "n_layer" },
    { NULL, NULL },
};

/* ---- t5 -------------------------------------------------------------------------------------- */

static const br_config_default t5_defaults[] = {
    { "vocab_size", "32128" },
    { "d_model", "512" },
    { "d_kv", "64" },
    { "d_ff", "2048" },
    { "num_layers", "6" },
    { "num_decoder_layers", "|=num_layers" },
    { "num_heads", "8" },
    { "relative_attention_num_buckets", "32" },
    { "relative_attention_max_distance", "128" },
    { "dropout_rate", "0.1" },
    { "layer_norm_epsilon", "1e-6" },
    { "initializer_factor", "1.0" },
    { "feed_forward_proj", "\"relu\"" },
    { "is_encoder_decoder", "true" },
    { "is_decoder", "false" },
    { "classifier_dropout", "0.0" },
    { "pad_token_id", "0" },
    { "eos_token_id", "1" },
    { "use_cache", "true" },
    { "tie_word_embeddings", "|true" },
    { NULL, NULL },
};

static const br_config_limit t5_limits[] = {
    { "is_encoder_decoder", "true", true },
    { NULL, NULL, false },
};

/* These have no defaults; t5_config.c reads the first four. */
static const char *const t5_harmless[] = {
    "scale_decoder_outputs", "dense_act_fn", "is_gated_act", "decoder_start_token_id",
    "bos_token_id",          "n_positions",  NULL,
};

static const br_config_alias t5_spellings[] = {
    { "hidden_size", "d_model" },
    { "num_attention_heads", "num_heads" },
    { "num_hidden_layers", "num_layers" },
    { "head_dim", "d_kv" },
    { NULL, NULL },
};

/* ---------------------------------------------------------------------------------------------- */

const br_config_type *br__config_type(const char *model_type)
{
    static const br_config_default no_defaults[] = { { NULL, NULL } };
    static const br_config_alias no_spellings[] = { { NULL, NULL } };
    static const br_config_limit no_limits[] = { { NULL, NULL, false } };
    static const char *const none_harmless[] = { NULL };
    static const br_config_type unknown = { NULL, no_defaults, no_spellings, no_limits,
                                            none_harmless };
    static const br_config_type types[] = {
        { "bert", bert_defaults, no_spellings, bert_limits, bert_harmless },
        { "gpt2", gpt2_defaults, gpt2_spellings, gpt2_limits, gpt2_harmless },
        { "t5", t5_defaults, t5_spellings, t5_limits, t5_harmless },
    };
    for (size_t i = 0; model_type && i < sizeof types / sizeof *types; i++)
        if (strcmp(types[i].model_type, model_type) == 0)
            return &types[i];
    return &unknown;
}
