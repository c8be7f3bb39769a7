/* tokenizers/vocab_file.c - reads vocab.txt: the tokens of a WordPiece tokenizer. */
#include "io/io_internal.h"
#include "tokenizers/tokenizer_internal.h"

#include <inttypes.h>
#include <string.h>

BR_DEFINE_DEFAULTS(br_tokenizer)

/* Returns the length of a line without trailing white space, which Hugging Face's fast tokenizer
 * strips, too. */
static size_t stripped(const char *line, size_t length)
{
    for (size_t last; length > 0; length -= last) {
        uint32_t c;
        last = (size_t)br__char_before(line, line + length, &c);
        if (!(br__char_kind(c) & BR_CHAR_SPACE))
            break;
    }
    return length;
}

static bool valid_line(const char *path, const char *line, size_t length, int64_t id)
{
    const char *what = id >= BR_MAX_TOKEN_ID        ? "exceeds the limit of 16777216 tokens"
                       : memchr(line, 0, length)    ? "contains a NUL"
                       : !br__is_utf8(line, length) ? "is not valid UTF-8"
                                                    : NULL;
    if (what)
        br__fail_file(BR_ERROR_FORMAT, "tokenizer_from_vocab", path, "line %" PRId64 " %s", id + 1,
                      what);
    return !what;
}

static bool read_vocab(br_tokenizer *t, const char *path, const char *text, size_t length)
{
    int64_t id = 0;
    for (const char *p = text, *end = text + length; p < end; id++) {
        const char *newline = memchr(p, '\n', (size_t)(end - p));
        size_t line = (size_t)((newline ? newline : end) - p);
        if (!valid_line(path, p, line, id) || !br__tokenizer_add(t, p, stripped(p, line), id))
            return false;
        p += line + (newline != NULL);
    }
    t->model_size = t->size;
    t->model_words = br_vocab_size(t->all.words);
    return true;
}

/* Marks a token of the vocabulary as special, so that it is matched in texts. If there is no such
 * token, sets *id to -1, and fails if it is required. */
static bool special(br_tokenizer *t, const char *path, const char *name, bool required, int64_t *id)
{
    name = name ? name : "";
    *id = *name ? br__word_id(&t->all, name, strlen(name)) : -1;
    if (*id >= 0)
        return br__tokenizer_add_special(t, name, strlen(name), true);
    if (required)
        br__fail_file(BR_ERROR_FORMAT, "tokenizer_from_vocab", path, "there is no token '%s'",
                      br_printable(name));
    return !required;
}

static bool set_options(br_tokenizer *t, const br_tokenizer_options *o)
{
    static const char op[] = "tokenizer_from_vocab";
    if (o->max_input_chars_per_word < 0 || o->max_input_chars_per_word > 1000000)
        return br_fail(BR_ERROR_ARGUMENT, op,
                       "max_input_chars_per_word is %" PRId64 ", must be 0 .. 1000000",
                       o->max_input_chars_per_word);
    if (o->strip_accents > BR_ACCENTS_KEEP)
        return br_fail(BR_ERROR_ARGUMENT, op, "strip_accents is %d, must be one of br_accents",
                       (int)o->strip_accents);
    t->lowercase = o->do_lower_case;
    t->auto_accents = o->strip_accents == BR_ACCENTS_AUTO;
    t->strip_accents =
        o->strip_accents == BR_ACCENTS_AUTO ? t->lowercase : o->strip_accents == BR_ACCENTS_STRIP;
    t->clean = o->clean_text;
    t->spread_chinese = o->tokenize_chinese_chars;
    t->max_word = o->max_input_chars_per_word;
    return true;
}

static bool set_specials(br_tokenizer *t, const char *path, const br_tokenizer_options *o)
{
    if (!special(t, path, o->unk_token, true, &t->unknown) ||
        !special(t, path, o->cls_token, true, &t->classify) ||
        !special(t, path, o->sep_token, true, &t->separator) ||
        !special(t, path, o->pad_token, false, &t->padding) ||
        !special(t, path, o->mask_token, false, &t->roles[BR_TOKEN_MASK]))
        return false;
    t->roles[BR_TOKEN_PAD] = t->padding;
    br__tokenizer_default_roles(t);
    return true;
}

br_tokenizer *br__tokenizer_read_words(const char *path, const br_tokenizer_options *options)
{
    size_t length;
    br_tokenizer *t = br__tokenizer_new();
    char *text = t ? br__read_text("tokenizer_from_vocab", path, UINT64_MAX, &length) : NULL;
    if (t)
        t->kind = &br__word_pieces;
    bool ok = text && set_options(t, options) && read_vocab(t, path, text, length);
    br_free(text);
    if (ok)
        return t;
    br_tokenizer_free(t);
    return NULL;
}

br_tokenizer *br_tokenizer_from_vocab(const char *path, const br_tokenizer_options *options)
{
    options = BR_OPTIONS_OF("tokenizer_from_vocab", br_tokenizer, options);
    br_tokenizer *t = br__tokenizer_read_words(path, options);
    if (t && set_specials(t, path, options) && br__tokenizer_index(t) &&
        br__tokenizer_finish_added(t))
        return t;
    br_tokenizer_free(t);
    return NULL;
}
