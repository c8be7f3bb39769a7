/* nn/lora_layer.c - the parameters that LoRA adapters have in one layer.
 *
 * They are those of children of the layer with peft's names, so that lists of parameters, state
 * dicts, conversions and training mode need no special code. br_module_leave() calls
 * br__lora_run(), which adds what the active adapter computes from the layer's input. */
#include "nn/lora_internal.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

static const char op[] = "lora_add";

/* ---- Parts ----------------------------------------------------------------------------------- */

static void free_part(br_lora_part *part)
{
    br_release(part->norm);
    br_free(part->name);
    br_free(part);
}

static void release(br_adapter *self)
{
    br_lora_layer *layer = (br_lora_layer *)self;
    while (layer->parts) {
        br_lora_part *part = layer->parts;
        layer->parts = part->next;
        free_part(part);
    }
    br_free(layer);
}

br_lora_part *br__lora_part(const br_lora_layer *layer, const char *name)
{
    br_lora_part *part = layer ? layer->parts : NULL;
    while (part && strcmp(part->name, name) != 0)
        part = part->next;
    return part;
}

/* ---- Adding a part --------------------------------------------------------------------------- */

static bool fits_conv(const br_conv *conv, const char *path, int64_t r, const br_lora_options *o)
{
    const br_conv_options *c = &conv->options;
    if (c->dilation.rows != 1 || (conv->weight->ndim == 4 && c->dilation.columns != 1))
        br_fail(BR_ERROR_ARGUMENT, op, "%s has a dilation, which adapters do not support", path);
    else if (r % c->groups != 0)
        br_fail(BR_ERROR_ARGUMENT, op,
                "r is %" PRId64 ", must be a multiple of the groups of %s, which are %" PRId64, r,
                path, c->groups);
    else if (c->groups > 1 && o->use_dora)
        br_fail(BR_ERROR_ARGUMENT, op, "use_dora does not support %s, which has %" PRId64 " groups",
                path, c->groups);
    return !br_failed();
}

bool br__lora_fits(const br_module_state *state, const char *path, int64_t r,
                   const br_lora_options *o)
{
    const br_lora_kind *kind = br__lora_kind(state);
    if (!kind)
        br_fail(
            BR_ERROR_ARGUMENT, op,
            "%s is a %s%s, which cannot have an adapter: it must be a Linear, Embedding, Conv1d, "
            "Conv2d or GPT-2's Conv1D",
            path, state->class_name,
            br_is_parametrized(state->module, "weight") ? " with a parametrized weight" : "");
    else if (state->adapter && !br__lora_layer_of(state))
        br_fail(BR_ERROR_ARGUMENT, op, "%s is the root of a model with adapters", path);
    else if (br__lora_part(br__lora_layer_of(state), o->adapter_name))
        br_fail(BR_ERROR_ARGUMENT, op, "%s already has an adapter named '%s'", path,
                br_printable(o->adapter_name));
    else if (o->use_dora && br_is_parametrized(state->module, NULL))
        br_fail(BR_ERROR_ARGUMENT, op, "use_dora does not support %s, which is parametrized", path);
    else if (r < 1)
        br_fail(BR_ERROR_ARGUMENT, op, "r is %" PRId64 " for %s, must be at least 1", r, path);
    else if (kind->family == BR_LORA_EMBEDDING &&
             ((const br_embedding *)state->module)->max_norm > 0)
        br_fail(BR_ERROR_ARGUMENT, op, "%s has a max_norm, which adapters do not support", path);
    else if (kind->family == BR_LORA_CONV)
        return fits_conv((const br_conv *)state->module, path, r, o);
    return !br_failed();
}

/* Returns the layer's child of that name, or makes it. */
static br_module *dict_of(br_module_state *state, const char *name, const char *class_name)
{
    for (int64_t i = 0; i < state->n_children; i++)
        if (strcmp(state->children[i]->name, name) == 0)
            return state->children[i]->module;
    return br_module_add_child(state->module, name,
                               br_module_create(sizeof(br_module), class_name));
}

static const char *const dict_names[] = { "lora_dropout",         "lora_A",           "lora_B",
                                          "lora_embedding_A",     "lora_embedding_B", //
                                          "lora_magnitude_vector" };
enum { N_DICTS = sizeof dict_names / sizeof *dict_names };

bool br__lora_holds_parameters(const br_module_state *state)
{
    bool found = false;
    for (int i = 0; i < N_DICTS && state->name && !found; i++)
        found = strcmp(state->name, dict_names[i]) == 0;
    return found && state->parent && br__lora_layer_of(state->parent);
}

br_dtype br__lora_dtype(const br_tensor *weight)
{
    return br__is_narrow(weight->dtype) ? BR_F32 : weight->dtype;
}

/* Returns the dtype to which the first values of an adapter are rounded: the weight's, as in peft.
 */
static br_dtype rounding_dtype(const br_tensor *weight)
{
    return br__is_quantized(weight) ? br__lora_dtype(weight) : weight->dtype;
}

/* Gives a new module the device and the dtype of an adapter beside the weight. As in peft, its
 * values are first rounded to the dtype of the weight. */
static bool place(br_module *module, const br_tensor *weight)
{
    return br_module_to_device(module, br_device_of(weight)) &&
           br_module_to(module, rounding_dtype(weight)) &&
           br_module_to(module, br__lora_dtype(weight));
}

/* Adds A or B, a Linear or a convolution. */
static br_module *add_module(br_module_state *state, const char *dict, const char *name,
                             void *module)
{
    br_module *holder = dict_of(state, dict, "ModuleDict");
    if (!br_failed() && place(module, br__lora_tensor(state, "weight")))
        return br_module_add_child(holder, name, module);
    br_module_free(module);
    return NULL;
}

/* Initializes A and B, whose constructors have already initialized them as layers. */
static void init_parts(const br_lora_part *part, br_lora_init init)
{
    if (br_failed() || init == BR_LORA_INIT_FALSE)
        return;
    if (init == BR_LORA_INIT_TRUE)
        br_init_kaiming_uniform_(part->a, sqrt(5));
    else
        br_init_normal_(part->a, 0, 1 / (double)part->r);
    br_init_zeros_(part->b);
}

/* Initializes the modules A and B, whose weights the part already has, and adds them. */
static void add_modules(br_module_state *state, br_lora_part *part, const br_lora_options *o,
                        void *a, void *b)
{
    init_parts(part, o->init_lora_weights);
    part->module_a = add_module(state, "lora_A", part->name, a);
    part->module_b = add_module(state, "lora_B", part->name, b);
}

static void add_linear(br_module_state *state, br_lora_part *part, const br_lora_options *o)
{
    const br_tensor *weight = br__lora_tensor(state, "weight");
    int out_dim = br__lora_kind(state)->out_dim;
    br_linear *a = br_linear_new(weight->sizes[1 - out_dim], part->r, false);
    br_linear *b = br_linear_new(part->r, weight->sizes[out_dim], false);
    part->a = a->weight;
    part->b = b->weight;
    add_modules(state, part, o, a, b);
}

static void add_conv(br_module_state *state, br_lora_part *part, const br_lora_options *o)
{
    const br_conv *base = (const br_conv *)state->module;
    const int64_t *k = &base->weight->sizes[2], groups = base->options.groups;
    br_conv_options of_a = base->options;
    of_a.groups = 1;
    const br_conv_options *of_b = BR_OPTIONS(br_conv, .groups = groups);
    bool is_1d = base->weight->ndim == 3;
    int64_t in = base->in_channels, out = base->out_channels, r = part->r;
    br_conv *a = is_1d ? br_conv1d_new(in, r, k[0], false, &of_a)
                       : br_conv2d_new(in, r, k[0], k[1], false, &of_a);
    br_conv *b =
        is_1d ? br_conv1d_new(r, out, 1, false, of_b) : br_conv2d_new(r, out, 1, 1, false, of_b);
    part->a = a->weight;
    part->b = b->weight;
    add_modules(state, part, o, a, b);
}

/* Adds a parameter to a child of the layer, with the dtype of an adapter. */
static br_tensor *add_parameter(br_module_state *state, const char *dict, const char *name,
                                br_tensor *t)
{
    const br_tensor *weight = br__lora_tensor(state, "weight");
    t = br_to(br_to_device(t, br_device_of(weight)), rounding_dtype(weight));
    t = br_to(t, br__lora_dtype(weight));
    return br_module_add_parameter(dict_of(state, dict, "ParameterDict"), name, t);
}

/* PyTorch generates A and B, and then B again. */
static void add_embedding(br_module_state *state, br_lora_part *part, const br_lora_options *o)
{
    const br_tensor *weight = br__lora_tensor(state, "weight");
    br_tensor *a = br_randn(BR_SHAPE(part->r, weight->sizes[0]), BR_F32);
    br_tensor *b = br_randn(BR_SHAPE(weight->sizes[1], part->r), BR_F32);
    if (!br_failed() && o->init_lora_weights != BR_LORA_INIT_FALSE) {
        br_init_zeros_(a);
        br_init_normal_(b, 0, 1);
    }
    part->a = add_parameter(state, "lora_embedding_A", part->name, a);
    part->b = add_parameter(state, "lora_embedding_B", part->name, b);
}

/* Adds DoRA's magnitudes: first the norms of the weight. */
static void add_magnitude(br_module_state *state, br_lora_part *part)
{
    const br_tensor *weight = br__lora_tensor(state, "weight");
    br_tensor *norms = br_failed() ? NULL : br__lora_norms(state, part);
    int ndim = weight->ndim > 2 ? weight->ndim : 1;
    const int64_t sizes[] = { 1, -1, 1, 1 };
    norms = br_reshape(norms, ndim, ndim > 1 ? sizes : sizes + 1);
    norms = br_to(br_to(norms, rounding_dtype(weight)), br__lora_dtype(weight));
    br_module *dict = dict_of(state, "lora_magnitude_vector", "ModuleDict");
    br_module *holder =
        br_module_add_child(dict, part->name, br_module_create(sizeof(br_module), "DoraLayer"));
    part->magnitude = holder ? br_module_add_parameter(holder, "weight", norms) : NULL;
}

static void fill_part(br_module_state *state, br_lora_part *part, const br_lora_options *o)
{
    const br_lora_kind *kind = br__lora_kind(state);
    if (o->lora_dropout > 0 && kind->family != BR_LORA_EMBEDDING)
        part->dropout = br_module_add_child(dict_of(state, "lora_dropout", "ModuleDict"),
                                            part->name, br_dropout_new(o->lora_dropout));
    if (kind->family == BR_LORA_EMBEDDING)
        add_embedding(state, part, o);
    else if (kind->family == BR_LORA_CONV)
        add_conv(state, part, o);
    else
        add_linear(state, part, o);
    if (o->use_dora)
        add_magnitude(state, part);
}

/* Returns the layer's list of parts, and makes it if there is none. */
static br_lora_layer *layer_of(br_module_state *state)
{
    if (state->adapter)
        return br__lora_layer_of(state);
    br_lora_layer *layer = br_calloc(1, sizeof *layer);
    if (layer)
        *layer = (br_lora_layer){ { br__lora_run, release }, br__lora_kind(state), NULL };
    state->adapter = layer ? &layer->base : NULL;
    return layer;
}

static br_lora_part *new_part(int64_t r, double alpha, const br_lora_options *o)
{
    br_lora_part *part = br_calloc(1, sizeof *part);
    char *name = part ? br_strdup(o->adapter_name) : NULL;
    if (!name) {
        br_free(part);
        return NULL;
    }
    double divisor = o->use_rslora ? sqrt((double)r) : (double)r;
    *part = (br_lora_part){ .name = name, .r = r, .alpha = alpha, .scaling = alpha / divisor };
    return part;
}

bool br__lora_layer_add(br_module_state *state, int64_t r, double alpha, const br_lora_options *o)
{
    bool incomplete = state->incomplete;
    br_scope *scope = br_no_grad_begin();
    br_lora_layer *layer = layer_of(state);
    br_lora_part *part = layer ? new_part(r, alpha, o) : NULL;
    if (part) {
        br_lora_part **end = &layer->parts;
        while (*end)
            end = &(*end)->next;
        *end = part;
        fill_part(state, part, o);
        br_train(state->module, state->training);
    }
    br_scope_end(scope);
    if (part && !br_failed())
        return true;
    br__lora_layer_remove(state, o->adapter_name);
    state->incomplete = incomplete;
    return false;
}

/* ---- Removing a part ------------------------------------------------------------------------- */

/* Removes a parameter of a ParameterDict. */
static void remove_parameter(br_module_state *dict, const char *name)
{
    br_entry *entry = br__find_entry(dict, name);
    if (!entry)
        return;
    br_free(entry->name);
    br_release(entry->tensor);
    br_entry *end = dict->entries + --dict->n_entries;
    memmove(entry, entry + 1, (size_t)(end - entry) * sizeof *entry);
}

/* Removes what one of the layer's children has of the adapter, and the child if it is empty. */
static void remove_from(br_module_state *dict, const char *name)
{
    for (int64_t i = dict->n_children - 1; i >= 0; i--)
        if (strcmp(dict->children[i]->name, name) == 0)
            br_module_free(dict->children[i]->module);
    remove_parameter(dict, name);
    if (dict->n_children == 0 && dict->n_entries == 0)
        br_module_free(dict->module);
}

void br__lora_layer_remove(br_module_state *state, const char *name)
{
    br_lora_layer *layer = br__lora_layer_of(state);
    if (!layer)
        return;
    br_lora_part **at = &layer->parts;
    while (*at && strcmp((*at)->name, name) != 0)
        at = &(*at)->next;
    for (int64_t i = state->n_children - 1; *at && i >= 0; i--)
        if (br__lora_holds_parameters(state->children[i]))
            remove_from(state->children[i], name);
    br_lora_part *gone = *at;
    if (gone) {
        *at = gone->next;
        free_part(gone);
    }
    if (!layer->parts) {
        state->adapter = NULL;
        release(&layer->base);
    }
}

/* ---- Lists of adapters ----------------------------------------------------------------------- */

br_lora_set *br__lora_set_of(const br_module_state *state)
{
    return state->adapter && !state->adapter->run ? (br_lora_set *)state->adapter : NULL;
}

br_lora_adapter *br__lora_adapter(const br_lora_set *set, const char *name)
{
    br_lora_adapter *adapter = set ? set->adapters : NULL;
    while (adapter && strcmp(adapter->options.adapter_name, name) != 0)
        adapter = adapter->next;
    return adapter;
}

bool br__lora_each_layer(br_module_state *root, bool (*visit)(br_module_state *layer, void *),
                         void *context)
{
    for (int64_t i = 0; i < root->n_children; i++) {
        br_module_state *child = root->children[i];
        if (br__lora_holds_parameters(child))
            continue;
        if ((br__lora_layer_of(child) && !visit(child, context)) ||
            !br__lora_each_layer(child, visit, context))
            return false;
    }
    return true;
}

char *br__lora_path_in(const br_module *root, const br_module *module)
{
    char *path = br_strdup(module->state->name);
    for (const br_module_state *s = module->state->parent; s && s != root->state; s = s->parent) {
        char *longer = path ? br_format("%s.%s", s->name, path) : NULL;
        br_free(path);
        path = longer;
    }
    return path;
}

/* ---- Shapes ---------------------------------------------------------------------------------- */

void br__lora_shapes(const br_module_state *layer, int64_t r, br_lora_shape *a, br_lora_shape *b)
{
    const br_tensor *weight = br__lora_tensor(layer, "weight");
    const br_lora_kind *kind = br__lora_kind(layer);
    int ndim = weight->ndim;
    *a = (br_lora_shape){ ndim, { r, weight->sizes[1 - kind->out_dim] } };
    *b = (br_lora_shape){ ndim, { weight->sizes[kind->out_dim], r, 1, 1 } };
    if (kind->family != BR_LORA_CONV)
        return;
    const br_conv *conv = (const br_conv *)layer->module;
    a->sizes[1] = conv->in_channels;
    b->sizes[1] = r / conv->options.groups;
    for (int d = 2; d < ndim; d++)
        a->sizes[d] = weight->sizes[d];
}
