/* models/gpt_neox_config.c - configurations of GPT-NeoX, and its initial weights. */
#include "models/gpt_neox_internal.h"

#include <inttypes.h>
#include <string.h>

static const char op[] = "gpt_neox";

br_gpt_neox_config br_gpt_neox_config_default(void)
{
    return (br_gpt_neox_config){
        .vocab_size = 50304,
        .hidden_size = 768,
        .intermediate_size = 3072,
        .num_hidden_layers = 12,
        .num_attention_heads = 12,
        .max_position_embeddings = 2048,
        .hidden_act = "gelu",
        .layer_norm_eps = 1e-5,
        .initializer_range = 0.02,
        .rope = br_rope_defaults(),
        .rotary_dim = 16,
        .use_parallel_residual = true,
        .attention_bias = true,
    };
}

/* ---- config.json ----------------------------------------------------------------------------- */

static bool read_config(const br_auto_config *config, br_gpt_neox_config *c)
{
    static const zoo_rope_keys rope = { .scaling = "rope_scaling",
                                        .theta = "rotary_emb_base",
                                        .partial = "rotary_pct",
                                        .default_theta = 10000,
                                        .default_partial = 0.25 };
    if (!br_auto_config_expect(config, "gpt_neox"))
        return false;
    *c = (br_gpt_neox_config){
        .vocab_size = br_auto_config_size(config, "vocab_size"),
        .hidden_size = br_auto_config_size(config, "hidden_size"),
        .intermediate_size = br_auto_config_size(config, "intermediate_size"),
        .num_hidden_layers = br_auto_config_size(config, "num_hidden_layers"),
        .num_attention_heads = br_auto_config_size(config, "num_attention_heads"),
        .max_position_embeddings = br_auto_config_size(config, "max_position_embeddings"),
        .hidden_act = br_auto_config_activation(config, "hidden_act", NULL),
        .layer_norm_eps = br_auto_config_number(config, "layer_norm_eps"),
        .initializer_range = br_auto_config_number(config, "initializer_range"),
        .attention_dropout = br_auto_config_probability(config, "attention_dropout"),
        .hidden_dropout = br_auto_config_probability(config, "hidden_dropout"),
        .use_parallel_residual = br_auto_config_bool(config, "use_parallel_residual"),
        .attention_bias = br_auto_config_bool(config, "attention_bias"),
        .tie_word_embeddings = br_auto_config_bool(config, "tie_word_embeddings"),
    };
    if (!br_auto_config_multiple(config, "hidden_size", "num_attention_heads"))
        return false;
    c->rope = zoo_read_rope(config, &rope);
    c->rotary_dim = zoo_read_rotary_dim(config, &rope, c->hidden_size / c->num_attention_heads);
    return !br_error_pending();
}

br_gpt_neox_config br_gpt_neox_config_from(const br_auto_config *config)
{
    br_gpt_neox_config c;
    return read_config(config, &c) ? c : (br_gpt_neox_config){ 0 };
}

/* ---- Checks ---------------------------------------------------------------------------------- */

int64_t zoo_gpt_neox_rotary_dim(const br_gpt_neox_config *c)
{
    return c->rotary_dim != 0 ? c->rotary_dim : c->hidden_size / c->num_attention_heads;
}

static bool good_heads(const br_gpt_neox_config *c)
{
    if (!zoo_good_multiple(op, "hidden_size", c->hidden_size, "num_attention_heads",
                           c->num_attention_heads) ||
        !zoo_good_size(op, "3 hidden_size", 3 * c->hidden_size))
        return false;
    const int64_t d = c->hidden_size / c->num_attention_heads, dim = zoo_gpt_neox_rotary_dim(c);
    if (dim < 2 || dim > d || dim % 2 != 0)
        return br_fail(BR_ERROR_ARGUMENT, op,
                       "rotary_dim is %" PRId64 ", must be even and at least 2, and at most "
                       "hidden_size / num_attention_heads = %" PRId64,
                       dim, d);
    return zoo_good_rope(dim, &c->rope);
}

static bool good_config(const br_gpt_neox_config *c)
{
    return zoo_good_config(op, c) && zoo_good_size(op, "vocab_size", c->vocab_size) &&
           zoo_good_size(op, "hidden_size", c->hidden_size) &&
           zoo_good_size(op, "intermediate_size", c->intermediate_size) &&
           zoo_good_size(op, "num_hidden_layers", c->num_hidden_layers) &&
           zoo_good_size(op, "num_attention_heads", c->num_attention_heads) &&
           zoo_good_size(op, "max_position_embeddings", c->max_position_embeddings) &&
           zoo_good_positive(op, "layer_norm_eps", c->layer_norm_eps) &&
           zoo_good_deviation(op, "initializer_range", c->initializer_range) &&
           zoo_good_probability(op, "attention_dropout", c->attention_dropout) &&
           zoo_good_probability(op, "hidden_dropout", c->hidden_dropout) &&
           br_require_activation(op, "hidden_act", c->hidden_act) && good_heads(c);
}

br_gpt_neox_config zoo_gpt_neox_checked(const br_gpt_neox_config *config)
{
    return good_config(config) ? *config
                               : (br_gpt_neox_config){ .hidden_size = 2, .num_attention_heads = 1 };
}

/* ---- Initial weights ------------------------------------------------------------------------- */

bool zoo_gpt_neox_init(const void *of, const char *key, br_tensor *weight)
{
    const br_gpt_neox_config *c = of;
    if (zoo_ends_with(key, "norm.weight"))
        return br_init_ones_(weight);
    if (br_ndim(weight) < 2)
        return br_init_zeros_(weight);
    return br_init_normal_(weight, 0, c->initializer_range);
}
