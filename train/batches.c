/* train/batches.c - finds the epoch and the batch for a step number. */
#include "train/batches.h"

#include <brasa/distributed.h>
#include <inttypes.h>
#include <stdlib.h>

static bool open(batches *b, br_dataset *dataset, br_loader_options options)
{
    *b = (batches){ .loader = br_loader_new(dataset, &options), .epoch = -1 };
    if (b->loader && br_loader_size(b->loader) == 0)
        br_raise(BR_ERROR_ARGUMENT,
                 "a batch has %" PRId64 " items, but the dataset has only %" PRId64,
                 options.batch_size, br_dataset_size(dataset));
    return !br_failed();
}

bool batches_open(batches *b, br_dataset *dataset, int64_t batch_size, bool shuffle,
                  int64_t workers)
{
    return open(b, dataset,
                *BR_OPTIONS(br_loader, .batch_size = batch_size, .shuffle = shuffle,
                            .drop_last = true, .num_workers = (int)workers,
                            .persistent_workers = true, .seed = (int64_t)br_initial_seed(),
                            .num_replicas = br_dist_size(NULL), .rank = br_dist_rank(NULL)));
}

bool batches_open_padded(batches *b, br_dataset *dataset, int64_t batch_size,
                         const int64_t *lengths, const double *padding, int64_t workers,
                         bool shuffle)
{
    br_loader_options o = br_loader_defaults();
    o.batch_size = batch_size;
    o.lengths = lengths;
    o.pad = true;
    o.padding_values = padding;
    if (shuffle) {
        o.shuffle = true;
        o.num_workers = (int)workers;
        o.persistent_workers = true;
        o.num_replicas = br_dist_size(NULL);
        o.rank = br_dist_rank(NULL);
    }
    o.seed = shuffle ? (int64_t)br_initial_seed() : 0;
    return open(b, dataset, o);
}

bool batches_open_whole(batches *b, br_dataset *dataset, int64_t batch_size)
{
    return open(b, dataset, *BR_OPTIONS(br_loader, .batch_size = batch_size, .seed = 0));
}

int64_t *batches_shuffled(int64_t n)
{
    int64_t *numbers = malloc((size_t)(n + 1) * sizeof *numbers);
    if (!numbers) {
        br_raise(BR_ERROR_MEMORY, "cannot allocate memory for the numbers of %" PRId64 " examples",
                 n);
        return NULL;
    }
    for (int64_t i = 0; i < n; i++)
        numbers[i] = i;
    br_python_random *random = br_python_random_new(br_initial_seed());
    br_python_random_shuffle(random, n, numbers);
    br_python_random_free(random);
    if (!br_failed())
        return numbers;
    free(numbers);
    return NULL;
}

int64_t batches_count(const batches *b)
{
    return br_loader_size(b->loader);
}

static bool begin_epoch(batches *b, int64_t epoch)
{
    b->epoch = epoch;
    return br_loader_set_epoch(b->loader, epoch) && br_loader_begin(b->loader);
}

bool batches_get(batches *b, int64_t step, br_tensor **fields)
{
    int64_t size = br_loader_size(b->loader);
    if (br_failed() || (b->epoch != step / size && !begin_epoch(b, step / size)))
        return false;
    return br_loader_seek(b->loader, step % size) && br_loader_next(b->loader, fields);
}

void batches_close(batches *b)
{
    br_loader_free(b->loader);
}
