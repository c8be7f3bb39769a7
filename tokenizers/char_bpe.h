/* tokenizers/char_bpe.h - BPE over characters, with a token for each byte: Llama 2, TinyLlama,
 * Mistral and Gemma. */
#ifndef BR_CHAR_BPE_H
#define BR_CHAR_BPE_H

#include "tokenizers/bpe_merge.h"
#include "tokenizers/pieces.h"

enum { BR_CHAR_PAGES = BR_CHARS / BR_CHAR_PAGE, BR_JOIN_BITS = 20 };

/* The data of such a tokenizer besides its tokens. */
typedef struct br_char_bpe {
    bool prepends, replaces; /* the normalizer: U+2581 in front of a text, and for each space */
    bool metaspace;          /* the pre-tokenizer: U+2581 for each space, and in front ... */
    br_prepend prepend;      /* ... of these texts */
    bool split_at_meta;      /* each U+2581 begins a word */
    bool split_at_spaces;    /* each space ends a word */
    br_merge_table merges;
    br_piece_decoder decoder;
    int32_t *pages[BR_CHAR_PAGES]; /* ids of tokens of one code point, or -1; NULL: none */
    int64_t byte_ids[256];         /* of the tokens such as "<0xE4>" */
    /* The bit of a pair of code points is set if a merge joins the first one at the end of a token
     * with the second one at the beginning of the next token, and sometimes if none does. Elsewhere
     * a text can be cut: no merge crosses the cut. */
    uint8_t joins[(1 << BR_JOIN_BITS) / 8];
} br_char_bpe;

extern const br_tokenizer_kind br__char_bpe;

static inline br_char_bpe *br__char_bpe_of(const br_tokenizer *t)
{
    return t->model;
}

/* Makes a tokenizer, whose vocabulary must be complete, a BPE over characters without merges. Sets
 * *missing to the first byte without a token; -1: all have one. Returns false if allocation fails.
 */
bool br__char_bpe_begin(br_tokenizer *t, int *missing);
/* Adds a merge of two tokens. Sets *what to a description of the mistake if it is invalid, else to
 * NULL. Returns false if allocation fails. */
bool br__char_bpe_add_merge(br_tokenizer *t, br_text left, br_text right, int64_t rank,
                            const char **what);
/* Adds a merge of two tokens with these texts, whose ids are known. Returns false if allocation
 * fails. */
bool br__char_bpe_set_merge(br_tokenizer *t, br_merge merge, br_text left, br_text right);

#endif
