/* ops/kernels/kernels.h - the table of float kernels.
 *
 * variant.c fills one table for each instruction set and floating type; br__kernels() gives the
 * best that this processor runs. Kernels work on plain memory of that type, run in the caller's
 * thread, and check nothing. Pointwise ones are loops for br__for_each(); others take rows of
 * contiguous memory, so that callers share rows among threads. */
#ifndef BR_KERNELS_H
#define BR_KERNELS_H

#include "tensor/loop.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct br_kernels {
    const char *name; /* "avx512", "avx2", "baseline" */

    /* Pointwise, kernels/pointwise.h. out = a op b; scalars come as params, a const double *. */
    br_loop add, sub, mul, div, pow;
    br_loop add_scalar, mul_scalar, rsub_scalar, rdiv_scalar, pow_scalar, fill;
} br_kernels;

/* The kernels for f32 (is_double false) or f64. */
const br_kernels *br__kernels(bool is_double);

#endif
