/* viz/graph_layout.c - a layered drawing (Sugiyama, Tagawa and Toda, 1981): each vertex is below
 * its inputs, lines bend where they cross a layer, there are few crossings, and neighbours are
 * nearly vertically aligned. */
#include "viz/graph_internal.h"

enum { MAX_VERTICES = 50000, SWEEPS = 12, GAP = 18 };

/* The neighbours of each vertex in the previous or the next layer, as slices of one array. */
typedef struct neighbours {
    int64_t *first, *of; /* neighbours of v: of[first[v]] .. of[first[v + 1] - 1] */
} neighbours;

typedef struct layout {
    br_drawing *d;
    neighbours above, below;
    int64_t *order, *first; /* layer l: order[first[l]] .. order[first[l + 1] - 1] */
    double *desired;        /* each vertex's desired position, according to its neighbours */
} layout;

/* ---- Layers ---------------------------------------------------------------------------------- */

/* Returns true for leaves, and for operations whose inputs are all leaves. While layers are
 * assigned, `place` counts an operation's inputs that are operations. */
static bool is_source(const br_vertex *v)
{
    return v->kind == BR_VERTEX_PARAMETER || v->kind == BR_VERTEX_LEAF ||
           (v->kind == BR_VERTEX_OP && v->place == 0);
}

/* Lines are sorted by their targets, and an operation comes after the operations it depends on.
 * Sources are placed directly above their topmost target. */
static bool set_layers(const char *op, br_drawing *d)
{
    for (int64_t i = 0; i < d->n_lines; i++) {
        const br_vertex *from = &d->vertices[d->lines[i].from];
        br_vertex *to = &d->vertices[d->lines[i].to];
        to->place += from->kind == BR_VERTEX_OP;
        to->layer = to->layer > from->layer ? to->layer : from->layer + 1;
    }
    for (int64_t i = 0; i < d->n_lines; i++)
        if (is_source(&d->vertices[d->lines[i].from]))
            d->vertices[d->lines[i].from].layer = INT64_MAX;
    int64_t bends = 0;
    for (int64_t i = d->n_lines - 1; i >= 0; i--) {
        br_vertex *from = &d->vertices[d->lines[i].from];
        int64_t above = d->vertices[d->lines[i].to].layer - 1;
        if (is_source(from) && above < from->layer)
            from->layer = above;
    }
    for (int64_t i = 0; i < d->n_lines; i++)
        bends += d->vertices[d->lines[i].to].layer - d->vertices[d->lines[i].from].layer - 1;
    for (int64_t i = 0; i < d->n_vertices; i++)
        if (d->n_layers <= d->vertices[i].layer)
            d->n_layers = d->vertices[i].layer + 1;
    if (d->n_vertices + bends <= MAX_VERTICES)
        return true;
    br_fail(BR_ERROR_ARGUMENT, op,
            "the graph has %lld operations and leaves and %lld edge bends, but at most %d in "
            "all can be laid out: use br_graph_dot()",
            (long long)d->n_vertices, (long long)bends, MAX_VERTICES);
    return false;
}

/* Splits lines at every layer that they cross. */
static bool add_bends(br_drawing *d)
{
    for (int64_t i = 0, n = d->n_lines; i < n; i++) {
        int64_t to = d->lines[i].to, last = d->vertices[to].layer;
        int64_t at = d->lines[i].from, layer = d->vertices[at].layer + 1;
        if (layer == last)
            continue;
        for (int64_t before = at; layer < last; layer++, before = d->n_vertices - 1) {
            br_vertex bend = { .kind = BR_VERTEX_BEND, .layer = layer, .width = 2 };
            if (!br__graph_add_vertex(d, bend))
                return false;
            if (before == at)
                d->lines[i].to = d->n_vertices - 1;
            else if (!br__graph_add_line(d, before, d->n_vertices - 1))
                return false;
        }
        if (!br__graph_add_line(d, d->n_vertices - 1, to))
            return false;
    }
    return true;
}

/* ---- Neighbours ------------------------------------------------------------------------------ */

static bool find_neighbours(const br_drawing *d, bool above, neighbours *n)
{
    n->first = br_calloc((size_t)d->n_vertices + 2, sizeof *n->first);
    n->of = br_calloc((size_t)d->n_lines + 1, sizeof *n->of);
    if (!n->first || !n->of)
        return false;
    /* Counts are stored one index too high, so that filling moves each slice's start to the right
     * index. */
    for (int64_t i = 0; i < d->n_lines; i++)
        n->first[(above ? d->lines[i].to : d->lines[i].from) + 2]++;
    for (int64_t v = 2; v < d->n_vertices + 2; v++)
        n->first[v] += n->first[v - 1];
    for (int64_t i = 0; i < d->n_lines; i++) {
        int64_t v = above ? d->lines[i].to : d->lines[i].from;
        n->of[n->first[v + 1]++] = above ? d->lines[i].from : d->lines[i].to;
    }
    return true;
}

static bool begin(layout *l, br_drawing *d)
{
    size_t n = (size_t)d->n_vertices;
    l->d = d;
    l->order = br_calloc(n + 1, sizeof *l->order);
    l->first = br_calloc((size_t)d->n_layers + 1, sizeof *l->first);
    l->desired = br_calloc(n + 1, sizeof *l->desired);
    if (!l->order || !l->first || !l->desired || !find_neighbours(d, true, &l->above) ||
        !find_neighbours(d, false, &l->below))
        return false;
    for (int64_t v = 0; v < d->n_vertices; v++)
        l->first[d->vertices[v].layer]++;
    int64_t sum = 0;
    for (int64_t k = 0; k <= d->n_layers; k++) {
        int64_t count = k < d->n_layers ? l->first[k] : 0;
        l->first[k] = sum;
        sum += count;
    }
    return true;
}

static void end(layout *l)
{
    br_free(l->order);
    br_free(l->first);
    br_free(l->desired);
    br_free(l->above.first);
    br_free(l->above.of);
    br_free(l->below.first);
    br_free(l->below.of);
}

/* ---- Order ----------------------------------------------------------------------------------- */

static int64_t count_in(const layout *l, int64_t layer)
{
    return l->first[layer + 1] - l->first[layer];
}

/* Sets the initial order by a depth-first walk from the result upwards, which puts related vertices
 * side by side. */
static void order_by_walk(layout *l, int64_t *stack, bool *seen, int64_t *filled)
{
    for (int64_t root = l->d->n_vertices - 1; root >= 0; root--) {
        int64_t top = 0;
        if (!seen[root])
            stack[top++] = root;
        seen[root] = true;
        while (top > 0) {
            int64_t v = stack[--top], layer = l->d->vertices[v].layer;
            l->d->vertices[v].place = filled[layer];
            l->order[l->first[layer] + filled[layer]++] = v;
            for (int64_t k = l->above.first[v + 1] - 1; k >= l->above.first[v]; k--) {
                int64_t u = l->above.of[k];
                if (!seen[u])
                    stack[top++] = u;
                seen[u] = true;
            }
        }
    }
}

static bool first_order(layout *l)
{
    size_t n = (size_t)l->d->n_vertices, layers = (size_t)l->d->n_layers;
    int64_t *stack = br_calloc(n + layers, sizeof *stack);
    bool *seen = br_calloc(n, sizeof *seen);
    if (stack && seen)
        order_by_walk(l, stack, seen, stack + n);
    br_free(stack);
    br_free(seen);
    return !br_failed();
}

/* Returns the mean of the neighbours' places, or of their x; the vertex's own if it has no
 * neighbours. */
static double mean_of(const layout *l, const neighbours *n, int64_t v, bool by_x)
{
    const br_vertex *vertices = l->d->vertices;
    double sum = 0;
    int64_t count = n->first[v + 1] - n->first[v];
    for (int64_t k = n->first[v]; k < n->first[v + 1]; k++)
        sum += by_x ? vertices[n->of[k]].x : (double)vertices[n->of[k]].place;
    if (count == 0)
        return by_x ? vertices[v].x : (double)vertices[v].place;
    return sum / (double)count;
}

/* Sorts a layer by desired positions with an insertion sort, since few vertices are out of
 * order. */
static void sort_layer(layout *l, int64_t layer)
{
    int64_t *order = l->order + l->first[layer], n = count_in(l, layer);
    for (int64_t i = 1; i < n; i++) {
        int64_t v = order[i], k = i;
        for (; k > 0 && l->desired[order[k - 1]] > l->desired[v]; k--)
            order[k] = order[k - 1];
        order[k] = v;
    }
    for (int64_t i = 0; i < n; i++)
        l->d->vertices[order[i]].place = i;
}

/* Sweeps down and up through the layers and sorts each by its neighbours' places. */
static void reduce_crossings(layout *l)
{
    for (int sweep = 0; sweep < SWEEPS; sweep++) {
        bool down = sweep % 2 == 0;
        for (int64_t k = 1; k < l->d->n_layers; k++) {
            int64_t layer = down ? k : l->d->n_layers - 1 - k;
            for (int64_t i = l->first[layer]; i < l->first[layer + 1]; i++)
                l->desired[l->order[i]] =
                    mean_of(l, down ? &l->above : &l->below, l->order[i], false);
            sort_layer(l, layer);
        }
    }
}

/* ---- Positions ------------------------------------------------------------------------------- */

/* Places a layer's vertices at their desired positions, or as close as their widths allow: takes
 * the mean of pushing them apart from the left and from the right. */
static void place_layer(layout *l, int64_t layer)
{
    br_vertex *vertices = l->d->vertices;
    const int64_t *order = l->order + l->first[layer], n = count_in(l, layer);
    for (int64_t i = 0; i < n; i++) {
        const br_vertex *v = &vertices[order[i]];
        double min_x =
            i == 0 ? l->desired[order[i]]
                   : vertices[order[i - 1]].x + (vertices[order[i - 1]].width + v->width) / 2 + GAP;
        vertices[order[i]].x = l->desired[order[i]] > min_x ? l->desired[order[i]] : min_x;
    }
    double right = 0;
    for (int64_t i = n - 1; i >= 0; i--) {
        br_vertex *v = &vertices[order[i]];
        double max_x = l->desired[order[i]];
        if (i < n - 1) {
            double limit = right - (vertices[order[i + 1]].width + v->width) / 2 - GAP;
            max_x = max_x < limit ? max_x : limit;
        }
        right = max_x;
        v->x = (v->x + max_x) / 2;
    }
}

static void place(layout *l)
{
    br_drawing *d = l->d;
    for (int64_t layer = 0; layer < d->n_layers; layer++) {
        double x = 0;
        for (int64_t i = l->first[layer]; i < l->first[layer + 1]; i++) {
            br_vertex *v = &d->vertices[l->order[i]];
            v->x = x + v->width / 2;
            x += v->width + GAP;
        }
    }
    for (int sweep = 0; sweep < 2 * SWEEPS; sweep++) {
        for (int64_t k = 0; k < d->n_layers; k++) {
            int64_t layer = sweep % 2 == 0 ? k : d->n_layers - 1 - k;
            for (int64_t i = l->first[layer]; i < l->first[layer + 1]; i++) {
                int64_t v = l->order[i];
                l->desired[v] =
                    (mean_of(l, &l->above, v, true) + mean_of(l, &l->below, v, true)) / 2;
            }
            place_layer(l, layer);
        }
    }
}

/* Moves the drawing to x >= 0 and sets its width. */
static void fit(br_drawing *d)
{
    double left = 0, right = 0;
    for (int64_t i = 0; i < d->n_vertices; i++) {
        const br_vertex *v = &d->vertices[i];
        left = i == 0 || v->x - v->width / 2 < left ? v->x - v->width / 2 : left;
        right = i == 0 || v->x + v->width / 2 > right ? v->x + v->width / 2 : right;
    }
    for (int64_t i = 0; i < d->n_vertices; i++)
        d->vertices[i].x -= left;
    d->width = right - left;
}

bool br__graph_lay_out(const char *op, br_drawing *d)
{
    layout l = { 0 };
    bool ok = set_layers(op, d) && add_bends(d) && begin(&l, d) && first_order(&l);
    if (ok) {
        reduce_crossings(&l);
        place(&l);
        fit(d);
    }
    end(&l);
    return ok;
}
