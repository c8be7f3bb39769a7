/* tensor/cpu.c - asks the processor what it can do. The compiler's own test knows every processor
 * there is, and would be 4.5 kB. */
#include "tensor/cpu.h"

#include <stdatomic.h>

#ifdef __x86_64__

#    include <cpuid.h>
#    include <immintrin.h>
#    include <stdint.h>

/* Registers that the system saves where it changes threads. */
static __attribute__((target("xsave"))) uint64_t kept_registers(void)
{
    return (uint64_t)_xgetbv(0);
}

static br_cpu look(void)
{
    enum { KEEPS_YMM = 0x06, KEEPS_ZMM = 0xe6 };
    const unsigned before = bit_OSXSAVE | bit_FMA;
    const unsigned avx512 = bit_AVX512F | bit_AVX512DQ | bit_AVX512BW | bit_AVX512VL;
    unsigned a, b, c, d;
    if (!__get_cpuid(1, &a, &b, &c, &d) || (c & before) != before)
        return BR_CPU_BASELINE;
    const uint64_t kept = kept_registers();
    if ((kept & KEEPS_YMM) != KEEPS_YMM || !__get_cpuid_count(7, 0, &a, &b, &c, &d) ||
        !(b & bit_AVX2))
        return BR_CPU_BASELINE;
    return (kept & KEEPS_ZMM) == KEEPS_ZMM && (b & avx512) == avx512 ? BR_CPU_AVX512 : BR_CPU_AVX2;
}

#else

static br_cpu look(void)
{
    return BR_CPU_BASELINE;
}

#endif

/* A virtual machine may take microseconds to answer: it is asked once. */
br_cpu br__cpu(void)
{
    static atomic_int known;
    int cpu = atomic_load_explicit(&known, memory_order_relaxed);
    if (cpu == 0) {
        cpu = (int)look();
        atomic_store_explicit(&known, cpu, memory_order_relaxed);
    }
    return (br_cpu)cpu;
}
