/* models/t5_family.c - the family of T5: its classes, the keys of config.json, and the names of its
 * weights. */
#include "models/t5_internal.h"

/* ---- config.json ----------------------------------------------------------------------------- */

static const br_config_default defaults[] = {
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

static const br_config_limit limits[] = {
    { "is_encoder_decoder", "true", true },
    { NULL, NULL, false },
};

/* These have no defaults; t5_config.c reads the first four. */
static const char *const harmless[] = {
    "scale_decoder_outputs", "dense_act_fn", "is_gated_act", "decoder_start_token_id",
    "bos_token_id",          "n_positions",  NULL,
};

static const br_config_alias aliases[] = {
    { "hidden_size", "d_model" },
    { "num_attention_heads", "num_heads" },
    { "num_hidden_layers", "num_layers" },
    { "head_dim", "d_kv" },
    { NULL, NULL },
};

/* ---- Making models --------------------------------------------------------------------------- */

/* Like transformers 5, ties the head regardless of the configuration, unless the file has a
 * different weight for it: see untie() in auto_model.c. */
static void *make(const br_auto_config *config, const char *class)
{
    br_t5_config c = br_t5_config_from(config);
    c.untied = false;
    return zoo_t5_make(zoo_t5_checked(&c), class);
}

static void *make_base(const br_auto_config *config)
{
    return make(config, zoo_t5_model);
}

static void *make_generation(const br_auto_config *config)
{
    return make(config, zoo_t5_generation);
}

static bool init(const br_auto_config *config, const char *key, br_tensor *weight)
{
    br_t5_config c = br_t5_config_from(config);
    return zoo_t5_init(&c, key, weight);
}

/* Returns the function of all feed-forward layers. */
static br_tensor *(*activation_of(const br_t5 *t5))(br_tensor *)
{
    const br_t5_block *first = br_module_list_at(t5->encoder->block, 0);
    const br_t5_layer *layer = br_module_list_at(first->layer, 1);
    return layer->DenseReluDense->act;
}

static const char *differing_key(br_module *a, br_module *b)
{
    const br_t5_config *x = &((const br_t5 *)a)->config, *y = &((const br_t5 *)b)->config;
    if (x->relative_attention_max_distance != y->relative_attention_max_distance)
        return "relative_attention_max_distance";
    if (x->layer_norm_epsilon != y->layer_norm_epsilon)
        return "layer_norm_epsilon";
    if (x->unscaled != y->unscaled)
        return "scale_decoder_outputs";
    return activation_of((const br_t5 *)a) != activation_of((const br_t5 *)b) ? "dense_act_fn"
                                                                              : NULL;
}

/* ---- Running models -------------------------------------------------------------------------- */

static br_tensor *encode(br_module *model, const br_token_batch *batch)
{
    return br_t5_encode((br_t5 *)model, batch->ids, batch->attention_mask);
}

static br_tensor *run_base(br_module *model, const br_model_input *input)
{
    return br_t5_decode((br_t5 *)model, input->decoder_ids, encode(model, &input->batch),
                        BR_OPTIONS(br_t5, .attention_mask = input->batch.attention_mask));
}

static br_tensor *run_generation(br_module *model, const br_model_input *input)
{
    return br_t5_logits((br_t5 *)model, run_base(model, input));
}

static br_tensor *next_logits(void *context, br_tensor *ids, br_tensor *attention_mask,
                              br_cache *cache)
{
    const br_model_source *s = context;
    br_t5_source source = { (br_t5 *)s->model, s->memory, s->attention_mask };
    br_language_model lm = br_t5_language_model(&source);
    return lm.next(lm.model, ids, attention_mask, cache);
}

static br_language_model language_model(br_model_source *source)
{
    return (br_language_model){ .model = source, .next = next_logits };
}

static br_tensor *start(br_module *model, int64_t n)
{
    return br_t5_start((const br_t5 *)model, n);
}

static br_tensor *shift_right(br_module *model, br_tensor *labels)
{
    return br_t5_shift_right((const br_t5 *)model, labels);
}

static const br_encoder_decoder encoder_decoder = { encode, start, shift_right };

/* ---- The family ------------------------------------------------------------------------------ */

static const br_model_class classes[] = {
    {
        .name = zoo_t5_model,
        .task = BR_TASK_BASE,
        .make = make_base,
        .forward = run_base,
        .encoder_decoder = &encoder_decoder,
    },
    {
        .name = zoo_t5_generation,
        .task = BR_TASK_SEQ2SEQ_LM,
        .make = make_generation,
        .forward = run_generation,
        .language_model = language_model,
        .encoder_decoder = &encoder_decoder,
        .shows_attention = true,
    },
    { .name = NULL },
};

static const char *const ignored[] = { "EncDecAttention.relative_attention_bias.weight", NULL };
static const char *const layers[] = { "num_hidden_layers", "num_decoder_layers", NULL };
static const br_config_rows rows[] = { { "vocab_size", "shared.weight" }, { NULL, NULL } };

static const char *const kept_in_f32[] = { "wo", NULL };

const br_model_family zoo_t5_family = {
    .model_type = "t5",
    .config = { .defaults = defaults, .aliases = aliases, .limits = limits, .harmless = harmless },
    .classes = classes,
    .tokenizer_class = "T5Tokenizer",
    .keys = { .prefix = "transformer.", .ignored = ignored },
    .init = init,
    .kept_in_f32 = kept_in_f32,
    .always_ties = true,
    .layers = layers,
    .rows = rows,
    .differing_key = differing_key,
};
