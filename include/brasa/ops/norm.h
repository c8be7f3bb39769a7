/* brasa/ops/norm.h - softmax, and layer, RMS, batch, group and instance norm; part of brasa/ops.h.
 * Floating-point dtypes. If x is bf16 or f16, weight, bias and running statistics may be f32.
 * Implemented in ops/norm/. */
#ifndef BRASA_OPS_NORM_H
#define BRASA_OPS_NORM_H

#include <brasa/autograd.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Return the softmax along dim, exp(x) / sum exp(x), or its logarithm, computed from x - max x. A
 * row that contains only -inf gives NaN, as in PyTorch. */
BR_API br_tensor *br_softmax(br_tensor *x, int64_t dim);
BR_API br_tensor *br_log_softmax(br_tensor *x, int64_t dim);
/* Returns the softmax of -x along dim. */
BR_API br_tensor *br_softmin(br_tensor *x, int64_t dim);
/* Returns x / max(|x|, eps) with the p-norm |x| along dim (PyTorch's defaults are 2, 1 and 1e-12).
 */
BR_API br_tensor *br_normalize(br_tensor *x, double p, int64_t dim, double eps);
/* Returns x / (k + alpha * mean of x^2)^beta for x [N, C, ...], where the mean is over `size`
 * neighbouring channels, with zeros beyond the first and the last (PyTorch's defaults are 1e-4,
 * 0.75 and 1). */
BR_API br_tensor *br_f_local_response_norm(br_tensor *x, int64_t size, double alpha, double beta,
                                           double k);
/* Returns (x - mean) / sqrt(variance + eps) * weight + bias over the last `ndims` dimensions of x,
 * whose sizes must be `sizes`. The variance divides by the number of elements. weight and bias have
 * the shape `sizes` or are NULL. Ba, Kiros and Hinton, 2016. */
BR_API br_tensor *br_f_layer_norm(br_tensor *x, int ndims, const int64_t *sizes, br_tensor *weight,
                                  br_tensor *bias, double eps);
/* Returns x / sqrt(mean of x^2 + eps) * weight over the last dimensions, as above. BR_NONE_F64 as
 * eps means PyTorch's default, the machine epsilon of x's dtype. Zhang and Sennrich, 2019. */
BR_API br_tensor *br_f_rms_norm(br_tensor *x, int ndims, const int64_t *sizes, br_tensor *weight,
                                double eps);
/* Returns (x - mean) / sqrt(variance + eps) * weight + bias for x [N, C, ...], with the mean and
 * variance of each channel over the batch and the dimensions after C. weight and bias are [C] or
 * NULL. If `training`, mean and variance are computed from x, and running_mean and running_var [C],
 * unless NULL, are updated in place with `momentum`; the variance for running_var divides by n - 1.
 * Otherwise the running statistics are used and must not be NULL. Ioffe and Szegedy, 2015. */
BR_API br_tensor *br_f_batch_norm(br_tensor *x, br_tensor *running_mean, br_tensor *running_var,
                                  br_tensor *weight, br_tensor *bias, bool training,
                                  double momentum, double eps);
/* The same with statistics computed from x for each item of the batch and each of num_groups equal
 * groups of adjacent channels. Wu and He, 2018. */
BR_API br_tensor *br_f_group_norm(br_tensor *x, int64_t num_groups, br_tensor *weight,
                                  br_tensor *bias, double eps);
/* Batch norm with separate statistics for each item and channel. x [N, C, ...] must have at least
 * one dimension after C. use_input_stats corresponds to `training`; the running statistics are
 * updated with the mean over the batch. Ulyanov, Vedaldi and Lempitsky, 2016. */
BR_API br_tensor *br_f_instance_norm(br_tensor *x, br_tensor *running_mean, br_tensor *running_var,
                                     br_tensor *weight, br_tensor *bias, bool use_input_stats,
                                     double momentum, double eps);

#ifdef __cplusplus
}
#endif

#endif
