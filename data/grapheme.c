/* data/grapheme.c - grapheme clusters: where one ends. */
#include "data/grapheme.h"

/* What make_grapheme_chars.py found out about a code point. */
enum {
    CONTROL = 1,       /* is alone */
    PREPEND = 2,       /* joins what follows */
    PICTURE = 4,       /* a joiner joins it with another */
    IN_PICTURE = 8,    /* may stand between a picture and the joiner */
    BEFORE_V = 16,     /* joins vowels of Hangul: its leading consonants, and vowels */
    BEFORE_T = 32,     /* joins trailing consonants: vowels, and trailing consonants */
    CONSONANT = 64,    /* a linker joins it with another */
    LINKER = 128,      /* follows a consonant */
    IN_CONJUNCT = 256, /* may stand beside the linker */
    JOINS = 512,       /* goes with what is before it */
};

enum { JOINER = 0x200d, FIRST_SYLLABLE = 0xac00, LAST_SYLLABLE = 0xd7a3, TRAILING = 28 };

static bool is_syllable(uint32_t c)
{
    return c >= FIRST_SYLLABLE && c <= LAST_SYLLABLE;
}

static unsigned flags_of(uint32_t c)
{
    if (is_syllable(c))
        return (c - FIRST_SYLLABLE) % TRAILING ? BEFORE_T : BEFORE_V | BEFORE_T;
    return br__bits_of_char(&br__grapheme_chars, c);
}

/* Letters of Hangul: leading ones join leading ones, vowels and syllables; those join vowels and
 * trailing ones as their flags say. */
static bool joins_hangul(unsigned last, uint32_t c, unsigned flags)
{
    unsigned hangul = flags & (BEFORE_V | BEFORE_T);
    bool leading = hangul == BEFORE_V, vowel = hangul == (BEFORE_V | BEFORE_T);
    if ((last & (BEFORE_V | BEFORE_T)) == BEFORE_V)
        return leading || vowel || is_syllable(c);
    if (is_syllable(c) || hangul == 0 || leading)
        return false;
    return last & (vowel ? BEFORE_V : BEFORE_T);
}

static bool is_regional(uint32_t c)
{
    return c >= 0x1f1e6 && c <= 0x1f1ff;
}

static bool joins(const br_graphemes *g, uint32_t c, unsigned flags)
{
    if (!g->begun)
        return false;
    if (g->last == '\r' && c == '\n')
        return true;
    if ((g->last_flags | flags) & CONTROL)
        return false;
    return (flags & JOINS) || (g->last_flags & PREPEND) || joins_hangul(g->last_flags, c, flags) ||
           (g->conjunct == 2 && (flags & CONSONANT)) || (g->picture == 2 && (flags & PICTURE)) ||
           (g->odd && is_regional(c));
}

bool br__grapheme_goes_on(br_graphemes *g, uint32_t c)
{
    unsigned flags = flags_of(c);
    bool goes_on = joins(g, c, flags);
    int picture = flags & PICTURE                         ? 1
                  : g->picture == 1 && c == JOINER        ? 2
                  : g->picture == 1 && flags & IN_PICTURE ? 1
                                                          : 0;
    int conjunct = flags & CONSONANT               ? 1
                   : g->conjunct && flags & LINKER ? 2
                   : flags & IN_CONJUNCT           ? g->conjunct
                                                   : 0;
    *g = (br_graphemes){ .begun = true,
                         .last = c,
                         .last_flags = flags,
                         .picture = picture,
                         .conjunct = conjunct,
                         .odd = is_regional(c) && !g->odd };
    return goes_on;
}
