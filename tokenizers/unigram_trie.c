/* tokenizers/unigram_trie.c - a trie of pieces over code points. Its nodes are in one array, in
 * breadth-first order. */
#include "tokenizers/unigram_internal.h"

#include <stdlib.h>
#include <string.h>

/* The sorted pieces first .. end-1, which have a common prefix of `bytes` bytes. */
typedef struct range {
    int64_t first, end;
    size_t bytes;
} range;

typedef struct piece {
    const char *text;
    int32_t id;
} piece;

typedef struct builder {
    br_piece_trie *trie;
    piece *pieces;
    range *ranges; /* one for each node */
    int64_t capacity;
} builder;

static int by_text(const void *a, const void *b)
{
    const piece *x = a, *y = b;
    int order = strcmp(x->text, y->text);
    return order ? order : (x->id > y->id) - (x->id < y->id);
}

static bool push_node(builder *b, br_piece_node node, range r)
{
    br_piece_trie *trie = b->trie;
    br_piece_node *nodes =
        br__grow_tokens(trie->nodes, &trie->capacity, trie->count, sizeof *nodes);
    if (nodes)
        trie->nodes = nodes;
    range *ranges =
        nodes ? br__grow_tokens(b->ranges, &b->capacity, trie->count, sizeof *ranges) : NULL;
    if (!ranges)
        return false;
    b->ranges = ranges;
    ranges[trie->count] = r;
    nodes[trie->count++] = node;
    return true;
}

/* UTF-8 sorts in the order of its code points, so pieces that continue with the same code point are
 * adjacent. */
static bool push_children(builder *b, int64_t at)
{
    range r = b->ranges[at];
    for (; r.first < r.end && !b->pieces[r.first].text[r.bytes]; r.first++)
        b->trie->nodes[at].id = b->pieces[r.first].id;
    b->trie->nodes[at].first = (uint32_t)b->trie->count;
    while (r.first < r.end) {
        const char *text = b->pieces[r.first].text + r.bytes;
        uint32_t c;
        bool valid;
        size_t n = (size_t)br__char_read(text, text + strlen(text), &c, &valid);
        int64_t end = r.first + 1;
        while (end < r.end && strncmp(b->pieces[end].text + r.bytes, text, n) == 0)
            end++;
        if (!push_node(b, (br_piece_node){ .c = c, .id = -1 },
                       (range){ r.first, end, r.bytes + n }))
            return false;
        b->trie->nodes[at].count++;
        r.first = end;
    }
    return true;
}

/* Fills the table of the root's children, which are sorted. */
static bool index_root(br_piece_trie *trie)
{
    uint32_t begin = trie->nodes->first, end = begin + trie->nodes->count;
    trie->n_first = end > begin ? trie->nodes[end - 1].c + 1 : 0;
    trie->first = br_calloc(trie->n_first, sizeof *trie->first);
    for (uint32_t i = begin; trie->first && i < end; i++)
        trie->first[trie->nodes[i].c] = i;
    return trie->first;
}

void br__piece_trie_free(br_piece_trie *trie)
{
    br_free(trie->nodes);
    br_free(trie->first);
}

bool br__piece_trie_build(br_piece_trie *trie, const char *const *tokens, int64_t n)
{
    builder b = { .trie = trie, .pieces = br_malloc((size_t)n * sizeof *b.pieces) };
    int64_t count = 0;
    for (int64_t id = 0; b.pieces && id < n; id++)
        if (tokens[id])
            b.pieces[count++] = (piece){ tokens[id], (int32_t)id };
    if (count > 0)
        qsort(b.pieces, (size_t)count, sizeof *b.pieces, by_text);
    bool ok = b.pieces && push_node(&b, (br_piece_node){ .id = -1 }, (range){ 0, count, 0 });
    for (int64_t i = 0; ok && i < trie->count; i++)
        ok = push_children(&b, i);
    br_free(b.pieces);
    br_free(b.ranges);
    return ok && index_root(trie);
}

const br_piece_node *br__piece_trie_next(const br_piece_trie *trie, const br_piece_node *node,
                                         uint32_t c)
{
    const br_piece_node *nodes = trie->nodes + node->first;
    /* A binary search without branches, because a processor cannot predict them. */
    uint32_t n = node->count;
    for (uint32_t half; n > 1; n -= half) {
        half = n / 2;
        nodes += nodes[half - 1].c < c ? half : 0;
    }
    return n == 1 && nodes->c == c ? nodes : NULL;
}
