/* tests/ops/matmul/bf16_units.h - the units for products of bf16 numbers that tests can use: those
 * of this processor, and AMX in emulation. */
#ifndef BR_TESTS_BF16_UNITS_H
#define BR_TESTS_BF16_UNITS_H

#include "backends/cpu/gemm/gemm_kernels.h"
#include "backends/cpu/kernels.h"
#include "tests/support.h"

#include <stddef.h>
#ifdef __x86_64__
/* The kernels for AMX, compiled with amx_emulation.h. They round with AVX512-BF16. */
extern const br_gemm_kernels br__gemm_amx_emulated, br__gemm_amx_high_emulated;
#endif

enum { UNIT_AVX512_BF16, UNIT_AMX, UNIT_AMX_EMULATED, UNITS };

/* Makes products of precision "medium" and "high" use the unit. Returns false if it cannot be used
 * here. */
static inline bool use_unit(int unit)
{
    br__force_bf16_kernels(NULL, NULL);
#ifdef __x86_64__
    if (!br__force_kernels(unit == UNIT_AMX ? "amx" : "avx512_bf16"))
        return false;
    if (unit == UNIT_AMX_EMULATED)
        br__force_bf16_kernels(&br__gemm_amx_emulated, &br__gemm_amx_high_emulated);
    return true;
#else
    (void)unit;
    return false;
#endif
}

/* Uses the next unit after `unit` that can be used here, and returns it. After the last one, uses
 * what this processor uses by itself, and returns UNITS. */
static inline int next_unit(int unit)
{
    while (++unit < UNITS)
        if (use_unit(unit))
            return unit;
    br__force_bf16_kernels(NULL, NULL);
    br__force_kernels(NULL);
    return UNITS;
}

/* Skips a test that needs a unit of this processor. `end` is the end of the suite, which Criterion
 * does not call for a skipped test. */
static inline void need_unit(void (*end)(void))
{
    if (br__gemm_bf16_kernels(BR_MATMUL_MEDIUM))
        return;
    end();
    cr_skip_test("this processor has no unit for products of bf16 numbers");
}

/* Runs the statement that follows with each unit that can be used here. */
#define FOR_EACH_UNIT(unit) for (int unit = next_unit(-1); unit < UNITS; unit = next_unit(unit))

#endif
