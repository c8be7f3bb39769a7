/* backends/cpu/loss/loss_kernels.h - terms of the kernels of cross entropy, loss.h. */
#ifndef BR_LOSS_KERNELS_H
#define BR_LOSS_KERNELS_H

#include <stdint.h>

/* For a row of logits x with maximum `row_max`: exp(x - row_max) at the target (`own`), and its sum
 * over the other classes (`rest`). */
typedef struct br_cross_entropy_sums {
    double row_max, own, rest;
} br_cross_entropy_sums;

/* Terms of the gradient of a row of cross entropy; see cross_entropy_grad below. */
typedef struct br_cross_entropy_row {
    double row_max, own_exp, rest; /* the sums */
    double own, shared, spread;
    int64_t target;
} br_cross_entropy_row;

#endif
