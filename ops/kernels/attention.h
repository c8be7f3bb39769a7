/* ops/kernels/attention.h - attention over batches of heads, of f32 and f64 over plain memory.
 *
 * Operands may have any strides; batches broadcast with strides of 0, and gradients along them are
 * sums. Memory besides the results is a fixed number of bytes a thread. Results do not depend on
 * the number of threads. */
#ifndef BR_ATTENTION_H
#define BR_ATTENTION_H

#include "ops/kernels/kernels.h"

enum { BR_ATTENTION_BATCH_DIMS = 8 };

/* Distances of an operand's matrices along the batch's dimensions, in elements. */
typedef struct br_attention_batch {
    int64_t query, key, value, mask, out, lse;
    int64_t dout, dquery, dkey, dvalue, dmask;
    uint64_t draw; /* of first_draw */
} br_attention_batch;

/* Attention for each combination of batch indices. */
typedef struct br_attention {
    bool is_double;
    br_attention_work head; /* the first one */
    int batch_ndim;         /* the first index runs fastest */
    int64_t batch_sizes[BR_ATTENTION_BATCH_DIMS];
    br_attention_batch batch[BR_ATTENTION_BATCH_DIMS];
} br_attention;

/* False and an error if scratch memory fails. */
bool br__attention(const br_attention *a);
/* Adds to the gradients that are wanted: those whose `at` is set. */
bool br__attention_grad(const br_attention *a);
/* True if br__attention_grad() would write all of them instead, whatever they hold. */
bool br__attention_grad_writes(const br_attention *a);

#endif
