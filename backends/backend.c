/* backends/backend.c - calls the backend of an operand. */
#include "tensor/tensor_internal.h"

bool br__pointwise(br_pointwise kernel, int n, const br_tensor *const *operands, const void *params)
{
    if (BR_PROFILING)
        br__thread.events->traffic(n, operands);
    return br__backend_of(operands[0])->pointwise(kernel, n, operands, params);
}

void br__copy(const br_tensor *dst, const br_tensor *src)
{
    br__backend_of(dst)->copy(dst, src);
}
