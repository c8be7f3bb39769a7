/* backends/cpu/quantized/quantized.h - work with quantized tensors (tensor/quantized.h). */
#ifndef BR_CPU_QUANTIZED_H
#define BR_CPU_QUANTIZED_H

#include "backends/backend.h"

/* The entry of br_backend. */
void br__cpu_dequantize(const br_tensor *y, const br_tensor *x, const br_tensor *rows);

/* Convert rows `first` .. `first` + n - 1 of a matrix x to floats: in the caller's thread, or in
 * several threads. x is quantized, or bf16 or f16 and contiguous. */
void br__dequantize_rows(const br_tensor *x, int64_t first, int64_t n, float *to);
void br__dequantize_rows_shared(const br_tensor *x, int64_t first, int64_t n, float *to);

#endif
