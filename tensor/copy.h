/* tensor/copy.h - what copies are made of. */
#ifndef BR_COPY_H
#define BR_COPY_H

#include "tensor/tensor_internal.h"

/* A loop for br__for_each() over operands of two different dtypes, which its params are:
 * br_dtype[2], `to` first. */
br_loop br__convert_loop(br_dtype to, br_dtype from);

/* Where dst is dense along one dimension and src along another, rows of one are columns of the
 * other: they are copied in square tiles, so that each cache line is read and written once. False
 * where they are not so. */
bool br__copy_tiles(const br_tensor *dst, const br_tensor *src);

#endif
