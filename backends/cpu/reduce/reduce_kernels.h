/* backends/cpu/reduce/reduce_kernels.h - work for the kernels of reductions, reduce.h. */
#ifndef BR_REDUCE_KERNELS_H
#define BR_REDUCE_KERNELS_H

#include <stdbool.h>
#include <stdint.h>

/* The accumulator of a reduction: f for f32 and f64, i for i64 and bool. */
typedef union br_accumulator {
    double f;
    int64_t i;
} br_accumulator;

/* Work for a reduction kernel: element i of column j is at x + i * row_stride + j * column_stride
 * (bytes), and is accumulated in value[j]. Rows are processed in order. */
typedef struct br_fold {
    const char *x;
    int64_t rows, columns;
    int64_t row_stride, column_stride;
    br_accumulator *value;
    int64_t *index;    /* argmax: the row of value[j] */
    int64_t first_row; /* argmax: the index of row 0 */
    bool streamed;     /* x is larger than the caches, and other rows follow these */
} br_fold;

typedef void (*br_reduce)(const br_fold *fold);
/* Stores v[j] / by as element j * step of the result, for j < n. Integers are not divided. */
typedef void (*br_store_results)(void *out, const br_accumulator *v, int64_t n, int64_t step,
                                 double by);

#endif
