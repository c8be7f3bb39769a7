/* ops/kernels/index.h - loops that look elements up by index, and that write or add them there. */
#ifndef BR_KERNELS_INDEX_H
#define BR_KERNELS_INDEX_H

#include "tensor/loop.h"

#include <stddef.h>

/* A loop for br__for_each() over (y, x, index), for elements of 1, 4 or 8 bytes:
 * y[i] = x[i] moved on by index[i] times *params, an int64_t number of bytes. Indices are i64 and
 * inside the dimension; one that stays the same along the loop makes it a plain copy. */
br_loop br__gather_loop(size_t element_size);

/* A loop for br__for_each() over (x, y, index), whose elements each stand for a line of `count`
 * elements: x[i] at index k is combined with y[i] at k, for k of 0 .. count-1 in this order.
 * Distances are in bytes; indices equal to `skip` are left out. params are a br_scatter_work. */
typedef struct br_scatter_work {
    int64_t count;
    int64_t x_stride, y_stride, index_stride;
    int64_t skip;    /* -1: none */
    br_loop combine; /* of those below */
} br_scatter_work;
void br__scatter_lines(int64_t n, char *const *data, const int64_t *s, const void *params);

/* What is put in the place of x: x + y, x y, the larger or the smaller of them, NaN if either is.
 */
typedef struct br_scatter_loops {
    br_loop add, mul, max, min;
} br_scatter_loops;
extern const br_scatter_loops br__scatter_f32, br__scatter_f64, br__scatter_i64, br__scatter_bool;
/* Or y itself, of 1, 4 or 8 bytes. */
br_loop br__scatter_loop(size_t element_size);

#endif
