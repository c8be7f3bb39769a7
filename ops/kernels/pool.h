/* ops/kernels/pool.h - pooling of planes. */
#ifndef BR_KERNELS_POOL_H
#define BR_KERNELS_POOL_H

#include <stdint.h>

/* The window of an output position in one dimension: start, start + step, ... below `end`. `count`
 * is the divisor of an average. */
typedef struct br_pool_window {
    int64_t start, end;
    double count;
} br_pool_window;

/* A plane [size[0], size[1]] and its windows: rows[y] and columns[x] for output position (y, x). */
typedef struct br_pool_work {
    int64_t size[2], out[2], step[2];
    const br_pool_window *rows, *columns;
    double divisor; /* of averages; 0: the product of both counts */
} br_pool_work;

/* Write the maximum of each window, and its index in the plane. NaN counts as largest; among equal
 * elements the first one is chosen. */
void br__max_pool_f32(const br_pool_work *p, const void *plane, void *out, int64_t *indices);
void br__max_pool_f64(const br_pool_work *p, const void *plane, void *out, int64_t *indices);
/* Write the sum of each window, divided by the divisor. The backward passes add to the plane. */
void br__avg_pool_f32(const br_pool_work *p, const void *plane, void *out);
void br__avg_pool_f64(const br_pool_work *p, const void *plane, void *out);
void br__avg_pool_back_f32(const br_pool_work *p, const void *out, void *plane);
void br__avg_pool_back_f64(const br_pool_work *p, const void *out, void *plane);

#endif
