/* tokenizers/compose.c - Unicode's normalization form C (Unicode Standard Annex 15), with offsets
 * in the original text. utf8proc has the decompositions, the classes and the composition of a pair.
 */
#include "tokenizers/compose.h"

#include <stdlib.h>
#include <utf8proc.h>

/* A code point of the decomposed text. */
typedef struct part {
    uint32_t c;
    int class; /* its combining class */
    /* How many code points more than the original text has: 1 for all but the first part of a
     * decomposition, negative for a code point that replaces several. */
    int64_t added;
    int64_t order; /* its place before sorting */
} part;

typedef struct parts {
    part *items;
    int64_t count, capacity;
} parts;

/* ---- Decomposing ----------------------------------------------------------------------------- */

static bool push(parts *list, uint32_t c, int64_t added)
{
    part *items = br__grow_tokens(list->items, &list->capacity, list->count, sizeof *items);
    if (!items)
        return false;
    list->items = items;
    int class = utf8proc_get_property((utf8proc_int32_t)c)->combining_class;
    items[list->count] = (part){ c, class, added, list->count };
    list->count++;
    return true;
}

static int by_class(const void *a, const void *b)
{
    const part *x = a, *y = b;
    if (x->class != y->class)
        return x->class < y->class ? -1 : 1;
    return x->order < y->order ? -1 : 1;
}

/* Sorts each run of parts that have a class by it. */
static void sort_runs(const parts *list)
{
    for (int64_t i = 0, n; i < list->count; i += n + 1) {
        for (n = 0; i + n < list->count && list->items[i + n].class > 0;)
            n++;
        if (n > 1)
            qsort(&list->items[i], (size_t)n, sizeof *list->items, by_class);
    }
}

static bool decompose(const br_char_list *from, parts *to)
{
    for (int64_t i = 0; i < from->count; i++) {
        utf8proc_int32_t found[8];
        int unused = 0;
        utf8proc_ssize_t n = utf8proc_decompose_char((utf8proc_int32_t)from->items[i].c, found, 8,
                                                     UTF8PROC_DECOMPOSE, &unused);
        for (utf8proc_ssize_t k = 0; k < n; k++)
            if (!push(to, (uint32_t)found[k], k > 0))
                return false;
    }
    sort_runs(to);
    return true;
}

/* ---- Composing ------------------------------------------------------------------------------- */

/* Returns the code point that two compose to, or 0. */
static uint32_t pair_of(uint32_t first, uint32_t second)
{
    utf8proc_int32_t both[3] = { (utf8proc_int32_t)first, (utf8proc_int32_t)second };
    utf8proc_ssize_t n = utf8proc_normalize_utf32(both, 2, UTF8PROC_COMPOSE | UTF8PROC_STABLE);
    return n == 1 ? (uint32_t)both[0] : 0;
}

/* Composes each part with the last one of class 0, unless one between them has the same or a
 * greater class. */
static void compose(parts *list)
{
    int64_t n = 0, starter = -1;
    int between = -1; /* the greatest class after the starter; -1: nothing is there */
    for (int64_t i = 0; i < list->count; i++) {
        part p = list->items[i];
        part *first = starter < 0 ? NULL : &list->items[starter];
        uint32_t c = first && between < p.class ? pair_of(first->c, p.c) : 0;
        if (c) {
            first->c = c;
            first->added += p.added - 1;
            continue;
        }
        list->items[n] = p;
        between = p.class;
        if (p.class == 0) {
            starter = n;
            between = -1;
        }
        n++;
    }
    list->count = n;
}

/* Appends the parts with the offsets of the code points that they replace. */
static bool place(const parts *list, const br_char_list *from, br_char_list *to)
{
    int64_t at = 0;
    for (int64_t i = 0; i < list->count; i++) {
        const part *p = &list->items[i];
        bool is_new = p->added <= 0 || at == 0;
        const br_char *original = &from->items[is_new ? at : at - 1];
        if (!br__push_char(to, (br_char){ p->c, original->bytes, original->chars }))
            return false;
        at += is_new ? 1 - p->added : 0;
    }
    return true;
}

bool br__compose(const br_char_list *from, br_char_list *to)
{
    parts list = { 0 };
    bool ok = decompose(from, &list);
    if (ok)
        compose(&list);
    ok = ok && place(&list, from, to);
    br_free(list.items);
    return ok;
}

/* ---- The quick check ------------------------------------------------------------------------- */

bool br__is_composed(const char *p, const char *end)
{
    /* Neither has a code point here another form, nor does it compose with the one before it. */
    static const struct {
        uint32_t first, last;
    } ranges[] = { { 0, 0x2ff },       { 0x3400, 0x9fff }, { 0x400, 0x482 },    { 0x48a, 0x52f },
                   { 0x2010, 0x2027 }, { 0x3001, 0x3029 }, { 0x3041, 0x3096 },  { 0x30a1, 0x30fa },
                   { 0xac00, 0xd7a3 }, { 0xff01, 0xff60 }, { 0x1f300, 0x1faff } };
    enum { N = sizeof ranges / sizeof *ranges };
    while (p < end) {
        uint32_t c = (unsigned char)*p;
        bool valid = true;
        if (c < 128) {
            p++;
            continue;
        }
        p += br__char_read(p, end, &c, &valid);
        int i = 0;
        while (i < N && (c < ranges[i].first || c > ranges[i].last))
            i++;
        if (i == N)
            return false;
    }
    return true;
}
