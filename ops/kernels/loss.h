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

/* sum of x w, or of x without w */
static double dot_kernel(int64_t n, const void *x, const void *w)
{
    return w ? sum_of_products(x, w, n) : sum_of_row(x, n);
}

static void take_off(int64_t n, real spread, const real *restrict w, real *restrict dx)
{
    FOR_EACH(real, i, n, dx[i] -= w ? spread * w[i] : spread;)
}

/* dx = all exp(x - log_sum) - spread w - own onehot(target), w being 1 where it is NULL */
EVERY_WIDTH static void cross_entropy_grad_kernel(int64_t n, const void *x_row, const void *w,
                                                  const br_cross_entropy_row *r, void *dx_row)
{
    const real *restrict x = x_row;
    real *restrict dx = dx_row;
    const real shift = (real)r->log_sum, factor = (real)r->all;
    FOR_EVERY(i, n, dx[i] = exp_negative(x[i] - shift) * factor;)
    if (r->spread != 0)
        take_off(n, (real)r->spread, w, dx);
    dx[r->target] -= (real)r->own;
}

#endif
