/* chat/filter_text.c - Jinja's filters of texts and numbers, as in "x | trim". */
#include "chat/jinja.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define FILTER(name)                                                      \
    static bool name(jinja_run *run, jinja_value v, const jinja_value *a, \
                     const jinja_arguments *all, jinja_value *out)

/* ---- Text ------------------------------------------------------------------------------------ */

FILTER(as_string)
{
    (void)a, (void)all;
    jinja_text text;
    if (!br__jinja_str(run, v, &text))
        return false;
    *out = v.kind == JINJA_MARKUP ? v : jinja_string(text);
    return true;
}

/* Marks text as safe in HTML. Templates that use it on text alone write what they would without,
 * but adding other text to the result escapes that text. */
FILTER(safe)
{
    bool ok = as_string(run, v, a, all, out);
    out->kind = JINJA_MARKUP;
    return ok;
}

FILTER(trim)
{
    jinja_value chars = a[0];
    bool any = !jinja_is_given(chars);
    if ((!any && !br__jinja_check_text(run, "trim", chars)) || !as_string(run, v, a, all, out))
        return false;
    *out = jinja_string(br__jinja_strip(out->text, any ? NULL : &chars.text, true, true));
    return true;
}

FILTER(lower)
{
    return as_string(run, v, a, all, out) &&
           br__jinja_change_case(run, out->text, JINJA_LOWER, out);
}

FILTER(upper)
{
    return as_string(run, v, a, all, out) &&
           br__jinja_change_case(run, out->text, JINJA_UPPER, out);
}

FILTER(capitalize)
{
    return as_string(run, v, a, all, out) &&
           br__jinja_change_case(run, out->text, JINJA_CAPITALIZE, out);
}

static bool separates_words(const char *p)
{
    uint32_t c = br__jinja_next_char(&p);
    return br__jinja_is_space(c) || (c > 0 && c < 0x80 && strchr("-({[<", (int)c));
}

/* Changes the first code point to upper case, the others to lower case. */
static bool title_word(jinja_run *run, jinja_text word, jinja_value *out)
{
    jinja_value first, rest;
    jinja_text head = br__jinja_chars(word, 0, 1);
    jinja_text tail = { word.data + head.n, word.n - head.n };
    return br__jinja_change_case(run, head, JINJA_UPPER, &first) &&
           br__jinja_change_case(run, tail, JINJA_LOWER, &rest) &&
           br__jinja_join(run, first.text, rest.text, out);
}

/* Capitalizes each word. Unlike Python's title(), words begin after white space, hyphens and
 * opening brackets only. */
FILTER(title)
{
    jinja_value text, words;
    if (!as_string(run, v, a, all, &text) || !br__jinja_new_sequence(run, JINJA_LIST, &words))
        return false;
    const char *p = text.text.data, *end = p + text.text.n;
    while (p < end) {
        const char *begin = p;
        bool separates = separates_words(p);
        while (p < end && separates_words(p) == separates)
            br__jinja_next_char(&p);
        jinja_value word = jinja_string((jinja_text){ begin, (size_t)(p - begin) });
        if ((!separates && !title_word(run, word.text, &word)) ||
            !br__jinja_append(run, words.sequence, word))
            return false;
    }
    return br__jinja_join_all(run, words.sequence, JINJA_TEXT(""), out);
}

FILTER(replace)
{
    jinja_text text, old, new;
    int64_t count = -1;
    (void)all;
    return br__jinja_str(run, v, &text) && br__jinja_str(run, a[0], &old) &&
           br__jinja_str(run, a[1], &new) &&
           (a[2].kind == JINJA_NULL || br__jinja_read_integer(run, "replace", a[2], -1, &count)) &&
           br__jinja_replace(run, text, old, new, count, out);
}

/* Sets *space to what a line begins with: a text, or a number of spaces. */
static bool read_indent(jinja_run *run, jinja_value v, jinja_value *space)
{
    enum { MOST = 1000 };
    int64_t width;
    *space = v;
    if (v.kind == JINJA_STRING)
        return true;
    if (!br__jinja_read_integer(run, "indent", v, 4, &width))
        return false;
    if (width > MOST)
        return br__jinja_fail(&run->place, "indent is more than %d", MOST);
    char spaces[MOST];
    memset(spaces, ' ', sizeof spaces);
    return br__jinja_copy(run, spaces, width > 0 ? (size_t)width : 0, space);
}

/* Indents the lines of a text but the first; `first` and `blank` also indent the first one and
 * empty ones. */
FILTER(indent)
{
    (void)all;
    jinja_value space, lines, line;
    bool first = br__jinja_option(a[1], false), blank = br__jinja_option(a[2], false);
    if (!br__jinja_check_text(run, "indent", v) || !read_indent(run, a[0], &space) ||
        !br__jinja_new_sequence(run, JINJA_LIST, &lines))
        return false;
    const char *p = v.text.data, *end = p + v.text.n;
    for (bool is_first = true;; is_first = false) {
        const char *line_end = p < end ? memchr(p, '\n', (size_t)(end - p)) : NULL;
        line = jinja_string((jinja_text){ p, (size_t)((line_end ? line_end : end) - p) });
        bool indents = is_first ? first : blank || line.text.n > 0;
        if ((indents && !br__jinja_join(run, space.text, line.text, &line)) ||
            !br__jinja_append(run, lines.sequence, line))
            return false;
        if (!line_end)
            return br__jinja_join_all(run, lines.sequence, JINJA_TEXT("\n"), out);
        p = line_end + 1;
    }
}

static bool read_separators(jinja_run *run, jinja_value v, jinja_json_style *style)
{
    if (!jinja_is_given(v))
        return true;
    bool ok = v.kind == JINJA_SEQUENCE && v.sequence->form <= JINJA_TUPLE && v.sequence->n == 2 &&
              v.sequence->items[0].kind == JINJA_STRING &&
              v.sequence->items[1].kind == JINJA_STRING;
    if (!ok)
        return br__jinja_fail(&run->place, "separators of tojson must be two strings");
    style->comma = v.sequence->items[0].text;
    style->colon = v.sequence->items[1].text;
    return true;
}

/* transformers' tojson, which unlike Jinja's escapes no HTML. */
FILTER(to_json)
{
    static const char spaces[] = "                                ";
    (void)all;
    jinja_json_style style = { .ascii = br__jinja_option(a[0], false),
                               .sorted = br__jinja_option(a[3], false),
                               .comma = JINJA_TEXT(", "),
                               .colon = JINJA_TEXT(": ") };
    int64_t width = 0;
    if (a[1].kind == JINJA_STRING) {
        style.indented = true;
        style.indent = a[1].text;
    } else if (jinja_is_given(a[1])) {
        if (!br__jinja_read_integer(run, "indent of tojson", a[1], 0, &width))
            return false;
        if (width > (int64_t)sizeof spaces - 1)
            return br__jinja_fail(&run->place, "indent of tojson is more than %d",
                                  (int)sizeof spaces - 1);
        style.indented = true;
        style.indent = (jinja_text){ spaces, width > 0 ? (size_t)width : 0 };
    }
    if (style.indented)
        style.comma = JINJA_TEXT(",");
    return read_separators(run, a[2], &style) && br__jinja_json(run, v, &style, out);
}

/* ---- Numbers --------------------------------------------------------------------------------- */

/* Reads a text that is a number as Python's float() does, but for "_". */
static bool read_number(jinja_text text, double *number)
{
    char digits[64], *end;
    text = br__jinja_strip(text, NULL, true, true);
    if (text.n == 0 || text.n >= sizeof digits || memchr(text.data, 'x', text.n) ||
        memchr(text.data, 'X', text.n) || memchr(text.data, '(', text.n))
        return false;
    memcpy(digits, text.data, text.n);
    digits[text.n] = 0;
    *number = strtod(digits, &end);
    return *end == 0;
}

static bool read_integer(jinja_text text, int64_t base, int64_t *integer)
{
    char digits[80], *end;
    text = br__jinja_strip(text, NULL, true, true);
    if (text.n == 0 || text.n >= sizeof digits)
        return false;
    memcpy(digits, text.data, text.n);
    digits[text.n] = 0;
    errno = 0;
    *integer = strtoll(digits, &end, (int)base);
    return *end == 0 && errno == 0;
}

FILTER(as_int)
{
    (void)all;
    int64_t integer = 0, base;
    double number = NAN;
    if (!br__jinja_read_integer(run, "base of int", a[1], 10, &base))
        return false;
    if (base < 2 || base > 36)
        return br__jinja_fail(&run->place, "base of int must be from 2 to 36");
    *out = a[0].kind == JINJA_ABSENT ? jinja_int(0) : a[0];
    if (v.kind == JINJA_BOOL || v.kind == JINJA_INT)
        *out = jinja_int(br__jinja_integer(v));
    else if (jinja_is_text(v) && read_integer(v.text, base, &integer))
        *out = jinja_int(integer);
    else if (v.kind == JINJA_FLOAT || (jinja_is_text(v) && read_number(v.text, &number))) {
        number = v.kind == JINJA_FLOAT ? v.real : number;
        if (isfinite(number) && fabs(number) >= 0x1p63)
            return br__jinja_fail(&run->place, "%g does not fit in 64 bits", number);
        if (isfinite(number))
            *out = jinja_int((int64_t)number);
    }
    return br__jinja_check_defined(run, v);
}

FILTER(as_float)
{
    (void)all;
    double number;
    *out = a[0].kind == JINJA_ABSENT ? jinja_real(0) : a[0];
    if (jinja_is_number(v))
        *out = jinja_real(br__jinja_number(v));
    else if (jinja_is_text(v) && read_number(v.text, &number))
        *out = jinja_real(number);
    return br__jinja_check_defined(run, v);
}

FILTER(absolute)
{
    (void)a, (void)all;
    if (!br__jinja_check_number(run, "abs", v))
        return false;
    if (v.kind == JINJA_FLOAT) {
        *out = jinja_real(fabs(v.real));
        return true;
    }
    int64_t integer = br__jinja_integer(v);
    if (integer == INT64_MIN)
        return br__jinja_fail(&run->place, "the result of abs does not fit in 64 bits");
    *out = jinja_int(integer < 0 ? -integer : integer);
    return true;
}

/* Rounds to digits after the point: a half to even, as Python's round() does for numbers that are
 * exact halves. */
FILTER(round_number)
{
    (void)all;
    int64_t digits;
    jinja_text method = JINJA_TEXT("common");
    if (!br__jinja_check_number(run, "round", v) ||
        !br__jinja_read_integer(run, "precision of round", a[0], 0, &digits))
        return false;
    if (a[1].kind == JINJA_STRING)
        method = a[1].text;
    bool ceils = jinja_text_is(method, "ceil"), floors = jinja_text_is(method, "floor");
    if ((!ceils && !floors && !jinja_text_is(method, "common")) || digits < 0 || digits > 15)
        return br__jinja_fail(&run->place,
                              "round needs a precision from 0 to 15, and common, ceil or floor");
    double scale = pow(10, (double)digits), x = br__jinja_number(v);
    if (ceils || floors) {
        *out = jinja_real((ceils ? ceil(x * scale) : floor(x * scale)) / scale);
        return true;
    }
    if (v.kind != JINJA_FLOAT) { /* Python's round(int, 0) is an int */
        *out = jinja_int(br__jinja_integer(v));
        return true;
    }
    char text[400];
    snprintf(text, sizeof text, "%.*f", (int)digits, x);
    *out = jinja_real(strtod(text, NULL));
    return true;
}

/* ---- The table ------------------------------------------------------------------------------- */

const jinja_callable br__jinja_text_filters[] = {
    { "abs", absolute, 0, "" },
    { "capitalize", capitalize, 0, "" },
    { "float", as_float, 0, "default" },
    { "indent", indent, 0, "width first blank" },
    { "int", as_int, 0, "default base" },
    { "lower", lower, 0, "" },
    { "replace", replace, 2, "old new count" },
    { "round", round_number, 0, "precision method" },
    { "safe", safe, 0, "" },
    { "string", as_string, 0, "" },
    { "title", title, 0, "" },
    { "tojson", to_json, 0, "ensure_ascii indent separators sort_keys" },
    { "trim", trim, 0, "chars" },
    { "upper", upper, 0, "" },
    { NULL },
};
