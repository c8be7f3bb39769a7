/* ops/index_internal.h - looking up by index, for other operations. */
#ifndef BR_INDEX_INTERNAL_H
#define BR_INDEX_INTERNAL_H

#include "ops/view_internal.h"

/* How an index chooses elements of x along a dimension. */
typedef struct br_choice {
    int dim;
    bool slices;  /* each index a whole slice, as index_select; else one element, as gather */
    int64_t skip; /* in the gradient this index is left out; -1: none */
} br_choice;

/* Zeros of the given sizes to which dy is added where the index chose from: the adjoint of gather,
 * index_select and embedding. Recorded; equal indices are added in their order. */
br_tensor *br__index_add(br_tensor *dy, br_tensor *index, const br_choice *choice, int ndim,
                         const int64_t *sizes);

/* For messages: the place of element i, in row-major order, as "[3, 17]". */
const char *br__position(const br_tensor *t, int64_t i);

/* Fails, naming position and value, unless all values of the i64 tensor are in 0 .. size-1. */
bool br__check_index(const char *op, br_tensor *index, int64_t size);

#endif
