/* backends/pool.h - work of pooling. */
#ifndef BR_BACKEND_POOL_H
#define BR_BACKEND_POOL_H

#include "tensor/min_max.h"

#include <stdbool.h>
#include <stdint.h>

/* Pooling of planes of `size` to planes of `out`, which are the last two dimensions, or the last
 * one if the planes have one row. Each array has one entry for rows and one for columns. */
typedef struct br_pool_geometry {
    int64_t size[2], out[2];
    bool adaptive; /* the windows divide the plane: kernel, stride and padding are not used */
    int64_t kernel[2], stride[2], padding[2], dilation[2];
    bool count_padding; /* averages also divide by the number of padding elements */
    int64_t divisor;    /* of averages; 0: the number of elements of the window */
} br_pool_geometry;

/* The window of an output position in one dimension: start, start + dilation, ... below `end`,
 * without padding. `count` is the divisor of an average. */
typedef struct br_pool_window {
    int64_t start, end;
    double count;
} br_pool_window;

/* Returns the window of position i along dimension d. */
static inline br_pool_window br__pool_window(const br_pool_geometry *p, int d, int64_t i)
{
    const int64_t size = p->size[d], out = p->out[d], padding = p->padding[d];
    const int64_t step = p->dilation[d];
    if (p->adaptive) {
        br_pool_window w = { i * size / out, ((i + 1) * size + out - 1) / out, 0 };
        w.count = (double)(w.end - w.start);
        return w;
    }
    const int64_t start = i * p->stride[d] - padding, end = start + step * (p->kernel[d] - 1) + 1;
    br_pool_window w = { .end = br__min(end, size) };
    w.start = start < 0 ? start + (-start + step - 1) / step * step : start;
    const int64_t last_counted = br__min(end, size + padding);
    w.count = (double)(p->count_padding ? last_counted - start : w.end - w.start);
    return w;
}

#endif
