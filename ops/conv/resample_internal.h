/* ops/conv/resample_internal.h - weighted sums of neighbours along a dimension, for interpolation
 * and averages. */
#ifndef BR_RESAMPLE_INTERNAL_H
#define BR_RESAMPLE_INTERNAL_H

#include "ops/ops_internal.h"

/* The sums of a dimension: y[o] = sum over t of weights[o][t] x[starts[o] + t]. */
typedef struct br_taps {
    br_tensor *starts, *weights; /* i64 [outputs], f64 [outputs, taps] */
} br_taps;

/* Writes the weights of output o to `weights`, at most `most` of them, and the position of the
 * first one. Positions outside of the dimension stand for its first or last element. Returns their
 * number. */
typedef int64_t br_weigh(const void *context, int64_t o, int64_t *first, double *weights);

/* Returns the sums of `outputs` outputs over a dimension of x with n elements; NULLs with an error
 * if memory runs out. */
br_taps br__taps(const char *op, const br_tensor *x, int64_t n, int64_t outputs, int64_t most,
                 br_weigh *weigh, const void *context);
/* Returns the means of `outputs` windows that cover n elements evenly, as in adaptive pooling. */
br_taps br__adaptive_taps(const char *op, const br_tensor *x, int64_t n, int64_t outputs);
/* Returns the sums along a dimension of x, f32 or f64. */
br_tensor *br__resample(br_tensor *x, int dim, br_taps taps);

#endif
