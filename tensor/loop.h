/* tensor/loop.h - the signature of a loop over strided memory, shared by tensors and kernels. */
#ifndef BR_LOOP_H
#define BR_LOOP_H

#include <stdint.h>

enum { BR_MAX_OPERANDS = 4 };

/* A loop over `n` elements of up to 4 operands: data[i] + k * strides[i] (bytes) is element k of
 * operand i. Operand 0 is the output. */
typedef void (*br_loop)(int64_t n, char *const *data, const int64_t *strides, const void *params);

#endif
