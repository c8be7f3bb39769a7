/* data/data_internal.h - the parts of a loader: the order of items, batches, and prefetching
 * threads. */
#ifndef BR_DATA_INTERNAL_H
#define BR_DATA_INTERNAL_H

#include "tensor/tensor_internal.h"

#include <brasa/data.h>

/* ---- Batches (data/batch.c) ------------------------------------------------------------------ */

/* How items are collated to a batch. */
typedef struct br_batching {
    br_dataset *dataset;
    bool pad;
    double padding_values[BR_MAX_FIELDS];
} br_batching;

/* Makes a batch of the `count` items with these numbers. Stores its tensors, owned by the innermost
 * scope, in fields[]; they are NULL on error. */
bool br__make_batch(const br_batching *batching, int64_t count, const int64_t *numbers,
                    br_tensor **fields);

/* ---- Order (data/sampler.c) ------------------------------------------------------------------ */

/* Fills order[] with 0 .. n-1, in order or shuffled by a separate generator that is seeded from the
 * thread's. If `lengths` is not NULL, the items of each batch have about equal lengths. */
void br__sample(int64_t *order, int64_t n, bool shuffle, const int64_t *lengths,
                int64_t batch_size);

/* ---- Prefetching (data/prefetcher.c) --------------------------------------------------------- */

/* Threads that prefetch the batches of an epoch. */
typedef struct br_prefetcher br_prefetcher;

/* Starts the threads; at most `max_batches` batches are prefetched. `make` is called from any of
 * the threads. It stores the tensors of batch number `batch`, owned by the innermost scope, in
 * fields[]. Returns NULL and an error on failure. */
typedef bool (*br_make_fn)(const void *context, int64_t batch, br_tensor **fields);
br_prefetcher *br__prefetcher_new(int threads, int64_t max_batches, int n_fields, br_make_fn make,
                                  const void *context);
/* Waits until all threads are idle. The caller may then change the data that `make` reads. */
void br__prefetcher_stop(br_prefetcher *r);
/* Makes the threads prefetch the batches first, first + stride, ... below `end`. Batch b uses a
 * generator seeded with seed + b, whichever thread makes it. */
void br__prefetcher_start(br_prefetcher *r, int64_t first, int64_t end, int64_t stride,
                          uint64_t seed);
/* Waits for the next batch and stores its tensors, owned by the innermost scope, in fields[].
 * Returns false and the batch's error if it failed. */
bool br__prefetcher_next(br_prefetcher *r, br_tensor **fields);
void br__prefetcher_free(br_prefetcher *r);

#endif
