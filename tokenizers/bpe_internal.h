/* tokenizers/bpe_internal.h - byte-level BPE: classes of code points, and merges. */
#ifndef BR_BPE_INTERNAL_H
#define BR_BPE_INTERNAL_H

#include "tokenizers/tokenizer_internal.h"

/* The classes of code points in the pattern that splits a text. */
typedef enum br_bpe_class {
    BR_BPE_OTHER,
    BR_BPE_LETTER,
    BR_BPE_NUMBER,
    BR_BPE_SPACE,
} br_bpe_class;

extern const br_char_table br__bpe_chars;

/* The result of merging a pair of tokens. The merge with the lowest rank in a word comes first. */
typedef struct br_merge {
    int64_t rank, id;
} br_merge;

/* The data of a byte-level BPE tokenizer besides its tokens. */
typedef struct br_bpe {
    bool prefix_space; /* add a space to a text that does not begin with one */
    br_vocab *pairs;   /* each word is two uint32_t ids */
    br_merge *merges;  /* one for each pair */
    int64_t merge_capacity;
    int64_t byte_ids[256]; /* -1: the vocabulary has no token for the byte */
} br_bpe;

static inline br_bpe *br__bpe_of(const br_tokenizer *t)
{
    return t->model;
}

/* Returns the code point that represents a byte in tokens. */
uint32_t br__bpe_char(unsigned char byte);

enum { BR_MAX_MERGES_BYTES = 1 << 28 };

/* Makes a tokenizer, whose vocabulary must be complete, a byte-level BPE without merges. */
bool br__bpe_begin(br_tokenizer *t);
/* Adds a merge of two tokens. Sets *what to a description of the mistake if it is invalid, else to
 * NULL. Returns false if allocation fails. */
bool br__bpe_add_merge(br_tokenizer *t, br_text left, br_text right, int64_t rank,
                       const char **what);
/* Splits a line "left right" into its tokens. Returns NULL, or a description of the mistake. */
const char *br__bpe_split_merge(const char *line, size_t length, br_text *left, br_text *right);

#endif
