/* tokenizers/gguf_merges.c - the merges of BPE in a GGUF file: listed, or implied by the scores of
 * the tokens, as SentencePiece merges. transformers derives the same list. */
#include "tokenizers/gguf_tokenizer.h"

#include "io/io_internal.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char merges_key[] = "tokenizer.ggml.merges", scores_key[] = "tokenizer.ggml.scores";

/* A token's text is split at each of its code points, which takes time that grows with the square
 * of its length. */
enum { LONGEST = 4096 };

/* ---- Errors ---------------------------------------------------------------------------------- */

static const char op[] = "auto_tokenizer";

bool br__gguf_tokenizer_refuse(const br_gguf_vocabulary *v, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    br__refuse_file(op, v->file->path, format, args);
    va_end(args);
    return false;
}

/* ---- Listed merges --------------------------------------------------------------------------- */

bool br__gguf_listed_merges(const br_gguf_vocabulary *v, br_add_merge *add)
{
    int64_t n = br_gguf_list_size(v->file, merges_key);
    for (int64_t i = 0; i < n; i++) {
        size_t length;
        br_text left, right;
        const char *line = br_gguf_list_string(v->file, merges_key, i, &length);
        if (!line)
            return false;
        const char *what = br__split_merge(line, length, &left, &right);
        if (!what && !add(v->t, left, right, i, &what))
            return false;
        if (what)
            return br__gguf_tokenizer_refuse(v, "%s[%" PRId64 "] %s", merges_key, i, what);
    }
    return n >= 0;
}

/* ---- Implied merges -------------------------------------------------------------------------- */

/* A pair of tokens that are merged to another one. */
typedef struct pair {
    double score;        /* of the token */
    int32_t left_length; /* in code points */
    int32_t right_length;
    int64_t word; /* of the token, in the vocabulary */
    br_merge merge;
    uint32_t bytes; /* length of the left one */
} pair;

typedef struct pairs {
    pair *items;
    int64_t count, capacity;
} pairs;

/* Compares by falling score, then by falling lengths, then by the order of the vocabulary. */
static int by_rank(const void *a, const void *b)
{
    const pair *x = a, *y = b;
    if (x->score != y->score)
        return x->score > y->score ? -1 : 1;
    if (x->left_length != y->left_length)
        return x->left_length > y->left_length ? -1 : 1;
    if (x->right_length != y->right_length)
        return x->right_length > y->right_length ? -1 : 1;
    return x->word < y->word ? -1 : x->word > y->word;
}

static bool push(pairs *list, pair p)
{
    pair *items = br__grow_tokens(list->items, &list->capacity, list->count, sizeof *items);
    if (!items)
        return false;
    list->items = items;
    items[list->count++] = p;
    return true;
}

/* Adds the pairs that make the word. */
static bool add_pairs(const br_gguf_vocabulary *v, int64_t word, double score, pairs *list)
{
    const br_word_ids *all = &v->t->all;
    const char *text = br_vocab_word(all->words, word), *end = text + strlen(text), *p = text;
    uint32_t c;
    bool valid;
    if (end - text > LONGEST)
        return br__gguf_tokenizer_refuse(
            v, "token %" PRId64 " has %td bytes, must have at most %d, unless %s lists the merges",
            all->ids[word], end - text, LONGEST, merges_key);
    int64_t length = br__count_chars(text, (size_t)(end - text)), before = 0;
    while (p < end) {
        p += br__char_read(p, end, &c, &valid);
        before++;
        int64_t left = p < end ? br__word_id(all, text, (size_t)(p - text)) : -1;
        int64_t right = left >= 0 ? br__word_id(all, p, (size_t)(end - p)) : -1;
        if (right >= 0 && !push(list, (pair){ .score = score,
                                              .left_length = (int32_t)before,
                                              .right_length = (int32_t)(length - before),
                                              .word = word,
                                              .merge = { (int32_t)left, (int32_t)right,
                                                         (int32_t)all->ids[word], 0 },
                                              .bytes = (uint32_t)(p - text) }))
            return false;
    }
    return true;
}

/* Returns the score of a token. Gemma's scores do not give the order of its merges, but the ids
 * do. Returns NaN and an error if it is no number. */
static double score_of(const br_gguf_vocabulary *v, int64_t id)
{
    if (v->is_gemma)
        return -(double)id;
    double score = br_gguf_list_number(v->file, scores_key, id);
    if (isnan(score) && !br__failed())
        br__gguf_tokenizer_refuse(v, "%s[%" PRId64 "] is NaN, must be a number", scores_key, id);
    return score;
}

static bool collect(const br_gguf_vocabulary *v, pairs *list)
{
    const br_word_ids *all = &v->t->all;
    for (int64_t word = 0; word < br_vocab_size(all->words); word++) {
        double score = score_of(v, all->ids[word]);
        if (br__failed() || !add_pairs(v, word, score, list))
            return false;
    }
    return true;
}

bool br__gguf_implied_merges(const br_gguf_vocabulary *v)
{
    pairs list = { 0 };
    bool ok = collect(v, &list);
    if (ok && list.count > 0)
        qsort(list.items, (size_t)list.count, sizeof *list.items, by_rank);
    for (int64_t i = 0; ok && i < list.count; i++) {
        pair *p = &list.items[i];
        const char *text = br_vocab_word(v->t->all.words, p->word);
        p->merge.rank = (int32_t)i;
        ok = br__char_bpe_set_merge(v->t, p->merge, (br_text){ text, p->bytes },
                                    (br_text){ text + p->bytes, (int64_t)strlen(text) - p->bytes });
    }
    br_free(list.items);
    return ok;
}
