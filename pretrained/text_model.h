/* pretrained/text_model.h - what models that read texts share: the class for a task, the limits of
 * a model, and texts in batches of similar length. */
#ifndef BR_TEXT_MODEL_H
#define BR_TEXT_MODEL_H

#include <brasa/pretrained/auto_config.h>
#include <brasa/pretrained/family.h>
#include <brasa/tokenizers.h>

/* ---- Models ---------------------------------------------------------------------------------- */

/* Returns the first class of the configuration's family that `fits`. Otherwise returns NULL and an
 * error that says for which model types `what`, such as "sentence embeddings", is supported. */
const br_model_class *br__class_that_fits(const char *op, const br_auto_config *config,
                                          bool (*fits)(const br_model_class *class),
                                          const char *what);

/* The limits of a model. */
typedef struct br_text_limits {
    const br_auto_config *config;
    const br_tokenizer *tokenizer;
    int64_t vocab_size, max_tokens;
    const char *option, *command; /* that truncate texts, for an error */
} br_text_limits;

/* Reads vocab_size and max_tokens. Returns false and an error on failure. */
bool br__read_limits(br_text_limits *limits);
/* Checks the ids and the mask of the tokens of a batch, of which row i is texts[order[i]]. */
bool br__check_tokens(const char *op, const br_text_limits *limits, const int64_t *order,
                      const br_token_batch *batch);

/* ---- Texts ----------------------------------------------------------------------------------- */

/* Copies n texts with their lengths. Returns memory for br_free(), or NULL and an error. */
br_text *br__copy_texts(const char *op, const char *name, int64_t n, const br_text *texts);
/* Returns the texts order[0] .. order[n - 1], for br_free(); NULL and an error on failure. */
br_text *br__chosen_texts(const br_text *texts, const int64_t *order, int64_t n);

/* Texts that a model reads in batches. */
typedef struct br_text_batches {
    const char *op;
    int64_t n, batch_size;
    bool (*on_batch)(void *context, int64_t done, int64_t total); /* may be NULL */
    void *context;
} br_text_batches;

/* Checks the number of texts and the batch size. */
bool br__check_batches(const br_text_batches *batches, const br_text *texts);
/* Calls run() for texts from .. from + n - 1 of each batch, then on_batch(). Returns false and an
 * error if one of them returns false. */
bool br__run_batches(const br_text_batches *batches,
                     bool (*run)(const void *of, int64_t from, int64_t n), const void *of);
/* Returns the indices of n texts sorted by length, for br_free(); NULL and an error on failure. If
 * `pairs` is not NULL, the length is that of both texts. */
int64_t *br__sort_by_length(int64_t n, const br_text *texts, const br_text *pairs);

#endif
