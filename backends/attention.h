/* backends/attention.h - work of attention. */
#ifndef BR_BACKEND_ATTENTION_H
#define BR_BACKEND_ATTENTION_H

#include <brasa/tensor.h>

/* Scaled dot-product attention, out = dropout(softmax(scale query key^T + mask)) value, and its
 * gradients, for a batch of matrices: query [..., queries, width], key [..., keys, width],
 * value [..., keys, value_width], mask [..., queries, keys], out [..., queries, value_width] and
 * sums [..., queries, 2]. Batches broadcast to the batch of `out`, and queries and keys of the mask
 * broadcast too. Rows of the results and of the gradients are contiguous; all other strides are
 * arbitrary. All tensors have one dtype, but the mask may be bool: true where a query attends to a
 * key.
 *
 * With ranges, the queries and keys of several sequences follow each other. Range r consists of
 * queries query_starts[r] .. query_starts[r + 1] - 1 and of the keys between two key_starts in the
 * same way. Queries attend to the keys of their range only, and the results are those of each range
 * alone. The starts are in the host's memory, and cover all queries and keys. Mask and bits are
 * NULL. */
typedef struct br_attention_tensors {
    double scale;
    bool causal;          /* query i attends to keys j <= i only; the mask is NULL */
    bool grouped;         /* each head of key and value, in dimension -3, serves several query heads
                             that follow each other */
    double dropout_scale; /* factor of the weights that are not dropped; 0: all are dropped */
    int64_t ranges;       /* 0: all queries attend to all keys */
    const int64_t *query_starts, *key_starts;    /* ranges + 1 numbers each */
    const br_tensor *query, *key, *value, *mask; /* mask may be NULL */
    /* i64, a bit for each score in row-major order, 0 if its weight is dropped, and one more word;
     * NULL: no weight is dropped */
    const br_tensor *bits;
    /* The results. `sums` has for each query the largest score, and the reciprocal of the sum of
     * exp(score - largest): [inf, 0] if the query attends to no key. The gradient reads both. */
    const br_tensor *out, *sums;
    const br_tensor *dout;
    const br_tensor *dquery, *dkey, *dvalue, *dmask; /* gradients; any may be NULL */
} br_attention_tensors;

#endif
