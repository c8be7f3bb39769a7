/* backends/cpu/reduce/nonfinite.c - finds NaNs and infinities, of which operations under anomaly
 * detection must have none. */
#include "backends/cpu/pointwise/for_each.h"
#include "backends/cpu/reduce/reduce_internal.h"
#include "tensor/min_max.h"

#include <math.h>

typedef struct finding {
    br_dtype dtype;
    atomic_uint kinds;
} finding;

static void find(int64_t n, char *const *data, const int64_t *strides, const void *params)
{
    enum { PART = 256 };
    finding *found = (finding *)(uintptr_t)params;
    double part[PART];
    unsigned nans = 0, infinities = 0;
    for (int64_t k = 0; k < n; k += PART) {
        const int64_t count = br__min(n - k, PART);
        br__dtypes[found->dtype].load(part, count, data[0] + k * strides[0], strides[0]);
        for (int64_t i = 0; i < count; i++) {
            nans |= isnan(part[i]) != 0;
            infinities |= isinf(part[i]) != 0;
        }
    }
    if (nans | infinities)
        atomic_fetch_or(&found->kinds,
                        (nans ? BR_HAS_NAN : 0u) | (infinities ? BR_HAS_INFINITY : 0u));
}

unsigned br__cpu_nonfinite(const br_tensor *x)
{
    finding found = { .dtype = x->dtype };
    br__run_loop(1, &x, find, &found);
    return atomic_load(&found.kinds);
}
