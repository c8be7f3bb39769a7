/* pretrained/lora_save.c - saves an adapter as a folder that peft loads. */
#include "pretrained/lora_folder_internal.h"

#include <string.h>

static const char op[] = "lora_save";

/* The tensors of an adapter, with the names of files. */
typedef struct saving {
    br_module *model;
    const br_lora_adapter *adapter;
    bool is_active;
    br_named_list *state; /* of the model */
    br_named_list *list;
} saving;

/* Adds a tensor of the module at a path of the model. */
static bool add(saving *s, const char *path, const char *end, br_tensor *t)
{
    char *own = t ? br__lora_file_path(s->model, path) : NULL;
    char *key = own ? br_format("%s%s%s", BR_LORA_KEY_PREFIX, own, end) : NULL;
    bool ok = !t || (key && br__named_list_add(s->list, key, t));
    br_free(own);
    br_free(key);
    return ok;
}

static bool add_layer(br_module_state *layer, void *context)
{
    saving *s = context;
    const br_lora_layer *lora = br__lora_layer_of(layer);
    const br_lora_part *part = br__lora_part(lora, s->adapter->options.adapter_name);
    if (!part)
        return true;
    char *path = br__lora_path_in(s->model, layer->module);
    bool is_embedding = lora->kind->family == BR_LORA_EMBEDDING;
    bool ok = path &&
              add(s, path, is_embedding ? ".lora_embedding_A" : ".lora_A.weight", part->a) &&
              add(s, path, is_embedding ? ".lora_embedding_B" : ".lora_B.weight", part->b) &&
              add(s, path, ".lora_magnitude_vector", part->magnitude);
    if (ok && s->adapter->options.bias != BR_LORA_BIAS_NONE)
        ok = add(s, path, ".base_layer.bias", br__lora_tensor(layer, "bias"));
    br_free(path);
    return ok;
}

/* Returns true if the tensor of that name is in a layer with the adapter. */
static bool is_in_layer(const saving *s, const char *path)
{
    br_module *module = *path ? br_module_find(s->model, path) : s->model;
    return module &&
           br__lora_part(br__lora_layer_of(module->state), s->adapter->options.adapter_name);
}

/* Adds the biases outside of the adapter's layers, for bias = "all". */
static bool add_bias(saving *s, const br_named_tensor *item)
{
    int length = br__before_end(item->name, ".bias");
    char *path = length >= 0 ? br_format("%.*s", length, item->name) : NULL;
    bool ok = length < 0 ||
              (path && (is_in_layer(s, path) || br__lora_is_saved(&s->adapter->options, path) ||
                        add(s, path, ".bias", item->tensor)));
    br_free(path);
    return ok;
}

/* Adds a tensor of a saved module. */
static bool add_saved(saving *s, const br_lora_saved *saved)
{
    for (int64_t i = 0; i < s->state->count; i++)
        if (s->state->items[i].tensor == saved->own)
            return add(s, s->state->items[i].name, "", s->is_active ? saved->own : saved->other);
    return true; /* its module was freed */
}

static bool list_tensors(saving *s)
{
    const br_lora_adapter *adapter = s->adapter;
    bool ok = s->state && s->list && br__lora_each_layer(s->model->state, add_layer, s);
    for (int64_t i = 0; ok && i < adapter->n_saved; i++)
        ok = add_saved(s, &adapter->saved[i]);
    for (int64_t i = 0; ok && i < s->state->count && adapter->options.bias == BR_LORA_BIAS_ALL; i++)
        ok = add_bias(s, &s->state->items[i]);
    return ok;
}

static bool write_folder(const saving *s, const char *dir, const br_lora_save_options *o)
{
    br_folder_writer w;
    char *text = br__lora_config_text(op, s->model, s->adapter, o);
    char *lines = text ? br_format("%s\n", text) : NULL;
    bool ok = br__writer_begin(&w, op, dir) && lines &&
              br__writer_add_weights(&w, "adapter_model.safetensors", s->list) &&
              br__writer_add_text(&w, "adapter_config.json", lines) && br__writer_commit(&w);
    br__writer_end(&w);
    br_free(lines);
    br_free(text);
    return ok;
}

/* Returns the adapter to save, or NULL and an error. */
static const br_lora_adapter *adapter_of(const br_module *model, const char *name)
{
    const br_lora_set *set = br__lora_set_of(model->state);
    const br_lora_adapter *found = name ? br__lora_adapter(set, name) : set ? set->active : NULL;
    if (found)
        return found;
    if (!set)
        return br_fail(BR_ERROR_STATE, op, "%s has no adapters: call br_lora_add() first",
                       br_module_class(model));
    return name ? br_fail(BR_ERROR_ARGUMENT, op, "%s has no adapter named '%s'",
                          br_module_class(model), br_printable(name))
                : br_fail(BR_ERROR_STATE, op, "no adapter is active: set adapter_name");
}

bool br_lora_save(const char *dir, br_module *model, const br_lora_save_options *options)
{
    const br_lora_save_options *o = BR_OPTIONS_OF(op, br_lora_save, options);
    if (!br__required(op, "dir", dir) || !br_module_is_usable(op, model))
        return false;
    if (!*dir)
        return br_fail(BR_ERROR_ARGUMENT, op,
                       "dir is \"\", must be a path; the current folder is \".\"");
    saving s = { .model = model, .adapter = adapter_of(model, o->adapter_name) };
    if (!s.adapter)
        return false;
    s.is_active = br__lora_set_of(model->state)->active == s.adapter;
    s.state = br_state_dict(model);
    s.list = s.state ? br__named_list_new(false) : NULL;
    bool ok = list_tensors(&s) && write_folder(&s, dir, o);
    br_named_list_free(s.list);
    br_named_list_free(s.state);
    return ok;
}
