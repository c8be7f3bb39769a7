/* ops/index_internal.h - looking up and writing by index, for other operations. */
#ifndef BR_INDEX_INTERNAL_H
#define BR_INDEX_INTERNAL_H

#include "ops/kernels/index.h"
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

/* The places of a matrix's rows in order, of those that are equal in their own (i64): a row is
 * before another if the first element in which they differ is smaller. NaN counts as largest. */
br_tensor *br__argsort_rows(const char *op, br_tensor *rows);

/* For messages: the place of element i, in row-major order, as "[3, 17]". */
const char *br__position(const br_tensor *t, int64_t i);

/* A header of t's in which a 0-d tensor has one dimension of size 1, as operations that have a
 * `dim` see it. */
br_tensor br__line(const br_tensor *t);

/* The loops for br__scatter() that sum, multiply and compare a dtype. */
const br_scatter_loops *br__scatter_loops_of(br_dtype dtype);

/* Combines y with x at the places of the index, by a loop of br__scatter_loop() or one of its kin;
 * headers of one number of dimensions, in which x may be larger, but along `dim`. In the index's
 * order along that dimension; indices equal to `skip` are left out. */
void br__scatter(const br_tensor *x, const br_tensor *y, const br_tensor *index, int dim,
                 int64_t skip, br_loop combine);

/* Fails, naming position and value, unless all values of the i64 tensor are in 0 .. size-1. */
bool br__check_index(const char *op, br_tensor *index, int64_t size);
/* What scatter and its kin ask of index and src, which may be NULL. */
bool br__check_places(const char *op, const br_tensor *x, int64_t dim, br_tensor *index,
                      const br_tensor *src);
/* The i64 tensor, a copy of it if it has values of -size .. -1, to which size is added; NULL with
 * an error if any is outside -size .. size-1. */
br_tensor *br__wrap_index(const char *op, br_tensor *index, int64_t size);

#endif
