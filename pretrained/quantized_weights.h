/* pretrained/quantized_weights.h - weights of GGUF files that stay quantized. */
#ifndef BR_QUANTIZED_WEIGHTS_H
#define BR_QUANTIZED_WEIGHTS_H

#include <brasa/pretrained.h>

/* Returns whether the weight of that name in the module can be quantized: the matrix of a Linear or
 * of an Embedding, which all models use by br_f_linear(), br_f_embedding() and
 * br_linear_cross_entropy() only. */
bool br__may_be_quantized(br_module *module, const char *name, const br_tensor *weight);
/* Undoes a change that has only moved rows. Returns a copy of the blocks in the module's order. */
br_tensor *br__undo_of_rows(const br_gguf_change *change, const br_auto_config *config,
                            br_tensor *quantized);
/* Same as br_equal(), also for quantized tensors. */
bool br__equal_weights(br_tensor *a, br_tensor *b);

#endif
