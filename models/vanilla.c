/* models/vanilla.c - Vanilla Transformer: the notebook's classes, in its order.
 *
 * Constructors generate random numbers in the notebook's order, so the same seed gives PyTorch's
 * initial weights. */
#include "models/models_internal.h"

#include <brasa/models/vanilla.h>
#include <math.h>

/* ---- Configuration --------------------------------------------------------------------------- */

static bool good_size(const char *name, int64_t size)
{
    return zoo_good_size("vanilla", name, size);
}

static bool good_attention(const br_vanilla_config *c)
{
    return zoo_good_multiple("vanilla", "embed_dim", c->embed_dim, "n_heads", c->n_heads);
}

static bool good_layer(const br_vanilla_config *c)
{
    return good_attention(c) && good_size("ff_hid_dim", c->ff_hid_dim);
}

static bool good_block(const br_vanilla_config *c)
{
    return good_layer(c) && good_size("n_layers", c->n_layers) &&
           good_size("max_length", c->max_length) && good_size("vocab_size", c->vocab_size);
}

/* Returns the configuration to build from. If it is invalid, an error is pending: returns an empty
 * one, so that the constructors can go on and do nothing. */
static br_vanilla_config config_or_minimum(const br_vanilla_config *config,
                                           bool (*good)(const br_vanilla_config *))
{
    return zoo_good_config("vanilla", config) && good(config) ? *config
                                                              : (br_vanilla_config){ .n_heads = 1 };
}

/* ---- MultiHeadAttention ---------------------------------------------------------------------- */

br_vanilla_multi_head_attention *br_vanilla_multi_head_attention_new(
    const br_vanilla_config *config)
{
    br_vanilla_config c = config_or_minimum(config, good_attention);
    br_vanilla_multi_head_attention *self = br_module_new(br_vanilla_multi_head_attention);
    self->head_dim = c.embed_dim / c.n_heads;
    self->n_heads = c.n_heads;
    self->embed_dim = c.embed_dim;
    self->scale = sqrt((double)(c.scale_by_head_dim ? self->head_dim : c.embed_dim));
    self->fill = c.infinite_fill ? -INFINITY : -1e20;
    self->keys = br_child(self, "keys", br_linear_new(c.embed_dim, c.embed_dim, true));
    self->queries = br_child(self, "queries", br_linear_new(c.embed_dim, c.embed_dim, true));
    self->values = br_child(self, "values", br_linear_new(c.embed_dim, c.embed_dim, true));
    self->proj = br_child(self, "proj", br_linear_new(c.embed_dim, c.embed_dim, true));
    self->dropout = br_child(self, "dropout", br_dropout_new(c.dropout));
    return self;
}

/* [B, S, embed_dim] -> [B, n_heads, S, head_dim] */
static br_tensor *split_heads(const br_vanilla_multi_head_attention *self, br_tensor *x)
{
    x = br_view(x, BR_SHAPE(br_size(x, 0), -1, self->n_heads, self->head_dim));
    return br_permute(x, BR_DIMS(0, 2, 1, 3));
}

br_tensor *br_vanilla_multi_head_attention_forward(br_vanilla_multi_head_attention *self,
                                                   br_tensor *q, br_tensor *k, br_tensor *v,
                                                   br_tensor *mask)
{
    br_enter(self);
    br_tensor *Q = split_heads(self, br_linear_forward(self->queries, q));
    br_tensor *K = split_heads(self, br_linear_forward(self->keys, k));
    br_tensor *V = split_heads(self, br_linear_forward(self->values, v));

    br_tensor *energy = br_matmul(Q, br_permute(K, BR_DIMS(0, 1, 3, 2)));
    energy = br_div_scalar(energy, self->scale);
    if (mask && br_require_tensor("vanilla_multi_head_attention", "mask", mask))
        energy = br_masked_fill(energy, br_eq_scalar(mask, 0), self->fill);
    br_tensor *attention = br_tap_attention(Q, K, br_softmax(energy, -1), q != k);

    br_tensor *x = br_matmul(br_dropout_forward(self->dropout, attention), V);
    x = br_flatten(br_permute(x, BR_DIMS(0, 2, 1, 3)), 2, 3);
    return br_leave(self, br_linear_forward(self->proj, x));
}

/* ---- EncoderLayer ---------------------------------------------------------------------------- */

static br_sequential *new_mlp(br_vanilla_config c)
{
    void *linear_1 = br_linear_new(c.embed_dim, c.ff_hid_dim, true);
    br_activation *relu = br_relu_new();
    relu->inplace = true;
    void *dropout = br_dropout_new(c.dropout);
    void *linear_2 = br_linear_new(c.ff_hid_dim, c.embed_dim, true);
    return br_sequential_new(BR_MODULES(linear_1, relu, dropout, linear_2));
}

br_vanilla_encoder_layer *br_vanilla_encoder_layer_new(const br_vanilla_config *config)
{
    br_vanilla_config c = config_or_minimum(config, good_layer);
    br_vanilla_encoder_layer *self = br_module_new(br_vanilla_encoder_layer);
    self->sublayer_dropout = c.sublayer_dropout;
    self->attention = br_child(self, "attention", br_vanilla_multi_head_attention_new(&c));
    self->norm_1 = br_child(self, "norm_1", br_layer_norm_new(c.embed_dim, NULL));
    self->norm_2 = br_child(self, "norm_2", br_layer_norm_new(c.embed_dim, NULL));
    self->mlp = br_child(self, "mlp", new_mlp(c));
    self->dropout = br_child(self, "dropout", br_dropout_new(c.dropout));
    return self;
}

/* Adds the residual to a sublayer's output. As written, dropout applies to the residual. */
static br_tensor *add_residual(br_vanilla_encoder_layer *self, br_tensor *output,
                               br_tensor *residual)
{
    if (self->sublayer_dropout)
        return br_add(br_dropout_forward(self->dropout, output), residual);
    return br_add(output, br_dropout_forward(self->dropout, residual));
}

static br_tensor *run_encoder_layer(void *module, br_tensor *const *inputs, const void *args)
{
    (void)args;
    br_vanilla_encoder_layer *self = module;
    br_enter(self);
    br_tensor *src = inputs[0], *mask = inputs[1];
    br_tensor *attention =
        br_vanilla_multi_head_attention_forward(self->attention, src, src, src, mask);
    br_tensor *x = br_layer_norm_forward(self->norm_1, add_residual(self, attention, src));
    br_tensor *out = br_sequential_forward(self->mlp, x);
    out = br_layer_norm_forward(self->norm_2, add_residual(self, out, x));
    return br_leave(self, out);
}

br_tensor *br_vanilla_encoder_layer_forward(br_vanilla_encoder_layer *self, br_tensor *src,
                                            br_tensor *mask)
{
    return br_module_run(self, run_encoder_layer, BR_INPUTS(src, mask), NULL, 0);
}

/* ---- DecoderLayer ---------------------------------------------------------------------------- */

br_vanilla_decoder_layer *br_vanilla_decoder_layer_new(const br_vanilla_config *config)
{
    br_vanilla_config c = config_or_minimum(config, good_layer);
    br_vanilla_decoder_layer *self = br_module_new(br_vanilla_decoder_layer);
    self->use_joint_attention = c.use_joint_attention;
    self->use_norm_3 = c.use_norm_3;
    self->attention = br_child(self, "attention", br_vanilla_multi_head_attention_new(&c));
    self->joint_attention =
        br_child(self, "joint_attention", br_vanilla_multi_head_attention_new(&c));
    self->norm_1 = br_child(self, "norm_1", br_layer_norm_new(c.embed_dim, NULL));
    self->norm_2 = br_child(self, "norm_2", br_layer_norm_new(c.embed_dim, NULL));
    self->norm_3 = br_child(self, "norm_3", br_layer_norm_new(c.embed_dim, NULL));
    self->mlp = br_child(self, "mlp", new_mlp(c));
    self->dropout = br_child(self, "dropout", br_dropout_new(c.dropout));
    return self;
}

/* Returns norm(trg + dropout(output)). */
static br_tensor *add_and_norm(br_vanilla_decoder_layer *self, br_layer_norm *norm, br_tensor *trg,
                               br_tensor *output)
{
    return br_layer_norm_forward(norm, br_add(trg, br_dropout_forward(self->dropout, output)));
}

static br_tensor *run_decoder_layer(void *module, br_tensor *const *inputs, const void *args)
{
    (void)args;
    br_vanilla_decoder_layer *self = module;
    br_enter(self);
    br_tensor *trg = inputs[0], *src = inputs[1], *trg_mask = inputs[2], *src_mask = inputs[3];
    br_vanilla_multi_head_attention *joint =
        self->use_joint_attention ? self->joint_attention : self->attention;
    br_layer_norm *last_norm = self->use_norm_3 ? self->norm_3 : self->norm_2;

    br_tensor *trg_attention =
        br_vanilla_multi_head_attention_forward(self->attention, trg, trg, trg, trg_mask);
    trg = add_and_norm(self, self->norm_1, trg, trg_attention);
    br_tensor *joint_attention =
        br_vanilla_multi_head_attention_forward(joint, trg, src, src, src_mask);
    trg = add_and_norm(self, self->norm_2, trg, joint_attention);
    br_tensor *out = br_sequential_forward(self->mlp, trg);
    return br_leave(self, add_and_norm(self, last_norm, trg, out));
}

br_tensor *br_vanilla_decoder_layer_forward(br_vanilla_decoder_layer *self, br_tensor *trg,
                                            br_tensor *src, br_tensor *trg_mask,
                                            br_tensor *src_mask)
{
    return br_module_run(self, run_decoder_layer, BR_INPUTS(trg, src, trg_mask, src_mask), NULL, 0);
}

/* ---- Encoder --------------------------------------------------------------------------------- */

br_vanilla_encoder *br_vanilla_encoder_new(const br_vanilla_config *config)
{
    br_vanilla_config c = config_or_minimum(config, good_block);
    br_vanilla_encoder *self = br_module_new(br_vanilla_encoder);
    self->scale = sqrt((double)c.embed_dim);
    self->tok_emb = br_child(self, "tok_emb", br_embedding_new(c.vocab_size, c.embed_dim, -1));
    self->pos_emb = br_child(self, "pos_emb", br_embedding_new(c.max_length, c.embed_dim, -1));
    self->blocks = br_child(self, "blocks", br_module_list_new());
    for (int64_t i = 0; i < c.n_layers && !br_error_pending(); i++)
        br_module_list_append(self->blocks, br_vanilla_encoder_layer_new(&c));
    self->dropout = br_child(self, "dropout", br_dropout_new(c.dropout));
    return self;
}

/* Embeds tokens and positions: ids [B, S] -> [B, S, embed_dim]. */
static br_tensor *embed(br_embedding *tok_emb, br_embedding *pos_emb, double scale, br_tensor *ids)
{
    br_tensor *positions = br_new_arange(ids, 0, (double)br_size(ids, 1), 1, BR_I64);
    br_tensor *pos_embeddings = br_embedding_forward(pos_emb, br_unsqueeze(positions, 0));
    br_tensor *tok_embeddings = br_mul_scalar(br_embedding_forward(tok_emb, ids), scale);
    return br_add(tok_embeddings, pos_embeddings);
}

br_tensor *br_vanilla_encoder_forward(br_vanilla_encoder *self, br_tensor *src, br_tensor *mask)
{
    br_enter(self);
    br_require_tensor("vanilla_encoder", "src", src);
    br_tensor *out = embed(self->tok_emb, self->pos_emb, self->scale, src);
    out = br_dropout_forward(self->dropout, out);
    for (int64_t i = 0; i < br_module_list_size(self->blocks) && !br_error_pending(); i++)
        out = br_scope_replace(
            out, br_vanilla_encoder_layer_forward(br_module_list_at(self->blocks, i), out, mask));
    return br_leave(self, out);
}

/* ---- Decoder --------------------------------------------------------------------------------- */

br_vanilla_decoder *br_vanilla_decoder_new(const br_vanilla_config *config)
{
    br_vanilla_config c = config_or_minimum(config, good_block);
    br_vanilla_decoder *self = br_module_new(br_vanilla_decoder);
    self->scale = sqrt((double)c.embed_dim);
    self->tok_emb = br_child(self, "tok_emb", br_embedding_new(c.vocab_size, c.embed_dim, -1));
    self->pos_emb = br_child(self, "pos_emb", br_embedding_new(c.max_length, c.embed_dim, -1));
    self->blocks = br_child(self, "blocks", br_module_list_new());
    for (int64_t i = 0; i < c.n_layers && !br_error_pending(); i++)
        br_module_list_append(self->blocks, br_vanilla_decoder_layer_new(&c));
    self->fc = br_child(self, "fc", br_linear_new(c.embed_dim, c.vocab_size, true));
    self->dropout = br_child(self, "dropout", br_dropout_new(c.dropout));
    return self;
}

br_tensor *br_vanilla_decoder_forward(br_vanilla_decoder *self, br_tensor *trg, br_tensor *src,
                                      br_tensor *trg_mask, br_tensor *src_mask)
{
    br_enter(self);
    br_require_tensor("vanilla_decoder", "trg", trg);
    trg = embed(self->tok_emb, self->pos_emb, self->scale, trg);
    trg = br_dropout_forward(self->dropout, trg);
    for (int64_t i = 0; i < br_module_list_size(self->blocks) && !br_error_pending(); i++)
        trg = br_scope_replace(trg,
                               br_vanilla_decoder_layer_forward(br_module_list_at(self->blocks, i),
                                                                trg, src, trg_mask, src_mask));
    return br_leave(self, br_linear_forward(self->fc, trg));
}

/* ---- Transformer ----------------------------------------------------------------------------- */

/* Returns true where the tokens are not padding, [N, 1, 1, L]. */
static br_tensor *visible_tokens(br_tensor *tokens, int64_t pad_idx)
{
    br_scope *scope = br_scope_begin();
    br_tensor *mask = br_unsqueeze(br_unsqueeze(br_ne_scalar(tokens, (double)pad_idx), 1), 2);
    br_scope_return(scope, mask);
    br_scope_end(scope);
    return mask;
}

br_tensor *br_vanilla_src_mask(br_tensor *src, int64_t pad_idx)
{
    return br_require_tensor("vanilla_src_mask", "src", src) ? visible_tokens(src, pad_idx) : NULL;
}

br_tensor *br_vanilla_trg_mask(br_tensor *trg, int64_t pad_idx)
{
    if (!br_require_tensor("vanilla_trg_mask", "trg", trg))
        return NULL;
    br_scope *scope = br_scope_begin();
    int64_t trg_len = br_size(trg, 1);
    br_tensor *trg_pad_mask = visible_tokens(trg, pad_idx);
    br_tensor *ones = br_new_ones(trg, BR_SHAPE(trg_len, trg_len), BR_BOOL);
    trg_pad_mask = br_logical_and(br_tril(ones, 0), trg_pad_mask);
    br_scope_return(scope, trg_pad_mask);
    br_scope_end(scope);
    return trg_pad_mask;
}

static bool good_transformer(const br_vanilla_config *c)
{
    br_vanilla_config encoder = *c;
    encoder.vocab_size = c->src_vocab_size;
    return good_size("src_vocab_size", c->src_vocab_size) &&
           good_size("trg_vocab_size", c->trg_vocab_size) && good_block(&encoder);
}

br_vanilla_transformer *br_vanilla_transformer_new(const br_vanilla_config *config)
{
    br_vanilla_config c = config_or_minimum(config, good_transformer), encoder = c, decoder = c;
    encoder.vocab_size = c.src_vocab_size;
    decoder.vocab_size = c.trg_vocab_size;
    br_vanilla_transformer *self = br_module_new(br_vanilla_transformer);
    self->encoder = br_child(self, "encoder", br_vanilla_encoder_new(&encoder));
    self->decoder = br_child(self, "decoder", br_vanilla_decoder_new(&decoder));
    self->src_pad_idx = c.src_pad_idx;
    self->trg_pad_idx = c.trg_pad_idx;
    return self;
}

br_tensor *br_vanilla_transformer_forward(br_vanilla_transformer *self, br_tensor *src,
                                          br_tensor *trg)
{
    br_enter(self);
    br_tensor *src_mask = br_vanilla_src_mask(src, self->src_pad_idx);
    br_tensor *trg_mask = br_vanilla_trg_mask(trg, self->trg_pad_idx);
    br_tensor *encoded = br_vanilla_encoder_forward(self->encoder, src, src_mask);
    br_tensor *decoded =
        br_vanilla_decoder_forward(self->decoder, trg, encoded, trg_mask, src_mask);
    return br_leave(self, decoded);
}

/* ---- EncoderClassifier ----------------------------------------------------------------------- */

static bool good_classifier(const br_vanilla_config *c)
{
    return good_block(c) && good_size("n_classes", c->n_classes);
}

br_vanilla_encoder_classifier *br_vanilla_encoder_classifier_new(const br_vanilla_config *config)
{
    br_vanilla_config c = config_or_minimum(config, good_classifier);
    br_vanilla_encoder_classifier *self = br_module_new(br_vanilla_encoder_classifier);
    self->pad_idx = c.pad_idx;
    self->max_over_tokens = c.max_over_tokens;
    self->encoder = br_child(self, "encoder", br_vanilla_encoder_new(&c));
    self->linear = br_child(self, "linear", br_linear_new(c.embed_dim, c.n_classes, true));
    self->dropout = br_child(self, "dropout", br_dropout_new(c.dropout));
    return self;
}

/* Replaces the states [B, S, embed_dim] of padding by -inf; mask [B, 1, 1, S]. */
static br_tensor *hide_padding(br_tensor *x, br_tensor *mask)
{
    br_tensor *padding = br_transpose(br_squeeze(br_logical_not(mask), 1), 1, 2);
    return br_masked_fill(x, padding, -INFINITY);
}

br_tensor *br_vanilla_encoder_classifier_forward(br_vanilla_encoder_classifier *self, br_tensor *x)
{
    br_enter(self);
    br_require_tensor("vanilla_encoder_classifier", "x", x);
    br_tensor *mask = br_vanilla_src_mask(x, self->pad_idx);
    x = br_vanilla_encoder_forward(self->encoder, x, mask);
    x = br_dropout_forward(self->dropout, x);
    if (self->max_over_tokens)
        x = hide_padding(x, mask);
    x = br_max_dim(x, 1, false, NULL);
    return br_leave(self, br_linear_forward(self->linear, x));
}
