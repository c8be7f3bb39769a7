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

#endif
