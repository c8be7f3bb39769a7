/* tokenizers/bpe_split.h - splits a text into the words of byte-level BPE; part of bpe.c.
 *
 * The patterns of GPT-2 and GPT-4 are, as regular expressions,
 *
 *     's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
 *     (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*
 *         |\s*[\r\n]+|\s+(?!\S)|\s+
 *
 * Written out, they take a fifth of the time of a regular expression. */
#ifndef BR_BPE_SPLIT_H
#define BR_BPE_SPLIT_H

#include "tokenizers/bpe_internal.h"

#include <string.h>

/* Returns whether "Digits" takes a code point for a number, but \p{N} does not: `tokenizers` has
 * the first from Unicode 17, and the second from an older version. */
static inline bool is_new_digit(uint32_t c)
{
    return (c >= 0x11de0 && c <= 0x11de9) || (c >= 0x16ff4 && c <= 0x16ff6);
}

/* Reads a code point, or an invalid part, and its class. Returns its length. */
static inline int read_class(const br_bpe *bpe, const char *p, const char *end, br_bpe_class *class,
                             bool *valid)
{
    uint32_t c = (unsigned char)*p;
    if (c < 128) { /* the usual case, without a call */
        *valid = true;
        *class = bpe->classes[c];
        return 1;
    }
    int length = br__char_read(p, end, &c, valid);
    *class = (br_bpe_class)br__bits_of_char(&br__bpe_chars, c);
    if (bpe->most_digits == 1 && !bpe->is_gpt4 && is_new_digit(c))
        *class = BR_BPE_NUMBER;
    return length;
}

/* ---- Words ----------------------------------------------------------------------------------- */

/* A text that is split into words. */
typedef struct splitter {
    const br_bpe *bpe;
    const char *end; /* of the text */
    bool valid;      /* no invalid part was met so far */
} splitter;

static inline br_place next_place(splitter *s, br_place at, br_bpe_class *class)
{
    bool valid;
    int length = read_class(s->bpe, at.p, s->end, class, &valid);
    s->valid &= valid;
    return (br_place){ at.p + length, at.index + 1 };
}

/* Skips all code points of a class and returns the place after them. Sets *last to the last of
 * them, or to `at` if there are none. */
static inline br_place skip(splitter *s, br_place at, br_bpe_class class, br_place *last)
{
    br_bpe_class is;
    *last = at;
    while (at.p < s->end) {
        br_place next = next_place(s, at, &is);
        if (is != class)
            break;
        *last = at;
        at = next;
    }
    return at;
}

/* Returns the length of the 's, 'd, 'm, 't, 'll, 've or 're at p, or 0 if there is none. */
static inline int contraction(const char *p, const char *end)
{
    if (*p != '\'' || end - p < 2)
        return 0;
    if (memchr("sdmt", p[1], 4))
        return 2;
    if (end - p < 3)
        return 0;
    bool two =
        memcmp(p + 1, "ll", 2) == 0 || memcmp(p + 1, "ve", 2) == 0 || memcmp(p + 1, "re", 2) == 0;
    return two ? 3 : 0;
}

/* Returns the class of the code point at `at`, or BR_BPE_SPACE at the end of the text. */
static inline br_bpe_class class_at(splitter *s, br_place at)
{
    br_bpe_class class = BR_BPE_SPACE;
    if (at.p < s->end)
        next_place(s, at, &class);
    return class;
}

/* Returns the end of a run of white space up to `over`, whose last code point is at `last`. At the
 * end of the text all of it is one word. Before another word, the last code point is left out,
 * because it may belong to that word. */
static inline br_place space_end(const splitter *s, br_place at, br_place over, br_place last)
{
    return over.p == s->end || last.p == at.p ? over : last;
}

/* ---- GPT-2 ----------------------------------------------------------------------------------- */

/* Returns the end of the word that begins at `at`. `spaced` means that a space which is not in the
 * text precedes it. With one_digit, texts are first split before and after each number. */
static inline br_place gpt2_word_end(splitter *s, br_place at, bool spaced)
{
    bool one_digit = s->bpe->most_digits == 1;
    int n = spaced ? 0 : contraction(at.p, s->end);
    if (n > 0)
        return (br_place){ at.p + n, at.index + n };
    br_place first = at, last;
    if (!spaced && *at.p == ' ')
        first = (br_place){ at.p + 1, at.index + 1 };
    br_bpe_class class = class_at(s, first);
    if (one_digit && class == BR_BPE_NUMBER)
        return first.p == at.p ? next_place(s, at, &class) : first;
    if (class != BR_BPE_SPACE)
        return skip(s, first, class, &last);
    br_place over = skip(s, at, BR_BPE_SPACE, &last);
    if (one_digit && over.p < s->end && class_at(s, over) == BR_BPE_NUMBER)
        return over;
    return spaced && over.p < s->end ? last : space_end(s, at, over, last);
}

/* ---- GPT-4 ----------------------------------------------------------------------------------- */

/* Returns the length of a contraction at p in upper or lower case, or 0 if there is none. The long
 * s is an s in another case, and has two bytes. */
static inline int folded_contraction(const char *p, const char *end, int *chars)
{
    char lower[3] = { 0 };
    for (int i = 0; i < 3 && i < end - p; i++)
        lower[i] = (char)(p[i] >= 'A' && p[i] <= 'Z' ? p[i] | 0x20 : p[i]);
    if (*p == '\'' && end - p > 2 && memcmp(p + 1, "\xc5\xbf", 2) == 0) {
        *chars = 2;
        return 3;
    }
    *chars = contraction(lower, lower + (end - p < 3 ? end - p : 3));
    return *chars;
}

static inline bool is_newline(char c)
{
    return c == '\r' || c == '\n';
}

/* Returns the end of the newlines at `at`. */
static inline br_place newlines_end(const splitter *s, br_place at)
{
    for (; at.p < s->end && is_newline(*at.p); at.p++)
        at.index++;
    return at;
}

/* Returns the end of white space: after its last newline, or as in GPT-2's pattern. */
static inline br_place gpt4_space_end(splitter *s, br_place at)
{
    br_place last = at, over = at, newline = at;
    while (over.p < s->end && class_at(s, over) == BR_BPE_SPACE) {
        br_bpe_class class;
        last = over;
        over = next_place(s, over, &class);
        if (is_newline(*last.p))
            newline = over;
    }
    return newline.p > at.p ? newline : space_end(s, at, over, last);
}

/* Returns the end of the word that begins at `at`. */
static inline br_place gpt4_word_end(splitter *s, br_place at)
{
    br_bpe_class class;
    br_place last, next = next_place(s, at, &class);
    int chars, n = folded_contraction(at.p, s->end, &chars);
    if (n > 0)
        return (br_place){ at.p + n, at.index + chars };
    if (class == BR_BPE_NUMBER) {
        for (int i = 1; i < s->bpe->most_digits && class_at(s, next) == BR_BPE_NUMBER; i++)
            next = next_place(s, next, &class);
        return next;
    }
    if (class == BR_BPE_LETTER || (!is_newline(*at.p) && class_at(s, next) == BR_BPE_LETTER))
        return skip(s, next, BR_BPE_LETTER, &last);
    br_place first = *at.p == ' ' ? next : at;
    if (class_at(s, first) == BR_BPE_OTHER)
        return newlines_end(s, skip(s, first, BR_BPE_OTHER, &last));
    return gpt4_space_end(s, at);
}

static inline br_place word_end(splitter *s, br_place at, bool spaced)
{
    return s->bpe->is_gpt4 ? gpt4_word_end(s, at) : gpt2_word_end(s, at, spaced);
}

#endif
