/* brasa/viz.h - plots, graphs, and interactive pages that show attention.
 *
 *     br_recorder *recorder = br_recorder_begin();
 *     br_hf_bert_forward(bert, ids, NULL);
 *     br_attention_text text = { BR_TOKENS("[CLS]", "time", "flies", "[SEP]") };
 *     br_attention *attention = br_attention_new(&text);
 *     br_attention_add_recorded(attention, recorder);
 *     br_attention_view view = { .kind = BR_HEAD_VIEW, .attention = attention };
 *     br_attention_html("view.html", 1, &view, NULL);
 *
 * docs/attention_views.md describes the pages. */
#ifndef BRASA_VIZ_H
#define BRASA_VIZ_H

#include <brasa/nn.h>
#include <brasa/viz/summary_writer.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct br_series {
    const char *name;
    int64_t count;
    const double *x, *y; /* borrowed; points that are not finite or beyond 1e300 are omitted */
} br_series;

typedef struct br_plot_options {
    size_t struct_size;
    const char *title, *x_label, *y_label; /* UTF-8, NULL: none */
    bool log_y;        /* values <= 0 are marks on the x axis, and are no part of the line */
    bool log_x;        /* omits values <= 0 */
    double floor_y;    /* with log_y: smaller values are drawn at the floor; 0: no floor */
    int width, height; /* in pixels */
} br_plot_options;
#define br_plot_default_fields .struct_size = sizeof(br_plot_options), .width = 800, .height = 480
BR_API br_plot_options br_plot_defaults(void);

/* Draws the series as lines into a self-contained SVG file. Axes follow the values. The legend
 * tells how many values a logarithmic axis cannot show or shows at the floor, and a triangle on the
 * x axis marks each of them. `options` may be NULL. */
BR_API bool br_plot_svg(const char *path, int n_series, const br_series *series,
                        const br_plot_options *options);

/* ---- The autograd graph of a tensor ---------------------------------------------------------- */

typedef struct br_graph_options {
    size_t struct_size;
    br_module *module; /* names leaves by its parameters; NULL: leaves have no names */
    const char *title; /* UTF-8, NULL: none */
} br_graph_options;
#define br_graph_default_fields .struct_size = sizeof(br_graph_options)
BR_API br_graph_options br_graph_defaults(void);

/* Write the autograd graph of t, which must require grad: its operations, with the dtypes and
 * shapes of their results, and its leaves. br_graph_dot() writes a Graphviz program. br_graph_svg()
 * lays the graph out itself and writes a picture; it fails for graphs of more than some thousands
 * of operations. `options` may be NULL. */
BR_API bool br_graph_dot(const char *path, br_tensor *t, const br_graph_options *options);
BR_API bool br_graph_svg(const char *path, br_tensor *t, const br_graph_options *options);

/* ---- Attention ------------------------------------------------------------------------------- */

/* A text and the attention of a model's layers to its tokens. */
typedef struct br_attention br_attention;

/* Initializes the two token fields of a text: { BR_TOKENS("[CLS]", "time", "[SEP]") }. */
#define BR_TOKENS(...)                                   \
    .n_tokens = BR__COUNT_OF(const char *, __VA_ARGS__), \
    .tokens = BR__VALUES(const char *, __VA_ARGS__)

/* Tokens are UTF-8 and are copied; invalid bytes are shown as U+FFFD. */
typedef struct br_attention_text {
    int64_t n_tokens; /* for an encoder-decoder: the encoder's tokens */
    const char *const *tokens;
    int64_t n_decoder_tokens; /* 0 unless the model is an encoder-decoder */
    const char *const *decoder_tokens;
    int64_t sentence_b_start; /* index of the second sentence's first token; 0: a single sentence */
    int64_t batch;            /* index of this text in the batch */
} br_attention_text;

typedef enum br_attention_part {
    BR_ATTENTION_SELF, /* for a model that is only an encoder or only a decoder */
    BR_ATTENTION_ENCODER,
    BR_ATTENTION_DECODER,
    BR_ATTENTION_CROSS, /* from the decoder's tokens to the encoder's */
} br_attention_part;

/* Returns a new object, to be freed with br_attention_free(), or NULL on error. */
BR_API br_attention *br_attention_new(const br_attention_text *text);
BR_API void br_attention_free(br_attention *self);
/* Adds the part's next layer: weights [batch, heads, queries, keys], query [batch, heads, queries,
 * size] and key [batch, heads, keys, size]; the heads dimension may be missing if there is one
 * head. query and key may both be NULL; the layer then has no neuron view. `name` appears in error
 * messages and on the page. Tensors that are f32 and row-major are held without a copy. */
BR_API bool br_attention_add(br_attention *self, br_attention_part part, const char *name,
                             br_tensor *weights, br_tensor *query, br_tensor *key);
/* Adds all attention that modules tapped (br_tap_attention()) while the recorder was open, in the
 * order in which the modules ran. One-headed modules in a list named `heads` become one layer. If
 * there is cross-attention, self-attention belongs to the decoder if it ran after the first
 * cross-attention or is near it in the module tree. */
BR_API bool br_attention_add_recorded(br_attention *self, const br_recorder *recorder);
/* Returns the number of layers added to a part. */
BR_API int64_t br_attention_layers(const br_attention *self, br_attention_part part);

/* What a view shows of a layer: its weights, or a map that is computed from the weights of several
 * layers or heads. */
typedef enum br_attention_map {
    BR_MAP_WEIGHTS,
    BR_MAP_ROLLOUT,  /* br_attention_add_rollout() */
    BR_MAP_GRADIENT, /* br_attention_add_gradient() */
} br_attention_map;

/* Adds the attention rollout of each layer of self-attention (of an encoder-decoder: of its encoder
 * and of its decoder), which views can show besides the weights. With W_l [tokens, tokens], the
 * mean of layer l's weights over its heads, and A_l = W_l + I with rows divided by their sums, the
 * rollout is R_0 = A_0, R_l = A_l R_(l-1): R_l[i][j] is the share of token j's input in the state
 * of token i after layer l (Abnar and Zuidema, "Quantifying Attention Flow in Transformers", 2020,
 * section 3). Products are computed in f64. Fails if no layer of self-attention was added, or if
 * the rollout was added before. */
BR_API bool br_attention_add_rollout(br_attention *self);
/* Adds gradient x attention of each layer that modules tapped while the recorder was open: the mean
 * over heads of max(weights x d output / d weights, 0), [queries, keys] (Chefer, Gur and Wolf,
 * "Generic Attention-model Explainability", 2021, equation 5). `output` has one element, such as a
 * logit, and was computed from the weights with gradients on; the function frees its graph. A layer
 * without influence on it has zeros. Call br_attention_add_recorded() with the recorder before.
 * Fails if the number of layers differs from the number of layers added, or if gradients were
 * added before. */
BR_API bool br_attention_add_gradient(br_attention *self, const br_recorder *recorder,
                                      br_tensor *output);

typedef enum br_attention_kind {
    BR_HEAD_VIEW,    /* one layer, with its heads overlaid */
    BR_MODEL_VIEW,   /* all layers and heads, as a grid */
    BR_NEURON_VIEW,  /* one head: how its weights follow from queries and keys */
    BR_HEATMAP_VIEW, /* one head, or the mean or maximum of all: a matrix of tokens by tokens */
} br_attention_kind;

/* Values of br_attention_view.head for a heat map. */
enum { BR_HEAD_MEAN = -1, BR_HEAD_MAX = -2 };

typedef enum br_display_mode {
    BR_DISPLAY_AUTO, /* follows the system setting of the reader */
    BR_DISPLAY_LIGHT,
    BR_DISPLAY_DARK,
} br_display_mode;

/* Fields may be left 0, which shows everything. layer, head, heads, display_mode, expanded and
 * map are initial settings that the reader can change. */
typedef struct br_attention_view {
    br_attention_kind kind;
    const br_attention *attention;
    int64_t layer; /* if layer 0 is not included: the first included layer */
    int64_t head;  /* neuron view and heat map; heat map: also BR_HEAD_MEAN and BR_HEAD_MAX */
    int64_t n_heads;
    const int64_t *heads; /* head view; NULL: all */
    int64_t n_include_layers;
    const int64_t *include_layers; /* NULL: all; other layers are not written to the file */
    int64_t n_include_heads;
    const int64_t *include_heads; /* model view; NULL: all */
    br_display_mode display_mode;
    bool raw_tokens;      /* show tokens unchanged, without replacing tokenizers' space markers */
    bool expanded;        /* neuron view: show the computation */
    br_attention_map map; /* head view and heat map: what is shown first; the attention has it */
    const char *title;    /* UTF-8, shown beside the name of the view; NULL: none */
} br_attention_view;

typedef enum br_attention_precision {
    BR_PRECISION_AUTO, /* f32 up to a million values, f16 up to 4 million, above that u8 */
    BR_PRECISION_F32,  /* exact */
    BR_PRECISION_F16,  /* accurate to 3 digits */
    BR_PRECISION_U8,   /* weights accurate to 2 digits; queries and keys are f16 */
} br_attention_precision;

typedef struct br_attention_html_options {
    size_t struct_size;
    const char *title; /* UTF-8 */
    br_attention_precision precision;
    double threshold; /* u8 omits smaller weights; 1e-30 .. 0.5 */
    int columns;      /* 2: two views side by side on a wide screen; 1: one below the other */
} br_attention_html_options;
#define br_attention_html_default_fields                                                       \
    .struct_size = sizeof(br_attention_html_options), .title = "Attention", .threshold = 1e-4, \
    .columns = 1
BR_API br_attention_html_options br_attention_html_defaults(void);

/* Writes a self-contained HTML file that shows the views one below the other; views of the same
 * attention share its values. Returns the file's size in bytes, or -1 on error. If path is NULL,
 * only computes the size. `options` may be NULL. */
BR_API int64_t br_attention_html(const char *path, int n_views, const br_attention_view *views,
                                 const br_attention_html_options *options);

typedef struct br_attention_svg_options {
    size_t struct_size;
    const char *title;      /* UTF-8, NULL: none */
    br_attention_part part; /* BR_ATTENTION_SELF: the first part that has layers */
    int64_t token; /* head view: the attending token whose lines alone are drawn; -1: all */
} br_attention_svg_options;
#define br_attention_svg_default_fields .struct_size = sizeof(br_attention_svg_options), .token = -1
BR_API br_attention_svg_options br_attention_svg_defaults(void);

/* Draws a head view, a model view or a heat map into a self-contained SVG file, which needs no
 * browser. A head view draws its layer, and of its heads those in `heads`. Without a token, it
 * draws the largest weights: at most about six lines for each token. BR_DISPLAY_DARK draws on a
 * dark ground, every other display mode on a white one. Fails for a neuron view. Returns the file's
 * size in bytes, or -1 on error. If path is NULL, only computes the size. `options` may be NULL. */
BR_API int64_t br_attention_svg(const char *path, const br_attention_view *view,
                                const br_attention_svg_options *options);

#ifdef __cplusplus
}
#endif
#endif
