/* ops/kernels/layer_norm.h - layer norm and its gradient, and the same without a mean, which is RMS
 * norm; part of variant.c. */
#ifndef BR_KERNELS_LAYER_NORM_H
#define BR_KERNELS_LAYER_NORM_H

#include "ops/kernels/reduce.h"
#include "ops/kernels/softmax.h"

/* The sum of (x - mean)^2 over a row: after the mean, so that nothing cancels. */
static double squares_of_block(const real *x, int64_t n, real mean)
{
    real sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; i++)
        sum += (x[i] - mean) * (x[i] - mean);
    return (double)sum;
}

static double squares_of_row(const real *x, int64_t n, real mean)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i += BLOCK)
        sum += squares_of_block(x + i, block_at(i, n), mean);
    return sum;
}

static void layer_norm_row(const br_layer_norm_work *w, int64_t row)
{
    const int64_t n = w->n;
    const real *restrict x = (const real *)w->x + row * n, *weight = w->weight, *bias = w->bias;
    real *restrict y = (real *)w->y + row * n;
    real mean = w->mean ? (real)(sum_of_row(x, n) / (double)n) : 0;
    real rstd = (real)(1 / sqrt(squares_of_row(x, n, mean) / (double)n + w->eps));
    if (w->mean)
        ((real *)w->mean)[row] = mean;
    ((real *)w->rstd)[row] = rstd;
    if (weight && bias)
        FOR_EACH(real, i, n, y[i] = (x[i] - mean) * rstd * weight[i] + bias[i];)
    else
        FOR_EACH(real, i, n,
                 y[i] = (x[i] - mean) * rstd * (weight ? weight[i] : 1) + (bias ? bias[i] : 0);)
}

static void layer_norm_kernel(const br_layer_norm_work *w)
{
    for (int64_t row = 0; row < w->rows; row++)
        layer_norm_row(w, row);
}

/* Adds to the sums of g = dy weight and of g xhat, xhat = (x - mean) rstd, over a block. Whether
 * there is a weight is known when it is inlined. */
ALWAYS_INLINE void add_block_sums(const real *x, const real *dy, const real *weight, int64_t n,
                                  real mean, real rstd, double *sum_g, double *sum_gx)
{
    real of_g = 0, of_gx = 0;
#pragma omp simd reduction(+ : of_g, of_gx)
    for (int64_t i = 0; i < n; i++) {
        real g = weight ? dy[i] * weight[i] : dy[i];
        of_g += g;
        of_gx += g * ((x[i] - mean) * rstd);
    }
    *sum_g += (double)of_g;
    *sum_gx += (double)of_gx;
}

/* dx = rstd (g - mean of g - xhat mean of g xhat); without a mean that of g is not taken off. */
ALWAYS_INLINE void layer_norm_dx(const br_layer_norm_work *w, const real *weight, int64_t row,
                                 real mean, real rstd)
{
    const int64_t n = w->n;
    const real *restrict x = (const real *)w->x + row * n;
    const real *restrict dy = (const real *)w->dy + row * n;
    real *restrict dx = (real *)w->dx + row * n;
    double sum_g = 0, sum_gx = 0;
    for (int64_t i = 0; i < n; i += BLOCK)
        add_block_sums(x + i, dy + i, weight ? weight + i : NULL, block_at(i, n), mean, rstd,
                       &sum_g, &sum_gx);
    real mean_g = w->mean ? (real)(sum_g / (double)n) : 0, mean_gx = (real)(sum_gx / (double)n);
    FOR_EACH(real, i, n, {
        real g = weight ? dy[i] * weight[i] : dy[i];
        dx[i] = rstd * (g - mean_g - (x[i] - mean) * rstd * mean_gx);
    })
}

static void layer_norm_grad_kernel(const br_layer_norm_work *w)
{
    const int64_t n = w->n;
    real *restrict dweight = w->dweight, *restrict dbias = w->dbias;
    for (int64_t row = 0; row < w->rows; row++) {
        const real *restrict x = (const real *)w->x + row * n;
        const real *restrict dy = (const real *)w->dy + row * n;
        real mean = w->mean ? ((const real *)w->mean)[row] : 0, rstd = ((const real *)w->rstd)[row];
        if (w->dx && w->weight)
            layer_norm_dx(w, w->weight, row, mean, rstd);
        else if (w->dx)
            layer_norm_dx(w, NULL, row, mean, rstd);
        if (dweight)
            FOR_EACH(real, i, n, dweight[i] += dy[i] * ((x[i] - mean) * rstd);)
        if (dbias)
            FOR_EACH(real, i, n, dbias[i] += dy[i];)
    }
}

#endif
