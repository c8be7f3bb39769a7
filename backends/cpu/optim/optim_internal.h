/* backends/cpu/optim/optim_internal.h - the backend's entries for optimizers. */
#ifndef BR_CPU_OPTIM_INTERNAL_H
#define BR_CPU_OPTIM_INTERNAL_H

#include "tensor/tensor_internal.h"

bool br__cpu_has_update(br_update_rule rule);
void br__cpu_update(int64_t n, const br_update *updates, br_loop_span *spans);
bool br__cpu_norms(const char *op, int64_t n, const br_tensor *const *tensors, br_loop_span *spans,
                   br_vector_norm norm, double *results);
void br__cpu_pointwise_each(br_pointwise kernel, int64_t n, const br_tensor *const *tensors,
                            br_loop_span *spans, const double *scalar, const void *params);

#endif
