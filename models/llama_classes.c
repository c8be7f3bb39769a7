/* models/llama_classes.c - the functions of the families of Llama and the decoders that are built
 * like it. */
#include "models/llama_internal.h"

#include <string.h>

/* ---- Making and running models --------------------------------------------------------------- */

static br_llama_config config_of(const br_auto_config *config)
{
    br_llama_config c = br_llama_config_from(config);
    return zoo_llama_checked(&c);
}

void *zoo_llama_make_base(const br_auto_config *config)
{
    br_llama_config c = config_of(config);
    return zoo_llama_make(&c);
}

void *zoo_llama_make_lm(const br_auto_config *config)
{
    br_llama_config c = config_of(config);
    return zoo_llama_make_lm_of(&c);
}

void *zoo_llama_make_classifier(const br_auto_config *config)
{
    br_llama_config c = config_of(config);
    return zoo_llama_make_classifier_of(&c);
}

static br_llama_options options_of(const br_model_input *input)
{
    return *BR_OPTIONS(br_llama, .attention_mask = input->batch.attention_mask,
                       .cu_seqlens = input->cu_seqlens);
}

br_tensor *zoo_llama_run_base(br_module *model, const br_model_input *input)
{
    br_llama_options o = options_of(input);
    return br_llama_forward((br_llama *)model, input->batch.ids, &o);
}

br_tensor *zoo_llama_run_lm(br_module *model, const br_model_input *input)
{
    br_llama_options o = options_of(input);
    return br_llama_lm_forward((br_llama_lm *)model, input->batch.ids, &o);
}

br_tensor *zoo_llama_run_classifier(br_module *model, const br_model_input *input)
{
    br_llama_options o = options_of(input);
    return br_llama_classifier_forward((br_llama_classifier *)model, input->batch.ids, &o);
}

br_tensor *zoo_llama_loss(br_module *model, const br_model_input *input, br_tensor *labels)
{
    br_llama_options o = options_of(input);
    return br_llama_lm_loss((br_llama_lm *)model, input->batch.ids, labels, &o);
}

br_language_model zoo_llama_language_model(br_model_source *source)
{
    return br_llama_language_model((br_llama_lm *)source->model);
}

bool zoo_llama_init_weight(const br_auto_config *config, const char *name, br_tensor *weight)
{
    br_llama_config c = br_llama_config_from(config);
    return zoo_llama_init(&c, name, weight);
}

/* ---- Lists ----------------------------------------------------------------------------------- */

const char *const zoo_llama_ignored[] = { "rotary_emb.inv_freq", NULL }; /* in old files */
const char *const zoo_llama_heads[] = { "lm_head.", "score.", NULL };
const char *const zoo_llama_layers[] = { "num_hidden_layers", NULL };
const br_config_rows zoo_llama_rows[] = {
    { "vocab_size", "embed_tokens.weight" },
    { "num_labels", "score.weight" },
    { NULL, NULL },
};

/* Rows of `limits`. */
#define LIMITS                                                                           \
    { "is_encoder_decoder", "false", false }, { "partial_rotary_factor", "1.0", false }, \
        { "rope_parameters.partial_rotary_factor", "1.0", false },                       \
        { "rope_parameters.full_attention.partial_rotary_factor", "1.0", false },        \
        { "rope_parameters.sliding_attention.partial_rotary_factor", "1.0", false },     \
        { "rope_scaling.partial_rotary_factor", "1.0", false },                          \
        { "rope_parameters.mrope_section", "null", false },                              \
        { "rope_scaling.mrope_section", "null", false },                                 \
    {                                                                                    \
        NULL, NULL, false                                                                \
    }

const br_config_limit zoo_gemma3_limits[] = { LIMITS };
const br_config_limit zoo_llama_limits[] = {
    { "use_bidirectional_attention", "false", false },
    LIMITS,
};
const br_config_limit zoo_phi3_limits[] = {
    { "is_encoder_decoder", "false", false },
    { "attention_bias", "false", false },
    { "rope_parameters.mrope_section", "null", false },
    { "rope_scaling.mrope_section", "null", false },
    { NULL, NULL, false },
};
/* rope_scaling, rope_theta and the like are older forms of rope_parameters. */
const char *const zoo_llama_harmless[] = {
    "hidden_act",
    "rope_scaling",
    "rope_theta",
    "head_dim",
    "partial_rotary_factor",
    "rope_local_base_freq",
    "original_max_position_embeddings",
    "pretraining_tp",
    "is_decoder",
    "sliding_window_pattern",
    "_sliding_window_pattern",
    "cache_implementation",
    NULL,
};

/* ---- Comparing models ------------------------------------------------------------------------ */

static const br_llama *base_of(br_module *module)
{
    const char *class = br_module_class(module);
    if (zoo_ends_with(class, "ForCausalLM"))
        return ((const br_llama_lm *)module)->model;
    if (zoo_ends_with(class, "ForSequenceClassification"))
        return ((const br_llama_classifier *)module)->model;
    return (const br_llama *)module;
}

const char *zoo_llama_differing_key(br_module *a, br_module *b)
{
    const br_llama *first = base_of(a), *other = base_of(b);
    const br_llama_config *x = &first->config, *y = &other->config;
    const bool classifies = zoo_ends_with(br_module_class(a), "ForSequenceClassification");
    const struct {
        const char *key;
        bool same;
    } rows[] = {
        { "num_attention_heads", x->num_attention_heads == y->num_attention_heads },
        { "rms_norm_eps", x->rms_norm_eps == y->rms_norm_eps },
        { "partial_rotary_factor", zoo_llama_rotary_dim(x) == zoo_llama_rotary_dim(y) },
        { "rope_parameters",
          zoo_same_rope(&x->rope, &y->rope) && zoo_same_rope(&x->local_rope, &y->local_rope) },
        { "sliding_window", x->sliding_window == y->sliding_window },
        { "use_bidirectional_attention", x->bidirectional == y->bidirectional },
        { "layer_types", memcmp(x->layers, y->layers, sizeof x->layers) == 0 },
        { "query_pre_attn_scalar", x->query_scalar == y->query_scalar },
        { "attn_logit_softcapping", x->attn_logit_softcapping == y->attn_logit_softcapping },
        { "final_logit_softcapping", x->final_logit_softcapping == y->final_logit_softcapping },
        { "attention_multiplier", x->attention_multiplier == y->attention_multiplier },
        { "embedding_multiplier", x->embedding_scale == y->embedding_scale },
        { "residual_multiplier", x->residual_multiplier == y->residual_multiplier },
        { "logits_scaling", x->logits_scaling == y->logits_scaling },
        { "num_experts_per_tok", x->num_experts_per_tok == y->num_experts_per_tok },
        { "pad_token_id", !classifies || x->pad_token_id == y->pad_token_id },
        { "norm_topk_prob", x->norm_topk_prob == y->norm_topk_prob },
        { "output_router_logits", x->output_router_logits == y->output_router_logits },
        { "router_aux_loss_coef", x->router_aux_loss_coef == y->router_aux_loss_coef },
        { "hidden_act", br_find_activation(x->hidden_act) == br_find_activation(y->hidden_act) },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (!rows[i].same)
            return rows[i].key;
    return NULL;
}
