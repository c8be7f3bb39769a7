/* tensor/tensor_internal.h - all internals of tensors, for the layers above. */
#ifndef BR_TENSOR_INTERNAL_H
#define BR_TENSOR_INTERNAL_H

#include "backends/backend.h"
#include "tensor/device.h"
#include "tensor/errors.h"
#include "tensor/events.h"
#include "tensor/host.h"
#include "tensor/memory.h"
#include "tensor/parallel.h"
#include "tensor/quantized.h"
#include "tensor/storage.h"
#include "tensor/thread_state.h"
#include "tensor/window.h"

#endif
