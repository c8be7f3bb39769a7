/* backends/cpu/pointwise/widened.h - loops over operands of storage dtypes. */
#ifndef BR_CPU_WIDENED_H
#define BR_CPU_WIDENED_H

#include "tensor/loop.h"
#include "tensor/tensor_internal.h"

/* A loop of the dtype in which operations compute, for operands of which some have a storage
 * dtype. */
typedef struct br_widened_loop {
    br_loop loop;
    const void *params;
    int n;
    br_dtype dtypes[BR_MAX_OPERANDS];
} br_widened_loop;

/* Describes `loop` with its params and the operands' dtypes. */
br_widened_loop br__widened_loop(br_loop loop, const void *params, int n,
                                 const br_tensor *const *operands);
/* The br_loop whose params are a br_widened_loop. It widens the inputs block by block in a buffer
 * that stays in the L1 cache, runs the loop, and rounds the results once. */
void br__run_widened(int64_t n, char *const *data, const int64_t *s, const void *params);

/* Convert n elements, `step` bytes apart, to the dtype in which operations compute, and back.
 * `wide` is contiguous. */
void br__widen(br_dtype dtype, void *wide, int64_t n, const void *from, int64_t step);
void br__narrow(br_dtype dtype, void *to, int64_t step, const void *wide, int64_t n);

/* Kernels of rows widen as many rows as fit into a block of ROWS_BLOCK elements, which stays in the
 * caches, or a single row of at most BR_LONGEST_ROW elements. */
enum { BR_ROWS_BLOCK = 2048, BR_LONGEST_ROW = 16384 };

/* Returns whether rows of n elements are widened block by block. Longer rows are not. */
static inline bool br__rows_fit(int64_t n)
{
    return n <= BR_LONGEST_ROW;
}

/* Returns the number of rows of n elements in a block. */
static inline int64_t br__rows_of_block(int64_t n)
{
    return n < BR_ROWS_BLOCK ? BR_ROWS_BLOCK / (n > 0 ? n : 1) : 1;
}

#endif
