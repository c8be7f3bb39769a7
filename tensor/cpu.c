/* tensor/cpu.c - detects the processor's instruction sets. The compiler's __builtin_cpu_supports()
 * would add 4.5 kB, since it identifies every processor there is. */
#include "tensor/cpu.h"

#include <pthread.h>
#include <stdatomic.h>
#ifdef __linux__
#    include <sys/syscall.h>
#    include <unistd.h>
#endif

#ifdef __x86_64__

#    include <cpuid.h>
#    include <immintrin.h>
#    include <stdint.h>

/* Returns the registers that the operating system saves when it switches threads (XCR0). */
static __attribute__((target("xsave"))) uint64_t kept_registers(void)
{
    return (uint64_t)_xgetbv(0);
}

static br_cpu detect(void)
{
    enum { KEEPS_YMM = 0x06, KEEPS_ZMM = 0xe6, KEEPS_TILES = 0x60000 };
    const unsigned before = bit_OSXSAVE | bit_FMA;
    const unsigned avx512 = bit_AVX512F | bit_AVX512DQ | bit_AVX512BW | bit_AVX512VL;
    const unsigned amx = 1u << 22 | 1u << 24; /* AMX-BF16 and AMX-TILE, in edx */
    unsigned a, b, c, d;
    if (!__get_cpuid(1, &a, &b, &c, &d) || (c & before) != before)
        return BR_CPU_BASELINE;
    const uint64_t kept = kept_registers();
    if ((kept & KEEPS_YMM) != KEEPS_YMM || !__get_cpuid_count(7, 0, &a, &b, &c, &d) ||
        !(b & bit_AVX2))
        return BR_CPU_BASELINE;
    if ((kept & KEEPS_ZMM) != KEEPS_ZMM || (b & avx512) != avx512)
        return BR_CPU_AVX2;
    const bool has_amx = (kept & KEEPS_TILES) == KEEPS_TILES && (d & amx) == amx;
    if (!__get_cpuid_count(7, 1, &a, &b, &c, &d) || !(a & bit_AVX512BF16))
        return BR_CPU_AVX512;
    return has_amx ? BR_CPU_AMX : BR_CPU_AVX512_BF16;
}

#else

static br_cpu detect(void)
{
    return BR_CPU_BASELINE;
}

#endif

/* The result is cached: CPUID may take microseconds in a virtual machine. */
br_cpu br__cpu(void)
{
    static atomic_int known;
    int cpu = atomic_load_explicit(&known, memory_order_relaxed);
    if (cpu == 0) {
        cpu = (int)detect();
        atomic_store_explicit(&known, cpu, memory_order_relaxed);
    }
    return (br_cpu)cpu;
}

/* ---- Permission to use AMX ------------------------------------------------------------------- */

static bool amx_is_permitted;

static void ask_for_amx(void)
{
#if defined(__linux__) && defined(__x86_64__)
    enum { ARCH_REQ_XCOMP_PERM = 0x1023, XFEATURE_XTILEDATA = 18 }; /* <asm/prctl.h> since 5.16 */
    amx_is_permitted = br__cpu() >= BR_CPU_AMX &&
                       syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA) == 0;
#endif
}

bool br__permits_amx(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, ask_for_amx);
    return amx_is_permitted;
}
