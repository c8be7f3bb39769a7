/* viz/graph_svg.c - writes the autograd graph of a tensor as SVG, laid out by graph_layout.c. */
#include "viz/graph_internal.h"

/* In pixels: height of a vertex, distance between layers, margin, height of the title, width of a
 * letter. */
enum { BOX = 36, LAYER = 66, MARGIN = 20, TITLE = 30, LETTER = 7 };

/* ---- Text ------------------------------------------------------------------------------------ */

/* Returns the number of UTF-8 characters. */
static int64_t length_of(const char *text)
{
    int64_t n = 0;
    for (; *text; text++)
        n += (*text & 0xc0) != 0x80;
    return n;
}

static void set_widths(br_drawing *d)
{
    for (int64_t i = 0; i < d->n_vertices; i++) {
        br_vertex *v = &d->vertices[i];
        int64_t label = length_of(v->label), shape = length_of(v->shape);
        v->width = (double)((label > shape ? label : shape) * LETTER + 18);
    }
}

/* ---- Drawing --------------------------------------------------------------------------------- */

static double top_of(const br_drawing *d, const br_vertex *v)
{
    return d->height - MARGIN - BOX - (double)(d->n_layers - 1 - v->layer) * LAYER;
}

/* Writes one piece of a line. It starts and ends vertically, so that pieces join smoothly. */
static void write_line(br_writer *w, const br_drawing *d, const br_line *line)
{
    const br_vertex *from = &d->vertices[line->from], *to = &d->vertices[line->to];
    double x1 = from->x + MARGIN, y1 = top_of(d, from), x2 = to->x + MARGIN, y2 = top_of(d, to);
    y1 += from->kind == BR_VERTEX_BEND ? BOX / 2.0 : BOX;
    y2 += to->kind == BR_VERTEX_BEND ? BOX / 2.0 : 0;
    double middle = (y1 + y2) / 2;
    br__write(w, "<path d=\"M%.1f %.1fC%.1f %.1f %.1f %.1f %.1f %.1f\"%s/>\n", x1, y1, x1, middle,
              x2, middle, x2, y2, to->kind == BR_VERTEX_BEND ? "" : " marker-end=\"url(#tip)\"");
}

static void write_vertex(br_writer *w, const br_drawing *d, const br_vertex *v)
{
    static const char *const classes[] = {
        [BR_VERTEX_OP] = "op",
        [BR_VERTEX_RESULT] = "result",
        [BR_VERTEX_PARAMETER] = "parameter",
        [BR_VERTEX_LEAF] = "leaf",
    };
    double x = v->x + MARGIN, y = top_of(d, v);
    br__write(
        w, "<g class=\"%s\"><rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%d\" rx=\"%d\"/>",
        classes[v->kind], x - v->width / 2, y, v->width, BOX,
        v->kind == BR_VERTEX_OP || v->kind == BR_VERTEX_RESULT ? 8 : 0);
    br__write(w, "<text x=\"%.1f\" y=\"%.1f\">", x, y + 15);
    br__write_xml(w, v->label);
    br__write(w, "</text><text class=\"shape\" x=\"%.1f\" y=\"%.1f\">", x, y + 29);
    br__write_xml(w, v->shape);
    br__write(w, "</text></g>\n");
}

static void write_head(br_writer *w, const br_drawing *d, const char *title)
{
    double width = d->width + 2 * MARGIN;
    br__write(w,
              "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" "
              "viewBox=\"0 0 %.0f %.0f\" font-family=\"sans-serif\" font-size=\"12\">\n",
              width, d->height, width, d->height);
    br__write(w, "<style>text{text-anchor:middle}.shape{font-size:11px;fill:#555}"
                 "path{fill:none;stroke:#888}rect{stroke:#777}.op rect{fill:#eef1f5}"
                 ".result rect{fill:#cdebd0}.parameter rect{fill:#cfe2fb}"
                 ".leaf rect{fill:#fdebc8}</style>\n");
    br__write(w, "<defs><marker id=\"tip\" viewBox=\"0 0 8 8\" refX=\"8\" refY=\"4\" "
                 "markerWidth=\"8\" markerHeight=\"8\" orient=\"auto\">"
                 "<path d=\"M0 0L8 4L0 8z\" style=\"fill:#888;stroke:none\"/></marker></defs>\n");
    br__write(w, "<rect width=\"100%%\" height=\"100%%\" style=\"fill:#fff;stroke:none\"/>\n");
    if (!title)
        return;
    br__write(w, "<text x=\"%.1f\" y=\"24\" style=\"font-size:16px\">", width / 2);
    br__write_xml(w, title);
    br__write(w, "</text>\n");
}

static bool write_drawing(const char *path, br_drawing *d, const char *title)
{
    br_writer *w = br__writer_open("graph_svg", path);
    if (!w)
        return false;
    title = title ? br_printable(title) : NULL;
    double min_width = title ? (double)(length_of(title) * 10) : 0;
    for (int64_t i = 0; d->width < min_width && i < d->n_vertices; i++)
        d->vertices[i].x += (min_width - d->width) / 2;
    d->width = d->width < min_width ? min_width : d->width;
    d->height = (double)(d->n_layers - 1) * LAYER + BOX + 2 * MARGIN + (title ? TITLE : 0);
    write_head(w, d, title);
    for (int64_t i = 0; i < d->n_lines; i++)
        write_line(w, d, &d->lines[i]);
    for (int64_t i = 0; i < d->n_vertices; i++)
        if (d->vertices[i].kind != BR_VERTEX_BEND)
            write_vertex(w, d, &d->vertices[i]);
    br__write(w, "</svg>\n");
    return br__writer_close(w) >= 0;
}

bool br_graph_svg(const char *path, br_tensor *t, const br_graph_options *options)
{
    const br_graph_options *o = BR_OPTIONS_OF("graph_svg", br_graph, options);
    br_drawing d;
    bool ok =
        br__graph_draw("graph_svg", t, o->module, &d) && br__required("graph_svg", "path", path);
    if (ok)
        set_widths(&d);
    ok = ok && br__graph_lay_out("graph_svg", &d) && write_drawing(path, &d, o->title);
    br__graph_free(&d);
    return ok;
}
