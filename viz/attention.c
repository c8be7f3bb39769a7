/* viz/attention.c - collects the attention of a text: checks tensors, converts them to f32, and
 * selects the text's entry of the batch. */
#include "viz/viz_internal.h"

#include <inttypes.h>
#include <math.h>

static const char op[] = "attention";

/* ---- Texts ----------------------------------------------------------------------------------- */

static void free_tokens(char **tokens, int64_t n)
{
    for (int64_t i = 0; tokens && i < n; i++)
        br_free(tokens[i]);
    br_free(tokens);
}

/* Returns copies of the tokens, or NULL if there are none, or on error. */
static char **copy_tokens(const char *name, int64_t n, const char *const *tokens)
{
    if (n == 0 || br_failed())
        return NULL;
    char **copies = br_calloc((size_t)n, sizeof *copies);
    for (int64_t i = 0; copies && i < n && !br_failed(); i++) {
        if (tokens[i])
            copies[i] = br_strdup(tokens[i]);
        else
            br_fail(BR_ERROR_ARGUMENT, op, "%s[%" PRId64 "] is NULL", name, i);
    }
    return copies;
}

static bool good_text(const br_attention_text *t)
{
    if (br_failed())
        return false;
    if (!t || t->n_tokens < 0 || t->n_decoder_tokens < 0 ||
        t->n_tokens + t->n_decoder_tokens == 0 || (t->n_tokens > 0 && !t->tokens) ||
        (t->n_decoder_tokens > 0 && !t->decoder_tokens))
        br_fail(
            BR_ERROR_ARGUMENT, op,
            "text needs tokens: set tokens and n_tokens, or decoder_tokens and n_decoder_tokens");
    else if (t->sentence_b_start != 0 && t->n_decoder_tokens > 0)
        br_fail(BR_ERROR_ARGUMENT, op,
                "sentence_b_start is %" PRId64 ", must be 0 with decoder_tokens: an "
                "encoder-decoder takes no sentence pair",
                t->sentence_b_start);
    else if (t->sentence_b_start < 0 ||
             (t->sentence_b_start > 0 && t->sentence_b_start >= t->n_tokens))
        br_fail(BR_ERROR_ARGUMENT, op,
                "sentence_b_start is %" PRId64 ", must be 1 .. %" PRId64
                ", or 0 for a single sentence",
                t->sentence_b_start, t->n_tokens - 1);
    return !br_failed();
}

br_attention *br_attention_new(const br_attention_text *text)
{
    br_attention *self = good_text(text) ? BR_NEW(br_attention) : NULL;
    if (!self)
        return NULL;
    self->n_tokens = text->n_tokens;
    self->n_decoder_tokens = text->n_decoder_tokens;
    self->sentence_b_start = text->sentence_b_start;
    self->batch = text->batch;
    self->tokens = copy_tokens("tokens", text->n_tokens, text->tokens);
    self->decoder_tokens =
        copy_tokens("decoder_tokens", text->n_decoder_tokens, text->decoder_tokens);
    if (!br_failed())
        return self;
    br_attention_free(self);
    return NULL;
}

static void clear_map(br_map *map)
{
    br_free(map->name);
    br_release(map->weights);
    br_release(map->query);
    br_release(map->key);
}

void br_attention_free(br_attention *self)
{
    if (!BR_END("attention_free", self))
        return;
    free_tokens(self->tokens, self->n_tokens);
    free_tokens(self->decoder_tokens, self->n_decoder_tokens);
    for (int64_t i = 0; i < self->n_maps; i++)
        clear_map(&self->maps[i]);
    br_free(self->maps);
    BR_FREE(self);
}

int64_t br__rows_of(const br_attention *self, br_attention_part part)
{
    bool decoder = part == BR_ATTENTION_DECODER || part == BR_ATTENTION_CROSS;
    return decoder ? self->n_decoder_tokens : self->n_tokens;
}

int64_t br__columns_of(const br_attention *self, br_attention_part part)
{
    return part == BR_ATTENTION_DECODER ? self->n_decoder_tokens : self->n_tokens;
}

int64_t br_attention_layers(const br_attention *self, br_attention_part part)
{
    int64_t layers = 0;
    const int64_t n = BR_LIVE("attention_layers", self) ? self->n_maps : 0;
    for (int64_t i = 0; i < n; i++)
        layers += self->maps[i].part == part && self->maps[i].kind == BR_MAP_WEIGHTS;
    return layers;
}

/* ---- Checking -------------------------------------------------------------------------------- */

static bool good_part(const br_attention *self, br_attention_part part, const char *name)
{
    if (part < BR_ATTENTION_SELF || part > BR_ATTENTION_CROSS)
        br_fail(BR_ERROR_ARGUMENT, op, "%s: part is %d, must be a br_attention_part", name,
                (int)part);
    else if (part == BR_ATTENTION_SELF && self->n_decoder_tokens > 0)
        br_fail(BR_ERROR_ARGUMENT, op,
                "%s: part is BR_ATTENTION_SELF, but with decoder_tokens it must be encoder, "
                "decoder or cross attention",
                name);
    else if (br__rows_of(self, part) == 0 || br__columns_of(self, part) == 0)
        br_fail(BR_ERROR_ARGUMENT, op, "%s: %s are required for this part", name,
                part == BR_ATTENTION_ENCODER || self->n_tokens == 0 ? "tokens" : "decoder_tokens");
    for (int64_t i = 0; i < self->n_maps && !br_failed(); i++)
        if ((self->maps[i].part == BR_ATTENTION_SELF) != (part == BR_ATTENTION_SELF))
            br_fail(BR_ERROR_ARGUMENT, op,
                    "%s: BR_ATTENTION_SELF cannot be combined with encoder, decoder or cross "
                    "attention",
                    name);
    return !br_failed();
}

typedef char size_text[24];

/* Returns a size for a message, or `name` if any size is allowed (-1). */
static const char *size_or(int64_t size, const char *name, size_text buffer)
{
    snprintf(buffer, sizeof(size_text), "%" PRId64, size);
    return size < 0 ? name : buffer;
}

/* Checks that t is [batch, heads, rows, columns], or has no heads dimension. A size of -1 allows
 * any size. */
static bool good_shape(const br_attention *self, const char *name, const char *what,
                       const br_tensor *t, int64_t heads, int64_t rows, int64_t columns)
{
    if (!br__floating(op, what, t))
        return false;
    size_text heads_text, columns_text;
    const int64_t *n = t->sizes + t->ndim;
    bool fits = (t->ndim == 3 || t->ndim == 4) && n[-2] == rows && n[-1] > 0 &&
                (columns < 0 || n[-1] == columns);
    int64_t has = t->ndim == 4 ? t->sizes[1] : 1;
    fits = fits && has > 0 && (heads < 0 || has == heads);
    if (!fits)
        br_fail(BR_ERROR_SHAPE, op,
                "%s: %s is %s, must be [batch, %s, %" PRId64 ", %s] for %" PRId64 " tokens", name,
                what, br__shape(t), size_or(heads, "heads", heads_text), rows,
                size_or(columns, "size", columns_text), rows);
    else if (self->batch < 0 || self->batch >= t->sizes[0])
        br_fail(BR_ERROR_INDEX, op, "%s: batch is %" PRId64 ", out of bounds for %s %s", name,
                self->batch, what, br__shape(t));
    return !br_failed();
}

static bool good_tensors(const br_attention *self, br_attention_part part, const char *name,
                         br_tensor *weights, br_tensor *query, br_tensor *key)
{
    int64_t rows = br__rows_of(self, part), columns = br__columns_of(self, part);
    if (!good_shape(self, name, "weights", weights, -1, rows, columns))
        return false;
    int64_t heads = weights->ndim == 4 ? weights->sizes[1] : 1;
    if (!query && !key)
        return true;
    if (!query || !key)
        return br_fail(BR_ERROR_ARGUMENT, op, "%s: query and key must both be given, or neither",
                       name);
    return good_shape(self, name, "query", query, heads, rows, -1) &&
           good_shape(self, name, "key", key, heads, columns, br_size(query, -1));
}

/* ---- Adding ---------------------------------------------------------------------------------- */

/* Returns the text's entry of the batch as [heads, rows, columns], owned by the caller. */
static br_tensor *batch_entry(const br_attention *self, br_tensor *t)
{
    if (!t)
        return NULL;
    t = br_detach(t);
    if (br_ndim(t) == 3)
        t = br_unsqueeze(t, 1);
    return br_retain(br_contiguous(br_to(br_select(t, 0, self->batch), BR_F32)));
}

static void look_at(br_map *map)
{
    int64_t rows = br_size(map->weights, 1), columns = br_size(map->weights, 2);
    const float *w = br_data_f32(map->weights);
    map->causal = rows == columns && rows > 1;
    map->in_range = true;
    for (int64_t i = 0; w && i < br_numel(map->weights); i++) {
        map->bad += !isfinite(w[i]);
        map->in_range = map->in_range && !(w[i] < 0) && !(w[i] > 1);
        map->causal = map->causal && (i % columns <= i / columns % rows || w[i] == 0);
    }
}

/* Appends a map, which owns what it holds; clears it on error. */
static bool append(br_attention *self, br_map map)
{
    br_map *maps =
        br_failed() ? NULL : br__grow(self->maps, &self->capacity, self->n_maps, sizeof *maps);
    if (!maps) {
        clear_map(&map);
        return false;
    }
    self->maps = maps;
    self->maps[self->n_maps++] = map;
    return true;
}

bool br_attention_add(br_attention *self, br_attention_part part, const char *name,
                      br_tensor *weights, br_tensor *query, br_tensor *key)
{
    name = name ? name : "";
    if (!br__required(op, "self", self))
        return false;
    if (!good_part(self, part, br_printable(name)) ||
        !good_tensors(self, part, br_printable(name), weights, query, key))
        return false;
    br_scope *scope = br_no_grad_begin();
    br_map map = { .part = part, .layer = br_attention_layers(self, part) };
    map.name = br_strdup(name);
    map.weights = batch_entry(self, weights);
    map.query = batch_entry(self, query);
    map.key = batch_entry(self, key);
    look_at(&map);
    br_scope_end(scope);
    return append(self, map);
}

void br__drop_maps(br_attention *self, int64_t n)
{
    while (self->n_maps > n)
        clear_map(&self->maps[--self->n_maps]);
}

int64_t br__count_maps(const br_attention *self, br_attention_map kind)
{
    int64_t n = 0;
    for (int64_t i = 0; i < self->n_maps; i++)
        n += self->maps[i].kind == kind;
    return n;
}

bool br__add_map(br_attention *self, br_attention_map kind, const br_map *layer, br_tensor *values)
{
    br_map map = { .kind = kind, .part = layer->part, .layer = layer->layer };
    map.name = br_strdup(layer->name);
    map.weights = br_retain(br_contiguous(br_to(values, BR_F32)));
    look_at(&map);
    return append(self, map);
}
