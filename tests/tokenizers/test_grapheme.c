/* tests/tokenizers/test_grapheme.c - grapheme clusters: examples of each rule. */
#include "tests/support.h"
#include "tokenizers/grapheme.h"

#include <uchar.h>

/* `|` separates the clusters. */
static const char32_t *const texts[] = {
    U"a|b|\r\n|\n|\r|a",        /* line ends */
    U"e\u0301\u0308|\t|\u0301", /* accents, which do not extend a control character */
    U"w\u0307|x\u0307|x\u0308\u0301|x|y\u0307|K\u0307|k\u0307", /* letters that the table's
                                                                   generator uses */
    U"\u0915\u0903|\u0600a|\u0600|\n",                /* a spacing mark; a prepended mark */
    U"\u1100\u1100\u1161\u11a8|\u1100|a",             /* Hangul jamo */
    U"\u1100\uac00\u11a8|\uac01\u11a8|\uac01|\u1161", /* Hangul syllables */
    U"\U0001f1e6\U0001f1fa|\U0001f1e6",               /* flags */
    U"\U0001f468\U0001f3fb\u200d\U0001f469|\U0001f468|a\u200d|\u00a9", /* joined pictographs */
    U"\u0915\u094d\u200d\u0924|\u0915|\u0924\u094d|a",                 /* linked consonants */
    U"a\u094d|\u0915\u094d\u0924", /* a linker after another letter links nothing */
};

Test(grapheme, rules)
{
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        br_graphemes g = { 0 };
        bool begins = true;
        for (const char32_t *p = texts[i]; *p; p++) {
            if (*p == U'|') {
                begins = true;
                continue;
            }
            cr_assert_eq(br__grapheme_goes_on(&g, *p), !begins, "text %zu, U+%04X", i,
                         (unsigned)*p);
            begins = false;
        }
    }
}
