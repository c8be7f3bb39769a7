/* backends/cpu/index/index_internal.h - the backend's entries for indexing. */
#ifndef BR_CPU_INDEX_INTERNAL_H
#define BR_CPU_INDEX_INTERNAL_H

#include "tensor/tensor_internal.h"

void br__cpu_triangle(const br_tensor *y, int64_t diagonal, bool upper);
br_tensor *br__cpu_nonzero(const char *op, const br_tensor *mask, int ndim, const int64_t *sizes);
void br__cpu_gather(const br_tensor *y, const br_tensor *x, const br_tensor *index, int dim);
void br__cpu_scatter(const br_tensor *x, const br_tensor *y, const br_tensor *index, int dim,
                     int64_t skip, br_combine combine);

#endif
