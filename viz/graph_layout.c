/* viz/graph_layout.c - a drawing in layers (Sugiyama, Tagawa and Toda, 1981): each vertex below
 * what it is made from, lines that pass layers bent there, few crossings, and neighbours above one
 * another. */
#include "viz/graph_internal.h"

enum { MOST_VERTICES = 50000, SWEEPS = 12, GAP = 18 };

/* A vertex's neighbours in the layer before, or behind, as runs of one array. */
typedef struct neighbours {
    int64_t *first, *of; /* those of v: of[first[v]] .. of[first[v + 1] - 1] */
} neighbours;

typedef struct layout {
    br_drawing *d;
    neighbours above, below;
    int64_t *order, *first; /* layer l: order[first[l]] .. order[first[l + 1] - 1] */
    double *wish;           /* where a vertex would be, by its neighbours */
} layout;

/* ---- Layers ---------------------------------------------------------------------------------- */

/* Leaves, and operations on leaves alone: these count their inputs that are none in `place`. */
static bool is_source(const br_vertex *v)
{
    return v->kind == BR_VERTEX_PARAMETER || v->kind == BR_VERTEX_LEAF ||
           (v->kind == BR_VERTEX_OP && v->place == 0);
}

/* Lines are in the order of what they lead to, and that is made after what it is made from. Sources
 * stand right above the first that they go into. */
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
    if (d->n_vertices + bends <= MOST_VERTICES)
        return true;
    br__fail(BR_ERROR_ARGUMENT, op,
             "the graph has %lld operations and leaves and %lld passings of lines, %d are the most "
             "that are laid out: write it as DOT",
             (long long)d->n_vertices, (long long)bends, MOST_VERTICES);
    return false;
}

/* Cuts lines at every layer they pass. */
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
    n->first = br__calloc((size_t)d->n_vertices + 2, sizeof *n->first);
    n->of = br__calloc((size_t)d->n_lines + 1, sizeof *n->of);
    if (!n->first || !n->of)
        return false;
    /* Counted one too far, so that filling leaves each run's start where it belongs. */
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
    l->order = br__calloc(n + 1, sizeof *l->order);
    l->first = br__calloc((size_t)d->n_layers + 1, sizeof *l->first);
    l->wish = br__calloc(n + 1, sizeof *l->wish);
    if (!l->order || !l->first || !l->wish || !find_neighbours(d, true, &l->above) ||
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
    br_free(l->wish);
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

/* As a walk from the result up meets them, which puts what belongs together side by side. */
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
    int64_t *stack = br__calloc(n + layers, sizeof *stack);
    bool *seen = br__calloc(n, sizeof *seen);
    if (stack && seen)
        order_by_walk(l, stack, seen, stack + n);
    br_free(stack);
    br_free(seen);
    return !br_failed();
}

/* The mean of the neighbours' places, or x; its own where it has none. */
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

/* Sorts a layer by its vertices' wishes; an insertion sort, as little is out of order. */
static void sort_layer(layout *l, int64_t layer)
{
    int64_t *order = l->order + l->first[layer], n = count_in(l, layer);
    for (int64_t i = 1; i < n; i++) {
        int64_t v = order[i], k = i;
        for (; k > 0 && l->wish[order[k - 1]] > l->wish[v]; k--)
            order[k] = order[k - 1];
        order[k] = v;
    }
    for (int64_t i = 0; i < n; i++)
        l->d->vertices[order[i]].place = i;
}

/* Down and up through the layers, each sorted by where its neighbours are. */
static void reduce_crossings(layout *l)
{
    for (int sweep = 0; sweep < SWEEPS; sweep++) {
        bool down = sweep % 2 == 0;
        for (int64_t k = 1; k < l->d->n_layers; k++) {
            int64_t layer = down ? k : l->d->n_layers - 1 - k;
            for (int64_t i = l->first[layer]; i < l->first[layer + 1]; i++)
                l->wish[l->order[i]] = mean_of(l, down ? &l->above : &l->below, l->order[i], false);
            sort_layer(l, layer);
        }
    }
}

/* ---- Places ---------------------------------------------------------------------------------- */

/* Vertices of a layer at their wishes, or as near as their widths allow: pushed apart from the left
 * and from the right, and the mean of both taken. */
static void place_layer(layout *l, int64_t layer)
{
    br_vertex *vertices = l->d->vertices;
    const int64_t *order = l->order + l->first[layer], n = count_in(l, layer);
    for (int64_t i = 0; i < n; i++) {
        const br_vertex *v = &vertices[order[i]];
        double least =
            i == 0 ? l->wish[order[i]]
                   : vertices[order[i - 1]].x + (vertices[order[i - 1]].width + v->width) / 2 + GAP;
        vertices[order[i]].x = l->wish[order[i]] > least ? l->wish[order[i]] : least;
    }
    double right = 0;
    for (int64_t i = n - 1; i >= 0; i--) {
        br_vertex *v = &vertices[order[i]];
        double most = l->wish[order[i]];
        if (i < n - 1) {
            double limit = right - (vertices[order[i + 1]].width + v->width) / 2 - GAP;
            most = most < limit ? most : limit;
        }
        right = most;
        v->x = (v->x + most) / 2;
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
                l->wish[v] = (mean_of(l, &l->above, v, true) + mean_of(l, &l->below, v, true)) / 2;
            }
            place_layer(l, layer);
        }
    }
}

/* Moves all to the right of 0, and tells how wide it is. */
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
