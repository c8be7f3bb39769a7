/* backends/cpu/norm/norm_internal.h - the backend's entries for norms. */
#ifndef BR_CPU_NORM_INTERNAL_H
#define BR_CPU_NORM_INTERNAL_H

#include "tensor/tensor_internal.h"

void br__cpu_softmax(const br_tensor *y, const br_tensor *x, int64_t dim, bool log_of);
void br__cpu_softmax_grad(const br_tensor *dx, const br_tensor *y, const br_tensor *dy, int64_t dim,
                          bool log_of);
/* Return whether the entries for softmax and layer norm accept rows of a storage dtype, x, y and
 * their gradients, and widen them block by block. Other operands have the computed dtype. */
bool br__cpu_softmax_widens(const br_tensor *x, int64_t dim);
bool br__cpu_layer_norm_widens(const br_layer_norm_tensors *work);
void br__cpu_layer_norm(const br_layer_norm_tensors *work);
bool br__cpu_layer_norm_grad(const char *op, const br_layer_norm_tensors *work);
bool br__cpu_channel_norm(const char *op, const br_channel_norm_work *work);
bool br__cpu_channel_norm_fits(const br_tensor *rstd);
bool br__cpu_channel_norm_grad(const char *op, const br_channel_norm_work *work);

#endif
