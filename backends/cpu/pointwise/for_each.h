/* backends/cpu/pointwise/for_each.h - loops over strided memory. */
#ifndef BR_CPU_FOR_EACH_H
#define BR_CPU_FOR_EACH_H

#include "tensor/loop.h"
#include "tensor/tensor_internal.h"

/* Runs `loop` over operands that broadcast to operand 0's shape. Adjacent dimensions are coalesced
 * where all operands allow it, `loop` processes the innermost dimension, and large loops run on
 * several threads. */
void br__run_loop(int n_operands, const br_tensor *const *operands, br_loop loop,
                  const void *params);
/* Same as br__run_loop(), and reports the memory traffic to a running profile. */
void br__for_each(int n_operands, const br_tensor *const *operands, br_loop loop,
                  const void *params);
/* Same as br__run_loop() with `grain` elements per task. */
void br__run_strided_loop(int n_operands, const br_tensor *const *operands, br_loop loop,
                          const void *params, int64_t grain);

/* The backend's entry: runs the kernel of the dtype in which the last operand's is computed. */
bool br__cpu_pointwise(br_pointwise kernel, int n, const br_tensor *const *operands,
                       const void *params);
/* The backend's entries for dropout. */
void br__cpu_dropout_bits(const br_tensor *bits, int64_t n, double p);
void br__cpu_dropout(const br_tensor *y, const br_tensor *x, const br_tensor *bits, double scale);

#endif
