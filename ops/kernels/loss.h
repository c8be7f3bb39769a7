/* ops/kernels/loss.h - cross entropy; part of variant.c. */
#ifndef BR_KERNELS_LOSS_H
#define BR_KERNELS_LOSS_H

#include "ops/kernels/softmax.h"

/* log of the sum of exp(x) */
static double log_sum_exp_kernel(int64_t n, const void *x)
{
    real most = max_run(x, n, 1);
    return (double)most + log(exp_sum(x, n, most));
}

/* sum of x w, or of x without w */
static double dot_kernel(int64_t n, const void *x, const void *w)
{
    return w ? sum_of_products(x, w, n) : sum_of_row(x, n);
}

/* dx = all exp(x - log_sum) - spread w - own onehot(target), w being 1 where it is NULL */
static void cross_entropy_grad_kernel(int64_t n, const void *x_row, const void *w_row,
                                      const br_cross_entropy_row *r, void *dx_row)
{
    const real *restrict x = x_row, *restrict w = w_row;
    real *restrict dx = dx_row;
    const real factor = (real)r->all, spread = (real)r->spread;
    for (int64_t i = 0; i < n; i += BLOCK) {
        const int64_t count = block_at(i, n);
        exp_block(x + i, count, (real)r->log_sum, dx + i);
        FOR_EACH(real, k, count, dx[i + k] *= factor;)
    }
    if (spread != 0)
        FOR_EACH(real, i, n, dx[i] -= w ? spread * w[i] : spread;)
    dx[r->target] -= (real)r->own;
}

#endif
