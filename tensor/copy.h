/* tensor/copy.h - the parts of br__copy(). */
#ifndef BR_COPY_H
#define BR_COPY_H

#include "tensor/tensor_internal.h"

/* Returns a loop for br__for_each() that converts between two different dtypes. Its params are
 * these dtypes: br_dtype[2], `to` first. */
br_loop br__convert_loop(br_dtype to, br_dtype from);

/* Copies src to dst in square tiles if dst is dense along one dimension and src along another, as
 * in a transpose, so that each cache line is read and written once. Returns false, and copies
 * nothing, for other tensors. */
bool br__copy_tiles(const br_tensor *dst, const br_tensor *src);

#endif
