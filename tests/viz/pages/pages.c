/* tests/viz/pages/pages.c - pages DIRECTORY: writes the pages that tests/viz/test_views.py opens in
 * a browser. Their weights, queries and keys follow the formulas below, which the tests also
 * compute.
 */
#include <brasa/brasa.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *directory;

/* ---- Values ---------------------------------------------------------------------------------- */

enum { SIZE = 16 }; /* elements of a query or key */

typedef struct shape {
    int64_t layers, heads, rows, columns;
    double sharpness; /* amplitude of the logits */
    bool causal;
} shape;

static double logit(const shape *s, int64_t l, int64_t h, int64_t i, int64_t j)
{
    double phase = 1 + 0.7 * (double)l + 1.3 * (double)h + 2.1 * (double)i + 3.7 * (double)j;
    return s->causal && j > i ? -INFINITY : s->sharpness * sin(phase);
}

static br_tensor *weights_of(const shape *s, int64_t l)
{
    br_tensor *t = br_empty(BR_SHAPE(1, s->heads, s->rows, s->columns), BR_F32);
    float *w = br_data_f32(t);
    for (int64_t h = 0; w && h < s->heads; h++)
        for (int64_t i = 0; i < s->rows; i++, w += s->columns) {
            double sum = 0;
            for (int64_t j = 0; j < s->columns; j++)
                sum += exp(logit(s, l, h, i, j));
            for (int64_t j = 0; j < s->columns; j++)
                w[j] = (float)(exp(logit(s, l, h, i, j)) / sum);
        }
    return t;
}

static br_tensor *vectors_of(const shape *s, int64_t l, int64_t tokens, double phase)
{
    br_tensor *t = br_empty(BR_SHAPE(1, s->heads, tokens, SIZE), BR_F32);
    float *v = br_data_f32(t);
    for (int64_t h = 0; v && h < s->heads; h++)
        for (int64_t i = 0; i < tokens; i++)
            for (int64_t n = 0; n < SIZE; n++)
                *v++ = (float)(3 * sin(phase + (double)l + 2 * (double)h + 0.5 * (double)i +
                                       1.1 * (double)n));
    return t;
}

static void add(br_attention *attention, br_attention_part part, shape s)
{
    for (int64_t l = 0; l < s.layers; l++) {
        br_scope *scope = br_scope_begin();
        char name[32];
        snprintf(name, sizeof name, "layer.%d", (int)l);
        br_attention_add(attention, part, name, weights_of(&s, l), vectors_of(&s, l, s.rows, 0.3),
                         vectors_of(&s, l, s.columns, 2.2));
        br_scope_end(scope);
    }
}

/* ---- Pages ----------------------------------------------------------------------------------- */

#define VIEW(shown, whose) ((br_attention_view){ .kind = (shown), .attention = (whose) })

static void write_page(const char *name, int n_views, const br_attention_view *views,
                       const br_attention_html_options *page)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s.html", directory, name);
    br_attention_html(path, n_views, views, page);
}

static void write_figure(const char *name, const br_attention_view *view,
                         const br_attention_svg_options *options)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s.svg", directory, name);
    br_attention_svg(path, view, options);
}

static const char *const pair_tokens[] = { "[CLS]", "time",   "flies", "like",  "an",
                                           "arrow", "[SEP]",  "fruit", "flies", "like",
                                           "a",     "banana", "[SEP]" };
enum { PAIR = sizeof pair_tokens / sizeof *pair_tokens, SENTENCE_B = 7 };

static void write_pair(void)
{
    br_attention *pair = br_attention_new(&(br_attention_text){
        .n_tokens = PAIR, .tokens = pair_tokens, .sentence_b_start = SENTENCE_B });
    add(pair, BR_ATTENTION_SELF, (shape){ 4, 12, PAIR, PAIR, 3, false });
    int64_t heads[] = { 8 }, two[] = { 3, 1 }, even[] = { 0, 2 };
    br_attention_view view = {
        .attention = pair, .heads = heads, .n_heads = 1, .display_mode = BR_DISPLAY_LIGHT
    };
    write_page("head", 1, &view, BR_OPTIONS(br_attention_html, .title = "Heads"));
    write_figure("token", &view, BR_OPTIONS(br_attention_svg, .token = 2, .title = "A < B"));
    view.heads = NULL;
    view.n_heads = 0;
    write_figure("heads", &view, NULL);
    view.kind = BR_MODEL_VIEW;
    write_page("model", 1, &view, NULL);
    write_figure("model", &view, NULL);
    view.kind = BR_NEURON_VIEW;
    view.head = 8;
    write_page("neuron", 1, &view, NULL);
    view.display_mode = BR_DISPLAY_DARK;
    view.expanded = true;
    write_page("dark", 1, &view, NULL);
    view.display_mode = BR_DISPLAY_AUTO;
    br_attention_view several[] = { view, VIEW(BR_HEAD_VIEW, pair), VIEW(BR_MODEL_VIEW, pair),
                                    view };
    several[3].expanded = false;
    several[3].layer = 2;
    write_page("several", 4, several, NULL);
    br_attention_view some[] = { VIEW(BR_HEAD_VIEW, pair), VIEW(BR_MODEL_VIEW, pair) };
    for (int i = 0; i < 2; i++) {
        some[i].n_include_layers = some[i].n_include_heads = 2;
        some[i].include_layers = two;
        some[i].include_heads = even;
    }
    some[0].layer = 3;
    write_page("some", 2, some, NULL);
    br_attention_free(pair);
}

static void write_single(void)
{
    const char *const tokens[] = { "one", "two", "three" };
    br_attention *single =
        br_attention_new(&(br_attention_text){ .n_tokens = 3, .tokens = tokens });
    add(single, BR_ATTENTION_SELF, (shape){ 2, 20, 3, 3, 2, false });
    br_attention_view views[] = { VIEW(BR_HEAD_VIEW, single), VIEW(BR_MODEL_VIEW, single),
                                  VIEW(BR_NEURON_VIEW, single) };
    write_page("single", 3, views, NULL);
    br_attention_free(single);
}

static void write_one(void)
{
    const char *const tokens[] = { "alone" };
    br_attention *one = br_attention_new(&(br_attention_text){ .n_tokens = 1, .tokens = tokens });
    add(one, BR_ATTENTION_SELF, (shape){ 1, 2, 1, 1, 2, false });
    br_attention_add_rollout(one);
    br_attention_view views[] = { VIEW(BR_HEAD_VIEW, one), VIEW(BR_MODEL_VIEW, one),
                                  VIEW(BR_NEURON_VIEW, one), VIEW(BR_HEATMAP_VIEW, one) };
    write_page("one", 4, views, NULL);
    write_figure("one_head", &views[0], NULL);
    write_figure("one_model", &views[1], NULL);
    write_figure("one_heat", &views[3], NULL);
    br_attention_free(one);
}

/* Two texts side by side: views of different attentions, with titles. */
static void write_beside(void)
{
    static const char *const texts[][3] = { { "one", "two", "three" },
                                            { "uno", "due", "quattro" } };
    static const char *const titles[] = { "one two three", "<b>uno</b> due quattro" };
    br_attention *both[2];
    br_attention_view views[4];
    for (int i = 0; i < 2; i++) {
        both[i] = br_attention_new(&(br_attention_text){ .n_tokens = 3, .tokens = texts[i] });
        add(both[i], BR_ATTENTION_SELF, (shape){ 2, 4, 3, 3, 2 + i, false });
        views[i] = VIEW(BR_HEAD_VIEW, both[i]);
        views[2 + i] = VIEW(BR_NEURON_VIEW, both[i]);
        views[i].title = views[2 + i].title = titles[i];
    }
    write_page("beside", 4, views, BR_OPTIONS(br_attention_html, .columns = 2));
    br_attention_free(both[0]);
    br_attention_free(both[1]);
}

/* The decoder has fewer layers than the encoder, and different tokens. */
static void write_translation(void)
{
    const char *const from[] = { "the", "house", "is", "small" };
    const char *const to[] = { "(begin)", "das", "Haus", "ist", "klein" };
    br_attention *both = br_attention_new(&(br_attention_text){
        .n_tokens = 4, .tokens = from, .n_decoder_tokens = 5, .decoder_tokens = to });
    add(both, BR_ATTENTION_ENCODER, (shape){ 3, 4, 4, 4, 3, false });
    add(both, BR_ATTENTION_DECODER, (shape){ 2, 4, 5, 5, 3, true });
    add(both, BR_ATTENTION_CROSS, (shape){ 2, 2, 5, 4, 3, false });
    br_attention_view views[] = { VIEW(BR_HEAD_VIEW, both), VIEW(BR_MODEL_VIEW, both),
                                  VIEW(BR_NEURON_VIEW, both) };
    views[0].layer = 2;
    write_page("translation", 3, views, NULL);
    int64_t last[] = { 2 };
    for (int i = 0; i < 3; i++) {
        views[i].include_layers = last;
        views[i].n_include_layers = 1;
    }
    write_page("deep", 3, views, NULL);
    br_attention_free(both);
    both = br_attention_new(&(br_attention_text){
        .n_tokens = 4, .tokens = from, .n_decoder_tokens = 5, .decoder_tokens = to });
    add(both, BR_ATTENTION_CROSS, (shape){ 2, 2, 5, 4, 3, false });
    write_page("cross", 1, (br_attention_view[]){ VIEW(BR_HEAD_VIEW, both) }, NULL);
    br_attention_free(both);
}

static void write_causal(void)
{
    const char *const tokens[] = { "once", "Ġupon", "Ġa", "Ġtime" };
    br_attention *causal =
        br_attention_new(&(br_attention_text){ .n_tokens = 4, .tokens = tokens });
    add(causal, BR_ATTENTION_SELF, (shape){ 1, 2, 4, 4, 3, true });
    br_attention_view view = { .kind = BR_NEURON_VIEW, .attention = causal, .expanded = true };
    write_page("causal", 1, &view, NULL);
    br_attention_free(causal);
}

static const char *const hostile_tokens[] = {
    "</script><script>document.title='broken'</script>",
    "<!--<script>",
    "a\xe2\x80\xa8"
    "b\xe2\x80\xa9"
    "c",
    "\"quoted\" 'and' \\back\\",
    "&amp;<b>bold</b>",
    "\x01\t\x7f",
    "",
    "\xd7\xa9\xd7\x9c\xd7\x95\xd7\x9d",
    "\xd9\x85\xd8\xb1\xd8\xad\xd8\xa8\xd8\xa7!",
    "\xf0\x9f\x91\xa9\xe2\x80\x8d\xf0\x9f\x9a\x80",
    "bad\xff\xfe",
    "\xc4\xa0time",
    "\xe2\x96\x81time",
    "time</w>",
    "##ing",
    "\xe2\x96\x81",
    "\n",
    "e\xcc\x81\xcc\x80\xcc\xa3",
};
enum { HOSTILE = sizeof hostile_tokens / sizeof *hostile_tokens };

static void write_hostile(void)
{
    br_attention *hostile =
        br_attention_new(&(br_attention_text){ .n_tokens = HOSTILE, .tokens = hostile_tokens });
    add(hostile, BR_ATTENTION_SELF, (shape){ 1, 2, HOSTILE, HOSTILE, 2, false });
    br_attention_view raw = { .kind = BR_HEAD_VIEW, .attention = hostile, .raw_tokens = true };
    br_attention_view pretty = VIEW(BR_NEURON_VIEW, hostile);
    br_attention_html_options page =
        *BR_OPTIONS(br_attention_html, .title = "</title><script>alert(1)</script> & \"more\"");
    write_page("raw", 1, &raw, &page);
    write_figure("raw", &raw, BR_OPTIONS(br_attention_svg, .title = page.title));
    write_page("pretty", 1, &pretty, &page);
    br_attention_free(hostile);
}

static void write_nan(void)
{
    const char *const tokens[] = { "a", "b", "c" };
    shape s = { 1, 2, 3, 3, 2, false };
    br_attention *bad = br_attention_new(&(br_attention_text){ .n_tokens = 3, .tokens = tokens });
    br_tensor *w = weights_of(&s, 0);
    br_data_f32(w)[1] = NAN;      /* head 0, a -> b */
    br_data_f32(w)[9] = INFINITY; /* head 1, a -> a */
    br_attention_add(bad, BR_ATTENTION_SELF, "layer.0", w, vectors_of(&s, 0, 3, 0.3),
                     vectors_of(&s, 0, 3, 2.2));
    br_attention_view views[] = { VIEW(BR_HEAD_VIEW, bad), VIEW(BR_MODEL_VIEW, bad),
                                  VIEW(BR_NEURON_VIEW, bad), VIEW(BR_HEATMAP_VIEW, bad) };
    write_page("nan", 4, views, NULL);
    write_figure("nan_heat", &views[3], NULL);
    write_figure("nan", &views[0], NULL);
    br_attention_free(bad);
}

static void write_precisions(void)
{
    static const char *const names[] = { NULL, "f32", "f16", "u8" };
    br_attention *pair =
        br_attention_new(&(br_attention_text){ .n_tokens = PAIR, .tokens = pair_tokens });
    add(pair, BR_ATTENTION_SELF, (shape){ 1, 2, PAIR, PAIR, 12, false });
    for (int type = BR_PRECISION_F32; type <= BR_PRECISION_U8; type++) {
        br_attention_view views[] = { VIEW(BR_HEAD_VIEW, pair), VIEW(BR_NEURON_VIEW, pair) };
        br_attention_html_options page = *BR_OPTIONS(
            br_attention_html, .precision = (br_attention_precision)type, .threshold = 1e-3);
        write_page(names[type], 2, views, &page);
    }
    br_attention_free(pair);
}

/* Returns the factor of a weight in the output whose gradient is shown. */
static br_tensor *factors_of(const shape *s, int64_t l)
{
    br_tensor *t = br_empty(BR_SHAPE(1, s->heads, s->rows, s->columns), BR_F32);
    float *f = br_data_f32(t);
    for (int64_t h = 0; f && h < s->heads; h++)
        for (int64_t i = 0; i < s->rows; i++)
            for (int64_t j = 0; j < s->columns; j++)
                *f++ = (float)(0.01 * sin((double)(1 + l + h + i + 2 * j)));
    return t;
}

/* Weights, their rollout, and the gradient of the sum of weights x factors. */
static void write_maps(void)
{
    static const char *const tokens[] = { "[CLS]", "time", "flies", "like", "[SEP]" };
    const shape s = { 2, 3, 5, 5, 3, false };
    br_scope *scope = br_enable_grad_begin();
    br_recorder *recorder = br_recorder_begin();
    br_tensor *output = NULL;
    for (int64_t l = 0; l < s.layers; l++) {
        br_tensor *w = br_set_requires_grad(weights_of(&s, l), true);
        br_tensor *sum = br_sum(br_mul(br_tap_attention(NULL, NULL, w, false), factors_of(&s, l)));
        output = output ? br_add(output, sum) : sum;
    }
    br_attention *a = br_attention_new(&(br_attention_text){ .n_tokens = 5, .tokens = tokens });
    br_attention_add_recorded(a, recorder);
    br_attention_add_rollout(a);
    br_attention_add_gradient(a, recorder, output);
    br_attention_view views[] = { VIEW(BR_HEATMAP_VIEW, a), VIEW(BR_HEAD_VIEW, a),
                                  VIEW(BR_MODEL_VIEW, a) };
    views[0].head = BR_HEAD_MEAN;
    views[1].map = BR_MAP_ROLLOUT;
    views[1].layer = 1;
    write_page("maps", 3, views, NULL);
    write_figure("heatmap", &views[0], NULL);
    views[0].map = BR_MAP_GRADIENT;
    write_figure("gradient", &views[0], NULL);
    br_attention_free(a);
    br_recorder_end(recorder);
    br_scope_end(scope);
}

/* 512 tokens, 12 layers, 12 heads. */
static void write_long(void)
{
    enum { N = 512 };
    static char texts[N][8];
    const char *tokens[N];
    for (int i = 0; i < N; i++) {
        snprintf(texts[i], sizeof texts[i], "t%d", i);
        tokens[i] = texts[i];
    }
    br_attention *attention =
        br_attention_new(&(br_attention_text){ .n_tokens = N, .tokens = tokens });
    add(attention, BR_ATTENTION_SELF, (shape){ 12, 12, N, N, 40, false });
    br_attention_view view = VIEW(BR_HEAD_VIEW, attention);
    write_page("long_head", 1, &view, NULL);
    view.kind = BR_MODEL_VIEW;
    write_page("long_model", 1, &view, NULL);
    view.include_layers = (int64_t[]){ 0 };
    view.n_include_layers = 1;
    write_figure("long_model", &view, NULL);
    view.include_layers = NULL;
    view.n_include_layers = 0;
    view.kind = BR_HEATMAP_VIEW;
    write_page("long_heat", 1, &view, NULL);
    view.kind = BR_NEURON_VIEW;
    view.expanded = true;
    write_page("long_neuron", 1, &view, NULL);
    br_attention_free(attention);
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "Usage: pages DIRECTORY\n");
        return 2;
    }
    directory = argv[1];
    br_scope *scope = br_no_grad_begin();
    write_pair();
    write_single();
    write_one();
    write_beside();
    write_translation();
    write_causal();
    write_hostile();
    write_nan();
    write_precisions();
    write_maps();
    write_long();
    br_scope_end(scope);
    int status = br_report(stderr);
    br_thread_cleanup();
    return status;
}
