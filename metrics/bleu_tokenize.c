/* metrics/bleu_tokenize.c - the tokenizers of sacrebleu. "13a" is that of NIST's script
 * mteval-v13a: four rules, one after the other, put spaces around punctuation. */
#include "metrics/bleu_internal.h"
#include "tokenizers/tokenizer_internal.h"

#include <string.h>
#include <utf8proc.h>

static void add(br__text *out, char c)
{
    br__text_append(out, &c, 1);
}

/* Reads a character of UTF-8; a byte that is invalid stands for itself. Returns its length. */
static int64_t read_character(const char *text, const char *end, int32_t *c)
{
    utf8proc_ssize_t n = utf8proc_iterate((const utf8proc_uint8_t *)text, end - text, c);
    if (n > 0)
        return n;
    *c = (unsigned char)*text;
    return 1;
}

/* Returns whether Python's str.split() splits at the character. */
static bool is_space(int32_t c)
{
    return br__is_white((uint32_t)c) || (c >= 0x1c && c <= 0x1f);
}

static bool is_cased(int32_t c)
{
    utf8proc_category_t kind = utf8proc_category(c);
    return kind == UTF8PROC_CATEGORY_LU || kind == UTF8PROC_CATEGORY_LL ||
           kind == UTF8PROC_CATEGORY_LT;
}

/* Returns whether the character is part of a word that it stands in, such as an apostrophe:
 * Unicode's property Case_Ignorable. */
static bool is_ignorable(int32_t c)
{
    static const int32_t inside_words[] = { '\'',   '.',    ':',    0xb7,   0x387,  0x55f,
                                            0x5f4,  0x2018, 0x2019, 0x2024, 0x2027, 0xfe13,
                                            0xfe52, 0xfe55, 0xff07, 0xff0e, 0xff1a };
    for (size_t i = 0; i < sizeof inside_words / sizeof *inside_words; i++)
        if (c == inside_words[i])
            return true;
    utf8proc_category_t kind = utf8proc_category(c);
    return kind == UTF8PROC_CATEGORY_MN || kind == UTF8PROC_CATEGORY_ME ||
           kind == UTF8PROC_CATEGORY_CF || kind == UTF8PROC_CATEGORY_LM ||
           kind == UTF8PROC_CATEGORY_SK;
}

/* Returns whether a sigma between `before` and `text` ends a word, and so has another small
 * letter. */
static bool is_final(int32_t before, const char *text, const char *end)
{
    int32_t after = 0;
    while (text < end) {
        text += read_character(text, end, &after);
        if (!is_ignorable(after))
            break;
        after = 0;
    }
    return is_cased(before) && !is_cased(after);
}

static void add_character(br__text *out, int32_t c)
{
    utf8proc_uint8_t bytes[4];
    br__text_append(out, bytes, (size_t)utf8proc_encode_char(c, bytes));
}

/* Adds the text in lower case, as Python's str.lower(). */
static void lower(br__text *out, const char *text, const char *end)
{
    enum {
        CAPITAL_I_WITH_DOT = 0x130,
        DOT_ABOVE = 0x307,
        CAPITAL_SIGMA = 0x3a3,
        FINAL_SIGMA = 0x3c2
    };
    for (int32_t c, before = 0; text < end && !br_failed(); before = is_ignorable(c) ? before : c) {
        int64_t n = read_character(text, end, &c);
        if (n == 1 && c >= 0x80) { /* invalid */
            add(out, *text);
        } else if (c == CAPITAL_I_WITH_DOT) {
            add(out, 'i');
            add_character(out, DOT_ABOVE);
        } else if (c == CAPITAL_SIGMA && is_final(before, text + n, end)) {
            add_character(out, FINAL_SIGMA);
        } else {
            add_character(out, utf8proc_tolower(c));
        }
        text += n;
    }
}

/* ---- 13a ------------------------------------------------------------------------------------- */

/* What is replaced before the rules; the references of HTML only. */
static const struct {
    const char *from, *to;
} replaced[] = { { "<skipped>", "" }, { "-\n", "" },   { "\n", " " },  { "&quot;", "\"" },
                 { "&amp;", "&" },    { "&lt;", "<" }, { "&gt;", ">" } };

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_point(char c)
{
    return c == '.' || c == ',';
}

/* Returns whether the first rule puts spaces around the character: all punctuation of ASCII but
 * . , - and '. */
static bool stands_alone(char c)
{
    return c != 0 && strchr("{|}~[\\]^_` !\"#$%&()*+:;<=>?@/", c) != NULL;
}

/* A rule adds to `out` what it makes of the characters at text + i, and returns their number.
 * `which` selects one of several similar rules. */
typedef int64_t (*rule)(br__text *out, const char *text, int64_t i, int64_t n, int which);

/* Replaces the text by what a rule makes of it. */
static void apply(br__text *b, rule replace, int which)
{
    br__text out = { 0 };
    for (int64_t i = 0; i < (int64_t)b->length && !br_failed();)
        i += replace(&out, b->data, i, (int64_t)b->length, which);
    br_free(b->data);
    *b = out;
}

static int64_t replace_rule(br__text *out, const char *text, int64_t i, int64_t n, int which)
{
    int64_t length = (int64_t)strlen(replaced[which].from);
    if (i + length <= n && memcmp(text + i, replaced[which].from, (size_t)length) == 0) {
        br__text_append(out, replaced[which].to, strlen(replaced[which].to));
        return length;
    }
    add(out, text[i]);
    return 1;
}

enum { ALONE, AFTER_NO_DIGIT, BEFORE_NO_DIGIT, DASH_AFTER_DIGIT, RULES };

/* The rules of two characters consume both, so that a point between them is not met again. */
static int64_t space_rule(br__text *out, const char *text, int64_t i, int64_t n, int which)
{
    char a = text[i], b = i + 1 < n ? text[i + 1] : 0;
    bool two = i + 1 < n;
    if (which == ALONE && stands_alone(a)) {
        br__text_append(out, (char[]){ ' ', a, ' ' }, 3);
        return 1;
    }
    if (two && ((which == AFTER_NO_DIGIT && !is_digit(a) && is_point(b)) ||
                (which == DASH_AFTER_DIGIT && is_digit(a) && b == '-'))) {
        br__text_append(out, (char[]){ a, ' ', b, ' ' }, 4);
        return 2;
    }
    if (two && which == BEFORE_NO_DIGIT && is_point(a) && !is_digit(b)) {
        br__text_append(out, (char[]){ ' ', a, ' ', b }, 4);
        return 2;
    }
    add(out, a);
    return 1;
}

static void tokenize_13a(br__text *text)
{
    bool has_reference =
        (int64_t)text->length > 0 && memchr(text->data, '&', (size_t)(int64_t)text->length);
    int n_replaced = has_reference ? (int)(sizeof replaced / sizeof *replaced) : 3;
    for (int i = 0; i < n_replaced; i++)
        apply(text, replace_rule, i);
    br__text padded = { 0 };
    add(&padded, ' ');
    br__text_append(&padded, text->data, text->length);
    add(&padded, ' ');
    br_free(text->data);
    *text = padded;
    for (int i = 0; i < RULES; i++)
        apply(text, space_rule, i);
}

/* ---- Splitting ------------------------------------------------------------------------------- */

/* Appends the words between spaces, or the characters that are no spaces. */
static int64_t split(const br__text *text, bool characters, br__text *tokens)
{
    int64_t count = 0, length = 0; /* of the present token */
    for (int64_t i = 0; i < (int64_t)text->length && !br_failed();) {
        int32_t c;
        int64_t n = read_character(text->data + i, text->data + (int64_t)text->length, &c);
        bool space = is_space(c);
        if (!space)
            br__text_append(tokens, text->data + i, (size_t)n);
        length = space ? length : length + n;
        i += n;
        if (length > 0 && (space || characters || i == (int64_t)text->length)) {
            add(tokens, 0);
            count++;
            length = 0;
        }
    }
    return br_failed() ? -1 : count;
}

/* Returns the end of the text without the spaces at its end. */
static const char *without_spaces(const char *text)
{
    const char *last = text;
    for (const char *p = text, *end = text + strlen(text); p < end;) {
        int32_t c;
        p += read_character(p, end, &c);
        last = is_space(c) ? last : p;
    }
    return last;
}

int64_t br__bleu_tokenize(const char *text, br_bleu_tokenize tokenize, bool lowercase,
                          br__text *tokens)
{
    br__text own = { 0 };
    const char *end = without_spaces(text);
    if (lowercase)
        lower(&own, text, end);
    else
        br__text_append(&own, text, (size_t)(end - text));
    if (tokenize == BR_BLEU_13A && !br_failed())
        tokenize_13a(&own);
    int64_t n = br_failed() ? -1 : split(&own, tokenize == BR_BLEU_CHAR, tokens);
    br_free(own.data);
    return n;
}
