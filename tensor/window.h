/* tensor/window.h - windows, which are headers of parts of tensors, and copies. */
#ifndef BR_TENSOR_WINDOW_H
#define BR_TENSOR_WINDOW_H

#include "tensor/storage.h"

/* Returns a copy of t's header, to be narrowed and passed to an entry of a backend; it is
 * not marked as contiguous. It holds no reference and needs no allocation: use it only while t is
 * alive, and do not pass it on as a tensor. */
br_tensor br__window(const br_tensor *t);
/* Sets a window's sizes and strides. */
void br__window_reshape(br_tensor *window, int ndim, const int64_t *sizes, const int64_t *strides);
/* Narrows a window to `length` elements of a dimension from `start` on, `step` apart. */
void br__window_slice(br_tensor *window, int dim, int64_t start, int64_t length, int64_t step);
/* Moves a window by a number of elements, counted in memory. */
static inline void br__window_move(br_tensor *window, int64_t elements)
{
    window->data += elements * (int64_t)br__dtype_size(window->dtype);
}
/* Returns a 0-d window of the element that is `offset` elements after t's first one in memory. */
br_tensor br__window_element(const br_tensor *t, int64_t offset);
/* Returns true if elements share memory, as in an expanded or unfolded tensor. */
bool br__shares_elements(const br_tensor *t);
/* Sets all elements of a window to a value of one element and the same dtype. Elements may share
 * memory. */
void br__set_window(const br_tensor *window, const br_tensor *value);
/* Sets all elements of a window to a number, which is converted to their dtype. */
void br__set_number(const br_tensor *window, double number);
/* Sets all elements of a tensor to 0, in parallel. They are dense in memory, in any order of the
 * dimensions. */
void br__set_zero(const br_tensor *t);

#endif
