/* chat/text_methods.c - the methods of Python's strings. */
#include "chat/jinja.h"

#include <utf8proc.h>

#define METHOD(name)                                                         \
    static bool name(jinja_run *run, jinja_value self, const jinja_value *a, \
                     const jinja_arguments *all, jinja_value *out)

/* ---- Strings: white space and case ----------------------------------------------------------- */

static bool strip(jinja_run *run, jinja_value self, jinja_value chars, bool left, bool right,
                  jinja_value *out)
{
    bool any = !jinja_is_given(chars);
    if (!any && !br__jinja_check_text(run, "strip", chars))
        return false;
    *out = jinja_string(br__jinja_strip(self.text, any ? NULL : &chars.text, left, right));
    return true;
}

METHOD(text_strip)
{
    (void)all;
    return strip(run, self, a[0], true, true, out);
}

METHOD(text_lstrip)
{
    (void)all;
    return strip(run, self, a[0], true, false, out);
}

METHOD(text_rstrip)
{
    (void)all;
    return strip(run, self, a[0], false, true, out);
}

METHOD(text_lower)
{
    (void)a, (void)all;
    return br__jinja_change_case(run, self.text, JINJA_LOWER, out);
}

METHOD(text_upper)
{
    (void)a, (void)all;
    return br__jinja_change_case(run, self.text, JINJA_UPPER, out);
}

METHOD(text_capitalize)
{
    (void)a, (void)all;
    return br__jinja_change_case(run, self.text, JINJA_CAPITALIZE, out);
}

/* Capitalizes each run of letters. */
METHOD(text_title)
{
    (void)a, (void)all;
    jinja_value words;
    if (!br__jinja_new_sequence(run, JINJA_LIST, &words))
        return false;
    const char *p = self.text.data, *end = p + self.text.n;
    while (p < end) {
        const char *begin = p;
        bool letters = false;
        while (p < end) {
            const char *next = p;
            int category = utf8proc_category((utf8proc_int32_t)br__jinja_next_char(&next));
            bool letter = category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LT;
            if (p > begin && letter != letters)
                break;
            letters = letter;
            p = next;
        }
        jinja_value word = jinja_string((jinja_text){ begin, (size_t)(p - begin) });
        if ((letters && !br__jinja_change_case(run, word.text, JINJA_CAPITALIZE, &word)) ||
            !br__jinja_append(run, words.sequence, word))
            return false;
    }
    return br__jinja_join_all(run, words.sequence, JINJA_TEXT(""), out);
}

/* ---- Strings: parts -------------------------------------------------------------------------- */

static bool begins(jinja_text text, jinja_text part)
{
    return part.n <= text.n && (part.n == 0 || memcmp(text.data, part.data, part.n) == 0);
}

static bool ends(jinja_text text, jinja_text part)
{
    return part.n <= text.n && begins((jinja_text){ text.data + text.n - part.n, part.n }, part);
}

/* Tests a string, or the strings of a tuple. */
static bool has_end(jinja_run *run, const char *method, jinja_value self, jinja_value part,
                    bool (*holds)(jinja_text, jinja_text), jinja_value *out)
{
    *out = jinja_bool(false);
    if (part.kind != JINJA_SEQUENCE || part.sequence->form != JINJA_TUPLE) {
        *out = jinja_bool(part.kind == JINJA_STRING && holds(self.text, part.text));
        return br__jinja_check_text(run, method, part);
    }
    for (size_t i = 0; i < part.sequence->n && !out->truth; i++) {
        if (!br__jinja_check_text(run, method, part.sequence->items[i]))
            return false;
        *out = jinja_bool(holds(self.text, part.sequence->items[i].text));
    }
    return true;
}

METHOD(text_startswith)
{
    (void)all;
    return has_end(run, "startswith", self, a[0], begins, out);
}

METHOD(text_endswith)
{
    (void)all;
    return has_end(run, "endswith", self, a[0], ends, out);
}

METHOD(text_removeprefix)
{
    (void)all;
    if (!br__jinja_check_text(run, "removeprefix", a[0]))
        return false;
    size_t n = begins(self.text, a[0].text) ? a[0].text.n : 0;
    *out = jinja_string((jinja_text){ self.text.data + n, self.text.n - n });
    return true;
}

METHOD(text_removesuffix)
{
    (void)all;
    if (!br__jinja_check_text(run, "removesuffix", a[0]))
        return false;
    size_t n = ends(self.text, a[0].text) ? a[0].text.n : 0;
    *out = jinja_string((jinja_text){ self.text.data, self.text.n - n });
    return true;
}

METHOD(text_replace)
{
    (void)all;
    int64_t count;
    return br__jinja_check_text(run, "replace", a[0]) &&
           br__jinja_check_text(run, "replace", a[1]) &&
           br__jinja_read_integer(run, "replace", a[2], -1, &count) &&
           br__jinja_replace(run, self.text, a[0].text, a[1].text, count, out);
}

/* Gives the index in code points of a byte, or -1. */
static jinja_value index_of(jinja_text text, size_t byte)
{
    if (byte == SIZE_MAX)
        return jinja_int(-1);
    return jinja_int((int64_t)br__jinja_count_chars((jinja_text){ text.data, byte }));
}

METHOD(text_find)
{
    (void)all;
    if (!br__jinja_check_text(run, "find", a[0]))
        return false;
    *out = index_of(self.text, br__jinja_find_part(self.text, a[0].text, 0));
    return true;
}

METHOD(text_rfind)
{
    (void)all;
    if (!br__jinja_check_text(run, "rfind", a[0]))
        return false;
    *out = index_of(self.text, br__jinja_find_last(self.text, a[0].text));
    return true;
}

METHOD(text_index)
{
    return text_find(run, self, a, all, out) &&
           (out->integer >= 0 || br__jinja_fail(&run->place, "index() does not find the string"));
}

METHOD(text_count)
{
    (void)all;
    if (!br__jinja_check_text(run, "count", a[0]))
        return false;
    int64_t n = 0;
    if (a[0].text.n == 0)
        n = (int64_t)br__jinja_count_chars(self.text) + 1;
    for (size_t at = 0; a[0].text.n > 0; n++, at += a[0].text.n) {
        at = br__jinja_find_part(self.text, a[0].text, at);
        if (at == SIZE_MAX)
            break;
    }
    *out = jinja_int(n);
    return true;
}

/* ---- Strings: splitting ---------------------------------------------------------------------- */

static bool append_part(jinja_run *run, jinja_value list, const char *begin, const char *end)
{
    return br__jinja_append(run, list.sequence,
                            jinja_string((jinja_text){ begin, (size_t)(end - begin) }));
}

static void reverse_list(jinja_sequence *s)
{
    for (size_t i = 0; i < s->n / 2; i++) {
        jinja_value other = s->items[i];
        s->items[i] = s->items[s->n - 1 - i];
        s->items[s->n - 1 - i] = other;
    }
}

/* Splits at white space from the left, at most `most` times (negative: always). */
static bool split_space(jinja_run *run, jinja_text text, int64_t most, jinja_value list)
{
    for (;;) {
        text = br__jinja_strip(text, NULL, true, false);
        if (text.n == 0)
            return true;
        if (most-- == 0)
            return append_part(run, list, text.data, text.data + text.n);
        const char *p = text.data, *end = p + text.n, *word = p;
        while (p < end && !br__jinja_is_space(br__jinja_next_char(&p)))
            word = p;
        if (!append_part(run, list, text.data, word))
            return false;
        text = (jinja_text){ word, (size_t)(end - word) };
    }
}

/* The same from the right; the parts are in reverse order. */
static bool split_space_right(jinja_run *run, jinja_text text, int64_t most, jinja_value list)
{
    for (;;) {
        text = br__jinja_strip(text, NULL, false, true);
        if (text.n == 0)
            return true;
        const char *end = text.data + text.n, *word = text.data;
        for (const char *p = text.data; p < end;) {
            if (br__jinja_is_space(br__jinja_next_char(&p)))
                word = p;
        }
        if (most-- == 0)
            word = text.data;
        if (!append_part(run, list, word, end))
            return false;
        text.n = (size_t)(word - text.data);
    }
}

static bool split_at(jinja_run *run, jinja_text text, jinja_text separator, int64_t most,
                     jinja_value list)
{
    size_t begin = 0;
    while (most-- != 0) {
        size_t at = br__jinja_find_part(text, separator, begin);
        if (at == SIZE_MAX)
            break;
        if (!append_part(run, list, text.data + begin, text.data + at))
            return false;
        begin = at + separator.n;
    }
    return append_part(run, list, text.data + begin, text.data + text.n);
}

static bool split_at_right(jinja_run *run, jinja_text text, jinja_text separator, int64_t most,
                           jinja_value list)
{
    while (most-- != 0) {
        size_t at = br__jinja_find_last(text, separator);
        if (at == SIZE_MAX)
            break;
        if (!append_part(run, list, text.data + at + separator.n, text.data + text.n))
            return false;
        text.n = at;
    }
    return append_part(run, list, text.data, text.data + text.n);
}

static bool split(jinja_run *run, const char *method, jinja_value self, const jinja_value *a,
                  bool right, jinja_value *out)
{
    int64_t most;
    bool at_space = !jinja_is_given(a[0]);
    if ((!at_space && !br__jinja_check_text(run, method, a[0])) ||
        !br__jinja_read_integer(run, method, a[1], -1, &most) ||
        !br__jinja_new_sequence(run, JINJA_LIST, out))
        return false;
    if (!at_space && a[0].text.n == 0)
        return br__jinja_fail(&run->place, "%s() needs a separator that is not empty", method);
    bool ok = at_space ? right ? split_space_right(run, self.text, most, *out)
                               : split_space(run, self.text, most, *out)
              : right ? split_at_right(run, self.text, a[0].text, most, *out)
                       : split_at(run, self.text, a[0].text, most, *out);
    if (ok && right)
        reverse_list(out->sequence);
    return ok;
}

METHOD(text_split)
{
    (void)all;
    return split(run, "split", self, a, false, out);
}

METHOD(text_rsplit)
{
    (void)all;
    return split(run, "rsplit", self, a, true, out);
}

static bool ends_line(uint32_t c)
{
    return (c >= 0x0A && c <= 0x0D) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 ||
           c == 0x2029;
}

METHOD(text_splitlines)
{
    (void)all;
    bool keep = a[0].kind != JINJA_ABSENT && br__jinja_truth(a[0]);
    if (!br__jinja_new_sequence(run, JINJA_LIST, out))
        return false;
    const char *begin = self.text.data, *end = begin + self.text.n;
    for (const char *p = begin; p < end;) {
        const char *before = p;
        uint32_t c = br__jinja_next_char(&p);
        if (!ends_line(c))
            continue;
        p += c == '\r' && p < end && *p == '\n';
        if (!append_part(run, *out, begin, keep ? p : before))
            return false;
        begin = p;
    }
    return begin == end || append_part(run, *out, begin, end);
}

static bool partition(jinja_run *run, jinja_value self, jinja_value separator, bool right,
                      jinja_value *out)
{
    const char *method = right ? "rpartition" : "partition";
    if (!br__jinja_check_text(run, method, separator) ||
        !br__jinja_new_sequence(run, JINJA_TUPLE, out))
        return false;
    if (separator.text.n == 0)
        return br__jinja_fail(&run->place, "%s() needs a separator that is not empty", method);
    jinja_text text = self.text;
    size_t at = right ? br__jinja_find_last(text, separator.text)
                      : br__jinja_find_part(text, separator.text, 0);
    const char *p = text.data, *end = p + text.n;
    if (at != SIZE_MAX)
        return append_part(run, *out, p, p + at) &&
               append_part(run, *out, p + at, p + at + separator.text.n) &&
               append_part(run, *out, p + at + separator.text.n, end);
    return append_part(run, *out, p, right ? p : end) && append_part(run, *out, p, p) &&
           append_part(run, *out, p, right ? end : p);
}

METHOD(text_partition)
{
    (void)all;
    return partition(run, self, a[0], false, out);
}

METHOD(text_rpartition)
{
    (void)all;
    return partition(run, self, a[0], true, out);
}

METHOD(text_join)
{
    (void)all;
    jinja_value items;
    if (!br__jinja_iterate(run, a[0], &items))
        return false;
    for (size_t i = 0; i < items.sequence->n; i++) {
        if (!br__jinja_check_text(run, "join", items.sequence->items[i]))
            return false;
    }
    return br__jinja_join_all(run, items.sequence, self.text, out);
}

/* ---- Strings: what they consist of ----------------------------------------------------------- */

static bool all_of(jinja_text text, int first, int last, int also)
{
    bool holds = text.n > 0;
    for (const char *p = text.data, *end = p + text.n; holds && p < end;) {
        int category = utf8proc_category((utf8proc_int32_t)br__jinja_next_char(&p));
        holds = (category >= first && category <= last) || category == also;
    }
    return holds;
}

METHOD(text_isalpha)
{
    (void)run, (void)a, (void)all;
    *out = jinja_bool(
        all_of(self.text, UTF8PROC_CATEGORY_LU, UTF8PROC_CATEGORY_LO, UTF8PROC_CATEGORY_LU));
    return true;
}

METHOD(text_isdecimal)
{
    (void)run, (void)a, (void)all;
    *out = jinja_bool(
        all_of(self.text, UTF8PROC_CATEGORY_ND, UTF8PROC_CATEGORY_ND, UTF8PROC_CATEGORY_ND));
    return true;
}

METHOD(text_isspace)
{
    (void)run, (void)a, (void)all;
    *out = jinja_bool(self.text.n > 0 && br__jinja_strip(self.text, NULL, true, false).n == 0);
    return true;
}

/* Decimal digits in ASCII; other characters that Python counts are refused. */
METHOD(text_isdigit)
{
    (void)a, (void)all;
    bool digits = self.text.n > 0;
    for (size_t i = 0; i < self.text.n; i++) {
        unsigned char c = (unsigned char)self.text.data[i];
        if (c >= 0x80)
            return br__jinja_fail(&run->place, "isdigit() supports ASCII only");
        digits = digits && c >= '0' && c <= '9';
    }
    *out = jinja_bool(digits);
    return true;
}

const jinja_callable br__jinja_text_methods[] = {
    { "capitalize", text_capitalize, 0, "" },
    { "count", text_count, 1, "sub" },
    { "endswith", text_endswith, 1, "suffix" },
    { "find", text_find, 1, "sub" },
    { "index", text_index, 1, "sub" },
    { "isalpha", text_isalpha, 0, "" },
    { "isdecimal", text_isdecimal, 0, "" },
    { "isdigit", text_isdigit, 0, "" },
    { "isspace", text_isspace, 0, "" },
    { "join", text_join, 1, "iterable" },
    { "lower", text_lower, 0, "" },
    { "lstrip", text_lstrip, 0, "chars" },
    { "partition", text_partition, 1, "sep" },
    { "removeprefix", text_removeprefix, 1, "prefix" },
    { "removesuffix", text_removesuffix, 1, "suffix" },
    { "replace", text_replace, 2, "old new count" },
    { "rfind", text_rfind, 1, "sub" },
    { "rpartition", text_rpartition, 1, "sep" },
    { "rsplit", text_rsplit, 0, "sep maxsplit" },
    { "rstrip", text_rstrip, 0, "chars" },
    { "split", text_split, 0, "sep maxsplit" },
    { "splitlines", text_splitlines, 0, "keepends" },
    { "startswith", text_startswith, 1, "prefix" },
    { "strip", text_strip, 0, "chars" },
    { "title", text_title, 0, "" },
    { "upper", text_upper, 0, "" },
    { NULL },
};
