/* nn/transformer_internal.h - what encoder and decoder of nn.Transformer share. */
#ifndef BR_TRANSFORMER_INTERNAL_H
#define BR_TRANSFORMER_INTERNAL_H

#include "nn/nn_internal.h"

/* Options with PyTorch's defaults filled in; an error is pending if they are no good. */
br_transformer_options br__transformer_options(const char *op,
                                               const br_transformer_options *options);
/* The parts of a layer, made and registered under a parent. */
br_multihead_attention *br__transformer_attention(br_module *parent, const char *name,
                                                  int64_t d_model, int64_t nhead,
                                                  const br_transformer_options *options);
br_linear *br__transformer_linear(br_module *parent, const char *name, int64_t in, int64_t out,
                                  const br_transformer_options *options);
br_layer_norm *br__transformer_norm(br_module *parent, const char *name, int64_t d_model,
                                    const br_transformer_options *options);
br_dropout *br__transformer_dropout(br_module *parent, const char *name,
                                    const br_transformer_options *options);

/* Attention of x to `memory`, then dropout. */
br_tensor *br__transformer_attend(br_multihead_attention *attention, br_dropout *dropout,
                                  br_tensor *x, br_tensor *memory, br_tensor *mask,
                                  br_tensor *padding, bool is_causal);
/* dropout_out(linear2(dropout(activation(linear1(x))))) */
br_tensor *br__transformer_feed_forward(const br_transformer_options *options, br_linear *linear1,
                                        br_dropout *dropout, br_linear *linear2,
                                        br_dropout *dropout_out, br_tensor *x);

/* A list of n layers, registered as "layers", which all draw the same numbers. */
typedef void *(*br_make_layer)(int64_t d_model, int64_t nhead,
                               const br_transformer_options *options);
br_module_list *br__transformer_layers(br_module *parent, br_make_layer make, int64_t d_model,
                                       int64_t nhead, int64_t n,
                                       const br_transformer_options *options);

#endif
