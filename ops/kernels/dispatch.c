/* ops/kernels/dispatch.c - chooses the float kernels for this processor, once. */
#include "ops/kernels/kernels.h"

#include <stdatomic.h>
#include <string.h>

extern const br_kernels br__kernels_baseline_f32, br__kernels_baseline_f64;
extern const br_kernels br__kernels_avx2_f32, br__kernels_avx2_f64;
extern const br_kernels br__kernels_avx512_f32, br__kernels_avx512_f64;

/* Best first: [variant][is_double]. */
static const br_kernels *const tables[][2] = {
    { &br__kernels_avx512_f32, &br__kernels_avx512_f64 },
    { &br__kernels_avx2_f32, &br__kernels_avx2_f64 },
    { &br__kernels_baseline_f32, &br__kernels_baseline_f64 },
};
enum { VARIANTS = sizeof tables / sizeof *tables };

static bool runs_here(int variant)
{
    switch (variant) {
    case 0:
        return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
               __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
               __builtin_cpu_supports("fma");
    case 1:
        return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    default:
        return true;
    }
}

static int best(void)
{
    int variant = 0;
    while (!runs_here(variant))
        variant++;
    return variant;
}

static atomic_int chosen = -1; /* not yet */

const br_kernels *br__kernels(bool is_double)
{
    int variant = atomic_load_explicit(&chosen, memory_order_relaxed);
    if (variant < 0) {
        variant = best();
        atomic_store_explicit(&chosen, variant, memory_order_relaxed);
    }
    return tables[variant][is_double];
}

bool br__force_kernels(const char *name)
{
    for (int variant = 0; variant < VARIANTS; variant++) {
        if ((name && strcmp(name, tables[variant][0]->name) != 0) || !runs_here(variant))
            continue;
        atomic_store(&chosen, variant);
        return true;
    }
    return false;
}
