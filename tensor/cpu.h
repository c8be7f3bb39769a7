/* tensor/cpu.h - the instruction sets for which loops are compiled. */
#ifndef BR_CPU_H
#define BR_CPU_H

#include <stdbool.h>

/* Each level includes the ones before it. */
typedef enum br_cpu {
    BR_CPU_BASELINE = 1,
    BR_CPU_AVX2,        /* and FMA */
    BR_CPU_AVX512,      /* F, DQ, BW and VL */
    BR_CPU_AVX512_BF16, /* products of bf16 numbers */
    BR_CPU_AMX          /* TILE and BF16; a process needs permission to use it */
} br_cpu;

/* Returns the best level that the processor supports and whose registers the operating system
 * saves. */
br_cpu br__cpu(void);

/* Returns whether this process may use AMX's tiles on a processor of level BR_CPU_AMX. The first
 * call asks the operating system, which then reserves 8 KiB for the tiles in the saved state of
 * each thread that uses them. It refuses if a thread's signal stack is too small for that. */
bool br__permits_amx(void);

#endif
