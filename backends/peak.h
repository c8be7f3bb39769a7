/* backends/peak.h - the processor at its limit, for measuring it. */
#ifndef BR_BACKEND_PEAK_H
#define BR_BACKEND_PEAK_H

#include <brasa/tensor.h>

/* A loop of multiply-adds in registers, and the FLOPs of one of its steps. `run` makes n steps and
 * returns a number that depends on all of them. */
typedef struct br_peak_loop {
    double (*run)(int64_t n);
    double flops;
} br_peak_loop;

/* Returns the loop of the unit that computes large products of `dtype`, f32 or f64. */
br_peak_loop br__peak_loop(br_dtype dtype);

#endif
