/* models/anatomy.c - Transformer Anatomy: the notebook's functions and classes, in its order.
 *
 * Constructors generate random numbers in the notebook's order, so the same seed gives PyTorch's
 * initial weights. */
#include "models/models_internal.h"

#include <brasa/models/anatomy.h>
#include <math.h>

/* ---- Configuration --------------------------------------------------------------------------- */

br_anatomy_config br_anatomy_notebook_config(void)
{
    return (br_anatomy_config){
        .vocab_size = 30522,
        .hidden_size = 768,
        .num_hidden_layers = 12,
        .num_attention_heads = 12,
        .intermediate_size = 3072,
        .max_position_embeddings = 512,
        .num_labels = 2,
        .hidden_dropout_prob = 0.1,
    };
}

br_anatomy_config br_anatomy_config_from(const br_auto_config *config)
{
    br_anatomy_config c = {
        .vocab_size = br_auto_config_size(config, "vocab_size"),
        .hidden_size = br_auto_config_size(config, "hidden_size"),
        .num_hidden_layers = br_auto_config_size(config, "num_hidden_layers"),
        .num_attention_heads = br_auto_config_size(config, "num_attention_heads"),
        .intermediate_size = br_auto_config_size(config, "intermediate_size"),
        .max_position_embeddings = br_auto_config_size(config, "max_position_embeddings"),
        .num_labels = br_auto_config_size(config, "num_labels"),
        .hidden_dropout_prob = br_auto_config_probability(config, "hidden_dropout_prob"),
    };
    if (br_auto_config_has(config, "pad_token_id"))
        c.pad_token_id = br_auto_config_integer(config, "pad_token_id");
    bool good = br_auto_config_multiple(config, "hidden_size", "num_attention_heads");
    return good ? c : (br_anatomy_config){ 0 };
}

static bool good_size(const char *name, int64_t size)
{
    return zoo_good_size("anatomy", name, size);
}

static bool good_config(const br_anatomy_config *config)
{
    return zoo_good_config("anatomy", config) && good_size("vocab_size", config->vocab_size) &&
           good_size("num_hidden_layers", config->num_hidden_layers) &&
           good_size("intermediate_size", config->intermediate_size) &&
           good_size("max_position_embeddings", config->max_position_embeddings) &&
           good_size("num_labels", config->num_labels) &&
           zoo_good_multiple("anatomy", "hidden_size", config->hidden_size, "num_attention_heads",
                             config->num_attention_heads);
}

/* Returns the configuration to build from. If it is invalid, an error is pending: returns an empty
 * one, so that the constructors can go on and do nothing. */
static br_anatomy_config config_or_minimum(const br_anatomy_config *config)
{
    return good_config(config) ? *config : (br_anatomy_config){ .num_attention_heads = 1 };
}

/* The eps of the embeddings' norm and, with small_eps, of the encoder's norms. */
static const double EPS = 1e-12;

static br_layer_norm *encoder_norm(br_anatomy_config c)
{
    return br_layer_norm_new(c.hidden_size,
                             c.small_eps ? BR_OPTIONS(br_layer_norm, .eps = EPS) : NULL);
}

/* ---- scaled_dot_product_attention ------------------------------------------------------------ */

static br_tensor *mask_scores(br_tensor *scores, br_tensor *mask)
{
    if (!mask)
        return scores;
    return br_require_tensor("attention", "mask", mask)
               ? br_masked_fill(scores, br_eq_scalar(mask, 0), -INFINITY)
               : NULL;
}

/* Computes attention, with dropout of the weights if `dropout` is not NULL. */
static br_tensor *attention(br_tensor *query, br_tensor *key, br_tensor *value, br_tensor *mask,
                            br_dropout *dropout)
{
    br_scope *scope = br_scope_begin();
    double dim_k = (double)br_size(query, -1);
    br_tensor *scores = br_div_scalar(br_bmm(query, br_transpose(key, 1, 2)), sqrt(dim_k));
    br_tensor *weights = br_softmax(mask_scores(scores, mask), -1);
    br_tap_attention(query, key, weights, false);
    if (dropout)
        weights = br_dropout_forward(dropout, weights);
    br_tensor *output = br_scope_return(scope, br_bmm(weights, value));
    br_scope_end(scope);
    return output;
}

br_tensor *br_anatomy_scaled_dot_product_attention(br_tensor *query, br_tensor *key,
                                                   br_tensor *value, br_tensor *mask)
{
    const char *op = "scaled_dot_product_attention";
    if (!br_require_tensor(op, "query", query) || !br_require_tensor(op, "key", key) ||
        !br_require_tensor(op, "value", value) || (mask && !br_require_tensor(op, "mask", mask)))
        return NULL;
    return attention(query, key, value, mask, NULL);
}

br_tensor *br_anatomy_causal_mask(int64_t seq_len)
{
    br_scope *scope = br_scope_begin();
    br_tensor *ones = br_ones(BR_SHAPE(seq_len, seq_len), BR_F32);
    br_tensor *mask = br_scope_return(scope, br_unsqueeze(br_tril(ones, 0), 0));
    br_scope_end(scope);
    return mask;
}

/* ---- Simplified attention -------------------------------------------------------------------- */

br_anatomy_simplified_attention *br_anatomy_simplified_attention_new(int64_t vocab_size,
                                                                     int64_t hidden_size)
{
    br_anatomy_simplified_attention *self = br_module_new(br_anatomy_simplified_attention);
    self->token_emb = br_child(self, "token_emb", br_embedding_new(vocab_size, hidden_size, -1));
    return self;
}

br_anatomy_simplified_steps br_anatomy_simplified_attention_forward(
    br_anatomy_simplified_attention *self, br_tensor *input_ids)
{
    br_anatomy_simplified_steps s = { 0 };
    if (!br_require_tensor("simplified_attention", "input_ids", input_ids) ||
        !br_module_enter(self ? br_base(self) : NULL))
        return s;
    s.inputs_embeds = br_embedding_forward(self->token_emb, input_ids);
    br_tensor *query = s.inputs_embeds, *key = s.inputs_embeds, *value = s.inputs_embeds;
    double dim_k = (double)br_size(key, -1);
    s.scores = br_div_scalar(br_bmm(query, br_transpose(key, 1, 2)), sqrt(dim_k));
    s.weights = br_tap_attention(query, key, br_softmax(s.scores, -1), false);
    s.attn_outputs = br_bmm(s.weights, value);
    br_scope_return(NULL, s.inputs_embeds);
    br_scope_return(NULL, s.scores);
    br_scope_return(NULL, s.weights);
    br_leave(self, s.attn_outputs);
    return s.attn_outputs ? s : (br_anatomy_simplified_steps){ 0 };
}

/* ---- AttentionHead --------------------------------------------------------------------------- */

br_anatomy_attention_head *br_anatomy_attention_head_new(int64_t embed_dim, int64_t head_dim)
{
    br_anatomy_attention_head *self = br_module_new(br_anatomy_attention_head);
    self->q = br_child(self, "q", br_linear_new(embed_dim, head_dim, true));
    self->k = br_child(self, "k", br_linear_new(embed_dim, head_dim, true));
    self->v = br_child(self, "v", br_linear_new(embed_dim, head_dim, true));
    return self;
}

br_tensor *br_anatomy_attention_head_forward(br_anatomy_attention_head *self,
                                             br_tensor *hidden_state, br_tensor *mask)
{
    br_enter(self);
    br_tensor *q = br_linear_forward(self->q, hidden_state);
    br_tensor *k = br_linear_forward(self->k, hidden_state);
    br_tensor *v = br_linear_forward(self->v, hidden_state);
    return br_leave(self, attention(q, k, v, mask, self->dropout));
}

/* ---- MultiHeadAttention ---------------------------------------------------------------------- */

static br_anatomy_attention_head *new_head(br_anatomy_config c)
{
    int64_t head_dim = c.hidden_size / c.num_attention_heads;
    br_anatomy_attention_head *head = br_anatomy_attention_head_new(c.hidden_size, head_dim);
    if (c.attention_dropout)
        head->dropout = br_child(head, "dropout", br_dropout_new(c.hidden_dropout_prob));
    return head;
}

br_anatomy_multi_head_attention *br_anatomy_multi_head_attention_new(
    const br_anatomy_config *config)
{
    br_anatomy_config c = config_or_minimum(config);
    br_anatomy_multi_head_attention *self = br_module_new(br_anatomy_multi_head_attention);
    self->heads = br_child(self, "heads", br_module_list_new());
    for (int64_t i = 0; i < c.num_attention_heads && !br_error_pending(); i++)
        br_module_list_append(self->heads, new_head(c));
    self->output_linear =
        br_child(self, "output_linear", br_linear_new(c.hidden_size, c.hidden_size, true));
    if (c.attention_dropout)
        self->dropout = br_child(self, "dropout", br_dropout_new(c.hidden_dropout_prob));
    return self;
}

/* Concatenates the heads' outputs along the last dimension. */
static br_tensor *cat_heads(br_module_list *heads, br_tensor *hidden_state, br_tensor *mask)
{
    int64_t n = br_module_list_size(heads);
    br_tensor **outputs = br_calloc((size_t)n, sizeof *outputs);
    for (int64_t i = 0; i < n && !br_error_pending(); i++)
        outputs[i] =
            br_anatomy_attention_head_forward(br_module_list_at(heads, i), hidden_state, mask);
    br_tensor *x = br_cat((int)n, outputs, -1);
    br_free(outputs);
    return x;
}

br_tensor *br_anatomy_multi_head_attention_forward(br_anatomy_multi_head_attention *self,
                                                   br_tensor *hidden_state, br_tensor *mask)
{
    br_enter(self);
    br_tensor *x = cat_heads(self->heads, hidden_state, mask);
    x = br_linear_forward(self->output_linear, x);
    if (self->dropout)
        x = br_dropout_forward(self->dropout, x);
    return br_leave(self, x);
}

/* ---- FeedForward ----------------------------------------------------------------------------- */

br_anatomy_feed_forward *br_anatomy_feed_forward_new(const br_anatomy_config *config)
{
    br_anatomy_config c = config_or_minimum(config);
    br_anatomy_feed_forward *self = br_module_new(br_anatomy_feed_forward);
    self->linear_1 =
        br_child(self, "linear_1", br_linear_new(c.hidden_size, c.intermediate_size, true));
    self->linear_2 =
        br_child(self, "linear_2", br_linear_new(c.intermediate_size, c.hidden_size, true));
    br_activation *gelu = br_gelu_new(BR_GELU_ERF);
    gelu->inplace = true;
    self->gelu = br_child(self, "gelu", gelu);
    self->dropout = br_child(self, "dropout", br_dropout_new(c.hidden_dropout_prob));
    return self;
}

br_tensor *br_anatomy_feed_forward_forward(br_anatomy_feed_forward *self, br_tensor *x)
{
    br_enter(self);
    x = br_linear_forward(self->linear_1, x);
    x = br_activation_forward(self->gelu, x);
    x = br_linear_forward(self->linear_2, x);
    x = br_dropout_forward(self->dropout, x);
    return br_leave(self, x);
}

/* ---- TransformerEncoderLayer ----------------------------------------------------------------- */

br_anatomy_encoder_layer *br_anatomy_encoder_layer_new(const br_anatomy_config *config)
{
    br_anatomy_config c = config_or_minimum(config);
    br_anatomy_encoder_layer *self = br_module_new(br_anatomy_encoder_layer);
    self->layer_norm_1 = br_child(self, "layer_norm_1", encoder_norm(c));
    self->layer_norm_2 = br_child(self, "layer_norm_2", encoder_norm(c));
    self->attention = br_child(self, "attention", br_anatomy_multi_head_attention_new(config));
    self->feed_forward = br_child(self, "feed_forward", br_anatomy_feed_forward_new(config));
    return self;
}

static br_tensor *run_encoder_layer(void *module, br_tensor *const *inputs, const void *args)
{
    (void)args;
    br_anatomy_encoder_layer *self = module;
    br_enter(self);
    br_tensor *x = inputs[0], *mask = inputs[1];
    br_tensor *hidden_state = br_layer_norm_forward(self->layer_norm_1, x);
    x = br_add(x, br_anatomy_multi_head_attention_forward(self->attention, hidden_state, mask));
    hidden_state = br_layer_norm_forward(self->layer_norm_2, x);
    x = br_add(x, br_anatomy_feed_forward_forward(self->feed_forward, hidden_state));
    return br_leave(self, x);
}

br_tensor *br_anatomy_encoder_layer_forward(br_anatomy_encoder_layer *self, br_tensor *x,
                                            br_tensor *mask)
{
    return br_module_run(self, run_encoder_layer, BR_INPUTS(x, mask), NULL, 0);
}

/* ---- Embeddings ------------------------------------------------------------------------------ */

br_anatomy_embeddings *br_anatomy_embeddings_new(const br_anatomy_config *config)
{
    br_anatomy_config c = config_or_minimum(config);
    br_anatomy_embeddings *self = br_module_new(br_anatomy_embeddings);
    self->token_embeddings =
        br_child(self, "token_embeddings", br_embedding_new(c.vocab_size, c.hidden_size, -1));
    self->position_embeddings =
        br_child(self, "position_embeddings",
                 br_embedding_new(c.max_position_embeddings, c.hidden_size, -1));
    self->layer_norm =
        br_child(self, "layer_norm",
                 br_layer_norm_new(c.hidden_size, BR_OPTIONS(br_layer_norm, .eps = EPS)));
    self->dropout = br_child(self, "dropout", br_dropout_new(c.hidden_dropout_prob));
    return self;
}

br_tensor *br_anatomy_embeddings_forward(br_anatomy_embeddings *self, br_tensor *input_ids)
{
    br_enter(self);
    br_require_tensor("embeddings", "input_ids", input_ids);
    int64_t seq_length = br_size(input_ids, 1);
    br_tensor *position_ids =
        br_unsqueeze(br_new_arange(input_ids, 0, (double)seq_length, 1, BR_I64), 0);
    br_tensor *token_embeddings = br_embedding_forward(self->token_embeddings, input_ids);
    br_tensor *position_embeddings = br_embedding_forward(self->position_embeddings, position_ids);
    br_tensor *embeddings = br_add(token_embeddings, position_embeddings);
    embeddings = br_layer_norm_forward(self->layer_norm, embeddings);
    embeddings = br_dropout_forward(self->dropout, embeddings);
    return br_leave(self, embeddings);
}

/* ---- TransformerEncoder ---------------------------------------------------------------------- */

br_anatomy_encoder *br_anatomy_encoder_new(const br_anatomy_config *config)
{
    br_anatomy_config c = config_or_minimum(config);
    br_anatomy_encoder *self = br_module_new(br_anatomy_encoder);
    self->config = c;
    self->embeddings = br_child(self, "embeddings", br_anatomy_embeddings_new(config));
    self->layers = br_child(self, "layers", br_module_list_new());
    for (int64_t i = 0; i < c.num_hidden_layers && !br_error_pending(); i++)
        br_module_list_append(self->layers, br_anatomy_encoder_layer_new(config));
    if (c.final_norm)
        self->layer_norm = br_child(self, "layer_norm", encoder_norm(c));
    return self;
}

br_tensor *br_anatomy_encoder_forward(br_anatomy_encoder *self, br_tensor *x)
{
    br_enter(self);
    br_tensor *mask = NULL;
    if (self->config.mask_padding) /* [B, S] -> [B, 1, S], for all queries */
        mask = br_unsqueeze(br_ne_scalar(x, (double)self->config.pad_token_id), 1);
    x = br_anatomy_embeddings_forward(self->embeddings, x);
    for (int64_t i = 0; i < self->config.num_hidden_layers && !br_error_pending(); i++)
        x = br_scope_replace(
            x, br_anatomy_encoder_layer_forward(br_module_list_at(self->layers, i), x, mask));
    if (self->layer_norm)
        x = br_layer_norm_forward(self->layer_norm, x);
    return br_leave(self, x);
}

/* ---- TransformerForSequenceClassification ---------------------------------------------------- */

br_anatomy_classifier *br_anatomy_classifier_new(const br_anatomy_config *config)
{
    br_anatomy_config c = config_or_minimum(config);
    br_anatomy_classifier *self = br_module_new(br_anatomy_classifier);
    self->encoder = br_child(self, "encoder", br_anatomy_encoder_new(config));
    self->dropout = br_child(self, "dropout", br_dropout_new(c.hidden_dropout_prob));
    self->classifier =
        br_child(self, "classifier", br_linear_new(c.hidden_size, c.num_labels, true));
    return self;
}

br_tensor *br_anatomy_classifier_forward(br_anatomy_classifier *self, br_tensor *x)
{
    br_enter(self);
    x = br_select(br_anatomy_encoder_forward(self->encoder, x), 1, 0);
    x = br_dropout_forward(self->dropout, x);
    br_tensor *logits = br_linear_forward(self->classifier, x);
    return br_leave(self, logits);
}
