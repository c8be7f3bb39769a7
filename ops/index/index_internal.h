/* ops/index/index_internal.h - reading and writing by index, for other operations. */
#ifndef BR_INDEX_INTERNAL_H
#define BR_INDEX_INTERNAL_H

#include "ops/shape/view_internal.h"

/* How an index selects elements of x along a dimension. */
typedef struct br_index_selection {
    int dim;
    bool slices;  /* an index selects a slice (index_select), else one element (gather) */
    int64_t skip; /* an index that the gradient ignores; -1: none */
} br_index_selection;

/* Returns zeros of the given sizes with dy added at the indexed positions: the adjoint of gather,
 * index_select and embedding. Autograd records it. Contributions of equal indices are added in the
 * order of the indices. */
br_tensor *br__index_add(br_tensor *dy, br_tensor *index, const br_index_selection *choice,
                         int ndim, const int64_t *sizes);

/* Records y, which holds the elements that br_gather(x, dim, index) would, as that operation's
 * result. Indices must be contiguous and in range. Returns y; NULL with an error if memory runs
 * out. */
br_tensor *br__as_gathered(br_tensor *y, br_tensor *x, int64_t dim, br_tensor *index);

/* Returns the indices (i64) that sort a matrix's rows lexicographically; the sort is stable. NaN
 * counts as largest. */
br_tensor *br__argsort_rows(const char *op, br_tensor *rows);

/* Returns the position of element i, in row-major order, as text such as "[3, 17]" for messages. */
const char *br__position(const br_tensor *t, int64_t i);

/* Returns a header of t. A 0-d tensor gets one dimension of size 1, because operations with a `dim`
 * treat it as 1-d. */
br_tensor br__line(const br_tensor *t);

/* Combines y into x at the indexed positions, as the backend's entry scatter. */
void br__scatter(const char *op, const br_tensor *x, const br_tensor *y, const br_tensor *index,
                 int dim, int64_t skip, br_combine combine);

/* Returns br_index(x, n, indices). Messages begin with op. */
br_tensor *br__index(const char *op, br_tensor *x, int n, br_tensor *const *indices);

/* Fails, with the position and the value, unless all values of the i64 tensor are at least 0 and
 * less than the size of x along `dim`. A 0-d x is treated as 1-d of size 1, as in PyTorch. */
bool br__check_index(const char *op, br_tensor *index, const br_tensor *x, int64_t dim);
/* Checks index and, unless it is NULL, src for scatter, scatter_add and scatter_reduce. */
bool br__check_scatter(const char *op, const br_tensor *x, int64_t dim, br_tensor *index,
                       const br_tensor *src);
/* Returns true for the last element, in row-major order, of those that the index maps to the same
 * position of a tensor of the given sizes. Unless `chosen` is NULL, only its true elements count.
 */
br_tensor *br__last_of_equal(br_tensor *chosen, int64_t dim, br_tensor *index, int ndim,
                             const int64_t *sizes);
/* Returns the i64 tensor with `size` added to negative values, as a copy if there are any; NULL
 * with an error if a value is outside -size .. size - 1. */
br_tensor *br__wrap_index(const char *op, br_tensor *index, const br_tensor *x, int64_t size);

#endif
