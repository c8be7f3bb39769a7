/* chat/text.c - strings of code points, as Python's. */
#include "chat/jinja.h"
#include "tokenizers/tokenizer_internal.h"

#include <utf8proc.h>

uint32_t br__jinja_next_char(const char **at)
{
    utf8proc_int32_t c;
    *at += utf8proc_iterate((const utf8proc_uint8_t *)*at, -1, &c);
    return (uint32_t)c;
}

static bool begins_char(char byte)
{
    return ((unsigned char)byte & 0xC0) != 0x80;
}

size_t br__jinja_count_chars(jinja_text text)
{
    size_t n = 0;
    for (size_t i = 0; i < text.n; i++)
        n += begins_char(text.data[i]);
    return n;
}

/* Returns the byte at which the code point of this index begins, or the end. */
static size_t byte_of(jinja_text text, size_t index)
{
    size_t i = 0;
    for (;; i++) {
        if (i == text.n || (begins_char(text.data[i]) && index-- == 0))
            return i;
    }
}

jinja_text br__jinja_chars(jinja_text text, size_t index, size_t n)
{
    size_t begin = byte_of(text, index);
    jinja_text rest = { text.data + begin, text.n - begin };
    return (jinja_text){ rest.data, byte_of(rest, n) };
}

bool br__jinja_is_space(uint32_t c)
{
    return br__is_white(c) || (c >= 0x1C && c <= 0x1F); /* the separators of ASCII count, too */
}

static bool is_stripped(const char *at, const jinja_text *chars)
{
    uint32_t c = br__jinja_next_char(&at);
    if (!chars)
        return br__jinja_is_space(c);
    for (const char *p = chars->data, *end = p + chars->n; p < end;) {
        if (br__jinja_next_char(&p) == c)
            return true;
    }
    return false;
}

jinja_text br__jinja_strip(jinja_text text, const jinja_text *chars, bool left, bool right)
{
    const char *begin = text.data, *end = text.data + text.n;
    while (left && begin < end && is_stripped(begin, chars))
        br__jinja_next_char(&begin);
    while (right && begin < end) {
        const char *last = end - 1;
        while (!begins_char(*last))
            last--;
        if (!is_stripped(last, chars))
            break;
        end = last;
    }
    return (jinja_text){ begin, (size_t)(end - begin) };
}

static bool occurs_at(jinja_text text, jinja_text part, size_t at)
{
    return part.n == 0 || memcmp(text.data + at, part.data, part.n) == 0;
}

size_t br__jinja_find_part(jinja_text text, jinja_text part, size_t from)
{
    for (size_t i = from; i + part.n <= text.n; i++) {
        if (occurs_at(text, part, i))
            return i;
    }
    return SIZE_MAX;
}

size_t br__jinja_find_last(jinja_text text, jinja_text part)
{
    for (size_t i = text.n + 1; i-- > 0;) {
        if (i + part.n <= text.n && occurs_at(text, part, i))
            return i;
    }
    return SIZE_MAX;
}

/* Returns the byte of the next place for a replacement: an occurrence or, if the old text is empty,
 * any boundary of code points. */
static size_t next_place(jinja_text text, jinja_text old, size_t from, bool first)
{
    if (old.n > 0)
        return br__jinja_find_part(text, old, from);
    if (first)
        return 0;
    if (from >= text.n)
        return SIZE_MAX;
    for (from++; from < text.n && !begins_char(text.data[from]);)
        from++;
    return from;
}

bool br__jinja_replace(jinja_run *run, jinja_text text, jinja_text old, jinja_text new,
                       int64_t count, jinja_value *out)
{
    size_t n = 0;
    for (size_t at = 0; count < 0 || (int64_t)n < count; n++) {
        at = next_place(text, old, at, n == 0);
        if (at == SIZE_MAX)
            break;
        at += old.n;
    }
    char *to = br__jinja_alloc(run, text.n + n * new.n + 1); /* at least what is needed */
    if (!to)
        return false;
    size_t length = 0, done = 0, at = 0;
    for (size_t i = 0; i <= n; i++) {
        size_t place = text.n;
        if (i < n)
            place = at = next_place(text, old, at, i == 0);
        if (place > done)
            memcpy(to + length, text.data + done, place - done);
        length += place - done;
        if (i<n &&new.n> 0)
            memcpy(to + length, new.data, new.n);
        length += i < n ? new.n : 0;
        at += old.n;
        done = place + old.n;
    }
    *out = jinja_string((jinja_text){ to, length });
    return true;
}

/* Returns whether Python's case of a code point depends on its neighbors or is several code points,
 * by Unicode's SpecialCasing.txt; German's sharp s is one that is supported. */
static bool is_special(uint32_t c, jinja_case to)
{
    enum { CAPITAL_SIGMA = 0x3A3, CAPITAL_I_WITH_DOT = 0x130 };
    if (to == JINJA_LOWER)
        return c == CAPITAL_SIGMA || c == CAPITAL_I_WITH_DOT;
    return c == 0x149 || c == 0x1F0 || c == 0x390 || c == 0x3B0 || c == 0x587 ||
           (c >= 0x1E96 && c <= 0x1E9A) || (c >= 0x1F50 && c <= 0x1FFC) ||
           (c >= 0xFB00 && c <= 0xFB17);
}

bool br__jinja_change_case(jinja_run *run, jinja_text text, jinja_case to, jinja_value *out)
{
    enum { MOST = 4, SHARP_S = 0xDF };
    char *changed = br__jinja_alloc(run, text.n * 2 + MOST); /* no case is twice as long */
    if (!changed)
        return false;
    size_t n = 0;
    bool first = true;
    for (const char *p = text.data, *end = p + text.n; p < end; first = false) {
        uint32_t c = br__jinja_next_char(&p);
        jinja_case own = to == JINJA_CAPITALIZE && !first ? JINJA_LOWER : to;
        if (is_special(c, own))
            return br__jinja_fail(&run->place, "another case of U+%04X is not supported", c);
        if (c == SHARP_S && own != JINJA_LOWER) {
            changed[n++] = 'S';
            changed[n++] = own == JINJA_UPPER ? 'S' : 's';
            continue;
        }
        utf8proc_int32_t changed_char = own == JINJA_LOWER   ? utf8proc_tolower((int32_t)c)
                                        : own == JINJA_UPPER ? utf8proc_toupper((int32_t)c)
                                                             : utf8proc_totitle((int32_t)c);
        n += (size_t)utf8proc_encode_char(changed_char, (utf8proc_uint8_t *)changed + n);
    }
    *out = jinja_string((jinja_text){ changed, n });
    return true;
}

bool br__jinja_escape(jinja_run *run, jinja_text text, jinja_value *out)
{
    static const struct {
        const char *plain, *escaped;
    } pairs[] = {
        { "&", "&amp;" }, { "<", "&lt;" }, { ">", "&gt;" }, { "'", "&#39;" }, { "\"", "&#34;" },
    };
    *out = jinja_string(text);
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        jinja_text plain = { pairs[i].plain, 1 };
        jinja_text escaped = { pairs[i].escaped, strlen(pairs[i].escaped) };
        if (!br__jinja_replace(run, out->text, plain, escaped, -1, out))
            return false;
    }
    return true;
}
