/* backends/cpu/norm/norm_kernels.h - work for the kernels of softmax and norms, softmax.h,
 * layer_norm.h and norm_channels.h. */
#ifndef BR_NORM_KERNELS_H
#define BR_NORM_KERNELS_H

#include <stdbool.h>
#include <stdint.h>

/* Work for softmax: element i of row j is x[i * step + j * (step == 1 ? n : 1)], and likewise in
 * the other arrays. With step 1 the rows are contiguous, one after another; otherwise at most
 * BR_SOFTMAX_TILE rows are interleaved. */
enum { BR_SOFTMAX_TILE = 64 };
typedef struct br_softmax_work {
    int64_t n, rows, step;
    bool log_of;   /* log softmax */
    const void *x; /* in the gradient: the result of softmax */
    const void *dy;
    void *out;
} br_softmax_work;

/* Work for layer norm of consecutive rows of n elements. If `mean` is NULL, this is RMS norm: the
 * mean counts as 0. */
typedef struct br_layer_norm_work {
    int64_t n, rows;
    double eps;
    const void *x, *weight, *bias, *dy; /* weight and bias may be NULL */
    void *y, *mean, *rstd;      /* one value per row: mean (or NULL), 1 / sqrt(variance + eps) */
    void *dx, *dweight, *dbias; /* any may be NULL; the last two are accumulated */
} br_layer_norm_work;

/* Work for norms over consecutive channels of `inner` contiguous elements each. mean, scale, slope
 * and shift have one value per channel, of the same type as the elements. first and second have one
 * double per channel. */
typedef struct br_channel_work {
    int64_t channels, inner;
    int64_t count; /* elements per channel that the moments already include */
    const void *x, *dy;
    void *out;
    const void *mean, *scale, *slope, *shift;
    double *first, *second; /* accumulated: mean and sum of squared deviations, or the sums of dy
                               and of dy (x - mean) */
} br_channel_work;

#endif
