/* brasa/data.h - datasets, loaders, vocabularies, Python's random, and, by brasa/data/tokenizer.h,
 * tokenizers. */
#ifndef BRASA_DATA_H
#define BRASA_DATA_H

#include <brasa/data/tokenizer.h>
#include <brasa/ops.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Datasets -------------------------------------------------------------------------------- */

enum { BR_MAX_FIELDS = 16 };

/* A map-style dataset: a size and a function that makes item number i as n_fields tensors in
 * fields[], of the innermost scope. */
typedef struct br_dataset br_dataset;
typedef bool (*br_dataset_get_fn)(void *context, int64_t i, br_tensor **fields);
BR_API br_dataset *br_dataset_new(int64_t size, int n_fields, br_dataset_get_fn get, void *context,
                                  void (*destroy)(void *context));
/* Items are slices of n tensors of equal first size, as TensorDataset. */
BR_API br_dataset *br_tensor_dataset_new(int n, br_tensor *const *tensors);
/* The items `indices` of another dataset, which must stay alive. */
BR_API br_dataset *br_subset_new(br_dataset *dataset, int64_t n, const int64_t *indices);
/* random_split: the dataset, which must stay alive, in n subsets of random items; lengths sum up to
 * its size. The order is drawn from this thread's generator. subsets[] are NULL on error. */
BR_API bool br_random_split(br_dataset *dataset, int n, const int64_t *lengths,
                            br_dataset **subsets);
/* The same by fractions, which sum up to 1: what rounding down leaves goes to the first subsets, an
 * item each. */
BR_API bool br_random_split_fractions(br_dataset *dataset, int n, const double *fractions,
                                      br_dataset **subsets);

typedef struct br_token_file_options {
    int64_t length;     /* tokens of an item; required */
    int64_t stride;     /* from one item's beginning to the next one's; 0: length */
    int bytes;          /* of a token: 2, 4 or 8; 0: 2 */
    int64_t vocab_size; /* a token that is not below it is an error; 0: any is good */
} br_token_file_options;

/* Parts of a long text for a language model, from a file of tokens, integers without sign in the
 * machine's order and nothing else: fields are i64 [length], and the same one token later. The file
 * is mapped, so what is not used is not read; it must not be changed meanwhile. */
BR_API br_dataset *br_token_file_dataset_new(const char *path,
                                             const br_token_file_options *options);
/* Writes such a file of n tokens, of 2, 4 or 8 bytes each (0: 2). */
BR_API bool br_token_file_save(const char *path, int64_t n, const int64_t *tokens, int bytes);

BR_API void br_dataset_free(br_dataset *dataset);
BR_API int64_t br_dataset_size(const br_dataset *dataset);
BR_API int br_dataset_num_fields(const br_dataset *dataset);
BR_API bool br_dataset_get(br_dataset *dataset, int64_t i, br_tensor **fields);

/* ---- Loaders --------------------------------------------------------------------------------- */

typedef struct br_loader_options {
    int64_t batch_size; /* 0: 1 */
    bool shuffle; /* a new order each epoch, from this thread's generator, as DataLoader draws it */
    bool drop_last;
    /* Threads that make batches before they are asked for; 0: the caller makes them. The batches
     * are the same for any number, unless the dataset draws random numbers: then for any but 0,
     * since each batch that a thread makes has a generator of its own, seeded from the epoch's seed
     * and the batch's number. Several threads call the dataset's function at once. */
    int num_workers;
    int64_t prefetch_factor; /* batches that a thread may be ahead; 0: 2 */
    bool persistent_workers; /* threads stay from one epoch to the next */
    /* Of each item, copied; or NULL. Batches are of items of about equal length: of 100 batches at
     * a time that are sorted together, the batches then shuffled; without `shuffle`, of all items,
     * from the shortest to the longest. */
    const int64_t *lengths;
    /* Items' first sizes may differ: shorter ones are padded at their end, as pad_sequence does. */
    bool pad;
    const double *padding_values; /* by field; NULL: 0 */
} br_loader_options;

/* Batches of a dataset: fields stacked along a new first dimension. */
typedef struct br_loader br_loader;
BR_API br_loader *br_loader_new(br_dataset *dataset, const br_loader_options *options);
BR_API void br_loader_free(br_loader *loader);
/* Batches of one epoch. */
BR_API int64_t br_loader_size(const br_loader *loader);
/* Starts an epoch. */
BR_API bool br_loader_begin(br_loader *loader);
/* The next batch in fields[], of the innermost scope; false at the end of the epoch or on error. */
BR_API bool br_loader_next(br_loader *loader, br_tensor **fields);
/* Lets batch number `batch` of the epoch be the next: for a run that goes on where it stopped. */
BR_API bool br_loader_seek(br_loader *loader, int64_t batch);

/* ---- Vocabularies ---------------------------------------------------------------------------- */

/* Words and their ids 0 .. size-1. */
typedef struct br_vocab br_vocab;
BR_API br_vocab *br_vocab_new(void);
BR_API void br_vocab_free(br_vocab *vocab);
/* The word's id, a new one if it was unknown; -1 on error. */
BR_API int64_t br_vocab_add(br_vocab *vocab, const char *word, size_t length);
/* The word's id, or -1 (no error). */
BR_API int64_t br_vocab_find(const br_vocab *vocab, const char *word, size_t length);
/* NULL and an error for an id outside. */
BR_API const char *br_vocab_word(const br_vocab *vocab, int64_t id);
BR_API int64_t br_vocab_size(const br_vocab *vocab);

/* ---- Python's random ------------------------------------------------------------------------- */

/* A generator like CPython's module random: after random.seed(seed) its functions draw what those
 * of the same names draw here, in the same order. It has nothing to do with the thread's generator,
 * whose numbers are PyTorch's. Without a generator the functions give 0 and an error. */
typedef struct br_python_random br_python_random;
/* NULL on error. */
BR_API br_python_random *br_python_random_new(uint64_t seed);
BR_API void br_python_random_free(br_python_random *random);
/* On [0, 1), a multiple of 2^-53. */
BR_API double br_python_random_random(br_python_random *random);
/* One of 0 .. n-1; n must be at least 1. */
BR_API int64_t br_python_random_randrange(br_python_random *random, int64_t n);
/* One of low .. high. */
BR_API int64_t br_python_random_randint(br_python_random *random, int64_t low, int64_t high);
BR_API void br_python_random_shuffle(br_python_random *random, int64_t n, int64_t *values);

#ifdef __cplusplus
}
#endif
#endif
