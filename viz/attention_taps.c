/* viz/attention_taps.c - finds attention among the tensors that modules tapped: which query and key
 * belong to which weights, which heads form one layer, and which layers are a decoder's. */
#include "tensor/min_max.h"
#include "viz/viz_internal.h"

#include <inttypes.h>
#include <string.h>

static const char op[] = "attention_add_recorded";

/* A layer, with the path of its tap in the recorder: "encoder.layer.0.attention". */
typedef struct found {
    const char *path;
    int length; /* length of the module's path */
    bool cross;
    br_tensor *weights, *query, *key;
} found;

typedef struct search {
    found *items;
    int64_t n;
} search;

/* ---- Paths ----------------------------------------------------------------------------------- */

/* Returns whether the last part of the path is `name`, possibly followed by "#1". Stores the length
 * of the part before it in *module. */
static bool is_tap(const char *path, const char *name, int *module)
{
    const char *dot = strrchr(path, '.'), *last = dot ? dot + 1 : path;
    size_t n = strlen(name);
    *module = dot ? (int)(dot - path) : 0;
    return strncmp(last, name, n) == 0 && (last[n] == 0 || last[n] == '#');
}

/* Returns the length of the path without its last part. */
static int parent_of(const char *path, int length)
{
    while (length > 0 && path[length - 1] != '.')
        length--;
    return length > 0 ? length - 1 : 0;
}

static bool same_module(const char *a, int a_length, const char *b, int b_length)
{
    return a_length == b_length && strncmp(a, b, (size_t)a_length) == 0;
}

/* Returns the number of leading parts that both modules' paths share. */
static int shared(const found *a, const found *b)
{
    int parts = 0;
    for (int i = 0; i <= a->length && i <= b->length; i++) {
        bool a_ends = i == a->length || a->path[i] == '.';
        bool b_ends = i == b->length || b->path[i] == '.';
        if (a_ends && b_ends)
            parts++;
        else if (a_ends || b_ends || a->path[i] != b->path[i])
            return parts;
    }
    return parts;
}

/* Returns the length of the path of the list that contains a one-headed module, or 0 if the list is
 * not named "heads". */
static int list_of_heads(const found *f)
{
    static const char heads[] = "heads";
    const int n = (int)strlen(heads);
    int list = parent_of(f->path, f->length);
    bool is_it = list >= n && strncmp(f->path + list - n, heads, (size_t)n) == 0 &&
                 (list == n || f->path[list - n - 1] == '.');
    return is_it && br_ndim(f->weights) == 3 ? list : 0;
}

/* ---- Searching ------------------------------------------------------------------------------- */

/* Collects the layers. A module taps its query and key before its weights. */
static bool collect(search *s, const br_recorder *recorder)
{
    int64_t n = br_recorder_count(recorder);
    found next = { 0 };
    s->items = br_calloc((size_t)n, sizeof *s->items);
    for (int64_t i = 0; s->items && i < n; i++) {
        const char *path = br_recorder_name(recorder, i);
        br_tensor *t = br_recorder_tensor(recorder, i);
        int module;
        bool query = is_tap(path, "query", &module), key = is_tap(path, "key", &module);
        bool cross = is_tap(path, "cross_attention", &module);
        bool weights = cross || is_tap(path, "attention", &module);
        if (!query && !key && !weights)
            continue;
        if (!next.path || query || !same_module(next.path, next.length, path, module))
            next = (found){ path, module, false, NULL, NULL, NULL };
        if (query)
            next.query = t;
        if (key)
            next.key = t;
        if (!weights)
            continue;
        next.weights = t;
        next.cross = cross;
        if (!next.query || !next.key)
            next.query = next.key = NULL;
        s->items[s->n++] = next;
        next = (found){ 0 };
    }
    return s->items != NULL;
}

/* Stacks a field of n one-headed modules as heads. Returns NULL if one of them has no such
 * tensor. */
static br_tensor *stack(const found *f, int64_t n, size_t field)
{
    br_tensor **heads = br_calloc((size_t)n, sizeof *heads);
    bool all = heads != NULL;
    for (int64_t i = 0; all && i < n; i++) {
        heads[i] = *(br_tensor *const *)((const char *)&f[i] + field);
        all = heads[i] != NULL;
    }
    br_tensor *stacked = all ? br_stack((int)n, heads, 1) : NULL;
    br_free(heads);
    return stacked;
}

/* Joins consecutive heads of one list into one layer. The stacked tensors belong to the innermost
 * scope. */
static void join_heads(search *s)
{
    int64_t kept = 0;
    for (int64_t i = 0, n; i < s->n && !br_failed(); i += n) {
        found first = s->items[i];
        int list = list_of_heads(&first);
        for (n = 1; list && i + n < s->n; n++) {
            const found *f = &s->items[i + n];
            if (list_of_heads(f) != list || !same_module(f->path, list, first.path, list) ||
                same_module(f->path, f->length, first.path, first.length))
                break;
        }
        if (list) {
            const found *heads = s->items + i;
            first.length = list;
            first.weights = stack(heads, n, offsetof(found, weights));
            first.query = stack(heads, n, offsetof(found, query));
            first.key = stack(heads, n, offsetof(found, key));
        }
        s->items[kept++] = first;
    }
    s->n = kept;
}

/* ---- Parts ----------------------------------------------------------------------------------- */

/* With cross-attention, item i belongs to the decoder if it ran after the first cross-attention, or
 * if their paths have more leading parts in common than the paths of all layers have. */
static br_attention_part part_of(const search *s, int64_t i, int64_t first_cross)
{
    const found *f = &s->items[i], *cross = &s->items[first_cross];
    if (f->cross)
        return BR_ATTENTION_CROSS;
    if (i > first_cross)
        return BR_ATTENTION_DECODER;
    int common = shared(cross, cross);
    for (int64_t k = 0; k < s->n; k++)
        common = br__min(shared(&s->items[k], cross), common);
    bool beside = same_module(f->path, parent_of(f->path, f->length), cross->path,
                              parent_of(cross->path, cross->length));
    return beside || shared(f, cross) > common ? BR_ATTENTION_DECODER : BR_ATTENTION_ENCODER;
}

static bool add_all(br_attention *self, const search *s)
{
    int64_t first_cross = 0;
    while (first_cross < s->n && !s->items[first_cross].cross)
        first_cross++;
    bool across = first_cross < s->n;
    if (across && self->n_decoder_tokens == 0)
        return br_fail(BR_ERROR_ARGUMENT, op, "%s is cross-attention: decoder_tokens are required",
                       br_printable(s->items[first_cross].path));
    if (!across && self->n_decoder_tokens > 0)
        return br_fail(BR_ERROR_ARGUMENT, op,
                       "decoder_tokens were given, but no module tapped \"cross_attention\"");
    for (int64_t i = 0; i < s->n && !br_failed(); i++) {
        const found *f = &s->items[i];
        br_attention_part part = across ? part_of(s, i, first_cross) : BR_ATTENTION_SELF;
        char *name = br_format("%.*s", f->length, f->path);
        if (name)
            br_attention_add(self, part, name, f->weights, f->query, f->key);
        br_free(name);
    }
    return !br_failed();
}

/* Collects the layers of a recorder. Returns false and records an error if it has none. */
static bool search_recorder(search *s, const br_recorder *recorder, const char *caller)
{
    if (!collect(s, recorder))
        return false;
    return s->n > 0 ||
           br_fail(BR_ERROR_ARGUMENT, caller,
                   "none of the %" PRId64
                   " recorded taps is attention: run a forward pass while the recorder is open",
                   br_recorder_count(recorder));
}

bool br_attention_add_recorded(br_attention *self, const br_recorder *recorder)
{
    if (br_failed())
        return false;
    if (!self || !recorder)
        return br_fail(BR_ERROR_ARGUMENT, op, "self and recorder are required");
    br_scope *scope = br_no_grad_begin();
    search s = { 0 };
    if (search_recorder(&s, recorder, op))
        join_heads(&s);
    if (!br_failed())
        add_all(self, &s);
    br_free(s.items);
    br_scope_end(scope);
    return !br_failed();
}

/* ---- Gradients ------------------------------------------------------------------------------- */

static const char gradient_op[] = "attention_add_gradient";

/* Replaces the weights of each item by max(weights x gradient, 0). */
static bool multiply_by_gradients(search *s, br_tensor *output)
{
    br_tensor **weights = br_calloc((size_t)s->n, sizeof *weights);
    br_tensor **grads = br_calloc((size_t)s->n, sizeof *grads);
    for (int64_t i = 0; weights && i < s->n; i++) {
        weights[i] = s->items[i].weights;
        s->items[i].query = s->items[i].key = NULL;
        if (!br_requires_grad(weights[i]))
            br_fail(BR_ERROR_ARGUMENT, gradient_op,
                    "the weights of %s have no graph: run the forward pass with gradients on",
                    br_printable(s->items[i].path));
    }
    if (grads && !br_failed() &&
        br_grad(1, &output, (int)s->n, weights, grads,
                BR_OPTIONS(br_grad, .materialize_grads = true)))
        for (int64_t i = 0; i < s->n; i++)
            s->items[i].weights = br_relu(br_mul(br_detach(weights[i]), grads[i]));
    br_free(weights);
    br_free(grads);
    return !br_failed();
}

/* Adds the mean over heads of item i as the gradient map of the i-th layer that was added. */
static void add_gradient(br_attention *self, const search *s, int64_t i)
{
    int64_t map = -1;
    for (int64_t n = -1; n < i; n += self->maps[map].kind == BR_MAP_WEIGHTS)
        map++;
    br_tensor *w = s->items[i].weights;
    w = br_select(br_ndim(w) == 3 ? br_unsqueeze(w, 1) : w, 0, self->batch);
    w = br_mean_dim(br_to(w, BR_F32), 1, (int64_t[]){ 0 }, true);
    const br_map layer = self->maps[map];
    if (w &&
        (br_size(w, 1) != br_size(layer.weights, 1) || br_size(w, 2) != br_size(layer.weights, 2)))
        br_fail(BR_ERROR_SHAPE, gradient_op, "layer %" PRId64 " has shape %s, but %s was added", i,
                br__shape(w), br__shape(layer.weights));
    if (!br_failed())
        br__add_map(self, BR_MAP_GRADIENT, &layer, w);
}

bool br_attention_add_gradient(br_attention *self, const br_recorder *recorder, br_tensor *output)
{
    if (!br__required(gradient_op, "self", self) ||
        !br__required(gradient_op, "recorder", recorder) ||
        !br__required(gradient_op, "output", output))
        return false;
    if (br_numel(output) != 1)
        return br_fail(BR_ERROR_SHAPE, gradient_op, "output is %s, must have one element",
                       br__shape(output));
    if (br__count_maps(self, BR_MAP_GRADIENT) > 0)
        return br_fail(BR_ERROR_ARGUMENT, gradient_op, "gradients were added before");
    br_scope *scope = br_no_grad_begin();
    search s = { 0 };
    if (search_recorder(&s, recorder, gradient_op) && multiply_by_gradients(&s, output))
        join_heads(&s);
    int64_t layers = br__count_maps(self, BR_MAP_WEIGHTS);
    if (!br_failed() && s.n != layers)
        br_fail(BR_ERROR_ARGUMENT, gradient_op,
                "the recorder has %" PRId64 " layers, but %" PRId64
                " were added: call br_attention_add_recorded() with it before",
                s.n, layers);
    const int64_t before = self->n_maps;
    for (int64_t i = 0; i < s.n && !br_failed(); i++)
        add_gradient(self, &s, i);
    if (br_failed())
        br__drop_maps(self, before);
    br_free(s.items);
    br_scope_end(scope);
    return !br_failed();
}
