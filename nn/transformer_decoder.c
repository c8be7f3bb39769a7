/* nn/transformer_decoder.c - nn.TransformerDecoderLayer and nn.TransformerDecoder. */
#include "nn/transformer_internal.h"

/* ---- A layer --------------------------------------------------------------------------------- */

br_transformer_decoder_layer *br_transformer_decoder_layer_new(
    int64_t d_model, int64_t nhead, const br_transformer_options *options)
{
    br_transformer_decoder_layer *self =
        br__layer_begin(sizeof *self, "TransformerDecoderLayer", NULL);
    br_module *base = br_base(self);
    self->options = br__transformer_options("transformer_decoder_layer", options);
    const br_transformer_options *o = &self->options;
    int64_t hidden = o->dim_feedforward;
    self->self_attn = br__transformer_attention(base, "self_attn", d_model, nhead, o);
    self->multihead_attn = br__transformer_attention(base, "multihead_attn", d_model, nhead, o);
    self->linear1 = br__transformer_linear(base, "linear1", d_model, hidden, o);
    self->dropout = br__transformer_dropout(base, "dropout", o);
    self->linear2 = br__transformer_linear(base, "linear2", hidden, d_model, o);
    self->norm1 = br__transformer_norm(base, "norm1", d_model, o);
    self->norm2 = br__transformer_norm(base, "norm2", d_model, o);
    self->norm3 = br__transformer_norm(base, "norm3", d_model, o);
    self->dropout1 = br__transformer_dropout(base, "dropout1", o);
    self->dropout2 = br__transformer_dropout(base, "dropout2", o);
    self->dropout3 = br__transformer_dropout(base, "dropout3", o);
    br__layer_end(base, NULL);
    return self;
}

static br_tensor *attend_self(br_transformer_decoder_layer *self, br_tensor *x,
                              const br_transformer_masks *m)
{
    return br__transformer_attend(self->self_attn, self->dropout1, x, x, m->tgt_mask,
                                  m->tgt_key_padding_mask, m->tgt_is_causal);
}

static br_tensor *attend_memory(br_transformer_decoder_layer *self, br_tensor *x, br_tensor *memory,
                                const br_transformer_masks *m)
{
    return br__transformer_attend(self->multihead_attn, self->dropout2, x, memory, m->memory_mask,
                                  m->memory_key_padding_mask, m->memory_is_causal);
}

static br_tensor *feed_forward(br_transformer_decoder_layer *self, br_tensor *x)
{
    return br__transformer_feed_forward(&self->options, self->linear1, self->dropout, self->linear2,
                                        self->dropout3, x);
}

/* The inputs are tgt, memory, and the masks that the decoder uses, in the order of
 * br_transformer_masks. args has the is_causal flags. */
static br_tensor *run_layer(void *module, br_tensor *const *inputs, const void *args)
{
    br_transformer_decoder_layer *self = module;
    br_tensor *x = inputs[0], *memory = inputs[1];
    if (!br_module_enter_from("transformer_decoder_layer_forward", br_base(self), &x))
        return NULL;
    br_transformer_masks given = *(const br_transformer_masks *)args, *m = &given;
    m->tgt_mask = inputs[2];
    m->memory_mask = inputs[3];
    m->tgt_key_padding_mask = inputs[4];
    m->memory_key_padding_mask = inputs[5];
    if (self->options.norm_first) {
        x = br_add(x, attend_self(self, br_layer_norm_forward(self->norm1, x), m));
        x = br_add(x, attend_memory(self, br_layer_norm_forward(self->norm2, x), memory, m));
        x = br_add(x, feed_forward(self, br_layer_norm_forward(self->norm3, x)));
    } else {
        x = br_layer_norm_forward(self->norm1, br_add(x, attend_self(self, x, m)));
        x = br_layer_norm_forward(self->norm2, br_add(x, attend_memory(self, x, memory, m)));
        x = br_layer_norm_forward(self->norm3, br_add(x, feed_forward(self, x)));
    }
    return br_leave(self, x);
}

br_tensor *br_transformer_decoder_layer_forward(br_transformer_decoder_layer *self, br_tensor *tgt,
                                                br_tensor *memory,
                                                const br_transformer_masks *masks)
{
    static const br_transformer_masks none;
    const br_transformer_masks *m = masks ? masks : &none;
    static const char *const names[] = { "tgt", "memory" };
    if (!br__transformer_inputs("transformer_decoder_layer", names, 2, BR_INPUTS(tgt, memory)))
        return NULL;
    return br_module_run(self, run_layer,
                         BR_INPUTS(tgt, memory, m->tgt_mask, m->memory_mask,
                                   m->tgt_key_padding_mask, m->memory_key_padding_mask),
                         m, sizeof *m);
}

/* ---- The decoder ----------------------------------------------------------------------------- */

static void *make_layer(int64_t d_model, int64_t nhead, const br_transformer_options *options)
{
    return br_transformer_decoder_layer_new(d_model, nhead, options);
}

br_transformer_decoder *br_transformer_decoder_new(int64_t d_model, int64_t nhead,
                                                   int64_t num_layers, bool norm,
                                                   const br_transformer_options *options)
{
    br_transformer_decoder *self = br__layer_begin(sizeof *self, "TransformerDecoder", NULL);
    br_transformer_options o = br__transformer_options("transformer_decoder", options);
    self->layers =
        br__transformer_layers(br_base(self), make_layer, d_model, nhead, num_layers, &o);
    if (norm)
        self->norm = br__transformer_norm(br_base(self), "norm", d_model, &o);
    br__layer_end(br_base(self), NULL);
    return self;
}

br_tensor *br_transformer_decoder_forward(br_transformer_decoder *self, br_tensor *tgt,
                                          br_tensor *memory, const br_transformer_masks *masks)
{
    static const char *const names[] = { "tgt", "memory" };
    if (!br__transformer_inputs("transformer_decoder", names, 2, BR_INPUTS(tgt, memory)))
        return NULL;
    br_tensor *x = tgt;
    br_enter_with(self, x);
    for (int64_t i = 0; i < br_module_list_size(self->layers); i++)
        x = br_scope_replace(x, br_transformer_decoder_layer_forward(
                                    br_module_list_at(self->layers, i), x, memory, masks));
    return br_leave(self, self->norm ? br_layer_norm_forward(self->norm, x) : x);
}
