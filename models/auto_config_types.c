/* models/auto_config_types.c - what transformers takes for a key that a config.json lacks, and the
 * names of keys, for each type of model. tests/models/auto_config_defaults.json has the same from
 * transformers itself. */
#include "models/auto_config_internal.h"

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

static const br_config_spelling gpt2_spellings[] = {
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
    { "num_decoder_layers", "=num_layers" },
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
    { "tie_word_embeddings", "true" },
    { NULL, NULL },
};

static const br_config_spelling t5_spellings[] = {
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
    static const br_config_spelling no_spellings[] = { { NULL, NULL } };
    static const br_config_type unknown = { NULL, no_defaults, no_spellings };
    static const br_config_type types[] = {
        { "bert", bert_defaults, no_spellings },
        { "gpt2", gpt2_defaults, gpt2_spellings },
        { "t5", t5_defaults, t5_spellings },
    };
    for (size_t i = 0; model_type && i < sizeof types / sizeof *types; i++)
        if (strcmp(types[i].model_type, model_type) == 0)
            return &types[i];
    return &unknown;
}
