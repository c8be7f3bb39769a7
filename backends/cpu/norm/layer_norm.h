/* backends/cpu/norm/layer_norm.h - layer norm (Ba, Kiros and Hinton, 2016), RMS norm (Zhang and
 * Sennrich, 2019), which is layer norm with a mean of 0, and their gradients; part of variant.c.
 *
 *     y = xhat weight + bias,  xhat = (x - mean) rstd,  rstd = 1 / sqrt(variance + eps)
 *     dx = rstd (g - mean(g) - xhat mean(g xhat)),  g = dy weight
 *     dweight = sum over rows of dy xhat,  dbias = sum over rows of dy
 *
 * Each row is read three times, while it is in the cache: for the mean, for the variance (the
 * two-pass algorithm, which avoids cancellation), and for y. Sums along a row are of the
 * element type within a block and of doubles between blocks. A row's results depend on no other
 * row; dweight and dbias add the rows of a call in order. */
#ifndef BR_KERNELS_LAYER_NORM_H
#define BR_KERNELS_LAYER_NORM_H

#include "backends/cpu/norm/norm_kernels.h"
#include "backends/cpu/norm/softmax.h"
#include "backends/cpu/reduce/reduce.h"

/* Returns the sum of (x - mean)^2 over a block. The mean is computed beforehand to avoid
 * cancellation. */
static double squares_of_block(const real *x, int64_t n, real mean)
{
    const int64_t whole = n & -VECTOR;
    vec last = load_part(x + whole, n - whole) - mean;
    last = load_part((real *)&last, n - whole);
    vec sum = last * last;
    for (int64_t i = 0; i < whole; i += VECTOR) {
        const vec from_mean = *(const vec_at *)(x + i) - mean;
        sum += from_mean * from_mean;
    }
    return (double)sum_of_lanes(sum);
}

static double squares_of_row(const real *x, int64_t n, real mean)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i += BLOCK)
        sum += squares_of_block(x + i, block_at(i, n), mean);
    return sum;
}

/* Return the mean of a row, and its sum of (x - mean)^2. Sums of the element type that overflow,
 * such as those of the squares of f32 numbers above 1.8e19, are computed again in double. */
static double mean_of_row(const real *x, int64_t n)
{
    double sum = sum_of_row(x, n);
    if (fabs(sum) < INFINITY)
        return sum / (double)n;
    double mean = 0;
    for (int64_t i = 0; i < n; i++)
        mean += (double)x[i] / (double)n;
    return mean;
}

static double deviations_of_row(const real *x, int64_t n, real mean)
{
    double sum = squares_of_row(x, n, mean);
    if (!(sum < INFINITY)) {
        sum = 0;
        for (int64_t i = 0; i < n; i++)
            sum += ((double)x[i] - (double)mean) * ((double)x[i] - (double)mean);
    }
    return sum;
}

/* Returns 1 / sqrt(variance + eps). If squares overflow even in double, the deviations are divided
 * by the largest one. It is 0 if a deviation is infinite, and NaN if one is NaN. */
static double rstd_of_row(const real *x, int64_t n, real mean, double eps)
{
    double sum = deviations_of_row(x, n, mean), largest = 0;
    if (sum < INFINITY)
        return 1 / sqrt(sum / (double)n + eps);
    for (int64_t i = 0; i < n; i++)
        largest = fmax(largest, fabs((double)x[i] - (double)mean));
    if (isinf(largest))
        return 1 / sqrt(sum);
    sum = 0;
    for (int64_t i = 0; i < n; i++) {
        double part = ((double)x[i] - (double)mean) / largest;
        sum += part * part;
    }
    return 1 / sqrt(sum / (double)n + eps / largest / largest) / largest;
}

/* The weight or the bias: an array, or one value for all elements. */
typedef struct parameter {
    const real *at;
    int64_t step; /* 1 for an array, 0 for one value */
    vec same;
} parameter;

static void set_parameter(parameter *p, const real *array, real otherwise)
{
    p->same = otherwise - (vec){ 0 }; /* keeps the sign of -0 */
    p->at = array ? array : (const real *)&p->same;
    p->step = array != NULL;
}

ALWAYS_INLINE vec vector_of(const parameter *p, int64_t i)
{
    return *(const vec_at *)(p->at + i * p->step);
}

/* The parameters are copied, so that the compiler knows that stores to y cannot change them. */
static void layer_norm_row(const br_layer_norm_work *w, const parameter *of_weight,
                           const parameter *of_bias, int64_t row)
{
    const parameter weight = *of_weight, bias = *of_bias;
    const int64_t n = w->n, whole = n & -VECTOR;
    const real *restrict x = (const real *)w->x + row * n;
    real *restrict y = (real *)w->y + row * n;
    real mean = w->mean ? (real)mean_of_row(x, n) : 0;
    real rstd = (real)rstd_of_row(x, n, mean, w->eps);
    if (w->mean)
        ((real *)w->mean)[row] = mean;
    ((real *)w->rstd)[row] = rstd;
    for (int64_t i = 0; i < whole; i += VECTOR)
        *(vec_at *)(y + i) =
            (*(const vec_at *)(x + i) - mean) * rstd * vector_of(&weight, i) + vector_of(&bias, i);
    for (int64_t i = whole; i < n; i++)
        y[i] = (x[i] - mean) * rstd * weight.at[i * weight.step] + bias.at[i * bias.step];
}

static void layer_norm_kernel(const br_layer_norm_work *w)
{
    parameter weight, bias;
    set_parameter(&weight, w->weight, 1);
    /* RMS norm without a bias adds -0, which keeps the sign of zeros. */
    set_parameter(&bias, w->bias, w->mean ? 0 : -(real)0);
    for (int64_t row = 0; row < w->rows; row++)
        layer_norm_row(w, &weight, &bias, row);
}

/* Adds the sums of g = dy weight and of g xhat, xhat = (x - mean) rstd, over a block to *sum_g and
 * *sum_gx. */
static void add_block_sums(const real *x, const real *dy, const parameter *weight, int64_t first,
                           int64_t n, real mean, real rstd, double *sum_g, double *sum_gx)
{
    const int64_t end = first + n, whole = end - n % VECTOR;
    vec g = load_part(dy + whole, end - whole);
    g *= weight->step ? load_part(weight->at + whole, end - whole) : weight->same;
    vec of_g = g, of_gx = g * ((load_part(x + whole, end - whole) - mean) * rstd);
    for (int64_t i = first; i < whole; i += VECTOR) {
        g = *(const vec_at *)(dy + i) * vector_of(weight, i);
        of_g += g;
        of_gx += g * ((*(const vec_at *)(x + i) - mean) * rstd);
    }
    *sum_g += (double)sum_of_lanes(of_g);
    *sum_gx += (double)sum_of_lanes(of_gx);
}

/* Does the same over a row. */
static void add_row_sums(const real *x, const real *dy, const parameter *weight, int64_t n,
                         real mean, real rstd, double *sum_g, double *sum_gx)
{
    for (int64_t i = 0; i < n; i += BLOCK)
        add_block_sums(x, dy, weight, i, block_at(i, n), mean, rstd, sum_g, sum_gx);
}

/* dx = rstd (g - mean(g) - xhat mean(g xhat)). RMS norm does not subtract mean(g). */
static void layer_norm_dx(const br_layer_norm_work *w, const parameter *of_weight, int64_t row,
                          real mean, real rstd)
{
    const parameter weight = *of_weight;
    const int64_t n = w->n, whole = n & -VECTOR;
    const real *restrict x = (const real *)w->x + row * n;
    const real *restrict dy = (const real *)w->dy + row * n;
    real *restrict dx = (real *)w->dx + row * n;
    double sum_g = 0, sum_gx = 0;
    add_row_sums(x, dy, of_weight, n, mean, rstd, &sum_g, &sum_gx);
    real mean_g = w->mean ? (real)(sum_g / (double)n) : 0, mean_gx = (real)(sum_gx / (double)n);
    for (int64_t i = 0; i < whole; i += VECTOR) {
        const vec g = *(const vec_at *)(dy + i) * vector_of(&weight, i);
        const vec xhat = (*(const vec_at *)(x + i) - mean) * rstd;
        *(vec_at *)(dx + i) = rstd * (g - mean_g - xhat * mean_gx);
    }
    for (int64_t i = whole; i < n; i++) {
        const real g = dy[i] * weight.at[i * weight.step];
        dx[i] = rstd * (g - mean_g - (x[i] - mean) * rstd * mean_gx);
    }
}

static void layer_norm_grad_kernel(const br_layer_norm_work *w)
{
    const int64_t n = w->n;
    real *restrict dweight = w->dweight, *restrict dbias = w->dbias;
    parameter weight;
    set_parameter(&weight, w->weight, 1);
    for (int64_t row = 0; row < w->rows; row++) {
        const real *restrict x = (const real *)w->x + row * n;
        const real *restrict dy = (const real *)w->dy + row * n;
        real mean = w->mean ? ((const real *)w->mean)[row] : 0, rstd = ((const real *)w->rstd)[row];
        if (w->dx)
            layer_norm_dx(w, &weight, row, mean, rstd);
        if (dweight)
            FOR_EACH(real, i, n, dweight[i] += dy[i] * ((x[i] - mean) * rstd);)
        if (dbias)
            FOR_EACH(real, i, n, dbias[i] += dy[i];)
    }
}

#endif
