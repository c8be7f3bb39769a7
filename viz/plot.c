/* viz/plot.c - line plots as SVG.
 *
 * From top to bottom: title, panels, and the label of x. A panel has a legend, the plot with its
 * grid, and tick labels. The file is self-contained and does not depend on the locale.
 *
 * A value that a logarithmic axis cannot show, because it is 0, negative or below the floor, has a
 * mark at the axis, and the legend tells their number. */
#include "viz/plot.h"
#include "viz/viz_internal.h"

#include <math.h>
#include <string.h>
#include <utf8proc.h>

BR_DEFINE_DEFAULTS(br_plot)

enum { FONT = 13, TITLE_FONT = 17, ROW = 22, MARGIN = 16, LETTER = 8, TICK = 5, GAP = 12 };

/* The Okabe-Ito palette, which most colour-blind people can distinguish. */
static const char *const colours[] = { "#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                       "#e69f00", "#56b4e9", "#000000" };
enum { N_COLOURS = sizeof colours / sizeof *colours };

typedef struct panel {
    br_plot_panel of;
    int from, top, bottom; /* top of the legend, and edges of the plot area */
    br_axis y;
} panel;

typedef struct plot {
    br_writer *out;
    br_plot_options options;
    int left, right; /* edges of the plot areas */
    br_axis x;
    int n_panels;
    panel panels[BR_MAX_PANELS];
} plot;

/* ---- Text ------------------------------------------------------------------------------------ */

/* Returns the width of the text in columns of a monospaced font, as an estimate. */
static int text_columns(const char *text)
{
    int columns = 0;
    while (*text)
        columns += utf8proc_charwidth(br__xml_character(&text));
    return columns;
}

/* ---- Points ---------------------------------------------------------------------------------- */

/* Larger values would overflow the arithmetic of ticks. */
static const double widest = 1e300;

/* Returns whether the point has a place on the x axis, and a number as its y. */
static bool has_place(const plot *p, const br_series *s, int64_t i)
{
    return fabs(s->x[i]) < widest && fabs(s->y[i]) < widest && (!p->x.log || s->x[i] > 0);
}

/* Returns the y of a point, at least the floor. */
static double height(const panel *n, const br_series *s, int64_t i)
{
    return n->y.log && s->y[i] < n->of.floor_y ? n->of.floor_y : s->y[i];
}

/* Returns whether the y axis does not reach down to the point. */
static bool is_below(const plot *p, const panel *n, const br_series *s, int64_t i)
{
    return n->y.log && has_place(p, s, i) && (s->y[i] <= 0 || s->y[i] < n->of.floor_y);
}

/* Returns true if the point can be drawn as a part of a line. */
static bool drawable(const plot *p, const panel *n, const br_series *s, int64_t i)
{
    return has_place(p, s, i) && (!n->y.log || height(n, s, i) > 0);
}

/* ---- Legend ---------------------------------------------------------------------------------- */

typedef char note_text[96];

/* Writes a series' note about values below the axis, which is empty if there are none. */
static void describe_below(const plot *p, const panel *n, const br_series *s, note_text note)
{
    int64_t below = 0;
    for (int64_t i = 0; i < s->count; i++)
        below += is_below(p, n, s, i);
    char what[40] = "0 or less";
    if (n->of.floor_y > 0)
        snprintf(what, sizeof what, "below %.3g", n->of.floor_y);
    *note = 0;
    if (below > 0)
        snprintf(note, sizeof(note_text), " (\xe2\x96\xbc %lld of %lld: %s)", (long long)below,
                 (long long)s->count, what);
}

static const char *series_name(const br_series *s)
{
    return s->name ? s->name : "";
}

static int legend_width(const plot *p, const panel *n, const br_series *s)
{
    note_text note;
    describe_below(p, n, s, note);
    int columns = text_columns(series_name(s)) + text_columns(note);
    return 24 + 6 + columns * LETTER + 18; /* line, gap, name, gap */
}

/* Computes the place of one legend entry; returns the number of rows of the legend. */
static int legend_place(const plot *p, const panel *n, int index, int *x, int *row)
{
    int at = p->left, rows = n->of.n_series > 0;
    for (int i = 0; i < n->of.n_series; i++) {
        int width = legend_width(p, n, &n->of.series[i]);
        if (at > p->left && at + width > p->right) {
            at = p->left;
            rows++;
        }
        if (i == index) {
            *x = at;
            *row = rows - 1;
        }
        at += width;
    }
    return rows;
}

/* ---- Layout ---------------------------------------------------------------------------------- */

/* Widens the axes to the panel's points. */
static void measure(plot *p, panel *n)
{
    n->y = br__new_axis(n->of.log_y);
    for (int k = 0; k < n->of.n_series; k++) {
        const br_series *s = &n->of.series[k];
        for (int64_t i = 0; i < s->count; i++) {
            if (drawable(p, n, s, i))
                br__axis_widen(&n->y, height(n, s, i));
            if (drawable(p, n, s, i) || is_below(p, n, s, i))
                br__axis_widen(&p->x, s->x[i]);
        }
    }
}

static void lay_out(plot *p)
{
    const br_plot_options *o = &p->options;
    int top = MARGIN + (o->title ? ROW + 4 : 0), label = 0, longest = 0;
    int each = (o->height - MARGIN - (o->x_label ? ROW : 0) - top) / p->n_panels;
    p->x = br__new_axis(o->log_x);
    for (int i = 0; i < p->n_panels; i++) {
        panel *n = &p->panels[i];
        measure(p, n);
        br__axis_place_ticks(&n->y, fmax((each + MARGIN + ROW) / 70.0, 5));
        longest = (int)fmax(longest, br__axis_longest_label(&n->y));
        label = n->of.y_label ? ROW : label;
    }
    br__axis_place_ticks(&p->x, o->width / 100.0);
    p->left = MARGIN + label + longest * LETTER + TICK;
    p->right = o->width - MARGIN - br__axis_longest_label(&p->x) * LETTER / 2;
    p->x.from = p->left;
    p->x.to = p->right;
    for (int i = 0; i < p->n_panels; i++) {
        panel *n = &p->panels[i];
        n->from = top + i * each;
        n->top = n->from + legend_place(p, n, -1, NULL, NULL) * ROW;
        n->bottom = n->from + each - ROW - (i < p->n_panels - 1 ? GAP : 0);
        n->y.from = n->bottom;
        n->y.to = n->top;
    }
}

/* ---- Drawing --------------------------------------------------------------------------------- */

static void draw_label(plot *p, const char *attributes, const char *text, const char *note)
{
    br__write(p->out, "<text %s>", attributes);
    br__write_xml(p->out, text);
    br__write(p->out, "%s</text>\n", note);
}

static void draw_titles(plot *p)
{
    char attributes[160];
    const br_plot_options *o = &p->options;
    int x = (p->left + p->right) / 2;
    if (o->title) {
        snprintf(attributes, sizeof attributes,
                 "x=\"%d\" y=\"%d\" text-anchor=\"middle\" font-size=\"%d\" fill=\"#111\"", x,
                 MARGIN + TITLE_FONT - 2, TITLE_FONT);
        draw_label(p, attributes, o->title, "");
    }
    if (o->x_label) {
        snprintf(attributes, sizeof attributes, "x=\"%d\" y=\"%d\" text-anchor=\"middle\"", x,
                 o->height - MARGIN);
        draw_label(p, attributes, o->x_label, "");
    }
}

static void draw_y_label(plot *p, const panel *n)
{
    char attributes[160];
    int y = (n->top + n->bottom) / 2, left = MARGIN + FONT - 3;
    if (!n->of.y_label)
        return;
    snprintf(attributes, sizeof attributes,
             "x=\"%d\" y=\"%d\" text-anchor=\"middle\" transform=\"rotate(-90,%d,%d)\"", left, y,
             left, y);
    draw_label(p, attributes, n->of.y_label, "");
}

/* Draws a line of the grid, and its label or, for one without a label, in a lighter grey. */
static void draw_tick(plot *p, const panel *n, const br_axis *a, int i)
{
    double at = br__axis_tick(a, i);
    const char *grey = a->ticks[i].labelled ? "" : " stroke=\"#f0f0f0\"";
    br_tick_text text;
    br__axis_label(a, i, text);
    if (a == &n->y)
        br__write(p->out, "<path d=\"M%d %.1fH%d\"%s/>", p->left, at, p->right, grey);
    else
        br__write(p->out, "<path d=\"M%.1f %dV%d\"%s/>", at, n->top, n->bottom, grey);
    if (a->ticks[i].labelled && a == &n->y)
        br__write(p->out, "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\" stroke=\"none\">%s</text>",
                  p->left - TICK - 3, at + FONT / 3.0, text);
    else if (a->ticks[i].labelled)
        br__write(p->out,
                  "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\" stroke=\"none\">%s</text>", at,
                  n->bottom + ROW - 4, text);
    br__write(p->out, "\n");
}

static void draw_grid(plot *p, const panel *n)
{
    br__write(p->out, "<g stroke=\"#ddd\">\n");
    for (int i = 0; i < p->x.n_ticks; i++)
        draw_tick(p, n, &p->x, i);
    for (int i = 0; i < n->y.n_ticks; i++)
        draw_tick(p, n, &n->y, i);
    br__write(p->out, "</g>\n");
}

typedef char point_text[64];

/* Writes the pixel of point i as "X,Y". */
static void write_point(const plot *p, const panel *n, const br_series *s, int64_t i,
                        point_text text)
{
    snprintf(text, sizeof(point_text), "%.1f,%.1f", br__axis_position(&p->x, s->x[i]),
             br__axis_position(&n->y, height(n, s, i)));
}

/* Returns whether points first .. end-1 are all at the same pixel. */
static bool is_dot(const plot *p, const panel *n, const br_series *s, int64_t first, int64_t end)
{
    point_text one, other;
    write_point(p, n, s, first, one);
    for (int64_t i = first + 1; i < end; i++) {
        write_point(p, n, s, i, other);
        if (strcmp(one, other) != 0)
            return false;
    }
    return true;
}

/* Draws one line through points first .. end-1, all of which can be drawn. A line of a single pixel
 * would be invisible, so that is drawn as a dot. */
static void draw_run(plot *p, const panel *n, const br_series *s, int64_t first, int64_t end)
{
    if (is_dot(p, n, s, first, end)) {
        br__write(p->out, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"2\"/>\n",
                  br__axis_position(&p->x, s->x[first]),
                  br__axis_position(&n->y, height(n, s, first)));
        return;
    }
    br__write(p->out, "<polyline points=\"");
    point_text before = "", point;
    for (int64_t i = first; i < end; i++) {
        write_point(p, n, s, i, point);
        if (strcmp(point, before) != 0)
            br__write(p->out, "%s%s", i > first ? " " : "", point);
        memcpy(before, point, sizeof before);
    }
    br__write(p->out, "\"/>\n");
}

/* Draws a triangle on the x axis for each value below the y axis, once per pixel. */
static void draw_below(plot *p, const panel *n, const br_series *s, const char *colour)
{
    long before = -1;
    for (int64_t i = 0; i < s->count; i++) {
        if (!is_below(p, n, s, i))
            continue;
        long x = lround(br__axis_position(&p->x, s->x[i]));
        if (x != before)
            br__write(p->out, "<path d=\"M%ld %dl-4 -7h8z\" fill=\"%s\" stroke=\"none\"/>\n", x,
                      n->bottom, colour);
        before = x;
    }
}

static void draw_series(plot *p, const panel *n, int k)
{
    const br_series *s = &n->of.series[k];
    const char *colour = colours[k % N_COLOURS];
    br__write(p->out,
              "<g stroke=\"%s\" fill=\"none\" stroke-width=\"2\" stroke-linejoin=\"round\">\n",
              colour);
    for (int64_t i = 0; i < s->count;) {
        int64_t end = i;
        while (end < s->count && drawable(p, n, s, end))
            end++;
        if (end > i)
            draw_run(p, n, s, i, end);
        i = end + 1;
    }
    draw_below(p, n, s, colour);
    int x = 0, row = 0;
    legend_place(p, n, k, &x, &row);
    int y = n->from + row * ROW;
    br__write(p->out, "<path d=\"M%d %dh24\"/>\n</g>\n", x, y + FONT / 2 - 1);
    char attributes[64];
    note_text note;
    describe_below(p, n, s, note);
    snprintf(attributes, sizeof attributes, "x=\"%d\" y=\"%d\"", x + 30, y + FONT - 3);
    draw_label(p, attributes, series_name(s), note);
}

static void draw_panel(plot *p, const panel *n)
{
    draw_y_label(p, n);
    draw_grid(p, n);
    for (int k = 0; k < n->of.n_series; k++)
        draw_series(p, n, k);
    br__write(p->out, "<path d=\"M%d %dV%dH%d\" stroke=\"#333\" fill=\"none\"/>\n", p->left, n->top,
              n->bottom, p->right);
}

static void draw(plot *p)
{
    int width = p->options.width, height = p->options.height;
    br__write(p->out,
              "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
              "viewBox=\"0 0 %d %d\" font-family=\"sans-serif\" font-size=\"%d\" fill=\"#333\" "
              "stroke=\"none\">\n"
              "<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n",
              width, height, width, height, FONT);
    draw_titles(p);
    for (int i = 0; i < p->n_panels; i++)
        draw_panel(p, &p->panels[i]);
    br__write(p->out, "</svg>\n");
}

/* ---- The file -------------------------------------------------------------------------------- */

static bool good_series(int n_series, const br_series *series)
{
    const char *op = "plot_svg";
    for (int i = 0; i < n_series; i++)
        if (series[i].count < 0 || (series[i].count > 0 && (!series[i].x || !series[i].y))) {
            br_fail(BR_ERROR_ARGUMENT, op, "series %d: x and y are required", i);
            return false;
        }
    return true;
}

static bool good_arguments(const char *path, int n_panels, const br_plot_panel *panels,
                           const br_plot_options *o)
{
    const char *op = "plot_svg";
    if (br_failed())
        return false;
    for (int i = 0; i < n_panels && !br_failed(); i++) {
        const br_plot_panel *n = &panels[i];
        if (!path || n->n_series < 0 || (n->n_series > 0 && !n->series))
            br_fail(BR_ERROR_ARGUMENT, op,
                    "path and series are required, and n_series must be at least 0");
        else if (!(n->floor_y >= 0 && n->floor_y < widest))
            br_fail(BR_ERROR_ARGUMENT, op, "floor_y is %g, must be positive, or 0 for no floor",
                    n->floor_y);
    }
    if (br_failed())
        return false;
    if (o->width < 300 || o->width > 20000 || o->height < 200 || o->height > 20000)
        br_fail(BR_ERROR_ARGUMENT, op, "the size is %d x %d, must be 300 x 200 .. 20000 x 20000",
                o->width, o->height);
    for (int i = 0; i < n_panels && !br_failed(); i++)
        good_series(panels[i].n_series, panels[i].series);
    return !br_failed();
}

bool br__plot_panels(const char *path, int n_panels, const br_plot_panel *panels,
                     const br_plot_options *options)
{
    if (!good_arguments(path, n_panels, panels, options))
        return false;
    plot *p = br_calloc(1, sizeof *p);
    br_writer *out = p ? br__writer_open("plot_svg", path) : NULL;
    if (!out) {
        br_free(p);
        return false;
    }
    p->out = out;
    p->options = *options;
    p->n_panels = n_panels;
    for (int i = 0; i < n_panels; i++)
        p->panels[i].of = panels[i];
    lay_out(p);
    draw(p);
    br_free(p);
    return br__writer_close(out) >= 0;
}

bool br_plot_svg(const char *path, int n_series, const br_series *series,
                 const br_plot_options *options)
{
    const br_plot_options *o = BR_OPTIONS_OF("plot_svg", br_plot, options);
    br_plot_panel only = { .y_label = o->y_label,
                           .log_y = o->log_y,
                           .floor_y = o->floor_y,
                           .n_series = n_series,
                           .series = series };
    return br__plot_panels(path, 1, &only, o);
}
