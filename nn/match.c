/* nn/match.c - matches the names of a source with those of a module: see match.h. */
#include "nn/match.h"

#include <stdlib.h>
#include <string.h>

/* ---- Sorted names ---------------------------------------------------------------------------- */

/* A name and its index in the list, for qsort(), which passes no context. */
typedef struct entry {
    const char *name;
    int64_t index;
} entry;

static int by_name(const void *a, const void *b)
{
    return strcmp(((const entry *)a)->name, ((const entry *)b)->name);
}

static bool sort_names(br__match *m)
{
    int64_t n = m->own->count;
    entry *entries = br_malloc((size_t)n * sizeof *entries);
    m->by_name = br_malloc((size_t)n * sizeof *m->by_name);
    bool ok = entries && m->by_name;
    for (int64_t i = 0; ok && i < n; i++)
        entries[i] = (entry){ m->own->items[i].name, i };
    if (ok && n > 0)
        qsort(entries, (size_t)n, sizeof *entries, by_name);
    for (int64_t i = 0; ok && i < n; i++)
        m->by_name[i] = entries[i].index;
    br_free(entries);
    return ok;
}

int64_t br__match_find(const br__match *m, const char *name)
{
    int64_t low = 0, high = m->own->count;
    while (low < high) {
        int64_t middle = low + (high - low) / 2, i = m->by_name[middle];
        int order = strcmp(name, m->own->items[i].name);
        if (order == 0)
            return i;
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return -1;
}

/* ---- Matching -------------------------------------------------------------------------------- */

bool br__match_begin(br__match *m, const br_named_list *own, int64_t n_source, br__match_fn find,
                     void *context)
{
    *m = (br__match){ .own = own, .n_source = n_source };
    m->source_of = br_malloc((size_t)own->count * sizeof *m->source_of);
    m->own_of = br_malloc((size_t)n_source * sizeof *m->own_of);
    if (!m->source_of || !m->own_of || !sort_names(m))
        return false;
    for (int64_t i = 0; i < own->count; i++)
        m->source_of[i] = -1;
    for (int64_t k = 0; k < n_source; k++) {
        if (!find(context, m, k, &m->own_of[k]))
            return false;
        int64_t i = m->own_of[k];
        if (i >= 0 && m->source_of[i] < 0)
            m->source_of[i] = k;
    }
    return true;
}

void br__match_end(br__match *m)
{
    br_free(m->by_name);
    br_free(m->source_of);
    br_free(m->own_of);
    *m = (br__match){ 0 };
}

bool br__match_uses(const br__match *m, int64_t k)
{
    int64_t i = m->own_of[k];
    return i >= 0 && m->source_of[i] == k;
}

/* ---- Tied tensors ---------------------------------------------------------------------------- */

/* Returns the first of the names 0 .. end-1 that has this tensor and a source, or -1. */
static int64_t first_with_source(const br__match *m, const br_tensor *own, int64_t end)
{
    for (int64_t i = 0; i < end; i++)
        if (m->own->items[i].tensor == own && m->source_of[i] >= 0)
            return i;
    return -1;
}

int64_t br__match_source(const br__match *m, const br_tensor *own)
{
    int64_t i = first_with_source(m, own, m->own->count);
    return i < 0 ? -1 : m->source_of[i];
}

int64_t br__match_tie(const br__match *m, int64_t i)
{
    return first_with_source(m, m->own->items[i].tensor, i);
}

void br__match_share_ties(br__match *m)
{
    for (int64_t i = 0; i < m->own->count; i++)
        if (m->source_of[i] < 0)
            m->source_of[i] = br__match_source(m, m->own->items[i].tensor);
}

/* ---- Reports --------------------------------------------------------------------------------- */

bool br__names_add(br__names *names, const char *name)
{
    return br__text_add(&names->text, "%s%s", names->count++ > 0 ? ", " : "", name);
}

void br__names_take(br__names *names, int64_t *count, char **text)
{
    *count = names->count;
    *text = br__text_take(&names->text);
}
