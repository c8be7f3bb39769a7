/* models/t5_config.c - T5's configuration, initial weights, and buckets of relative positions. */
#include "models/t5_internal.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

static const char op[] = "t5";

/* ---- Configuration --------------------------------------------------------------------------- */

br_t5_config br_t5_config_default(void)
{
    return (br_t5_config){
        .vocab_size = 32128,
        .d_model = 512,
        .d_kv = 64,
        .d_ff = 2048,
        .num_layers = 6,
        .num_decoder_layers = 6,
        .num_heads = 8,
        .relative_attention_num_buckets = 32,
        .relative_attention_max_distance = 128,
        .dropout_rate = 0.1,
        .layer_norm_epsilon = 1e-6,
        .initializer_factor = 1,
        .activation = "relu",
    };
}

/* Reads feed_forward_proj: "relu", "gated-silu", ... "gated-gelu" means the tanh approximation. */
static bool read_activation(const br_auto_config *config, br_t5_config *c)
{
    c->activation = br_auto_config_activation(config, "feed_forward_proj", &c->gated);
    if (c->activation && c->gated && strcmp(c->activation, "gelu") == 0)
        c->activation = "gelu_new";
    return c->activation != NULL;
}

/* Reads the keys that transformers 5 derives from feed_forward_proj and tie_word_embeddings and
 * also writes to the file. They take precedence, even a scale_decoder_outputs that is null, which
 * means false. */
static bool read_settled(const br_auto_config *config, br_t5_config *c)
{
    if (br_auto_config_has(config, "dense_act_fn") ||
        br_auto_config_is_null(config, "dense_act_fn"))
        c->activation = br_auto_config_activation(config, "dense_act_fn", NULL);
    if (br_auto_config_has(config, "is_gated_act"))
        c->gated = br_auto_config_bool(config, "is_gated_act");
    c->unscaled = c->untied || br_auto_config_is_null(config, "scale_decoder_outputs");
    if (br_auto_config_has(config, "scale_decoder_outputs"))
        c->unscaled = !br_auto_config_bool(config, "scale_decoder_outputs");
    return !br_error_pending();
}

static bool read_config(const br_auto_config *config, br_t5_config *c)
{
    if (!br_auto_config_expect(config, "t5"))
        return false;
    *c = (br_t5_config){
        .vocab_size = br_auto_config_size(config, "vocab_size"),
        .d_model = br_auto_config_size(config, "d_model"),
        .d_kv = br_auto_config_size(config, "d_kv"),
        .d_ff = br_auto_config_size(config, "d_ff"),
        .num_layers = br_auto_config_size(config, "num_layers"),
        .num_decoder_layers = br_auto_config_size(config, "num_decoder_layers"),
        .num_heads = br_auto_config_size(config, "num_heads"),
        .relative_attention_num_buckets =
            br_auto_config_size(config, "relative_attention_num_buckets"),
        .relative_attention_max_distance =
            br_auto_config_size(config, "relative_attention_max_distance"),
        .pad_token_id = -1,
        .dropout_rate = br_auto_config_probability(config, "dropout_rate"),
        .layer_norm_epsilon = br_auto_config_number(config, "layer_norm_epsilon"),
        .initializer_factor = br_auto_config_number(config, "initializer_factor"),
        .untied = !br_auto_config_bool(config, "tie_word_embeddings"),
    };
    if (br_auto_config_has(config, "pad_token_id"))
        c->pad_token_id = br_auto_config_integer(config, "pad_token_id");
    c->decoder_start_token_id = c->pad_token_id;
    if (br_auto_config_has(config, "decoder_start_token_id"))
        c->decoder_start_token_id = br_auto_config_integer(config, "decoder_start_token_id");
    return read_activation(config, c) && read_settled(config, c);
}

br_t5_config br_t5_config_from(const br_auto_config *config)
{
    br_t5_config c;
    return read_config(config, &c) ? c : (br_t5_config){ 0 };
}

static bool good_sizes(const br_t5_config *c)
{
    const struct {
        const char *name;
        int64_t size;
    } sizes[] = {
        { "vocab_size", c->vocab_size },
        { "d_model", c->d_model },
        { "d_kv", c->d_kv },
        { "d_ff", c->d_ff },
        { "num_layers", c->num_layers },
        { "num_decoder_layers", c->num_decoder_layers },
        { "num_heads", c->num_heads },
        { "relative_attention_max_distance", c->relative_attention_max_distance },
    };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        if (!zoo_good_size(op, sizes[i].name, sizes[i].size))
            return false;
    return zoo_good_size(op, "num_heads d_kv", c->num_heads * c->d_kv);
}

/* Checks the buckets. Half of them (a quarter in the encoder) cover one distance each; there must
 * be at least one of these, and distances left for the others. */
static bool good_buckets(const br_t5_config *c)
{
    int64_t n = c->relative_attention_num_buckets, most = c->relative_attention_max_distance;
    if (n < 4 || n > 65536 || n % 2 != 0)
        br_raise(BR_ERROR_ARGUMENT,
                 "t5: relative_attention_num_buckets is %" PRId64 ", must be even and 4 .. 65536",
                 n);
    else if (most <= n / 2 || most > 1 << 24)
        br_raise(BR_ERROR_ARGUMENT,
                 "t5: relative_attention_max_distance is %" PRId64 ", must be %" PRId64
                 " .. 16777216",
                 most, n / 2 + 1);
    return !br_error_pending();
}

static bool good_config(const br_t5_config *c)
{
    if (!zoo_good_config(op, c) || !good_sizes(c) || !good_buckets(c))
        return false;
    return zoo_good_probability(op, "dropout_rate", c->dropout_rate) &&
           zoo_good_positive(op, "layer_norm_epsilon", c->layer_norm_epsilon) &&
           zoo_good_deviation(op, "initializer_factor", c->initializer_factor) &&
           br_require_activation(op, "activation", c->activation);
}

br_t5_config zoo_t5_checked(const br_t5_config *config)
{
    return good_config(config) ? *config : (br_t5_config){ .d_model = 1, .num_heads = 1 };
}

/* ---- Initial weights ------------------------------------------------------------------------- */

bool zoo_t5_init(const void *of, const char *key, br_tensor *weight)
{
    const br_t5_config *c = of;
    double model = (double)c->d_model, inner = (double)(c->num_heads * c->d_kv), per = model;
    if (br_ndim(weight) < 2)
        return br_init_constant_(weight, c->initializer_factor);
    if (strstr(key, "shared.") || strstr(key, "embed_tokens.") || strstr(key, "lm_head."))
        per = 1;
    else if (zoo_ends_with(key, "Attention.q.weight"))
        per = model * (double)c->d_kv;
    else if (zoo_ends_with(key, "Attention.o.weight"))
        per = inner;
    else if (zoo_ends_with(key, ".wo.weight"))
        per = (double)c->d_ff;
    return br_init_normal_(weight, 0, c->initializer_factor / sqrt(per));
}
