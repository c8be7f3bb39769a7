/* viz/attention_figure.h - shared by the files that draw attention as SVG. */
#ifndef BR_VIZ_ATTENTION_FIGURE_H
#define BR_VIZ_ATTENTION_FIGURE_H

#include "viz/viz_internal.h"

/* A figure of one view. `left` and `right` are the tokens of its part. */
typedef struct br_figure {
    const br_attention_view *view;
    const char *title; /* NULL: none */
    br_attention_part part;
    int64_t token; /* -1: none is selected */
    int64_t n_left, n_right;
    char *const *left, *const *right;
    double scale; /* opacity of a weight of 1: 1, but a gradient's largest weight is opaque */
    int64_t bad;  /* weights that are not finite, among those drawn */
    br_writer *out;
} br_figure;

enum { BR_MAX_TOKEN_COLUMNS = 28 }; /* longer tokens are cut */

/* ---- Text and colours ------------------------------------------------------------------------ */

typedef char br_colour_text[8];
/* Writes the colour "#rrggbb" of a head, or of a layer in the model view. The page's colours are
 * the same (colourOf() in parts.js). */
const char *br__figure_colour(int64_t n, br_colour_text text);
/* Return the colours of text, of less important text, of the ground, and of a selected token. */
const char *br__figure_ink(const br_figure *f);
const char *br__figure_soft(const br_figure *f);
const char *br__figure_ground(const br_figure *f);
const char *br__figure_mark(const br_figure *f);
/* Returns the number of columns of a terminal that a token takes, at most BR_MAX_TOKEN_COLUMNS. */
int br__figure_columns(const br_figure *f, const char *token);
/* Writes a token as the page shows it, or cut if it is too long. */
void br__figure_token(const br_figure *f, const char *token);

/* ---- Frame ----------------------------------------------------------------------------------- */

/* Begins the file: its size, its ground and the title. Returns y below the title. */
double br__figure_begin(br_figure *f, double width, double height);
/* Returns the height that br__figure_begin() uses for the title. */
double br__figure_title_height(const br_figure *f);
/* Writes a note at (x, y) about weights that are not finite, if there are any. */
void br__figure_note_bad(const br_figure *f, double x, double y);

/* ---- Views ----------------------------------------------------------------------------------- */

/* Returns the part's map of a layer, of the view's kind, or the first included one, or NULL if the
 * part has none. */
const br_map *br__figure_map(const br_figure *f, int64_t layer);
static inline float br__figure_weight(const br_map *m, int64_t head, int64_t i, int64_t j)
{
    const int64_t *sizes = br_sizes(m->weights);
    return br_data_f32(m->weights)[(head * sizes[1] + i) * sizes[2] + j];
}
/* Sets f->scale for a map. */
void br__figure_scale(br_figure *f, const br_map *m);
/* Writes the layer's number, and what is shown if it is not the weights. */
void br__figure_layer(const br_figure *f, const br_map *m);
void br__figure_model(br_figure *f);
void br__figure_heatmap(br_figure *f);

#endif
