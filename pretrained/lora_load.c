/* pretrained/lora_load.c - loads an adapter from a folder of peft's.
 *
 * All keys and shapes are checked, and all values are read, before the model changes. The layers
 * are those that the file has keys for, whatever the configuration says about names, since
 * target_modules may be a regular expression. */
#include "nn/match.h"
#include "pretrained/lora_folder_internal.h"

#include <inttypes.h>
#include <string.h>

static const char op[] = "lora_load";
static const char file_name[] = "adapter_model.safetensors";

/* ---- The state of a loading ------------------------------------------------------------------ */

enum { A, B, MAGNITUDE, N_PARTS };

/* The values of one layer. */
typedef struct layer_values {
    br_tensor *parts[N_PARTS];
    const char *keys[N_PARTS]; /* in the file */
} layer_values;

/* A value of the model itself, such as a bias or one of a saved module. */
typedef struct own_value {
    br_tensor *own, *value;
} own_value;

typedef struct loading {
    br_module *model;
    br_lora_config config;
    char *path;
    br_safetensors *file;
    br_named_list *state; /* of the model */
    br_lora_targets targets;
    int64_t value_capacity, n_own, own_capacity;
    layer_values *values; /* for each target */
    own_value *own;
} loading;

/* ---- Keys ------------------------------------------------------------------------------------ */

/* The ends of the keys of a layer; of one part the longer ones come first. */
static const struct {
    const char *end;
    int part;
} ends[] = {
    { ".lora_A.weight", A },
    { ".lora_B.weight", B },
    { ".lora_embedding_A", A },
    { ".lora_embedding_B", B },
    { ".lora_magnitude_vector.weight", MAGNITUDE },
    { ".lora_magnitude_vector", MAGNITUDE },
};

/* Returns the length of the path of a layer to which the name of a parameter belongs, and sets
 * *part. Returns -1 if the name is none of an adapter's. */
static int layer_length(const char *name, int *part)
{
    int length = -1;
    for (size_t i = 0; i < sizeof ends / sizeof *ends && length < 0; i++) {
        length = br__before_end(name, ends[i].end);
        *part = ends[i].part;
    }
    return length;
}

static bool refuse_key(const loading *l, const char *key, const char *what)
{
    br__fail_file(BR_ERROR_FORMAT, op, l->path, "key \"%s\" %s", br_printable(key), what);
    return false;
}

/* Returns the index of the target with this path, and adds it if there is none. Returns -1 and an
 * error on failure. */
static int64_t target_at(loading *l, const char *key, const char *path)
{
    for (int64_t i = 0; i < l->targets.count; i++)
        if (strcmp(l->targets.items[i].path, path) == 0)
            return i;
    br_module *layer = br_module_find(l->model, path);
    if (!layer) {
        br_clear_error();
        br__fail_file(BR_ERROR_FORMAT, op, l->path,
                      "key \"%s\" belongs to no module of the %s: is the adapter for another base "
                      "model?",
                      br_printable(key), br_module_class(l->model));
        return -1;
    }
    layer_values *values =
        br__grow(l->values, &l->value_capacity, l->targets.count, sizeof *values);
    if (!values)
        return -1;
    l->values = values;
    values[l->targets.count] = (layer_values){ 0 };
    return br__lora_target_add(&l->targets, layer->state, path, 0, 0) ? l->targets.count - 1 : -1;
}

static bool use_part(loading *l, const char *key, const char *path, int part)
{
    int64_t i = target_at(l, key, path);
    if (i < 0)
        return false;
    if (l->values[i].keys[part])
        return refuse_key(l, key, "occurs twice, in two spellings");
    l->values[i].keys[part] = key;
    l->values[i].parts[part] = br_safetensors_get(l->file, key);
    return l->values[i].parts[part] != NULL;
}

/* Uses a key that names a tensor of the model. */
static bool use_own(loading *l, const char *key, const char *name)
{
    br_tensor *own = br_named_list_get(l->state, name);
    if (!own)
        return refuse_key(l, key, "belongs to no part of an adapter and to no tensor of the model");
    br_tensor *value = br_safetensors_get(l->file, key);
    if (value && !br__same_shape(own, value)) {
        br__fail_file(BR_ERROR_SHAPE, op, l->path,
                      "key \"%s\" has shape %s, but the model's %s has shape %s", br_printable(key),
                      br__shape(value), name, br_shape_text(own));
        return false;
    }
    own_value *list = value ? br__grow(l->own, &l->own_capacity, l->n_own, sizeof *list) : NULL;
    if (!list)
        return false;
    l->own = list;
    list[l->n_own++] = (own_value){ own, br_to(value, own->dtype) };
    return !br_failed();
}

/* Removes ".base_layer" from the name, which peft puts before the names of a layer's own tensors.
 */
static void drop_base_layer(char *name)
{
    static const char part[] = ".base_layer.";
    char *at = strstr(name, part);
    if (at)
        memmove(at + 1, at + strlen(part), strlen(at + strlen(part)) + 1);
}

/* Uses a key by its name in the model. */
static bool use_name(loading *l, const char *key, char *name)
{
    if (strstr(name, ".original_module.") || strstr(name, ".modules_to_save."))
        return true; /* further copies of values that have a key of their own */
    int part, length = layer_length(name, &part);
    if (length >= 0) {
        name[length] = '\0';
        return use_part(l, key, name, part);
    }
    drop_base_layer(name);
    return use_own(l, key, name);
}

static bool use_key(loading *l, const br_key_map *map, const char *key)
{
    if (!br__begins_with(key, BR_LORA_KEY_PREFIX))
        return refuse_key(l, key, "does not begin with base_model.model.");
    char *name = br__key_to_name(map, key + strlen(BR_LORA_KEY_PREFIX));
    bool ok = name && use_name(l, key, name);
    br_free(name);
    return ok;
}

static bool use_keys(loading *l)
{
    br_key_map map = br__lora_key_map(l->model);
    for (int64_t i = 0; i < br_safetensors_count(l->file); i++)
        if (!use_key(l, &map, br_safetensors_name(l->file, i)))
            return false;
    if (l->targets.count == 0)
        br__fail_file(BR_ERROR_FORMAT, op, l->path, "has no key of an adapter");
    return !br_failed();
}

/* ---- Checks ---------------------------------------------------------------------------------- */

static bool refuse_missing(const loading *l, const char *path, const char *part)
{
    char *own = br__lora_file_path(l->model, path);
    if (own)
        br__fail_file(BR_ERROR_FORMAT, op, l->path, "key \"%s%s.%s\" is missing",
                      BR_LORA_KEY_PREFIX, own, part);
    br_free(own);
    return false;
}

/* Checks that a value has the shape that the layer needs. */
static bool check_shape(const loading *l, const br_lora_target *t, const layer_values *v, int part,
                        const br_lora_shape *wanted)
{
    const br_tensor *value = v->parts[part];
    bool same = value->ndim == wanted->ndim;
    for (int d = 0; same && d < wanted->ndim; d++)
        same = value->sizes[d] == wanted->sizes[d];
    if (same)
        return true;
    br__fail_file(BR_ERROR_SHAPE, op, l->path,
                  "key \"%s\" has shape %s, but %s of the model needs %s: the adapter is for "
                  "another base model",
                  br_printable(v->keys[part]), br__shape(value), t->path,
                  br__shape_of(wanted->ndim, wanted->sizes));
    return false;
}

/* Sets the shape of DoRA's magnitudes, [outputs], or [1, outputs, 1, ...] of a convolution. */
static void magnitude_shape(const br_lora_shape *b, bool is_conv, br_lora_shape *shape)
{
    *shape = (br_lora_shape){ 1, { b->sizes[0] } };
    if (is_conv)
        *shape = (br_lora_shape){ b->ndim, { 1, b->sizes[0], 1, 1 } };
}

/* Returns what follows the path of a layer in the key of A. */
static const char *key_of_a(const br_lora_kind *kind)
{
    return kind && kind->family == BR_LORA_EMBEDDING ? "lora_embedding_A" : "lora_A.weight";
}

/* Sets the target's rank and alpha, and checks its values. */
static bool check_target(loading *l, br_lora_target *t, const layer_values *v)
{
    const br_lora_options *o = &l->config.options;
    const br_lora_kind *kind = br__lora_kind(t->layer);
    bool is_embedding = kind && kind->family == BR_LORA_EMBEDDING;
    if (!v->parts[A])
        return refuse_missing(l, t->path, key_of_a(kind));
    if (!v->parts[B])
        return refuse_missing(l, t->path, is_embedding ? "lora_embedding_B" : "lora_B.weight");
    if (o->use_dora && !v->parts[MAGNITUDE])
        return refuse_missing(l, t->path, "lora_magnitude_vector");
    if (!o->use_dora && v->parts[MAGNITUDE])
        return refuse_key(l, v->keys[MAGNITUDE], "is unexpected, because use_dora is false");
    t->r = v->parts[A]->ndim > 0 ? v->parts[A]->sizes[0] : 0;
    t->alpha = o->lora_alpha;
    char *own = br__lora_file_path(l->model, t->path);
    for (int64_t i = o->n_alpha_pattern - 1; own && i >= 0; i--)
        if (br__lora_name_matches(o->alpha_pattern[i].name, own))
            t->alpha = o->alpha_pattern[i].value;
    br_free(own);
    br_lora_shape a, b, magnitude;
    if (br_failed() || !br__lora_fits(t->layer, t->path, t->r, o))
        return false;
    br__lora_shapes(t->layer, t->r, &a, &b);
    magnitude_shape(&b, kind->family == BR_LORA_CONV, &magnitude);
    return check_shape(l, t, v, A, &a) && check_shape(l, t, v, B, &b) &&
           (!o->use_dora || check_shape(l, t, v, MAGNITUDE, &magnitude));
}

/* Checks that the file has keys for all layers that the configuration names. */
static bool check_all_named(loading *l)
{
    br_lora_targets named = { 0 };
    bool ok = br__lora_key_map(l->model).renames || !l->config.lists_targets ||
              br__lora_find_some(l->model, &l->config.options, &named);
    for (int64_t i = 0; ok && i < named.count; i++) {
        bool found = false;
        for (int64_t k = 0; k < l->targets.count && !found; k++)
            found = l->targets.items[k].layer == named.items[i].layer;
        const br_lora_target *t = &named.items[i];
        ok = found || refuse_missing(l, t->path, key_of_a(br__lora_kind(t->layer)));
    }
    br__lora_targets_free(&named);
    return ok;
}

static bool check(loading *l)
{
    for (int64_t i = 0; i < l->targets.count; i++)
        if (!check_target(l, &l->targets.items[i], &l->values[i]))
            return false;
    return check_all_named(l);
}

/* ---- Setting the values ---------------------------------------------------------------------- */

/* Gives a parameter the values of a tensor of its dtype and device. */
static void assign(br_tensor *own, br_tensor *value)
{
    if (own && value)
        br__swap_data(op, own, value);
}

/* Converts the values of a layer to the dtype of an adapter, in memory of their own. */
static bool convert(const br_lora_target *t, layer_values *v)
{
    const br_tensor *weight = br__lora_tensor(t->layer, "weight");
    for (int i = 0; i < N_PARTS; i++)
        if (v->parts[i])
            v->parts[i] = br_contiguous(
                br_to_device(br_to(v->parts[i], br__lora_dtype(weight)), br_device_of(weight)));
    return !br_failed();
}

static bool convert_all(loading *l)
{
    for (int64_t i = 0; i < l->targets.count; i++)
        if (!convert(&l->targets.items[i], &l->values[i]))
            return false;
    for (int64_t i = 0; i < l->n_own; i++)
        l->own[i].value = br_contiguous(br_to_device(l->own[i].value, br_device_of(l->own[i].own)));
    return !br_failed();
}

/* Returns the tensor that has the adapter's values of a tensor of the model. */
static br_tensor *place_of(const br_lora_adapter *adapter, bool is_active, br_tensor *own)
{
    for (int64_t i = 0; i < adapter->n_saved && !is_active; i++)
        if (adapter->saved[i].own == own)
            return adapter->saved[i].other;
    return own;
}

static void assign_all(loading *l, bool is_trainable)
{
    const br_lora_set *set = br__lora_set_of(l->model->state);
    const br_lora_adapter *adapter = br__lora_adapter(set, l->config.options.adapter_name);
    for (int64_t i = 0; i < l->targets.count; i++) {
        const layer_values *v = &l->values[i];
        br_lora_part *part = br__lora_part(br__lora_layer_of(l->targets.items[i].layer),
                                           l->config.options.adapter_name);
        br_tensor *const own[] = { part->a, part->b, part->magnitude };
        for (int k = 0; k < N_PARTS; k++) {
            assign(own[k], v->parts[k]);
            if (own[k] && !is_trainable)
                br_set_requires_grad(own[k], false);
        }
    }
    for (int64_t i = 0; i < l->n_own; i++) {
        br_tensor *own = place_of(adapter, set->active == adapter, l->own[i].own);
        assign(own, l->own[i].value);
        if (!is_trainable && br_is_floating(own))
            br_set_requires_grad(own, false);
    }
}

/* Returns true if the module at a path of the model, or one in it, has tensors. */
static bool names_module(const loading *l, const char *name)
{
    const br_lora_options one = { .n_modules_to_save = 1, .modules_to_save = &name };
    bool found = false;
    for (int64_t i = 0; i < l->state->count && !found; i++)
        found = br__lora_is_saved(&one, l->state->items[i].name);
    return found;
}

/* Removes the names of modules_to_save that the model does not have: peft always writes
 * "classifier" and "score". */
static void drop_unknown_saved(loading *l)
{
    br_lora_options *o = &l->config.options;
    const char **names = (const char **)o->modules_to_save;
    int64_t n = o->n_modules_to_save;
    o->n_modules_to_save = 0;
    for (int64_t i = 0; i < n; i++)
        if (names_module(l, names[i]))
            names[o->n_modules_to_save++] = names[i];
}

/* Returns options that name the layers by their paths if the configuration has an expression. */
static br_lora_options final_options(const loading *l, const char **paths)
{
    br_lora_options o = l->config.options;
    if (l->config.lists_targets && !br__lora_key_map(l->model).renames)
        return o;
    for (int64_t i = 0; i < l->targets.count; i++)
        paths[i] = l->targets.items[i].path;
    o.n_target_modules = l->targets.count;
    o.target_modules = paths;
    o.n_exclude_modules = o.n_layers_to_transform = 0;
    return o;
}

static bool add(loading *l, bool is_trainable)
{
    const char **paths = br_calloc((size_t)l->targets.count, sizeof *paths);
    bool ok = paths && convert_all(l);
    if (ok) {
        bool skipped = br_skip_init(true); /* the values are about to be replaced */
        br_lora_options o = final_options(l, paths);
        o.init_lora_weights = BR_LORA_INIT_FALSE;
        ok = br__lora_add_to(l->model, &o, &l->targets);
        br_skip_init(skipped);
        br_lora_set *set = br__lora_set_of(l->model->state);
        if (ok) /* for br_lora_save() */
            br__lora_adapter(set, o.adapter_name)->options.init_lora_weights =
                l->config.options.init_lora_weights;
    }
    if (ok)
        assign_all(l, is_trainable);
    br_free(paths);
    return ok;
}

/* ---- Loading --------------------------------------------------------------------------------- */

static bool load(loading *l, const char *dir, const br_lora_load_options *o)
{
    if (!br__lora_config_read(&l->config, op, dir))
        return false;
    l->config.options.adapter_name = o->adapter_name;
    if (!br__lora_check(l->model, &l->config.options))
        return false;
    l->path = br_format("%s/%s", dir, file_name);
    l->file = l->path ? br_safetensors_open(l->path, NULL) : NULL;
    l->state = l->file ? br_state_dict(l->model) : NULL;
    if (l->state)
        drop_unknown_saved(l);
    return l->state && use_keys(l) && check(l) && add(l, o->is_trainable);
}

bool br_lora_load(const char *dir, br_module *model, const br_lora_load_options *options)
{
    const br_lora_load_options *o = BR_OPTIONS_OF(op, br_lora_load, options);
    if (!br__required(op, "dir", dir) || !br_module_is_usable(op, model))
        return false;
    loading l = { .model = model };
    br_scope *scope = br_no_grad_begin();
    bool ok = load(&l, dir, o);
    br_scope_end(scope);
    br__lora_config_close(&l.config);
    br__lora_targets_free(&l.targets);
    br_named_list_free(l.state);
    br_safetensors_close(l.file);
    br_free(l.values);
    br_free(l.own);
    br_free(l.path);
    return ok;
}
