/* nn/transformer_internal.h - common code of the encoder and the decoder of nn.Transformer. */
#ifndef BR_TRANSFORMER_INTERNAL_H
#define BR_TRANSFORMER_INTERNAL_H

#include "nn/nn_internal.h"

/* Returns options with PyTorch's defaults filled in; sets an error if they are invalid. */
br_transformer_options br__transformer_options(const char *op,
                                               const br_transformer_options *options);
/* Create the parts of a layer and register them with a parent. */
br_multihead_attention *br__transformer_attention(br_module *parent, const char *name,
                                                  int64_t d_model, int64_t nhead,
                                                  const br_transformer_options *options);
br_linear *br__transformer_linear(br_module *parent, const char *name, int64_t in, int64_t out,
                                  const br_transformer_options *options);
br_layer_norm *br__transformer_norm(br_module *parent, const char *name, int64_t d_model,
                                    const br_transformer_options *options);
br_dropout *br__transformer_dropout(br_module *parent, const char *name,
                                    const br_transformer_options *options);

/* Checks the tensors of a call by the names that the header gives them. Those from `required` on
 * may be NULL. */
bool br__transformer_inputs(const char *op, const char *const *names, int required, int n,
                            br_tensor *const *inputs);
/* Computes attention with queries from x and keys and values from `memory`, then dropout. */
br_tensor *br__transformer_attend(br_multihead_attention *attention, br_dropout *dropout,
                                  br_tensor *x, br_tensor *memory, br_tensor *mask,
                                  br_tensor *padding, bool is_causal);
/* Computes dropout_out(linear2(dropout(activation(linear1(x))))). */
br_tensor *br__transformer_feed_forward(const br_transformer_options *options, br_linear *linear1,
                                        br_dropout *dropout, br_linear *linear2,
                                        br_dropout *dropout_out, br_tensor *x);

/* Creates a list of n layers with equal initial values and registers it as "layers". */
typedef void *(*br_make_layer)(int64_t d_model, int64_t nhead,
                               const br_transformer_options *options);
br_module_list *br__transformer_layers(br_module *parent, br_make_layer make, int64_t d_model,
                                       int64_t nhead, int64_t n,
                                       const br_transformer_options *options);

#endif
