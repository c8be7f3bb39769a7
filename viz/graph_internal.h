/* viz/graph_internal.h - the graph under a tensor, as it is drawn. */
#ifndef BR_GRAPH_INTERNAL_H
#define BR_GRAPH_INTERNAL_H

#include "viz/viz_internal.h"

typedef enum br_vertex_kind {
    BR_VERTEX_OP,
    BR_VERTEX_RESULT,    /* the operation, or the leaf, that made the chosen tensor */
    BR_VERTEX_PARAMETER, /* a leaf with a name */
    BR_VERTEX_LEAF,
    BR_VERTEX_BEND, /* where a line passes a layer */
} br_vertex_kind;

typedef struct br_vertex {
    br_vertex_kind kind;
    const void *of;      /* the node, or the leaf */
    char *label, *shape; /* UTF-8 without control characters; NULL for a bend */
    int64_t layer;       /* 0: at the top */
    int64_t place;       /* in its layer, from the left */
    double x, width;     /* of its middle */
} br_vertex;

/* Gradients go the other way. */
typedef struct br_line {
    int64_t from, to; /* vertices */
} br_line;

typedef struct br_drawing {
    br_vertex *vertices;
    int64_t n_vertices, vertex_room;
    br_line *lines; /* once laid out, each leads to the next layer; those through bends follow */
    int64_t n_lines, line_room;
    int64_t n_layers;
    double width, height;
} br_drawing;

/* What stands under t, the inputs of each operation before it; br__graph_free() in any case. */
bool br__graph_draw(const char *op, br_tensor *t, br_module *module, br_drawing *d);
void br__graph_free(br_drawing *d);
bool br__graph_add_vertex(br_drawing *d, br_vertex vertex);
bool br__graph_add_line(br_drawing *d, int64_t from, int64_t to);

/* Puts every vertex into a layer below what it is made from, long lines over bends, with few
 * crossings; then sets places. */
bool br__graph_lay_out(const char *op, br_drawing *d);

#endif
