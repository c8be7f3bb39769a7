/* models/modernbert_config.c - ModernBERT's configuration and initial weights. */
#include "models/modernbert_internal.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

static const char op[] = "modernbert";

br_modernbert_config br_modernbert_config_default(void)
{
    return (br_modernbert_config){
        .vocab_size = 50368,
        .hidden_size = 768,
        .intermediate_size = 1152,
        .num_hidden_layers = 22,
        .num_attention_heads = 12,
        .num_labels = 2,
        .pad_token_id = 50283,
        .global_attn_every_n_layers = 3,
        .local_attention = 128,
        .global_rope = *BR_OPTIONS(br_rope, .theta = 160000),
        .local_rope = *BR_OPTIONS(br_rope, .theta = 10000),
        .norm_eps = 1e-5,
        .initializer_range = 0.02,
        .initializer_cutoff_factor = 2,
        .hidden_activation = "gelu",
        .classifier_activation = "gelu",
        .classifier_pooling = "cls",
        .decoder_bias = true,
    };
}

/* ---- config.json ----------------------------------------------------------------------------- */

/* Returns true if the file has the key, even if it is null. */
static bool is_in_file(const br_auto_config *config, const char *key)
{
    return br_auto_config_has(config, key) || br_auto_config_is_null(config, key);
}

static void read_sizes(const br_auto_config *config, br_modernbert_config *c)
{
    c->vocab_size = br_auto_config_size(config, "vocab_size");
    c->hidden_size = br_auto_config_size(config, "hidden_size");
    c->intermediate_size = br_auto_config_size(config, "intermediate_size");
    c->num_hidden_layers = br_auto_config_size(config, "num_hidden_layers");
    c->num_attention_heads = br_auto_config_size(config, "num_attention_heads");
    c->num_labels = br_auto_config_size(config, "num_labels");
    c->pad_token_id = br_auto_config_padding(config);
    c->local_attention = br_auto_config_size(config, "local_attention");
    if (is_in_file(config, "sliding_window")) /* half of local_attention, and settles it */
        c->local_attention = 2 * br_auto_config_size(config, "sliding_window");
}

static void read_numbers(const br_auto_config *config, br_modernbert_config *c)
{
    c->embedding_dropout = br_auto_config_probability(config, "embedding_dropout");
    c->attention_dropout = br_auto_config_probability(config, "attention_dropout");
    c->mlp_dropout = br_auto_config_probability(config, "mlp_dropout");
    c->classifier_dropout = br_auto_config_probability(config, "classifier_dropout");
    c->norm_eps = br_auto_config_number(config, "norm_eps");
    c->initializer_range = br_auto_config_number(config, "initializer_range");
    c->initializer_cutoff_factor = br_auto_config_number(config, "initializer_cutoff_factor");
}

static void read_choices(const br_auto_config *config, br_modernbert_config *c)
{
    static const char *const poolings[] = { "cls", "mean" };
    c->hidden_activation = br_auto_config_activation(config, "hidden_activation", NULL);
    c->classifier_activation = br_auto_config_activation(config, "classifier_activation", NULL);
    int i = br_auto_config_choice(config, "classifier_pooling", 2, poolings);
    c->classifier_pooling = i < 0 ? NULL : poolings[i];
    c->attention_bias = br_auto_config_bool(config, "attention_bias");
    c->mlp_bias = br_auto_config_bool(config, "mlp_bias");
    c->norm_bias = br_auto_config_bool(config, "norm_bias");
    c->classifier_bias = br_auto_config_bool(config, "classifier_bias");
    c->decoder_bias = br_auto_config_bool(config, "decoder_bias");
    c->untied = !br_auto_config_bool(config, "tie_word_embeddings");
}

/* ---- Types of layers ------------------------------------------------------------------------- */

/* Returns the type that element i of layer_types names. */
static uint8_t read_layer_type(const br_auto_config *config, int64_t i)
{
    const char *type = br_auto_config_list_string(config, "layer_types", i);
    if (type && strcmp(type, "sliding_attention") == 0)
        return BR_MODERNBERT_LOCAL;
    if (type && strcmp(type, "full_attention") != 0)
        br_raise(BR_ERROR_FORMAT,
                 "modernbert: %s: layer_types[%" PRId64
                 "] is \"%s\", must be \"full_attention\" or \"sliding_attention\"",
                 br_auto_config_path(config), i, br_printable(type));
    return BR_MODERNBERT_GLOBAL;
}

static void read_layer_types(const br_auto_config *config, br_modernbert_config *c)
{
    int64_t count = br_auto_config_list_size(config, "layer_types");
    if (count != c->num_hidden_layers && !br_error_pending())
        br_raise(BR_ERROR_FORMAT,
                 "modernbert: %s: layer_types has %" PRId64
                 " elements, must have one for each of num_hidden_layers %" PRId64,
                 br_auto_config_path(config), count, c->num_hidden_layers);
    else if (count > BR_MODERNBERT_MAX_LAYERS)
        br_raise(BR_ERROR_FORMAT,
                 "modernbert: %s: layer_types has %" PRId64 " elements, at most %d are supported",
                 br_auto_config_path(config), count, BR_MODERNBERT_MAX_LAYERS);
    for (int64_t i = 0; i < count && !br_error_pending(); i++)
        c->layer_types[i] = read_layer_type(config, i);
}

/* layer_types settles which layers are local; older files have the distance of global layers. */
static void read_layers(const br_auto_config *config, br_modernbert_config *c)
{
    c->global_attn_every_n_layers = br_modernbert_config_default().global_attn_every_n_layers;
    if (br_auto_config_has(config, "layer_types"))
        read_layer_types(config, c);
    else if (is_in_file(config, "global_attn_every_n_layers"))
        c->global_attn_every_n_layers = br_auto_config_size(config, "global_attn_every_n_layers");
}

bool zoo_modernbert_is_local(const br_modernbert_config *c, int64_t i)
{
    uint8_t type = i < BR_MODERNBERT_MAX_LAYERS ? c->layer_types[i] : BR_MODERNBERT_BY_DISTANCE;
    if (type == BR_MODERNBERT_BY_DISTANCE)
        return i % c->global_attn_every_n_layers != 0;
    return type == BR_MODERNBERT_LOCAL;
}

/* ---- The configuration ----------------------------------------------------------------------- */

static void read_ropes(const br_auto_config *config, br_modernbert_config *c)
{
    static const zoo_rope_keys global = { .inner = "full_attention",
                                          .scaling = "rope_scaling",
                                          .theta = "global_rope_theta",
                                          .default_theta = 160000 };
    static const zoo_rope_keys local = { .inner = "sliding_attention",
                                         .scaling = "rope_scaling",
                                         .theta = "local_rope_theta",
                                         .default_theta = 10000 };
    c->global_rope = zoo_read_rope(config, &global);
    c->local_rope = zoo_read_rope(config, &local);
}

static bool read_config(const br_auto_config *config, br_modernbert_config *c)
{
    if (!br_auto_config_expect(config, op))
        return false;
    *c = (br_modernbert_config){ 0 };
    read_sizes(config, c);
    read_numbers(config, c);
    read_choices(config, c);
    read_layers(config, c);
    read_ropes(config, c);
    return br_auto_config_multiple(config, "hidden_size", "num_attention_heads");
}

br_modernbert_config br_modernbert_config_from(const br_auto_config *config)
{
    br_modernbert_config c;
    return read_config(config, &c) ? c : (br_modernbert_config){ 0 };
}

/* ---- Checks ---------------------------------------------------------------------------------- */

static bool good_sizes(const br_modernbert_config *c)
{
    const struct {
        const char *name;
        int64_t size;
    } sizes[] = {
        { "vocab_size", c->vocab_size },
        { "intermediate_size", c->intermediate_size },
        { "num_hidden_layers", c->num_hidden_layers },
        { "num_labels", c->num_labels },
        { "global_attn_every_n_layers", c->global_attn_every_n_layers },
        { "local_attention", c->local_attention },
        { "2 intermediate_size", 2 * c->intermediate_size },
        { "3 hidden_size", 3 * c->hidden_size },
    };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        if (!zoo_good_size(op, sizes[i].name, sizes[i].size))
            return false;
    return zoo_good_multiple(op, "hidden_size", c->hidden_size, "num_attention_heads",
                             c->num_attention_heads);
}

static bool good_ids_and_heads(const br_modernbert_config *c)
{
    if (c->pad_token_id >= c->vocab_size)
        br_raise(BR_ERROR_ARGUMENT,
                 "modernbert: pad_token_id is %" PRId64 ", must be below vocab_size %" PRId64,
                 c->pad_token_id, c->vocab_size);
    else if (c->hidden_size / c->num_attention_heads % 2 != 0)
        br_raise(BR_ERROR_ARGUMENT,
                 "modernbert: hidden_size %" PRId64 " / num_attention_heads %" PRId64
                 " is odd, must be even, because rotary positions rotate pairs",
                 c->hidden_size, c->num_attention_heads);
    return !br_error_pending();
}

static bool good_layer_types(const br_modernbert_config *c)
{
    for (int i = 0; i < BR_MODERNBERT_MAX_LAYERS; i++)
        if (c->layer_types[i] > BR_MODERNBERT_LOCAL) {
            br_raise(BR_ERROR_ARGUMENT,
                     "modernbert: layer_types[%d] is %d, must be BR_MODERNBERT_BY_DISTANCE, "
                     "BR_MODERNBERT_GLOBAL or BR_MODERNBERT_LOCAL",
                     i, c->layer_types[i]);
            return false;
        }
    return true;
}

static bool good_pooling(const char *pooling)
{
    if (pooling && (strcmp(pooling, "cls") == 0 || strcmp(pooling, "mean") == 0))
        return true;
    br_raise(BR_ERROR_ARGUMENT, "modernbert: classifier_pooling is '%s', must be cls or mean",
             pooling ? br_printable(pooling) : "NULL");
    return false;
}

static bool good_config(const br_modernbert_config *c)
{
    if (!zoo_good_config(op, c) || !good_sizes(c) || !good_ids_and_heads(c) || !good_layer_types(c))
        return false;
    int64_t size = c->hidden_size / c->num_attention_heads;
    return zoo_good_rope(size, &c->global_rope) && zoo_good_rope(size, &c->local_rope) &&
           zoo_good_probability(op, "attention_dropout", c->attention_dropout) &&
           zoo_good_positive(op, "norm_eps", c->norm_eps) &&
           zoo_good_deviation(op, "initializer_range", c->initializer_range) &&
           zoo_good_positive(op, "initializer_cutoff_factor", c->initializer_cutoff_factor) &&
           br_require_activation(op, "hidden_activation", c->hidden_activation) &&
           br_require_activation(op, "classifier_activation", c->classifier_activation) &&
           good_pooling(c->classifier_pooling);
}

br_modernbert_config zoo_modernbert_checked(const br_modernbert_config *config)
{
    return good_config(config) ? *config
                               : (br_modernbert_config){ .num_attention_heads = 1,
                                                         .global_attn_every_n_layers = 1,
                                                         .pad_token_id = -1,
                                                         .hidden_activation = "gelu",
                                                         .classifier_activation = "gelu",
                                                         .classifier_pooling = "cls" };
}

/* ---- Initial weights ------------------------------------------------------------------------- */

/* Returns the standard deviation of a matrix. The layers that end a half of a layer have smaller
 * weights, because the residual stream sums the outputs of all layers. */
static double deviation_of(const br_modernbert_config *c, const char *key)
{
    if (zoo_ends_with(key, "classifier.weight"))
        return 1 / sqrt((double)c->hidden_size);
    bool is_last = zoo_ends_with(key, "Wo.weight") || zoo_ends_with(key, "head.dense.weight") ||
                   zoo_ends_with(key, "decoder.weight");
    return c->initializer_range / (is_last ? sqrt(2.0 * (double)c->num_hidden_layers) : 1);
}

bool zoo_modernbert_init(const void *of, const char *key, br_tensor *weight)
{
    const br_modernbert_config *c = of;
    if (br_ndim(weight) < 2)
        return zoo_ends_with(key, "norm.weight") ? br_init_ones_(weight) : br_init_zeros_(weight);
    double std = deviation_of(c, key), cutoff = c->initializer_cutoff_factor * std;
    return std > 0 ? br_init_trunc_normal_(weight, 0, std, -cutoff, cutoff)
                   : br_init_zeros_(weight);
}
