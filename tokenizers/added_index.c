/* tokenizers/added_index.c - finds the longest added token at a place of a text. Gemma 3 has 6414
 * added tokens, most of which begin with "<", so the patterns are sorted.
 *
 * The last pattern that is not greater than the text begins with every pattern that the text begins
 * with. So the search goes from this pattern to the longest one that it begins with, and so on,
 * until the text begins with the pattern. */
#include "tokenizers/tokenizer_internal.h"

#include <stdlib.h>
#include <string.h>

/* Compares a pattern with n bytes. A pattern that the bytes begin with is equal if `whole` is
 * false; otherwise the shorter one is less. */
static int compare(const br_added_token *a, const char *bytes, size_t n, bool whole)
{
    int order = memcmp(a->pattern, bytes, a->length < n ? a->length : n);
    if (order != 0 || a->length == n)
        return order;
    return a->length > n ? 1 : whole ? -1 : 0;
}

/* Compares by `late`, then by pattern, then by id. */
static int by_pattern(const void *x, const void *y)
{
    const br_added_token *a = ((const br_indexed_token *)x)->token;
    const br_added_token *b = ((const br_indexed_token *)y)->token;
    if (a->late != b->late)
        return a->late ? 1 : -1;
    int order = compare(a, b->pattern, b->length, true);
    return order != 0 ? order : a->id < b->id ? -1 : a->id > b->id;
}

static bool begins_with(const br_added_token *a, const br_added_token *start)
{
    return a->late == start->late && a->length >= start->length &&
           memcmp(a->pattern, start->pattern, start->length) == 0;
}

/* Of equal patterns, keeps the one with the lowest id, which is the first. */
static void drop_equal(br_added_index *index)
{
    int64_t kept = 0;
    for (int64_t i = 0; i < index->n; i++) {
        const br_added_token *a = index->items[i].token;
        const br_added_token *before = kept > 0 ? index->items[kept - 1].token : NULL;
        if (!before || before->length != a->length || !begins_with(a, before))
            index->items[kept++].token = a;
    }
    index->n = kept;
}

bool br__added_index_build(br_tokenizer *t)
{
    br_added_index *index = &t->index;
    br_free(index->items);
    *index =
        (br_added_index){ .items = br_malloc((size_t)(t->n_added + 1) * sizeof *index->items) };
    if (!index->items)
        return false;
    for (int64_t i = 0; i < t->n_added; i++)
        if (t->added[i].length > 0)
            index->items[index->n++].token = &t->added[i];
    qsort(index->items, (size_t)index->n, sizeof *index->items, by_pattern);
    drop_equal(index);
    for (int64_t i = 0; i < index->n; i++) {
        br_indexed_token *item = &index->items[i];
        index->n_early += !item->token->late;
        item->shorter = i - 1;
        while (item->shorter >= 0 && !begins_with(item->token, index->items[item->shorter].token))
            item->shorter = index->items[item->shorter].shorter;
    }
    return true;
}

const br_added_token *br__added_at(const br_tokenizer *t, const char *p, const char *end, bool late)
{
    const br_added_index *index = &t->index;
    int64_t first = late ? index->n_early : 0, low = first;
    int64_t high = late ? index->n : index->n_early;
    size_t n = (size_t)(end - p);
    if (!t->added_begins[(unsigned char)*p])
        return NULL;
    while (low < high) { /* the first pattern that is greater than the text */
        int64_t middle = low + (high - low) / 2;
        if (compare(index->items[middle].token, p, n, false) > 0)
            high = middle;
        else
            low = middle + 1;
    }
    for (int64_t i = low - 1; i >= first; i = index->items[i].shorter) {
        const br_added_token *a = index->items[i].token;
        if (a->length <= n && memcmp(a->pattern, p, a->length) == 0)
            return a;
    }
    return NULL;
}
