/* chat/show.c - values as text: Python's str(), repr() and json.dumps(). */
#include "chat/jinja.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <utf8proc.h>

/* A text that is written, in memory that is freed at the end. */
typedef struct writer {
    jinja_run *run;
    br__text text;
    const jinja_json_style *style; /* NULL: repr() */
} writer;

static bool write_value(writer *w, jinja_value v, int level);

static bool add(writer *w, jinja_text text)
{
    if ((int64_t)text.n > w->run->memory)
        return br__jinja_fail(&w->run->place, "the template needs too much memory");
    return br__text_add(&w->text, "%.*s", (int)text.n, text.data);
}

/* ---- Numbers --------------------------------------------------------------------------------- */

/* Writes the fewest digits that give the same number, as Python's repr(float). */
static void write_real(double x, char *to, size_t size)
{
    enum { MOST_DIGITS = 17, FIRST_WITH_EXPONENT = 16 };
    char digits[40];
    for (int n = 0; n < MOST_DIGITS; n++) {
        snprintf(digits, sizeof digits, "%.*e", n, fabs(x));
        if (strtod(digits, NULL) == fabs(x)) /* NaN was handled before */
            break;
    }
    char plain[MOST_DIGITS + 1];
    int n = 0, exponent = atoi(strchr(digits, 'e') + 1);
    for (const char *p = digits; *p != 'e'; p++) {
        if (*p >= '0' && *p <= '9')
            plain[n++] = *p;
    }
    plain[n] = 0;
    const char *sign = signbit(x) ? "-" : "";
    if (exponent < -4 || exponent >= FIRST_WITH_EXPONENT)
        snprintf(to, size, "%s%c%s%se%c%02d", sign, plain[0], n > 1 ? "." : "", plain + 1,
                 exponent < 0 ? '-' : '+', abs(exponent));
    else if (exponent < 0)
        snprintf(to, size, "%s0.%.*s%s", sign, -exponent - 1, "000", plain);
    else if (n <= exponent + 1)
        snprintf(to, size, "%s%s%.*s.0", sign, plain, exponent + 1 - n, "000000000000000");
    else
        snprintf(to, size, "%s%.*s.%s", sign, exponent + 1, plain, plain + exponent + 1);
}

/* `names` are of NaN and infinity. */
static bool add_real(writer *w, double x, const char *nan, const char *infinity)
{
    char number[64];
    if (isnan(x))
        return br__text_add(&w->text, "%s", nan);
    if (isinf(x))
        return br__text_add(&w->text, "%s%s", x < 0 ? "-" : "", infinity);
    write_real(x, number, sizeof number);
    return br__text_add(&w->text, "%s", number);
}

/* ---- repr() ---------------------------------------------------------------------------------- */

static bool is_printable(uint32_t c)
{
    switch (utf8proc_category((utf8proc_int32_t)c)) {
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
        return false;
    case UTF8PROC_CATEGORY_ZS:
        return c == ' ';
    default:
        return true;
    }
}

static bool add_repr_char(writer *w, uint32_t c, jinja_text bytes, char quote)
{
    switch (c) {
    case '\n':
        return br__text_add(&w->text, "\\n");
    case '\r':
        return br__text_add(&w->text, "\\r");
    case '\t':
        return br__text_add(&w->text, "\\t");
    case '\\':
        return br__text_add(&w->text, "\\\\");
    default:
        break;
    }
    if (c == (unsigned char)quote)
        return br__text_add(&w->text, "\\%c", quote);
    if (is_printable(c))
        return br__text_add(&w->text, "%.*s", (int)bytes.n, bytes.data);
    return br__text_add(&w->text, c < 0x100 ? "\\x%02x" : c < 0x10000 ? "\\u%04x" : "\\U%08x", c);
}

static bool add_repr(writer *w, jinja_text text)
{
    bool single = text.n > 0 && memchr(text.data, '\'', text.n);
    char quote = single && !memchr(text.data, '"', text.n) ? '"' : '\'';
    bool ok = br__text_add(&w->text, "%c", quote);
    for (const char *p = text.data, *end = p + text.n; ok && p < end;) {
        const char *begin = p;
        uint32_t c = br__jinja_next_char(&p);
        ok = add_repr_char(w, c, (jinja_text){ begin, (size_t)(p - begin) }, quote);
    }
    return ok && br__text_add(&w->text, "%c", quote);
}

static bool add_sequence(writer *w, const jinja_sequence *s)
{
    if (s->form > JINJA_TUPLE)
        return br__jinja_fail(
            &w->run->place, "a '%s' is not text; use the filter list first",
            br__jinja_type((jinja_value){ JINJA_SEQUENCE, { .sequence = (jinja_sequence *)s } }));
    bool is_tuple = s->form == JINJA_TUPLE;
    bool ok = br__text_add(&w->text, "%c", is_tuple ? '(' : '[');
    for (size_t i = 0; ok && i < s->n; i++)
        ok = (i == 0 || br__text_add(&w->text, ", ")) && write_value(w, s->items[i], 0);
    return ok && br__text_add(&w->text, "%s", !is_tuple ? "]" : s->n == 1 ? ",)" : ")");
}

static bool add_dict(writer *w, const jinja_dict *d)
{
    bool ok = br__text_add(&w->text, "{");
    for (size_t i = 0; ok && i < d->n; i++)
        ok = (i == 0 || br__text_add(&w->text, ", ")) && write_value(w, d->pairs[i].key, 0) &&
             br__text_add(&w->text, ": ") && write_value(w, d->pairs[i].value, 0);
    return ok && br__text_add(&w->text, "}");
}

static bool write_repr(writer *w, jinja_value v)
{
    switch (v.kind) {
    case JINJA_UNDEFINED:
        return br__text_add(&w->text, "Undefined");
    case JINJA_NULL:
        return br__text_add(&w->text, "None");
    case JINJA_BOOL:
        return br__text_add(&w->text, v.truth ? "True" : "False");
    case JINJA_INT:
        return br__text_add(&w->text, "%" PRId64, v.integer);
    case JINJA_FLOAT:
        return add_real(w, v.real, "nan", "inf");
    case JINJA_MARKUP:
        return br__text_add(&w->text, "Markup(") && add_repr(w, v.text) &&
               br__text_add(&w->text, ")");
    case JINJA_STRING:
        return add_repr(w, v.text);
    case JINJA_SEQUENCE:
        return add_sequence(w, v.sequence);
    case JINJA_DICT:
        return add_dict(w, v.dict);
    default:
        return br__jinja_fail(&w->run->place, "a '%s' cannot be written as text",
                              br__jinja_type(v));
    }
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static bool add_json_char(writer *w, uint32_t c, jinja_text bytes)
{
    static const char escaped[] = "\"\\\n\r\t\b\f", names[] = "\"\\nrtbf";
    enum { FIRST_PAIR = 0x10000, DELETE = 0x7F };
    const char *found = c < 0x80 ? strchr(escaped, (int)c) : NULL;
    if (found)
        return br__text_add(&w->text, "\\%c", names[found - escaped]);
    if (c >= FIRST_PAIR && w->style->ascii)
        return br__text_add(&w->text, "\\u%04x\\u%04x", 0xD800 + ((c - FIRST_PAIR) >> 10),
                            0xDC00 + ((c - FIRST_PAIR) & 0x3FF));
    if (c < ' ' || (c >= DELETE + 1 && w->style->ascii))
        return br__text_add(&w->text, "\\u%04x", c);
    return br__text_add(&w->text, "%.*s", (int)bytes.n, bytes.data);
}

static bool add_json_string(writer *w, jinja_text text)
{
    bool ok = br__text_add(&w->text, "\"");
    for (const char *p = text.data, *end = p + text.n; ok && p < end;) {
        const char *begin = p;
        uint32_t c = br__jinja_next_char(&p);
        ok = add_json_char(w, c, (jinja_text){ begin, (size_t)(p - begin) });
    }
    return ok && br__text_add(&w->text, "\"");
}

/* Begins the line of an element. */
static bool begin_line(writer *w, bool first, int level)
{
    const jinja_json_style *s = w->style;
    bool ok = first || add(w, s->comma);
    if (s->indented)
        ok = ok && br__text_add(&w->text, "\n");
    for (int i = 0; s->indented && ok && i < level; i++)
        ok = add(w, s->indent);
    return ok;
}

static bool add_json_key(writer *w, jinja_value key)
{
    if (key.kind == JINJA_STRING)
        return add_json_string(w, key.text);
    if (!jinja_is_number(key) && key.kind != JINJA_NULL)
        return br__jinja_fail(&w->run->place, "a '%s' cannot be the key of a JSON object",
                              br__jinja_type(key));
    return br__text_add(&w->text, "\"") && write_value(w, key, 0) && br__text_add(&w->text, "\"");
}

static bool add_json_members(writer *w, const jinja_pair *pairs, size_t n, int level)
{
    bool ok = br__text_add(&w->text, "{");
    for (size_t i = 0; ok && i < n; i++)
        ok = begin_line(w, i == 0, level + 1) && add_json_key(w, pairs[i].key) &&
             add(w, w->style->colon) && write_value(w, pairs[i].value, level + 1);
    return ok && (n == 0 || begin_line(w, true, level)) && br__text_add(&w->text, "}");
}

/* Sorts pairs by their keys. Objects are small, so insertion is fast enough. */
static bool sort_pairs(jinja_run *run, jinja_pair *pairs, size_t n)
{
    for (size_t i = 1; i < n; i++) {
        for (size_t j = i; j > 0; j--) {
            int order;
            if (!br__jinja_count_step(run) ||
                !br__jinja_order(run, "<", pairs[j].key, pairs[j - 1].key, &order))
                return false;
            if (order >= 0)
                break;
            jinja_pair other = pairs[j];
            pairs[j] = pairs[j - 1];
            pairs[j - 1] = other;
        }
    }
    return true;
}

static bool add_json_object(writer *w, const jinja_dict *d, int level)
{
    if (!w->style->sorted || d->n == 0)
        return add_json_members(w, d->pairs, d->n, level);
    jinja_pair *pairs = br__jinja_alloc(w->run, d->n * sizeof *pairs);
    if (!pairs)
        return false;
    memcpy(pairs, d->pairs, d->n * sizeof *pairs);
    return sort_pairs(w->run, pairs, d->n) && add_json_members(w, pairs, d->n, level);
}

static bool add_json_array(writer *w, const jinja_sequence *s, int level)
{
    bool ok = br__text_add(&w->text, "[");
    for (size_t i = 0; ok && i < s->n; i++)
        ok = begin_line(w, i == 0, level + 1) && write_value(w, s->items[i], level + 1);
    return ok && (s->n == 0 || begin_line(w, true, level)) && br__text_add(&w->text, "]");
}

static bool write_json(writer *w, jinja_value v, int level)
{
    switch (v.kind) {
    case JINJA_NULL:
        return br__text_add(&w->text, "null");
    case JINJA_BOOL:
        return br__text_add(&w->text, v.truth ? "true" : "false");
    case JINJA_INT:
        return br__text_add(&w->text, "%" PRId64, v.integer);
    case JINJA_FLOAT:
        return add_real(w, v.real, "NaN", "Infinity");
    case JINJA_STRING:
        return add_json_string(w, v.text);
    case JINJA_DICT:
        return add_json_object(w, v.dict, level);
    case JINJA_SEQUENCE:
        if (v.sequence->form <= JINJA_TUPLE)
            return add_json_array(w, v.sequence, level);
        break;
    default:
        break;
    }
    return br__jinja_check_defined(w->run, v) &&
           br__jinja_fail(&w->run->place, "a '%s' cannot be written as JSON", br__jinja_type(v));
}

/* ---- All ------------------------------------------------------------------------------------- */

static bool write_value(writer *w, jinja_value v, int level)
{
    if (!br__jinja_enter(w->run) || !br__jinja_count_step(w->run))
        return false;
    if ((int64_t)w->text.length > w->run->memory)
        return br__jinja_fail(&w->run->place, "the template needs too much memory");
    bool ok = w->style ? write_json(w, v, level) : write_repr(w, v);
    w->run->depth--;
    return ok;
}

static bool write_all(writer *w, jinja_value v, jinja_value *out)
{
    bool ok = write_value(w, v, 0) && br__jinja_copy(w->run, w->text.data, w->text.length, out);
    br_free(w->text.data);
    return ok;
}

bool br__jinja_repr(jinja_run *run, jinja_value v, jinja_text *out)
{
    writer w = { .run = run };
    jinja_value text;
    if (!write_all(&w, v, &text))
        return false;
    *out = text.text;
    return true;
}

bool br__jinja_str(jinja_run *run, jinja_value v, jinja_text *out)
{
    if (jinja_is_text(v) || v.kind == JINJA_UNDEFINED) {
        *out = jinja_is_text(v) ? v.text : JINJA_TEXT("");
        return true;
    }
    return br__jinja_repr(run, v, out);
}

bool br__jinja_json(jinja_run *run, jinja_value v, const jinja_json_style *style, jinja_value *out)
{
    writer w = { .run = run, .style = style };
    return write_all(&w, v, out);
}
