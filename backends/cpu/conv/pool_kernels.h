/* backends/cpu/conv/pool_kernels.h - pooling of planes. */
#ifndef BR_KERNELS_POOL_H
#define BR_KERNELS_POOL_H

#include "backends/pool.h"
#include "tensor/dtype.h"

/* A plane [size[0], size[1]] and its windows: rows[y] and columns[x] for output position (y, x). */
typedef struct br_pool_work {
    int64_t size[2], out[2], step[2];
    const br_pool_window *rows, *columns;
    double divisor; /* of averages; 0: the product of both counts */
} br_pool_work;

typedef struct br_pool_kernels {
    /* Writes the maximum of each window, and its index in the plane. NaN counts as largest; among
     * equal elements the first one is chosen. */
    void (*max)(const br_pool_work *p, const void *plane, void *out, int64_t *indices);
    /* Writes the sum of each window, divided by the divisor. */
    void (*average)(const br_pool_work *p, const void *plane, void *out);
    /* The backward pass of the average: adds to the plane. */
    void (*average_back)(const br_pool_work *p, const void *out, void *plane);
} br_pool_kernels;

extern const br_pool_kernels br__pool_kernels[BR_DTYPES];

#endif
