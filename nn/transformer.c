/* nn/transformer.c - nn.Transformer, Vaswani et al., 2017: encoder and decoder. */
#include "nn/transformer_internal.h"

#include <inttypes.h>
#include <math.h>

static const char op[] = "transformer";

/* Initializes all matrices again, as PyTorch does after the layers' own initialization. */
static void init_matrices(br_module *module)
{
    br_named_list *parameters = br_parameters(module);
    for (int64_t i = 0; parameters && i < parameters->count; i++)
        if (parameters->items[i].tensor->ndim > 1)
            br_init_xavier_uniform_(parameters->items[i].tensor, 1);
    br_named_list_free(parameters);
}

br_transformer *br_transformer_new(int64_t d_model, int64_t nhead, int64_t num_encoder_layers,
                                   int64_t num_decoder_layers,
                                   const br_transformer_options *options)
{
    br_transformer *self = br__layer_begin(sizeof *self, "Transformer", NULL);
    self->d_model = d_model;
    self->encoder =
        br_child(self, "encoder",
                 br_transformer_encoder_new(d_model, nhead, num_encoder_layers, true, options));
    self->decoder =
        br_child(self, "decoder",
                 br_transformer_decoder_new(d_model, nhead, num_decoder_layers, true, options));
    if (!br_failed())
        init_matrices(br_base(self));
    br__layer_end(br_base(self), NULL);
    return self;
}

br_tensor *br_transformer_forward(br_transformer *self, br_tensor *src, br_tensor *tgt,
                                  const br_transformer_masks *masks)
{
    static const br_transformer_masks none;
    const br_transformer_masks *m = masks ? masks : &none;
    static const char *const names[] = { "src", "tgt" };
    if (!br__transformer_inputs("transformer", names, 2, BR_INPUTS(src, tgt)))
        return NULL;
    br_enter_with(self, src);
    br_tensor *memory = br_transformer_encoder_forward(self->encoder, src, m->src_mask,
                                                       m->src_key_padding_mask, m->src_is_causal);
    return br_leave(self, br_transformer_decoder_forward(self->decoder, tgt, memory, m));
}

br_tensor *br_transformer_square_subsequent_mask(int64_t size, br_dtype dtype)
{
    if (br_failed())
        return NULL;
    if (size < 0)
        return br_fail(BR_ERROR_ARGUMENT, op, "size is %" PRId64 ", must be at least 0", size);
    br_scope *scope = br_scope_begin();
    br_tensor *above = br_triu(br_ones(BR_SHAPE(size, size), BR_BOOL), 1);
    br_tensor *mask = br_masked_fill(br_zeros(BR_SHAPE(size, size), dtype), above, -INFINITY);
    br_scope_return(scope, mask);
    br_scope_end(scope);
    return mask;
}
