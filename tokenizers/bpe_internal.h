/* tokenizers/bpe_internal.h - byte-level BPE: classes of code points, and merges. */
#ifndef BR_BPE_INTERNAL_H
#define BR_BPE_INTERNAL_H

#include "tokenizers/normal_forms.h"

/* The classes of code points in the pattern that splits a text. */
typedef enum br_bpe_class {
    BR_BPE_OTHER,
    BR_BPE_LETTER,
    BR_BPE_NUMBER,
    BR_BPE_SPACE,
} br_bpe_class;

extern const br_char_table br__bpe_chars;

/* A pair of tokens that are merged to the token `id`. The merge with the lowest rank in a word
 * comes first. */
typedef struct br_merge {
    int32_t left, right, id, rank;
} br_merge;

/* The data of a byte-level BPE tokenizer besides its tokens. */
typedef struct br_bpe {
    br_form form;        /* the normalizer */
    bool prefix_space;   /* add a space to a text that does not begin with one */
    bool is_gpt4;        /* the pattern that splits a text is GPT-4's; else GPT-2's */
    int most_digits;     /* numbers of a word; GPT-2's: 1, or 0 for any number of them */
    bool ignores_merges; /* a word that is a token is not merged */
    br_merge *merges;    /* an open-addressing table; at most half is in use */
    uint64_t merge_mask; /* number of its places - 1, which are a power of two */
    int64_t n_merges;
    int64_t byte_ids[256]; /* -1: the vocabulary has no token for the byte */
    uint8_t classes[128];  /* br_bpe_class of each ASCII character */
    /* joins[a][b / 8] has bit b % 8 if a merge joins the byte a at the end of a token with b at the
     * beginning of the next one. Elsewhere a word can be cut: no merge crosses the cut. */
    uint8_t joins[256][256 / 8];
} br_bpe;

static inline br_bpe *br__bpe_of(const br_tokenizer *t)
{
    return t->model;
}

/* Returns the code point that represents a byte in tokens. */
uint32_t br__bpe_char(unsigned char byte);
/* Returns the byte that a code point represents, or -1. */
int br__bpe_byte(uint32_t c);

/* Implements br_tokenizer_kind.decode. */
char *br__bpe_decode(const br_tokenizer *t, int64_t n, const int64_t *ids, bool skip_special,
                     int64_t *length);

/* Returns the place of a pair of tokens in the table, or the free place, whose `left` is -1, where
 * it must be inserted. */
static inline br_merge *br__bpe_place(const br_bpe *bpe, int32_t left, int32_t right)
{
    const uint64_t odd = 0x9e3779b97f4a7c15;
    uint64_t hash = ((uint64_t)left << 32 | (uint32_t)right) * odd;
    hash = (hash ^ hash >> 32) * odd;
    for (uint64_t at = hash >> 32;; at++) {
        br_merge *m = &bpe->merges[at & bpe->merge_mask];
        if (m->left < 0 || (m->left == left && m->right == right))
            return m;
    }
}

enum { BR_MAX_MERGES_BYTES = 1 << 28 };

/* Returns whether a tokenizer normalizes and splits texts as Qwen's do. */
bool br__bpe_is_qwen(const br_tokenizer *t);
/* Makes a tokenizer, whose vocabulary must be complete, a byte-level BPE without merges. */
bool br__bpe_begin(br_tokenizer *t);
/* Adds a merge of two tokens. Sets *what to a description of the mistake if it is invalid, else to
 * NULL. Returns false if allocation fails. */
bool br__bpe_add_merge(br_tokenizer *t, br_text left, br_text right, int64_t rank,
                       const char **what);
/* Splits a line "left right" into its tokens. Returns NULL, or a description of the mistake. */
const char *br__bpe_split_merge(const char *line, size_t length, br_text *left, br_text *right);

#endif
