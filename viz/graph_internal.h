/* viz/graph_internal.h - the drawing of a tensor's autograd graph. */
#ifndef BR_GRAPH_INTERNAL_H
#define BR_GRAPH_INTERNAL_H

#include "viz/viz_internal.h"

typedef enum br_vertex_kind {
    BR_VERTEX_OP,
    BR_VERTEX_RESULT,    /* the operation or leaf whose result is the given tensor */
    BR_VERTEX_PARAMETER, /* a leaf with a name */
    BR_VERTEX_LEAF,
    BR_VERTEX_BEND, /* where a line crosses a layer */
} br_vertex_kind;

typedef struct br_vertex {
    br_vertex_kind kind;
    const void *of;      /* the autograd node, or the leaf */
    char *label, *shape; /* UTF-8 without control characters; NULL for a bend */
    int64_t layer;       /* 0: at the top */
    int64_t place;       /* index in its layer, from the left */
    double x, width;     /* x of its centre */
} br_vertex;

/* An edge in the direction of the forward pass; gradients flow the other way. */
typedef struct br_line {
    int64_t from, to; /* indices of vertices */
} br_line;

typedef struct br_drawing {
    br_vertex *vertices;
    int64_t n_vertices, vertex_capacity;
    br_line *lines; /* after the layout: pieces between adjacent layers */
    int64_t n_lines, line_capacity;
    int64_t n_layers;
    double width, height;
} br_drawing;

/* Collects the graph of t. The inputs of each operation come before it. Call br__graph_free() even
 * if this fails. */
bool br__graph_draw(const char *op, br_tensor *t, br_module *module, br_drawing *d);
void br__graph_free(br_drawing *d);
bool br__graph_add_vertex(br_drawing *d, br_vertex vertex);
bool br__graph_add_line(br_drawing *d, int64_t from, int64_t to);

/* Assigns each vertex to a layer below its inputs, splits long lines at bends, reduces crossings,
 * and sets positions. */
bool br__graph_lay_out(const char *op, br_drawing *d);

#endif
