/* train/learned_tokenizer.h - a byte-level BPE that is learned from a text, and its files. */
#ifndef BRASA_TRAIN_LEARNED_TOKENIZER_H
#define BRASA_TRAIN_LEARNED_TOKENIZER_H

#include <brasa/tokenizers.h>
#include <stddef.h>

/* Learns a tokenizer from the lines of a text, each with its line break, as tokenizers' train()
 * does with a file. Returns its tokenizer.json for br_free(); NULL with an error on failure. */
char *tokenizer_learn(const char *text, size_t length, const br_bpe_train_options *options);
/* Writes tokenizer.json and tokenizer_config.json to a folder, which is created if it is missing.
 * `end` is the token that begins and ends texts; NULL: none. Returns false with an error on
 * failure. */
bool tokenizer_write(const char *folder, const char *json, const char *end);

#endif
