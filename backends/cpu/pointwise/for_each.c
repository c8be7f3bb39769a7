/* backends/cpu/pointwise/for_each.c - loops over operands, with a fast path for small operations.
 */
#include "backends/cpu/pointwise/for_each.h"
#include "backends/cpu/kernels.h"

/* Runs the loop in one call. Returns false, and does nothing, unless there are few elements and
 * each operand is contiguous and has as many elements as the output, or a single one. */
static bool run_simple(int n, const br_tensor *const *operands, br_loop loop, const void *params)
{
    char *data[BR_MAX_OPERANDS];
    int64_t strides[BR_MAX_OPERANDS], numel = operands[0]->numel;
    for (int k = 0; k < n; k++) {
        const br_tensor *t = operands[k];
        if (!t->contiguous || (t->numel != numel && t->numel != 1))
            return false;
        data[k] = t->data;
        strides[k] = t->numel == 1 ? 0 : (int64_t)br__dtype_size(t->dtype);
    }
    if (numel > 2 * BR_GRAIN)
        return false;
    loop(numel, data, strides, params);
    return true;
}

void br__run_loop(int n_operands, const br_tensor *const *operands, br_loop loop,
                  const void *params)
{
    if (operands[0]->numel > 0 && !run_simple(n_operands, operands, loop, params))
        br__run_strided_loop(n_operands, operands, loop, params, BR_GRAIN);
}

void br__for_each(int n_operands, const br_tensor *const *operands, br_loop loop,
                  const void *params)
{
    if (BR_PROFILING)
        br__thread.events->traffic(n_operands, operands);
    br__run_loop(n_operands, operands, loop, params);
}

bool br__cpu_pointwise(br_pointwise kernel, int n, const br_tensor *const *operands,
                       const void *params)
{
    const br_loop loop = br__kernels_of(operands[n - 1]->dtype)->pointwise[kernel];
    if (loop)
        br__run_loop(n, operands, loop, params);
    return loop != NULL;
}
