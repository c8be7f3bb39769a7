/* viz/attention_heatmap.c - draws the heat map as SVG: a matrix of tokens by tokens. */
#include "viz/attention_figure.h"

#include "tensor/min_max.h"

#include <inttypes.h>
#include <math.h>

/* In pixels: width of the matrix, smallest cell with a token's name, margin, height of the titles
 * and of a note, and size of the bar of colours. */
enum { MATRIX = 560, NAMED = 9, MARGIN = 14, TITLES = 22, NOTE = 20, BAR = 10, BAR_LENGTH = 120 };
static const double faintest = 1.0 / 256;
static const char colour[] = "#1f6fd1", dark_colour[] = "#63a4ff";

typedef struct heat_figure {
    br_figure *f;
    const br_map *map;
    int64_t head;
    double cell, letters, left, top; /* size of a cell and of letters; place of the matrix */
    double largest;
} heat_figure;

/* Returns a head's weight, or the mean or maximum of all heads; NaN if one of them is NaN. */
static double value_of(const heat_figure *h, int64_t i, int64_t j)
{
    int64_t heads = br_size(h->map->weights, 0);
    if (h->head >= 0)
        return (double)br__figure_weight(h->map, br__min(h->head, heads - 1), i, j);
    double sum = 0, most = -INFINITY;
    for (int64_t k = 0; k < heads; k++) {
        double w = (double)br__figure_weight(h->map, k, i, j);
        sum += w;
        most = fmax(most, w);
    }
    return h->head == BR_HEAD_MEAN || isnan(sum) ? sum / (double)heads : most;
}

static void find_largest(heat_figure *h)
{
    for (int64_t i = 0; i < h->f->n_left; i++)
        for (int64_t j = 0; j < h->f->n_right; j++) {
            double w = value_of(h, i, j);
            h->f->bad += !isfinite(w);
            h->largest = isfinite(w) && w > h->largest ? w : h->largest;
        }
}

static bool has_names(const heat_figure *h)
{
    return h->cell >= NAMED;
}

static double longest(const heat_figure *h, int64_t n, char *const *tokens)
{
    int columns = 0;
    for (int64_t i = 0; has_names(h) && i < n; i++)
        columns = br__max(br__figure_columns(h->f, tokens[i]), columns);
    return has_names(h) ? columns * h->letters * 0.6 + 8 : 30;
}

static void draw_cells(const heat_figure *h)
{
    bool dark = h->f->view->display_mode == BR_DISPLAY_DARK;
    br_writer *w = h->f->out;
    br__write(w, "<g fill=\"%s\">\n", dark ? dark_colour : colour);
    for (int64_t i = 0; i < h->f->n_left; i++)
        for (int64_t j = 0; j < h->f->n_right; j++) {
            double value = value_of(h, i, j), opacity = value / h->largest;
            double x = h->left + (double)j * h->cell, y = h->top + (double)i * h->cell;
            if (!isfinite(value))
                br__write(w,
                          "<path d=\"M%.1f %.1fl%.1f %.1fm0 -%.1fl-%.1f %.1f\" "
                          "stroke=\"#b3261e\"/>\n",
                          x, y, h->cell, h->cell, h->cell, h->cell, h->cell);
            else if (opacity >= faintest)
                br__write(w,
                          "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" "
                          "opacity=\"%.3f\"/>\n",
                          x, y, h->cell, h->cell, opacity);
        }
    br__write(w,
              "</g>\n<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" fill=\"none\" "
              "stroke=\"%s\"/>\n",
              h->left - 0.5, h->top - 0.5, (double)h->f->n_right * h->cell + 1,
              (double)h->f->n_left * h->cell + 1, br__figure_mark(h->f));
}

/* Writes the names of rows and columns, or some positions if cells are too small for names. */
static void draw_names(const heat_figure *h)
{
    br_writer *w = h->f->out;
    int64_t step = has_names(h) ? 1 : 50;
    br__write(w, "<g font-size=\"%.1f\"><g text-anchor=\"end\">\n", h->letters);
    for (int64_t i = 0; i < h->f->n_left; i += step) {
        br__write(w, "<text x=\"%.1f\" y=\"%.1f\">", h->left - 5,
                  h->top + ((double)i + 0.5) * h->cell + h->letters * 0.35);
        if (has_names(h))
            br__figure_token(h->f, h->f->left[i]);
        else
            br__write(w, "#%" PRId64, i);
        br__write(w, "</text>\n");
    }
    br__write(w, "</g>\n");
    for (int64_t j = 0; j < h->f->n_right; j += step) {
        br__write(w, "<text transform=\"translate(%.1f %.1f) rotate(-90)\">",
                  h->left + ((double)j + 0.5) * h->cell + h->letters * 0.35, h->top - 5);
        if (has_names(h))
            br__figure_token(h->f, h->f->right[j]);
        else
            br__write(w, "#%" PRId64, j);
        br__write(w, "</text>\n");
    }
    br__write(w, "</g>\n");
}

/* Writes the titles of the axes, and what is shown. */
static void draw_titles(const heat_figure *h, double y)
{
    br_writer *w = h->f->out;
    br__write(
        w, "<g font-size=\"12\" fill=\"%s\" text-anchor=\"middle\">\n<text x=\"%.1f\" y=\"%.1f\">",
        br__figure_soft(h->f), h->left + (double)h->f->n_right * h->cell / 2, y + 14);
    br__write(w,
              "key</text>\n<text transform=\"translate(%d %.1f) rotate(-90)\">query</text></g>\n",
              MARGIN, h->top + (double)h->f->n_left * h->cell / 2);
}

/* Draws the bar of colours from 0 to the largest value, and the layer and head beside it. */
static void draw_scale(const heat_figure *h, double y)
{
    br_writer *w = h->f->out;
    bool dark = h->f->view->display_mode == BR_DISPLAY_DARK;
    const char *ink = dark ? dark_colour : colour;
    br__write(w,
              "<linearGradient id=\"bar\"><stop offset=\"0\" stop-color=\"%s\" stop-opacity=\"0\"/>"
              "<stop offset=\"1\" stop-color=\"%s\"/></linearGradient>\n",
              ink, ink);
    br__write(w,
              "<g font-size=\"12\" fill=\"%s\"><text x=\"%.1f\" y=\"%.1f\">0</text>"
              "<rect x=\"%.1f\" y=\"%.1f\" width=\"%d\" height=\"%d\" fill=\"url(#bar)\" "
              "stroke=\"%s\"/>",
              br__figure_soft(h->f), h->left, y + 9, h->left + 14, y, BAR_LENGTH, BAR,
              br__figure_mark(h->f));
    br__write(w, "<text x=\"%.1f\" y=\"%.1f\">%.3g</text>\n", h->left + 20 + BAR_LENGTH, y + 9,
              h->largest);
    br__write(w, "<text x=\"%.1f\" y=\"%.1f\">", h->left, y + 26);
    br__figure_layer(h->f, h->map);
    if (h->map->kind == BR_MAP_WEIGHTS && h->head >= 0)
        br__write(w, ", head %" PRId64, br__min(h->head, br_size(h->map->weights, 0) - 1));
    else if (h->map->kind == BR_MAP_WEIGHTS)
        br__write(w, ", %s of all heads", h->head == BR_HEAD_MEAN ? "mean" : "maximum");
    br__write(w, "</text></g>\n");
}

void br__figure_heatmap(br_figure *f)
{
    heat_figure h = { .f = f,
                      .map = br__figure_map(f, br__layer_of(f->view)),
                      .head = f->view->head };
    int64_t most = br__max(f->n_left, f->n_right);
    h.cell = fmax(fmin(floor((double)MATRIX / (double)most), 24), 1);
    h.letters = has_names(&h) ? fmin(h.cell, 13) : 11;
    h.left = MARGIN + 8 + longest(&h, f->n_left, f->left);
    h.top = br__figure_title_height(f) + TITLES + longest(&h, f->n_right, f->right);
    find_largest(&h);
    h.largest = h.largest > 0 ? h.largest : 1;
    double bottom = h.top + (double)f->n_left * h.cell + MARGIN, notes = bottom + 30 + NOTE;
    double width = fmax(h.left + (double)f->n_right * h.cell + MARGIN, h.left + 260);
    double y = br__figure_begin(f, width, notes + (f->bad > 0 ? NOTE : 0));
    draw_titles(&h, y);
    draw_cells(&h);
    draw_names(&h);
    draw_scale(&h, bottom);
    br__figure_note_bad(f, h.left, notes + 4);
}
