/* pretrained/auto_config_keys.c - the keys that config.json has for every model_type, and which
 * keys are known. The keys of a model_type are in its family (models/).
 * tests/pretrained/auto_config_defaults.json has the defaults and synonyms from transformers
 * itself. */
#include "pretrained/auto_config_internal.h"

#include <string.h>

/* ---- The keys of every model_type ------------------------------------------------------------ */

static const br_config_default defaults[] = {
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

static const br_config_limit limits[] = {
    { "pruned_heads", "{}", false },
    { "tie_encoder_decoder", "false", false },
    { "quantization_config", "null", false },
    { "per_layer_config", "null", false },
    { NULL, NULL, false },
};

static const char *const harmless[] = {
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
    "use_cache",
    NULL,
};

const br_config_keys br__common_keys = {
    .defaults = defaults,
    .limits = limits,
    .harmless = harmless,
};

/* ---- Known keys ------------------------------------------------------------------------------ */

const br_config_keys *br__config_keys_of(const br_auto_config *config)
{
    static const br_config_keys none = { 0 };
    return config->family ? &config->family->config : &none;
}

static bool is_listed(const char *const *keys, const char *key)
{
    while (keys && *keys && strcmp(*keys, key) != 0)
        keys++;
    return keys && *keys;
}

static bool is_known(const br_config_keys *keys, const char *key)
{
    const br_config_default *all_defaults[] = { keys->defaults, br__common_keys.defaults };
    const br_config_limit *all_limits[] = { keys->limits, br__common_keys.limits };
    for (int i = 0; i < 2; i++) {
        for (const br_config_default *d = all_defaults[i]; d && d->key; d++)
            if (strcmp(d->key, key) == 0)
                return true;
        for (const br_config_limit *l = all_limits[i]; l && l->key; l++)
            if (strcmp(l->key, key) == 0)
                return true;
    }
    for (const br_config_alias *s = keys->aliases; s && s->name; s++)
        if (strcmp(s->name, key) == 0)
            return true;
    return is_listed(keys->harmless, key) || is_listed(br__common_keys.harmless, key);
}

bool br__config_each_unknown(const br_auto_config *config, bool (*visit)(void *, const char *key),
                             void *context)
{
    const char *key;
    json_t *value;
    json_object_foreach(config->file, key, value)
    {
        if (!json_is_null(value) && !is_known(br__config_keys_of(config), key) &&
            !visit(context, key))
            return false;
    }
    return true;
}
