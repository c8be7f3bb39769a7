/* tokenizers/charsmap.h - SentencePiece's precompiled_charsmap, a map of strings to strings that
 * normalizes texts. */
#ifndef BR_CHARSMAP_H
#define BR_CHARSMAP_H

#include "tokenizers/tokenizer_internal.h"

/* A double-array trie over bytes. Its leaves are indices into `texts`. */
typedef struct br_charsmap {
    uint32_t *units;
    size_t n;    /* number of units; 0 if nothing is replaced */
    char *texts; /* each ends with a NUL */
    size_t n_texts;
} br_charsmap;

/* Reads and checks the packed form. Sets *what to a description of the mistake if it is invalid,
 * else to NULL. Returns false if allocation fails. The caller frees the map in any case. */
bool br__charsmap_read(br_charsmap *m, const uint8_t *bytes, size_t n, const char **what);
/* Does the same for base64. */
bool br__charsmap_read_base64(br_charsmap *m, const char *text, size_t n, const char **what);
void br__charsmap_free(br_charsmap *m);
/* Finds the shortest or the longest prefix of `count` code points that is in the map. Returns its
 * replacement, and its number of code points in *used; NULL if there is none. */
const char *br__charsmap_find(const br_charsmap *m, const br_char *chars, int64_t count,
                              bool longest, int64_t *used);

#endif
