/* ops/kernels/dispatch.c - selects the float kernels for this processor, once. */
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
/* Kernels for f64: those of the AVX2 table, and baseline kernels for its missing entries. */
static br_kernels wide_f64;

static void fill_wide_f64(void)
{
    const char *wide = (const char *)&br__kernels_avx2_f64;
    const char *rest = (const char *)&br__kernels_baseline_f64;
    br_loop kernel; /* any entry: the table contains only pointers */
    for (size_t at = 0; at < sizeof wide_f64; at += sizeof kernel) {
        memcpy(&kernel, wide + at, sizeof kernel);
        if (!kernel)
            memcpy(&kernel, rest + at, sizeof kernel);
        memcpy((char *)&wide_f64 + at, &kernel, sizeof kernel);
    }
}
#endif

/* The instruction sets, best first. The second entry of each pair is for f64, which is used for
 * checks, so few kernels are built for it: matrix products for each instruction set, the kernels
 * that gain most from wider vectors for AVX2, and all kernels for baseline. */
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

/* Returns the index of the variant of that name, or -1 if the name is unknown or this processor
 * does not support the variant. */
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

/* Returns the variant named by BRASA_CPU_CAPABILITY, or the best one if it is not set. If the named
 * variant cannot be used, the first operation fails, since a fallback would go unnoticed. */
static int choose(void)
{
    const char *name = getenv("BRASA_CPU_CAPABILITY");
    if (!name || !*name)
        return best();
    int variant = find(name);
    if (variant >= 0)
        return variant;
    br__fail(BR_ERROR_ARGUMENT, NULL,
             "BRASA_CPU_CAPABILITY is '%.40s', must be avx512, avx2 or baseline; this processor "
             "supports at most %s",
             name, variants[best()].kernels[0]->name);
    return best();
}

static atomic_int chosen = -1; /* -1: not chosen yet */

static void select_variant(int variant)
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
    select_variant(variant);
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
        select_variant(variant);
    return variant >= 0;
}
