/* data/data_internal.h - what a loader is made of: the order of items, batches, and threads that
 * make batches ahead. */
#ifndef BR_DATA_INTERNAL_H
#define BR_DATA_INTERNAL_H

#include "tensor/tensor_internal.h"

#include <brasa/data.h>

/* ---- Batches (data/batch.c) ------------------------------------------------------------------ */

/* How items become a batch. */
typedef struct br_batching {
    br_dataset *dataset;
    bool pad;
    double padding_values[BR_MAX_FIELDS];
} br_batching;

/* The batch of `count` items with these numbers in fields[], of the innermost scope. On error
 * fields[] are NULL. */
bool br__make_batch(const br_batching *batching, int64_t count, const int64_t *numbers,
                    br_tensor **fields);

/* ---- Order (data/sampler.c) ------------------------------------------------------------------ */

/* Fills order[] with 0 .. n-1: as they are, or shuffled by a generator of its own that is seeded
 * from the thread's. With lengths, which may be NULL, each batch_size of them in a row are of about
 * equal length. */
void br__sample(int64_t *order, int64_t n, bool shuffle, const int64_t *lengths,
                int64_t batch_size);

/* ---- Reading ahead (data/read_ahead.c) ------------------------------------------------------- */

/* Threads that make the batches of an epoch before they are asked for. */
typedef struct br_read_ahead br_read_ahead;

/* `make` makes batch number `batch` into fields[], of the innermost scope, in any of the threads.
 * NULL and an error. */
typedef bool (*br_make_fn)(const void *context, int64_t batch, br_tensor **fields);
br_read_ahead *br__read_ahead_new(int threads, int64_t ahead, int n_fields, br_make_fn make,
                                  const void *context);
/* Waits until no thread is at work any more; then what `make` reads may change. */
void br__read_ahead_stop(br_read_ahead *r);
/* Lets the threads make batches first .. end - 1. Batch number b draws from a generator seeded by
 * seed + b, whichever thread makes it. */
void br__read_ahead_start(br_read_ahead *r, int64_t first, int64_t end, uint64_t seed);
/* Waits for the next batch: in fields[], of the innermost scope; or false and its error. */
bool br__read_ahead_next(br_read_ahead *r, br_tensor **fields);
void br__read_ahead_free(br_read_ahead *r);

#endif
