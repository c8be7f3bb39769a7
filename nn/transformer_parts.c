/* nn/transformer_parts.c - the parts that the layers of nn.Transformer's encoder and decoder are
 * made of. */
#include "nn/transformer_internal.h"

#include <inttypes.h>

/* ---- Options --------------------------------------------------------------------------------- */

br_transformer_options br__transformer_options(const char *op,
                                               const br_transformer_options *options)
{
    br_transformer_options o = options ? *options : (br_transformer_options){ .dropout = 0.1 };
    o.dim_feedforward = o.dim_feedforward == 0 ? 2048 : o.dim_feedforward;
    o.layer_norm_eps = o.layer_norm_eps == 0 ? 1e-5 : o.layer_norm_eps;
    if (o.activation && o.gelu)
        br__fail(BR_ERROR_ARGUMENT, op, "activation is given, and gelu asked for: one is enough");
    return o;
}

/* ---- Making ---------------------------------------------------------------------------------- */

br_multihead_attention *br__transformer_attention(br_module *parent, const char *name,
                                                  int64_t d_model, int64_t nhead,
                                                  const br_transformer_options *options)
{
    br_multihead_attention_options o = { .dropout = options->dropout,
                                         .no_bias = options->no_bias,
                                         .batch_first = options->batch_first };
    return br_module_add_child(parent, name, br_multihead_attention_new(d_model, nhead, &o));
}

br_linear *br__transformer_linear(br_module *parent, const char *name, int64_t in, int64_t out,
                                  const br_transformer_options *options)
{
    return br_module_add_child(parent, name, br_linear_new(in, out, !options->no_bias));
}

br_layer_norm *br__transformer_norm(br_module *parent, const char *name, int64_t d_model,
                                    const br_transformer_options *options)
{
    return br_module_add_child(parent, name,
                               br_layer_norm_shape_new(BR_SHAPE(d_model), options->layer_norm_eps,
                                                       true, !options->no_bias));
}

br_dropout *br__transformer_dropout(br_module *parent, const char *name,
                                    const br_transformer_options *options)
{
    return br_module_add_child(parent, name, br_dropout_new(options->dropout));
}

/* PyTorch copies one layer. Here each one is drawn from where the generator stood before the first,
 * which comes to the same. */
br_module_list *br__transformer_layers(br_module *parent, br_make_layer make, int64_t d_model,
                                       int64_t nhead, int64_t n,
                                       const br_transformer_options *options)
{
    if (n < 1) {
        br__fail(BR_ERROR_ARGUMENT, "transformer", "%" PRId64 " layers, must be at least 1", n);
        return NULL;
    }
    br_rng_state before;
    br_get_rng_state(&before);
    br_module_list *layers = br_module_add_child(parent, "layers", br_module_list_new());
    for (int64_t i = 0; i < n && !br_failed(); i++) {
        if (i > 0)
            br_set_rng_state(&before);
        br_module_list_append(layers, make(d_model, nhead, options));
    }
    return layers;
}

/* ---- Forward --------------------------------------------------------------------------------- */

br_tensor *br__transformer_attend(br_multihead_attention *attention, br_dropout *dropout,
                                  br_tensor *x, br_tensor *memory, br_tensor *mask,
                                  br_tensor *padding, bool is_causal)
{
    br_multihead_attention_inputs inputs = { .attn_mask = mask,
                                             .key_padding_mask = padding,
                                             .is_causal = is_causal };
    return br_dropout_forward(
        dropout, br_multihead_attention_forward(attention, x, memory, memory, &inputs));
}

/* Of an x that nothing wants afterwards. */
static br_tensor *activate(const br_transformer_options *options, br_tensor *x)
{
    if (options->activation)
        return options->activation(x);
    bool over = br_may_overwrite(x);
    if (options->gelu)
        return over ? br_gelu_(x, BR_GELU_ERF) : br_gelu(x, BR_GELU_ERF);
    return over ? br_relu_(x) : br_relu(x);
}

br_tensor *br__transformer_feed_forward(const br_transformer_options *options, br_linear *linear1,
                                        br_dropout *dropout, br_linear *linear2,
                                        br_dropout *dropout_out, br_tensor *x)
{
    br_scope *scope = br_scope_begin(); /* the layer's x is outside: activate() must not write it */
    br_tensor *hidden = activate(options, br_linear_forward(linear1, x));
    br_tensor *y = br_linear_forward(linear2, br_dropout_forward(dropout, hidden));
    y = br_scope_return(scope, br_dropout_forward(dropout_out, y));
    br_scope_end(scope);
    return y;
}
