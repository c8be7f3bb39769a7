/* tokenizers/tokenizer.c - the tokenizer: its vocabulary, added tokens, look-up of tokens. */
#include "tokenizers/tokenizer_internal.h"

#include <inttypes.h>
#include <string.h>

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
    t->lowercase = t->strip_accents = t->clean = t->spread_chinese = t->cleanup = true;
    t->max_word = 100;
    t->unknown = t->classify = t->separator = t->padding = -1;
    for (int role = 0; role <= BR_TOKEN_MASK; role++)
        t->roles[role] = -1;
    t->all.words = br_vocab_new();
    t->inner.words = br_vocab_new();
    t->caches = br__spare_caches_new();
    if (t->all.words && t->inner.words && t->caches && br__tokenizer_set_prefix(t, "##"))
        return t;
    br_tokenizer_free(t);
    return NULL;
}

void br_tokenizer_free(br_tokenizer *t)
{
    if (!BR_END("tokenizer_free", t))
        return;
    br__spare_caches_free(t->caches);
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
    br_free(t->index.items);
    if (t->kind && t->kind->free)
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

br_added_token *br__tokenizer_added(const br_tokenizer *t, int64_t id)
{
    for (int64_t i = 0; i < t->n_added; i++)
        if (t->added[i].id == id)
            return &t->added[i];
    return NULL;
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

void br__tokenizer_no_normalizer(br_tokenizer *t)
{
    t->lowercase = t->strip_accents = t->auto_accents = t->clean = t->spread_chinese = false;
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
