/* tokenizers/bpe_merge.c - the merges of BPE: the table, and the merging of a word. */
#include "tokenizers/bpe_merge.h"

#include <string.h>

/* ---- The table ------------------------------------------------------------------------------- */

/* Returns the place of a pair of tokens in the table, or the free place, whose `left` is -1, where
 * it must be inserted. */
static inline br_merge *place_of(const br_merge_table *table, int32_t left, int32_t right)
{
    const uint64_t odd = 0x9e3779b97f4a7c15;
    uint64_t hash = ((uint64_t)left << 32 | (uint32_t)right) * odd;
    hash = (hash ^ hash >> 32) * odd;
    for (uint64_t at = hash >> 32;; at++) {
        br_merge *m = &table->merges[at & table->mask];
        if (m->left < 0 || (m->left == left && m->right == right))
            return m;
    }
}

/* Doubles the table. */
static bool grow(br_merge_table *table)
{
    enum { FIRST = 64 };
    br_merge_table old = *table;
    uint64_t n = old.merges ? old.mask + 1 : 0, more = n ? 2 * n : FIRST;
    br_merge *merges = br_malloc(more * sizeof *merges);
    if (!merges)
        return false;
    for (uint64_t i = 0; i < more; i++)
        merges[i].left = -1;
    table->merges = merges;
    table->mask = more - 1;
    for (uint64_t i = 0; i < n; i++)
        if (old.merges[i].left >= 0)
            *place_of(table, old.merges[i].left, old.merges[i].right) = old.merges[i];
    br_free(old.merges);
    return true;
}

bool br__merges_begin(br_merge_table *table)
{
    *table = (br_merge_table){ 0 };
    return grow(table);
}

bool br__merges_set(br_merge_table *table, br_merge merge)
{
    if (2 * (uint64_t)(table->count + 1) > table->mask + 1 && !grow(table))
        return false;
    br_merge *place = place_of(table, merge.left, merge.right);
    table->count += place->left < 0;
    *place = merge;
    return true;
}

const br_merge *br__merges_find(const br_merge_table *table, int64_t left, int64_t right)
{
    const br_merge *m = place_of(table, (int32_t)left, (int32_t)right);
    return m->left < 0 ? NULL : m;
}

/* ---- Merges of files ------------------------------------------------------------------------- */

/* Looks up the id of the concatenation of two tokens; -1 if there is none. Returns false if
 * allocation fails. */
static bool joined_id(const br_tokenizer *t, const char *left, size_t n, const char *right,
                      size_t m, int64_t *id)
{
    char *both = br_malloc(n + m + 1);
    if (!both)
        return false;
    memcpy(both, left, n);
    memcpy(both + n, right, m);
    *id = br__word_id(&t->all, both, n + m);
    br_free(both);
    return true;
}

bool br__merge_of_texts(const br_tokenizer *t, br_text left, br_text right, int64_t rank,
                        br_merge *merge, const char **what)
{
    size_t n = (size_t)left.length, m = (size_t)right.length;
    int64_t a = br__word_id(&t->all, left.data, n), b = br__word_id(&t->all, right.data, m), id;
    if (!joined_id(t, left.data, n, right.data, m, &id))
        return false;
    *what = a < 0    ? "merges a left token that is not in the vocabulary"
            : b < 0  ? "merges a right token that is not in the vocabulary"
            : id < 0 ? "merges to a token that is not in the vocabulary"
                     : NULL;
    *merge = (br_merge){ (int32_t)a, (int32_t)b, (int32_t)id, (int32_t)rank };
    return true;
}

const char *br__split_merge(const char *line, size_t length, br_text *left, br_text *right)
{
    const char *space = memchr(line, ' ', length);
    size_t n = space ? (size_t)(space - line) : length;
    if (!space || memchr(space + 1, ' ', length - n - 1))
        return "is not two tokens separated by a space";
    *left = (br_text){ line, (int64_t)n };
    *right = (br_text){ space + 1, (int64_t)(length - n - 1) };
    return NULL;
}

/* ---- A word ---------------------------------------------------------------------------------- */

static bool before(const br_candidate *a, const br_candidate *b)
{
    return a->rank != b->rank ? a->rank < b->rank : a->at < b->at;
}

static bool push(br_merger *m, br_candidate c)
{
    br_candidate *heap = br__grow_tokens(m->heap, &m->heap_capacity, m->n_heap, sizeof *heap);
    if (!heap)
        return false;
    m->heap = heap;
    int64_t i = m->n_heap++;
    for (; i > 0 && before(&c, &heap[(i - 1) / 2]); i = (i - 1) / 2)
        heap[i] = heap[(i - 1) / 2];
    heap[i] = c;
    return true;
}

static br_candidate pop(br_merger *m)
{
    br_candidate *heap = m->heap, first = heap[0], c = heap[--m->n_heap];
    int64_t i = 0, n = m->n_heap;
    for (int64_t k; (k = 2 * i + 1) < n; i = k) {
        k += k + 1 < n && before(&heap[k + 1], &heap[k]);
        if (!before(&heap[k], &c))
            break;
        heap[i] = heap[k];
    }
    heap[i] = c;
    return first;
}

/* Pushes the merge of symbol `at` with the next one, if it exists, to the heap. */
static bool consider(br_merger *m, int64_t at)
{
    int64_t next = at < 0 ? -1 : m->symbols[at].next;
    if (next < 0)
        return true;
    const br_merge *merge = br__merges_find(m->table, m->symbols[at].id, m->symbols[next].id);
    return !merge || push(m, (br_candidate){ merge->rank, at, merge->id });
}

/* Merges symbol c.at with the next one, unless a merge has changed one of them since c was pushed.
 */
static bool merge(br_merger *m, br_candidate c)
{
    br_symbol *left = &m->symbols[c.at];
    if (left->id < 0 || left->next < 0)
        return true;
    br_symbol *right = &m->symbols[left->next];
    const br_merge *found = br__merges_find(m->table, left->id, right->id);
    if (!found || found->id != c.id)
        return true;
    left->id = c.id;
    left->bytes.end = right->bytes.end;
    left->chars.end = right->chars.end;
    left->next = right->next;
    right->id = -1;
    if (left->next >= 0)
        m->symbols[left->next].previous = c.at;
    return consider(m, left->previous) && consider(m, c.at);
}

bool br__merger_end_word(br_merger *m, br_token_list *list, int64_t word)
{
    for (int64_t i = 0; i < m->n_symbols; i++)
        if (!consider(m, i))
            return false;
    while (m->n_heap > 0)
        if (!merge(m, pop(m)))
            return false;
    for (int64_t i = 0; i >= 0 && i < m->n_symbols; i = m->symbols[i].next) {
        const br_symbol *s = &m->symbols[i];
        if (!br__push_token(
                list,
                (br_token){ .id = s->id, .word = word, .bytes = s->bytes, .chars = s->chars }))
            return false;
    }
    m->n_symbols = 0;
    return true;
}

void br__merger_free(br_merger *m)
{
    br_free(m->symbols);
    br_free(m->heap);
}
