/* backends/cpu/norm/norm_channels.h - statistics of channels and normalization with them, forward
 * and gradient, for batch, group and instance norm; part of variant.c.
 *
 * A call adds one item, [channels, inner], to the moments of each channel: the mean and the sum of
 * squared deviations, in double. If inner is 1, as in batch norm after a linear layer, loops are
 * vectorized across the channels, and Welford's algorithm (1962) updates the moments. Otherwise
 * they are vectorized along each channel: the moments of a channel's elements are computed in two
 * passes while they are in the cache, and are combined with the earlier ones by the formula of
 * Chan, Golub and LeVeque (1979). Neither subtracts large sums of squares, so there is no
 * cancellation. A channel's results depend on no other channel. ops/norm/channel_norm.c combines
 * the moments of tasks. */
#ifndef BR_KERNELS_NORM_CHANNELS_H
#define BR_KERNELS_NORM_CHANNELS_H

#include "backends/cpu/norm/layer_norm.h"
#include "backends/cpu/norm/norm_kernels.h"

/* ---- Moments --------------------------------------------------------------------------------- */

/* Adds one element to the moments of each channel. */
static void add_single_moments(const br_channel_work *w)
{
    const real *restrict x = w->x;
    double *restrict mean = w->first, *restrict squares = w->second;
    const double part = 1 / (double)(w->count + 1);
    FOR_EACH(real, c, w->channels, {
        double delta = (double)x[c] - mean[c];
        mean[c] += delta * part;
        squares[c] += delta * ((double)x[c] - mean[c]);
    })
}

/* Computes the mean and the sum of squared deviations of each channel while it is in the cache, and
 * combines them with the earlier moments. */
static void channel_moments(const br_channel_work *w)
{
    if (w->inner == 1) {
        add_single_moments(w);
        return;
    }
    const double n = (double)w->inner, before = (double)w->count, all = before + n;
    for (int64_t c = 0; c < w->channels; c++) {
        const real *x = (const real *)w->x + c * w->inner;
        double mean = mean_of_row(x, w->inner), delta = mean - w->first[c];
        w->second[c] +=
            deviations_of_row(x, w->inner, (real)mean) + delta * delta * (before * n / all);
        w->first[c] += delta * (n / all);
    }
}

/* ---- Forward --------------------------------------------------------------------------------- */

/* y = (x - mean) scale + shift */
static void channel_norm(const br_channel_work *w)
{
    const real *mean = w->mean, *scale = w->scale, *shift = w->shift;
    if (w->inner == 1) {
        const real *restrict x = w->x;
        real *restrict y = w->out;
        FOR_EACH(real, c, w->channels, y[c] = (x[c] - mean[c]) * scale[c] + shift[c];)
        return;
    }
    for (int64_t c = 0; c < w->channels; c++) {
        const real *restrict x = (const real *)w->x + c * w->inner;
        real *restrict y = (real *)w->out + c * w->inner;
        const real m = mean[c], a = scale[c], b = shift[c];
        FOR_EACH(real, i, w->inner, y[i] = (x[i] - m) * a + b;)
    }
}

/* ---- Gradient -------------------------------------------------------------------------------- */

/* Accumulates the sums of dy and of dy (x - mean). */
static void channel_products(const br_channel_work *w)
{
    const real *mean = w->mean;
    if (w->inner == 1) {
        const real *restrict x = w->x, *restrict dy = w->dy;
        double *restrict sums = w->first, *restrict products = w->second;
        FOR_EACH(real, c, w->channels, {
            sums[c] += (double)dy[c];
            products[c] += (double)(dy[c] * (x[c] - mean[c]));
        })
        return;
    }
    parameter one;
    set_parameter(&one, NULL, 1);
    for (int64_t c = 0; c < w->channels; c++) {
        const real *x = (const real *)w->x + c * w->inner;
        const real *dy = (const real *)w->dy + c * w->inner;
        add_row_sums(x, dy, &one, w->inner, mean[c], 1, &w->first[c], &w->second[c]);
    }
}

/* dx = dy scale + (x - mean) slope + shift */
static void channel_norm_grad(const br_channel_work *w)
{
    const real *mean = w->mean, *scale = w->scale, *slope = w->slope, *shift = w->shift;
    if (w->inner == 1) {
        const real *restrict x = w->x, *restrict dy = w->dy;
        real *restrict dx = w->out;
        FOR_EACH(real, c, w->channels,
                 dx[c] = dy[c] * scale[c] + (x[c] - mean[c]) * slope[c] + shift[c];)
        return;
    }
    for (int64_t c = 0; c < w->channels; c++) {
        const real *restrict x = (const real *)w->x + c * w->inner;
        const real *restrict dy = (const real *)w->dy + c * w->inner;
        real *restrict dx = (real *)w->out + c * w->inner;
        const real m = mean[c], a = scale[c], s = slope[c], b = shift[c];
        FOR_EACH(real, i, w->inner, dx[i] = dy[i] * a + (x[i] - m) * s + b;)
    }
}

#endif
