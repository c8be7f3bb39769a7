/* data/grapheme.h - grapheme clusters, what readers take for one character, by the rules of Unicode
 * (UAX #29, extended clusters) and the versions of the tokenizer that is followed. */
#ifndef BR_GRAPHEME_H
#define BR_GRAPHEME_H

#include "data/char_table.h"

#include <stdbool.h>

/* A text's code points so far, as far as they tell whether the next one goes on with a cluster. */
typedef struct br_graphemes {
    bool begun;
    uint32_t last;
    unsigned last_flags;
    int picture;  /* 1 behind a picture and what stays with it, 2 behind a joiner there */
    int conjunct; /* 1 behind a consonant, 2 behind a linker after one */
    bool odd;     /* of regional indicators in a row */
} br_graphemes;

/* Takes a code point; true if it is of the same cluster as the one before. Zeroed at first. */
bool br__grapheme_goes_on(br_graphemes *g, uint32_t c);

/* Not of Hangul's syllables. */
extern const br_char_table br__grapheme_chars;

#endif
