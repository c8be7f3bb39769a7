/* tokenizers/bpe_internal.h - byte-level BPE: classes of code points, and merges. */
#ifndef BR_BPE_INTERNAL_H
#define BR_BPE_INTERNAL_H

#include "tokenizers/bpe_merge.h"
#include "tokenizers/normal_forms.h"

/* The classes of code points in the pattern that splits a text. */
typedef enum br_bpe_class {
    BR_BPE_OTHER,
    BR_BPE_LETTER,
    BR_BPE_NUMBER,
    BR_BPE_SPACE,
} br_bpe_class;

extern const br_char_table br__bpe_chars;

/* The data of a byte-level BPE tokenizer besides its tokens. */
typedef struct br_bpe {
    br_form form;        /* the normalizer */
    bool prefix_space;   /* add a space to a text that does not begin with one */
    bool is_gpt4;        /* the pattern that splits a text is GPT-4's; else GPT-2's */
    int most_digits;     /* numbers of a word; GPT-2's: 1, or 0 for any number of them */
    bool ignores_merges; /* a word that is a token is not merged */
    br_merge_table merges;
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

enum { BR_MAX_MERGES_BYTES = 1 << 28 };

/* Returns whether a tokenizer normalizes and splits texts as Qwen's do. */
bool br__bpe_is_qwen(const br_tokenizer *t);
/* The same for GPT-NeoX's. */
bool br__bpe_is_neox(const br_tokenizer *t);
/* Makes a tokenizer, whose vocabulary must be complete, a byte-level BPE without merges. */
bool br__bpe_begin(br_tokenizer *t);
/* Adds a merge of two tokens. Sets *what to a description of the mistake if it is invalid, else to
 * NULL. Returns false if allocation fails. */
bool br__bpe_add_merge(br_tokenizer *t, br_text left, br_text right, int64_t rank,
                       const char **what);

#endif
