/* nn/transformer_parts.c - parts of the encoder and decoder layers of nn.Transformer. */
#include "nn/transformer_internal.h"

#include <inttypes.h>

BR_DEFINE_DEFAULTS(br_transformer)

/* ---- Options --------------------------------------------------------------------------------- */

br_transformer_options br__transformer_options(const char *op,
                                               const br_transformer_options *options)
{
    br_transformer_options o = *BR_OPTIONS_OF(op, br_transformer, options);
    if (o.activation && o.gelu)
        br_fail(BR_ERROR_ARGUMENT, op, "activation and gelu are both set: set only one of them");
    if (o.dim_feedforward < 0)
        br_fail(BR_ERROR_ARGUMENT, op, "dim_feedforward is %" PRId64 ", must not be negative",
                o.dim_feedforward);
    if (!(o.layer_norm_eps >= 0))
        br_fail(BR_ERROR_ARGUMENT, op, "layer_norm_eps is %g, must not be negative",
                o.layer_norm_eps);
    return o;
}

/* ---- Construction ---------------------------------------------------------------------------- */

br_multihead_attention *br__transformer_attention(br_module *parent, const char *name,
                                                  int64_t d_model, int64_t nhead,
                                                  const br_transformer_options *options)
{
    const br_multihead_attention_options *o =
        BR_OPTIONS(br_multihead_attention, .dropout = options->dropout, .bias = options->bias,
                   .batch_first = options->batch_first);
    return br_module_add_child(parent, name, br_multihead_attention_new(d_model, nhead, o));
}

br_linear *br__transformer_linear(br_module *parent, const char *name, int64_t in, int64_t out,
                                  const br_transformer_options *options)
{
    return br_module_add_child(parent, name, br_linear_new(in, out, options->bias));
}

br_layer_norm *br__transformer_norm(br_module *parent, const char *name, int64_t d_model,
                                    const br_transformer_options *options)
{
    return br_module_add_child(
        parent, name,
        br_layer_norm_new(d_model, BR_OPTIONS(br_layer_norm, .eps = options->layer_norm_eps,
                                              .bias = options->bias)));
}

br_dropout *br__transformer_dropout(br_module *parent, const char *name,
                                    const br_transformer_options *options)
{
    return br_module_add_child(parent, name, br_dropout_new(options->dropout));
}

/* Restores the generator's state before each layer, so that all layers have the same values:
 * PyTorch copies one layer. */
br_module_list *br__transformer_layers(br_module *parent, br_make_layer make, int64_t d_model,
                                       int64_t nhead, int64_t n,
                                       const br_transformer_options *options)
{
    if (n < 1) {
        br_fail(BR_ERROR_ARGUMENT, "transformer", "num_layers is %" PRId64 ", must be at least 1",
                n);
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

bool br__transformer_inputs(const char *op, const char *const *names, int required, int n,
                            br_tensor *const *inputs)
{
    for (int i = 0; i < n; i++)
        if ((i < required || inputs[i]) && !br__required(op, names[i], inputs[i]))
            return false;
    return true;
}

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

/* Applies the activation. May overwrite x, which the caller must not need any more. */
static br_tensor *activate(const br_transformer_options *options, br_tensor *x)
{
    if (options->activation)
        return options->activation(x);
    bool in_place = br_may_overwrite(x);
    if (options->gelu)
        return in_place ? br_gelu_(x, BR_GELU_ERF) : br_gelu(x, BR_GELU_ERF);
    return in_place ? br_relu_(x) : br_relu(x);
}

br_tensor *br__transformer_feed_forward(const br_transformer_options *options, br_linear *linear1,
                                        br_dropout *dropout, br_linear *linear2,
                                        br_dropout *dropout_out, br_tensor *x)
{
    br_scope *scope = br_scope_begin(); /* x is outside of it, so activate() cannot overwrite x */
    br_tensor *hidden = activate(options, br_linear_forward(linear1, x));
    br_tensor *y = br_linear_forward(linear2, br_dropout_forward(dropout, hidden));
    y = br_scope_return(scope, br_dropout_forward(dropout_out, y));
    br_scope_end(scope);
    return y;
}
