/* tokenizers/unigram_normalize.c - the normalization of tokenizer.json, with the offsets of each
 * code point as in Hugging Face's fast tokenizer.
 *
 * Two of its behaviors are unexpected but reproduced here. SentencePiece's map is applied to
 * grapheme clusters of up to five bytes, where the replacement of the shortest known prefix
 * replaces the whole cluster. And the offsets shift after code points that are removed at the
 * beginning. */
#include "tokenizers/grapheme.h"
#include "tokenizers/unigram_internal.h"

#include <string.h>

static void swap(br_char_list *a, br_char_list *b)
{
    br_char_list c = *a;
    *a = *b;
    *b = c;
}

/* ---- The map --------------------------------------------------------------------------------- */

/* Appends `text`, which replaces `old` code points. */
static bool replace(br_char_list *to, int64_t old, const char *text)
{
    int64_t n = 0;
    for (const char *p = text, *end = text + strlen(text); p < end; n++) {
        uint32_t c;
        bool valid;
        p += br__char_read(p, end, &c, &valid);
        if (!br__change_char(to, c, n < old ? 0 : 1))
            return false;
    }
    if (n < old && to->count > 0)
        to->items[to->count - 1].bytes.begin -= old - n;
    return true;
}

static int64_t cluster_end(const br_char_list *text, int64_t at, int *bytes)
{
    br_graphemes g = { 0 };
    char utf8[4];
    *bytes = 0;
    int64_t i = at;
    for (; i < text->count && (br__grapheme_goes_on(&g, text->items[i].c) || i == at); i++)
        *bytes += *bytes < 6 ? br__char_write(text->items[i].c, utf8) : 0;
    return i;
}

static bool map_cluster(const br_charsmap *m, const br_char *chars, int64_t n, int bytes,
                        br_char_list *to)
{
    int64_t used;
    const char *text = bytes < 6 ? br__charsmap_find(m, chars, n, false, &used) : NULL;
    if (text)
        return replace(to, n, text);
    for (int64_t i = 0; i < n; i++) {
        text = br__charsmap_find(m, chars + i, 1, false, &used);
        if (text ? !replace(to, 1, text) : !br__change_char(to, chars[i].c, 0))
            return false;
    }
    return true;
}

static bool is_inert(const br_unigram *u, uint32_t c)
{
    return c < BR_INERT_CHARS && u->inert[c / 8] >> c % 8 & 1;
}

static bool apply_map(const br_charsmap *m, const br_char_list *text, br_char_list *to)
{
    for (int64_t i = 0; i < text->count;) {
        int bytes;
        int64_t end = cluster_end(text, i, &bytes);
        if (!map_cluster(m, text->items + i, end - i, bytes, to))
            return false;
        i = end;
    }
    br__place_chars(text, to);
    return true;
}

/* ---- Other steps ----------------------------------------------------------------------------- */

/* Returns the number of code points of the pattern if the text matches it at `at`, else 0. */
static int64_t matches(const br_char_list *text, int64_t at, const char *pattern)
{
    int64_t i = at;
    for (const char *p = pattern, *end = pattern + strlen(pattern); p < end; i++) {
        uint32_t c;
        bool valid;
        p += br__char_read(p, end, &c, &valid);
        if (i == text->count || text->items[i].c != c)
            return 0;
    }
    return i - at;
}

/* Replaces all matches of the step's pattern. A replacement has the offsets of the last replaced
 * code point. */
static bool replace_all(const br_step *s, const br_char_list *text, br_char_list *to)
{
    for (int64_t i = 0; i < text->count;) {
        int64_t n = matches(text, i, s->pattern), m = n, times = n > 0;
        while (s->kind == BR_STEP_REPLACE_RUNS && m > 0 &&
               (m = matches(text, i + n, s->pattern)) > 0) {
            n += m;
            times++;
        }
        bool found = s->kind == BR_STEP_REPLACE ? times > 0 : times > 1;
        if (found ? !br__push_text(to, s->content, &text->items[i + n - 1])
                  : !br__push_char(to, text->items[i]))
            return false;
        i += found ? n : 1;
    }
    return true;
}

static bool strip(const br_step *s, const br_char_list *text, br_char_list *to)
{
    int64_t begin = 0, end = text->count;
    while (s->left && begin < end && br__is_white(text->items[begin].c))
        begin++;
    while (s->right && end > begin && br__is_white(text->items[end - 1].c))
        end--;
    for (int64_t i = begin; i < end; i++)
        if (!br__push_char(to, text->items[i]))
            return false;
    return true;
}

/* Returns whether a step keeps the text, as far as that is known from its code points alone. */
static bool is_kept(const br_unigram *u, const br_step *s, const br_char_list *text)
{
    if (s->kind != BR_STEP_CHARSMAP && s->kind != BR_STEP_FORM)
        return false;
    for (int64_t i = 0; i < text->count; i++) {
        uint32_t c = text->items[i].c;
        if (!(s->kind == BR_STEP_FORM ? br__form_keeps(s->form, c) : is_inert(u, c)))
            return false;
    }
    return true;
}

static bool apply(const br_unigram *u, const br_step *s, const br_char_list *text, br_char_list *to)
{
    switch (s->kind) {
    case BR_STEP_CHARSMAP:
        return apply_map(&u->charsmap, text, to);
    case BR_STEP_STRIP:
        return strip(s, text, to);
    case BR_STEP_FORM:
        return br__apply_form(s->form, text, to);
    case BR_STEP_STRIP_ACCENTS:
        return br__strip_accents(text, to);
    case BR_STEP_LOWERCASE:
        return br__lower_chars(text, to);
    default:
        return replace_all(s, text, to);
    }
}

bool br__unigram_normalize(const br_unigram *u, br_char_list *text, br_char_list *spare)
{
    for (int i = 0; i < u->n_steps; i++) {
        const br_step *s = &u->steps[i];
        if (is_kept(u, s, text))
            continue;
        spare->count = 0;
        if (!apply(u, s, text, spare))
            return false;
        swap(text, spare);
    }
    return true;
}

/* ---- Words ----------------------------------------------------------------------------------- */

static bool is_all_white(const char *text)
{
    for (const char *p = text, *end = text + strlen(text); p < end;) {
        uint32_t c;
        bool valid;
        p += br__char_read(p, end, &c, &valid);
        if (!br__is_white(c))
            return false;
    }
    return *text;
}

bool br__unigram_keeps_words(const br_unigram *u)
{
    for (int i = 0; i < u->n_steps; i++) {
        const br_step *s = &u->steps[i];
        bool drops_spaces =
            s->kind == BR_STEP_STRIP || (s->kind == BR_STEP_REPLACE_RUNS &&
                                         is_all_white(s->pattern) && is_all_white(s->content));
        if (!drops_spaces && !(s->kind == BR_STEP_CHARSMAP && i == 0))
            return false;
    }
    return true;
}

static const char *mapped(const br_unigram *u, uint32_t c)
{
    int64_t used;
    return br__charsmap_find(&u->charsmap, &(br_char){ .c = c }, 1, false, &used);
}

void br__unigram_classify(br_unigram *u)
{
    bool maps = u->n_steps > 0 && u->steps[0].kind == BR_STEP_CHARSMAP;
    for (const char *c = " \t\n"; *c; c++) {
        const char *text = maps ? mapped(u, (unsigned char)*c) : NULL;
        u->spaces[(unsigned char)*c] = !text || is_all_white(text);
    }
    for (uint32_t c = 0; c < BR_INERT_CHARS; c++)
        if (br__grapheme_stands_alone(c) && !mapped(u, c))
            u->inert[c / 8] |= (uint8_t)(1 << c % 8);
}
