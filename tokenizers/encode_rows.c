/* tokenizers/encode_rows.c - encodes many texts to their ids alone, and to the tensors of a batch.
 */
#include "tensor/min_max.h"
#include "tokenizers/encode_internal.h"

#include <inttypes.h>
#include <string.h>

static const char op[] = "tokenizer_encode";

/* ---- Ids alone ------------------------------------------------------------------------------- */

/* The numbers of tokens of each text that a row has. */
typedef struct kept {
    int64_t n[2];
} kept;

/* The ids of texts or pairs, one row for each. */
typedef struct rows {
    const br_tokenizer *t;
    const br_encode_options *o;
    br_layout layout;
    br_token_list ids;  /* of all rows */
    br_token_list pair; /* of the current second text, before truncation */
    int64_t *starts;    /* where each row starts, and where the last one ends */
    kept *kept;         /* one for each row */
} rows;

static bool push_ids(br_token_list *list, const int64_t *ids, int64_t n)
{
    if (!br__reserve_ids(list, n))
        return false;
    if (n > 0)
        memcpy(list->ids + list->count, ids, (size_t)n * sizeof *ids);
    list->count += n;
    return true;
}

static bool read_ids(const rows *r, const char *name, const br_text *text, br_token_list *list)
{
    return br__check_text(name, text) && r->t->kind->tokenize(r->t, text, r->o, list);
}

/* Truncates the texts of a row: the first one, whose ids are the last ones in the list, from
 * `begin` on, and the second one. Sets their numbers of ids. */
static bool truncate_row(rows *r, int64_t begin, kept *k)
{
    int64_t first = r->ids.count - begin, second = r->pair.count;
    *k = (kept){ { first, second } };
    if (!br__fit_texts(r->o, &r->layout, k->n) || !br__check_stride(r->o, first, k->n[0]) ||
        !br__check_stride(r->o, second, k->n[1]))
        return false;
    if (r->o->truncate_left && k->n[0] < first)
        memmove(r->ids.ids + begin, r->ids.ids + begin + first - k->n[0],
                (size_t)k->n[0] * sizeof *r->ids.ids);
    r->ids.count = begin + k->n[0];
    return true;
}

/* Appends a row. The ids of the first text are stored where they stay, which saves a copy. */
static bool push_row(rows *r, int64_t row, const br_text *text, const br_text *pair)
{
    const br_segment *g = r->layout.segments, *end = g + r->layout.n;
    for (; g->special >= 0; g++)
        if (!push_ids(&r->ids, &g->special, 1))
            return false;
    int64_t begin = r->ids.count;
    kept *k = &r->kept[row];
    r->pair.count = 0;
    if (!read_ids(r, "a text", text, &r->ids) || (pair && !read_ids(r, "a pair", pair, &r->pair)) ||
        !truncate_row(r, begin, k))
        return false;
    int64_t removed = r->o->truncate_left ? r->pair.count - k->n[1] : 0;
    for (g++; g < end; g++)
        if (!(g->special >= 0 ? push_ids(&r->ids, &g->special, 1)
                              : push_ids(&r->ids, r->pair.ids + removed, k->n[1])))
            return false;
    r->starts[row + 1] = r->ids.count;
    return true;
}

/* Checks n texts and encodes each one to a row. The caller frees the rows in any case. */
static bool encode_rows(rows *r, int64_t n, const br_text *texts, const br_text *pairs)
{
    if (!br__set_layout(r->t, r->o, pairs, &r->layout))
        return false;
    br_word_cache *cache = br__word_cache_take(r->t->caches);
    r->ids.cache = r->pair.cache = cache;
    r->starts = br_calloc((size_t)n + 1, sizeof *r->starts);
    r->kept = br_malloc((size_t)n * sizeof *r->kept);
    bool ok = cache && r->starts && r->kept;
    for (int64_t i = 0; ok && i < n; i++)
        ok = push_row(r, i, &texts[i], pairs ? &pairs[i] : NULL);
    br__word_cache_give(r->t->caches, cache);
    return ok;
}

static void free_rows(rows *r)
{
    br__free_tokens(&r->ids);
    br__free_tokens(&r->pair);
    br_free(r->starts);
    br_free(r->kept);
}

static bool check_texts(const char *name, int64_t n, const br_text *texts)
{
    return (n >= 0 && (n == 0 || texts)) ||
           br_fail(BR_ERROR_ARGUMENT, name,
                   "n is %" PRId64 " and texts is %s: n must be at least "
                   "0, and texts must not be NULL unless n is 0",
                   n, texts ? "not NULL" : "NULL");
}

static bool check_unpadded(const br_encode_options *o)
{
    return (o->padding == BR_PAD_NONE && o->pad_to_multiple_of == 0) ||
           br_fail(BR_ERROR_ARGUMENT, "tokenizer_encode_ids",
                   "padding is %d and pad_to_multiple_of is %" PRId64
                   ", must be BR_PAD_NONE and 0: call br_tokenizer_encode_batch() to pad",
                   (int)o->padding, o->pad_to_multiple_of);
}

br_token_ids *br_tokenizer_encode_ids(const br_tokenizer *t, int64_t n, const br_text *texts,
                                      const br_text *pairs, const br_encode_options *options)
{
    const br_encode_options *o = BR_OPTIONS_OF(op, br_encode, options);
    if (!br__check_encoding(t, o) || !check_texts("tokenizer_encode_ids", n, texts) ||
        !check_unpadded(o))
        return NULL;
    rows r = { .t = t, .o = o };
    br_token_ids *ids = br_malloc(sizeof *ids);
    if (ids && encode_rows(&r, n, texts, pairs) && br__reserve_ids(&r.ids, 1)) {
        *ids = (br_token_ids){ .n = n, .starts = r.starts, .ids = r.ids.ids };
        r.starts = r.ids.ids = NULL;
    } else {
        br_free(ids);
        ids = NULL;
    }
    free_rows(&r);
    return ids;
}

void br_token_ids_free(br_token_ids *ids)
{
    if (!ids)
        return;
    br_free(ids->starts);
    br_free(ids->ids);
    br_free(ids);
}

/* ---- Batches --------------------------------------------------------------------------------- */

static int64_t row_length(const rows *r, int64_t row)
{
    return r->starts[row + 1] - r->starts[row];
}

/* Writes `n` times a number, and returns the place after them. */
static int64_t *repeat(int64_t *to, int64_t n, int64_t number)
{
    while (n-- > 0)
        *to++ = number;
    return to;
}

/* Writes a row of a batch, padded to `length`. */
static void fill_row(const rows *r, int64_t row, int64_t length, int64_t *ids, int64_t *types,
                     int64_t *mask)
{
    int64_t n = row_length(r, row), left = r->o->pad_left ? length - n : 0;
    ids = repeat(ids, left, r->t->padding);
    types = repeat(types, left, 0);
    mask = repeat(mask, left, 0);
    if (n > 0) /* else r->ids.ids may be NULL */
        memcpy(ids, r->ids.ids + r->starts[row], (size_t)n * sizeof *ids);
    repeat(ids + n, length - left - n, r->t->padding);
    repeat(repeat(mask, n, 1), length - left - n, 0);
    for (const br_segment *g = r->layout.segments; g < r->layout.segments + r->layout.n; g++)
        types = repeat(types, g->special >= 0 ? 1 : r->kept[row].n[g->text],
                       r->t->hides_types ? 0 : br__type_of(r->t, g->text));
    repeat(types, length - left - n, 0);
}

/* Writes n rows, padded to the length of the longest or as the options require, to three tensors.
 */
static bool fill(const rows *r, int64_t n, br_token_batch *batch)
{
    int64_t longest = 0, shortest = INT64_MAX;
    for (int64_t i = 0; i < n; i++) {
        longest = br__max(longest, row_length(r, i));
        shortest = br__min(shortest, row_length(r, i));
    }
    int64_t length = br__padded_length(r->o, longest), sizes[] = { n, length };
    *batch = (br_token_batch){
        .ids = br__new_on_host("tokenizer_encode_batch", 2, sizes, BR_I64),
        .type_ids = br__new_on_host("tokenizer_encode_batch", 2, sizes, BR_I64),
        .attention_mask = br__new_on_host("tokenizer_encode_batch", 2, sizes, BR_I64),
    };
    if (br_failed() || (shortest < length && !br__check_padding(r->t)))
        return false;
    for (int64_t i = 0; i < n; i++)
        fill_row(r, i, length, (int64_t *)br_data(batch->ids) + i * length,
                 (int64_t *)br_data(batch->type_ids) + i * length,
                 (int64_t *)br_data(batch->attention_mask) + i * length);
    return true;
}

bool br_tokenizer_encode_batch(const br_tokenizer *t, int64_t n, const br_text *texts,
                               const br_text *pairs, const br_encode_options *options,
                               br_token_batch *batch)
{
    const br_encode_options *o = BR_OPTIONS_OF(op, br_encode, options);
    if (!br__check_encoding(t, o))
        return false;
    if (n < 0 || (n > 0 && !texts) || !batch)
        return br_fail(BR_ERROR_ARGUMENT, "tokenizer_encode_batch",
                       "n is %" PRId64 ", must not be negative; texts and batch must not be NULL",
                       n);
    rows r = { .t = t, .o = o };
    br_scope *scope = br_scope_begin();
    bool ok = scope && encode_rows(&r, n, texts, pairs) && fill(&r, n, batch);
    free_rows(&r);
    if (ok) {
        br_scope_return(scope, batch->ids);
        br_scope_return(scope, batch->type_ids);
        br_scope_return(scope, batch->attention_mask);
    } else {
        *batch = (br_token_batch){ 0 };
    }
    br_scope_end(scope);
    return ok;
}
