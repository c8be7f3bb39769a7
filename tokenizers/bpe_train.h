/* tokenizers/bpe_train.h - learning a byte-level BPE: counted words, and the merges of them. */
#ifndef BR_BPE_TRAIN_H
#define BR_BPE_TRAIN_H

#include <brasa/data.h>
#include <brasa/tokenizers.h>

/* The distinct words of texts, as tokenizers' pre-tokenizer ByteLevel finds them. */
typedef struct br_counted_words {
    br_vocab *words; /* their bytes */
    int64_t *counts, capacity;
} br_counted_words;

/* Adds the words of a text, which must be UTF-8. Returns false and an error on failure. */
bool br__count_words(br_counted_words *w, br_text text);
void br__counted_words_end(br_counted_words *w);

/* Two tokens that are joined, by their ids. */
typedef struct br_learned_merge {
    int32_t left, right;
    bool replaced; /* the same pair was merged again later, and only that merge counts */
} br_learned_merge;

/* What was learned. */
typedef struct br_learned_bpe {
    br_vocab *tokens; /* as in tokenizer.json: a code point for each byte */
    int64_t n_merges, capacity;
    br_learned_merge *merges;
} br_learned_bpe;

/* Learns tokens and merges. Returns false and an error on failure. Call br__learned_bpe_end() in
 * either case. */
bool br__bpe_learn(br_learned_bpe *out, const br_counted_words *words,
                   const br_bpe_train_options *options);
void br__learned_bpe_end(br_learned_bpe *learned);

#endif
