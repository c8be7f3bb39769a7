/* pretrained/lora_config.c - adapter_config.json of peft's folders. */
#include "pretrained/lora_folder_internal.h"

#include <math.h>
#include <string.h>

BR_DEFINE_DEFAULTS(br_lora_load)
BR_DEFINE_DEFAULTS(br_lora_save)

/* ---- Names of modules ------------------------------------------------------------------------ */

br_key_map br__lora_key_map(const br_module *model)
{
    const br_model_family *family = NULL;
    br__class_of_name(br_module_class(model), &family);
    return family ? family->keys : (br_key_map){ 0 };
}

char *br__lora_file_path(const br_module *model, const char *path)
{
    br_key_map map = br__lora_key_map(model);
    br_named_tensor item = { (char *)path, NULL };
    br_named_list one = { 1, &item };
    br_named_list *keys = br__file_keys(&map, false, &one);
    char *key = keys ? br_strdup(keys->items[0].name) : NULL;
    br_named_list_free(keys);
    return key;
}

/* ---- Reading: values ------------------------------------------------------------------------- */

/* The keys that br__lora_config_read() reads. */
static const char *const read_keys[] = { "alpha_pattern",
                                         "bias",
                                         "exclude_modules",
                                         "init_lora_weights",
                                         "lora_alpha",
                                         "lora_dropout",
                                         "peft_type",
                                         "modules_to_save",
                                         "layers_to_transform",
                                         "layers_pattern",
                                         "r",
                                         "rank_pattern",
                                         "target_modules",
                                         "use_dora",
                                         "use_rslora",
                                         NULL };
/* Keys that do not change the results of an adapter whose weights are given. */
static const char *const harmless_keys[] = { "auto_mapping",      "base_model_name_or_path",
                                             "corda_config",      "eva_config",
                                             "fan_in_fan_out",    "inference_mode",
                                             "loftq_config",      "lora_ga_config",
                                             "megatron_core",     "peft_version",
                                             "qalora_group_size", "revision",
                                             "task_type",         "ensure_weight_tying",
                                             "runtime_config",    NULL };

static bool is_in(const char *const *list, const char *key)
{
    while (*list && strcmp(*list, key) != 0)
        list++;
    return *list != NULL;
}

/* Returns true if the value is what peft writes for a feature that is off. */
static bool is_off(const json_t *value)
{
    return json_is_null(value) || json_is_false(value) ||
           (json_is_object(value) && json_object_size(value) == 0) ||
           (json_is_array(value) && json_array_size(value) == 0);
}

static bool check_keys(const br_lora_config *c)
{
    const char *key;
    json_t *value;
    json_object_foreach(c->file.value, key, value)
    {
        if (!is_in(read_keys, key) && !is_in(harmless_keys, key) && !is_off(value))
            return br__model_json_refuse_value(&c->file, br_printable(key), value,
                                               "null, because Brasa does not support it");
    }
    return true;
}

static bool read_number(const br_lora_config *c, const char *key, double *number)
{
    json_t *value = br__model_json_get(&c->file, key);
    if (!value)
        return true;
    *number = json_number_value(value);
    return json_is_number(value) || br__model_json_refuse_value(&c->file, key, value, "a number");
}

static bool read_r(br_lora_config *c)
{
    json_t *value = br__model_json_get(&c->file, "r");
    if (!value)
        return true;
    c->options.r = json_integer_value(value);
    return (json_is_integer(value) && c->options.r >= 1) ||
           br__model_json_refuse_value(&c->file, "r", value, "an integer of at least 1");
}

/* Reads a list of names, or a single one. */
static bool read_names(const br_lora_config *c, const char *key, int64_t *n,
                       const char *const **names)
{
    json_t *value = br__model_json_get(&c->file, key);
    bool is_one = json_is_string(value);
    size_t count = is_one ? 1 : json_array_size(value);
    if (!value || (json_is_array(value) && count == 0))
        return true;
    const char **list = br_calloc(count + 1, sizeof *list);
    if (!list)
        return false;
    *names = list;
    *n = (int64_t)count;
    bool ok = is_one || json_is_array(value);
    for (size_t i = 0; ok && i < count; i++) {
        list[i] = json_string_value(is_one ? value : json_array_get(value, i));
        ok = list[i] != NULL;
    }
    return ok || br__model_json_refuse_value(&c->file, key, value, "a list of names");
}

static bool read_patterns(const br_lora_config *c, const char *key, int64_t *n,
                          const br_lora_pattern **patterns)
{
    json_t *value = br__model_json_get(&c->file, key), *item;
    if (!value || (json_is_object(value) && json_object_size(value) == 0))
        return true;
    if (!json_is_object(value))
        return br__model_json_refuse_value(&c->file, key, value, "an object");
    br_lora_pattern *list = br_calloc(json_object_size(value), sizeof *list);
    if (!list)
        return false;
    *patterns = list;
    const char *name;
    json_object_foreach(value, name, item)
    {
        if (!json_is_number(item) || strpbrk(name, "*+?[](){}|^$\\"))
            return br__model_json_refuse_value(
                &c->file, key, value, "an object of numbers whose keys are names, not patterns");
        list[(*n)++] = (br_lora_pattern){ name, json_number_value(item) };
    }
    return true;
}

static bool read_layers(br_lora_config *c)
{
    json_t *value = br__model_json_get(&c->file, "layers_to_transform");
    bool is_one = json_is_integer(value);
    size_t count = is_one ? 1 : json_array_size(value);
    if (!value || (json_is_array(value) && count == 0))
        return true;
    int64_t *layers = br_calloc(count + 1, sizeof *layers);
    if (!layers)
        return false;
    c->options.layers_to_transform = layers;
    c->options.n_layers_to_transform = (int64_t)count;
    bool ok = is_one || json_is_array(value);
    for (size_t i = 0; ok && i < count; i++) {
        json_t *item = is_one ? value : json_array_get(value, i);
        layers[i] = json_integer_value(item);
        ok = json_is_integer(item);
    }
    return ok || br__model_json_refuse_value(&c->file, "layers_to_transform", value,
                                             "a list of integers");
}

/* ---- Reading: choices ------------------------------------------------------------------------ */

static const char *const biases[] = { "none", "all", "lora_only" };

static bool read_bias(br_lora_config *c)
{
    json_t *value = br__model_json_get(&c->file, "bias");
    const char *name = json_string_value(value);
    if (!value)
        return true;
    for (int i = 0; name && i < 3; i++)
        if (strcmp(name, biases[i]) == 0) {
            c->options.bias = (br_lora_bias)i;
            return true;
        }
    return br__model_json_refuse_value(&c->file, "bias", value,
                                       "\"none\", \"all\" or \"lora_only\"");
}

static bool check_type(const br_lora_config *c)
{
    json_t *value = json_object_get(c->file.value, "peft_type");
    const char *name = json_string_value(value);
    return (name && strcmp(name, "LORA") == 0) ||
           br__model_json_refuse_value(&c->file, "peft_type", value, "\"LORA\"");
}

/* Other initial values, such as "pissa", come with another base model. */
static bool read_init(br_lora_config *c)
{
    json_t *value = br__model_json_get(&c->file, "init_lora_weights");
    static const char *const names[] = { "gaussian", "eva", "orthogonal", "loftq", NULL };
    const char *name = json_string_value(value);
    if (name && strcmp(name, "gaussian") == 0)
        c->options.init_lora_weights = BR_LORA_INIT_GAUSSIAN;
    else if (json_is_false(value))
        c->options.init_lora_weights = BR_LORA_INIT_FALSE;
    return !value || json_is_boolean(value) || (name && is_in(names, name)) ||
           br__model_json_refuse_value(
               &c->file, "init_lora_weights", value,
               "true, false, \"gaussian\", \"eva\", \"orthogonal\" or \"loftq\": save the adapter "
               "with peft's path_initial_model_for_weight_conversion to make it independent of "
               "the initial weights");
}

static bool read_values(br_lora_config *c)
{
    br_lora_options *o = &c->options;
    return check_type(c) && check_keys(c) && read_r(c) &&
           read_number(c, "lora_alpha", &o->lora_alpha) &&
           read_number(c, "lora_dropout", &o->lora_dropout) &&
           br__model_json_flag(&c->file, "use_rslora", &o->use_rslora) &&
           br__model_json_flag(&c->file, "use_dora", &o->use_dora) && read_bias(c) && read_init(c);
}

static bool read_lists(br_lora_config *c)
{
    br_lora_options *o = &c->options;
    c->lists_targets = json_is_array(json_object_get(c->file.value, "target_modules")) &&
                       !br__model_json_get(&c->file, "layers_pattern") &&
                       !json_is_string(json_object_get(c->file.value, "exclude_modules"));
    return read_names(c, "target_modules", &o->n_target_modules, &o->target_modules) &&
           read_names(c, "exclude_modules", &o->n_exclude_modules, &o->exclude_modules) &&
           read_names(c, "modules_to_save", &o->n_modules_to_save, &o->modules_to_save) &&
           read_patterns(c, "rank_pattern", &o->n_rank_pattern, &o->rank_pattern) &&
           read_patterns(c, "alpha_pattern", &o->n_alpha_pattern, &o->alpha_pattern) &&
           read_layers(c);
}

bool br__lora_config_read(br_lora_config *c, const char *op, const char *dir)
{
    *c = (br_lora_config){ .options = br_lora_defaults() };
    return br__model_json_open(op, &c->file, dir, "adapter_config.json", JSON_OBJECT, true) &&
           read_values(c) && read_lists(c);
}

void br__lora_config_close(br_lora_config *c)
{
    br_free((const char **)c->options.target_modules);
    br_free((const char **)c->options.exclude_modules);
    br_free((const char **)c->options.modules_to_save);
    br_free((br_lora_pattern *)c->options.rank_pattern);
    br_free((br_lora_pattern *)c->options.alpha_pattern);
    br_free((int64_t *)c->options.layers_to_transform);
    br__model_json_close(&c->file);
}

/* ---- Writing --------------------------------------------------------------------------------- */

/* The layers of an adapter, as the configuration lists them. */
typedef struct listing {
    const char *op;
    br_module *model;
    const br_lora_adapter *adapter;
    json_t *paths, *ranks, *alphas;
    bool is_transposed; /* a layer is a Conv1D */
} listing;

static json_t *number_of(double x)
{
    return x == floor(x) && fabs(x) < 1e15 ? json_integer((json_int_t)x) : json_real(x);
}

static bool list_layer(br_module_state *layer, void *context)
{
    listing *l = context;
    const br_lora_options *o = &l->adapter->options;
    const br_lora_part *part = br__lora_part(br__lora_layer_of(layer), o->adapter_name);
    if (!part)
        return true;
    char *own = br__lora_path_in(l->model, layer->module);
    char *path = own ? br__lora_file_path(l->model, own) : NULL;
    bool ok = path && json_array_append_new(l->paths, json_string(path)) == 0;
    if (ok && part->r != o->r)
        ok = json_object_set_new(l->ranks, path, json_integer(part->r)) == 0;
    if (ok && part->alpha != o->lora_alpha)
        ok = json_object_set_new(l->alphas, path, number_of(part->alpha)) == 0;
    l->is_transposed |= strcmp(layer->class_name, "Conv1D") == 0;
    br_free(own);
    br_free(path);
    return ok;
}

/* Returns the names as a list, or null if there are none. */
static json_t *names_of(int64_t n, const char *const *names)
{
    json_t *list = n > 0 ? json_array() : json_null();
    for (int64_t i = 0; i < n; i++)
        if (json_array_append_new(list, json_string(names[i])) != 0) {
            json_decref(list);
            return NULL;
        }
    return list;
}

/* Returns true if peft understands the names as Brasa does, and files have the same ones. */
static bool are_plain(const br_module *model, int64_t n, const char *const *names)
{
    bool plain = !br__lora_key_map(model).renames;
    for (int64_t i = 0; i < n && plain; i++)
        plain = !strpbrk(names[i], "*?[") && strcmp(names[i], "all-linear") != 0;
    return plain;
}

static json_t *text_of(const char *text)
{
    return text ? json_string(text) : json_null();
}

static json_t *layers_of(const br_lora_options *o)
{
    json_t *list = o->n_layers_to_transform > 0 ? json_array() : json_null();
    for (int64_t i = 0; i < o->n_layers_to_transform; i++)
        json_array_append_new(list, json_integer(o->layers_to_transform[i]));
    return list;
}

static json_t *init_of(br_lora_init init)
{
    return init == BR_LORA_INIT_GAUSSIAN ? json_string("gaussian")
                                         : json_boolean(init == BR_LORA_INIT_TRUE);
}

/* Sets a key. Takes over the value, which is NULL if allocation failed. */
static void put(json_t *config, bool *ok, const char *key, json_t *value)
{
    *ok &= json_object_set_new(config, key, value) == 0;
}

/* Sets the keys that name modules. */
static void put_names(json_t *config, bool *ok, const listing *l)
{
    const br_lora_options *o = &l->adapter->options;
    bool plain = are_plain(l->model, o->n_target_modules, o->target_modules) &&
                 are_plain(l->model, o->n_exclude_modules, o->exclude_modules);
    put(config, ok, "alpha_pattern", json_incref(l->alphas));
    put(config, ok, "exclude_modules",
        names_of(plain ? o->n_exclude_modules : 0, o->exclude_modules));
    put(config, ok, "layers_to_transform", plain ? layers_of(o) : json_null());
    put(config, ok, "modules_to_save", names_of(o->n_modules_to_save, o->modules_to_save));
    put(config, ok, "rank_pattern", json_incref(l->ranks));
    put(config, ok, "target_modules",
        plain ? names_of(o->n_target_modules, o->target_modules) : json_incref(l->paths));
}

static json_t *config_of(const listing *l, const br_lora_save_options *save)
{
    const br_lora_options *o = &l->adapter->options;
    json_t *config = json_object();
    bool ok = config != NULL;
    put(config, &ok, "auto_mapping", json_null());
    put(config, &ok, "base_model_name_or_path", text_of(save->base_model_name_or_path));
    put(config, &ok, "bias", json_string(biases[o->bias]));
    put(config, &ok, "fan_in_fan_out", json_boolean(l->is_transposed));
    put(config, &ok, "inference_mode", json_true());
    put(config, &ok, "init_lora_weights", init_of(o->init_lora_weights));
    put(config, &ok, "lora_alpha", number_of(o->lora_alpha));
    put(config, &ok, "lora_dropout", json_real(o->lora_dropout));
    put(config, &ok, "peft_type", json_string("LORA"));
    put(config, &ok, "r", json_integer((json_int_t)o->r));
    put(config, &ok, "task_type", text_of(save->task_type));
    put(config, &ok, "use_dora", json_boolean(o->use_dora));
    put(config, &ok, "use_rslora", json_boolean(o->use_rslora));
    put_names(config, &ok, l);
    if (ok)
        return config;
    json_decref(config);
    return NULL;
}

char *br__lora_config_text(const char *op, br_module *model, const br_lora_adapter *adapter,
                           const br_lora_save_options *save)
{
    listing l = { op, model, adapter, json_array(), json_object(), json_object(), false };
    bool ok = br__lora_each_layer(model->state, list_layer, &l);
    json_t *config = ok ? config_of(&l, save) : NULL;
    char *text = config ? br__json_text(op, "adapter_config.json", config) : NULL;
    if (!config && !br_failed())
        br_fail(BR_ERROR_MEMORY, op, "cannot allocate memory for adapter_config.json");
    json_decref(config);
    json_decref(l.paths);
    json_decref(l.ranks);
    json_decref(l.alphas);
    return text;
}
