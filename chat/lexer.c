/* chat/lexer.c - cuts a template into tokens, with trim_blocks and lstrip_blocks as in
 * transformers: a block tag takes the newline after it, and the spaces before it if it begins its
 * line. */
#include "chat/jinja.h"

#include <errno.h>
#include <stdlib.h>
#include <utf8proc.h>

typedef struct lexer {
    jinja_place place;
    br_arena *arena;
    const char *p, *begin, *end;
    jinja_token *tokens;
    size_t n, capacity;
    char *closers; /* the brackets that are open, innermost last */
    size_t n_closers;
} lexer;

static bool push(lexer *l, jinja_token token)
{
    if (l->n == l->capacity) {
        size_t more = l->capacity > 0 ? 2 * l->capacity : 64;
        jinja_token *grown = br__arena_alloc(l->arena, more * sizeof *grown);
        if (!grown)
            return false;
        if (l->n > 0)
            memcpy(grown, l->tokens, l->n * sizeof *grown);
        l->tokens = grown;
        l->capacity = more;
    }
    token.line = l->place.line;
    l->tokens[l->n++] = token;
    return true;
}

/* Moves to a later place, and counts the lines on the way. */
static void move_to(lexer *l, const char *to)
{
    for (; l->p < to; l->p++)
        l->place.line += *l->p == '\n';
}

static bool at(const lexer *l, const char *p, const char *what)
{
    size_t n = strlen(what);
    return (size_t)(l->end - p) >= n && memcmp(p, what, n) == 0;
}

static const char *skip_space(const lexer *l, const char *p)
{
    jinja_text rest = { p, (size_t)(l->end - p) };
    return br__jinja_strip(rest, NULL, true, false).data;
}

/* ---- Text between tags ----------------------------------------------------------------------- */

/* Returns the beginning of the next tag, or the end. */
static const char *find_tag(const lexer *l, const char *p)
{
    for (; p + 1 < l->end; p++) {
        if (*p == '{' && (p[1] == '{' || p[1] == '%' || p[1] == '#'))
            return p;
    }
    return l->end;
}

/* Returns the text before a tag, without the white space that the tag removes. `sign` is the
 * character after the tag's "{%". */
static jinja_text before_tag(const lexer *l, jinja_text text, char sign, bool is_output)
{
    if (sign == '-')
        return br__jinja_strip(text, NULL, false, true);
    if (sign == '+' || is_output)
        return text;
    size_t line = text.n;
    while (line > 0 && text.data[line - 1] != '\n')
        line--;
    bool begins_line = line > 0 || text.data == l->begin || text.data[-1] == '\n';
    jinja_text spaces = { text.data + line, text.n - line };
    if (begins_line && br__jinja_strip(spaces, NULL, true, false).n == 0)
        text.n = line;
    return text;
}

static bool push_data(lexer *l, jinja_text text)
{
    return text.n == 0 || push(l, (jinja_token){ .kind = TOKEN_DATA, .text = text });
}

/* Returns the place after the end of a block's tag and the white space that it removes, or NULL if
 * the end is not at p. */
static const char *after_end(const lexer *l, const char *p, const char *end)
{
    bool strips = p < l->end && *p == '-', keeps = p < l->end && *p == '+';
    const char *close = p + (strips || keeps);
    if (!at(l, close, end) || (keeps && *end == '}'))
        return NULL;
    close += 2;
    if (strips)
        return skip_space(l, close);
    return !keeps && *end != '}' && close < l->end && *close == '\n' ? close + 1 : close;
}

static bool skip_comment(lexer *l)
{
    const char *begin = l->p + 2 + (at(l, l->p + 2, "-") || at(l, l->p + 2, "+"));
    for (const char *p = begin; p < l->end; p++) {
        const char *after = after_end(l, p, "#}");
        if (after) {
            move_to(l, after);
            return true;
        }
    }
    return br__jinja_fail(&l->place, "a comment has no end \"#}\"");
}

/* Returns the place after a tag "{% name %}" at p, or NULL if there is none. */
static const char *after_word_tag(const lexer *l, const char *p, const char *word)
{
    if (!at(l, p, "{%"))
        return NULL;
    p += 2;
    p = skip_space(l, p + (p < l->end && (*p == '-' || *p == '+')));
    if (!at(l, p, word))
        return NULL;
    return after_end(l, skip_space(l, p + strlen(word)), "%}");
}

/* Reads "{% raw %}" and the text up to "{% endraw %}". */
static bool read_raw(lexer *l)
{
    const char *begin = skip_space(l, l->p + 2 + (l->p[2] == '-' || l->p[2] == '+')) + 3;
    begin = skip_space(l, begin);
    begin = *begin == '-' ? skip_space(l, begin + 3) : begin + 2; /* raw keeps its newline */
    for (const char *p = begin; p < l->end; p++) {
        const char *after = after_word_tag(l, p, "endraw");
        if (!after)
            continue;
        move_to(l, begin);
        jinja_text text = { begin, (size_t)(p - begin) };
        bool ok = push_data(l, before_tag(l, text, p[2], false));
        move_to(l, after);
        return ok;
    }
    return br__jinja_fail(&l->place, "{%% raw %%} has no end {%% endraw %%}");
}

/* ---- Literals -------------------------------------------------------------------------------- */

static int digit_of(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c = (char)(c | 0x20);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : 99;
}

/* Returns the end of digits, between which "_" may stand. */
static const char *digits_end(const lexer *l, const char *p, int base)
{
    const char *begin = p;
    while (p < l->end) {
        const char *digit = p + (p > begin && *p == '_');
        if (digit >= l->end || digit_of(*digit) >= base)
            break;
        p = digit + 1;
    }
    return p;
}

/* Returns the end of a number with a point or an exponent at p, or NULL. */
static const char *real_end(const lexer *l, const char *p)
{
    if (p > l->begin && p[-1] == '.')
        return NULL;
    const char *whole = digits_end(l, p, 10), *end = whole;
    if (end < l->end && *end == '.' && digits_end(l, end + 1, 10) > end + 1)
        end = digits_end(l, end + 1, 10);
    const char *exponent = end;
    if (exponent < l->end && (*exponent | 0x20) == 'e') {
        exponent++;
        exponent += exponent < l->end && (*exponent == '+' || *exponent == '-');
        const char *after = digits_end(l, exponent, 10);
        end = after > exponent ? after : end;
    }
    return end > whole ? end : NULL;
}

static bool push_literal(lexer *l, const char *end, jinja_value value)
{
    jinja_token token = { .kind = TOKEN_LITERAL,
                          .text = { l->p, (size_t)(end - l->p) },
                          .value = value };
    bool ok = push(l, token);
    move_to(l, end);
    return ok;
}

static bool read_real(lexer *l, const char *end)
{
    char digits[64];
    size_t n = 0;
    for (const char *p = l->p; p < end; p++) {
        if (*p == '_')
            continue;
        if (n + 1 == sizeof digits)
            return br__jinja_fail(&l->place, "a number is longer than %d characters", (int)n);
        digits[n++] = *p;
    }
    digits[n] = 0;
    return push_literal(l, end, jinja_real(strtod(digits, NULL)));
}

static bool read_integer(lexer *l)
{
    const char *p = l->p, *end;
    int base = 10;
    if (*p == '0' && p + 1 < l->end) {
        char letter = (char)(p[1] | 0x20);
        base = letter == 'x' ? 16 : letter == 'o' ? 8 : letter == 'b' ? 2 : 10;
    }
    if (base != 10) {
        p += 2;
        p += p < l->end && *p == '_';
    }
    end = digits_end(l, p, base);
    if (base == 10 && *p == '0') { /* as in Python, only 0 begins with 0 */
        for (end = p + 1; end < l->end && (*end == '0' || *end == '_');)
            end++;
    }
    int64_t value = 0;
    for (; p < end; p++) {
        if (*p != '_' && (__builtin_mul_overflow(value, base, &value) ||
                          __builtin_add_overflow(value, digit_of(*p), &value)))
            return br__jinja_fail(&l->place, "the integer %.*s does not fit in 64 bits",
                                  (int)(end - l->p), l->p);
    }
    return push_literal(l, end, jinja_int(value));
}

/* Appends the code point of \x41, \u0041 or \U00000041, whose digits begin at *p. */
static bool unescape_code(lexer *l, const char **p, int digits, char **to)
{
    uint32_t c = 0;
    for (int i = 0; i < digits; i++, (*p)++) {
        if (*p >= l->end || digit_of(**p) > 15)
            return br__jinja_fail(&l->place, "an escape in a string needs %d hexadecimal digits",
                                  digits);
        c = c * 16 + (uint32_t)digit_of(**p);
    }
    if (c == 0 || !utf8proc_codepoint_valid((utf8proc_int32_t)c))
        return br__jinja_fail(&l->place, "U+%04X in a string is no character that can be printed",
                              c);
    *to += utf8proc_encode_char((utf8proc_int32_t)c, (utf8proc_uint8_t *)*to);
    return true;
}

static bool unescape_octal(lexer *l, const char **p, char **to)
{
    int c = 0;
    for (int i = 0; i < 3 && **p >= '0' && **p <= '7'; i++, (*p)++)
        c = c * 8 + (**p - '0');
    if (c == 0)
        return br__jinja_fail(&l->place, "U+0000 in a string is no character that can be printed");
    *to += utf8proc_encode_char(c, (utf8proc_uint8_t *)*to);
    return true;
}

/* Reads an escape after "\". What it stands for is never longer. */
static bool unescape(lexer *l, const char **p, char **to)
{
    static const char letters[] = "abfnrtv\\'\"", means[] = "\a\b\f\n\r\t\v\\'\"";
    char c = **p;
    const char *found = c ? strchr(letters, c) : NULL;
    if (c >= '0' && c <= '7')
        return unescape_octal(l, p, to);
    (*p)++;
    if (found)
        *(*to)++ = means[found - letters];
    else if (c == 'x')
        return unescape_code(l, p, 2, to);
    else if (c == 'u')
        return unescape_code(l, p, 4, to);
    else if (c == 'U')
        return unescape_code(l, p, 8, to);
    else if (c == 'N')
        return br__jinja_fail(&l->place, "the escape \\N in a string is not supported");
    else if (c != '\n') { /* an unknown escape stays as it is */
        *(*to)++ = '\\';
        *(*to)++ = c;
    }
    return true;
}

static bool read_string(lexer *l)
{
    const char *p = l->p + 1, quote = *l->p;
    while (p < l->end && *p != quote)
        p += *p == '\\' ? 2 : 1;
    if (p >= l->end)
        return br__jinja_fail(&l->place, "a string has no end %c", quote);
    const char *end = p;
    char *text = br__arena_alloc(l->arena, (size_t)(end - l->p)), *to = text;
    if (!text)
        return false;
    for (p = l->p + 1; p < end;) {
        if (*p != '\\') {
            *to++ = *p++;
            continue;
        }
        p++;
        if (!unescape(l, &p, &to))
            return false;
    }
    return push_literal(l, end + 1, jinja_string((jinja_text){ text, (size_t)(to - text) }));
}

/* ---- Names and operators --------------------------------------------------------------------- */

static bool is_name_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

static bool read_name(lexer *l)
{
    const char *end = l->p;
    while (end < l->end && is_name_char(*end))
        end++;
    bool ok = push(l, (jinja_token){ .kind = TOKEN_NAME, .text = { l->p, (size_t)(end - l->p) } });
    move_to(l, end);
    return ok;
}

static bool balance(lexer *l, char c)
{
    static const char open[] = "([{", close[] = ")]}";
    const char *opens = strchr(open, c);
    if (opens) {
        l->closers[l->n_closers++] = close[opens - open];
    } else if (strchr(close, c)) {
        if (l->n_closers == 0 || l->closers[l->n_closers - 1] != c)
            return br__jinja_fail(&l->place, "'%c' closes nothing", c);
        l->n_closers--;
    }
    return true;
}

static bool read_operator(lexer *l)
{
    static const char *const pairs[] = { "//", "**", "==", "!=", ">=", "<=" };
    int op = 0;
    size_t length = 2;
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs && op == 0; i++) {
        if (at(l, l->p, pairs[i]))
            op = JINJA_OP(pairs[i][0], pairs[i][1]);
    }
    if (op == 0) {
        length = 1;
        op = (unsigned char)*l->p;
        if (op == 0 || !strchr("+-/*%~[](){}><=.:|,;", op)) {
            const char *p = l->p;
            br__jinja_next_char(&p);
            return br__jinja_fail(&l->place, "unexpected character '%.*s'", (int)(p - l->p), l->p);
        }
        if (!balance(l, *l->p))
            return false;
    }
    jinja_token token = { .kind = TOKEN_OPERATOR, .op = op, .text = { l->p, length } };
    bool ok = push(l, token);
    move_to(l, l->p + length);
    return ok;
}

static bool read_token(lexer *l)
{
    char c = *l->p;
    if (c >= '0' && c <= '9') {
        const char *end = real_end(l, l->p);
        return end ? read_real(l, end) : read_integer(l);
    }
    if (is_name_char(c))
        return read_name(l);
    return c == '\'' || c == '"' ? read_string(l) : read_operator(l);
}

/* Reads the inside of a tag and its end. */
static bool read_tag(lexer *l, bool is_output)
{
    const char *end = is_output ? "}}" : "%}";
    jinja_token begin = { .kind = is_output ? TOKEN_OUTPUT_BEGIN : TOKEN_BLOCK_BEGIN };
    int line = l->place.line;
    move_to(l, l->p + 2);
    if (l->p < l->end && (*l->p == '-' || *l->p == '+'))
        move_to(l, l->p + 1);
    if (!push(l, begin))
        return false;
    for (;;) {
        const char *after = l->n_closers == 0 ? after_end(l, l->p, end) : NULL;
        if (after) {
            bool ok =
                push(l, (jinja_token){ .kind = is_output ? TOKEN_OUTPUT_END : TOKEN_BLOCK_END });
            move_to(l, after);
            return ok;
        }
        move_to(l, skip_space(l, l->p));
        if (l->p >= l->end) {
            l->place.line = line;
            return br__jinja_fail(&l->place, "a tag has no end \"%s\"", end);
        }
        if ((l->n_closers > 0 || !after_end(l, l->p, end)) && !read_token(l))
            return false;
    }
}

/* ---- The template ---------------------------------------------------------------------------- */

/* Copies the text with "\n" for each newline, and without the last one. */
static bool copy_lines(lexer *l, const char *text, size_t n)
{
    char *copy = br__arena_alloc(l->arena, n + 1);
    l->closers = br__arena_alloc(l->arena, n + 1);
    if (!copy || !l->closers)
        return false;
    size_t length = 0;
    for (size_t i = 0; i < n; i++) {
        if (text[i] != '\r')
            copy[length++] = text[i];
        else if (i + 1 == n || text[i + 1] != '\n')
            copy[length++] = '\n';
    }
    length -= length > 0 && copy[length - 1] == '\n';
    copy[length] = 0;
    l->p = l->begin = copy;
    l->end = copy + length;
    return true;
}

static bool read_all(lexer *l)
{
    while (l->p < l->end) {
        const char *tag = find_tag(l, l->p);
        jinja_text text = { l->p, (size_t)(tag - l->p) };
        bool is_output = tag < l->end && tag[1] == '{';
        if (tag < l->end)
            text = before_tag(l, text, tag + 2 < l->end ? tag[2] : 0, is_output);
        if (!push_data(l, text))
            return false;
        move_to(l, tag);
        if (tag == l->end)
            return true;
        bool ok = tag[1] == '#'                   ? skip_comment(l)
                  : after_word_tag(l, tag, "raw") ? read_raw(l)
                                                  : read_tag(l, is_output);
        if (!ok)
            return false;
    }
    return true;
}

const jinja_token *br__jinja_tokens(br_arena *arena, const char *name, const char *text, size_t n)
{
    lexer l = { .place = { name, 1 }, .arena = arena };
    if (memchr(text, 0, n) || !br__is_utf8(text, n)) {
        br__jinja_fail(&l.place, "the template is not UTF-8 text");
        return NULL;
    }
    bool ok =
        copy_lines(&l, text, n) && read_all(&l) && push(&l, (jinja_token){ .kind = TOKEN_END });
    return ok ? l.tokens : NULL;
}
