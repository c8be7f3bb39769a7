/* brasa/ops/losses.h - losses of torch.nn.functional; part of brasa/ops.h. They are implemented in
 * ops/loss/cross_entropy.c, linear_cross_entropy.c, nll.c, distance.c and margin.c. */
#ifndef BRASA_OPS_LOSSES_H
#define BRASA_OPS_LOSSES_H

#include <brasa/autograd.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum br_reduction {
    BR_REDUCTION_MEAN,
    BR_REDUCTION_SUM,
    BR_REDUCTION_NONE,
    BR_REDUCTION_BATCHMEAN, /* kl_div only: the sum divided by the size of dimension 0 */
} br_reduction;

typedef struct br_cross_entropy_options {
    size_t struct_size;
    br_reduction reduction;
    int64_t ignore_index;   /* targets with this value are ignored */
    br_tensor *weight;      /* [c], the weight of each class; NULL: 1 */
    double label_smoothing; /* this fraction of each target is spread over all classes */
} br_cross_entropy_options;
#define br_cross_entropy_default_fields \
    .struct_size = sizeof(br_cross_entropy_options), .ignore_index = -100
BR_API br_cross_entropy_options br_cross_entropy_defaults(void);

/* Returns -log softmax(input)[target] for class scores input [n, c], [c] or [n, c, d1, ...] and
 * target (i64 or u8) [n], [] or [n, d1, ...]. Alternatively target has the input's dtype and shape
 * and holds the probabilities of the classes; ignore_index must then be negative. With class
 * targets, the mean divides by the sum of the weights of the targets that are not ignored; it is
 * NaN if all targets are ignored, as in PyTorch. `options` may be NULL. */
BR_API br_tensor *br_cross_entropy(br_tensor *input, br_tensor *target,
                                   const br_cross_entropy_options *options);
/* The same as br_cross_entropy() for an input of log-probabilities: -input[target]. label_smoothing
 * must be 0. */
BR_API br_tensor *br_nll_loss(br_tensor *input, br_tensor *target,
                              const br_cross_entropy_options *options);

typedef struct br_linear_cross_entropy_options {
    size_t struct_size;
    br_tensor *linear_bias; /* added to the scores; NULL: none */
    br_reduction reduction;
    int64_t ignore_index;   /* targets with this value are ignored */
    br_tensor *weight;      /* [classes], the weight of each class; NULL: 1 */
    double label_smoothing; /* this fraction of each target is spread over all classes */
    /* Compute the scores for some of the rows at a time, and never hold all of them. */
    bool chunked;
    int64_t batch_chunk_size; /* rows of a chunk; 0: chosen from the number of classes */
} br_linear_cross_entropy_options;
#define br_linear_cross_entropy_default_fields \
    .struct_size = sizeof(br_linear_cross_entropy_options), .ignore_index = -100
BR_API br_linear_cross_entropy_options br_linear_cross_entropy_defaults(void);
/* Returns br_cross_entropy() of the scores input linear_weight^T + linear_bias, for input [n,
 * in_features] or [in_features] and linear_weight [classes, in_features] or [classes, d1, ...,
 * in_features]. linear_bias has the sizes of linear_weight without the last; the target has those
 * that br_cross_entropy() requires for scores [n, classes, d1, ...] or [classes].
 *
 * In a language model the scores need far more memory than anything else. With `chunked`, all rows
 * together need that of one chunk. A mean or a sum then takes as long as without chunks: its
 * gradients are computed with the loss, and backward multiplies them by that of the loss. With
 * BR_REDUCTION_NONE backward computes the scores again. Results differ from those without chunks by
 * rounding only, because gradients are summed chunk by chunk. Second derivatives are computed from
 * all scores at once. So is the loss itself, whatever `chunked` is, if the target holds
 * probabilities, linear_weight has more than two dimensions, or `weight` requires grad. `options`
 * may be NULL. */
BR_API br_tensor *br_linear_cross_entropy(br_tensor *input, br_tensor *linear_weight,
                                          br_tensor *target,
                                          const br_linear_cross_entropy_options *options);

/* Return elementwise losses of d = input - target: d^2, |d|, and |d| < beta ? d^2 / (2 beta) : |d|
 * - beta / 2 (PyTorch's default beta is 1). Both tensors may require grad. If their shapes differ
 * they are broadcast, and the error callback gets a warning. */
BR_API br_tensor *br_mse_loss(br_tensor *input, br_tensor *target, br_reduction reduction);
BR_API br_tensor *br_l1_loss(br_tensor *input, br_tensor *target, br_reduction reduction);
BR_API br_tensor *br_smooth_l1_loss(br_tensor *input, br_tensor *target, br_reduction reduction,
                                    double beta);
/* Returns delta times br_smooth_l1_loss() with beta = delta (PyTorch's default is 1). */
BR_API br_tensor *br_huber_loss(br_tensor *input, br_tensor *target, br_reduction reduction,
                                double delta);
/* Returns -weight (target log input + (1 - target) log(1 - input)) for probabilities. The
 * logarithms are clamped to at least -100. weight broadcasts to the input and may be NULL. */
BR_API br_tensor *br_binary_cross_entropy(br_tensor *input, br_tensor *target, br_tensor *weight,
                                          br_reduction reduction);
/* Returns -weight (pos_weight target log s + (1 - target) log(1 - s)) with s = sigmoid(input),
 * without computing s. Both weights broadcast to the input and may be NULL. */
BR_API br_tensor *br_binary_cross_entropy_with_logits(br_tensor *input, br_tensor *target,
                                                      br_tensor *weight, br_reduction reduction,
                                                      br_tensor *pos_weight);
/* Returns target (log target - input), where input holds log-probabilities and target probabilities
 * or, if log_target, log-probabilities. BR_REDUCTION_MEAN causes a warning: it is not the mean over
 * the batch. */
BR_API br_tensor *br_kl_div(br_tensor *input, br_tensor *target, br_reduction reduction,
                            bool log_target);
/* Returns the dot product of x1 and x2 along dim, divided by max(|x1|, eps) max(|x2|, eps). x1 and
 * x2 broadcast, and dim is a dimension of the common shape (PyTorch's defaults are 1 and 1e-8). */
BR_API br_tensor *br_cosine_similarity(br_tensor *x1, br_tensor *x2, int64_t dim, double eps);
/* Returns the p-norm of x1 - x2 + eps along the last dimension (PyTorch's defaults are 2 and
 * 1e-6). */
BR_API br_tensor *br_pairwise_distance(br_tensor *x1, br_tensor *x2, double p, double eps,
                                       bool keepdim);

/* Returns the p-norm of x1 - x2, which broadcast, over all elements (PyTorch's default is 2). */
BR_API br_tensor *br_dist(br_tensor *x1, br_tensor *x2, double p);
/* Returns the p-norms of the differences of all rows of x1 [*, n, d] and x2 [*, m, d]: [*, n, m].
 * The leading dimensions broadcast (PyTorch's default is 2). */
BR_API br_tensor *br_cdist(br_tensor *x1, br_tensor *x2, double p);
/* Returns the p-norms of the differences of rows i < j of x [n, d]: [n (n - 1) / 2]. */
BR_API br_tensor *br_pdist(br_tensor *x, double p);

/* In the losses below, a target is 1 or -1 and has the input's dtype, and x+ means max(x, 0). */

typedef struct br_triplet_options {
    size_t struct_size;
    double margin, p, eps;
    bool swap; /* use the smaller of the negative's distances to anchor and positive */
} br_triplet_options;
#define br_triplet_default_fields \
    .struct_size = sizeof(br_triplet_options), .margin = 1, .p = 2, .eps = 1e-6
BR_API br_triplet_options br_triplet_defaults(void);
/* Returns (margin + |anchor - positive| - |anchor - negative|)+ with the distances of
 * br_pairwise_distance(). `options` may be NULL. */
BR_API br_tensor *br_triplet_margin_loss(br_tensor *anchor, br_tensor *positive,
                                         br_tensor *negative, const br_triplet_options *options,
                                         br_reduction reduction);
/* Returns (margin - target (input1 - input2))+. */
BR_API br_tensor *br_margin_ranking_loss(br_tensor *input1, br_tensor *input2, br_tensor *target,
                                         double margin, br_reduction reduction);
/* Returns input for target 1, (margin - input)+ for target -1. */
BR_API br_tensor *br_hinge_embedding_loss(br_tensor *input, br_tensor *target, double margin,
                                          br_reduction reduction);
/* Returns 1 - c for target 1 and (c - margin)+ for target -1, where c is the cosine similarity of
 * input1 and input2, [n, d]. */
BR_API br_tensor *br_cosine_embedding_loss(br_tensor *input1, br_tensor *input2, br_tensor *target,
                                           double margin, br_reduction reduction);
/* Returns log(1 + exp(-target input)). */
BR_API br_tensor *br_soft_margin_loss(br_tensor *input, br_tensor *target, br_reduction reduction);

/* Returns exp(input) - target input if log_input, else input - target log(input + eps). `full` adds
 * Stirling's approximation of log(target!) for targets above 1 (PyTorch's defaults are true, false
 * and 1e-8). */
BR_API br_tensor *br_poisson_nll_loss(br_tensor *input, br_tensor *target, bool log_input,
                                      bool full, double eps, br_reduction reduction);
/* Returns (log v + (input - target)^2 / v) / 2 with v = max(var, eps), and log(2 pi) / 2 more if
 * `full` (PyTorch's defaults are false and 1e-6). var has input's shape, or lacks its last
 * dimension, or has size 1 there. */
BR_API br_tensor *br_gaussian_nll_loss(br_tensor *input, br_tensor *target, br_tensor *var,
                                       bool full, double eps, br_reduction reduction);
/* Returns the mean over classes j other than the target t of ((margin - input[t] + input[j])+)^p,
 * times weight[t]. input is [n, c] or [c], target i64 [n] or [], p 1 or 2 (PyTorch's defaults are 1
 * and 1). */
BR_API br_tensor *br_multi_margin_loss(br_tensor *input, br_tensor *target, int64_t p,
                                       double margin, br_tensor *weight, br_reduction reduction);
/* Returns the mean over classes of the binary cross entropy with logits, times weight. */
BR_API br_tensor *br_multilabel_soft_margin_loss(br_tensor *input, br_tensor *target,
                                                 br_tensor *weight, br_reduction reduction);
/* Connectionist temporal classification, Graves et al., 2006. Returns -log p of the targets, of
 * which input_lengths[n] steps of log_probs [T, N, C] are used. targets is [N, S], or 1-d with all
 * targets one after the other; lengths are i64 [N]. BR_REDUCTION_MEAN divides each loss by its
 * target's length first. With zero_infinity, infinite losses are 0. log_probs may be [T, C], with
 * lengths []. */
BR_API br_tensor *br_ctc_loss(br_tensor *log_probs, br_tensor *targets, br_tensor *input_lengths,
                              br_tensor *target_lengths, int64_t blank, br_reduction reduction,
                              bool zero_infinity);

/* ---- Fine-tuning ----------------------------------------------------------------------------- */

/* Returns the contrastive loss of n embeddings, such as questions, anchors [n, d], and m >= n
 * candidates [m, d], such as answers, of which the i-th belongs to anchor i: the mean of
 * br_cross_entropy() for the scores scale * cosine(anchor, candidate) and the targets 0 .. n - 1.
 * Candidates of other anchors, and those after the n-th, are the wrong ones. It is
 * sentence-transformers' MultipleNegativesRankingLoss, whose scale is 20; van den Oord et al., 2018
 * (InfoNCE). */
BR_API br_tensor *br_info_nce_loss(br_tensor *anchors, br_tensor *candidates, double scale);

typedef enum br_dpo_loss_type {
    BR_DPO_SIGMOID, /* -log sigmoid(beta d); Rafailov et al., 2023 */
    BR_DPO_HINGE,   /* (1 - beta d)+; Zhao et al., 2023 (SLiC) */
    BR_DPO_IPO,     /* (d - 1 / (2 beta))^2; Azar et al., 2023 */
} br_dpo_loss_type;

typedef struct br_dpo_options {
    size_t struct_size;
    br_dpo_loss_type loss_type;
    double beta;            /* how far the model may move away from the reference */
    double label_smoothing; /* BR_DPO_SIGMOID: probability that a preference is wrong; below 0.5 */
    br_reduction reduction;
} br_dpo_options;
#define br_dpo_default_fields .struct_size = sizeof(br_dpo_options), .beta = 0.1
BR_API br_dpo_options br_dpo_defaults(void);
/* Returns the loss of direct preference optimization for the log-probabilities of preferred and
 * rejected texts, by the model that is trained and by a reference model, which is usually the model
 * before training. All tensors broadcast, usually [n]: the sums over the tokens of a text, or for
 * BR_DPO_IPO their means. d is (chosen - ref_chosen) - (rejected - ref_rejected). Losses and names
 * are those of trl's DPOTrainer. `options` may be NULL. */
BR_API br_tensor *br_dpo_loss(br_tensor *chosen, br_tensor *rejected, br_tensor *ref_chosen,
                              br_tensor *ref_rejected, const br_dpo_options *options);

/* Returns the loss of a student whose scores of classes, [..., classes], should become those of a
 * teacher: temperature^2 times the Kullback-Leibler divergence of softmax(teacher / temperature)
 * and softmax(student / temperature), as the mean over rows. Hinton et al., 2015. Pass the
 * teacher's scores detached, or computed without gradients. */
BR_API br_tensor *br_distillation_loss(br_tensor *student, br_tensor *teacher, double temperature);

#ifdef __cplusplus
}
#endif
#endif
