/* tokenizers/tokenizer.c - the tokenizer: its vocabulary, vocab.txt, look-up of tokens, decoding.
 */
#include "io/io_internal.h"
#include "tokenizers/tokenizer_internal.h"

#include <inttypes.h>
#include <string.h>

BR_DEFINE_DEFAULTS(br_tokenizer)

/* ---- Words and their ids --------------------------------------------------------------------- */

static bool word_ids_set(br_word_ids *words, const char *text, size_t length, int64_t id)
{
    int64_t word = br_vocab_add(words->words, text, length);
    if (word < 0)
        return false;
    int64_t *ids = br__grow_tokens(words->ids, &words->capacity, word, sizeof *ids);
    if (!ids)
        return false;
    words->ids = ids;
    ids[word] = id;
    if (length > words->longest)
        words->longest = length;
    return true;
}

int64_t br__word_id(const br_word_ids *words, const char *text, size_t length)
{
    int64_t word = br_vocab_find(words->words, text, length);
    return word < 0 ? -1 : words->ids[word];
}

/* ---- Construction ---------------------------------------------------------------------------- */

br_tokenizer *br__tokenizer_new(void)
{
    br_tokenizer *t = br_failed() ? NULL : BR_NEW(br_tokenizer);
    if (!t)
        return NULL;
    t->kind = &br__word_pieces;
    t->lowercase = t->strip_accents = t->clean = t->spread_chinese = t->cleanup = true;
    t->max_word = 100;
    t->unknown = t->classify = t->separator = t->padding = -1;
    for (int role = 0; role <= BR_TOKEN_MASK; role++)
        t->roles[role] = -1;
    t->all.words = br_vocab_new();
    t->inner.words = br_vocab_new();
    if (t->all.words && t->inner.words && br__tokenizer_set_prefix(t, "##"))
        return t;
    br_tokenizer_free(t);
    return NULL;
}

void br_tokenizer_free(br_tokenizer *t)
{
    if (!BR_END("tokenizer_free", t))
        return;
    br_vocab_free(t->all.words);
    br_vocab_free(t->inner.words);
    br_free(t->all.ids);
    br_free(t->inner.ids);
    br_free(t->prefix);
    br_free(t->unknown_text);
    br_free(t->tokens);
    for (int64_t i = 0; i < t->n_added; i++)
        br_free(t->added[i].pattern);
    br_free(t->added);
    if (t->kind->free)
        t->kind->free(t->model);
    BR_FREE(t);
}

bool br__tokenizer_set_prefix(br_tokenizer *t, const char *prefix)
{
    br_free(t->prefix);
    t->prefix = br_strdup(prefix);
    return t->prefix;
}

bool br__tokenizer_add(br_tokenizer *t, const char *token, size_t length, int64_t id)
{
    size_t prefix = strlen(t->prefix);
    if (!word_ids_set(&t->all, token, length, id))
        return false;
    if (t->size <= id)
        t->size = id + 1;
    return prefix == 0 || length < prefix || memcmp(token, t->prefix, prefix) != 0 ||
           word_ids_set(&t->inner, token + prefix, length - prefix, id);
}

bool br__tokenizer_add_special(br_tokenizer *t, const char *token, size_t length, bool special)
{
    int64_t word = br_vocab_find(t->all.words, token, length);
    br_added_token *before = br__tokenizer_added(t, t->all.ids[word]);
    if (before) {
        before->special |= special;
        return true;
    }
    br_added_token *added = br__grow(t->added, &t->added_capacity, t->n_added, sizeof *added);
    if (!added)
        return false;
    t->added = added;
    t->added[t->n_added++] = (br_added_token){
        .text = br_vocab_word(t->all.words, word),
        .id = t->all.ids[word],
        .special = special,
    };
    return true;
}

int64_t br__tokenizer_next_id(const br_tokenizer *t)
{
    int64_t next = t->model_words > 0 ? t->model_words : t->size;
    for (int64_t i = 0; i < t->n_added; i++)
        if (t->added[i].id >= next)
            next = t->added[i].id + 1;
    return next;
}

bool br__tokenizer_index(br_tokenizer *t)
{
    br_free(t->tokens);
    t->tokens = br_calloc((size_t)t->size, sizeof *t->tokens);
    if (!t->tokens)
        return false;
    for (int64_t word = 0; word < br_vocab_size(t->all.words); word++)
        if (t->all.ids[word] >= 0)
            t->tokens[t->all.ids[word]] = br_vocab_word(t->all.words, word);
    return true;
}

/* ---- The unknown token ----------------------------------------------------------------------- */

bool br__tokenizer_set_unknown(br_tokenizer *t, const char *text)
{
    int64_t id = text ? br__word_id(&t->all, text, strlen(text)) : -1;
    t->unknown = id < t->model_size ? id : -1;
    br_free(t->unknown_text);
    t->unknown_text = text && t->unknown < 0 ? br_strdup(text) : NULL;
    return !text || t->unknown >= 0 || t->unknown_text;
}

bool br__tokenizer_fail_unknown(const br_tokenizer *t, const char *what)
{
    static const char op[] = "tokenizer_encode";
    if (t->unknown_text)
        return br_fail(BR_ERROR_ARGUMENT, op,
                       "the vocabulary has no token for %s of the text, and the unknown token "
                       "'%s' is not in the vocabulary",
                       what, br_printable(t->unknown_text));
    return br_fail(BR_ERROR_ARGUMENT, op,
                   "the vocabulary has no token for %s of the text, and the tokenizer has no "
                   "unknown token",
                   what);
}

/* ---- Added and special tokens ---------------------------------------------------------------- */

void br__tokenizer_drop_added(br_tokenizer *t)
{
    for (int64_t i = 0; i < t->n_added; i++) {
        const char *text = t->added[i].text;
        int64_t word = br_vocab_find(t->all.words, text, strlen(text));
        if (t->model_words > 0 ? word >= t->model_words : t->added[i].id >= t->model_size)
            t->all.ids[word] = -1;
        br_free(t->added[i].pattern);
    }
    t->n_added = 0;
    t->size = t->model_size;
}

void br__tokenizer_default_roles(br_tokenizer *t)
{
    static const char end[] = "<|endoftext|>";
    static const char *const names[][BR_TOKEN_MASK + 1] = {
        { NULL, NULL, "[UNK]", "[SEP]", "[PAD]", "[CLS]", "[MASK]" },
        { end, end, end, NULL, NULL, NULL, NULL },
        { NULL, "</s>", "<unk>", NULL, "<pad>", NULL, NULL },
    };
    int kind = t->kind == &br__word_pieces ? 0 : t->kind == &br__byte_level ? 1 : 2;
    if (t->roles[BR_TOKEN_CLS] < 0)
        t->roles[BR_TOKEN_CLS] = t->classify;
    if (t->roles[BR_TOKEN_SEP] < 0)
        t->roles[BR_TOKEN_SEP] = kind == 2 ? -1 : t->separator;
    if (t->roles[BR_TOKEN_UNK] < 0)
        t->roles[BR_TOKEN_UNK] = t->unknown;
    for (int role = 0; role <= BR_TOKEN_MASK; role++)
        if (t->roles[role] < 0 && names[kind][role])
            t->roles[role] = br__word_id(&t->all, names[kind][role], strlen(names[kind][role]));
}

int64_t br_tokenizer_special_id(const br_tokenizer *t, br_special_token role)
{
    if (!br__required("tokenizer_special_id", "tokenizer", t))
        return -1;
    if ((unsigned)role <= BR_TOKEN_MASK)
        return t->roles[role];
    br_fail(BR_ERROR_ARGUMENT, "tokenizer_special_id",
            "role is %d, must be one of br_special_token", (int)role);
    return -1;
}

/* ---- vocab.txt ------------------------------------------------------------------------------- */

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

/* ---- Ids and tokens -------------------------------------------------------------------------- */

int64_t br_tokenizer_size(const br_tokenizer *t)
{
    return BR_LIVE("tokenizer_size", t) ? t->size : 0;
}

int64_t br_tokenizer_id(const br_tokenizer *t, const char *token, int64_t length)
{
    if (!br__required("tokenizer_id", "tokenizer", t) ||
        !br__required("tokenizer_id", "token", token))
        return -1;
    int64_t id = br__word_id(&t->all, token, length < 0 ? strlen(token) : (size_t)length);
    if (id < 0)
        br_fail(BR_ERROR_INDEX, "tokenizer_id", "there is no token '%s'", br_printable(token));
    return id;
}

const char *br_tokenizer_model(const br_tokenizer *t)
{
    return BR_LIVE("tokenizer_model", t) ? t->kind->name : NULL;
}

int64_t br_tokenizer_implied(const br_tokenizer *t)
{
    return BR_LIVE("tokenizer_implied", t) ? t->implied : 0;
}

bool br_tokenizer_has_id(const br_tokenizer *t, int64_t id)
{
    return BR_LIVE("tokenizer_has_id", t) && id >= 0 && id < t->size && t->tokens[id];
}

const char *br_tokenizer_token(const br_tokenizer *t, int64_t id)
{
    if (br_failed())
        return NULL;
    if (BR_LIVE("tokenizer_token", t) && id >= 0 && id < t->size && t->tokens[id])
        return t->tokens[id];
    return br_fail(BR_ERROR_INDEX, "tokenizer_token",
                   "no token has id %" PRId64 " (ids are 0 .. %" PRId64 ")", id,
                   br_tokenizer_size(t) - 1);
}

/* ---- Decoding -------------------------------------------------------------------------------- */

/* Returns true if clean-up removes the space before this token. */
static bool removes_space_before(const char *token)
{
    static const char *const marks[] = { ".", "?", "!", ",", "n't", "'m", "'s", "'ve", "'re" };
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++)
        if (strncmp(token, marks[i], strlen(marks[i])) == 0)
            return true;
    return false;
}

bool br__is_special(const br_tokenizer *t, int64_t id)
{
    for (int64_t i = 0; i < t->n_added; i++)
        if (t->added[i].id == id && t->added[i].special)
            return true;
    return false;
}

bool br__is_skipped(const br_tokenizer *t, int64_t id)
{
    const br_added_token *a = br__tokenizer_added(t, id);
    return a && a->special && strcmp(a->pattern, a->text) == 0;
}

/* Writes the text to `out` unless that is NULL. Returns its length, or -1 and an error. */
static int64_t join(const br_tokenizer *t, int64_t n, const int64_t *ids, bool skip, char *out)
{
    size_t prefix = strlen(t->prefix);
    int64_t length = 0;
    for (int64_t i = 0, first = 1; i < n; i++) {
        const char *token = br_tokenizer_token(t, ids[i]);
        if (!token)
            return -1;
        if (skip && br__is_skipped(t, ids[i]))
            continue;
        bool inner = !first && !t->spaced && strncmp(token, t->prefix, prefix) == 0;
        bool cleaned = t->cleanup && !t->spaced && removes_space_before(token);
        bool space = !first && !inner && !cleaned;
        token += inner ? prefix : 0;
        if (out) {
            out[length] = ' ';
            strcpy(out + length + space, token);
        }
        length += space + (int64_t)strlen(token);
        first = 0;
    }
    return length;
}

static char *decode_pieces(const br_tokenizer *t, int64_t n, const int64_t *ids, bool skip_special,
                           int64_t *length)
{
    *length = join(t, n, ids, skip_special, NULL);
    char *text = *length < 0 ? NULL : br_malloc((size_t)*length + 1);
    if (text) {
        text[0] = 0;
        join(t, n, ids, skip_special, text);
    }
    return text;
}

/* Removes the spaces at the ends of every occurrence of `pattern`, which begins with a space.
 * Returns the new length of the text. */
static int64_t remove_spaces(char *text, int64_t length, const char *pattern)
{
    int64_t n = (int64_t)strlen(pattern), to = 0;
    for (int64_t i = 0; i < length;) {
        bool found = i + n <= length && memcmp(text + i, pattern, (size_t)n) == 0;
        int64_t kept = found ? n - 1 - (pattern[n - 1] == ' ') : 1;
        memmove(text + to, text + i + found, (size_t)kept);
        to += kept;
        i += found ? n : 1;
    }
    text[to] = 0;
    return to;
}

/* Cleans a text up as clean_up_tokenization_spaces of transformers does: one pattern after the
 * other, so that " n ' t" becomes "n't". */
static int64_t clean_up(char *text, int64_t length)
{
    static const char *const patterns[] = { " .",   " ?",  " !",  " ,",   " ' ",
                                            " n't", " 'm", " 's", " 've", " 're" };
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++)
        length = remove_spaces(text, length, patterns[i]);
    return length;
}

const br_tokenizer_kind br__word_pieces = { .name = "WordPiece",
                                            .tokenize = br__tokenize_words,
                                            .decode = decode_pieces,
                                            .normalize = br__normalize_words };

char *br_tokenizer_decode(const br_tokenizer *t, int64_t n, const int64_t *ids, bool skip_special)
{
    return br_tokenizer_decode_text(t, n, ids, skip_special, NULL);
}

char *br_tokenizer_decode_text(const br_tokenizer *t, int64_t n, const int64_t *ids,
                               bool skip_special, int64_t *length)
{
    int64_t found = 0;
    if (length)
        *length = 0;
    if (br_failed())
        return NULL;
    if (!t || n < 0 || (n > 0 && !ids))
        return br_fail(BR_ERROR_ARGUMENT, "tokenizer_decode",
                       "tokenizer is %s, n is %" PRId64
                       ", ids is %s: tokenizer and ids must not be NULL, n must not be negative",
                       t ? "not NULL" : "NULL", n, ids ? "not NULL" : "NULL");
    char *text = (t->spaced ? decode_pieces : t->kind->decode)(t, n, ids, skip_special, &found);
    if (text && t->cleans_up)
        found = clean_up(text, found);
    if (text && length)
        *length = found;
    return text;
}
