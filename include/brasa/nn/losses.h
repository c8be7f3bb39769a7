/* brasa/nn/losses.h - losses as modules; part of brasa/nn.h. */
#ifndef BRASA_NN_LOSSES_H
#define BRASA_NN_LOSSES_H

#include <brasa/nn/layers.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct br_loss br_loss;
typedef br_tensor *(*br_loss_fn)(const br_loss *self, br_tensor *const *inputs);
struct br_loss {
    br_module base;
    br_loss_fn function;
    int n_inputs;
    br_reduction reduction;
    br_tensor *weight, *pos_weight; /* buffers, or NULL */
    double margin;                  /* or beta or delta, depending on the loss */
    bool log_target;
    br_cross_entropy_options classes; /* its weight is the field `weight` above */
    br_triplet_options triplet;
};
/* Create loss modules such as nn.MSELoss. Each calls the loss function of the same name in ops.h
 * with the given arguments. Weights and options may be NULL. */
BR_API br_loss *br_mse_loss_new(br_reduction reduction);
BR_API br_loss *br_l1_loss_new(br_reduction reduction);
BR_API br_loss *br_smooth_l1_loss_new(br_reduction reduction, double beta);
BR_API br_loss *br_huber_loss_new(br_reduction reduction, double delta);
BR_API br_loss *br_cross_entropy_loss_new(const br_cross_entropy_options *options);
BR_API br_loss *br_nll_loss_new(const br_cross_entropy_options *options);
BR_API br_loss *br_bce_loss_new(br_tensor *weight, br_reduction reduction);
BR_API br_loss *br_bce_with_logits_loss_new(br_tensor *weight, br_reduction reduction,
                                            br_tensor *pos_weight);
BR_API br_loss *br_kl_div_loss_new(br_reduction reduction, bool log_target);
BR_API br_loss *br_cosine_embedding_loss_new(double margin, br_reduction reduction);
BR_API br_loss *br_margin_ranking_loss_new(double margin, br_reduction reduction);
BR_API br_loss *br_triplet_margin_loss_new(const br_triplet_options *options,
                                           br_reduction reduction);
/* Computes the loss from the inputs of the loss function: br_loss_forward(loss, BR_INPUTS(input,
 * target)). */
BR_API br_tensor *br_loss_forward(br_loss *self, int n, br_tensor *const *inputs);

/* nn.LinearCrossEntropyLoss: a linear layer, and the cross entropy of its scores. */
typedef struct br_linear_cross_entropy_loss {
    br_module base;
    br_linear *linear; /* its outputs are the scores [num_classes, out_features...], flattened */
    br_tensor *weight; /* of the classes: a buffer, or NULL */
    int ndim;          /* dimensions of the scores of a row, of these sizes */
    int64_t sizes[BR_MAX_DIMS];
    br_linear_cross_entropy_options options; /* its tensors are the fields above */
} br_linear_cross_entropy_loss;
/* Creates the module. out_features may have no dimensions (BR_SCALAR, PyTorch's default); `bias`
 * adds a bias to the scores (PyTorch's default is false), so options->linear_bias must be NULL.
 * `options` may be NULL. */
BR_API br_linear_cross_entropy_loss *br_linear_cross_entropy_loss_new(
    int64_t in_features, int64_t num_classes, int ndim, const int64_t *out_features, bool bias,
    const br_linear_cross_entropy_options *options);
/* Returns br_linear_cross_entropy() of the input, the layer's weight and bias, and the target. */
BR_API br_tensor *br_linear_cross_entropy_loss_forward(br_linear_cross_entropy_loss *self,
                                                       br_tensor *input, br_tensor *target);

#ifdef __cplusplus
}
#endif

#endif
