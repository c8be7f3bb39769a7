/* viz/attention_svg.c - draws attention as SVG: checks the arguments, and draws the head view. The
 * geometry is that of the page (lanes.js). */
#include "viz/attention_figure.h"

#include "tensor/min_max.h"

#include <inttypes.h>
#include <math.h>

static const char op[] = "attention_svg";

/* In pixels: height of a token, width of the lines, of a letter and of the margins, and heights of
 * the column titles, of a row of heads and of a note. */
enum { ROW = 22, BETWEEN = 240, LETTER = 8, MARGIN = 14, TITLES = 30, SQUARES = 24, NOTE = 20 };
enum { LINES_PER_TOKEN = 6, SPREAD = 14, THICKEST = 2, HEAD = 42, WORD = 36 };
static const double faintest = 1.0 / 512;

typedef struct head_figure {
    br_figure *f;
    const br_map *map;
    int64_t n_heads, *heads;
    double left, right, top; /* the space between the tokens */
    double width, height;
    double cutoff;
    int64_t shown, all; /* numbers of lines and of weights */
} head_figure;

/* ---- Choosing lines -------------------------------------------------------------------------- */

/* Collects the selected heads of the layer, or all if it has none of them. */
static bool choose_heads(head_figure *h)
{
    const br_attention_view *v = h->f->view;
    int64_t n = br_size(h->map->weights, 0);
    h->heads = br_calloc((size_t)n, sizeof *h->heads);
    for (int64_t i = 0; h->heads && i < n; i++)
        if (br__includes(v->n_heads, v->heads, i))
            h->heads[h->n_heads++] = i;
    for (int64_t i = 0; h->heads && h->n_heads == 0 && i < n; i++)
        h->heads[i] = i;
    if (h->heads && h->n_heads == 0)
        h->n_heads = n;
    return h->heads != NULL;
}

/* Counts the visible weights by their hundredths, and those that are not finite. */
static void count_weights(head_figure *h, int64_t counts[101])
{
    for (int64_t k = 0; k < h->n_heads; k++)
        for (int64_t i = 0; i < h->f->n_left; i++)
            for (int64_t j = 0; j < h->f->n_right; j++) {
                double w = h->f->scale * (double)br__figure_weight(h->map, h->heads[k], i, j);
                h->f->bad += !isfinite(w);
                if (isfinite(w) && w >= faintest)
                    counts[(int)fmin(floor(w * 100), 100)]++;
            }
}

/* Chooses the weight below which lines are left out, in hundredths: the least one that leaves few
 * lines for each token, unless it leaves none. A selected token has all its lines. */
static void choose_cutoff(head_figure *h)
{
    int64_t counts[101] = { 0 }, above = 0;
    int n = 101;
    count_weights(h, counts);
    int64_t most = LINES_PER_TOKEN * br__max(h->f->n_left, h->f->n_right);
    h->all = h->n_heads * h->f->n_left * h->f->n_right;
    while (n > 1 && (above == 0 || above + counts[n - 1] <= most))
        above += counts[--n];
    h->cutoff = h->f->token >= 0 ? faintest : fmax((double)br__min(n, 100) / 100, faintest);
}

/* Returns the opacity of a line, or 0 if it is not drawn. */
static double line_weight(const head_figure *h, int64_t k, int64_t i, int64_t j)
{
    double w = h->f->scale * (double)br__figure_weight(h->map, h->heads[k], i, j);
    bool chosen = h->f->token < 0 || h->f->token == i;
    return chosen && isfinite(w) && w >= h->cutoff ? fmin(w, 1) : 0;
}

/* ---- Drawing --------------------------------------------------------------------------------- */

static void draw_lines(head_figure *h)
{
    br_writer *w = h->f->out;
    double pitch = fmin((double)SPREAD / (double)h->n_heads, THICKEST);
    for (int64_t k = 0; k < h->n_heads; k++) {
        br_colour_text text;
        double aside = ((double)k - (double)(h->n_heads - 1) / 2) * pitch;
        br__write(w, "<g stroke=\"%s\" stroke-width=\"%.2f\">\n",
                  br__figure_colour(h->heads[k], text), pitch);
        for (int64_t i = 0; i < h->f->n_left; i++)
            for (int64_t j = 0; j < h->f->n_right; j++) {
                double weight = line_weight(h, k, i, j);
                if (weight <= 0)
                    continue;
                h->shown++;
                br__write(w, "<path d=\"M%.1f %.1fL%.1f %.1f\" opacity=\"%.3f\"/>\n", h->left,
                          h->top + ((double)i + 0.5) * ROW + aside, h->right,
                          h->top + ((double)j + 0.5) * ROW + aside, weight);
            }
        br__write(w, "</g>\n");
    }
}

/* Draws the selected token's weights as boxes behind the tokens on the right, one for each head. */
static void draw_boxes(const head_figure *h)
{
    double width = (h->width - h->right - MARGIN) / (double)h->n_heads;
    for (int64_t k = 0; k < h->n_heads && h->f->token >= 0; k++)
        for (int64_t j = 0; j < h->f->n_right; j++) {
            br_colour_text text;
            double weight = line_weight(h, k, h->f->token, j);
            if (weight > 0)
                br__write(h->f->out,
                          "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%d\" fill=\"%s\" "
                          "opacity=\"%.3f\"/>\n",
                          h->right + (double)k * width, h->top + (double)j * ROW + 1, width,
                          ROW - 2, br__figure_colour(h->heads[k], text), weight / 2);
        }
}

static void draw_tokens(const head_figure *h)
{
    br_writer *w = h->f->out;
    double middle = h->top + 15.5;
    if (h->f->token >= 0)
        br__write(w,
                  "<rect x=\"%d\" y=\"%.1f\" width=\"%.1f\" height=\"%d\" rx=\"3\" fill=\"%s\"/>\n",
                  MARGIN, h->top + (double)(h->f->token * ROW) + 1, h->left - MARGIN, ROW - 2,
                  br__figure_mark(h->f));
    br__write(w, "<g text-anchor=\"end\">\n");
    for (int64_t i = 0; i < h->f->n_left; i++) {
        br__write(w, "<text x=\"%.1f\" y=\"%.1f\"%s>", h->left - 7, middle + (double)(i * ROW),
                  i == h->f->token ? " font-weight=\"bold\"" : "");
        br__figure_token(h->f, h->f->left[i]);
        br__write(w, "</text>\n");
    }
    br__write(w, "</g>\n");
    for (int64_t j = 0; j < h->f->n_right; j++) {
        br__write(w, "<text x=\"%.1f\" y=\"%.1f\">", h->right + 7, middle + (double)(j * ROW));
        br__figure_token(h->f, h->f->right[j]);
        br__write(w, "</text>\n");
    }
}

static void draw_titles(const head_figure *h)
{
    br__write(h->f->out,
              "<g font-size=\"12\" fill=\"%s\"><text x=\"%.1f\" y=\"%.1f\" "
              "text-anchor=\"end\">query</text><text x=\"%.1f\" y=\"%.1f\">key</text>"
              "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">",
              br__figure_soft(h->f), h->left - 7, h->top - 8, h->right + 7, h->top - 8,
              (h->left + h->right) / 2, h->top - 8);
    br__figure_layer(h->f, h->map);
    if (h->n_heads == 1 && h->map->kind == BR_MAP_WEIGHTS)
        br__write(h->f->out, ", head %" PRId64, h->heads[0]);
    br__write(h->f->out, "</text></g>\n");
}

static int64_t heads_per_row(const head_figure *h)
{
    return br__max((int64_t)(h->width - 2 * MARGIN - WORD) / HEAD, (int64_t)1);
}

/* Writes the colours of the heads, in rows. */
static void draw_heads(const head_figure *h, double y)
{
    int64_t per_row = heads_per_row(h);
    br__write(h->f->out, "<text x=\"%d\" y=\"%.1f\" font-size=\"12\" fill=\"%s\">head</text>\n",
              MARGIN, y + 11.5, br__figure_soft(h->f));
    for (int64_t k = 0; k < h->n_heads; k++) {
        br_colour_text text;
        double x = MARGIN + WORD + (double)(k % per_row) * HEAD;
        double top = y + (double)(k / per_row) * SQUARES;
        br__write(h->f->out,
                  "<rect x=\"%.1f\" y=\"%.1f\" width=\"14\" height=\"14\" rx=\"3\" fill=\"%s\"/>"
                  "<text x=\"%.1f\" y=\"%.1f\" font-size=\"12\">%" PRId64 "</text>\n",
                  x, top, br__figure_colour(h->heads[k], text), x + 19, top + 11.5, h->heads[k]);
    }
}

static int widest(const br_figure *f, int64_t n, char *const *tokens)
{
    int columns = 5;
    for (int64_t i = 0; i < n; i++)
        columns = br__max(br__figure_columns(f, tokens[i]), columns);
    return columns;
}

/* Computes the places of everything. */
static void lay_out(head_figure *h)
{
    br_figure *f = h->f;
    h->left = MARGIN + widest(f, f->n_left, f->left) * LETTER + 10;
    h->right = h->left + BETWEEN;
    h->width = h->right + widest(f, f->n_right, f->right) * LETTER + 10 + MARGIN;
    h->top = br__figure_title_height(f) + TITLES;
    h->height = h->top + (double)br__max(f->n_left, f->n_right) * ROW + MARGIN;
}

static double rows_of_heads(const head_figure *h)
{
    int64_t per_row = heads_per_row(h);
    return h->n_heads > 1 ? (double)((h->n_heads + per_row - 1) / per_row) : 0;
}

static void draw_head_view(br_figure *f)
{
    head_figure h = { .f = f, .map = br__figure_map(f, br__layer_of(f->view)) };
    if (!choose_heads(&h))
        return;
    br__figure_scale(f, h.map);
    choose_cutoff(&h);
    lay_out(&h);
    double squares = h.height, notes = squares + rows_of_heads(&h) * SQUARES;
    bool cut = f->token < 0;
    br__figure_begin(f, h.width, notes + (cut ? NOTE : 0) + (f->bad > 0 ? NOTE : 0));
    draw_titles(&h);
    draw_boxes(&h);
    draw_lines(&h);
    draw_tokens(&h);
    if (h.n_heads > 1)
        draw_heads(&h, squares);
    if (cut)
        br__write(f->out,
                  "<text x=\"%d\" y=\"%.1f\" font-size=\"12\" fill=\"%s\">%" PRId64 " of %" PRId64
                  " weights, at least %.2g</text>\n",
                  MARGIN, notes + 8, br__figure_soft(f), h.shown, h.all, h.cutoff / f->scale);
    br__figure_note_bad(f, MARGIN, notes + 8 + (cut ? NOTE : 0));
    br_free(h.heads);
}

/* ---- The function ---------------------------------------------------------------------------- */

BR_DEFINE_DEFAULTS(br_attention_svg)

/* Returns the part to draw: the given one, or the first with layers that are included. */
static br_attention_part part_of(const br_attention_view *v, br_attention_part part)
{
    for (int64_t i = 0; part == BR_ATTENTION_SELF && i < v->attention->n_maps; i++)
        if (v->attention->maps[i].kind == v->map && br__shows(v, &v->attention->maps[i]))
            return v->attention->maps[i].part;
    return part;
}

static bool fill_figure(br_figure *f, const br_attention_svg_options *o)
{
    static const char *const parts[] = { "self", "encoder", "decoder", "cross" };
    const br_attention *a = f->view->attention;
    if (o->part < BR_ATTENTION_SELF || o->part > BR_ATTENTION_CROSS)
        return br_fail(BR_ERROR_ARGUMENT, op, "part is %d, must be a br_attention_part",
                       (int)o->part);
    f->part = part_of(f->view, o->part);
    if (!br__figure_map(f, 0))
        return br_fail(BR_ERROR_ARGUMENT, op, "part is %s, but the view includes no such layer",
                       parts[f->part]);
    bool decoder = f->part == BR_ATTENTION_DECODER, cross = f->part == BR_ATTENTION_CROSS;
    f->n_left = decoder || cross ? a->n_decoder_tokens : a->n_tokens;
    f->left = decoder || cross ? a->decoder_tokens : a->tokens;
    f->n_right = decoder ? a->n_decoder_tokens : a->n_tokens;
    f->right = decoder ? a->decoder_tokens : a->tokens;
    if (o->token < -1 || o->token >= f->n_left)
        return br_fail(BR_ERROR_INDEX, op,
                       "token is %" PRId64 ", must be 0 .. %" PRId64 ", or -1 for all tokens",
                       o->token, f->n_left - 1);
    f->token = o->token;
    f->title = o->title && *o->title ? o->title : NULL;
    return true;
}

int64_t br_attention_svg(const char *path, const br_attention_view *view,
                         const br_attention_svg_options *options)
{
    static void (*const draw[])(br_figure *) = {
        [BR_HEAD_VIEW] = draw_head_view,
        [BR_MODEL_VIEW] = br__figure_model,
        [BR_HEATMAP_VIEW] = br__figure_heatmap,
    };
    const br_attention_svg_options *o = BR_OPTIONS_OF(op, br_attention_svg, options);
    br_figure f = { .view = view };
    if (br_failed() || !br__good_views(op, 1, view))
        return -1;
    if (view->kind == BR_NEURON_VIEW) {
        br_fail(BR_ERROR_ARGUMENT, op,
                "kind is BR_NEURON_VIEW, which has no figure: br_attention_html() writes it");
        return -1;
    }
    f.out = fill_figure(&f, o) ? br__writer_open(op, path) : NULL;
    if (!f.out)
        return -1;
    draw[view->kind](&f);
    br__write(f.out, "</svg>\n");
    return br__writer_close(f.out);
}
