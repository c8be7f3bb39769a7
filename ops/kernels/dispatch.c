/* ops/kernels/dispatch.c - chooses the float kernels for this processor, once. */
#include "ops/kernels/kernels.h"
#include "tensor/cpu.h"
#include "tensor/tensor_internal.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

extern const br_kernels br__kernels_baseline_f32, br__kernels_baseline_f64;
extern const br_gemm_kernels br__gemm_baseline_f32, br__gemm_baseline_f64;
#ifdef __x86_64__
extern const br_kernels br__kernels_avx2_f32, br__kernels_avx2_f64, br__kernels_avx512_f32;
extern const br_gemm_kernels br__gemm_avx2_f32, br__gemm_avx2_f64;
extern const br_gemm_kernels br__gemm_avx512_f32, br__gemm_avx512_f64;
#endif

#ifdef __x86_64__
/* The kernels for f64 that AVX2 has, and baseline's for those that it has not. */
static br_kernels wide_f64;

static void fill_wide_f64(void)
{
    const char *wide = (const char *)&br__kernels_avx2_f64;
    const char *rest = (const char *)&br__kernels_baseline_f64;
    br_loop kernel; /* any function: the table has nothing but pointers */
    for (size_t at = 0; at < sizeof wide_f64; at += sizeof kernel) {
        memcpy(&kernel, wide + at, sizeof kernel);
        if (!kernel)
            memcpy(&kernel, rest + at, sizeof kernel);
        memcpy((char *)&wide_f64 + at, &kernel, sizeof kernel);
    }
}
#endif

/* Best first; of a pair the second is for f64, which is for checks: it has products for each
 * instruction set, what gains most for AVX2, and all for baseline. */
static const struct variant {
    const br_kernels *kernels[2];
    const br_gemm_kernels *gemm[2];
} variants[] = {
#ifdef __x86_64__
    { { &br__kernels_avx512_f32, &wide_f64 }, { &br__gemm_avx512_f32, &br__gemm_avx512_f64 } },
    { { &br__kernels_avx2_f32, &wide_f64 }, { &br__gemm_avx2_f32, &br__gemm_avx2_f64 } },
#endif
    { { &br__kernels_baseline_f32, &br__kernels_baseline_f64 },
      { &br__gemm_baseline_f32, &br__gemm_baseline_f64 } },
};
enum { VARIANTS = sizeof variants / sizeof *variants };

static bool runs_here(int variant)
{
    return variant == VARIANTS - 1 || (int)br__cpu() >= BR_CPU_AVX512 - variant;
}

/* The variant of that name, -1 if there is none or this processor does not run it. */
static int find(const char *name)
{
    for (int variant = 0; variant < VARIANTS; variant++)
        if (strcmp(name, variants[variant].kernels[0]->name) == 0)
            return runs_here(variant) ? variant : -1;
    return -1;
}

static int best(void)
{
    int variant = 0;
    while (!runs_here(variant))
        variant++;
    return variant;
}

/* What the environment asks for, else the best. A wish that cannot be had is an error of the first
 * operation, which could not tell otherwise that it is not what was asked for. */
static int choose(void)
{
    const char *wish = getenv("BRASA_CPU_CAPABILITY");
    if (!wish || !*wish)
        return best();
    int variant = find(wish);
    if (variant >= 0)
        return variant;
    br__fail(BR_ERROR_ARGUMENT, NULL,
             "BRASA_CPU_CAPABILITY is '%.40s', must be avx512, avx2 or baseline, and at most %s, "
             "which is what this processor runs",
             wish, variants[best()].kernels[0]->name);
    return best();
}

static atomic_int chosen = -1; /* not yet */

static void take(int variant)
{
#ifdef __x86_64__
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, fill_wide_f64);
#endif
    atomic_store_explicit(&chosen, variant, memory_order_release);
}

static __attribute__((noinline, cold)) const struct variant *first_variant(void)
{
    int variant = choose();
    take(variant);
    return &variants[variant];
}

static const struct variant *chosen_variant(void)
{
    int variant = atomic_load_explicit(&chosen, memory_order_acquire);
    return __builtin_expect(variant < 0, 0) ? first_variant() : &variants[variant];
}

const br_kernels *br__kernels(bool is_double)
{
    return chosen_variant()->kernels[is_double];
}

const br_gemm_kernels *br__gemm_kernels(bool is_double)
{
    return chosen_variant()->gemm[is_double];
}

const char *br_get_cpu_capability(void)
{
    return br__kernels(false)->name;
}

bool br__force_kernels(const char *name)
{
    int variant = name ? find(name) : best();
    if (variant >= 0)
        take(variant);
    return variant >= 0;
}
