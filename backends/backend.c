/* backends/backend.c - calls the backend of an operand. */
#include "tensor/tensor_internal.h"

__attribute__((cold)) const br_backend *br__no_kernel(const char *op, const br_tensor *t)
{
    return br_fail(BR_ERROR_STATE, op, "has no kernel on %s", br__backend_of(t)->name);
}

bool br__pointwise(br_pointwise kernel, int n, const br_tensor *const *operands, const void *params)
{
    if (BR_PROFILING)
        br__thread.events->traffic(n, operands);
    return br__backend_of(operands[0])->pointwise(kernel, n, operands, params);
}

void br__copy(const br_tensor *dst, const br_tensor *src)
{
    /* Operations have refused quantized tensors. This finds one that no operation has checked. */
    if (__builtin_expect(src->dtype == BR_QUANTIZED || dst->dtype == BR_QUANTIZED, 0)) {
        br__required("copy", "the tensor", br__is_quantized(src) ? src : dst);
        return;
    }
    br__backend_of(dst)->copy(dst, src);
}

bool br__reduce(const char *op, const br_tensor *x, unsigned dims, const br_reducer *reducer)
{
    const br_backend *backend = BR_BACKEND(op, x, reduce);
    BR_TRAFFIC(x, reducer->values, reducer->indices);
    return backend && backend->reduce(op, x, dims, reducer);
}

void br__update(int64_t n, const br_update *updates, br_loop_span *spans)
{
    for (int64_t i = 0, end; i < n; i = end) {
        const br_backend *backend = br__backend_of(updates[i].param);
        end = i + 1;
        while (end < n && br__backend_of(updates[end].param) == backend)
            end++;
        backend->update(end - i, updates + i, spans + i);
    }
}

/* Returns the end of the run of tensors that begins with tensor i and is on its device. */
static int64_t end_of_run(int64_t i, int64_t n, const br_tensor *const *tensors)
{
    const br_backend *backend = br__backend_of(tensors[i]);
    while (i < n && br__backend_of(tensors[i]) == backend)
        i++;
    return i;
}

bool br__norms(const char *op, int64_t n, const br_tensor *const *tensors, br_loop_span *spans,
               br_vector_norm norm, double *norms)
{
    bool ok = true;
    for (int64_t i = 0; ok && i < n; i++)
        ok = BR_BACKEND(op, tensors[i], norms) != NULL;
    for (int64_t i = 0, end; ok && i < n; i = end) {
        end = end_of_run(i, n, tensors);
        ok =
            br__backend_of(tensors[i])->norms(op, end - i, tensors + i, spans + i, norm, norms + i);
    }
    return ok;
}

bool br__pointwise_each(const char *op, br_pointwise kernel, int64_t n,
                        const br_tensor *const *tensors, br_loop_span *spans, const double *scalar,
                        const void *params)
{
    bool ok = true;
    for (int64_t i = 0; ok && i < n; i++)
        ok = BR_BACKEND(op, tensors[i], pointwise_each) != NULL;
    for (int64_t i = 0, end; ok && i < n; i = end) {
        end = end_of_run(i, n, tensors);
        br__backend_of(tensors[i])
            ->pointwise_each(kernel, end - i, tensors + i, spans + i, scalar, params);
    }
    return ok;
}
