/* brasa/data.h - datasets, loaders, vocabularies and Python's random. */
#ifndef BRASA_DATA_H
#define BRASA_DATA_H

#include <brasa/ops.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Datasets -------------------------------------------------------------------------------- */

enum { BR_MAX_FIELDS = 16 };

/* A map-style dataset: a size, and a function that makes item i. The function stores n_fields
 * tensors, owned by the innermost scope, in fields[], or returns false and sets an error. */
typedef struct br_dataset br_dataset;
typedef bool (*br_dataset_get_fn)(void *context, int64_t i, br_tensor **fields);
/* Creates a dataset. br_dataset_free() calls `destroy`, which may be NULL, with the context. */
BR_API br_dataset *br_dataset_new(int64_t size, int n_fields, br_dataset_get_fn get, void *context,
                                  void (*destroy)(void *context));
/* Creates a dataset like PyTorch's TensorDataset: item i is the slices [i] of n tensors with equal
 * first dimensions. The dataset retains the tensors. */
BR_API br_dataset *br_tensor_dataset_new(int n, br_tensor *const *tensors);
/* Creates a dataset of n items of another dataset, which must outlive it. `indices` is copied. */
BR_API br_dataset *br_subset_new(br_dataset *dataset, int64_t n, const int64_t *indices);
/* Splits a dataset at random into n subsets, like PyTorch's random_split(). The lengths must sum to
 * its size. The order comes from this thread's generator. The dataset must outlive the subsets.
 * subsets[] are NULL on error. */
BR_API bool br_random_split(br_dataset *dataset, int n, const int64_t *lengths,
                            br_dataset **subsets);
/* Splits by fractions, which must sum to 1. Lengths are rounded down; the remaining items go to the
 * first subsets, one each. */
BR_API bool br_random_split_fractions(br_dataset *dataset, int n, const double *fractions,
                                      br_dataset **subsets);

typedef struct br_token_file_options {
    size_t struct_size;
    int64_t length;     /* tokens per item; required */
    int64_t stride;     /* tokens from the start of one item to the next; 0: length */
    int bytes;          /* per token: 2, 4 or 8 */
    int64_t vocab_size; /* tokens must be below it; 0: no check */
} br_token_file_options;
#define br_token_file_default_fields .struct_size = sizeof(br_token_file_options), .bytes = 2
BR_API br_token_file_options br_token_file_defaults(void);

/* Creates a dataset for training a language model from a file of tokens. The file contains only
 * unsigned integers in the machine's byte order. An item has two I64 fields of shape [length]: the
 * input, and the target, which is the input shifted by one token. The file is mapped, so unused
 * parts are not read; it must not change while the dataset is live. */
BR_API br_dataset *br_token_file_dataset_new(const char *path,
                                             const br_token_file_options *options);
/* Writes such a file of n tokens with 2, 4 or 8 bytes each. */
BR_API bool br_token_file_save(const char *path, int64_t n, const int64_t *tokens, int bytes);

/* Frees a dataset. NULL is ignored. */
BR_API void br_dataset_free(br_dataset *dataset);
/* Returns the number of items. */
BR_API int64_t br_dataset_size(const br_dataset *dataset);
/* Returns the number of fields of an item. */
BR_API int br_dataset_num_fields(const br_dataset *dataset);
/* Stores the tensors of item i, owned by the innermost scope, in fields[]. Returns false and an
 * error on failure. */
BR_API bool br_dataset_get(br_dataset *dataset, int64_t i, br_tensor **fields);

/* ---- Loaders --------------------------------------------------------------------------------- */

typedef struct br_loader_options {
    size_t struct_size;
    int64_t batch_size;
    bool shuffle; /* a new random order each epoch, from this thread's generator as in PyTorch */
    bool drop_last;
    /* The number of threads that prefetch batches; 0: the caller's thread makes them. Workers call
     * the dataset's function concurrently. The batches do not depend on the number of workers,
     * unless the dataset generates random numbers. In that case they are the same for any number
     * except 0, because each batch made by a worker has its own generator, seeded with the epoch's
     * seed plus the batch's number. */
    int num_workers;
    int64_t prefetch_factor; /* batches prefetched per worker */
    bool persistent_workers; /* keep the threads between epochs */
    /* The length of each item, or NULL; copied. Batches then consist of items of about equal
     * length. With `shuffle`, the items of 100 batches at a time are sorted by length, then the
     * batches are shuffled; without it, all items are sorted from the shortest to the longest. */
    const int64_t *lengths;
    /* Allows items whose first dimensions differ: shorter ones are padded at the end, like
     * PyTorch's pad_sequence(). */
    bool pad;
    const double *padding_values; /* one per field; NULL: 0 */
    /* Without a seed (-1), the order comes from this thread's generator. With one, the order of
     * epoch e depends only on seed + e, and the thread's generator does not change. */
    int64_t seed;
    /* Divides the batches of each epoch among loaders in num_replicas processes, like PyTorch's
     * DistributedSampler: this loader makes the batches rank, rank + num_replicas, ... of one
     * process. It reads no others. All loaders need the same dataset and options; `shuffle`
     * needs a seed. If br_loader_size() is no multiple of num_replicas, the first ranks get one
     * batch more; see br_data_parallel_join(). */
    int num_replicas, rank;
} br_loader_options;
#define br_loader_default_fields                                                                 \
    .struct_size = sizeof(br_loader_options), .batch_size = 1, .prefetch_factor = 2, .seed = -1, \
    .num_replicas = 1
BR_API br_loader_options br_loader_defaults(void);

/* Makes batches of a dataset, like PyTorch's DataLoader: each field is stacked along a new first
 * dimension. The dataset must outlive the loader. `options` may be NULL. */
typedef struct br_loader br_loader;
BR_API br_loader *br_loader_new(br_dataset *dataset, const br_loader_options *options);
BR_API void br_loader_free(br_loader *loader);
/* Returns the number of batches in an epoch, those of all replicas together. */
BR_API int64_t br_loader_size(const br_loader *loader);
/* Starts an epoch. The workers start with the first br_loader_next(). */
BR_API bool br_loader_begin(br_loader *loader);
/* Sets the number of the epoch that br_loader_begin() starts next; without this call, epochs are
 * numbered from 0. Fails if the loader has no seed. Use it to resume an interrupted run. */
BR_API bool br_loader_set_epoch(br_loader *loader, int64_t epoch);
/* Stores the tensors of the next batch, owned by the innermost scope, in fields[]. Returns false at
 * the end of the epoch or on error. */
BR_API bool br_loader_next(br_loader *loader, br_tensor **fields);
/* Makes batch number `batch` of the epoch the next one; the one after it is batch + num_replicas.
 * Batches are numbered as in one process. Use it to resume an interrupted run. */
BR_API bool br_loader_seek(br_loader *loader, int64_t batch);

/* ---- Vocabularies ---------------------------------------------------------------------------- */

/* A map between words and their ids 0 .. size-1. */
typedef struct br_vocab br_vocab;
BR_API br_vocab *br_vocab_new(void);
BR_API void br_vocab_free(br_vocab *vocab);
/* Returns the word's id, which is a new one if the word was unknown, or -1 on error. */
BR_API int64_t br_vocab_add(br_vocab *vocab, const char *word, size_t length);
/* Returns the word's id, or -1 without an error if it is unknown. */
BR_API int64_t br_vocab_find(const br_vocab *vocab, const char *word, size_t length);
/* Returns the word of an id, or NULL and an error if the id is out of range. */
BR_API const char *br_vocab_word(const br_vocab *vocab, int64_t id);
/* Returns the number of words. */
BR_API int64_t br_vocab_size(const br_vocab *vocab);

/* ---- Python's random ------------------------------------------------------------------------- */

/* A generator like CPython's module random: each function returns the same numbers as the function
 * of that name after random.seed(seed). It is independent of the thread's generator, which
 * generates PyTorch's numbers. If `random` is NULL, the functions return 0 and set an error. */
typedef struct br_python_random br_python_random;
/* Creates a generator. Returns NULL on error. */
BR_API br_python_random *br_python_random_new(uint64_t seed);
BR_API void br_python_random_free(br_python_random *random);
/* Returns a number in [0, 1) that is a multiple of 2^-53. */
BR_API double br_python_random_random(br_python_random *random);
/* Returns an integer in 0 .. n-1. n must be at least 1. */
BR_API int64_t br_python_random_randrange(br_python_random *random, int64_t n);
/* Returns an integer in low .. high, both included. */
BR_API int64_t br_python_random_randint(br_python_random *random, int64_t low, int64_t high);
/* Shuffles n values in place. */
BR_API void br_python_random_shuffle(br_python_random *random, int64_t n, int64_t *values);

#ifdef __cplusplus
}
#endif
#endif
