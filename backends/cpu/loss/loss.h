/* backends/cpu/loss/loss.h - cross entropy of class indices; part of variant.c.
 *
 * The loss of a row x with the target class t is log(sum over c of exp(x_c)) - x_t, and its
 * gradient is softmax(x) - onehot(t); class_rows.c adds class weights and label
 * smoothing. Like softmax, the kernels subtract the maximum first. They process a row in blocks of
 * BLOCK elements, whose exponentials fit in the L1 cache, and add the sums of blocks in double.
 * The target's exponential is kept apart from the sum over the other classes, which it would round
 * away if the prediction is confident. A row's results depend on no other row. */
#ifndef BR_KERNELS_LOSS_H
#define BR_KERNELS_LOSS_H

#include "backends/cpu/loss/loss_kernels.h"
#include "backends/cpu/norm/softmax.h"

/* Sums exp(x - max x), with the target's term kept separate. If the prediction is confident, the
 * loss and its gradient depend on the sum over the other classes, which is small. Adding it to the
 * target's term, which is 1, would round it away. */
static void cross_entropy_sums_kernel(int64_t n, const void *x_row, int64_t target,
                                      br_cross_entropy_sums *sums)
{
    const real *x = x_row, row_max = max_run(x, n, 1);
    real e[BLOCK];
    double rest = 0;
    for (int64_t i = 0; i < n; i += BLOCK) {
        const int64_t count = block_at(i, n), own = target - i;
        double sum = exp_block(x + i, count, row_max, e);
        if (own >= 0 && own < count) {
            sums->own = (double)e[own];
            sum -= sums->own;
            if (sum < sums->own) { /* the difference cancels */
                e[own] = 0;
                sum = sum_of_row(e, count);
            }
        }
        rest += sum;
    }
    sums->row_max = (double)row_max;
    sums->rest = rest;
}

/* Returns the sum of (x - shift) w, with w = 1 if it is NULL. A class of weight 0 is left out even
 * if x is infinite. */
static double shifted_dot_kernel(int64_t n, const void *x_row, const void *w_row, double shift)
{
    const real *x = x_row, *w = w_row, less = (real)shift;
    real terms[BLOCK];
    double sum = 0;
    for (int64_t i = 0; i < n; i += BLOCK) {
        const int64_t count = block_at(i, n);
        if (w)
            FOR_EACH(real, k, count, terms[k] = w[i + k] == 0 ? 0 : (x[i + k] - less) * w[i + k];)
        else
            FOR_EACH(real, k, count, terms[k] = x[i + k] - less;)
        sum += sum_of_row(terms, count);
    }
    return sum;
}

/* dx = (own + shared) p - spread w - own onehot(target), with w = 1 if it is NULL; dx may be x. At
 * the target, p - 1 is computed as -rest / (sum of all), which avoids cancellation if p is close
 * to 1. */
static void cross_entropy_grad_kernel(int64_t n, const void *x_row, const void *w_row,
                                      const br_cross_entropy_row *r, void *dx_row)
{
    const real *x = x_row, *restrict w = w_row;
    real *dx = dx_row;
    const real row_max = (real)r->row_max, spread = (real)r->spread;
    const double inverse = 1 / (r->own_exp + r->rest);
    const real factor = (real)((r->own + r->shared) * inverse);
    for (int64_t i = 0; i < n; i += BLOCK) {
        const int64_t count = block_at(i, n);
        exp_block(x + i, count, row_max, dx + i);
        FOR_EACH(real, k, count, dx[i + k] *= factor;)
    }
    if (spread != 0)
        FOR_EACH(real, i, n, dx[i] -= w ? spread * w[i] : spread;)
    dx[r->target] = (real)((r->shared * r->own_exp - r->own * r->rest) * inverse -
                           r->spread * (w ? (double)w[r->target] : 1));
}

#endif
