/* models/llama_config.c - configurations of Llama and the decoders that are built like it, and
 * their initial weights. */
#include "models/llama_internal.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

static const char op[] = "llama";

br_llama_config br_llama_config_default(void)
{
    return (br_llama_config){
        .model_type = "llama",
        .vocab_size = 49152,
        .hidden_size = 576,
        .intermediate_size = 1536,
        .num_hidden_layers = 30,
        .num_attention_heads = 9,
        .num_key_value_heads = 3,
        .max_position_embeddings = 8192,
        .pad_token_id = -1,
        .hidden_act = "silu",
        .rms_norm_eps = 1e-5,
        .initializer_range = 0.041666666666666664,
        .rope = *BR_OPTIONS(br_rope, .theta = 100000),
        .local_rope = *BR_OPTIONS(br_rope, .theta = 100000),
        .embedding_scale = 1,
        .residual_multiplier = 1,
        .logits_scaling = 1,
        .num_labels = 2,
    };
}

/* ---- config.json ----------------------------------------------------------------------------- */

/* Returns a size, or the default if the key is null and may be. */
static int64_t read_size(const br_auto_config *config, const char *key, bool may_be_null,
                         int64_t otherwise)
{
    bool is_size = !may_be_null || br_auto_config_has(config, key);
    return is_size ? br_auto_config_size(config, key) : otherwise;
}

static void read_sizes(const br_auto_config *config, const zoo_llama_kind *kind, br_llama_config *c)
{
    c->vocab_size = br_auto_config_size(config, "vocab_size");
    c->hidden_size = br_auto_config_size(config, "hidden_size");
    c->intermediate_size = br_auto_config_size(config, "intermediate_size");
    c->num_hidden_layers = br_auto_config_size(config, "num_hidden_layers");
    c->num_attention_heads = br_auto_config_size(config, "num_attention_heads");
    c->num_key_value_heads = read_size(config, "num_key_value_heads", !kind->needs_key_value_heads,
                                       c->num_attention_heads);
    bool is_null = kind->head_dim_is_not_null && br_auto_config_is_null(config, "head_dim");
    c->head_dim = read_size(config, "head_dim", !kind->needs_head_dim && !is_null, 0);
    c->max_position_embeddings = br_auto_config_size(config, "max_position_embeddings");
    c->pad_token_id = br_auto_config_padding(config);
    c->num_labels = br_auto_config_size(config, "num_labels");
}

static bool read_bias(const br_auto_config *config, const char *key)
{
    return key && br_auto_config_bool(config, key);
}

static void read_numbers(const br_auto_config *config, const zoo_llama_kind *kind,
                         br_llama_config *c)
{
    c->hidden_act = br_auto_config_activation(
        config, kind->is_gemma ? "hidden_activation" : "hidden_act", NULL);
    c->rms_norm_eps = br_auto_config_number(config, "rms_norm_eps");
    c->initializer_range = br_auto_config_number(config, "initializer_range");
    c->attention_dropout = br_auto_config_probability(config, "attention_dropout");
    c->embedding_scale = c->residual_multiplier = c->logits_scaling = 1;
    c->attention_bias = kind->always_has_attention_bias || read_bias(config, kind->attention_bias);
    c->output_bias = read_bias(config, kind->output_bias);
    c->mlp_bias = read_bias(config, kind->mlp_bias);
    c->qk_norm = kind->has_qk_norm;
    c->fused = kind->is_fused;
    if (kind->is_fused)
        c->resid_pdrop = br_auto_config_probability(config, "resid_pdrop");
    c->untied = !br_auto_config_bool(config, "tie_word_embeddings");
}

/* Returns a softcap, which null turns off. */
static double read_cap(const br_auto_config *config, const char *key)
{
    return br_auto_config_has(config, key) ? br_auto_config_number(config, key) : 0;
}

static void read_gemma(const br_auto_config *config, const zoo_llama_kind *kind, br_llama_config *c)
{
    c->norm_adds_1 = c->norms_after = true;
    c->embedding_scale = sqrt((double)c->hidden_size);
    c->query_scalar = br_auto_config_number(config, "query_pre_attn_scalar");
    if (kind->caps_attention)
        c->attn_logit_softcapping = read_cap(config, "attn_logit_softcapping");
    c->final_logit_softcapping = read_cap(config, "final_logit_softcapping");
}

static void read_multipliers(const br_auto_config *config, br_llama_config *c)
{
    c->attention_multiplier = br_auto_config_number(config, "attention_multiplier");
    c->embedding_scale = br_auto_config_number(config, "embedding_multiplier");
    c->residual_multiplier = br_auto_config_number(config, "residual_multiplier");
    c->logits_scaling = br_auto_config_number(config, "logits_scaling");
}

/* Reads the sizes of experts. A model of dense layers only has 0 experts. */
static void read_experts(const br_auto_config *config, br_llama_config *c)
{
    static const char experts[] = "num_local_experts", chosen[] = "num_experts_per_tok";
    c->num_experts = br_auto_config_integer(config, experts);
    c->num_experts_per_tok = br_auto_config_size(config, chosen);
    c->moe_intermediate_size = br_auto_config_size(config, "moe_intermediate_size");
    c->norm_topk_prob = br_auto_config_bool(config, "norm_topk_prob");
    c->output_router_logits = br_auto_config_bool(config, "output_router_logits");
    c->router_aux_loss_coef = br_auto_config_number(config, "router_aux_loss_coef");
    if (br_error_pending())
        return;
    if (c->num_experts < 0 || c->num_experts > BR_LLAMA_MAX_EXPERTS)
        br_raise(BR_ERROR_FORMAT, "llama: %s: %s is %" PRId64 ", must be 0 .. %d",
                 br_auto_config_path(config), experts, c->num_experts, BR_LLAMA_MAX_EXPERTS);
    else if (c->num_experts > 0 && c->num_experts_per_tok > c->num_experts)
        br_raise(
            BR_ERROR_FORMAT, "llama: %s: %s is %" PRId64 ", must be at most %s, which is %" PRId64,
            br_auto_config_path(config), chosen, c->num_experts_per_tok, experts, c->num_experts);
}

static void read_ropes(const br_auto_config *config, const zoo_llama_kind *kind, br_llama_config *c)
{
    c->rope = zoo_read_rope(config, &kind->rope);
    c->local_rope =
        kind->local_rope.default_theta > 0 ? zoo_read_rope(config, &kind->local_rope) : c->rope;
}

static bool read_config(const br_auto_config *config, br_llama_config *c)
{
    const char *type = br_auto_config_model_type(config);
    const zoo_llama_kind *kind = type ? zoo_llama_kind_of(type) : NULL;
    if (!kind && !br_error_pending())
        br_raise(BR_ERROR_FORMAT, "llama: %s: model_type is \"%s\", must be %s",
                 br_auto_config_path(config), br_printable(type), zoo_llama_types().text);
    if (!kind || !br_auto_config_expect(config, kind->model_type))
        return false;
    *c = (br_llama_config){ .model_type = kind->model_type };
    read_sizes(config, kind, c);
    read_numbers(config, kind, c);
    if (kind->is_gemma)
        read_gemma(config, kind, c);
    if (kind->has_multipliers)
        read_multipliers(config, c);
    if (kind->has_experts)
        read_experts(config, c);
    if (br_error_pending())
        return false;
    if (c->num_hidden_layers > BR_LLAMA_MAX_LAYERS)
        br_raise(BR_ERROR_FORMAT, "llama: %s: num_hidden_layers is %" PRId64 ", must be at most %d",
                 br_auto_config_path(config), c->num_hidden_layers, BR_LLAMA_MAX_LAYERS);
    else if (kind->read_layers)
        kind->read_layers(config, c);
    read_ropes(config, kind, c);
    if (!br_error_pending() && c->head_dim == 0)
        br_auto_config_multiple(config, "hidden_size", "num_attention_heads");
    if (!br_error_pending() && kind->rope.partial)
        c->rotary_dim = zoo_read_rotary_dim(config, &kind->rope, zoo_llama_head_dim(c));
    return !br_error_pending();
}

br_llama_config br_llama_config_from(const br_auto_config *config)
{
    br_llama_config c;
    return read_config(config, &c) ? c : (br_llama_config){ 0 };
}

/* ---- Checks ---------------------------------------------------------------------------------- */

int64_t zoo_llama_head_dim(const br_llama_config *c)
{
    return c->head_dim > 0 ? c->head_dim : c->hidden_size / c->num_attention_heads;
}

int64_t zoo_llama_rotary_dim(const br_llama_config *c)
{
    return c->rotary_dim > 0 ? c->rotary_dim : zoo_llama_head_dim(c);
}

static bool good_type(const br_llama_config *c)
{
    if (zoo_llama_kind_of(c->model_type))
        return true;
    br_raise(BR_ERROR_ARGUMENT, "llama: model_type is '%s', must be %s",
             br_printable(c->model_type), zoo_llama_types().text);
    return false;
}

static bool good_sizes(const br_llama_config *c)
{
    return zoo_good_size(op, "vocab_size", c->vocab_size) &&
           zoo_good_size(op, "hidden_size", c->hidden_size) &&
           zoo_good_size(op, "intermediate_size", c->intermediate_size) &&
           zoo_good_size(op, "num_hidden_layers", c->num_hidden_layers) &&
           zoo_good_size(op, "num_attention_heads", c->num_attention_heads) &&
           zoo_good_size(op, "num_key_value_heads", c->num_key_value_heads) &&
           zoo_good_multiple(op, "num_attention_heads", c->num_attention_heads,
                             "num_key_value_heads", c->num_key_value_heads) &&
           zoo_good_size(op, "max_position_embeddings", c->max_position_embeddings);
}

static bool good_heads(const br_llama_config *c)
{
    if (c->head_dim == 0 && !zoo_good_multiple(op, "hidden_size", c->hidden_size,
                                               "num_attention_heads", c->num_attention_heads))
        return false;
    int64_t d = zoo_llama_head_dim(c);
    if (d < 2 || d % 2 != 0)
        return br_fail(BR_ERROR_ARGUMENT, op,
                       "head_dim is %" PRId64
                       ", must be even and at least 2: rotary positions turn "
                       "pairs of numbers",
                       d);
    if (c->rotary_dim < 0 || c->rotary_dim > d || c->rotary_dim % 2 != 0)
        return br_fail(BR_ERROR_ARGUMENT, op,
                       "rotary_dim is %" PRId64 ", must be even and at most head_dim = %" PRId64,
                       c->rotary_dim, d);
    return zoo_good_size(op, "num_attention_heads times head_dim", c->num_attention_heads * d);
}

static bool good_experts(const br_llama_config *c)
{
    if (c->num_experts < 1 || c->num_experts > BR_LLAMA_MAX_EXPERTS)
        return br_fail(BR_ERROR_ARGUMENT, op,
                       "num_experts is %" PRId64 ", must be 1 .. %d, because there are layers with "
                       "BR_LLAMA_SPARSE",
                       c->num_experts, BR_LLAMA_MAX_EXPERTS);
    if (c->num_experts_per_tok < 1 || c->num_experts_per_tok > c->num_experts)
        return br_fail(BR_ERROR_ARGUMENT, op,
                       "num_experts_per_tok is %" PRId64 ", must be 1 .. num_experts = %" PRId64,
                       c->num_experts_per_tok, c->num_experts);
    return zoo_good_size(op, "moe_intermediate_size", c->moe_intermediate_size);
}

static bool good_layers(const br_llama_config *c)
{
    if (c->num_hidden_layers > BR_LLAMA_MAX_LAYERS)
        return br_fail(BR_ERROR_ARGUMENT, op,
                       "num_hidden_layers is %" PRId64 ", must be at most %d", c->num_hidden_layers,
                       BR_LLAMA_MAX_LAYERS);
    for (int64_t i = 0; i < c->num_hidden_layers; i++) {
        if (c->layers[i] & ~(BR_LLAMA_WINDOW | BR_LLAMA_NO_ROPE | BR_LLAMA_SPARSE))
            return br_fail(BR_ERROR_ARGUMENT, op,
                           "layers[%" PRId64 "] is %d, must be a sum of br_llama_layer_flags", i,
                           c->layers[i]);
        if (c->layers[i] & BR_LLAMA_WINDOW &&
            !zoo_good_size(op, "sliding_window", c->sliding_window))
            return false;
        if (c->layers[i] & BR_LLAMA_SPARSE && !good_experts(c))
            return false;
    }
    return true;
}

static bool good_numbers(const br_llama_config *c)
{
    if (c->pad_token_id < -1 || c->pad_token_id >= c->vocab_size)
        return br_fail(BR_ERROR_ARGUMENT, op,
                       "pad_token_id is %" PRId64 ", must be -1 .. vocab_size - 1",
                       c->pad_token_id);
    return zoo_good_deviation(op, "rms_norm_eps", c->rms_norm_eps) &&
           zoo_good_deviation(op, "initializer_range", c->initializer_range) &&
           zoo_good_probability(op, "attention_dropout", c->attention_dropout) &&
           zoo_good_probability(op, "resid_pdrop", c->resid_pdrop) &&
           zoo_good_deviation(op, "query_scalar", c->query_scalar) &&
           zoo_good_deviation(op, "attn_logit_softcapping", c->attn_logit_softcapping) &&
           zoo_good_deviation(op, "final_logit_softcapping", c->final_logit_softcapping) &&
           zoo_good_deviation(op, "attention_multiplier", c->attention_multiplier) &&
           zoo_good_positive(op, "embedding_scale", c->embedding_scale) &&
           zoo_good_positive(op, "residual_multiplier", c->residual_multiplier) &&
           zoo_good_positive(op, "logits_scaling", c->logits_scaling) &&
           br_require_activation(op, "hidden_act", c->hidden_act);
}

static bool good_ropes(const br_llama_config *c)
{
    int64_t size = zoo_llama_rotary_dim(c);
    return zoo_good_rope(size, &c->rope) && zoo_good_rope(size, &c->local_rope);
}

br_llama_config zoo_llama_checked(const br_llama_config *config)
{
    bool ok = zoo_good_config(op, config) && good_type(config) && good_sizes(config) &&
              good_heads(config) && good_layers(config) && good_numbers(config) &&
              good_ropes(config);
    return ok ? *config
              : (br_llama_config){ .hidden_size = 2,
                                   .num_attention_heads = 1,
                                   .num_key_value_heads = 1,
                                   .pad_token_id = -1 };
}

/* ---- Initial weights ------------------------------------------------------------------------- */

bool zoo_llama_init(const void *of, const char *key, br_tensor *weight)
{
    const br_llama_config *c = of;
    if (strstr(key, "norm") != NULL)
        return c->norm_adds_1 ? br_init_zeros_(weight) : br_init_ones_(weight);
    if (br_ndim(weight) < 2)
        return br_init_zeros_(weight);
    if (!br_init_normal_(weight, 0, c->initializer_range))
        return false;
    if (!zoo_ends_with(key, "embed_tokens.weight") || c->pad_token_id < 0)
        return true;
    br_scope *scope = br_no_grad_begin();
    br_zero_(br_select(weight, 0, c->pad_token_id));
    br_scope_end(scope);
    return !br_error_pending();
}
