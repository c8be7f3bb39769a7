/* ops/kernels/dispatch.c - selects the float kernels for this processor, once. */
#include "ops/kernels/kernels.h"
#include "tensor/cpu.h"
#include "tensor/tensor_internal.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* Declares the tables of an instruction set, for f32 and f64. */
#define TABLES(isa)                                                           \
    extern const br_kernels br__kernels_##isa##_f32, br__kernels_##isa##_f64; \
    extern const br_gemm_kernels br__gemm_##isa##_f32, br__gemm_##isa##_f64;
#define VARIANT(isa)                                            \
    {                                                           \
        { &br__kernels_##isa##_f32, &br__kernels_##isa##_f64 }, \
        {                                                       \
            &br__gemm_##isa##_f32, &br__gemm_##isa##_f64        \
        }                                                       \
    }

#ifdef __x86_64__
TABLES(avx512)
TABLES(avx2)
extern const br_gemm_kernels br__gemm_avx512_bf16;
extern const br_attention_kernels br__attention_avx512_bf16;
#endif
TABLES(baseline)

/* The instruction sets, best first. The first entry of each pair is for f32, the second for f64. */
static const struct variant {
    const br_kernels *kernels[2];
    const br_gemm_kernels *gemm[2];
} variants[] = {
#ifdef __x86_64__
    VARIANT(avx512),
    VARIANT(avx2),
#endif
    VARIANT(baseline),
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
    br_fail(BR_ERROR_ARGUMENT, NULL,
            "BRASA_CPU_CAPABILITY is '%.40s', must be avx512, avx2 or baseline; this processor "
            "supports at most %s",
            name, variants[best()].kernels[0]->name);
    return best();
}

static atomic_int chosen = -1; /* -1: not chosen yet */

static void select_variant(int variant)
{
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

const br_gemm_kernels *br__gemm_bf16_kernels(void)
{
#ifdef __x86_64__
    if (chosen_variant() == &variants[0] && br__cpu() >= BR_CPU_AVX512_BF16)
        return &br__gemm_avx512_bf16;
#endif
    return NULL;
}

const br_attention_kernels *br__attention_bf16_kernels(void)
{
#ifdef __x86_64__
    if (br__gemm_bf16_kernels())
        return &br__attention_avx512_bf16;
#endif
    return NULL;
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
