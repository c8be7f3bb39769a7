/* ops/kernels/gemm/gemm_precision.h - the precision of f32 products, a setting of the process. */
#ifndef BR_GEMM_PRECISION_H
#define BR_GEMM_PRECISION_H

#include <stdbool.h>

/* Returns whether f32 products may round their operands to bf16. Leaves an error pending if
 * BRASA_FLOAT32_MATMUL_PRECISION has a wrong value. */
bool br__rounds_to_bf16(void);

#endif
