/* ops/index/embedding_rows.h - gradients of the rows of an embedding, for per-sample gradients. */
#ifndef BR_EMBEDDING_ROWS_H
#define BR_EMBEDDING_ROWS_H

#include <brasa/tensor.h>

/* Returns dy [*, d] divided by the number of times that the index of each row occurs in index [*],
 * i64. */
br_tensor *br__over_counts(br_tensor *dy, br_tensor *index);

#endif
