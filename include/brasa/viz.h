/* brasa/viz.h - plots, and pages on which attention is looked into.
 *
 *     br_recorder *recorder = br_recorder_begin();
 *     br_hf_bert_forward(bert, ids, NULL);
 *     br_attention_text text = { BR_TOKENS("[CLS]", "time", "flies", "[SEP]") };
 *     br_attention *attention = br_attention_new(&text);
 *     br_attention_add_recorded(attention, recorder);
 *     br_attention_view view = { .kind = BR_HEAD_VIEW, .attention = attention };
 *     br_attention_html("view.html", 1, &view, NULL);
 *
 * docs/attention_views.md shows what the pages do. */
#ifndef BRASA_VIZ_H
#define BRASA_VIZ_H

#include <brasa/nn.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct br_series {
    const char *name;
    int64_t count;
    const double *x, *y; /* borrowed; a point that is not finite, or beyond 1e300, is left out */
} br_series;

typedef struct br_plot_options {
    const char *title, *x_label, *y_label; /* UTF-8, NULL: none */
    bool log_y;        /* values that are not positive are left out, unless there is a floor */
    bool log_x;        /* the same for x */
    double floor_y;    /* with log_y: smaller values are drawn at this one; 0: no floor */
    int width, height; /* in pixels; 0: 800 x 480 */
} br_plot_options;

/* Draws the series as lines into a self-contained SVG file. `options` may be NULL. */
BR_API bool br_plot_svg(const char *path, int n_series, const br_series *series,
                        const br_plot_options *options);

/* ---- The graph under a tensor ---------------------------------------------------------------- */

typedef struct br_graph_options {
    br_module *module; /* whose parameters are called by their names; NULL: leaves have none */
    const char *title; /* UTF-8, NULL: none */
} br_graph_options;

/* Writes what the tape holds under t, which must require grad: operations, with the dtypes and
 * shapes of their results, and leaves. As a program for Graphviz, or as a picture laid out here;
 * that is for graphs of some thousand operations, larger ones are an error. `options` may be NULL.
 */
BR_API bool br_graph_dot(const char *path, br_tensor *t, const br_graph_options *options);
BR_API bool br_graph_svg(const char *path, br_tensor *t, const br_graph_options *options);

/* ---- Attention ------------------------------------------------------------------------------- */

/* A text and how a model's layers attended to its tokens. */
typedef struct br_attention br_attention;

/* The two fields of a text's tokens: { BR_TOKENS("[CLS]", "time", "[SEP]") }. */
#define BR_TOKENS(...)                                                                          \
    .n_tokens = (int64_t)(sizeof((const char *const[]){ __VA_ARGS__ }) / sizeof(const char *)), \
    .tokens = (const char *const[])                                                             \
    {                                                                                           \
        __VA_ARGS__                                                                             \
    }

/* Tokens are UTF-8; what is not is shown as U+FFFD. They are copied. */
typedef struct br_attention_text {
    int64_t n_tokens; /* of an encoder-decoder: the encoder's */
    const char *const *tokens;
    int64_t n_decoder_tokens; /* 0 where there is no decoder besides an encoder */
    const char *const *decoder_tokens;
    int64_t sentence_b_start; /* the second sentence's first token; 0: there is one sentence */
    int64_t batch;            /* which of the batch the tokens are */
} br_attention_text;

typedef enum br_attention_part {
    BR_ATTENTION_SELF, /* of a model that is an encoder or a decoder alone */
    BR_ATTENTION_ENCODER,
    BR_ATTENTION_DECODER,
    BR_ATTENTION_CROSS, /* of the decoder's tokens to the encoder's */
} br_attention_part;

/* NULL on error; br_attention_free() frees it. */
BR_API br_attention *br_attention_new(const br_attention_text *text);
BR_API void br_attention_free(br_attention *self);
/* Adds the part's next layer: weights [batch, heads, queries, keys], query [batch, heads, queries,
 * size] and key [batch, heads, keys, size]; of one head without that dimension. Without query and
 * key, NULL, there is no neuron view of it. `name` is told where something is wrong. The tensors
 * are held, not copied, where they are f32 and row-major. */
BR_API bool br_attention_add(br_attention *self, br_attention_part part, const char *name,
                             br_tensor *weights, br_tensor *query, br_tensor *key);
/* Adds all that modules tapped (br_tap_attention) while the recorder was open, in the order in
 * which they ran. One-headed modules of a list named `heads` are one layer. Where a module attended
 * across, a decoder's own attention is what ran after that, or stands beside it in the tree. */
BR_API bool br_attention_add_recorded(br_attention *self, const br_recorder *recorder);
/* Layers that were added of a part. */
BR_API int64_t br_attention_layers(const br_attention *self, br_attention_part part);

typedef enum br_attention_kind {
    BR_HEAD_VIEW,   /* a layer, its heads over each other */
    BR_MODEL_VIEW,  /* all layers by all heads */
    BR_NEURON_VIEW, /* one head: how queries and keys make its weights */
} br_attention_kind;

typedef enum br_display_mode {
    BR_DISPLAY_AUTO, /* as the reader's screen is set */
    BR_DISPLAY_LIGHT,
    BR_DISPLAY_DARK,
} br_display_mode;

/* What may be left zero is: then all is shown. What is chosen is what is shown first. */
typedef struct br_attention_view {
    br_attention_kind kind;
    const br_attention *attention;
    int64_t layer; /* 0 where that is not included: the first that is */
    int64_t head;  /* neuron view */
    int64_t n_heads;
    const int64_t *heads; /* head view; NULL: all */
    int64_t n_include_layers;
    const int64_t *include_layers; /* NULL: all; others are not in the file */
    int64_t n_include_heads;
    const int64_t *include_heads; /* model view; NULL: all */
    br_display_mode display_mode;
    bool raw_tokens; /* as they are: not " " for what tokenizers write in its place */
    bool expanded;   /* neuron view: with the computation open */
} br_attention_view;

typedef enum br_attention_precision {
    BR_PRECISION_AUTO, /* f32 up to a million values, f16 up to 4 million, above that u8 */
    BR_PRECISION_F32,  /* exact */
    BR_PRECISION_F16,  /* 3 digits */
    BR_PRECISION_U8,   /* weights with 2 digits; queries and keys are f16 */
} br_attention_precision;

typedef struct br_attention_page {
    const char *title; /* UTF-8; NULL: "Attention" */
    br_attention_precision precision;
    double threshold; /* u8 leaves out smaller weights; 0: 1e-4 */
} br_attention_page;

/* Writes a self-contained HTML file with the views one below the other; views of the same attention
 * share its values. Returns the file's size in bytes, -1 on error; with path NULL it only tells the
 * size. `page` may be NULL. */
BR_API int64_t br_attention_html(const char *path, int n_views, const br_attention_view *views,
                                 const br_attention_page *page);

#ifdef __cplusplus
}
#endif
#endif
