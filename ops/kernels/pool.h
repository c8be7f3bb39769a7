/* ops/kernels/pool.h - pooling of planes. */
#ifndef BR_KERNELS_POOL_H
#define BR_KERNELS_POOL_H

#include <stdint.h>

/* The elements of one dimension that a position of the result takes: start, start + step, ... below
 * end; `count` is what an average divides by. */
typedef struct br_pool_window {
    int64_t start, end;
    double count;
} br_pool_window;

/* A plane [size[0], size[1]] and its windows: rows[y] and columns[x] for position (y, x). */
typedef struct br_pool_work {
    int64_t size[2], out[2], step[2];
    const br_pool_window *rows, *columns;
    double divisor; /* of averages; 0: the product of both counts */
} br_pool_work;

/* The largest element of each window, and where in the plane it is; NaN counts as largest, of equal
 * ones the first counts. */
void br__max_pool_f32(const br_pool_work *p, const void *plane, void *out, int64_t *indices);
void br__max_pool_f64(const br_pool_work *p, const void *plane, void *out, int64_t *indices);
/* The sum of each window, divided; and the adjoint, which adds to the plane. */
void br__avg_pool_f32(const br_pool_work *p, const void *plane, void *out);
void br__avg_pool_f64(const br_pool_work *p, const void *plane, void *out);
void br__avg_pool_back_f32(const br_pool_work *p, const void *out, void *plane);
void br__avg_pool_back_f64(const br_pool_work *p, const void *out, void *plane);

#endif
