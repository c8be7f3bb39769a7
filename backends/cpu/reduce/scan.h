/* backends/cpu/reduce/scan.h - cumulative sums and products. Each element depends on the one
 * before, so there is one build for all instruction sets. */
#ifndef BR_KERNELS_SCAN_H
#define BR_KERNELS_SCAN_H

#include "tensor/dtype.h"

#include <stdbool.h>
#include <stdint.h>

enum { BR_SCAN_TILE = 64 };

/* Element i of column j is at [i * step + j]; there are at most BR_SCAN_TILE columns. Floats are
 * accumulated in double; integers wrap around. */
typedef struct br_scan {
    int64_t n, columns, step;
    bool reverse; /* from the last to the first */
    const void *x;
    void *y;
} br_scan;

typedef void (*br_scan_kernel)(const br_scan *work);
extern const br_scan_kernel br__cumsum[BR_DTYPES], br__cumprod[BR_DTYPES]; /* NULL for bool */

#endif
