/* tensor/cpu.h - the instruction sets for which loops are compiled. */
#ifndef BR_CPU_H
#define BR_CPU_H

/* Each level includes the ones before it. */
typedef enum br_cpu {
    BR_CPU_BASELINE = 1,
    BR_CPU_AVX2,       /* and FMA */
    BR_CPU_AVX512,     /* F, DQ, BW and VL */
    BR_CPU_AVX512_BF16 /* products of bf16 numbers */
} br_cpu;

/* Returns the best level that the processor supports and whose registers the operating system
 * saves. */
br_cpu br__cpu(void);

#endif
