/* train/packs.c - best-fit decreasing. Packs with the same free space are in one list, so that the
 * search goes over free spaces, not over packs. */
#include "train/packs.h"

#include <brasa/brasa.h>
#include <inttypes.h>
#include <stdlib.h>

/* The work: for each example its place in the order and its pack, for each pack the next one with
 * as much free space, and for each free space the first pack. */
typedef struct work {
    int64_t *order, *pack_of, *next, *first;
} work;

static bool begin(work *w, packs *p, int64_t n, int64_t limit)
{
    const size_t items = (size_t)(n + 1);
    w->order = calloc(items, sizeof *w->order);
    w->pack_of = calloc(items, sizeof *w->pack_of);
    w->next = calloc(items, sizeof *w->next);
    w->first = calloc((size_t)(limit + 2), sizeof *w->first);
    p->ends = calloc(items, sizeof *p->ends);
    p->members = calloc(items, sizeof *p->members);
    if (w->order && w->pack_of && w->next && w->first && p->ends && p->members)
        return true;
    br_raise(BR_ERROR_MEMORY, "cannot allocate memory to pack %" PRId64 " examples", n);
    return false;
}

static void end(work *w)
{
    free(w->order);
    free(w->pack_of);
    free(w->next);
    free(w->first);
}

/* Orders the examples by length, the longest first, those of equal length as they are given. */
static void sort(work *w, int64_t n, const int64_t *lengths, int64_t limit)
{
    int64_t *places = w->first; /* where the examples of a length begin; cleared afterwards */
    for (int64_t i = 0; i < n; i++)
        places[limit - lengths[i] + 1]++;
    for (int64_t i = 1; i <= limit; i++)
        places[i] += places[i - 1];
    for (int64_t i = 0; i < n; i++)
        w->order[places[limit - lengths[i]]++] = i;
}

/* Takes a pack with the least free space of at least `length` out of its list. A new pack is empty.
 * Stores its free space. */
static int64_t take(work *w, packs *p, int64_t length, int64_t limit, int64_t *space)
{
    for (*space = length; *space <= limit && w->first[*space] < 0;)
        ++*space;
    if (*space > limit) {
        *space = limit;
        return p->count++;
    }
    const int64_t pack = w->first[*space];
    w->first[*space] = w->next[pack];
    return pack;
}

static void fill(work *w, packs *p, int64_t n, const int64_t *lengths, int64_t limit)
{
    for (int64_t i = 0; i <= limit; i++)
        w->first[i] = -1;
    for (int64_t i = 0; i < n; i++) {
        int64_t example = w->order[i], space;
        const int64_t pack = take(w, p, lengths[example], limit, &space);
        space -= lengths[example];
        w->pack_of[example] = pack;
        w->next[pack] = w->first[space];
        w->first[space] = pack;
    }
}

/* Lists the members of each pack, in the order of the examples. */
static void list(const work *w, packs *p, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        p->ends[w->pack_of[i] + 1]++;
    for (int64_t i = 1; i <= p->count; i++)
        p->ends[i] += p->ends[i - 1];
    for (int64_t i = 0; i < n; i++)
        p->members[p->ends[w->pack_of[i]]++] = i;
}

bool packs_make(packs *p, int64_t n, const int64_t *lengths, int64_t limit)
{
    work w = { 0 };
    bool ok = begin(&w, p, n, limit);
    if (ok) {
        sort(&w, n, lengths, limit);
        fill(&w, p, n, lengths, limit);
        list(&w, p, n);
    }
    end(&w);
    return ok;
}

void packs_free(packs *p)
{
    free(p->ends);
    free(p->members);
    *p = (packs){ 0 };
}

int64_t packs_members(const packs *p, int64_t i, const int64_t **members)
{
    const int64_t from = i > 0 ? p->ends[i - 1] : 0;
    *members = p->members + from;
    return p->ends[i] - from;
}
