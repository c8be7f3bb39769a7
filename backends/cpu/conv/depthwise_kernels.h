/* backends/cpu/conv/depthwise_kernels.h - work for the kernels of depthwise convolutions,
 * depthwise.h. */
#ifndef BR_DEPTHWISE_KERNELS_H
#define BR_DEPTHWISE_KERNELS_H

#include <stdbool.h>
#include <stdint.h>

/* Position (y, x) of a result is at y * to_row + x * to_step. Tap t multiplies element y * row_step
 * + x + at[t] of the padded plane by element which[t] of the kernel. 64 more bytes must be readable
 * after the last element used of a plane. */
typedef struct br_depthwise {
    int64_t rows, columns, row_step;
    int64_t taps;
    const int64_t *at, *which;
    int64_t to_first, to_row, to_step; /* the result begins `to_first` elements into its plane */
    bool accumulate;
} br_depthwise;

#endif
