/* models/bert.c - BERT from scratch: the notebook's functions and classes, in its order.
 *
 * Constructors generate random numbers in the notebook's order, so the same seed gives PyTorch's
 * initial weights. */
#include "models/models_internal.h"

#include <brasa/models/bert.h>
#include <math.h>
#include <string.h>

/* ---- Configuration --------------------------------------------------------------------------- */

br_bert_config br_bert_notebook_config(void)
{
    return (br_bert_config){
        .vocab_size = 70,
        .d_model = 768,
        .n_layers = 6,
        .n_heads = 12,
        .d_ff = 4 * 768,
        .d_k = 64,
        .d_v = 64,
        .maxlen = 100,
        .n_segments = 2,
        .max_pred = 7,
    };
}

static const struct {
    const char *name;
    size_t offset;
} sizes[] = {
    { "vocab_size", offsetof(br_bert_config, vocab_size) },
    { "d_model", offsetof(br_bert_config, d_model) },
    { "n_layers", offsetof(br_bert_config, n_layers) },
    { "n_heads", offsetof(br_bert_config, n_heads) },
    { "d_ff", offsetof(br_bert_config, d_ff) },
    { "d_k", offsetof(br_bert_config, d_k) },
    { "d_v", offsetof(br_bert_config, d_v) },
    { "maxlen", offsetof(br_bert_config, maxlen) },
    { "n_segments", offsetof(br_bert_config, n_segments) },
    { "max_pred", offsetof(br_bert_config, max_pred) },
};
enum { N_SIZES = sizeof sizes / sizeof *sizes };

const char *br_bert_config_field_name(int i)
{
    return i >= 0 && i < N_SIZES ? sizes[i].name : NULL;
}

int64_t *br_bert_config_field(br_bert_config *config, const char *name)
{
    for (int i = 0; config && name && i < N_SIZES; i++)
        if (strcmp(name, sizes[i].name) == 0)
            return (int64_t *)(void *)((char *)config + sizes[i].offset);
    return NULL;
}

static bool good_config(const br_bert_config *config)
{
    bool good = zoo_good_config("bert", config);
    for (int i = 0; good && i < N_SIZES; i++) {
        const void *size = (const char *)config + sizes[i].offset;
        good = zoo_good_size("bert", sizes[i].name, *(const int64_t *)size);
    }
    return good;
}

/* Returns the configuration to build from. If it is invalid, an error is pending: returns one with
 * the smallest sizes, so that the constructors can go on and do nothing. */
static br_bert_config config_or_minimum(const br_bert_config *config)
{
    return good_config(config) ? *config
                               : (br_bert_config){ .n_heads = 1, .d_k = 1, .d_v = 1, .d_model = 1 };
}

/* ---- Functions ------------------------------------------------------------------------------- */

br_tensor *br_bert_gelu(br_tensor *x)
{
    return br_gelu(x, BR_GELU_ERF);
}

br_tensor *br_bert_pad_mask(br_tensor *seq_q, br_tensor *seq_k)
{
    if (!br_require_tensor("bert_pad_mask", "seq_q", seq_q) ||
        !br_require_tensor("bert_pad_mask", "seq_k", seq_k))
        return NULL;
    br_scope *scope = br_scope_begin();
    int64_t batch_size = br_size(seq_q, 0), len_q = br_size(seq_q, 1), len_k = br_size(seq_k, 1);
    br_tensor *pad_attn_masked = br_unsqueeze(br_eq_scalar(seq_k, 0), 1);
    br_tensor *mask = br_expand(pad_attn_masked, BR_SHAPE(batch_size, len_q, len_k));
    br_scope_return(scope, mask);
    br_scope_end(scope);
    return mask;
}

br_tensor *br_bert_attention(br_tensor *q, br_tensor *k, br_tensor *v, br_tensor *attn_mask,
                             br_tensor **attn)
{
    const char *op = "bert_attention";
    if (attn)
        *attn = NULL;
    if (!br_require_tensor(op, "q", q) || !br_require_tensor(op, "k", k) ||
        !br_require_tensor(op, "v", v) || !br_require_tensor(op, "attn_mask", attn_mask))
        return NULL;
    br_scope *scope = br_scope_begin();
    double root = sqrt((double)br_size(k, -1));
    br_tensor *scores = br_div_scalar(br_matmul(q, br_transpose(k, -1, -2)), root);
    scores = br_masked_fill_(scores, attn_mask, -1e9);
    br_tensor *weights = br_tap_attention(q, k, br_softmax(scores, -1), false);
    br_tensor *context = br_matmul(weights, v);
    br_scope_return(scope, context);
    if (attn)
        *attn = br_scope_return(scope, weights);
    br_scope_end(scope);
    return context;
}

/* ---- Embedding ------------------------------------------------------------------------------- */

br_bert_embedding *br_bert_embedding_new(const br_bert_config *config)
{
    br_bert_config c = config_or_minimum(config);
    br_bert_embedding *self = br_module_new(br_bert_embedding);
    self->tok_embed = br_child(self, "tok_embed", br_embedding_new(c.vocab_size, c.d_model, -1));
    self->pos_embed = br_child(self, "pos_embed", br_embedding_new(c.maxlen, c.d_model, -1));
    self->seg_embed = br_child(self, "seg_embed", br_embedding_new(c.n_segments, c.d_model, -1));
    self->norm = br_child(self, "norm", br_layer_norm_new(c.d_model, NULL));
    return self;
}

br_tensor *br_bert_embedding_forward(br_bert_embedding *self, br_tensor *x, br_tensor *seg)
{
    br_enter(self);
    br_require_tensor("bert_embedding", "x", x);
    int64_t seq_len = br_size(x, 1);
    br_tensor *pos = br_new_arange(x, 0, (double)seq_len, 1, BR_I64);
    br_tensor *tok_embed = br_embedding_forward(self->tok_embed, x);
    br_tensor *pos_embed = br_embedding_forward(self->pos_embed, br_unsqueeze(pos, 0));
    br_tensor *seg_embed = br_embedding_forward(self->seg_embed, seg);
    br_tensor *embedding = br_add(br_add(tok_embed, pos_embed), seg_embed);
    return br_leave(self, br_layer_norm_forward(self->norm, embedding));
}

/* ---- MultiHeadAttention ---------------------------------------------------------------------- */

br_bert_mha *br_bert_mha_new(const br_bert_config *config)
{
    br_bert_config c = config_or_minimum(config);
    br_bert_mha *self = br_module_new(br_bert_mha);
    self->n_heads = c.n_heads;
    self->d_k = c.d_k;
    self->d_v = c.d_v;
    self->d_model = c.d_model;
    self->W_Q = br_child(self, "W_Q", br_linear_new(c.d_model, c.d_k * c.n_heads, true));
    self->W_K = br_child(self, "W_K", br_linear_new(c.d_model, c.d_k * c.n_heads, true));
    self->W_V = br_child(self, "W_V", br_linear_new(c.d_model, c.d_v * c.n_heads, true));
    if (c.as_written)
        return self;
    self->linear = br_child(self, "linear", br_linear_new(c.n_heads * c.d_v, c.d_model, true));
    self->norm = br_child(self, "norm", br_layer_norm_new(c.d_model, NULL));
    return self;
}

/* [B, S, n_heads d] -> [B, n_heads, S, d] */
static br_tensor *split_heads(br_tensor *x, int64_t n_heads, int64_t d)
{
    return br_transpose(br_view(x, BR_SHAPE(br_size(x, 0), -1, n_heads, d)), 1, 2);
}

/* Returns norm(linear(context) + residual). */
static br_tensor *add_and_norm(br_linear *linear, br_layer_norm *norm, br_tensor *context,
                               br_tensor *residual)
{
    br_tensor *output = br_linear_forward(linear, context);
    return br_layer_norm_forward(norm, br_add(output, residual));
}

/* Does the same with layers that live only for this call. They are created as F32 even if the model
 * was converted to another dtype, and then converted as well. */
static br_tensor *fresh_add_and_norm(br_bert_mha *self, br_tensor *context, br_tensor *residual)
{
    const br_dtype dtype = br_dtype_of(self->W_Q->weight);
    br_linear *linear = br_linear_new(self->n_heads * self->d_v, self->d_model, true);
    br_layer_norm *norm = br_layer_norm_new(self->d_model, NULL);
    if (self->on_new_layers && !br_error_pending())
        self->on_new_layers(self->on_new_layers_context, linear, norm);
    br_module_to(br_base(linear), dtype);
    br_module_to(br_base(norm), dtype);
    br_tensor *output = add_and_norm(linear, norm, context, residual);
    br_module_free(norm);
    br_module_free(linear);
    return output;
}

br_tensor *br_bert_mha_forward(br_bert_mha *self, br_tensor *Q, br_tensor *K, br_tensor *V,
                               br_tensor *attn_mask, br_tensor **attn)
{
    if (attn)
        *attn = NULL;
    br_enter(self);
    br_require_tensor("bert_mha", "Q", Q);
    br_require_tensor("bert_mha", "attn_mask", attn_mask);
    br_tensor *residual = Q;
    int64_t batch_size = br_size(Q, 0), n_heads = self->n_heads, d_k = self->d_k, d_v = self->d_v;
    br_tensor *q_s = split_heads(br_linear_forward(self->W_Q, Q), n_heads, d_k);
    br_tensor *k_s = split_heads(br_linear_forward(self->W_K, K), n_heads, d_k);
    br_tensor *v_s = split_heads(br_linear_forward(self->W_V, V), n_heads, d_v);
    attn_mask = br_unsqueeze(attn_mask, 1); /* broadcast to the heads, not repeated for each */
    br_tensor *context = br_bert_attention(q_s, k_s, v_s, attn_mask, attn);
    context = br_reshape(br_transpose(context, 1, 2), BR_SHAPE(batch_size, -1, n_heads * d_v));
    br_tensor *output = self->linear ? add_and_norm(self->linear, self->norm, context, residual)
                                     : fresh_add_and_norm(self, context, residual);
    if (attn)
        br_scope_return(NULL, *attn);
    return br_leave(self, output);
}

/* ---- PoswiseFeedForward ---------------------------------------------------------------------- */

br_bert_ffn *br_bert_ffn_new(const br_bert_config *config)
{
    br_bert_config c = config_or_minimum(config);
    br_bert_ffn *self = br_module_new(br_bert_ffn);
    self->fc1 = br_child(self, "fc1", br_linear_new(c.d_model, c.d_ff, true));
    self->fc2 = br_child(self, "fc2", br_linear_new(c.d_ff, c.d_model, true));
    return self;
}

br_tensor *br_bert_ffn_forward(br_bert_ffn *self, br_tensor *x)
{
    br_enter(self);
    br_tensor *hidden = br_linear_forward(self->fc1, x);
    /* Same as br_bert_gelu(hidden), but in place if nothing else uses `hidden`. */
    hidden = br_find_activation("gelu")(hidden);
    return br_leave(self, br_linear_forward(self->fc2, hidden));
}

/* ---- EncoderLayer ---------------------------------------------------------------------------- */

br_bert_layer *br_bert_layer_new(const br_bert_config *config)
{
    br_bert_config c = config_or_minimum(config);
    br_bert_layer *self = br_module_new(br_bert_layer);
    self->enc_self_attn = br_child(self, "enc_self_attn", br_bert_mha_new(config));
    self->pos_ffn = br_child(self, "pos_ffn", br_bert_ffn_new(config));
    if (!c.as_written)
        self->norm = br_child(self, "norm", br_layer_norm_new(c.d_model, NULL));
    return self;
}

static br_tensor *run_layer(br_bert_layer *self, br_tensor *enc_inputs,
                            br_tensor *enc_self_attn_mask, br_tensor **attn)
{
    br_enter(self);
    enc_inputs = br_bert_mha_forward(self->enc_self_attn, enc_inputs, enc_inputs, enc_inputs,
                                     enc_self_attn_mask, attn);
    br_tensor *output = br_bert_ffn_forward(self->pos_ffn, enc_inputs);
    if (self->norm)
        output = br_layer_norm_forward(self->norm, br_add(enc_inputs, output));
    if (attn)
        br_scope_return(NULL, *attn);
    return br_leave(self, output);
}

static br_tensor *run_layer_alone(void *self, br_tensor *const *inputs, const void *args)
{
    (void)args;
    return run_layer(self, inputs[0], inputs[1], NULL);
}

br_tensor *br_bert_layer_forward(br_bert_layer *self, br_tensor *enc_inputs,
                                 br_tensor *enc_self_attn_mask, br_tensor **attn)
{
    if (!attn)
        return br_module_run(self, run_layer_alone, BR_INPUTS(enc_inputs, enc_self_attn_mask), NULL,
                             0);
    *attn = NULL;
    return run_layer(self, enc_inputs, enc_self_attn_mask, attn);
}

/* ---- BERT ------------------------------------------------------------------------------------ */

/* Ties decoder.weight to the token embedding. The decoder's own initial weight is discarded, but
 * its random numbers are consumed, as in PyTorch. */
static void tie_decoder(br_bert *self)
{
    if (!br_error_pending())
        self->decoder->weight = br_module_replace_parameter(br_base(self->decoder), "weight",
                                                            self->embedding->tok_embed->weight);
}

br_bert *br_bert_new(const br_bert_config *config)
{
    br_bert_config c = config_or_minimum(config);
    br_bert *self = br_module_new(br_bert);
    self->config = c;
    self->embedding = br_child(self, "embedding", br_bert_embedding_new(config));
    self->layers = br_child(self, "layers", br_module_list_new());
    for (int64_t i = 0; i < c.n_layers && !br_error_pending(); i++)
        br_module_list_append(self->layers, br_bert_layer_new(config));
    self->fc = br_child(self, "fc", br_linear_new(c.d_model, c.d_model, true));
    self->activ1 = br_child(self, "activ1", br_tanh_new());
    self->linear = br_child(self, "linear", br_linear_new(c.d_model, c.d_model, true));
    self->norm = br_child(self, "norm", br_layer_norm_new(c.d_model, NULL));
    self->classifier = br_child(self, "classifier", br_linear_new(c.d_model, 2, true));
    self->decoder = br_child(self, "decoder", br_linear_new(c.d_model, c.vocab_size, false));
    tie_decoder(self);
    br_scope *scope = br_scope_begin();
    self->decoder_bias =
        br_parameter(self, "decoder_bias", br_zeros(BR_SHAPE(c.vocab_size), BR_F32));
    br_scope_end(scope);
    return self;
}

br_tensor *br_bert_forward(br_bert *self, br_tensor *input_ids, br_tensor *segment_ids,
                           br_tensor *masked_pos, br_tensor **logits_clsf)
{
    if (logits_clsf)
        *logits_clsf = NULL;
    br_enter(self);
    br_require_tensor("bert", "masked_pos", masked_pos);
    br_tensor *output = br_bert_embedding_forward(self->embedding, input_ids, segment_ids);
    br_tensor *enc_self_attn_mask = br_bert_pad_mask(input_ids, input_ids);
    for (int64_t i = 0; i < self->config.n_layers && !br_error_pending(); i++)
        output = br_scope_replace(output, br_bert_layer_forward(br_module_list_at(self->layers, i),
                                                                output, enc_self_attn_mask, NULL));

    br_tensor *first = br_select(output, 1, 0);
    br_tensor *h_pooled = br_activation_forward(self->activ1, br_linear_forward(self->fc, first));
    if (logits_clsf)
        *logits_clsf = br_scope_return(NULL, br_linear_forward(self->classifier, h_pooled));

    masked_pos = br_expand(br_unsqueeze(masked_pos, 2), BR_SHAPE(-1, -1, br_size(output, -1)));
    br_tensor *h_masked = br_gather(output, 1, masked_pos);
    h_masked = br_bert_gelu(br_linear_forward(self->linear, h_masked));
    h_masked = br_layer_norm_forward(self->norm, h_masked);
    br_tensor *logits_lm = br_linear_forward(self->decoder, h_masked);
    return br_leave(self, br_add(logits_lm, self->decoder_bias));
}

br_tensor *br_bert_loss(br_tensor *logits_lm, br_tensor *logits_clsf, br_tensor *masked_tokens,
                        br_tensor *is_next, br_tensor **loss_lm, br_tensor **loss_clsf)
{
    const char *op = "bert_loss";
    if (loss_lm)
        *loss_lm = NULL;
    if (loss_clsf)
        *loss_clsf = NULL;
    if (!br_require_tensor(op, "logits_lm", logits_lm) ||
        !br_require_tensor(op, "logits_clsf", logits_clsf) ||
        !br_require_tensor(op, "masked_tokens", masked_tokens) ||
        !br_require_tensor(op, "is_next", is_next))
        return NULL;
    br_scope *scope = br_scope_begin();
    br_tensor *lm = br_cross_entropy(br_transpose(logits_lm, 1, 2), masked_tokens, NULL);
    br_tensor *clsf = br_cross_entropy(logits_clsf, is_next, NULL);
    br_tensor *loss = br_add(lm, clsf);
    br_scope_return(scope, loss);
    if (loss_lm)
        *loss_lm = br_scope_return(scope, lm);
    if (loss_clsf)
        *loss_clsf = br_scope_return(scope, clsf);
    br_scope_end(scope);
    return loss;
}
