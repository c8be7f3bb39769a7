/* tokenizers/normal_forms.c - Unicode's normalization forms (UAX #15), lower case and the removal
 * of accents.
 *
 * While a form is made, the offsets of a new code point hold numbers: bytes.begin is the
 * number of br__change_char(), bytes.end is the combining class, and chars.begin is the position
 * before marks are sorted. As in Hugging Face's fast tokenizer, offsets stay in the order of the
 * text: a mark that is moved gets the offsets of its new place. */
#include "tokenizers/normal_forms.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

br_form br__form_of_name(const char *name)
{
    static const char *const names[] = { "", "NFC", "NFD", "NFKC", "NFKD" };
    for (int i = BR_FORM_NFC; i <= BR_FORM_NFKD; i++)
        if (strcmp(names[i], name) == 0)
            return (br_form)i;
    return BR_FORM_NONE;
}

static bool is_compatible(br_form form)
{
    return form == BR_FORM_NFKC || form == BR_FORM_NFKD;
}

static bool composes(br_form form)
{
    return form == BR_FORM_NFC || form == BR_FORM_NFKC;
}

bool br__form_keeps(br_form form, uint32_t c)
{
    if (c < 0x80 || form == BR_FORM_NONE)
        return true;
    unsigned kind = br__bits_of_char(&br__normal_chars, c);
    if (is_compatible(form) && (kind & BR_NORMAL_COMPATIBLE))
        return false;
    return composes(form) ? !(kind & BR_NORMAL_UNSTABLE)
                          : !(br__char_kind(c) & (BR_CHAR_DECOMPOSES | BR_CHAR_REORDERS));
}

bool br__change_char(br_char_list *to, uint32_t c, int64_t more)
{
    return br__push_char(to, (br_char){ .c = c, .bytes.begin = more });
}

void br__place_chars(const br_char_list *text, br_char_list *to)
{
    int64_t at = 0;
    for (int64_t i = 0; i < to->count; i++) {
        br_char *c = &to->items[i];
        int64_t more = c->bytes.begin;
        const br_char *from = &text->items[more > 0 && at > 0 ? at - 1 : at];
        c->bytes = from->bytes;
        c->chars = from->chars;
        at += more > 0 ? 0 : 1 - more;
    }
}

/* ---- Decomposition --------------------------------------------------------------------------- */

static int64_t class_of(uint32_t c)
{
    return br__char_kind(c) & BR_CHAR_REORDERS
               ? utf8proc_get_property((utf8proc_int32_t)c)->combining_class
               : 0;
}

static bool push_part(br_char_list *to, uint32_t c, int64_t more)
{
    return br__push_char(
        to, (br_char){ .c = c, .bytes = { more, class_of(c) }, .chars.begin = to->count });
}

/* Appends the decomposition of a code point. */
static bool decompose(br_form form, uint32_t c, br_char_list *to)
{
    enum { LONGEST = 32 }; /* the longest decomposition has 18 code points */
    bool is_whole = br__char_kind(c) & BR_CHAR_DECOMPOSES;
    is_whole |=
        is_compatible(form) && (br__bits_of_char(&br__normal_chars, c) & BR_NORMAL_COMPATIBLE);
    if (!is_whole)
        return push_part(to, c, 0);
    utf8proc_int32_t parts[LONGEST];
    int unused = 0;
    utf8proc_option_t how =
        is_compatible(form) ? UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT : UTF8PROC_DECOMPOSE;
    utf8proc_ssize_t n = utf8proc_decompose_char((utf8proc_int32_t)c, parts, LONGEST, how, &unused);
    for (utf8proc_ssize_t i = 0; i < n; i++)
        if (!push_part(to, (uint32_t)parts[i], i > 0))
            return false;
    return true;
}

static int by_class(const void *a, const void *b)
{
    const br_char *x = a, *y = b;
    if (x->bytes.end != y->bytes.end)
        return x->bytes.end < y->bytes.end ? -1 : 1;
    return x->chars.begin < y->chars.begin ? -1 : 1;
}

/* Sorts each run of marks by their combining classes. */
static void sort_marks(br_char_list *to)
{
    for (int64_t i = 0, end; i < to->count; i = end) {
        for (end = i; end < to->count && to->items[end].bytes.end != 0;)
            end++;
        if (end - i > 1)
            qsort(to->items + i, (size_t)(end - i), sizeof *to->items, by_class);
        end += end == i;
    }
}

/* ---- Composition ----------------------------------------------------------------------------- */

/* Returns the composition of two code points, or 0. */
static uint32_t composed(uint32_t first, uint32_t second)
{
    utf8proc_int32_t pair[] = { (utf8proc_int32_t)first, (utf8proc_int32_t)second };
    if (!(br__bits_of_char(&br__normal_chars, second) & BR_NORMAL_JOINS) ||
        utf8proc_normalize_utf32(pair, 2, UTF8PROC_COMPOSE | UTF8PROC_STABLE) != 1)
        return 0;
    uint32_t c = (uint32_t)pair[0];
    return br__char_kind(c) & BR_CHAR_DECOMPOSES ? c
                                                 : 0; /* else another version of Unicode has it */
}

/* Composes each mark or vowel with the last starter before it, unless one of a class that is not
 * lower stands between them. */
static void compose(br_char_list *to)
{
    int64_t starter = -1, n = 0, last = -1; /* last: class of the mark before; -1: none */
    for (int64_t i = 0; i < to->count; i++) {
        br_char c = to->items[i];
        int64_t class = c.bytes.end;
        br_char *s = starter < 0 ? NULL : &to->items[starter];
        uint32_t whole = s && last < class ? composed(s->c, c.c) : 0;
        if (whole) {
            s->c = whole;
            s->bytes.begin += c.bytes.begin - 1;
            continue;
        }
        last = class == 0 ? -1 : class;
        starter = class == 0 ? n : starter;
        to->items[n++] = c;
    }
    to->count = n;
}

bool br__apply_form(br_form form, const br_char_list *text, br_char_list *to)
{
    for (int64_t i = 0; i < text->count; i++)
        if (!decompose(form, text->items[i].c, to))
            return false;
    sort_marks(to);
    if (composes(form))
        compose(to);
    br__place_chars(text, to);
    return true;
}

/* ---- Accents and lower case ------------------------------------------------------------------ */

bool br__strip_accents(const br_char_list *text, br_char_list *to)
{
    for (int64_t i = 0; i < text->count; i++) {
        const br_char *c = &text->items[i];
        if (!(br__bits_of_char(&br__normal_chars, c->c) & BR_NORMAL_ACCENT) &&
            !br__push_char(to, *c))
            return false;
    }
    return true;
}

bool br__lower_chars(const br_char_list *text, br_char_list *to)
{
    for (int64_t i = 0; i < text->count; i++) {
        br_char c = text->items[i];
        uint32_t small[2] = { c.c };
        int n = br__char_kind(c.c) & BR_CHAR_UPPER ? br__char_lower(c.c, small) : 1;
        for (int k = 0; k < n; k++) {
            c.c = small[k];
            if (!br__push_char(to, c))
                return false;
        }
    }
    return true;
}
