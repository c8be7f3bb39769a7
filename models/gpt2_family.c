/* models/gpt2_family.c - the family of GPT-2: its classes, the keys of config.json, and the names
 * of its weights. */
#include "models/gpt2_internal.h"

#include <string.h>

/* ---- config.json ----------------------------------------------------------------------------- */

static const br_config_default defaults[] = {
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

static const br_config_limit limits[] = {
    { "add_cross_attention", "false", true },
    { "is_encoder_decoder", "false", false },
    { NULL, NULL, false },
};

/* The first three are in the oldest files, where n_ctx equals n_positions. */
static const char *const harmless[] = {
    "n_ctx", "n_special", "predict_special_tokens", "is_decoder", NULL,
};

static const br_config_alias aliases[] = {
    { "hidden_size", "n_embd" },
    { "max_position_embeddings", "n_positions" },
    { "num_attention_heads", "n_head" },
    { "num_hidden_layers", "n_layer" },
    { NULL, NULL },
};

/* ---- Making models --------------------------------------------------------------------------- */

static const char base_name[] = "GPT2Model";

static br_gpt2_config config_of(const br_auto_config *config)
{
    br_gpt2_config c = br_gpt2_config_from(config);
    return zoo_gpt2_checked(&c);
}

static void *make_base(const br_auto_config *config)
{
    return zoo_gpt2_make(config_of(config));
}

static void *make_lm(const br_auto_config *config)
{
    return zoo_gpt2_make_lm(config_of(config));
}

static bool init(const br_auto_config *config, const char *key, br_tensor *weight)
{
    br_gpt2_config c = br_gpt2_config_from(config);
    return zoo_gpt2_init(&c, key, weight);
}

static const br_gpt2 *base_of(br_module *module)
{
    if (strcmp(br_module_class(module), base_name) == 0)
        return (const br_gpt2 *)module;
    return (const br_gpt2 *)br_module_find(module, "transformer");
}

static const char *differing_key(br_module *a, br_module *b)
{
    const br_gpt2 *x = base_of(a), *y = base_of(b);
    const br_gpt2_block *first = br_module_list_at(x->h, 0), *other = br_module_list_at(y->h, 0);
    if (x->config.n_head != y->config.n_head)
        return "n_head";
    if (x->config.layer_norm_epsilon != y->config.layer_norm_epsilon)
        return "layer_norm_epsilon";
    if (x->config.unscaled != y->config.unscaled)
        return "scale_attn_weights";
    if (x->config.scale_by_layer != y->config.scale_by_layer)
        return "scale_attn_by_inverse_layer_idx";
    return first->mlp->act != other->mlp->act ? "activation_function" : NULL;
}

/* ---- Running models -------------------------------------------------------------------------- */

static br_gpt2_options options_of(const br_model_input *input)
{
    return *BR_OPTIONS(br_gpt2, .attention_mask = input->batch.attention_mask,
                       .cu_seqlens = input->cu_seqlens);
}

static br_tensor *run_base(br_module *model, const br_model_input *input)
{
    br_gpt2_options o = options_of(input);
    return br_gpt2_forward((br_gpt2 *)model, input->batch.ids, &o);
}

static br_tensor *run_lm(br_module *model, const br_model_input *input)
{
    br_gpt2_options o = options_of(input);
    return br_gpt2_lm_forward((br_gpt2_lm *)model, input->batch.ids, &o);
}

static br_tensor *loss(br_module *model, const br_model_input *input, br_tensor *labels)
{
    br_gpt2_options o = options_of(input);
    return br_gpt2_lm_loss((br_gpt2_lm *)model, input->batch.ids, labels, &o);
}

static br_language_model language_model(br_model_source *source)
{
    return br_gpt2_language_model((br_gpt2_lm *)source->model);
}

/* ---- The family ------------------------------------------------------------------------------ */

static const br_model_class classes[] = {
    {
        .name = base_name,
        .task = BR_TASK_BASE,
        .make = make_base,
        .forward = run_base,
        .embeds_sentences = true,
        .shows_attention = true,
    },
    {
        .name = "GPT2LMHeadModel",
        .task = BR_TASK_CAUSAL_LM,
        .make = make_lm,
        .forward = run_lm,
        .loss = loss,
        .language_model = language_model,
    },
    { .name = NULL },
};

static const char *const heads[] = { "lm_head.", NULL };
/* The causal mask, which was a buffer in old versions. */
static const char *const ignored[] = { ".attn.bias", ".attn.masked_bias", NULL };
static const char *const layers[] = { "num_hidden_layers", NULL };
static const br_config_rows rows[] = { { "vocab_size", "wte.weight" }, { NULL, NULL } };

const br_model_family zoo_gpt2_family = {
    .model_type = "gpt2",
    .config = { .defaults = defaults, .aliases = aliases, .limits = limits, .harmless = harmless },
    .classes = classes,
    .packs = true,
    .tokenizer_class = "GPT2Tokenizer",
    .keys = { .prefix = "transformer.", .ignored = ignored },
    .heads = heads,
    .init = init,
    .layers = layers,
    .rows = rows,
    .differing_key = differing_key,
};
