/* cli/batches.h - the batches of a training run, each known by the number of its step: a run that
 * goes on sees those that it would have seen. */
#ifndef BRASA_CLI_BATCHES_H
#define BRASA_CLI_BATCHES_H

#include <brasa/brasa.h>

typedef struct batches {
    br_loader *loader;
    uint64_t seed; /* of the epochs' orders */
    int64_t epoch; /* that the loader is in; -1: none */
} batches;

/* Whole batches of the dataset, which must stay alive; shuffled, in another order each epoch; read
 * ahead by as many threads as `workers`, on which they do not depend. False and an error if there
 * is not one. */
bool batches_open(batches *b, br_dataset *dataset, int64_t batch_size, bool shuffle,
                  int64_t workers);
/* All of the dataset in its order, the last batch being what is left: to measure a model on. */
bool batches_open_whole(batches *b, br_dataset *dataset, int64_t batch_size);
/* Of one epoch. */
int64_t batches_count(const batches *b);
/* The batch of a step, counted from 0, in fields[]. Draws nothing from the thread's generator. */
bool batches_get(batches *b, int64_t step, br_tensor **fields);
void batches_close(batches *b);

#endif
