/* backends/cpu/attention/attention.h - scaled dot-product attention over batches of heads of a
 * floating-point dtype, on plain memory.
 *
 * Operands may have any strides. A batch stride of 0 broadcasts an operand, and its gradient is
 * then summed over that dimension. Apart from the results, memory use does not grow with the number
 * of queries or keys: each thread needs a fixed amount of scratch memory. Results do not depend on
 * the number of threads. */
#ifndef BR_ATTENTION_H
#define BR_ATTENTION_H

#include "backends/cpu/attention/attention_kernels.h"
#include "tensor/dtype.h"

enum { BR_ATTENTION_BATCH_DIMS = 8 };

/* Strides of the operands along one batch dimension, in elements. */
typedef struct br_attention_batch {
    int64_t query, key, value, mask, out, sums;
    int64_t dout, dquery, dkey, dvalue, dmask;
    int64_t bit; /* added to first_bit */
} br_attention_batch;

/* Attention over all combinations of batch indices, and over all ranges. */
typedef struct br_attention {
    const char *op;         /* prefix of errors */
    br_dtype dtype;         /* of the operands; sums have the dtype in which it is computed */
    br_dtype grad_dtype;    /* of the gradients: `dtype`, or the one in which it is computed */
    br_attention_work head; /* head 0. With ranges, its numbers of queries and keys are those of the
                               longest ranges */
    int64_t ranges;         /* as in br_attention_tensors */
    const int64_t *query_starts, *key_starts;
    int batch_ndim; /* the first dimension varies fastest */
    int64_t batch_sizes[BR_ATTENTION_BATCH_DIMS];
    br_attention_batch batch[BR_ATTENTION_BATCH_DIMS];
} br_attention;

/* Computes attention. Returns false with an error if scratch memory cannot be allocated. */
bool br__attention(const br_attention *a);
/* Returns whether br__attention_grad() can write gradients of a storage dtype: it needs the f32
 * gradients of one head at a time. */
bool br__attention_grad_narrows(const br_attention *a);
/* Adds to the requested gradients, which are those whose `at` is not NULL. Returns false with an
 * error if scratch memory cannot be allocated. */
bool br__attention_grad(const br_attention *a);
/* Returns whether br__attention_grad() overwrites the gradients instead of adding to them, so that
 * they need not be initialized. */
bool br__attention_grad_writes(const br_attention *a);

#endif
