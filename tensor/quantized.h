/* tensor/quantized.h - tensors of BR_QUANTIZED, whose memory is blocks of numbers with few bits.
 *
 * Such a tensor has the shape of the numbers, is contiguous, and its rows, which lie along the last
 * dimension, consist of whole blocks. It has no elements that could be read or written, and never
 * requires grad.
 *
 * Its mark is not that of other tensors. So the check of a handle, which every public function
 * makes, refuses it, and costs nothing more for other tensors. A function that takes quantized
 * tensors says so by br__required_any() or BR_LIVE_ANY(). */
#ifndef BR_TENSOR_QUANTIZED_H
#define BR_TENSOR_QUANTIZED_H

#include "tensor/block_types.h"
#include "tensor/storage.h"

static inline bool br__is_quantized(const br_tensor *t)
{
    return t->dtype == BR_QUANTIZED;
}

/* Returns whether an argument that is not checked yet is a quantized tensor. */
static inline bool br__is_quantized_weight(const br_tensor *weight)
{
    return weight && (weight->mark == BR_MARK_QUANTIZED || weight->mark == BR_MARK_REGISTERED) &&
           br__is_quantized(weight);
}

/* Returns the type of a quantized tensor. */
static inline const br_block_info *br__block_info(const br_tensor *t)
{
    return &br__block_types[t->block_type];
}

/* Returns the bytes of a row, which has `columns` elements. */
static inline int64_t br__row_bytes(const br_block_info *type, int64_t columns)
{
    return columns / type->elements * type->bytes;
}

/* Returns the bytes of all elements of any tensor. */
size_t br__tensor_bytes(const br_tensor *t);

/* Changes a tensor of bytes, u8 [rows, bytes of a row] and contiguous, to a quantized tensor that
 * has these sizes and the same memory. Nothing else may have used the tensor. Returns it. */
br_tensor *br__as_quantized(br_tensor *bytes, br_block_type type, int ndim, const int64_t *sizes);
/* Returns the bytes of a quantized tensor, u8 [rows, bytes of a row], which share its memory. */
br_tensor *br__bytes_of_quantized(br_tensor *t);

/* Check a tensor like BR_LIVE() and br__required(), but also accept quantized ones. */
bool br__check_any_tensor(const char *op, const char *name, const br_tensor *t);
static inline bool br__is_live_any(const char *op, const char *name, const br_tensor *t)
{
    return __builtin_expect(t->mark == BR_MARK_LIVE, 1) || br__check_any_tensor(op, name, t);
}
#define BR_LIVE_ANY(op, t) ((t) && br__is_live_any((op), #t, (t)))
bool br__required_any(const char *op, const char *name, const br_tensor *t);

#endif
