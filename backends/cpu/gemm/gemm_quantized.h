/* backends/cpu/gemm/gemm_quantized.h - matrix products whose B is a quantized matrix. */
#ifndef BR_GEMM_QUANTIZED_H
#define BR_GEMM_QUANTIZED_H

#include "backends/cpu/gemm/gemm.h"
#include "tensor/tensor_internal.h"

/* Computes the product in f32. `b` is quantized, or contiguous and bf16 or f16, and has the strides
 * b_row and b_col of g, whose `b` is ignored. Returns false with an error if memory cannot be
 * allocated. */
bool br__gemm_quantized(const br_gemm *g, const br_tensor *b);

#endif
