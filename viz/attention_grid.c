/* viz/attention_grid.c - draws the model view as SVG: a thumbnail for each layer and head. */
#include "viz/attention_figure.h"

#include "tensor/min_max.h"

#include <inttypes.h>
#include <math.h>

/* In pixels: widths of the grid and of the axis, a distance, and the least distance between the
 * ends of two lines. */
enum { GRID = 900, AXIS = 52, TOP = 48, GAP = 4, MARGIN = 12, NOTE = 20, FINEST = 2 };
static const double least = 0.02; /* fainter lines are left out */

typedef struct grid_figure {
    br_figure *f;
    int64_t heads; /* the largest number of heads of a layer */
    int64_t columns, rows;
    double width, height, top; /* of a thumbnail; y of the first one */
} grid_figure;

static bool shows_head(const grid_figure *g, int64_t head)
{
    return br__includes(g->f->view->n_include_heads, g->f->view->include_heads, head);
}

static bool shows_map(const grid_figure *g, const br_map *m)
{
    return m->part == g->f->part && br__shows(g->f->view, m);
}

static void count(grid_figure *g)
{
    const br_attention *a = g->f->view->attention;
    for (int64_t i = 0; i < a->n_maps; i++) {
        if (!shows_map(g, &a->maps[i]))
            continue;
        g->rows++;
        g->heads = br__max(g->heads, br_size(a->maps[i].weights, 0));
        g->f->bad += a->maps[i].bad;
    }
    for (int64_t head = 0; head < g->heads; head++)
        g->columns += shows_head(g, head);
}

/* Adds each token's weights to those of its group: adjacent tokens of a long text share a line. The
 * weights of a group's row sum to 1 as those of a token do, so a thumbnail of any text has lines of
 * the same opacity. */
static void add_groups(const grid_figure *g, const br_map *m, int64_t head, int64_t rows,
                       int64_t columns, float *groups)
{
    int64_t n_left = g->f->n_left, n_right = g->f->n_right;
    for (int64_t i = 0; i < n_left; i++) {
        int64_t row = i * rows / n_left;
        /* The group of row r holds the tokens i with i * rows / n_left == r. */
        int64_t size = ((row + 1) * n_left + rows - 1) / rows - (row * n_left + rows - 1) / rows;
        for (int64_t j = 0; j < n_right; j++) {
            float w = br__figure_weight(m, head, i, j);
            if (isfinite(w))
                groups[row * columns + j * columns / n_right] += w / (float)size;
        }
    }
}

static void draw_thumbnail(const grid_figure *g, const br_map *m, int64_t head, double x, double y)
{
    int64_t most = br__max((int64_t)(g->height / FINEST), (int64_t)1);
    int64_t rows = br__min(g->f->n_left, most), columns = br__min(g->f->n_right, most);
    float *groups = br_calloc((size_t)(rows * columns), sizeof *groups);
    br_writer *w = g->f->out;
    if (!groups)
        return;
    add_groups(g, m, head, rows, columns, groups);
    double pitch = g->height / (double)br__max(rows, columns);
    br__write(w, "<g stroke-width=\"%.2f\">\n", fmin(2.2, pitch * 0.8));
    for (int64_t i = 0; i < rows * columns; i++)
        if ((double)groups[i] >= least)
            br__write(w, "<path d=\"M%.1f %.1fL%.1f %.1f\" opacity=\"%.2f\"/>\n", x + 4,
                      y + ((double)(i / columns) + 0.5) * pitch, x + g->width - 4,
                      y + ((double)(i % columns) + 0.5) * pitch, fmin((double)groups[i], 1));
    br__write(w, "</g>\n");
    br_free(groups);
}

static void draw_row(const grid_figure *g, const br_map *m, double y)
{
    br_colour_text text;
    br_writer *w = g->f->out;
    br__write(w,
              "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\" font-size=\"13\" fill=\"%s\">%" PRId64
              "</text>\n",
              AXIS - 8, y + g->height / 2 + 4, br__figure_soft(g->f), m->layer);
    br__write(w, "<g stroke=\"%s\">\n", br__figure_colour(m->layer, text));
    double x = AXIS;
    for (int64_t head = 0; head < g->heads && !br_failed(); head++) {
        if (!shows_head(g, head))
            continue;
        if (head < br_size(m->weights, 0)) {
            br__write(w,
                      "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" rx=\"3\" "
                      "fill=\"none\" stroke=\"%s\"/>\n",
                      x, y, g->width, g->height, br__figure_mark(g->f));
            draw_thumbnail(g, m, head, x, y);
        }
        x += g->width + GAP;
    }
    br__write(w, "</g>\n");
}

/* Writes the titles of both axes, and the numbers of heads. */
static void draw_axes(const grid_figure *g)
{
    br_writer *w = g->f->out;
    double across = (double)g->columns * (g->width + GAP),
           down = (double)g->rows * (g->height + GAP);
    br__write(w, "<g font-size=\"13\" fill=\"%s\" text-anchor=\"middle\">\n",
              br__figure_soft(g->f));
    br__write(w, "<text x=\"%.1f\" y=\"%.1f\">Head</text>\n", AXIS + across / 2, g->top - 28);
    br__write(w, "<text transform=\"translate(16 %.1f) rotate(-90)\">Layer</text>\n",
              g->top + down / 2);
    double x = AXIS + g->width / 2;
    for (int64_t head = 0; head < g->heads; head++)
        if (shows_head(g, head)) {
            br__write(w, "<text x=\"%.1f\" y=\"%.1f\">%" PRId64 "</text>\n", x, g->top - 8, head);
            x += g->width + GAP;
        }
    br__write(w, "</g>\n");
}

void br__figure_model(br_figure *f)
{
    grid_figure g = { .f = f };
    const br_attention *a = f->view->attention;
    count(&g);
    g.width =
        fmin(fmax(floor((double)GRID / (double)br__max(g.columns, (int64_t)1)) - GAP, 28), 116);
    g.height = fmax(floor(g.width * 1.1 + 0.5), 44);
    g.top = br__figure_title_height(f) + TOP;
    double right = AXIS + (double)g.columns * (g.width + GAP) + MARGIN;
    double bottom = g.top + (double)g.rows * (g.height + GAP) + MARGIN;
    br__figure_begin(f, right, bottom + (f->bad > 0 ? NOTE : 0));
    draw_axes(&g);
    double y = g.top;
    for (int64_t i = 0; i < a->n_maps; i++)
        if (!br_failed() && shows_map(&g, &a->maps[i])) {
            draw_row(&g, &a->maps[i], y);
            y += g.height + GAP;
        }
    br__figure_note_bad(f, MARGIN, bottom + 4);
}
