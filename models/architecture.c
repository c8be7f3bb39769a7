/* models/architecture.c - Transformers Architecture: the notebook's functions and classes, in its
 * order. Its masks and data are in architecture_data.c.
 *
 * Constructors generate random numbers in the notebook's order, so the same seed gives PyTorch's
 * initial weights. */
#include "models/models_internal.h"

#include <brasa/models/architecture.h>
#include <math.h>

/* ---- Configuration --------------------------------------------------------------------------- */

br_architecture_config br_architecture_bert_config(void)
{
    return (br_architecture_config){
        .hidden_size = 768,
        .intermediate_size = 3072,
        .num_hidden_layers = 12,
        .vocab_size = 30522,
        .max_position_embeddings = 512,
        .hidden_dropout_prob = 0.1,
        .num_attention_heads = 12,
        .num_labels = 2,
    };
}

br_architecture_config br_architecture_notebook_config(void)
{
    return (br_architecture_config){
        .hidden_size = 512,
        .intermediate_size = 2048,
        .num_hidden_layers = 6,
        .vocab_size = 100,
        .max_position_embeddings = 512,
        .hidden_dropout_prob = 0.1,
        .num_attention_heads = 8,
    };
}

br_architecture_config br_architecture_config_from(const br_auto_config *config)
{
    br_architecture_config c = {
        .hidden_size = br_auto_config_size(config, "hidden_size"),
        .intermediate_size = br_auto_config_size(config, "intermediate_size"),
        .num_hidden_layers = br_auto_config_size(config, "num_hidden_layers"),
        .vocab_size = br_auto_config_size(config, "vocab_size"),
        .max_position_embeddings = br_auto_config_size(config, "max_position_embeddings"),
        .hidden_dropout_prob = br_auto_config_probability(config, "hidden_dropout_prob"),
        .num_attention_heads = br_auto_config_size(config, "num_attention_heads"),
        .num_labels = br_auto_config_size(config, "num_labels"),
    };
    if (br_auto_config_has(config, "pad_token_id"))
        c.pad_token_id = br_auto_config_integer(config, "pad_token_id");
    bool good = br_auto_config_multiple(config, "hidden_size", "num_attention_heads");
    return good ? c : (br_architecture_config){ 0 };
}

static bool good_size(const char *name, int64_t size)
{
    return zoo_good_size("architecture", name, size);
}

static bool good_config(const br_architecture_config *config)
{
    return zoo_good_config("architecture", config) && good_size("vocab_size", config->vocab_size) &&
           good_size("num_hidden_layers", config->num_hidden_layers) &&
           good_size("intermediate_size", config->intermediate_size) &&
           good_size("max_position_embeddings", config->max_position_embeddings) &&
           zoo_good_multiple("architecture", "hidden_size", config->hidden_size,
                             "num_attention_heads", config->num_attention_heads);
}

/* Returns the configuration to build from. If it is invalid, an error is pending: returns an empty
 * one, so that the constructors can go on and do nothing. */
static br_architecture_config config_or_minimum(const br_architecture_config *config)
{
    return good_config(config) ? *config : (br_architecture_config){ .num_attention_heads = 1 };
}

/* The eps of Embeddings' norm and, with small_eps, of the other norms. */
static const double EPS = 1e-12;

static br_layer_norm *new_norm(br_architecture_config c)
{
    return br_layer_norm_new(c.hidden_size,
                             c.small_eps ? BR_OPTIONS(br_layer_norm, .eps = EPS) : NULL);
}

/* ---- scaled_dot_product_attention ------------------------------------------------------------ */

static br_tensor *attend(br_tensor *query, br_tensor *key, br_tensor *value, br_tensor *mask,
                         br_dropout *dropout, bool cross)
{
    br_scope *scope = br_scope_begin();
    double dim_k = (double)br_size(query, -1);
    br_tensor *scores = br_div_scalar(br_matmul(query, br_transpose(key, -2, -1)), sqrt(dim_k));
    if (mask)
        scores = br_masked_fill(scores, br_eq_scalar(br_unsqueeze(mask, 1), 0), -INFINITY);
    br_tensor *weights = br_tap_attention(query, key, br_softmax(scores, -1), cross);
    if (dropout)
        weights = br_dropout_forward(dropout, weights);
    br_tensor *output = br_scope_return(scope, br_matmul(weights, value));
    br_scope_end(scope);
    return output;
}

br_tensor *br_architecture_scaled_dot_product_attention(br_tensor *query, br_tensor *key,
                                                        br_tensor *value, br_tensor *mask,
                                                        br_dropout *dropout)
{
    const char *op = "scaled_dot_product_attention";
    if (!br_require_tensor(op, "query", query) || !br_require_tensor(op, "key", key) ||
        !br_require_tensor(op, "value", value) || (mask && !br_require_tensor(op, "mask", mask)))
        return NULL;
    return attend(query, key, value, mask, dropout, false);
}

/* ---- MultiHeadAttention ---------------------------------------------------------------------- */

br_architecture_multi_head_attention *br_architecture_multi_head_attention_new(
    const br_architecture_config *config)
{
    br_architecture_config c = config_or_minimum(config);
    br_architecture_multi_head_attention *self =
        br_module_new(br_architecture_multi_head_attention);
    self->embed_dim = c.hidden_size;
    self->num_heads = c.num_attention_heads;
    self->head_dim = c.hidden_size / c.num_attention_heads;
    self->q = br_child(self, "q", br_linear_new(c.hidden_size, c.hidden_size, true));
    self->k = br_child(self, "k", br_linear_new(c.hidden_size, c.hidden_size, true));
    self->v = br_child(self, "v", br_linear_new(c.hidden_size, c.hidden_size, true));
    self->output_linear =
        br_child(self, "output_linear", br_linear_new(c.hidden_size, c.hidden_size, true));
    self->dropout = br_child(self, "dropout", br_dropout_new(c.hidden_dropout_prob));
    return self;
}

/* [B, S, embed_dim] -> [B, num_heads, S, head_dim] */
static br_tensor *split_heads(br_architecture_multi_head_attention *self, br_tensor *x)
{
    x = br_view(x, BR_SHAPE(br_size(x, 0), -1, self->num_heads, self->head_dim));
    return br_transpose(x, 1, 2);
}

br_tensor *br_architecture_multi_head_attention_forward(br_architecture_multi_head_attention *self,
                                                        br_tensor *query, br_tensor *key,
                                                        br_tensor *value, br_tensor *mask)
{
    br_enter(self);
    if (mask)
        br_require_tensor("multi_head_attention", "mask", mask);
    br_tensor *q = split_heads(self, br_linear_forward(self->q, query));
    br_tensor *k = split_heads(self, br_linear_forward(self->k, key));
    br_tensor *v = split_heads(self, br_linear_forward(self->v, value));
    br_tensor *attn = attend(q, k, v, mask, self->dropout, query != key);
    attn = br_transpose(attn, 1, 2);
    attn = br_reshape(attn, BR_SHAPE(br_size(attn, 0), -1, self->embed_dim));
    return br_leave(self, br_linear_forward(self->output_linear, attn));
}

/* ---- FeedForward ----------------------------------------------------------------------------- */

br_architecture_feed_forward *br_architecture_feed_forward_new(const br_architecture_config *config)
{
    br_architecture_config c = config_or_minimum(config);
    br_architecture_feed_forward *self = br_module_new(br_architecture_feed_forward);
    self->linear_1 =
        br_child(self, "linear_1", br_linear_new(c.hidden_size, c.intermediate_size, true));
    self->linear_2 =
        br_child(self, "linear_2", br_linear_new(c.intermediate_size, c.hidden_size, true));
    br_activation *relu = br_relu_new();
    relu->inplace = true;
    self->relu = br_child(self, "relu", relu);
    self->dropout = br_child(self, "dropout", br_dropout_new(c.hidden_dropout_prob));
    return self;
}

br_tensor *br_architecture_feed_forward_forward(br_architecture_feed_forward *self, br_tensor *x)
{
    br_enter(self);
    x = br_linear_forward(self->linear_1, x);
    x = br_activation_forward(self->relu, x);
    x = br_linear_forward(self->linear_2, x);
    x = br_dropout_forward(self->dropout, x);
    return br_leave(self, x);
}

/* ---- TransformerEncoderBlock ----------------------------------------------------------------- */

br_architecture_encoder_block *br_architecture_encoder_block_new(
    const br_architecture_config *config)
{
    br_architecture_config c = config_or_minimum(config);
    br_architecture_encoder_block *self = br_module_new(br_architecture_encoder_block);
    self->config = c;
    self->layer_norm_1 = br_child(self, "layer_norm_1", new_norm(c));
    self->layer_norm_2 = br_child(self, "layer_norm_2", new_norm(c));
    self->attention = br_child(self, "attention", br_architecture_multi_head_attention_new(config));
    self->feed_forward = br_child(self, "feed_forward", br_architecture_feed_forward_new(config));
    self->dropout = br_child(self, "dropout", br_dropout_new(c.hidden_dropout_prob));
    return self;
}

static br_tensor *run_encoder_block(void *module, br_tensor *const *inputs, const void *args)
{
    (void)args;
    br_architecture_encoder_block *self = module;
    br_enter(self);
    br_tensor *x = inputs[0], *mask = inputs[1];
    br_tensor *hidden_state = br_layer_norm_forward(self->layer_norm_1, x);
    br_tensor *attention_output = br_architecture_multi_head_attention_forward(
        self->attention, hidden_state, hidden_state, hidden_state, mask);
    br_tensor *added = self->config.add_attention ? attention_output : x;
    x = br_add(x, br_dropout_forward(self->dropout, added));
    hidden_state = br_layer_norm_forward(self->layer_norm_2, x);
    x = self->config.pre_norm ? x : hidden_state;
    x = br_add(x, br_architecture_feed_forward_forward(self->feed_forward, hidden_state));
    if (!self->config.dropout_once)
        x = br_dropout_forward(self->dropout, x);
    return br_leave(self, x);
}

br_tensor *br_architecture_encoder_block_forward(br_architecture_encoder_block *self, br_tensor *x,
                                                 br_tensor *mask)
{
    return br_module_run(self, run_encoder_block, BR_INPUTS(x, mask), NULL, 0);
}

/* ---- Embeddings ------------------------------------------------------------------------------ */

br_architecture_embeddings *br_architecture_embeddings_new(const br_architecture_config *config)
{
    br_architecture_config c = config_or_minimum(config);
    br_architecture_embeddings *self = br_module_new(br_architecture_embeddings);
    self->token_embeddings =
        br_child(self, "token_embeddings", br_embedding_new(c.vocab_size, c.hidden_size, -1));
    self->position_embeddings =
        br_child(self, "position_embeddings",
                 br_embedding_new(c.max_position_embeddings, c.hidden_size, -1));
    self->layer_norm =
        br_child(self, "layer_norm",
                 br_layer_norm_new(c.hidden_size, BR_OPTIONS(br_layer_norm, .eps = EPS)));
    self->dropout = br_child(self, "dropout",
                             br_dropout_new(c.embedding_dropout ? c.hidden_dropout_prob : 0.5));
    return self;
}

br_tensor *br_architecture_embeddings_forward(br_architecture_embeddings *self,
                                              br_tensor *input_ids)
{
    br_enter(self);
    br_tensor *token_embeddings = br_embedding_forward(self->token_embeddings, input_ids);
    int64_t seq_length = br_size(input_ids, 1);
    br_tensor *position_ids =
        br_unsqueeze(br_new_arange(input_ids, 0, (double)seq_length, 1, BR_I64), 0);
    br_tensor *position_embeddings = br_embedding_forward(self->position_embeddings, position_ids);
    br_tensor *embeddings = br_add(token_embeddings, position_embeddings);
    embeddings = br_layer_norm_forward(self->layer_norm, embeddings);
    embeddings = br_dropout_forward(self->dropout, embeddings);
    return br_leave(self, embeddings);
}

/* ---- TransformerEncoder ---------------------------------------------------------------------- */

br_architecture_encoder *br_architecture_encoder_new(const br_architecture_config *config)
{
    br_architecture_config c = config_or_minimum(config);
    br_architecture_encoder *self = br_module_new(br_architecture_encoder);
    self->embeddings = br_child(self, "embeddings", br_architecture_embeddings_new(config));
    self->layers = br_child(self, "layers", br_module_list_new());
    for (int64_t i = 0; i < c.num_hidden_layers && !br_error_pending(); i++)
        br_module_list_append(self->layers, br_architecture_encoder_block_new(config));
    if (c.pre_norm)
        self->layer_norm = br_child(self, "layer_norm", new_norm(c));
    return self;
}

br_tensor *br_architecture_encoder_forward(br_architecture_encoder *self, br_tensor *x,
                                           br_tensor *mask)
{
    br_enter(self);
    x = br_architecture_embeddings_forward(self->embeddings, x);
    for (int64_t i = 0; i < br_module_list_size(self->layers) && !br_error_pending(); i++)
        x = br_scope_replace(
            x, br_architecture_encoder_block_forward(br_module_list_at(self->layers, i), x, mask));
    if (self->layer_norm)
        x = br_layer_norm_forward(self->layer_norm, x);
    return br_leave(self, x);
}

/* ---- TransformerForSequenceClassification ---------------------------------------------------- */

br_architecture_classifier *br_architecture_classifier_new(const br_architecture_config *config)
{
    br_architecture_config c = config_or_minimum(config);
    good_size("num_labels", c.num_labels);
    br_architecture_classifier *self = br_module_new(br_architecture_classifier);
    self->config = c;
    self->encoder = br_child(self, "encoder", br_architecture_encoder_new(config));
    self->dropout = br_child(self, "dropout", br_dropout_new(c.hidden_dropout_prob));
    self->classifier =
        br_child(self, "classifier", br_linear_new(c.hidden_size, c.num_labels, true));
    return self;
}

br_tensor *br_architecture_classifier_forward(br_architecture_classifier *self, br_tensor *x)
{
    br_enter(self);
    br_tensor *mask = NULL;
    if (self->config.mask_padding) /* [B, S] -> [B, 1, S], for all queries */
        mask = br_unsqueeze(br_ne_scalar(x, (double)self->config.pad_token_id), 1);
    x = br_select(br_architecture_encoder_forward(self->encoder, x, mask), 1, 0);
    x = br_dropout_forward(self->dropout, x);
    x = br_linear_forward(self->classifier, x);
    return br_leave(self, x);
}

/* ---- TransformerDecoderBlock ----------------------------------------------------------------- */

br_architecture_decoder_block *br_architecture_decoder_block_new(
    const br_architecture_config *config)
{
    br_architecture_config c = config_or_minimum(config);
    br_architecture_decoder_block *self = br_module_new(br_architecture_decoder_block);
    self->config = c;
    self->layer_norm_1 = br_child(self, "layer_norm_1", new_norm(c));
    self->layer_norm_2 = br_child(self, "layer_norm_2", new_norm(c));
    self->layer_norm_3 = br_child(self, "layer_norm_3", new_norm(c));
    self->attn_1 = br_child(self, "attn_1", br_architecture_multi_head_attention_new(config));
    self->attn_2 = br_child(self, "attn_2", br_architecture_multi_head_attention_new(config));
    self->feed_forward = br_child(self, "feed_forward", br_architecture_feed_forward_new(config));
    self->dropout = br_child(self, "dropout", br_dropout_new(c.hidden_dropout_prob));
    return self;
}

static br_tensor *run_decoder_block(void *module, br_tensor *const *inputs, const void *args)
{
    (void)args;
    br_architecture_decoder_block *self = module;
    br_enter(self);
    br_tensor *x = inputs[0], *encoder_output = inputs[1];
    br_tensor *source_mask = inputs[2], *target_mask = inputs[3];
    bool pre_norm = self->config.pre_norm;
    br_tensor *hidden_state = br_layer_norm_forward(self->layer_norm_1, x);

    br_tensor *attn_1_out = br_architecture_multi_head_attention_forward(
        self->attn_1, hidden_state, hidden_state, hidden_state, target_mask);
    x = br_add(x, br_dropout_forward(self->dropout, attn_1_out));
    hidden_state = br_layer_norm_forward(self->layer_norm_2, x);
    x = pre_norm ? x : hidden_state;

    br_tensor *attn_2_out = br_architecture_multi_head_attention_forward(
        self->attn_2, hidden_state, encoder_output, encoder_output, source_mask);
    x = br_add(x, br_dropout_forward(self->dropout, attn_2_out));
    hidden_state = br_layer_norm_forward(self->layer_norm_3, x);
    x = pre_norm ? x : hidden_state;

    br_tensor *feed_forward_output =
        br_architecture_feed_forward_forward(self->feed_forward, hidden_state);
    if (!self->config.dropout_once)
        feed_forward_output = br_dropout_forward(self->dropout, feed_forward_output);
    return br_leave(self, br_add(x, feed_forward_output));
}

br_tensor *br_architecture_decoder_block_forward(br_architecture_decoder_block *self, br_tensor *x,
                                                 br_tensor *encoder_output, br_tensor *source_mask,
                                                 br_tensor *target_mask)
{
    return br_module_run(self, run_decoder_block,
                         BR_INPUTS(x, encoder_output, source_mask, target_mask), NULL, 0);
}

/* ---- TransformerDecoder ---------------------------------------------------------------------- */

br_architecture_decoder *br_architecture_decoder_new(const br_architecture_config *config)
{
    br_architecture_config c = config_or_minimum(config);
    br_architecture_decoder *self = br_module_new(br_architecture_decoder);
    self->embeddings = br_child(self, "embeddings", br_architecture_embeddings_new(config));
    self->layers = br_child(self, "layers", br_module_list_new());
    for (int64_t i = 0; i < c.num_hidden_layers && !br_error_pending(); i++)
        br_module_list_append(self->layers, br_architecture_decoder_block_new(config));
    if (c.pre_norm)
        self->layer_norm = br_child(self, "layer_norm", new_norm(c));
    return self;
}

br_tensor *br_architecture_decoder_forward(br_architecture_decoder *self, br_tensor *input_ids,
                                           br_tensor *encoder_output, br_tensor *source_mask,
                                           br_tensor *target_mask)
{
    br_enter(self);
    br_tensor *x = br_architecture_embeddings_forward(self->embeddings, input_ids);
    for (int64_t i = 0; i < br_module_list_size(self->layers) && !br_error_pending(); i++)
        x = br_scope_replace(
            x, br_architecture_decoder_block_forward(br_module_list_at(self->layers, i), x,
                                                     encoder_output, source_mask, target_mask));
    if (self->layer_norm)
        x = br_layer_norm_forward(self->layer_norm, x);
    return br_leave(self, x);
}

/* ---- EncoderDecoder -------------------------------------------------------------------------- */

br_architecture_encoder_decoder *br_architecture_encoder_decoder_new(
    const br_architecture_config *config)
{
    br_architecture_config c = config_or_minimum(config);
    br_architecture_encoder_decoder *self = br_module_new(br_architecture_encoder_decoder);
    self->config = c;
    self->encoder = br_child(self, "encoder", br_architecture_encoder_new(config));
    self->decoder = br_child(self, "decoder", br_architecture_decoder_new(config));
    self->fc = br_child(self, "fc", br_linear_new(c.hidden_size, c.vocab_size, true));
    return self;
}

br_tensor *br_architecture_encoder_decoder_forward(br_architecture_encoder_decoder *self,
                                                   br_tensor *input_ids, br_tensor *target_ids,
                                                   br_tensor *source_mask, br_tensor *target_mask)
{
    br_enter(self);
    br_tensor *encoder_output = br_architecture_encoder_forward(
        self->encoder, input_ids, self->config.mask_source ? source_mask : NULL);
    br_tensor *decoder_output = br_architecture_decoder_forward(
        self->decoder, target_ids, encoder_output, source_mask, target_mask);
    return br_leave(self, br_linear_forward(self->fc, decoder_output));
}
