/* backends/cpu/attention/attention_internal.h - the backend's entries for attention. */
#ifndef BR_CPU_ATTENTION_INTERNAL_H
#define BR_CPU_ATTENTION_INTERNAL_H

#include "tensor/tensor_internal.h"

bool br__cpu_attention(const char *op, const br_attention_tensors *work);
bool br__cpu_attention_grad(const char *op, const br_attention_tensors *work);
/* Returns whether br__cpu_attention_grad() takes dquery, dkey and dvalue in a storage dtype. If it
 * does not, they have the dtype in which they are computed, and so has dmask in all cases. Other
 * operands may have a storage dtype, except sums. */
bool br__cpu_attention_grad_narrows(const br_attention_tensors *work);
void br__cpu_rotate(const br_tensor *y, const br_tensor *x, const br_tensor *cos,
                    const br_tensor *sin, bool interleaved);

#endif
