/* backends/cpu/recurrent/recurrent_internal.h - the backend's entries for recurrent layers. */
#ifndef BR_CPU_RECURRENT_INTERNAL_H
#define BR_CPU_RECURRENT_INTERNAL_H

#include "tensor/tensor_internal.h"

bool br__cpu_recurrent(const br_recurrent_tensors *work);
bool br__cpu_recurrent_grad(const br_recurrent_tensors *work);

#endif
