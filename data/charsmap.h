/* data/charsmap.h - SentencePiece's precompiled map of strings to strings, by which texts are
 * normalised. */
#ifndef BR_CHARSMAP_H
#define BR_CHARSMAP_H

#include "data/tokenizer_internal.h"

/* A code point of a normalised text, and where in the text it comes from. */
typedef struct br_char {
    uint32_t c;
    br_span bytes, chars;
} br_char;

/* A trie over bytes, as two arrays in one, whose leaves are places in a list of texts. */
typedef struct br_charsmap {
    uint32_t *units;
    size_t n;    /* of them; 0: nothing is replaced */
    char *texts; /* each ends with 0 */
    size_t n_texts;
} br_charsmap;

/* Reads the packed form, which is checked. In *what is said what is wrong with it; NULL: nothing.
 * False if memory fails. The caller frees the map in any case. */
bool br__charsmap_read(br_charsmap *m, const uint8_t *bytes, size_t n, const char **what);
/* The same of base64. */
bool br__charsmap_read_base64(br_charsmap *m, const char *text, size_t n, const char **what);
void br__charsmap_free(br_charsmap *m);
/* What the shortest or the longest beginning of `count` code points that the map knows becomes, and
 * its number of code points; NULL if it knows none. */
const char *br__charsmap_find(const br_charsmap *m, const br_char *chars, int64_t count,
                              bool longest, int64_t *used);

#endif
