/* tokenizers/bpe_files.c - reads a byte-level BPE tokenizer from vocab.json and merges.txt, with
 * functions that the reader of tokenizer.json shares. */
#include "io/io_internal.h"
#include "tokenizers/bpe_internal.h"
#include "tokenizers/tokenizer_json_internal.h"

#include <inttypes.h>
#include <string.h>

BR_DEFINE_DEFAULTS(br_bpe)

static const char op[] = "tokenizer_from_bpe";

/* ---- Merges ---------------------------------------------------------------------------------- */

bool br__bpe_is_qwen(const br_tokenizer *t)
{
    if (t->kind != &br__byte_level)
        return false;
    const br_bpe *bpe = br__bpe_of(t);
    return bpe->form == BR_FORM_NFC && bpe->is_gpt4 && bpe->most_digits == 1;
}

bool br__bpe_is_neox(const br_tokenizer *t)
{
    if (t->kind != &br__byte_level)
        return false;
    const br_bpe *bpe = br__bpe_of(t);
    return bpe->form == BR_FORM_NFC && !bpe->is_gpt4 && bpe->most_digits == 0;
}

bool br__bpe_begin(br_tokenizer *t)
{
    br_bpe *bpe = t->model = br_calloc(1, sizeof *bpe);
    t->kind = &br__byte_level;
    t->model_size = t->size;
    t->model_words = br_vocab_size(t->all.words);
    if (!bpe)
        return false;
    for (unsigned c = 0; c < sizeof bpe->classes; c++)
        bpe->classes[c] = (uint8_t)br__bits_of_char(&br__bpe_chars, c);
    for (int byte = 0; byte < 256; byte++) {
        char text[4];
        int n = br__char_write(br__bpe_char((unsigned char)byte), text);
        bpe->byte_ids[byte] = br__word_id(&t->all, text, (size_t)n);
        /* The unknown token stands for such a byte, and merges may name it: do not cut. */
        if (bpe->byte_ids[byte] < 0)
            memset(bpe->joins, 0xff, sizeof bpe->joins);
    }
    return br__merges_begin(&bpe->merges);
}

/* Returns the byte that a code point of a token represents, or 0 if it represents none: no word
 * has such a token. */
static unsigned char byte_at(const char *p, const char *end)
{
    uint32_t c;
    bool valid;
    br__char_read(p, end, &c, &valid);
    int byte = br__bpe_byte(c);
    return byte < 0 ? 0 : (unsigned char)byte;
}

/* Marks the bytes that a merge of two tokens joins. */
static void mark_join(br_bpe *bpe, br_text left, br_text right)
{
    uint32_t c;
    if (left.length == 0 || right.length == 0)
        return;
    const char *end = left.data + left.length;
    unsigned char a = byte_at(end - br__char_before(left.data, end, &c), end);
    unsigned char b = byte_at(right.data, right.data + right.length);
    bpe->joins[a][b / 8] |= (uint8_t)(1 << b % 8);
}

bool br__bpe_add_merge(br_tokenizer *t, br_text left, br_text right, int64_t rank,
                       const char **what)
{
    br_merge merge;
    if (!br__merge_of_texts(t, left, right, rank, &merge, what))
        return false;
    if (*what)
        return true;
    mark_join(br__bpe_of(t), left, right);
    return br__merges_set(&br__bpe_of(t)->merges, merge);
}

/* ---- merges.txt ------------------------------------------------------------------------------ */

static bool read_merge(br_tokenizer *t, const char *path, const char *line, size_t length,
                       int64_t number, int64_t rank)
{
    br_text left, right;
    const char *what = br__split_merge(line, length, &left, &right);
    if (!what && !br__bpe_add_merge(t, left, right, rank, &what))
        return false;
    if (what)
        br__fail_file(BR_ERROR_FORMAT, op, path, "line %" PRId64 " %s", number, what);
    return !what;
}

static bool read_merges(br_tokenizer *t, const char *path)
{
    static const char version[] = "#version";
    size_t length;
    char *text = br__read_text(op, path, BR_MAX_MERGES_BYTES, &length);
    int64_t number = 0, rank = 0;
    bool ok = true;
    if (!text)
        return false;
    for (const char *p = text, *end = text + length; ok && p < end;) {
        const char *newline = memchr(p, '\n', (size_t)(end - p));
        const char *stop = newline ? newline : end;
        size_t n = (size_t)(stop - p) - (stop > p && stop[-1] == '\r');
        number++;
        if (n < strlen(version) || memcmp(p, version, strlen(version)) != 0)
            ok = read_merge(t, path, p, n, number, rank++);
        p = stop + 1;
    }
    br_free(text);
    return ok;
}

/* ---- vocab.json ------------------------------------------------------------------------------ */

static bool read_vocab(br_tokenizer *t, const char *path)
{
    json_t *vocab = br__tokenizer_json(op, path);
    bool ok = vocab && br__tokenizer_json_vocab(t, path, vocab);
    json_decref(vocab);
    return ok;
}

/* Marks a token of the vocabulary as special, so that it is matched in raw text. If the vocabulary
 * has no such token, sets *id to -1, and fails if it is required. */
static bool special(br_tokenizer *t, const char *path, const char *token, bool required,
                    int64_t *id)
{
    *id = br__word_id(&t->all, token, strlen(token));
    if (*id < 0 && required)
        return br__fail_file(BR_ERROR_FORMAT, op, path, "there is no token '%s'",
                             br_printable(token));
    return *id < 0 || br__tokenizer_add_special(t, token, strlen(token), true);
}

static bool set_options(br_tokenizer *t, const char *path, const br_bpe_options *o)
{
    const char *end = o->end_of_text ? o->end_of_text : "<|endoftext|>";
    int64_t id;
    if (o->add_prefix_space && o->trim_offsets)
        return br_fail(BR_ERROR_ARGUMENT, op,
                       "add_prefix_space and trim_offsets are mutually exclusive");
    if (!special(t, path, end, o->end_of_text, &id))
        return false;
    t->padding = id;
    if (o->pad_token && !special(t, path, o->pad_token, true, &t->padding))
        return false;
    if (o->pad_token)
        t->roles[BR_TOKEN_PAD] = t->padding;
    t->roles[BR_TOKEN_BOS] = t->roles[BR_TOKEN_EOS] = t->roles[BR_TOKEN_UNK] = id;
    br__bpe_of(t)->prefix_space = o->add_prefix_space;
    t->trim_offsets = o->trim_offsets;
    return true;
}

br_tokenizer *br__tokenizer_read_bytes(const char *vocab, const char *merges)
{
    br_tokenizer *t = br__tokenizer_new();
    if (t && br__tokenizer_set_prefix(t, "") && read_vocab(t, vocab) && br__tokenizer_index(t) &&
        br__tokenizer_check_ids(t, vocab) && br__bpe_begin(t) && read_merges(t, merges))
        return t;
    br_tokenizer_free(t);
    return NULL;
}

br_tokenizer *br_tokenizer_from_bpe(const char *vocab, const char *merges,
                                    const br_bpe_options *options)
{
    options = BR_OPTIONS_OF(op, br_bpe, options);
    br_tokenizer *t = br__tokenizer_read_bytes(vocab, merges);
    if (t && set_options(t, vocab, options) && br__tokenizer_finish_added(t))
        return t;
    br_tokenizer_free(t);
    return NULL;
}
