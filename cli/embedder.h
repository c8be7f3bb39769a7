/* cli/embedder.h - sentence embeddings of a BERT: the mean of the last hidden state over a text's
 * tokens, of length 1. */
#ifndef BRASA_CLI_EMBEDDER_H
#define BRASA_CLI_EMBEDDER_H

#include <brasa/brasa.h>

typedef struct embedder {
    br_tokenizer *tokenizer;
    br_hf_bert *bert;
} embedder;

/* Opens the folder of a model, as the hub has it; with `cased` its vocab.txt, without lower-casing.
 * False and an error. */
bool embedder_open(embedder *e, const char *dir, bool cased);
void embedder_close(embedder *e);

/* [n, hidden_size] of a batch of ids. */
br_tensor *embedder_run(const embedder *e, const br_token_batch *batch);
/* [n, hidden_size] of texts; one that is too long for the model, and not cut, is an error. */
br_tensor *embedder_embed(const embedder *e, int64_t n, const br_text *texts,
                          const br_encode_options *options);

/* Fills order[] with the numbers of n texts, from the shortest to the longest, so that little of a
 * batch is padding. */
void embedder_sort(int64_t n, const br_text *texts, int64_t *order);

#endif
