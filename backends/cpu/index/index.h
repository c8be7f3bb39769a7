/* backends/cpu/index/index.h - gather and scatter loops. */
#ifndef BR_KERNELS_INDEX_H
#define BR_KERNELS_INDEX_H

#include "tensor/dtype.h"
#include "tensor/loop.h"

#include <stddef.h>

/* Returns a loop for br__run_loop() over (y, x, index), for elements of 1, 4 or 8 bytes. y[i]
 * becomes the element index[i] * *params bytes (an int64_t) after x[i]. Indices are i64 and must be
 * in range. If the index is constant along the loop, the loop is a plain copy. */
br_loop br__gather_loop(size_t element_size);

/* A loop for br__run_loop() over (x, y, index), in which each element is the start of a line of
 * `count` elements. For k = 0 .. count - 1, in this order, element k of y's line is combined with
 * element index[k] of x's line. Strides are in bytes. Elements whose index is `skip` are ignored.
 * params is a br_scatter_work. */
typedef struct br_scatter_work {
    int64_t count;
    int64_t x_stride, y_stride, index_stride;
    int64_t skip;    /* -1: none */
    br_loop combine; /* one of those below */
} br_scatter_work;
void br__scatter_lines(int64_t n, char *const *data, const int64_t *s, const void *params);

/* Loops that combine x with y: x + y, x y, and the maximum and minimum of x and y. NaN propagates.
 */
typedef struct br_scatter_loops {
    br_loop add, mul, max, min;
} br_scatter_loops;
extern const br_scatter_loops br__scatter_loops[BR_DTYPES];
/* Returns the loop that replaces x by y, for elements of 1, 4 or 8 bytes. */
br_loop br__scatter_loop(size_t element_size);

#endif
