/* backends/resample.h - interpolation and averages along a dimension. */
#ifndef BR_BACKEND_RESAMPLE_H
#define BR_BACKEND_RESAMPLE_H

#include <brasa/tensor.h>

/* y[o] = sum over t < taps of weights[o][t] x[starts[o] + t]. Every position is in x. */
typedef struct br_resampling {
    int dim;
    int64_t taps;
    const br_tensor *starts;  /* i64 [outputs] */
    const br_tensor *weights; /* f64 [outputs, taps] */
} br_resampling;

#endif
