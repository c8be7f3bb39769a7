/* cli/embedder.h - sentence embeddings of a BERT, as the model folder's files describe them
 * (sentence.h). */
#ifndef BRASA_CLI_EMBEDDER_H
#define BRASA_CLI_EMBEDDER_H

#include "cli/sentence.h"

#include <brasa/brasa.h>

typedef struct embedder {
    sentence sentence;
    int64_t prompt_tokens; /* number of the first tokens that are not pooled */
    br_tokenizer *tokenizer;
    br_hf_bert *bert;
} embedder;

/* Opens a model folder as downloaded from the Hugging Face Hub. Returns false with an error on
 * failure. Call embedder_close() in either case. */
bool embedder_open(embedder *e, const char *dir, const sentence_options *options);
void embedder_close(embedder *e);
/* Returns the size of an embedding: hidden_size, times the number of pooling modes. */
int64_t embedder_size(const embedder *e);

/* Returns the embeddings [n, embedder_size()] of a batch of ids. */
br_tensor *embedder_run(const embedder *e, const br_token_batch *batch);
/* Adds the prompt to the texts and returns their embeddings [n, embedder_size()]. Fails if a text
 * has more tokens than the model supports after it was truncated. */
br_tensor *embedder_embed(const embedder *e, int64_t n, const br_text *texts);
/* Returns x [n, size] with rows of length 1. */
br_tensor *embedder_normalize(br_tensor *x);

/* Fills order[] with the indices of n texts, sorted by length, so that batches have little
 * padding. */
void embedder_sort(int64_t n, const br_text *texts, int64_t *order);

#endif
