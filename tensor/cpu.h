/* tensor/cpu.h - the vector instructions that there are builds of loops for. */
#ifndef BR_CPU_H
#define BR_CPU_H

/* Each has what those before it have. */
typedef enum br_cpu {
    BR_CPU_BASELINE = 1,
    BR_CPU_AVX2,  /* and FMA */
    BR_CPU_AVX512 /* F, DQ, BW and VL */
} br_cpu;

/* The best that this processor has and the system keeps the registers for. */
br_cpu br__cpu(void);

#endif
