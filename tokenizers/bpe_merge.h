/* tokenizers/bpe_merge.h - the merges of BPE, whether its symbols are bytes or code points: the
 * table of merges, and the merging of a word.
 *
 * A heap holds the candidates, so a word of n symbols takes O(n log n) time. */
#ifndef BR_BPE_MERGE_H
#define BR_BPE_MERGE_H

#include "tokenizers/tokenizer_internal.h"

/* ---- The table ------------------------------------------------------------------------------- */

/* A pair of tokens that are merged to the token `id`. The merge with the lowest rank in a word
 * comes first. */
typedef struct br_merge {
    int32_t left, right, id, rank;
} br_merge;

typedef struct br_merge_table {
    br_merge *merges; /* open addressing; at most half is in use */
    uint64_t mask;    /* number of places - 1, which are a power of two */
    int64_t count;
} br_merge_table;

/* Makes an empty table. Returns false if allocation fails. */
bool br__merges_begin(br_merge_table *table);
/* Adds a merge. If the pair has one already, the new one replaces it. Returns false if allocation
 * fails. */
bool br__merges_set(br_merge_table *table, br_merge merge);
/* Returns the merge of two tokens, or NULL if there is none. */
const br_merge *br__merges_find(const br_merge_table *table, int64_t left, int64_t right);

/* Looks up the merge of two tokens of the vocabulary. Sets *what to a description of the mistake if
 * it is invalid, else to NULL. Returns false if allocation fails. */
bool br__merge_of_texts(const br_tokenizer *t, br_text left, br_text right, int64_t rank,
                        br_merge *merge, const char **what);
/* Splits a line "left right" into its tokens. Returns NULL, or a description of the mistake. */
const char *br__split_merge(const char *line, size_t length, br_text *left, br_text *right);

/* ---- A word ---------------------------------------------------------------------------------- */

/* A node in the linked list of a word's tokens. Merging removes the right one of two nodes. */
typedef struct br_symbol {
    int64_t id; /* -1 if removed */
    int64_t previous, next;
    br_span bytes, chars;
} br_symbol;

/* A possible merge of the symbol `at` with the next one to the token `id`. */
typedef struct br_candidate {
    int64_t rank, at, id;
} br_candidate;

typedef struct br_merger {
    const br_merge_table *table;
    br_symbol *symbols; /* of the current word */
    int64_t n_symbols, symbol_capacity;
    br_candidate *heap; /* binary heap; the first one is merged next */
    int64_t n_heap, heap_capacity;
} br_merger;

/* Appends a symbol to the word. Returns false if allocation fails. */
static inline bool br__merger_push(br_merger *m, int64_t id, br_span bytes, br_span chars)
{
    br_symbol *symbols =
        br__grow_tokens(m->symbols, &m->symbol_capacity, m->n_symbols, sizeof *symbols);
    if (!symbols)
        return false;
    m->symbols = symbols;
    int64_t i = m->n_symbols++;
    symbols[i] =
        (br_symbol){ .id = id, .previous = i - 1, .next = -1, .bytes = bytes, .chars = chars };
    if (i > 0)
        symbols[i - 1].next = i;
    return true;
}

/* Merges the word's symbols, appends them to the list as tokens of this word, and begins the next
 * word. Returns false if allocation fails. */
bool br__merger_end_word(br_merger *m, br_token_list *list, int64_t word);
void br__merger_free(br_merger *m);

#endif
