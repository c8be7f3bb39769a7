/* tokenizers/unigram_internal.h - SentencePiece's Unigram: pieces and their scores, and the
 * normalization and splitting that come first. There are two variants of the latter: Hugging Face's
 * fast tokenizer, configured by tokenizer.json, and SentencePiece's own. */
#ifndef BR_UNIGRAM_INTERNAL_H
#define BR_UNIGRAM_INTERNAL_H

#include "tokenizers/charsmap.h"
#include "tokenizers/normal_forms.h"
#include "tokenizers/pieces.h"

/* ---- Pieces (tokenizers/unigram_trie.c) ------------------------------------------------------ */

/* A prefix of pieces. Its children are the `count` nodes from `first` on, sorted by code point. */
typedef struct br_piece_node {
    uint32_t c, first, count;
    int32_t id; /* the piece that ends here, or -1 */
} br_piece_node;

/* Node 0 is the root. */
typedef struct br_piece_trie {
    br_piece_node *nodes;
    int64_t count, capacity;
    /* The root may have thousands of children, and each position of a text looks for one: indices
     * of nodes by code point. 0: there is none. */
    uint32_t *first;
    uint32_t n_first;
} br_piece_trie;

/* Builds a trie of the tokens 0 .. n-1 that are not NULL. The last of equal tokens wins. */
bool br__piece_trie_build(br_piece_trie *trie, const char *const *tokens, int64_t n);
void br__piece_trie_free(br_piece_trie *trie);
/* Returns the root's child for a code point, or NULL if there is none. */
static inline const br_piece_node *br__piece_trie_first(const br_piece_trie *trie, uint32_t c)
{
    uint32_t at = c < trie->n_first ? trie->first[c] : 0;
    return at ? &trie->nodes[at] : NULL;
}
/* Returns a node's child for a code point, or NULL if there is none. */
const br_piece_node *br__piece_trie_next(const br_piece_trie *trie, const br_piece_node *node,
                                         uint32_t c);

/* ---- The model ------------------------------------------------------------------------------- */

typedef enum br_piece_kind {
    BR_PIECE_NORMAL,
    BR_PIECE_SPECIAL, /* not made of text if split_special_tokens is set */
    BR_PIECE_USER,    /* user-defined: not normalized, and always kept whole */
} br_piece_kind;

/* A normalizer of tokenizer.json. */
typedef enum br_step_kind {
    BR_STEP_CHARSMAP,
    BR_STEP_REPLACE,
    BR_STEP_REPLACE_RUNS, /* runs of two or more */
    BR_STEP_STRIP,
    BR_STEP_FORM,
    BR_STEP_STRIP_ACCENTS,
    BR_STEP_LOWERCASE,
} br_step_kind;

enum { BR_MAX_STEPS = 8, BR_INERT_CHARS = 0x10000 };

typedef struct br_step {
    br_step_kind kind;
    char *pattern, *content; /* REPLACE */
    bool left, right;        /* STRIP */
    br_form form;            /* FORM */
} br_step;

typedef struct br_unigram {
    bool sentencepiece; /* SentencePiece's own variant, with sums of scores as floats */
    br_charsmap charsmap;

    int n_steps; /* the fast tokenizer's options */
    br_step steps[BR_MAX_STEPS];
    bool split_at_spaces; /* at any white space, which is dropped */
    bool split_at_meta;
    br_prepend prepend;
    bool spaces[256]; /* the ASCII characters that normalization makes white space, if alone */
    /* Bit c % 8 of inert[c / 8] is set if the map has no text that begins with c, and c joins no
     * other code point in a grapheme cluster. The map does not change a text of such code points.
     */
    uint8_t inert[BR_INERT_CHARS / 8];

    bool keep_spaces, no_dummy_prefix; /* SentencePiece's options; keep_spaces: extra ones, too */

    br_piece_trie trie, user; /* user: only BR_PIECE_USER */
    int64_t size;             /* number of pieces, which are the first tokens */
    double *scores;           /* one for each piece */
    uint8_t *kinds;           /* br_piece_kind, one for each piece */
    int32_t *same;            /* for each piece, the previous one with the same text, or -1 */
    double unknown_score, max_score;
    bool byte_fallback;
    bool decode_bytes, drop_front; /* drop_front: decoding drops U+2581 of the first token */
    int64_t byte_ids[256];         /* -1 if there is none */
} br_unigram;

static inline br_unigram *br__unigram_of(const br_tokenizer *t)
{
    return t->model;
}

/* Makes a tokenizer a Unigram one without pieces. Returns NULL if allocation fails. */
br_unigram *br__unigram_begin(br_tokenizer *t);
/* Adds the next piece. The score must be finite. Returns false if allocation fails. */
bool br__unigram_add(br_tokenizer *t, const char *piece, size_t length, double score,
                     br_piece_kind kind);
/* Builds the data for encoding. Call it after br__tokenizer_index(), when all tokens were added. */
bool br__unigram_finish(br_tokenizer *t);
/* Does what must be done again when br__tokenizer_index() is called again. */
void br__unigram_mark(br_tokenizer *t);

/* ---- Reading a text -------------------------------------------------------------------------- */

/* Applies the steps of tokenizer.json to `text`. `spare` is a work buffer. */
bool br__unigram_normalize(const br_unigram *u, br_char_list *text, br_char_list *spare);
/* Returns whether the steps normalize text between two of u->spaces, each of which is a grapheme
 * cluster, independently of other text, except that they may drop white space. */
bool br__unigram_keeps_words(const br_unigram *u);
/* Sets u->spaces and u->inert. */
void br__unigram_classify(br_unigram *u);
/* Normalizes `text` like SentencePiece and stores the result in `to`. */
bool br__sentencepiece_normalize(const br_unigram *u, const br_char_list *text, br_char_list *to);

#endif
