/* tokenizers/gguf_tokenizer.h - the tokenizer in the metadata of a GGUF file. */
#ifndef BR_GGUF_TOKENIZER_H
#define BR_GGUF_TOKENIZER_H

#include "io/gguf_internal.h"
#include "tokenizers/char_bpe.h"

typedef struct br_gguf_vocabulary {
    br_gguf *file;
    br_tokenizer *t;
    int64_t n;     /* number of tokens */
    bool is_gemma; /* spaces in tokens and the order of merges are Gemma's */
} br_gguf_vocabulary;

/* Loads the tokenizer of a GGUF file. Returns NULL and an error on failure. */
br_tokenizer *br__tokenizer_read_gguf(const char *path, const br_auto_tokenizer_options *options);

/* Sets the error "auto_tokenizer: PATH: ..." and returns false. */
bool br__gguf_tokenizer_refuse(const br_gguf_vocabulary *v, const char *format, ...)
    BR_PRINTF(2, 3);
/* Adds the merges that the file lists, by calls of `add`. */
bool br__gguf_listed_merges(const br_gguf_vocabulary *v, br_add_merge *add);
/* Adds the merges that follow from the tokens and their scores: all pairs of tokens whose texts
 * together are a token. */
bool br__gguf_implied_merges(const br_gguf_vocabulary *v);

#endif
