/* tests/tensor/test_cpu.c - the detection of instruction sets, and the permission to use AMX, on
 * simulated processors: tensor/cpu.c is compiled with functions that replace the instructions CPUID
 * and XGETBV, and the system call. */
#if defined(__x86_64__) && defined(__linux__)
#    include <cpuid.h>
#    include <criterion/criterion.h>
#    include <errno.h>
#    include <immintrin.h>
#    include <stdbool.h>
#    include <stdint.h>
#    include <sys/syscall.h>
#    include <unistd.h>

/* A processor, its operating system, and the number of times that permission was asked for. */
static struct machine {
    unsigned features_1_c, features_7_b, features_7_d, features_7_1_a;
    uint64_t kept;
    bool refuses;
    int asked;
} machine;

static int simulated_cpuid(unsigned leaf, unsigned subleaf, unsigned *a, unsigned *b, unsigned *c,
                           unsigned *d)
{
    *a = *b = *c = *d = 0;
    if (leaf == 1)
        *c = machine.features_1_c;
    if (leaf == 7 && subleaf == 0) {
        *b = machine.features_7_b;
        *d = machine.features_7_d;
    }
    if (leaf == 7 && subleaf == 1)
        *a = machine.features_7_1_a;
    return 1;
}

static long simulated_syscall(long number, int code, int feature)
{
    cr_assert(number == 158 && code == 0x1023 && feature == 18,
              "must be arch_prctl(ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA)");
    machine.asked++;
    errno = EPERM;
    return machine.refuses ? -1 : 0;
}

#    define __get_cpuid(leaf, a, b, c, d)                simulated_cpuid(leaf, 0, a, b, c, d)
#    define __get_cpuid_count(leaf, subleaf, a, b, c, d) simulated_cpuid(leaf, subleaf, a, b, c, d)
#    undef _xgetbv
#    define _xgetbv(n)      machine.kept
#    define syscall         simulated_syscall
#    define br__cpu         detected_cpu
#    define br__permits_amx detected_permission

#    include "tensor/cpu.c"

/* Returns a processor of the kind of Sapphire Rapids under Linux. */
static struct machine sapphire_rapids(void)
{
    return (struct machine){ .features_1_c = bit_OSXSAVE | bit_FMA,
                             .features_7_b = bit_AVX2 | bit_AVX512F | bit_AVX512DQ | bit_AVX512BW |
                                             bit_AVX512VL,
                             .features_7_d = 1u << 22 | 1u << 24,
                             .features_7_1_a = bit_AVX512BF16,
                             .kept = 0x602e7 };
}

/* ---- Levels ---------------------------------------------------------------------------------- */

static br_cpu level_of(struct machine m)
{
    machine = m;
    return detect();
}

Test(cpu, each_level_needs_its_features)
{
    struct machine m = sapphire_rapids();
    cr_assert_eq(level_of(m), BR_CPU_AMX);
    m.features_7_d = 1u << 22;
    cr_assert_eq(level_of(m), BR_CPU_AVX512_BF16, "AMX-TILE is missing");
    m.features_7_d = 1u << 24;
    cr_assert_eq(level_of(m), BR_CPU_AVX512_BF16, "AMX-BF16 is missing");
    m = sapphire_rapids();
    m.features_7_1_a = 0;
    cr_assert_eq(level_of(m), BR_CPU_AVX512, "AVX512-BF16 is missing");
    m.features_7_b &= ~(unsigned)bit_AVX512VL;
    cr_assert_eq(level_of(m), BR_CPU_AVX2);
    m.features_1_c = bit_OSXSAVE;
    cr_assert_eq(level_of(m), BR_CPU_BASELINE, "FMA is missing");
}

Test(cpu, each_level_needs_registers_that_the_system_saves)
{
    struct machine m = sapphire_rapids();
    m.kept = 0x202e7; /* the configuration of the tiles, without the tiles */
    cr_assert_eq(level_of(m), BR_CPU_AVX512_BF16);
    m.kept = 0xe7;
    cr_assert_eq(level_of(m), BR_CPU_AVX512_BF16);
    m.kept = 0x07;
    cr_assert_eq(level_of(m), BR_CPU_AVX2);
    m.kept = 0x03;
    cr_assert_eq(level_of(m), BR_CPU_BASELINE);
}

/* ---- Permission ------------------------------------------------------------------------------ */

static void check_permission(bool permitted, int asked)
{
    for (int i = 0; i < 3; i++)
        cr_assert_eq(detected_permission(), permitted);
    cr_assert_eq(machine.asked, asked, "permission was asked for %d times", machine.asked);
}

Test(cpu, permission_is_asked_for_once)
{
    machine = sapphire_rapids();
    check_permission(true, 1);
}

Test(cpu, a_refusal_is_remembered)
{
    machine = sapphire_rapids();
    machine.refuses = true;
    check_permission(false, 1);
}

Test(cpu, a_processor_without_amx_does_not_ask)
{
    machine = sapphire_rapids();
    machine.features_7_d = 0;
    check_permission(false, 0);
}
#endif
