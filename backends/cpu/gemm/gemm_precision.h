/* backends/cpu/gemm/gemm_precision.h - the precision of f32 products, a setting of the process. */
#ifndef BR_GEMM_PRECISION_H
#define BR_GEMM_PRECISION_H

#include "tensor/dtype.h"

typedef enum br_matmul_precision {
    BR_MATMUL_HIGHEST,
    BR_MATMUL_HIGH,
    BR_MATMUL_MEDIUM,
    BR_MATMUL_PRECISIONS
} br_matmul_precision;

/* Leaves an error pending if BRASA_FLOAT32_MATMUL_PRECISION has a wrong value. */
br_matmul_precision br__matmul_precision(void);
/* Returns the precision of products of a dtype: the setting for f32, "highest" for others. */
br_matmul_precision br__matmul_precision_of(br_dtype dtype);

#endif
