/* backends/cpu/pointwise/widened.c - loops over operands of storage dtypes, which run the loop of
 * the dtype in which operations compute. */
#include "backends/cpu/pointwise/widened.h"
#include "backends/cpu/shape/copy.h"
#include "tensor/min_max.h"

static int64_t wide_size(br_dtype dtype)
{
    return (int64_t)br__dtype_size(br__computed(dtype));
}

void br__widen(br_dtype dtype, void *wide, int64_t n, const void *from, int64_t step)
{
    const br_dtype computed = br__computed(dtype);
    br__convert_loop(computed, dtype)(n, (char *[]){ wide, (char *)(uintptr_t)from },
                                      (int64_t[]){ wide_size(dtype), step },
                                      (br_dtype[]){ computed, dtype });
}

void br__narrow(br_dtype dtype, void *to, int64_t step, const void *wide, int64_t n)
{
    const br_dtype computed = br__computed(dtype);
    br__convert_loop(dtype, computed)(n, (char *[]){ to, (char *)(uintptr_t)wide },
                                      (int64_t[]){ step, wide_size(dtype) },
                                      (br_dtype[]){ dtype, computed });
}

br_widened_loop br__widened_loop(br_loop loop, const void *params, int n,
                                 const br_tensor *const *operands)
{
    br_widened_loop w = { loop, params, n, { BR_F32 } };
    for (int k = 0; k < n; k++)
        w.dtypes[k] = operands[k]->dtype;
    return w;
}

void br__run_widened(int64_t n, char *const *data, const int64_t *s, const void *params)
{
    enum { PART = 256, LARGEST = 8 }; /* elements of a block, and bytes of the largest element */
    const br_widened_loop *w = params;
    _Alignas(64) char buffer[BR_MAX_OPERANDS][PART * LARGEST];
    for (int64_t i = 0; i < n; i += PART) {
        const int64_t count = br__min(n - i, PART);
        char *at[BR_MAX_OPERANDS];
        int64_t step[BR_MAX_OPERANDS];
        for (int k = 0; k < w->n; k++) {
            const bool constant = k > 0 && s[k] == 0;
            at[k] = data[k] + i * s[k];
            step[k] = s[k];
            if (!br__is_stored(w->dtypes[k]))
                continue;
            if (k > 0 && !(constant && i > 0))
                br__widen(w->dtypes[k], buffer[k], constant ? 1 : count, at[k], s[k]);
            at[k] = buffer[k];
            step[k] = constant ? 0 : wide_size(w->dtypes[k]);
        }
        w->loop(count, at, step, w->params);
        if (at[0] == buffer[0])
            br__narrow(w->dtypes[0], data[0] + i * s[0], s[0], buffer[0], count);
    }
}
