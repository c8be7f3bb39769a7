/* profile/rows.c - sums events up into the rows of a table, by operation or by module.
 *
 * Rows form a tree, each with its first child and its next sibling. By operation, an event's row is
 * below the row of the enclosing operation; by module, the tree is that of the labels. */
#include "profile/profile_internal.h"

#include <string.h>

static const char between[] = "(between operations)", outside[] = "(outside modules)";

typedef struct node {
    br_profile_row row;
    int64_t parent, child, next; /* -1: none */
} node;

typedef struct tree {
    const br_profile *profile;
    br_profile_sort sort;
    node *nodes; /* parents precede their children */
    int64_t count, capacity;
    int64_t first; /* the first root */
} tree;

/* ---- Building the tree ----------------------------------------------------------------------- */

static int64_t *first_child(tree *t, int64_t parent)
{
    return parent < 0 ? &t->first : &t->nodes[parent].child;
}

static int64_t add_node(tree *t, int64_t parent, const char *name, br_profile_phase phase)
{
    node *nodes = br__grow(t->nodes, &t->capacity, t->count, sizeof *nodes);
    if (!nodes)
        return -1;
    t->nodes = nodes;
    nodes[t->count] = (node){ .row = { .name = name,
                                       .depth = parent < 0 ? 0 : nodes[parent].row.depth + 1,
                                       .phase = phase },
                              .parent = parent,
                              .child = -1,
                              .next = -1 };
    return t->count++;
}

/* Returns the row with that name and phase below the parent, created if necessary, or -1 and an
 * error. */
static int64_t node_for(tree *t, int64_t parent, const char *name, br_profile_phase phase)
{
    int64_t last = -1;
    for (int64_t i = *first_child(t, parent); i >= 0; last = i, i = t->nodes[i].next) {
        const br_profile_row *row = &t->nodes[i].row;
        if (row->phase == phase && (row->name == name || strcmp(row->name, name) == 0))
            return i;
    }
    int64_t i = add_node(t, parent, name, phase);
    if (i >= 0)
        *(last < 0 ? first_child(t, parent) : &t->nodes[last].next) = i;
    return i;
}

static void add_event(br_profile_row *row, const br_profile_event *e)
{
    double self = 1e-9 * (double)(e->duration - e->inner);
    row->self += self;
    row->phases[e->phase] += self;
    row->flops += (double)e->flops;
    row->bytes += (double)e->bytes;
}

/* Sets at[i] to the row of event i, if that is an operation, or else of the enclosing operation; -1
 * if there is none. The time of an event that is not an operation is added to the enclosing
 * operation. */
static bool fill_by_op(tree *t, int64_t *at)
{
    for (int64_t i = 0; i < t->profile->count; i++) {
        const br_profile_event *e = &br__event_of(t->profile, i)->seen;
        int64_t around = e->parent < 0 ? -1 : at[e->parent], row = around;
        if (e->kind == BR_PROFILE_OP)
            at[i] = row = node_for(t, around, e->name, e->phase);
        else
            at[i] = around;
        if (around < 0 && e->kind != BR_PROFILE_OP)
            row = node_for(t, -1, between, e->phase);
        if (row < 0)
            return false;
        t->nodes[row].row.calls += e->kind == BR_PROFILE_OP;
        add_event(&t->nodes[row].row, e);
    }
    return true;
}

/* Returns the row of a module, below those of the enclosing modules. */
static int64_t module_node(tree *t, int64_t *at, int64_t label)
{
    const br_label *l = &t->profile->labels[label];
    if (at[label] >= 0)
        return at[label];
    int64_t above = l->parent < 0 ? -1 : module_node(t, at, l->parent);
    if (l->parent >= 0 && above < 0)
        return -1;
    return at[label] = node_for(t, above, *l->text ? l->text : outside, BR_PROFILE_FORWARD);
}

/* Sets at[i] to the row of label i. */
static bool fill_by_module(tree *t, int64_t *at)
{
    for (int64_t i = 0; i < t->profile->n_labels; i++)
        at[i] = -1;
    for (int64_t i = 0; i < t->profile->count; i++) {
        const br_event *e = br__event_of(t->profile, i);
        int64_t row = module_node(t, at, e->module);
        if (row < 0)
            return false;
        t->nodes[row].row.calls += e->seen.kind == BR_PROFILE_MODULE;
        add_event(&t->nodes[row].row, &e->seen);
    }
    return true;
}

/* Adds each row to its parent, the last row first, since children come after their parents. */
static void add_up(tree *t)
{
    for (int64_t i = t->count - 1; i >= 0; i--) {
        br_profile_row *row = &t->nodes[i].row;
        row->total += row->self;
        if (t->nodes[i].parent < 0)
            continue;
        br_profile_row *above = &t->nodes[t->nodes[i].parent].row;
        above->total += row->total;
        above->flops += row->flops;
        above->bytes += row->bytes;
        for (int phase = 0; phase < 3; phase++)
            above->phases[phase] += row->phases[phase];
    }
}

/* ---- Order ----------------------------------------------------------------------------------- */

static double key(const br_profile_row *row, br_profile_sort sort)
{
    switch (sort) {
    case BR_PROFILE_SORT_TIME:
        return row->total;
    case BR_PROFILE_SORT_SELF:
        return row->self;
    case BR_PROFILE_SORT_FLOPS:
        return row->flops;
    case BR_PROFILE_SORT_BYTES:
        return row->bytes;
    case BR_PROFILE_SORT_CALLS:
        return (double)row->calls;
    case BR_PROFILE_SORT_ORDER:
        break;
    }
    return 0;
}

/* Sorts the children of a row with an insertion sort: there are only a few dozen, and the order of
 * equal ones must not change. */
static void sort_children(tree *t, int64_t *first)
{
    int64_t sorted = -1;
    for (int64_t i = *first, next; i >= 0; i = next) {
        next = t->nodes[i].next;
        int64_t *place = &sorted;
        while (*place >= 0 && key(&t->nodes[*place].row, t->sort) >= key(&t->nodes[i].row, t->sort))
            place = &t->nodes[*place].next;
        t->nodes[i].next = *place;
        *place = i;
    }
    *first = sorted;
}

/* Returns an array of the rows, each followed by its children. */
static br_profile_row *flatten(const tree *t)
{
    br_profile_row *rows = br_malloc((size_t)t->count * sizeof *rows);
    int64_t n = 0;
    for (int64_t i = t->first; rows && i >= 0;) {
        rows[n++] = t->nodes[i].row;
        int64_t next = t->nodes[i].child;
        while (next < 0 && i >= 0) {
            next = t->nodes[i].next;
            i = t->nodes[i].parent;
        }
        i = next;
    }
    return rows;
}

br_profile_row *br_profile_rows(const br_profile *profile, br_profile_by by, br_profile_sort sort,
                                int64_t *count)
{
    if (count)
        *count = 0;
    if (!br__profile_readable("profile_rows", profile) ||
        !br__required("profile_rows", "count", count))
        return NULL;
    tree t = { .profile = profile, .sort = sort, .first = -1 };
    bool by_op = by == BR_PROFILE_BY_OP;
    int64_t *at = br_malloc((size_t)(by_op ? profile->count : profile->n_labels) * sizeof *at);
    bool ok = at && (by_op ? fill_by_op : fill_by_module)(&t, at);
    br_profile_row *rows = NULL;
    if (ok) {
        add_up(&t);
        sort_children(&t, &t.first);
        for (int64_t i = 0; i < t.count; i++)
            sort_children(&t, &t.nodes[i].child);
        if ((rows = flatten(&t)))
            *count = t.count;
    }
    br_free(at);
    br_free(t.nodes);
    return rows;
}
