/* data/unigram_internal.h - SentencePiece's Unigram: pieces and their scores, how a text is
 * normalised and split before, in the two ways there are: that of the fast tokenizer, which
 * tokenizer.json tells, and SentencePiece's own. */
#ifndef BR_UNIGRAM_INTERNAL_H
#define BR_UNIGRAM_INTERNAL_H

#include "data/charsmap.h"

enum { BR_META = 0x2581 }; /* stands for a space in pieces */

/* ---- Pieces (data/unigram_trie.c) ------------------------------------------------------------ */

/* What follows a beginning of pieces: `count` nodes from `first` on, sorted by their code points.
 */
typedef struct br_piece_node {
    uint32_t c, first, count;
    int32_t id; /* of the piece that ends here; -1: none */
} br_piece_node;

/* The node 0 is the root. */
typedef struct br_piece_trie {
    br_piece_node *nodes;
    int64_t count, room;
} br_piece_trie;

/* Of the tokens 0 .. n-1, but those that are NULL; of equal ones the last counts. */
bool br__piece_trie_build(br_piece_trie *trie, const char *const *tokens, int64_t n);
/* The node behind a code point; NULL if no piece goes on with it. */
const br_piece_node *br__piece_trie_next(const br_piece_trie *trie, const br_piece_node *node,
                                         uint32_t c);

/* ---- The model ------------------------------------------------------------------------------- */

typedef enum br_piece_kind {
    BR_PIECE_NORMAL,
    BR_PIECE_SPECIAL, /* is not made of text that is split into its parts */
    BR_PIECE_USER,    /* stays as it is, and is taken wherever it is */
} br_piece_kind;

/* What one normalizer of tokenizer.json does. */
typedef enum br_step_kind {
    BR_STEP_CHARSMAP,
    BR_STEP_REPLACE,
    BR_STEP_REPLACE_RUNS, /* of two and more */
    BR_STEP_STRIP,
} br_step_kind;

enum { BR_MAX_STEPS = 8 };

typedef struct br_step {
    br_step_kind kind;
    char *pattern, *content; /* REPLACE */
    bool left, right;        /* STRIP */
} br_step;

typedef enum br_prepend {
    BR_PREPEND_ALWAYS,
    BR_PREPEND_FIRST, /* to the beginning of the text */
    BR_PREPEND_NEVER,
} br_prepend;

typedef struct br_unigram {
    bool sentencepiece; /* its own way; sums of scores are floats then */
    br_charsmap charsmap;

    int n_steps; /* the fast tokenizer's way */
    br_step steps[BR_MAX_STEPS];
    bool split_at_spaces; /* any white space, which is dropped */
    bool split_at_meta;
    br_prepend prepend;

    bool keep_spaces, no_dummy_prefix; /* SentencePiece's: extra spaces, none in front */

    br_piece_trie trie, user; /* user: pieces of that kind alone */
    int64_t size;             /* pieces, which are the first of the tokens */
    double *scores;           /* of each */
    uint8_t *kinds;           /* likewise, br_piece_kind */
    double unknown_score, most;
    bool byte_fallback;
    bool decode_bytes, drop_front; /* U+2581 of the first token is no space */
    int64_t byte_ids[256];         /* -1: none */
} br_unigram;

static inline br_unigram *br__unigram_of(const br_tokenizer *t)
{
    return t->model;
}

/* Makes a tokenizer one of this kind. */
br_unigram *br__unigram_begin(br_tokenizer *t);
/* Adds the next piece; the score must be finite. False if memory fails. */
bool br__unigram_add(br_tokenizer *t, const char *piece, size_t length, double score,
                     br_piece_kind kind);
/* Makes what is needed to encode, when all tokens are there; after br__tokenizer_index(). */
bool br__unigram_finish(br_tokenizer *t);

/* ---- Reading a text -------------------------------------------------------------------------- */

typedef struct br_char_list {
    br_char *items;
    int64_t count, room;
} br_char_list;

bool br__push_char(br_char_list *list, br_char c);
/* Code points of UTF-8 that all come from where `from` does. */
bool br__push_text(br_char_list *list, const char *text, const br_char *from);

/* The steps of tokenizer.json, one after the other; `spare` is used meanwhile. */
bool br__unigram_normalize(const br_unigram *u, br_char_list *text, br_char_list *spare);
/* SentencePiece's way, from one list to the other. */
bool br__sentencepiece_normalize(const br_unigram *u, const br_char_list *text, br_char_list *to);

#endif
