/* data/bpe_internal.h - byte-level BPE: classes of code points, merges, and the stretch of text to
 * tokens. */
#ifndef BR_BPE_INTERNAL_H
#define BR_BPE_INTERNAL_H

#include "data/tokenizer_internal.h"

/* What the pattern that splits a text tells apart. */
typedef enum br_bpe_class {
    BR_BPE_OTHER,
    BR_BPE_LETTER,
    BR_BPE_NUMBER,
    BR_BPE_SPACE,
} br_bpe_class;

extern const br_char_table br__bpe_chars;

/* What a pair of tokens becomes; of those in a word the one of the least rank is merged first. */
typedef struct br_merge {
    int64_t rank, id;
} br_merge;

/* What a tokenizer of this kind has besides its tokens. */
typedef struct br_bpe {
    bool prefix_space; /* a text that does not begin with a space gets one */
    bool trim_offsets; /* offsets leave out the spaces around a token ... */
    bool trim_first;   /* ... also the one space that the first token begins with */
    br_vocab *pairs;   /* two uint32_t ids each */
    br_merge *merges;  /* of each pair */
    int64_t merge_room;
    int64_t byte_ids[256]; /* -1: the vocabulary has no token for the byte */
} br_bpe;

static inline br_bpe *br__bpe_of(const br_tokenizer *t)
{
    return t->model;
}

/* The code point that stands for a byte in tokens. */
uint32_t br__bpe_char(unsigned char byte);

enum { BR_MAX_MERGES_BYTES = 1 << 28 };

/* Makes of a tokenizer that has its vocabulary one of this kind, without merges. */
bool br__bpe_begin(br_tokenizer *t);
/* Tokens that become one. In *what is said what is wrong with them; NULL: nothing. False if memory
 * fails. */
bool br__bpe_add_merge(br_tokenizer *t, br_text left, br_text right, int64_t rank,
                       const char **what);
/* The two tokens of "left right"; or what is wrong with that. */
const char *br__bpe_split_merge(const char *line, size_t length, br_text *left, br_text *right);

#endif
