/* backends/cpu/loss/loss_internal.h - the backend's entries for losses. */
#ifndef BR_CPU_LOSS_INTERNAL_H
#define BR_CPU_LOSS_INTERNAL_H

#include "tensor/tensor_internal.h"

/* Returns whether the entries for cross entropy accept scores and their gradient in a storage
 * dtype, and widen them row by row. Other operands have the computed dtype. */
bool br__cpu_cross_entropy_widens(const br_cross_entropy_tensors *work);
void br__cpu_cross_entropy(br_class_loss *loss, const br_cross_entropy_tensors *work);
void br__cpu_cross_entropy_grad(const br_class_loss *loss, const br_cross_entropy_tensors *work);
bool br__cpu_linear_cross_entropy(const char *op, br_class_loss *loss,
                                  const br_linear_cross_entropy_tensors *work);

#endif
