/* tokenizers/grapheme.c - boundaries of grapheme clusters. */
#include "tokenizers/grapheme.h"

/* The flags of a code point, as determined by make_grapheme_chars.py. */
enum {
    CONTROL = 1,       /* always a cluster of its own */
    PREPEND = 2,       /* joins the next code point */
    PICTURE = 4,       /* Extended_Pictographic: ZWJ joins two of them */
    IN_PICTURE = 8,    /* may stand between a picture and ZWJ */
    BEFORE_V = 16,     /* joins a following Hangul vowel: leading consonants and vowels do */
    BEFORE_T = 32,     /* joins a following trailing consonant: vowels and trailing consonants do */
    CONSONANT = 64,    /* a linker joins two of them */
    LINKER = 128,      /* follows a consonant */
    IN_CONJUNCT = 256, /* may stand beside the linker */
    JOINS = 512,       /* joins the previous code point */
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

/* Returns true if two code points of Hangul join. A leading consonant joins leading consonants,
 * vowels and syllables. The others join vowels and trailing consonants according to their flags. */
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

bool br__graphemes_join(uint32_t a, uint32_t b)
{
    br_graphemes g = { 0 };
    br__grapheme_goes_on(&g, a);
    return br__grapheme_goes_on(&g, b);
}

bool br__grapheme_stands_alone(uint32_t c)
{
    return flags_of(c) == 0 && !is_regional(c);
}
