/* tensor/strided.h - loops over strided memory, windows, and copies. */
#ifndef BR_TENSOR_STRIDED_H
#define BR_TENSOR_STRIDED_H

#include "tensor/loop.h"
#include "tensor/storage.h"

/* Runs `loop` over operands that broadcast to operand 0's shape. Adjacent dimensions are coalesced
 * where all operands allow it, `loop` processes the innermost dimension, and large loops run on
 * several threads. */
void br__for_each(int n_operands, const br_tensor *const *operands, br_loop loop,
                  const void *params);
/* Same as br__for_each() with `grain` elements per task, and without reporting to the profile. */
void br__for_each_strided(int n_operands, const br_tensor *const *operands, br_loop loop,
                          const void *params, int64_t grain);

/* Returns a copy of t's header, to be narrowed and passed to br__copy() or br__for_each(); it is
 * not marked as contiguous. It holds no reference and needs no allocation: use it only while t is
 * alive, and do not pass it on as a tensor. */
br_tensor br__window(const br_tensor *t);
/* Sets a window's sizes and strides. */
void br__window_reshape(br_tensor *window, int ndim, const int64_t *sizes, const int64_t *strides);
/* Narrows a window to `length` elements of a dimension from `start` on, `step` apart. */
void br__window_slice(br_tensor *window, int dim, int64_t start, int64_t length, int64_t step);
/* Returns true if elements share memory, as in an expanded or unfolded tensor. */
bool br__shares_elements(const br_tensor *t);
/* Sets all elements of a window to a value of one element and the same dtype. Elements may share
 * memory. */
void br__set_window(const br_tensor *window, const br_tensor *value);

/* Copies src, which must broadcast to dst, into dst and converts the dtype. */
void br__copy(const br_tensor *dst, const br_tensor *src);

#endif
