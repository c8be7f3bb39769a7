/* brasa/nn/per_sample.h - gradients of single samples; part of brasa/nn.h. */
#ifndef BRASA_NN_PER_SAMPLE_H
#define BRASA_NN_PER_SAMPLE_H

#include <brasa/nn/module.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct br_per_sample_options {
    size_t struct_size;
    int64_t batch_size; /* the number of samples; BR_NONE: the first size of the first input */
    /* How the loss of the batch combines the losses of the samples: BR_REDUCTION_SUM or
     * BR_REDUCTION_MEAN. */
    br_reduction loss_reduction;
} br_per_sample_options;
#define br_per_sample_default_fields                                     \
    .struct_size = sizeof(br_per_sample_options), .batch_size = BR_NONE, \
    .loss_reduction = BR_REDUCTION_SUM
BR_API br_per_sample_options br_per_sample_defaults(void);

/* Computes the gradient of each sample's loss, as torch.nn.utils' call_for_per_sample_grads() does:
 * for differential privacy, which clips them, and for influence functions. Calls f once on the
 * inputs; it runs the module and returns the loss of the batch, one element. Returns a list that
 * has, for each parameter that requires grad and that the loss depends on, a tensor
 * [batch_size, ...] under the parameter's name. br_named_list_free() frees it. No leaf's gradient
 * changes.
 *
 * The parameters belong to the layers Linear, Conv1D of GPT-2, Embedding, Conv1d to Conv3d, the
 * transposed ones, LayerNorm, RMSNorm, GroupNorm and InstanceNorm1d to InstanceNorm3d. The first
 * dimension of each layer's input, and of its result, is the batch. Fails if a parameter is used
 * elsewhere, or if a batch norm mixes the samples. The method is Goodfellow's (2015): a gradient is
 * computed from the layer's input and the gradient of its result. `options` may be NULL. */
BR_API br_named_list *br_per_sample_grad(br_module *module, br_function f, void *context,
                                         int n_inputs, br_tensor *const *inputs,
                                         const br_per_sample_options *options);

#ifdef __cplusplus
}
#endif

#endif
