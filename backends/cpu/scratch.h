/* backends/cpu/scratch.h - temporary memory of an entry: tensors of the innermost scope. */
#ifndef BR_CPU_SCRATCH_H
#define BR_CPU_SCRATCH_H

#include "tensor/tensor_internal.h"

static inline br_tensor *br__scratch(const char *op, int ndim, const int64_t *sizes, br_dtype dtype)
{
    return br__new_on_host(op, ndim, sizes, dtype);
}
/* The same with all elements 0. */
static inline br_tensor *br__scratch_zeros(const char *op, int ndim, const int64_t *sizes,
                                           br_dtype dtype)
{
    br_tensor *t = br__scratch(op, ndim, sizes, dtype);
    if (t)
        br__set_zero(t);
    return t;
}

#endif
