/* backends/cpu/shape/copy.h - copies between operands with any strides and dtypes. */
#ifndef BR_CPU_COPY_H
#define BR_CPU_COPY_H

#include "backends/cpu/pointwise/for_each.h"

/* Copies src, which broadcasts to dst, into dst and converts the dtype. */
void br__cpu_copy(const br_tensor *dst, const br_tensor *src);
/* The backend's entries fill and cat. */
void br__cpu_fill(const br_tensor *t, const void *element);
bool br__cpu_cat(const br_tensor *y, int n, br_tensor *const *tensors, int64_t dim);

/* Returns a loop for br__run_loop() that converts between two different dtypes. Its params are
 * these dtypes: br_dtype[2], `to` first. */
br_loop br__convert_loop(br_dtype to, br_dtype from);

/* Copies src to dst in square tiles if dst is dense along one dimension and src along another, as
 * in a transpose, so that each cache line is read and written once. Returns false, and copies
 * nothing, for other tensors. */
bool br__copy_tiles(const br_tensor *dst, const br_tensor *src);

#endif
