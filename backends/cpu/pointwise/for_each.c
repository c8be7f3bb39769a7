/* backends/cpu/pointwise/for_each.c - loops over operands, with a fast path for small operations.
 */
#include "backends/cpu/pointwise/for_each.h"
#include "backends/cpu/kernels.h"
#include "backends/cpu/pointwise/widened.h"

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

/* The same for operands of which some have a storage dtype. */
static __attribute__((noinline)) bool run_widened(br_pointwise kernel, int n,
                                                  const br_tensor *const *operands,
                                                  const void *params)
{
    const br_dtype computed = br__computed(operands[n - 1]->dtype);
    const br_loop loop = br__kernels_of(computed)->pointwise[kernel];
    const br_widened_loop widened = br__widened_loop(loop, params, n, operands);
    if (loop)
        br__run_loop(n, operands, br__run_widened, &widened);
    return loop != NULL;
}

bool br__cpu_pointwise(br_pointwise kernel, int n, const br_tensor *const *operands,
                       const void *params)
{
    /* The other one, the first value of `where`, has the dtype of the last. */
    const br_dtype last = operands[n - 1]->dtype;
    if (br__is_stored(operands[0]->dtype) || br__is_stored(operands[1]->dtype) ||
        br__is_stored(last))
        return run_widened(kernel, n, operands, params);
    const br_loop loop = br__kernels_of(last)->pointwise[kernel];
    if (loop)
        br__run_loop(n, operands, loop, params);
    return loop != NULL;
}
