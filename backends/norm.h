/* backends/norm.h - work of norms. */
#ifndef BR_BACKEND_NORM_H
#define BR_BACKEND_NORM_H

#include <brasa/tensor.h>

/* Layer norm of rows of n elements, where rstd has one element for each row:
 *
 *     y = (x - mean) rstd weight + bias,  rstd = 1 / sqrt(variance + eps)
 *
 * If `mean` is NULL, this is RMS norm: the mean counts as 0. All tensors are contiguous and have
 * one dtype. */
typedef struct br_layer_norm_tensors {
    double eps;
    const br_tensor *x, *weight, *bias; /* the last two may be NULL */
    const br_tensor *y, *mean, *rstd;   /* the results; the gradient reads the last two */
    const br_tensor *dy;
    const br_tensor *dx, *dweight, *dbias; /* gradients; any may be NULL */
} br_layer_norm_tensors;

/* Batch, group and instance norm of x, which is viewed as [batch, channels, inner]. One set of
 * statistics covers `group` adjacent channels, of one item of the batch or, with `across`, of all
 * items. Without `computed` the statistics are the running ones, with `across`, and the gradient
 * treats them as constants. All tensors have one dtype; all but the running statistics, which may
 * be strided or NULL, are contiguous. mean and rstd = 1 / sqrt(variance + eps) have one element for
 * each channel of each set: [1 or batch, channels]. */
typedef struct br_channel_norm_work {
    int64_t group;
    bool across, computed;
    double eps;
    const br_tensor *x, *weight, *bias;          /* the last two may be NULL */
    const br_tensor *running_mean, *running_var; /* with `computed`, they are updated */
    double momentum;                             /* of the update */
    const br_tensor *y, *mean, *rstd;            /* the results; the gradient reads the last two */
    const br_tensor *dy, *dx, *dweight, *dbias;  /* the last three may be NULL */
} br_channel_norm_work;

#endif
