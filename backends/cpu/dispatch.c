/* backends/cpu/dispatch.c - selects the float kernels for this processor, once. */
#include "backends/cpu/gemm/gemm_kernels.h"
#include "backends/cpu/kernels.h"
#include "tensor/cpu.h"
#include "tensor/tensor_internal.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* Declares the tables of an instruction set. */
#define TABLES(isa)                                                           \
    extern const br_kernels br__kernels_##isa##_f32, br__kernels_##isa##_f64; \
    extern const br_gemm_kernels br__gemm_##isa##_f32, br__gemm_##isa##_f64,  \
        br__gemm_##isa##_stored_bf16, br__gemm_##isa##_stored_f16;
#define TABLES_OF(isa)                                   \
    .kernels = { [BR_F32] = &br__kernels_##isa##_f32,    \
                 [BR_F64] = &br__kernels_##isa##_f64,    \
                 [BR_I64] = &br__kernels_i64,            \
                 [BR_BOOL] = &br__kernels_bool },        \
    .gemm = { [BR_F32] = &br__gemm_##isa##_f32,          \
              [BR_F64] = &br__gemm_##isa##_f64,          \
              [BR_BF16] = &br__gemm_##isa##_stored_bf16, \
              [BR_F16] = &br__gemm_##isa##_stored_f16 }

#ifdef __x86_64__
TABLES(avx512)
TABLES(avx2)
extern const br_gemm_kernels br__gemm_amx, br__gemm_amx_high, br__gemm_avx512_bf16;
extern const br_attention_kernels br__attention_avx512_bf16;
#endif
TABLES(baseline)

/* The capabilities, best first. Each includes those after it. */
static const struct variant {
    const char *name;
    br_cpu cpu; /* the level of the processor that it needs */
    const br_kernels *kernels[BR_DTYPES];
    const br_gemm_kernels *gemm[BR_DTYPES];
    const br_gemm_kernels *bf16[BR_MATMUL_PRECISIONS]; /* NULL: no unit is faster than f32 */
    const br_attention_kernels *attention;             /* for "medium", or NULL */
    bool (*is_permitted)(void); /* asks for permission to use `bf16`, or NULL */
} variants[] = {
#ifdef BR_HAS_AMX
    { "amx", BR_CPU_AMX, TABLES_OF(avx512),
      .bf16 = { [BR_MATMUL_HIGH] = &br__gemm_amx_high, [BR_MATMUL_MEDIUM] = &br__gemm_amx },
      .attention = &br__attention_avx512_bf16, .is_permitted = br__permits_amx },
#endif
#ifdef __x86_64__
    { "avx512_bf16", BR_CPU_AVX512_BF16, TABLES_OF(avx512),
      .bf16 = { [BR_MATMUL_MEDIUM] = &br__gemm_avx512_bf16 },
      .attention = &br__attention_avx512_bf16 },
    { "avx512", BR_CPU_AVX512, TABLES_OF(avx512) },
    { "avx2", BR_CPU_AVX2, TABLES_OF(avx2) },
#endif
    { "baseline", BR_CPU_BASELINE, TABLES_OF(baseline) },
};
enum { VARIANTS = sizeof variants / sizeof *variants };

/* Returns whether the processor supports the variant. */
static bool runs_here(int variant)
{
    return br__cpu() >= variants[variant].cpu;
}

static bool is_permitted(int variant)
{
    return !variants[variant].is_permitted || variants[variant].is_permitted();
}

/* Returns the index of the variant of that name, or -1 if the name is unknown or the variant cannot
 * be used. */
static int find(const char *name)
{
    for (int variant = 0; variant < VARIANTS; variant++)
        if (strcmp(name, variants[variant].name) == 0)
            return runs_here(variant) && is_permitted(variant) ? variant : -1;
    return -1;
}

static int best(void)
{
    int variant = 0;
    while (!runs_here(variant))
        variant++;
    return variant;
}

/* Returns the first variant from this one on that the operating system permits. It has the same
 * kernels except those for bf16. */
static int permitted(int variant)
{
    while (!is_permitted(variant))
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
            "BRASA_CPU_CAPABILITY is '%.40s', must be amx, avx512_bf16, avx512, avx2 or baseline; "
            "this processor, its operating system and this build support at most %s",
            name, variants[permitted(best())].name);
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

const br_kernels *br__kernels_of(br_dtype dtype)
{
    return chosen_variant()->kernels[dtype];
}

const br_gemm_kernels *br__gemm_kernels_of(br_dtype dtype)
{
    return chosen_variant()->gemm[dtype];
}

static _Atomic(const br_gemm_kernels *) forced_bf16[BR_MATMUL_PRECISIONS];

/* Asks for permission only when the kernels are needed, because a process that has it can no longer
 * set small signal stacks. */
const br_gemm_kernels *br__gemm_bf16_kernels(br_matmul_precision precision)
{
    if (precision == BR_MATMUL_HIGHEST)
        return NULL;
    const br_gemm_kernels *forced =
        atomic_load_explicit(&forced_bf16[precision], memory_order_relaxed);
    return forced ? forced
                  : variants[permitted((int)(chosen_variant() - variants))].bf16[precision];
}

const br_attention_kernels *br__attention_bf16_kernels(void)
{
    return chosen_variant()->attention;
}

void br__force_bf16_kernels(const br_gemm_kernels *medium, const br_gemm_kernels *high)
{
    atomic_store_explicit(&forced_bf16[BR_MATMUL_MEDIUM], medium, memory_order_relaxed);
    atomic_store_explicit(&forced_bf16[BR_MATMUL_HIGH], high, memory_order_relaxed);
}

const char *br_get_cpu_capability(void)
{
    return br__kernels_of(BR_F32)->name;
}

bool br__force_kernels(const char *name)
{
    int variant = name ? find(name) : best();
    if (variant >= 0)
        select_variant(variant);
    return variant >= 0;
}
