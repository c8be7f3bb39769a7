/* viz/attention.c - collecting the attention of a text: checked, as f32, one of the batch. */
#include "viz/viz_internal.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

static const char op[] = "attention";

/* ---- Texts ----------------------------------------------------------------------------------- */

static void free_tokens(char **tokens, int64_t n)
{
    for (int64_t i = 0; tokens && i < n; i++)
        br_free(tokens[i]);
    br_free(tokens);
}

/* NULL where there are none, or on error. */
static char **copy_tokens(const char *name, int64_t n, const char *const *tokens)
{
    if (n == 0 || br_failed())
        return NULL;
    char **copies = br__calloc((size_t)n, sizeof *copies);
    for (int64_t i = 0; copies && i < n && !br_failed(); i++) {
        if (tokens[i])
            copies[i] = br__strdup(tokens[i]);
        else
            br__fail(BR_ERROR_ARGUMENT, op, "%s[%" PRId64 "] is NULL", name, i);
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
        br__fail(BR_ERROR_ARGUMENT, op, "tokens are required");
    else if (t->sentence_b_start != 0 && t->n_decoder_tokens > 0)
        br__fail(BR_ERROR_ARGUMENT, op,
                 "sentence_b_start is %" PRId64 ": an encoder-decoder has no pair of sentences",
                 t->sentence_b_start);
    else if (t->sentence_b_start < 0 ||
             (t->sentence_b_start > 0 && t->sentence_b_start >= t->n_tokens))
        br__fail(BR_ERROR_ARGUMENT, op,
                 "sentence_b_start is %" PRId64 ", must be 1 .. %" PRId64 ", or 0 for one sentence",
                 t->sentence_b_start, t->n_tokens - 1);
    return !br_failed();
}

br_attention *br_attention_new(const br_attention_text *text)
{
    br_attention *self = good_text(text) ? br__calloc(1, sizeof *self) : NULL;
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
    if (!self)
        return;
    free_tokens(self->tokens, self->n_tokens);
    free_tokens(self->decoder_tokens, self->n_decoder_tokens);
    for (int64_t i = 0; i < self->n_maps; i++)
        clear_map(&self->maps[i]);
    br_free(self->maps);
    br_free(self);
}

/* Tokens of a part's rows and columns. */
static int64_t rows_of(const br_attention *self, br_attention_part part)
{
    bool decoder = part == BR_ATTENTION_DECODER || part == BR_ATTENTION_CROSS;
    return decoder ? self->n_decoder_tokens : self->n_tokens;
}

static int64_t columns_of(const br_attention *self, br_attention_part part)
{
    return part == BR_ATTENTION_DECODER ? self->n_decoder_tokens : self->n_tokens;
}

int64_t br_attention_layers(const br_attention *self, br_attention_part part)
{
    int64_t layers = 0;
    for (int64_t i = 0; self && i < self->n_maps; i++)
        layers += self->maps[i].part == part;
    return layers;
}

/* ---- Checking -------------------------------------------------------------------------------- */

static bool good_part(const br_attention *self, br_attention_part part, const char *name)
{
    if (part < BR_ATTENTION_SELF || part > BR_ATTENTION_CROSS)
        br__fail(BR_ERROR_ARGUMENT, op, "%s: part is %d", name, (int)part);
    else if (part == BR_ATTENTION_SELF && self->n_decoder_tokens > 0)
        br__fail(BR_ERROR_ARGUMENT, op,
                 "%s: with decoder_tokens attention is an encoder's, a decoder's or cross", name);
    else if (rows_of(self, part) == 0 || columns_of(self, part) == 0)
        br__fail(BR_ERROR_ARGUMENT, op, "%s: %s are wanted", name,
                 part == BR_ATTENTION_ENCODER || self->n_tokens == 0 ? "tokens" : "decoder_tokens");
    for (int64_t i = 0; i < self->n_maps && !br_failed(); i++)
        if ((self->maps[i].part == BR_ATTENTION_SELF) != (part == BR_ATTENTION_SELF))
            br__fail(BR_ERROR_ARGUMENT, op,
                     "%s: a model's own attention and an encoder-decoder's cannot be on one page",
                     name);
    return !br_failed();
}

/* t is [batch, heads, rows, columns], or without heads; -1 stands for any size. */
static bool good_shape(const br_attention *self, const char *name, const char *what,
                       const br_tensor *t, int64_t heads, int64_t rows, int64_t columns)
{
    if (!br__floating(op, what, t))
        return false;
    const int64_t *n = t->sizes + t->ndim;
    bool fits = (t->ndim == 3 || t->ndim == 4) && n[-2] == rows && n[-1] > 0 &&
                (columns < 0 || n[-1] == columns);
    int64_t has = t->ndim == 4 ? t->sizes[1] : 1;
    fits = fits && has > 0 && (heads < 0 || has == heads);
    if (!fits)
        br__fail(BR_ERROR_SHAPE, op,
                 "%s: %s is %s, must be [batch, heads, %" PRId64 ", %s]: there are %" PRId64
                 " tokens",
                 name, what, br__shape(t), rows, columns < 0 ? "size" : "columns below", rows);
    else if (self->batch < 0 || self->batch >= t->sizes[0])
        br__fail(BR_ERROR_INDEX, op, "%s: %s is %s, which has no text %" PRId64, name, what,
                 br__shape(t), self->batch);
    return !br_failed();
}

static bool good_tensors(const br_attention *self, br_attention_part part, const char *name,
                         br_tensor *weights, br_tensor *query, br_tensor *key)
{
    int64_t rows = rows_of(self, part), columns = columns_of(self, part);
    if (!good_shape(self, name, "weights", weights, -1, rows, columns))
        return false;
    int64_t heads = weights->ndim == 4 ? weights->sizes[1] : 1;
    if (!query && !key)
        return true;
    if (!query || !key)
        return br__fail(BR_ERROR_ARGUMENT, op, "%s: query and key go together", name);
    return good_shape(self, name, "query", query, heads, rows, -1) &&
           good_shape(self, name, "key", key, heads, columns, br_size(query, -1));
}

/* ---- Adding ---------------------------------------------------------------------------------- */

/* One of the batch as [heads, rows, columns], held. */
static br_tensor *take(const br_attention *self, br_tensor *t)
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

bool br_attention_add(br_attention *self, br_attention_part part, const char *name,
                      br_tensor *weights, br_tensor *query, br_tensor *key)
{
    name = name ? name : "";
    if (br_failed())
        return false;
    if (!self)
        return br__fail(BR_ERROR_ARGUMENT, op, "attention is required");
    if (!good_part(self, part, br__printable(name)) ||
        !good_tensors(self, part, br__printable(name), weights, query, key))
        return false;
    br_map *maps = br__grow(self->maps, &self->room, self->n_maps, sizeof *maps);
    if (!maps)
        return false;
    self->maps = maps;
    br_scope *scope = br_no_grad_begin();
    br_map map = { .part = part, .layer = br_attention_layers(self, part) };
    map.name = br__strdup(name);
    map.weights = take(self, weights);
    map.query = take(self, query);
    map.key = take(self, key);
    look_at(&map);
    br_scope_end(scope);
    if (br_failed())
        clear_map(&map);
    else
        self->maps[self->n_maps++] = map;
    return !br_failed();
}
