/* backends/cpu/gemm/gemm_choice.h - how a matrix product is computed. */
#ifndef BR_GEMM_CHOICE_H
#define BR_GEMM_CHOICE_H

#include "backends/cpu/gemm/gemm.h"
#include "backends/cpu/gemm/gemm_kernels.h"

typedef enum br_gemm_way { BR_GEMM_TILES, BR_GEMM_DOTS, BR_GEMM_BLIS } br_gemm_way;

typedef struct br_gemm_choice {
    const br_gemm_kernels *kernels;
    br_gemm_way way;
} br_gemm_choice;

/* Depends on the product's dtype, sizes and strides, and on the precision of f32 products. */
br_gemm_choice br__gemm_choice(const br_gemm *g);

/* Returns the number of multiplications in one product. */
static inline double br__gemm_work(const br_gemm *g)
{
    return (double)g->m * (double)g->n * (double)g->k;
}

#endif
