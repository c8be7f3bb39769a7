/* nn/transformer_encoder.c - nn.TransformerEncoderLayer and nn.TransformerEncoder. */
#include "nn/transformer_internal.h"

/* ---- A layer --------------------------------------------------------------------------------- */

br_transformer_encoder_layer *br_transformer_encoder_layer_new(
    int64_t d_model, int64_t nhead, const br_transformer_options *options)
{
    br_transformer_encoder_layer *self =
        br__layer_begin(sizeof *self, "TransformerEncoderLayer", NULL);
    br_module *base = br_base(self);
    self->options = br__transformer_options("transformer_encoder_layer", options);
    const br_transformer_options *o = &self->options;
    int64_t hidden = o->dim_feedforward;
    self->self_attn = br__transformer_attention(base, "self_attn", d_model, nhead, o);
    self->linear1 = br__transformer_linear(base, "linear1", d_model, hidden, o);
    self->dropout = br__transformer_dropout(base, "dropout", o);
    self->linear2 = br__transformer_linear(base, "linear2", hidden, d_model, o);
    self->norm1 = br__transformer_norm(base, "norm1", d_model, o);
    self->norm2 = br__transformer_norm(base, "norm2", d_model, o);
    self->dropout1 = br__transformer_dropout(base, "dropout1", o);
    self->dropout2 = br__transformer_dropout(base, "dropout2", o);
    br__layer_end(base, NULL);
    return self;
}

static br_tensor *attend(br_transformer_encoder_layer *self, br_tensor *x, br_tensor *mask,
                         br_tensor *padding, bool is_causal)
{
    return br__transformer_attend(self->self_attn, self->dropout1, x, x, mask, padding, is_causal);
}

static br_tensor *feed_forward(br_transformer_encoder_layer *self, br_tensor *x)
{
    return br__transformer_feed_forward(&self->options, self->linear1, self->dropout, self->linear2,
                                        self->dropout2, x);
}

/* The inputs are src, its mask and its padding mask; args points to the bool is_causal. */
static br_tensor *run_layer(void *module, br_tensor *const *inputs, const void *args)
{
    br_transformer_encoder_layer *self = module;
    bool is_causal = *(const bool *)args;
    br_tensor *x = inputs[0];
    if (!br_module_enter_from("transformer_encoder_layer_forward", br_base(self), &x))
        return NULL;
    br_tensor *mask = inputs[1], *padding = inputs[2];
    if (self->options.norm_first) {
        br_tensor *normed = br_layer_norm_forward(self->norm1, x);
        x = br_add(x, attend(self, normed, mask, padding, is_causal));
        x = br_add(x, feed_forward(self, br_layer_norm_forward(self->norm2, x)));
    } else {
        br_tensor *seen = attend(self, x, mask, padding, is_causal);
        x = br_layer_norm_forward(self->norm1, br_add(x, seen));
        x = br_layer_norm_forward(self->norm2, br_add(x, feed_forward(self, x)));
    }
    return br_leave(self, x);
}

br_tensor *br_transformer_encoder_layer_forward(br_transformer_encoder_layer *self, br_tensor *src,
                                                br_tensor *src_mask,
                                                br_tensor *src_key_padding_mask, bool is_causal)
{
    static const char *const names[] = { "src", "src_mask", "src_key_padding_mask" };
    if (!br__transformer_inputs("transformer_encoder_layer", names, 1,
                                BR_INPUTS(src, src_mask, src_key_padding_mask)))
        return NULL;
    return br_module_run(self, run_layer, BR_INPUTS(src, src_mask, src_key_padding_mask),
                         &is_causal, sizeof is_causal);
}

/* ---- The encoder ----------------------------------------------------------------------------- */

static void *make_layer(int64_t d_model, int64_t nhead, const br_transformer_options *options)
{
    return br_transformer_encoder_layer_new(d_model, nhead, options);
}

br_transformer_encoder *br_transformer_encoder_new(int64_t d_model, int64_t nhead,
                                                   int64_t num_layers, bool norm,
                                                   const br_transformer_options *options)
{
    br_transformer_encoder *self = br__layer_begin(sizeof *self, "TransformerEncoder", NULL);
    br_transformer_options o = br__transformer_options("transformer_encoder", options);
    self->layers =
        br__transformer_layers(br_base(self), make_layer, d_model, nhead, num_layers, &o);
    if (norm)
        self->norm = br__transformer_norm(br_base(self), "norm", d_model, &o);
    br__layer_end(br_base(self), NULL);
    return self;
}

br_tensor *br_transformer_encoder_forward(br_transformer_encoder *self, br_tensor *src,
                                          br_tensor *mask, br_tensor *src_key_padding_mask,
                                          bool is_causal)
{
    static const char *const names[] = { "src", "mask", "src_key_padding_mask" };
    if (!br__transformer_inputs("transformer_encoder", names, 1,
                                BR_INPUTS(src, mask, src_key_padding_mask)))
        return NULL;
    br_tensor *x = src;
    br_enter_with(self, x);
    for (int64_t i = 0; i < br_module_list_size(self->layers); i++)
        x = br_scope_replace(
            x, br_transformer_encoder_layer_forward(br_module_list_at(self->layers, i), x, mask,
                                                    src_key_padding_mask, is_causal));
    return br_leave(self, self->norm ? br_layer_norm_forward(self->norm, x) : x);
}
