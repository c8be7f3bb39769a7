/* backends/cpu/gemm/matmul_internal.h - the backend's entry for matrix products. */
#ifndef BR_CPU_MATMUL_INTERNAL_H
#define BR_CPU_MATMUL_INTERNAL_H

#include "tensor/tensor_internal.h"

bool br__cpu_matmul(const br_matmul_tensors *work);

#endif
