/* tokenizers/grapheme.h - extended grapheme clusters (UAX #29), with the Unicode version of Hugging
 * Face's fast tokenizer. */
#ifndef BR_GRAPHEME_H
#define BR_GRAPHEME_H

#include "tokenizers/char_table.h"

#include <stdbool.h>

/* The state that decides whether the next code point continues the cluster. */
typedef struct br_graphemes {
    bool begun;
    uint32_t last;
    unsigned last_flags;
    int picture;  /* 1 after a picture and its extenders, 2 after a following ZWJ */
    int conjunct; /* 1 after a consonant, 2 after a following linker */
    bool odd;     /* an odd number of regional indicators in a row */
} br_graphemes;

/* Adds a code point. Returns true if it is in the same cluster as the previous one. *g must be
 * zeroed before the first call. */
bool br__grapheme_goes_on(br_graphemes *g, uint32_t c);

/* Returns whether b may be in the same cluster as a before it, if a begins the text. */
bool br__graphemes_join(uint32_t a, uint32_t b);

/* Returns whether c is always a cluster of its own, except beside a code point that joins any. */
bool br__grapheme_stands_alone(uint32_t c);

/* The flags of all code points except Hangul syllables, whose flags are computed. */
extern const br_char_table br__grapheme_chars;

#endif
