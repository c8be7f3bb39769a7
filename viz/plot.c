/* viz/plot.c - line plots as SVG.
 *
 * From top to bottom: title, legend, the plot with its grid, tick labels, and the label of x. The
 * file is self-contained and does not depend on the locale. */
#include "viz/viz_internal.h"

#include <brasa/viz.h>
#include <math.h>
#include <string.h>
#include <utf8proc.h>

BR_DEFINE_DEFAULTS(br_plot)

enum { FONT = 13, TITLE_FONT = 17, ROW = 22, MARGIN = 16, LETTER = 8, TICK = 5 };

/* The Okabe-Ito palette, which most colour-blind people can distinguish. */
static const char *const colours[] = { "#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                       "#e69f00", "#56b4e9", "#000000" };
enum { N_COLOURS = sizeof colours / sizeof *colours };

/* One axis: values low .. high, or their logarithms, are drawn at pixels from .. to. */
typedef struct axis {
    double low, high, from, to;
    double step;   /* distance between ticks */
    bool log;      /* base 10 */
    int precision; /* decimals of tick labels */
} axis;

typedef struct plot {
    br_writer *out;
    int n_series;
    const br_series *series;
    br_plot_options options;
    int width, height;
    int left, right, top, bottom; /* edges of the plot area */
    axis x, y;
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

/* ---- Axes ------------------------------------------------------------------------------------ */

static double position(const axis *a, double value)
{
    double v = a->log ? log10(value) : value;
    return a->from + (v - a->low) / (a->high - a->low) * (a->to - a->from);
}

/* Larger ranges would overflow the arithmetic of ticks; smaller ones would underflow. */
static const double widest = 1e300, narrowest = 1e-300;

/* Returns the y of a point, at least the floor. */
static double height(const plot *p, const br_series *s, int64_t i)
{
    return p->y.log && s->y[i] < p->options.floor_y ? p->options.floor_y : s->y[i];
}

/* Returns true if the point can be drawn. */
static bool drawable(const plot *p, const br_series *s, int64_t i)
{
    return fabs(s->x[i]) < widest && fabs(s->y[i]) < widest && (!p->x.log || s->x[i] > 0) &&
           (!p->y.log || height(p, s, i) > 0);
}

static void widen(axis *a, double value)
{
    double v = a->log ? log10(value) : value;
    a->low = fmin(a->low, v);
    a->high = fmax(a->high, v);
}

/* Returns 1, 2 or 5 times a power of ten that divides the range into about `count` steps. */
static double nice_step(double range, double count)
{
    double rough = range / count, power = pow(10, floor(log10(rough)));
    double digit = rough / power;
    return power * (digit <= 1 ? 1 : digit <= 2 ? 2 : digit <= 5 ? 5 : 10);
}

/* Rounds the range outwards to ticks, about `count` of them. */
static void place_ticks(axis *a, double count)
{
    if (!(a->low <= a->high)) { /* nothing to draw */
        a->low = 0;
        a->high = 1;
    }
    double min_range = fmax(1e-9 * fmax(fabs(a->low), fabs(a->high)), narrowest);
    if (a->high - a->low <= min_range) { /* all values are equal */
        double pad = a->low == 0 || a->log ? 0.5 : fabs(a->low) / 2;
        a->low -= pad;
        a->high += pad;
    }
    a->step = nice_step(a->high - a->low, count);
    if (a->log)
        a->step = fmax(1, ceil(a->step));
    a->low = floor(a->low / a->step + 1e-9) * a->step;
    a->high = ceil(a->high / a->step - 1e-9) * a->step;
    a->precision = (int)fmax(0, -floor(log10(a->step) + 1e-9));
}

static void tick_label(const axis *a, double tick, char *text, size_t size)
{
    if (a->log)
        snprintf(text, size, "%g", pow(10, tick));
    else if (a->precision > 6 || fabs(a->high) >= 1e7 || fabs(a->low) >= 1e7)
        snprintf(text, size, "%g", tick);
    else
        snprintf(text, size, "%.*f", a->precision, tick);
}

/* Returns the width of the axis's widest label, in pixels. */
static int label_capacity(const axis *a)
{
    size_t longest = 0;
    int64_t n = llround((a->high - a->low) / a->step);
    for (int64_t i = 0; i <= n; i++) {
        char text[40];
        tick_label(a, a->low + (double)i * a->step, text, sizeof text);
        longest = strlen(text) > longest ? strlen(text) : longest;
    }
    return (int)longest * LETTER;
}

/* ---- Layout ---------------------------------------------------------------------------------- */

static const char *series_name(const plot *p, int i)
{
    return p->series[i].name ? p->series[i].name : "";
}

static int legend_width(const plot *p, int i)
{
    return 24 + 6 + text_columns(series_name(p, i)) * LETTER + 18; /* line, gap, name, gap */
}

/* Computes the place of one legend entry; returns the number of rows of the legend. */
static int legend_place(const plot *p, int index, int *x, int *row)
{
    int at = p->left, rows = p->n_series > 0;
    for (int i = 0; i < p->n_series; i++) {
        int width = legend_width(p, i);
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

static void lay_out(plot *p)
{
    const br_plot_options *o = &p->options;
    p->x = (axis){ .low = INFINITY, .high = -INFINITY, .log = o->log_x };
    p->y = (axis){ .low = INFINITY, .high = -INFINITY, .log = o->log_y };
    for (int k = 0; k < p->n_series; k++)
        for (int64_t i = 0; i < p->series[k].count; i++)
            if (drawable(p, &p->series[k], i)) {
                widen(&p->x, p->series[k].x[i]);
                widen(&p->y, height(p, &p->series[k], i));
            }
    place_ticks(&p->x, p->width / 100.0);
    place_ticks(&p->y, p->height / 70.0);
    p->left = MARGIN + (o->y_label ? ROW : 0) + label_capacity(&p->y) + TICK;
    p->right = p->width - MARGIN - label_capacity(&p->x) / 2;
    p->top = MARGIN + (o->title ? ROW + 4 : 0) + legend_place(p, -1, NULL, NULL) * ROW;
    p->bottom = p->height - MARGIN - (o->x_label ? ROW : 0) - ROW;
    p->x.from = p->left;
    p->x.to = p->right;
    p->y.from = p->bottom;
    p->y.to = p->top;
}

/* ---- Drawing --------------------------------------------------------------------------------- */

static void draw_label(plot *p, const char *attributes, const char *text)
{
    br__write(p->out, "<text %s>", attributes);
    br__write_xml(p->out, text);
    br__write(p->out, "</text>\n");
}

static void draw_titles(plot *p)
{
    char attributes[160];
    const br_plot_options *o = &p->options;
    int x = (p->left + p->right) / 2, y = (p->top + p->bottom) / 2, left = MARGIN + FONT - 3;
    if (o->title) {
        snprintf(attributes, sizeof attributes,
                 "x=\"%d\" y=\"%d\" text-anchor=\"middle\" font-size=\"%d\" fill=\"#111\"", x,
                 MARGIN + TITLE_FONT - 2, TITLE_FONT);
        draw_label(p, attributes, o->title);
    }
    if (o->x_label) {
        snprintf(attributes, sizeof attributes, "x=\"%d\" y=\"%d\" text-anchor=\"middle\"", x,
                 p->height - MARGIN);
        draw_label(p, attributes, o->x_label);
    }
    if (o->y_label) {
        snprintf(attributes, sizeof attributes,
                 "x=\"%d\" y=\"%d\" text-anchor=\"middle\" transform=\"rotate(-90,%d,%d)\"", left,
                 y, left, y);
        draw_label(p, attributes, o->y_label);
    }
}

static void draw_ticks(plot *p, const axis *a, bool vertical)
{
    int64_t n = llround((a->high - a->low) / a->step);
    for (int64_t i = 0; i <= n; i++) {
        double tick = a->low + (double)i * a->step;
        double at = a->from + (tick - a->low) / (a->high - a->low) * (a->to - a->from);
        char text[40];
        tick_label(a, fabs(tick) < a->step / 2 ? 0 : tick, text, sizeof text);
        if (vertical)
            br__write(p->out,
                      "<path d=\"M%d %.1fH%d\"/><text x=\"%d\" y=\"%.1f\" text-anchor=\"end\" "
                      "stroke=\"none\">%s</text>\n",
                      p->left, at, p->right, p->left - TICK - 3, at + FONT / 3.0, text);
        else
            br__write(p->out,
                      "<path d=\"M%.1f %dV%d\"/><text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\" "
                      "stroke=\"none\">%s</text>\n",
                      at, p->top, p->bottom, at, p->bottom + ROW - 4, text);
    }
}

typedef char point_text[64];

/* Writes the pixel of point i as "X,Y". */
static void write_point(const plot *p, const br_series *s, int64_t i, point_text text)
{
    snprintf(text, sizeof(point_text), "%.1f,%.1f", position(&p->x, s->x[i]),
             position(&p->y, height(p, s, i)));
}

/* Returns whether points first .. end-1 are all at the same pixel. */
static bool is_dot(const plot *p, const br_series *s, int64_t first, int64_t end)
{
    point_text one, other;
    write_point(p, s, first, one);
    for (int64_t i = first + 1; i < end; i++) {
        write_point(p, s, i, other);
        if (strcmp(one, other) != 0)
            return false;
    }
    return true;
}

/* Draws one line through points first .. end-1, all of which can be drawn. A line of a single pixel
 * would be invisible, so that is drawn as a dot. */
static void draw_run(plot *p, const br_series *s, int64_t first, int64_t end)
{
    if (is_dot(p, s, first, end)) {
        br__write(p->out, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"2\"/>\n",
                  position(&p->x, s->x[first]), position(&p->y, height(p, s, first)));
        return;
    }
    br__write(p->out, "<polyline points=\"");
    point_text before = "", point;
    for (int64_t i = first; i < end; i++) {
        write_point(p, s, i, point);
        if (strcmp(point, before) != 0)
            br__write(p->out, "%s%s", i > first ? " " : "", point);
        memcpy(before, point, sizeof before);
    }
    br__write(p->out, "\"/>\n");
}

static void draw_series(plot *p, int k)
{
    const br_series *s = &p->series[k];
    const char *colour = colours[k % N_COLOURS];
    br__write(p->out,
              "<g stroke=\"%s\" fill=\"none\" stroke-width=\"2\" stroke-linejoin=\"round\">\n",
              colour);
    for (int64_t i = 0; i < s->count;) {
        int64_t end = i;
        while (end < s->count && drawable(p, s, end))
            end++;
        if (end > i)
            draw_run(p, s, i, end);
        i = end + 1;
    }
    int x = 0, row = 0;
    legend_place(p, k, &x, &row);
    int y = MARGIN + (p->options.title ? ROW + 4 : 0) + row * ROW;
    br__write(p->out, "<path d=\"M%d %dh24\"/>\n</g>\n", x, y + FONT / 2 - 1);
    char attributes[64];
    snprintf(attributes, sizeof attributes, "x=\"%d\" y=\"%d\"", x + 30, y + FONT - 3);
    draw_label(p, attributes, series_name(p, k));
}

static void draw(plot *p)
{
    br__write(p->out,
              "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
              "viewBox=\"0 0 %d %d\" font-family=\"sans-serif\" font-size=\"%d\" fill=\"#333\" "
              "stroke=\"none\">\n"
              "<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n",
              p->width, p->height, p->width, p->height, FONT);
    draw_titles(p);
    br__write(p->out, "<g stroke=\"#ddd\">\n");
    draw_ticks(p, &p->x, false);
    draw_ticks(p, &p->y, true);
    br__write(p->out, "</g>\n");
    for (int k = 0; k < p->n_series; k++)
        draw_series(p, k);
    br__write(p->out, "<path d=\"M%d %dV%dH%d\" stroke=\"#333\" fill=\"none\"/>\n</svg>\n", p->left,
              p->top, p->bottom, p->right);
}

/* ---- The file -------------------------------------------------------------------------------- */

static bool good_arguments(const char *path, int n_series, const br_series *series,
                           const br_plot_options *o)
{
    const char *op = "plot_svg";
    if (br_failed())
        return false;
    if (!path || n_series < 0 || (n_series > 0 && !series))
        br_fail(BR_ERROR_ARGUMENT, op,
                "path and series are required, and n_series must be at least 0");
    else if (!(o->floor_y >= 0 && o->floor_y < widest))
        br_fail(BR_ERROR_ARGUMENT, op, "floor_y is %g, must be positive, or 0 for no floor",
                o->floor_y);
    else if (o->width < 300 || o->width > 20000 || o->height < 200 || o->height > 20000)
        br_fail(BR_ERROR_ARGUMENT, op, "the size is %d x %d, must be 300 x 200 .. 20000 x 20000",
                o->width, o->height);
    for (int i = 0; !br_failed() && i < n_series; i++)
        if (series[i].count < 0 || (series[i].count > 0 && (!series[i].x || !series[i].y)))
            br_fail(BR_ERROR_ARGUMENT, op, "series %d: x and y are required", i);
    return !br_failed();
}

bool br_plot_svg(const char *path, int n_series, const br_series *series,
                 const br_plot_options *options)
{
    const br_plot_options o = *BR_OPTIONS_OF("plot_svg", br_plot, options);
    if (!good_arguments(path, n_series, series, &o))
        return false;
    br_writer *out = br__writer_open("plot_svg", path);
    if (!out)
        return false;
    plot p = { .out = out,
               .n_series = n_series,
               .series = series,
               .options = o,
               .width = o.width,
               .height = o.height };
    lay_out(&p);
    draw(&p);
    return br__writer_close(out) >= 0;
}
