/* train/batches.h - the batches of a training run. The step number determines the batch, so a
 * resumed run sees the same batches as an uninterrupted one. */
#ifndef BRASA_TRAIN_BATCHES_H
#define BRASA_TRAIN_BATCHES_H

#include <brasa/brasa.h>

typedef struct batches {
    br_loader *loader;
    int64_t epoch; /* current epoch of the loader; -1: none */
} batches;

/* Splits a dataset into full batches. The dataset must outlive `b`. With `shuffle`, each epoch has
 * a different order. `workers` threads prefetch batches; the batches do not depend on the number of
 * threads. With several ranks, this one prefetches every N-th batch only, those of its steps.
 * Returns false with an error if the dataset is smaller than one batch. */
bool batches_open(batches *b, br_dataset *dataset, int64_t batch_size, bool shuffle,
                  int64_t workers);
/* Splits a dataset whose items have these lengths into batches of items of similar length, padded
 * with padding[field]. With `shuffle` like batches_open(), but a last batch may be smaller, without
 * like batches_open_whole(). */
bool batches_open_padded(batches *b, br_dataset *dataset, int64_t batch_size,
                         const int64_t *lengths, const double *padding, int64_t workers,
                         bool shuffle);
/* Splits a dataset for evaluation: all items in order; the last batch may be smaller. */
bool batches_open_whole(batches *b, br_dataset *dataset, int64_t batch_size);
/* Returns the numbers 0 .. n - 1 in a random order that the seed determines. The caller frees them.
 * Returns NULL with an error on failure. */
int64_t *batches_shuffled(int64_t n);
/* Returns the number of batches of an epoch. */
int64_t batches_count(const batches *b);
/* Stores the batch of a step (counted from 0) in fields[]. Leaves the thread's random generator
 * unchanged. */
bool batches_get(batches *b, int64_t step, br_tensor **fields);
void batches_close(batches *b);

#endif
