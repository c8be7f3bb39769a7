/* viz/attention_html.c - writes the page: the template, with the values, their description, the
 * style and the scripts filled in.
 *
 * The template, the style and the scripts are in viz/attention/. The build converts them to arrays.
 * The style and the scripts are compressed with gzip; the page decompresses them. */
#include "viz/viz_internal.h"

#include <inttypes.h>
#include <string.h>
#include <utf8proc.h>

static const char op[] = "attention_html";

extern const char br__attention_page[], br__attention_packed[];
extern const size_t br__attention_packed_size;

enum { MANY_F32 = 1 << 20, MANY_F16 = 1 << 22 };

typedef struct page {
    int n_views;
    const br_attention_view *views;
    const char *title;
    br_value_type weights, vectors; /* types of their values */
    double threshold;
    int columns;
    int64_t n_values, n_maps;
    br_writer *out;
    int64_t *left_out; /* number of omitted weights of the next map */
} page;

/* ---- Text ------------------------------------------------------------------------------------ */

/* Writes one character of a JSON string inside an HTML script. */
static void put_character(br_writer *out, utf8proc_int32_t c)
{
    utf8proc_uint8_t bytes[4];
    if (c < ' ' || c == 0x7f || strchr("\"\\<>&", (int)(c < 128 ? c : 'a')) || c == 0x2028 ||
        c == 0x2029)
        br__write(out, "\\u%04x", (unsigned)c);
    else
        br__write_bytes(out, (const char *)bytes, (size_t)utf8proc_encode_char(c, bytes));
}

static void put_string(br_writer *out, const char *text)
{
    br__write(out, "\"");
    while (*text) {
        utf8proc_int32_t c;
        utf8proc_ssize_t n = utf8proc_iterate((const utf8proc_uint8_t *)text, -1, &c);
        put_character(out, n > 0 ? c : 0xfffd);
        text += n > 0 ? n : 1;
    }
    br__write(out, "\"");
}

static void put_strings(br_writer *out, int64_t n, char *const *texts)
{
    br__write(out, "[");
    for (int64_t i = 0; i < n; i++) {
        br__write(out, "%s", i ? "," : "");
        put_string(out, texts[i]);
    }
    br__write(out, "]");
}

/* Writes a list, or null if there is none. */
static void put_list(br_writer *out, const char *name, int64_t n, const int64_t *list)
{
    br__write(out, ",\"%s\":%s", name, list ? "[" : "null");
    for (int64_t i = 0; list && i < n; i++)
        br__write(out, "%s%" PRId64, i ? "," : "", list[i]);
    br__write(out, "%s", list ? "]" : "");
}

/* ---- Values ---------------------------------------------------------------------------------- */

/* Returns the index of the first view with the same attention. */
static int first_view(const page *p, int view)
{
    int i = 0;
    while (p->views[i].attention != p->views[view].attention)
        i++;
    return i;
}

/* Returns whether any view of the attention shows the map; with `neurons`, any neuron view. */
static bool is_included(const page *p, const br_attention *attention, const br_map *map,
                        bool neurons)
{
    for (int i = 0; i < p->n_views; i++) {
        const br_attention_view *v = &p->views[i];
        if (v->attention == attention && br__shows(v, map) &&
            (!neurons || v->kind == BR_NEURON_VIEW))
            return true;
    }
    return false;
}

/* Calls visit(p, view, map index) once for every map on the page. */
static void for_each_map(page *p, void (*visit)(page *p, int view, int64_t map))
{
    for (int view = 0; view < p->n_views; view++) {
        const br_attention *a = p->views[view].attention;
        for (int64_t i = 0; first_view(p, view) == view && i < a->n_maps; i++)
            if (is_included(p, a, &a->maps[i], false))
                visit(p, view, i);
    }
}

static const br_map *map_of(const page *p, int view, int64_t map, bool *neurons)
{
    const br_attention *a = p->views[view].attention;
    *neurons = is_included(p, a, &a->maps[map], true);
    return &a->maps[map];
}

/* Logarithms can only represent weights in 0 .. 1. Gradients may be too small for f16. */
static br_value_type type_of(const page *p, const br_map *map)
{
    if (map->kind == BR_MAP_GRADIENT)
        return BR_VALUES_F32;
    return p->weights == BR_VALUES_U8 && !map->in_range ? BR_VALUES_F16 : p->weights;
}

static void put_values(page *p, int view, int64_t map)
{
    bool neurons;
    const br_map *m = map_of(p, view, map, &neurons);
    br__write(p->out, "<script type=\"text/plain\" id=\"w%d-%" PRId64 "\">", view, map);
    int64_t left_out = br__write_values(p->out, type_of(p, m), p->threshold,
                                        br_data_f32(m->weights), br_numel(m->weights));
    *p->left_out++ = left_out;
    br__write(p->out, "</script>\n");
    br_tensor *vectors[] = { m->query, m->key };
    for (int k = 0; neurons && k < 2; k++) {
        br__write(p->out, "<script type=\"text/plain\" id=\"%c%d-%" PRId64 "\">", "qk"[k], view,
                  map);
        br__write_values(p->out, p->vectors, 0, br_data_f32(vectors[k]), br_numel(vectors[k]));
        br__write(p->out, "</script>\n");
    }
}

/* ---- The description ------------------------------------------------------------------------- */

static void put_map(page *p, int view, int64_t map)
{
    static const char *const kinds[] = { "weights", "rollout", "gradient" };
    static const char *const parts[] = { "self", "encoder", "decoder", "cross" };
    static const char *const types[] = { "f32", "f16", "u8" };
    bool neurons;
    const br_map *m = map_of(p, view, map, &neurons);
    br_writer *out = p->out;
    const int64_t *sizes = br_sizes(m->weights);
    br__write(out,
              "{\"kind\":\"%s\",\"part\":\"%s\",\"layer\":%" PRId64 ",\"name\":", kinds[m->kind],
              parts[m->part], m->layer);
    put_string(out, m->name);
    br__write(out, ",\"heads\":%" PRId64 ",\"rows\":%" PRId64 ",\"columns\":%" PRId64, sizes[0],
              sizes[1], sizes[2]);
    br__write(out, ",\"causal\":%s,\"bad\":%" PRId64 ",\"cut\":%" PRId64,
              m->causal ? "true" : "false", m->bad, *p->left_out++);
    br__write(out, ",\"weights\":{\"id\":\"w%d-%" PRId64 "\",\"type\":\"%s\"}", view, map,
              types[type_of(p, m)]);
    for (int k = 0; neurons && k < 2; k++)
        br__write(out, ",\"%s\":{\"id\":\"%c%d-%" PRId64 "\",\"type\":\"%s\"}", k ? "key" : "query",
                  "qk"[k], view, map, types[p->vectors]);
    br__write(out, ",\"size\":%" PRId64 "}", m->query ? br_size(m->query, 2) : 0);
}

static void put_attention(page *p, int view)
{
    const br_attention *a = p->views[view].attention;
    br__write(p->out, "{\"tokens\":");
    put_strings(p->out, a->n_tokens, a->tokens);
    br__write(p->out, ",\"decoderTokens\":");
    put_strings(p->out, a->n_decoder_tokens, a->decoder_tokens);
    br__write(p->out, ",\"sentenceB\":%" PRId64 ",\"maps\":[", a->sentence_b_start);
    const char *comma = "";
    for (int64_t i = 0; i < a->n_maps; i++)
        if (is_included(p, a, &a->maps[i], false)) {
            br__write(p->out, "%s", comma);
            put_map(p, view, i);
            comma = ",";
        }
    br__write(p->out, "]}");
}

static void put_view(page *p, int view)
{
    static const char *const kinds[] = { "head", "model", "neuron", "heatmap" };
    static const char *const maps[] = { "weights", "rollout", "gradient" };
    static const char *const modes[] = { "auto", "light", "dark" };
    const br_attention_view *v = &p->views[view];
    br__write(p->out, "%s{\"kind\":\"%s\",\"data\":%d,\"layer\":%" PRId64 ",\"head\":%" PRId64,
              view ? "," : "", kinds[v->kind], first_view(p, view), br__layer_of(v), v->head);
    put_list(p->out, "heads", v->n_heads, v->heads);
    put_list(p->out, "layers", v->n_include_layers, v->include_layers);
    put_list(p->out, "includeHeads", v->n_include_heads, v->include_heads);
    br__write(p->out, ",\"title\":");
    put_string(p->out, v->title ? v->title : "");
    br__write(p->out, ",\"map\":\"%s\",\"mode\":\"%s\",\"prettify\":%s,\"expanded\":%s}",
              maps[v->map], modes[v->display_mode], v->raw_tokens ? "false" : "true",
              v->expanded ? "true" : "false");
}

static void put_description(page *p)
{
    br__write(p->out, "{\"threshold\":%.9g,\"columns\":%d,\"views\":[", p->threshold, p->columns);
    for (int view = 0; view < p->n_views; view++)
        put_view(p, view);
    br__write(p->out, "],\"data\":[");
    for (int view = 0; view < p->n_views; view++) {
        br__write(p->out, "%s", view ? "," : "");
        if (first_view(p, view) == view)
            put_attention(p, view);
        else
            br__write(p->out, "null");
    }
    br__write(p->out, "]}");
}

/* ---- The page -------------------------------------------------------------------------------- */

static void put_place(page *p, const char *name, size_t n, int64_t *left_out)
{
    if (n == 5 && memcmp(name, "title", n) == 0)
        br__write_xml(p->out, p->title);
    else if (n == 6 && memcmp(name, "packed", n) == 0)
        br__write_base64(p->out, br__attention_packed, br__attention_packed_size);
    p->left_out = left_out;
    if (n == 6 && memcmp(name, "values", n) == 0)
        for_each_map(p, put_values);
    else if (n == 4 && memcmp(name, "page", n) == 0)
        put_description(p);
}

/* Writes the template. @name@ in it marks a place to fill in. The values come before their
 * description, which contains the numbers of omitted weights. */
static void put_page(page *p, int64_t *left_out)
{
    const char *at = br__attention_page;
    for (const char *mark; (mark = strchr(at, '@'));) {
        br__write_bytes(p->out, at, (size_t)(mark - at));
        const char *end = strchr(mark + 1, '@');
        put_place(p, mark + 1, (size_t)(end - mark - 1), left_out);
        at = end + 1;
    }
    br__write_bytes(p->out, at, strlen(at));
}

static void count_map(page *p, int view, int64_t map)
{
    bool neurons;
    const br_map *m = map_of(p, view, map, &neurons);
    p->n_values += br_numel(m->weights);
    if (neurons)
        p->n_values += br_numel(m->query) + br_numel(m->key);
    p->n_maps++;
}

static void choose_types(page *p, br_attention_precision precision)
{
    if (precision == BR_PRECISION_AUTO)
        precision = p->n_values <= MANY_F32   ? BR_PRECISION_F32
                    : p->n_values <= MANY_F16 ? BR_PRECISION_F16
                                              : BR_PRECISION_U8;
    p->weights = precision == BR_PRECISION_F32   ? BR_VALUES_F32
                 : precision == BR_PRECISION_F16 ? BR_VALUES_F16
                                                 : BR_VALUES_U8;
    p->vectors = precision == BR_PRECISION_F32 ? BR_VALUES_F32 : BR_VALUES_F16;
}

BR_DEFINE_DEFAULTS(br_attention_html)

static bool good_options(const br_attention_html_options *o)
{
    if (o->precision < BR_PRECISION_AUTO || o->precision > BR_PRECISION_U8)
        return br_fail(BR_ERROR_ARGUMENT, op, "precision is %d, must be a br_attention_precision",
                       (int)o->precision);
    if (!(o->threshold >= 1e-30 && o->threshold <= 0.5))
        return br_fail(BR_ERROR_ARGUMENT, op, "threshold is %g, must be 1e-30 .. 0.5",
                       o->threshold);
    if (o->columns < 1 || o->columns > 2)
        return br_fail(BR_ERROR_ARGUMENT, op, "columns is %d, must be 1 or 2", o->columns);
    return true;
}

int64_t br_attention_html(const char *path, int n_views, const br_attention_view *views,
                          const br_attention_html_options *options)
{
    const br_attention_html_options *o = BR_OPTIONS_OF(op, br_attention_html, options);
    if (br_failed() || !good_options(o) || !br__good_views(op, n_views, views))
        return -1;
    page p = { .n_views = n_views,
               .views = views,
               .title = o->title ? o->title : "",
               .threshold = o->threshold,
               .columns = o->columns };
    for_each_map(&p, count_map);
    choose_types(&p, o->precision);
    int64_t *left_out = br_calloc((size_t)p.n_maps, sizeof *left_out);
    p.out = left_out ? br__writer_open(op, path) : NULL;
    if (p.out)
        put_page(&p, left_out);
    int64_t size = p.out ? br__writer_close(p.out) : -1;
    br_free(left_out);
    return size;
}
