/* viz/graph.c - collects the autograd graph of a tensor, and writes it as DOT. */
#include "viz/graph_internal.h"

#include "autograd/tape.h"

#include <stdlib.h>
#include <string.h>

BR_DEFINE_DEFAULTS(br_graph)

/* ---- Vertices and lines ---------------------------------------------------------------------- */

void br__graph_free(br_drawing *d)
{
    for (int64_t i = 0; i < d->n_vertices; i++) {
        br_free(d->vertices[i].label);
        br_free(d->vertices[i].shape);
    }
    br_free(d->vertices);
    br_free(d->lines);
}

bool br__graph_add_vertex(br_drawing *d, br_vertex vertex)
{
    void *grown = br__grow(d->vertices, &d->vertex_capacity, d->n_vertices, sizeof *d->vertices);
    if (!grown) {
        br_free(vertex.label);
        br_free(vertex.shape);
        return false;
    }
    d->vertices = grown;
    d->vertices[d->n_vertices++] = vertex;
    return true;
}

bool br__graph_add_line(br_drawing *d, int64_t from, int64_t to)
{
    void *grown = br__grow(d->lines, &d->line_capacity, d->n_lines, sizeof *d->lines);
    if (!grown)
        return false;
    d->lines = grown;
    d->lines[d->n_lines++] = (br_line){ from, to };
    return true;
}

/* ---- From the autograd graph ----------------------------------------------------------------- */

/* Maps a node or a leaf to its vertex. The array is sorted by address. */
typedef struct known {
    const void *of;
    int64_t vertex;
} known;

typedef struct builder {
    const char *op;
    br_drawing *d;
    br_named_list *names; /* names of parameters; NULL: none */
    known *known;
    int64_t n_known, capacity;
} builder;

static int64_t find(const builder *b, const void *of, bool *found)
{
    int64_t low = 0, high = b->n_known;
    while (low < high) {
        int64_t middle = (low + high) / 2;
        if ((uintptr_t)b->known[middle].of < (uintptr_t)of)
            low = middle + 1;
        else
            high = middle;
    }
    *found = low < b->n_known && b->known[low].of == of;
    return low;
}

static bool add_known(builder *b, const void *of, br_vertex vertex)
{
    bool found;
    int64_t at = find(b, of, &found);
    void *grown = br__grow(b->known, &b->capacity, b->n_known, sizeof *b->known);
    if (grown)
        b->known = grown;
    vertex.of = of;
    if (!vertex.label || !vertex.shape || !grown) {
        br_free(vertex.label);
        br_free(vertex.shape);
        return false;
    }
    if (!br__graph_add_vertex(b->d, vertex))
        return false;
    memmove(&b->known[at + 1], &b->known[at], (size_t)(b->n_known - at) * sizeof *b->known);
    b->known[at] = (known){ of, b->d->n_vertices - 1 };
    b->n_known++;
    return true;
}

static const char *name_of(const builder *b, const br_tensor *leaf)
{
    for (int64_t i = 0; b->names && i < b->names->count; i++)
        if (b->names->items[i].tensor == leaf)
            return b->names->items[i].name;
    return NULL;
}

/* Returns the leaf's vertex, created on first use, or -1 on error. */
static int64_t leaf_vertex(builder *b, const br_tensor *leaf)
{
    bool found;
    int64_t at = find(b, leaf, &found);
    if (found)
        return b->known[at].vertex;
    const char *name = name_of(b, leaf);
    br_vertex v = { .kind = name ? BR_VERTEX_PARAMETER : BR_VERTEX_LEAF };
    v.label = br_strdup(name ? br_printable(name) : "leaf");
    v.shape = br_format("%s %s", br_dtype_name(leaf->dtype), br__shape(leaf));
    return add_known(b, leaf, v) ? b->d->n_vertices - 1 : -1;
}

static bool add_node(builder *b, const br_node *node)
{
    br_vertex v = { .kind = BR_VERTEX_OP };
    const br_output *output = node->outputs;
    v.label = br_strdup(br_printable(node->op->name));
    v.shape =
        br_format("%s %s", br_dtype_name(output->dtype), br__shape_of(output->ndim, output->sizes));
    if (!add_known(b, node, v))
        return false;
    int64_t to = b->d->n_vertices - 1;
    for (int i = 0; i < node->n_inputs; i++) {
        const br_edge *edge = &node->inputs[i];
        bool found = true;
        int64_t from = edge->node   ? b->known[find(b, edge->node, &found)].vertex
                       : edge->leaf ? leaf_vertex(b, edge->leaf)
                                    : to;
        if (from < 0 || (from != to && !br__graph_add_line(b->d, from, to)))
            return false;
    }
    return true;
}

static int compare_numbers(const void *a, const void *b)
{
    const br_node *x = *(br_node *const *)a, *y = *(br_node *const *)b;
    return (x->number > y->number) - (x->number < y->number);
}

/* Adds the oldest nodes first, so that a node's inputs are added before it. */
static bool add_all(builder *b, br_tensor *t)
{
    br_node_list list = { .items = NULL };
    bool ok = br__collect_nodes(1, &t, &list);
    if (list.count > 0)
        qsort(list.items, list.count, sizeof *list.items, compare_numbers);
    for (size_t k = 0; k < list.count; k++) {
        list.items[k]->seen = false;
        ok = ok && add_node(b, list.items[k]);
    }
    br__node_list_free(&list);
    const br_autograd *a = br__autograd(t);
    if (ok && !(a && a->node))
        ok = leaf_vertex(b, t) >= 0;
    if (ok) {
        bool found;
        const void *of = a && a->node ? (const void *)a->node : (const void *)t;
        b->d->vertices[b->known[find(b, of, &found)].vertex].kind = BR_VERTEX_RESULT;
    }
    return ok;
}

bool br__graph_draw(const char *op, br_tensor *t, br_module *module, br_drawing *d)
{
    *d = (br_drawing){ 0 };
    if (!br__required(op, "t", t))
        return false;
    if (!br_requires_grad(t)) {
        br_fail(BR_ERROR_STATE, op, "t %s does not require grad and has no graph", br__shape(t));
        return false;
    }
    builder b = { .op = op, .d = d };
    b.names = module ? br_parameters(module) : NULL;
    bool ok = !br_failed() && add_all(&b, t);
    br_named_list_free(b.names);
    br_free(b.known);
    return ok;
}

/* ---- DOT ------------------------------------------------------------------------------------- */

/* Escapes quotes, and backslashes, which start Graphviz's own escapes. */
static void write_dot_text(br_writer *w, const char *text)
{
    for (; *text; text++) {
        if (*text == '"' || *text == '\\')
            br__write_bytes(w, "\\", 1);
        br__write_bytes(w, text, 1);
    }
}

static void write_dot_vertex(br_writer *w, int64_t i, const br_vertex *v)
{
    static const char *const styles[] = {
        [BR_VERTEX_OP] = "shape=box, style=\"rounded,filled\", fillcolor=\"#eef1f5\"",
        [BR_VERTEX_RESULT] = "shape=box, style=\"rounded,filled\", fillcolor=\"#cdebd0\"",
        [BR_VERTEX_PARAMETER] = "shape=box, style=filled, fillcolor=\"#cfe2fb\"",
        [BR_VERTEX_LEAF] = "shape=box, style=filled, fillcolor=\"#fdebc8\"",
    };
    br__write(w, "  n%lld [label=\"", (long long)i);
    write_dot_text(w, v->label);
    br__write_bytes(w, "\\n", 2);
    write_dot_text(w, v->shape);
    br__write(w, "\", %s];\n", styles[v->kind]);
}

bool br_graph_dot(const char *path, br_tensor *t, const br_graph_options *options)
{
    const br_graph_options *o = BR_OPTIONS_OF("graph_dot", br_graph, options);
    br_drawing d;
    bool ok =
        br__graph_draw("graph_dot", t, o->module, &d) && br__required("graph_dot", "path", path);
    br_writer *w = ok ? br__writer_open("graph_dot", path) : NULL;
    if (w) {
        br__write(w, "digraph brasa {\n  node [fontname=\"sans-serif\", fontsize=11];\n");
        if (o->title) {
            br__write(w, "  labelloc=t;\n  label=\"");
            write_dot_text(w, br_printable(o->title));
            br__write(w, "\";\n");
        }
        for (int64_t i = 0; i < d.n_vertices; i++)
            write_dot_vertex(w, i, &d.vertices[i]);
        for (int64_t i = 0; i < d.n_lines; i++)
            br__write(w, "  n%lld -> n%lld;\n", (long long)d.lines[i].from,
                      (long long)d.lines[i].to);
        br__write(w, "}\n");
        ok = br__writer_close(w) >= 0;
    }
    br__graph_free(&d);
    return ok && w != NULL;
}
