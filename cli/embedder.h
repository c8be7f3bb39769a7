/* cli/embedder.h - sentence embeddings of a BERT: the mean of the last hidden state over a text's
 * tokens, normalized to length 1. */
#ifndef BRASA_CLI_EMBEDDER_H
#define BRASA_CLI_EMBEDDER_H

#include <brasa/brasa.h>

typedef struct embedder {
    br_tokenizer *tokenizer;
    br_hf_bert *bert;
} embedder;

/* Opens a model folder as downloaded from the Hugging Face Hub; `cased` as in cli_open_tokenizer().
 * Returns false with an error on failure. */
bool embedder_open(embedder *e, const char *dir, bool cased);
void embedder_close(embedder *e);

/* Returns the embeddings [n, hidden_size] of a batch of ids. */
br_tensor *embedder_run(const embedder *e, const br_token_batch *batch);
/* Returns the embeddings [n, hidden_size] of texts. Fails if a text has more tokens than the model
 * supports after `options` have truncated it. */
br_tensor *embedder_embed(const embedder *e, int64_t n, const br_text *texts,
                          const br_encode_options *options);

/* Fills order[] with the indices of n texts, sorted by length, so that batches have little
 * padding. */
void embedder_sort(int64_t n, const br_text *texts, int64_t *order);

#endif
