/* tests/ops/test_capability.c - the choice of kernels on simulated processors, for all values of
 * BRASA_CPU_CAPABILITY: backends/cpu/dispatch.c is compiled with functions that replace the
 * functions of tensor/cpu.c. No kernel runs. */
#define br__cpu                    simulated_cpu
#define br__permits_amx            simulated_permission
#define br__kernels_of             simulated_kernels
#define br__gemm_kernels_of        simulated_gemm_kernels
#define br__gemm_bf16_kernels      simulated_bf16_kernels
#define br__attention_bf16_kernels simulated_attention_kernels
#define br__force_kernels          simulated_force_kernels
#define br__force_bf16_kernels     simulated_force_bf16_kernels
#define br_get_cpu_capability      simulated_capability

#include "backends/cpu/dispatch.c"

#include "tests/support.h"

static br_cpu cpu;
static bool permits;
static int asked;

br_cpu simulated_cpu(void)
{
    return cpu;
}

bool simulated_permission(void)
{
    asked++;
    return permits;
}

TestSuite(capability, .init = check_begin, .fini = check_end);

#ifdef BR_HAS_AMX
/* Chooses kernels in a process that has not chosen any. */
static void begin(br_cpu level, bool permission, const char *name)
{
    cpu = level;
    permits = permission;
    asked = 0;
    select_variant(-1);
    if (name)
        setenv("BRASA_CPU_CAPABILITY", name, true);
    else
        unsetenv("BRASA_CPU_CAPABILITY");
}

static const char *unit(br_matmul_precision precision)
{
    const br_gemm_kernels *kernels = simulated_bf16_kernels(precision);
    return kernels ? kernels->unit : "f32";
}

Test(capability, the_best_kernels_and_unit_are_chosen)
{
    static const struct {
        br_cpu cpu;
        bool permits;
        const char *name, *capability, *unit;
    } cases[] = {
        { BR_CPU_AMX, true, NULL, "avx512", "amx" },
        { BR_CPU_AMX, false, NULL, "avx512", "avx512_bf16" },
        { BR_CPU_AMX, true, "", "avx512", "amx" },
        { BR_CPU_AMX, true, "amx", "avx512", "amx" },
        { BR_CPU_AMX, true, "avx512_bf16", "avx512", "avx512_bf16" },
        { BR_CPU_AMX, true, "avx512", "avx512", "f32" },
        { BR_CPU_AMX, true, "avx2", "avx2", "f32" },
        { BR_CPU_AMX, true, "baseline", "baseline", "f32" },
        { BR_CPU_AVX512_BF16, true, NULL, "avx512", "avx512_bf16" },
        { BR_CPU_AVX512_BF16, true, "avx512", "avx512", "f32" },
        { BR_CPU_AVX512, true, NULL, "avx512", "f32" },
        { BR_CPU_AVX2, true, NULL, "avx2", "f32" },
        { BR_CPU_BASELINE, true, NULL, "baseline", "f32" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        begin(cases[i].cpu, cases[i].permits, cases[i].name);
        cr_assert_str_eq(simulated_capability(), cases[i].capability, "case %zu", i);
        cr_assert_str_eq(unit(BR_MATMUL_MEDIUM), cases[i].unit, "case %zu", i);
        const bool has_amx = strcmp(cases[i].unit, "amx") == 0;
        cr_assert_str_eq(unit(BR_MATMUL_HIGH), has_amx ? "amx" : "f32", "case %zu", i);
        cr_assert_str_eq(unit(BR_MATMUL_HIGHEST), "f32", "case %zu", i);
        const bool rounds = strcmp(cases[i].unit, "f32") != 0;
        cr_assert_eq(simulated_attention_kernels() != NULL, rounds, "case %zu", i);
        check_ok();
    }
}

/* Permission makes the frames of signals larger, so programs that do not use AMX do not get it. */
Test(capability, permission_is_asked_for_when_the_unit_is_needed)
{
    begin(BR_CPU_AMX, true, NULL);
    simulated_kernels(BR_F32);
    simulated_gemm_kernels(BR_F64);
    unit(BR_MATMUL_HIGHEST);
    cr_assert_eq(asked, 0);
    unit(BR_MATMUL_MEDIUM);
    cr_assert_eq(asked, 1);
    begin(BR_CPU_AMX, true, "avx512_bf16");
    unit(BR_MATMUL_MEDIUM);
    cr_assert_eq(asked, 0);
}

Test(capability, a_name_that_cannot_be_used_is_an_error)
{
    static const struct {
        br_cpu cpu;
        bool permits;
        const char *name, *best;
    } cases[] = {
        { BR_CPU_AMX, false, "amx", "at most avx512_bf16" },
        { BR_CPU_AVX512_BF16, true, "amx", "at most avx512_bf16" },
        { BR_CPU_AVX512, true, "avx512_bf16", "at most avx512" },
        { BR_CPU_AVX2, true, "avx512", "at most avx2" },
        { BR_CPU_AMX, true, "AMX", "at most amx" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        begin(cases[i].cpu, cases[i].permits, cases[i].name);
        simulated_kernels(BR_F32);
        check_fails(!br_failed(), cases[i].best);
    }
    begin(BR_CPU_AVX2, true, "sse");
    simulated_kernels(BR_F32);
    check_fails(!br_failed(),
                "BRASA_CPU_CAPABILITY is 'sse', must be amx, avx512_bf16, avx512, avx2 or "
                "baseline; this processor, its operating system and this build support at "
                "most avx2");
}
#endif
