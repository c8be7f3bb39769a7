/* tokenizers/bpe_train.c - learns a byte-level BPE from texts, and writes its tokenizer.json. */
#include "tokenizers/bpe_train.h"
#include "io/io_internal.h"
#include "io/json.h"
#include "tokenizers/bpe_internal.h"
#include "tokenizers/bpe_split.h"

#include <brasa/tokenizers.h>
#include <inttypes.h>
#include <string.h>

BR_DEFINE_DEFAULTS(br_bpe_train)

static const char op[] = "bpe_train";

/* ---- Words ----------------------------------------------------------------------------------- */

static bool count_word(br_counted_words *w, const char *text, size_t length)
{
    int64_t before = br_vocab_size(w->words), id = br_vocab_add(w->words, text, length);
    if (id < 0)
        return false;
    if (id == before) {
        int64_t *counts = br__grow(w->counts, &w->capacity, before, sizeof *counts);
        if (!counts)
            return false;
        w->counts = counts;
        counts[id] = 0;
    }
    w->counts[id]++;
    return true;
}

/* Returns where the first byte that is not UTF-8 is, or NULL. */
static const char *invalid_part(const char *p, const char *end)
{
    for (bool valid; p < end;) {
        uint32_t c;
        int length = br__char_read(p, end, &c, &valid);
        if (!valid || c == 0)
            return p;
        p += length;
    }
    return NULL;
}

bool br__count_words(br_counted_words *w, br_text text)
{
    const char *end = text.data + text.length, *wrong = invalid_part(text.data, end);
    if (wrong)
        return br_fail(BR_ERROR_ARGUMENT, op, "byte %td of a text %s, must be UTF-8 without U+0000",
                       wrong - text.data, *wrong ? "is not UTF-8" : "is U+0000");
    br_bpe bpe = { 0 }; /* the pattern of GPT-2 */
    for (unsigned c = 0; c < sizeof bpe.classes; c++)
        bpe.classes[c] = (uint8_t)br__bits_of_char(&br__bpe_chars, c);
    splitter s = { .bpe = &bpe, .end = end, .valid = true };
    for (br_place at = { text.data, 0 }, over; at.p < end; at = over) {
        over = word_end(&s, at, false);
        if (!count_word(w, at.p, (size_t)(over.p - at.p)))
            return false;
    }
    return true;
}

void br__counted_words_end(br_counted_words *w)
{
    br_vocab_free(w->words);
    br_free(w->counts);
}

/* ---- tokenizer.json -------------------------------------------------------------------------- */

/* Returns {"token": id, ...}; NULL if an allocation fails. */
static json_t *vocab_json(const br_vocab *tokens)
{
    json_t *vocab = json_object();
    bool ok = vocab != NULL;
    for (int64_t i = 0; ok && i < br_vocab_size(tokens); i++)
        ok = json_object_set_new(vocab, br_vocab_word(tokens, i), json_integer(i)) == 0;
    if (ok)
        return vocab;
    json_decref(vocab);
    return NULL;
}

static json_t *merges_json(const br_learned_bpe *learned)
{
    json_t *merges = json_array();
    bool ok = merges != NULL;
    for (int64_t i = 0; ok && i < learned->n_merges; i++) {
        const br_learned_merge *m = &learned->merges[i];
        if (!m->replaced)
            ok = json_array_append_new(merges,
                                       json_pack("[s, s]", br_vocab_word(learned->tokens, m->left),
                                                 br_vocab_word(learned->tokens, m->right))) == 0;
    }
    if (ok)
        return merges;
    json_decref(merges);
    return NULL;
}

static json_t *special_json(const br_learned_bpe *learned, const br_bpe_train_options *o)
{
    json_t *list = json_array();
    bool ok = list != NULL;
    for (int64_t i = 0; ok && i < o->n_special_tokens; i++) {
        const char *token = o->special_tokens[i];
        json_int_t id = br_vocab_find(learned->tokens, token, strlen(token));
        ok =
            json_array_append_new(list, json_pack("{s:I, s:s, s:b, s:b, s:b, s:b, s:b}", "id", id,
                                                  "content", token, "single_word", 0, "lstrip", 0,
                                                  "rstrip", 0, "normalized", 0, "special", 1)) == 0;
    }
    if (ok)
        return list;
    json_decref(list);
    return NULL;
}

/* Returns a part of the type ByteLevel. Only the pre-tokenizer adds spaces. */
static json_t *byte_level(bool adds_space, bool trims)
{
    return json_pack("{s:s, s:b, s:b, s:b}", "type", "ByteLevel", "add_prefix_space", adds_space,
                     "trim_offsets", trims, "use_regex", 1);
}

static char *tokenizer_text(const br_learned_bpe *learned, const br_bpe_train_options *o)
{
    json_t *model = json_pack(
        "{s:s, s:n, s:n, s:n, s:n, s:b, s:b, s:b, s:o, s:o}", "type", "BPE", "dropout", "unk_token",
        "continuing_subword_prefix", "end_of_word_suffix", "fuse_unk", 0, "byte_fallback", 0,
        "ignore_merges", 0, "vocab", vocab_json(learned->tokens), "merges", merges_json(learned));
    json_t *root =
        json_pack("{s:s, s:n, s:n, s:o, s:n, s:o, s:o, s:o, s:o}", "version", "1.0", "truncation",
                  "padding", "added_tokens", special_json(learned, o), "normalizer",
                  "pre_tokenizer", byte_level(false, true), "post_processor",
                  byte_level(true, false), "decoder", byte_level(true, true), "model", model);
    char *text = root ? br__json_text(op, "tokenizer.json", root) : NULL;
    if (!root)
        br_fail(BR_ERROR_MEMORY, op, "cannot allocate memory for tokenizer.json");
    json_decref(root);
    return text;
}

/* ---- Training -------------------------------------------------------------------------------- */

static bool check_options(const br_bpe_train_options *o)
{
    if (o->n_special_tokens < 0 || (o->n_special_tokens > 0 && !o->special_tokens))
        return br_fail(
            BR_ERROR_ARGUMENT, op, "n_special_tokens is %" PRId64 "%s", o->n_special_tokens,
            o->n_special_tokens < 0 ? ", must not be negative" : ", but special_tokens is NULL");
    for (int64_t i = 0; i < o->n_special_tokens; i++) {
        const char *token = o->special_tokens[i];
        if (!token || !*token || invalid_part(token, token + strlen(token)))
            return br_fail(BR_ERROR_ARGUMENT, op,
                           "special_tokens[%" PRId64 "] is %s, must be a text of UTF-8", i,
                           token ? *token ? "not UTF-8" : "empty" : "NULL");
    }
    int64_t least = 256 + o->n_special_tokens;
    if (o->vocab_size < least || o->vocab_size > INT32_MAX)
        return br_fail(BR_ERROR_ARGUMENT, op,
                       "vocab_size is %" PRId64 ", must be %" PRId64
                       " .. 2147483647: 256 bytes and %" PRId64 " special tokens",
                       o->vocab_size, least, o->n_special_tokens);
    return o->min_frequency >= 0 ||
           br_fail(BR_ERROR_ARGUMENT, op, "min_frequency is %" PRId64 ", must not be negative",
                   o->min_frequency);
}

char *br_bpe_train(int64_t n, const br_text *texts, const br_bpe_train_options *options)
{
    options = BR_OPTIONS_OF(op, br_bpe_train, options);
    if (br_failed() || !check_options(options))
        return NULL;
    if (n < 0)
        return br_fail(BR_ERROR_ARGUMENT, op, "n is %" PRId64 ", must not be negative", n);
    if (n > 0 && !br__required(op, "texts", texts))
        return NULL;
    br_counted_words words = { .words = br_vocab_new() };
    bool ok = words.words != NULL;
    for (int64_t i = 0; ok && i < n; i++) {
        br_text text = texts[i];
        if (text.length != 0 && !br__required(op, "texts[].data", text.data))
            break;
        if (text.length < 0)
            text.length = (int64_t)strlen(text.data);
        ok = br__count_words(&words, text);
    }
    br_learned_bpe learned = { 0 };
    char *text = NULL;
    if (!br_failed() && br__bpe_learn(&learned, &words, options))
        text = tokenizer_text(&learned, options);
    br__learned_bpe_end(&learned);
    br__counted_words_end(&words);
    return text;
}
