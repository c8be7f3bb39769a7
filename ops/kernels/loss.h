/* ops/kernels/loss.h - cross entropy; part of variant.c. */
#ifndef BR_KERNELS_LOSS_H
#define BR_KERNELS_LOSS_H

#include "ops/kernels/softmax.h"

/* log of the sum of exp(x) */
static double log_sum_exp_kernel(int64_t n, const void *x)
{
    real most = largest_of(x, n);
    return (double)most + log(exp_sum(x, n, most));
}

/* dx = (exp(x - lse) - onehot(target)) scale */
static void cross_entropy_grad_kernel(int64_t n, const void *x_row, double lse, int64_t target,
                                      double scale, void *dx_row)
{
    const real *restrict x = x_row;
    real *restrict dx = dx_row;
    const real shift = (real)lse, factor = (real)scale;
    for (int64_t i = 0; i < n; i++)
        dx[i] = exp_negative(x[i] - shift) * factor;
    dx[target] -= factor;
}

#endif
