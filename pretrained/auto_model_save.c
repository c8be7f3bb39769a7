/* pretrained/auto_model_save.c - AutoModel: writes a module as a folder that transformers loads.
 *
 * The configuration is read from another folder. The keys that the module decides are
 * changed. It is checked by making a second module from it, whose weights need no memory because
 * nothing writes them, and comparing both. */
#include "nn/nn_internal.h"
#include "pretrained/auto_config_internal.h"
#include "pretrained/auto_model_internal.h"

#include <brasa/pretrained.h>

#include <dirent.h>
#include <errno.h>
#include <fnmatch.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

BR_DEFINE_DEFAULTS(br_auto_model_save)

static const char op[] = "auto_model_save";
static const char weights_name[] = "model.safetensors";
static const char shard_pattern[] =
    "model-[0-9][0-9][0-9][0-9][0-9]-of-[0-9][0-9][0-9][0-9][0-9].safetensors";

/* Copied if the folder has them. */
static const char *const copied_files[] = { "generation_config.json",
                                            /* the tokenizer */
                                            "tokenizer*.json", "special_tokens_map.json",
                                            "added_tokens.json", "vocab.txt", "vocab.json",
                                            "merges.txt", "*.model", "chat_template.*",
                                            /* sentence-transformers */
                                            "modules.json", "sentence_*_config.json",
                                            "config_sentence_transformers.json", NULL };
static const char *const all_files[] = { "*", NULL };
static const char *const templates[] = { "*.jinja", NULL };

typedef struct saving {
    const char *dir, *from, *overrides;
    br_module *module;
    const br_model_class *class;
    const br_model_family *family;
    br_auto_config *config; /* of the folder `from`; its file's object is edited */
    br_named_list *state;
    bool *is_copy; /* for each name of the state dict: the file does not need it */
} saving;

static bool refuse(const saving *s, const char *format, ...) BR_PRINTF(2, 3);
static bool refuse(const saving *s, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    br__refuse_file(op, br_auto_config_path(s->config), format, args);
    va_end(args);
    return false;
}

static const char remedy[] = "the option from must name the folder that the model was loaded from, "
                             "or another one with the model's configuration";

/* ---- The class and the source ---------------------------------------------------------------- */

static bool find_class(saving *s)
{
    const char *name = br_module_class(s->module);
    s->class = br__class_of_name(name, &s->family);
    if (s->class)
        return true;
    br__text known = { 0 };
    for (int i = 0; br_auto_model_class(i); i++)
        br__text_add(&known, "%s%s", i ? ", " : "", br_auto_model_class(i));
    if (!br_failed())
        br_fail(BR_ERROR_ARGUMENT, op,
                "the module's class is \"%s\", must be one of %s; br_model_save() writes the "
                "weights of any other module",
                br_printable(name), known.data);
    br_free(known.data);
    return false;
}

static bool read_config(saving *s)
{
    char *path = br_format("%s/config.json", s->from);
    if (path && access(path, F_OK) != 0)
        br__fail_file(BR_ERROR_IO, op, path, "does not exist: %s", remedy);
    else if (path)
        s->config = br_auto_config_load_with(path, s->overrides);
    br_free(path);
    if (!s->config)
        return false;
    const char *type = br_auto_config_model_type(s->config), *wanted = s->family->model_type;
    if (br__family_of_type(type) == s->family)
        return true;
    return refuse(s, "model_type is %s%s%s, but a %s needs \"%s\": %s", type ? "\"" : "",
                  type ? br_printable(type) : "missing", type ? "\"" : "", s->class->name, wanted,
                  remedy);
}

/* ---- Editing config.json --------------------------------------------------------------------- */

/* Sets a key and takes ownership of the value, which is NULL if its allocation failed. The key
 * keeps its place, or becomes the last. */
static bool set(saving *s, const char *key, json_t *value)
{
    if (json_object_set_new(s->config->file, key, value) == 0)
        return true;
    br__fail_file(BR_ERROR_MEMORY, op, br_auto_config_path(s->config),
                  "cannot allocate memory for %s", key);
    return false;
}

static bool has_key(const saving *s, const char *key)
{
    return json_object_get(s->config->file, key) != NULL;
}

static bool set_architectures(saving *s)
{
    json_t *list = json_array();
    if (list && json_array_append_new(list, json_string(s->class->name)) == 0)
        return set(s, "architectures", list);
    json_decref(list);
    return set(s, "architectures", NULL);
}

/* Sets the dtype to the dtype of the first floating-point weight, as transformers does, under the
 * name that the file has for it. */
static bool set_dtype(saving *s)
{
    const char *name = "float32";
    for (int64_t i = s->state->count - 1; i >= 0; i--)
        if (br_is_floating(s->state->items[i].tensor))
            name = br__dtypes[s->state->items[i].tensor->dtype].torch_name;
    bool old = has_key(s, "torch_dtype"), new = has_key(s, "dtype");
    return (!old || set(s, "torch_dtype", json_string(name))) &&
           ((old && !new) || set(s, "dtype", json_string(name)));
}

/* Returns the number of rows of the matrix of that name, with or without the prefix of the base
 * model, or -1 if there is none. */
static int64_t rows_of(const saving *s, const char *name)
{
    char *longer = br_format("%s%s", br__prefix(s->family), name);
    br_tensor *t = longer ? br_named_list_get(s->state, name) : NULL;
    if (longer && !t)
        t = br_named_list_get(s->state, longer);
    br_free(longer);
    return t && t->ndim == 2 ? t->sizes[0] : -1;
}

/* Sets the names of n labels, as transformers does when num_labels changes. */
static bool set_labels(saving *s, int64_t n)
{
    json_t *names = json_object(), *ids = json_object();
    bool ok = names && ids;
    for (int64_t i = 0; ok && i < n; i++) {
        char id[24], label[32];
        snprintf(id, sizeof id, "%" PRId64, i);
        snprintf(label, sizeof label, "LABEL_%" PRId64, i);
        ok = json_object_set_new(names, id, json_string(label)) == 0 &&
             json_object_set_new(ids, label, json_integer(i)) == 0;
    }
    ok = set(s, "id2label", ok ? json_incref(names) : NULL) && set(s, "label2id", json_incref(ids));
    json_decref(names);
    json_decref(ids);
    return ok && (!has_key(s, "num_labels") || set(s, "num_labels", json_integer(n)));
}

/* Sets a size that a program changes on purpose: with a new head, or with more tokens. */
static bool set_size(saving *s, const br_config_rows *row)
{
    int64_t rows = rows_of(s, row->weight);
    if (br_failed() || rows < 0)
        return !br_failed();
    if (rows == br_auto_config_size(s->config, row->key) || br_failed())
        return !br_failed();
    bool is_labels = strcmp(row->key, "num_labels") == 0;
    return is_labels ? set_labels(s, rows) : set(s, row->key, json_integer(rows));
}

static bool set_sizes(saving *s)
{
    for (const br_config_rows *row = s->family->rows; row && row->key; row++)
        if (!set_size(s, row))
            return false;
    return true;
}

static char *config_text(const saving *s)
{
    return br__json_text(op, br_auto_config_path(s->config), s->config->file);
}

/* ---- Checking the configuration -------------------------------------------------------------- */

/* Returns a module of the class that the edited configuration describes, or NULL and an error. */
static br_module *make_described(const saving *s)
{
    char *text = config_text(s);
    br_auto_config *edited = text ? br__config_parse(br_auto_config_path(s->config), text) : NULL;
    br_free(text);
    br_module *module = NULL;
    if (edited && br__check_layers(op, edited, s->family, s->state->count, "the model has"))
        module = br__make_model(s->class, edited);
    br_auto_config_free(edited);
    if (!br_failed())
        return module;
    br_module_free(module);
    return NULL;
}

static bool check_weight(const saving *s, const br_named_tensor *described)
{
    const br_tensor *own = br_named_list_get(s->state, described->name);
    if (!own)
        return refuse(s, "describes a %s with a weight %s, which the model does not have: %s",
                      s->class->name, described->name, remedy);
    return br_same_shape(own, described->tensor) ||
           refuse(s, "describes a %s whose %s is %s, but the model's is %s: %s", s->class->name,
                  described->name, br__shape(described->tensor), br__shape(own), remedy);
}

static bool check_weights(const saving *s, const br_named_list *described)
{
    for (int64_t i = 0; i < described->count; i++)
        if (!check_weight(s, &described->items[i]))
            return false;
    for (int64_t i = 0; i < s->state->count; i++)
        if (!br_named_list_get(described, s->state->items[i].name))
            return refuse(s,
                          "describes a %s without the model's %s: %s; parametrizations and "
                          "layers that were added must be removed before the model is saved",
                          s->class->name, br_printable(s->state->items[i].name), remedy);
    return !br_failed();
}

static bool check_values(const saving *s, br_module *described)
{
    const char *key =
        s->family->differing_key ? s->family->differing_key(s->module, described) : NULL;
    if (br_failed())
        return false;
    return !key || refuse(s, "%s has another value than the model was made with: %s", key, remedy);
}

/* ---- Tied weights ---------------------------------------------------------------------------- */

/* Returns the first of the names of entry i's tensor, as an index, which is i if there is only one.
 */
static int64_t first_name(const br_named_list *list, int64_t i)
{
    int64_t first = 0;
    while (list->items[first].tensor != list->items[i].tensor)
        first++;
    return first;
}

/* Finds the names that the class ties and whose weights are tied in the model. Stores whether the
 * class ties any, and whether all of these are tied. */
static void find_ties(saving *s, const br_named_list *described, bool *any, bool *all)
{
    *any = false;
    *all = true;
    for (int64_t i = 0; i < described->count; i++) {
        int64_t first = first_name(described, i);
        if (first == i)
            continue;
        *any = true;
        int64_t own = br__named_list_find(s->state, described->items[i].name, 0);
        s->is_copy[own] = s->state->items[own].tensor ==
                          br_named_list_get(s->state, described->items[first].name);
        *all &= s->is_copy[own];
    }
}

/* Returns true if tie_word_embeddings decides which weights are tied. */
static bool has_tie_key(const saving *s)
{
    return !s->family->always_ties && (br_auto_config_has(s->config, "tie_word_embeddings") ||
                                       br_auto_config_is_null(s->config, "tie_word_embeddings"));
}

/* Makes tie_word_embeddings agree with the model. If it is false, transformers ties nothing, and
 * the file must have every name. */
static bool settle_ties(saving *s, const br_named_list *described, bool was_tied)
{
    bool any, all;
    find_ties(s, described, &any, &all);
    if (!has_tie_key(s))
        return true;
    bool tied = any ? all : was_tied;
    if (!tied)
        memset(s->is_copy, 0, (size_t)s->state->count * sizeof *s->is_copy);
    return tied || set(s, "tie_word_embeddings", json_false());
}

/* ---- Configuration --------------------------------------------------------------------------- */

static bool compare(saving *s, br_module *described, bool was_tied)
{
    br_named_list *list = described ? br_state_dict(described) : NULL;
    bool ok = list && check_weights(s, list) && check_values(s, described) &&
              settle_ties(s, list, was_tied);
    br_named_list_free(list);
    return ok;
}

/* Edits the configuration and checks that it describes the model. */
static bool settle_config(saving *s)
{
    bool was_tied = !has_tie_key(s) || br_auto_config_bool(s->config, "tie_word_embeddings");
    if (br_failed() || !set_sizes(s) || !set_architectures(s) || !set_dtype(s))
        return false;
    /* The described module must show which names the class can tie. */
    if (!was_tied && !set(s, "tie_word_embeddings", json_true()))
        return false;
    br_module *described = make_described(s);
    bool ok = compare(s, described, was_tied);
    br_module_free(described);
    return ok;
}

/* ---- sentence-transformers ------------------------------------------------------------------- */

/* Returns true if a module of sentence-transformers is the model itself. */
static bool is_transformer(const json_t *entry)
{
    const char *type = json_string_value(json_object_get(entry, "type"));
    const char *dot = type ? strrchr(type, '.') : NULL;
    return dot && strcmp(dot, ".Transformer") == 0;
}

static bool copy_module(const saving *s, br_folder_writer *w, const char *list, size_t i,
                        const json_t *entry)
{
    const json_t *value = json_object_get(entry, "path");
    const char *path = json_string_value(value);
    if (is_transformer(entry) || (path && !*path))
        return true;
    char *inner = br__inner_path(value);
    bool ok = inner && br__writer_add_copies(w, s->from, inner, all_files);
    if (!inner && !br_failed())
        br__fail_file(BR_ERROR_FORMAT, op, list,
                      "the path of module %zu is %s%s%s, must be a folder in the model's folder", i,
                      path ? "\"" : "", path ? br_printable(path) : "not a string",
                      path ? "\"" : "");
    br_free(inner);
    return ok;
}

/* Copies the folders that modules.json lists. */
static bool copy_modules(const saving *s, br_folder_writer *w)
{
    enum { MAX_BYTES = 4 << 20 };
    char *path = br_format("%s/modules.json", s->from);
    if (!path || access(path, F_OK) != 0) {
        br_free(path);
        return !br_failed();
    }
    json_t *list = br__json_read_file(op, path, MAX_BYTES, false);
    bool ok = json_is_array(list);
    if (list && !ok)
        br__fail_file(BR_ERROR_FORMAT, op, path, "must contain a list of modules");
    for (size_t i = 0; ok && i < json_array_size(list); i++)
        ok = copy_module(s, w, path, i, json_array_get(list, i));
    json_decref(list);
    br_free(path);
    return ok;
}

/* ---- Files ----------------------------------------------------------------------------------- */

/* Adds the weights in the layout of files, with the keys that files have for them. */
static bool add_weights(const saving *s, br_folder_writer *w)
{
    br_scope *scope = br_no_grad_begin();
    br_named_list *keys = br__file_keys(&s->family->keys, false, s->state);
    br_named_list list = { 0, br_calloc((size_t)s->state->count, sizeof *list.items) };
    for (int64_t i = 0; keys && list.items && i < s->state->count; i++) {
        const br_named_tensor *own = &s->state->items[i];
        bool swaps = br__is_transposed(&s->family->keys, own);
        if (!s->is_copy[i])
            list.items[list.count++] =
                (br_named_tensor){ keys->items[i].name,
                                   swaps ? br_contiguous(br_t(own->tensor)) : own->tensor };
    }
    bool ok = keys && list.items && !br_failed() && br__writer_add_weights(w, weights_name, &list);
    br_free(list.items);
    br_named_list_free(keys);
    br_scope_end(scope);
    return ok;
}

static bool add_config(const saving *s, br_folder_writer *w)
{
    char *text = config_text(s), *lines = text ? br_format("%s\n", text) : NULL;
    bool ok = lines && br__writer_add_text(w, "config.json", lines);
    br_free(lines);
    br_free(text);
    return ok;
}

/* Removes the shards of earlier weights and their index, which nothing reads any more. */
static bool remove_shards(const saving *s, DIR *dir)
{
    for (struct dirent *e; (e = readdir(dir));) {
        bool is_index = strcmp(e->d_name, "model.safetensors.index.json") == 0;
        bool is_shard = fnmatch(shard_pattern, e->d_name, 0) == 0;
        if ((!is_index && !is_shard) || unlinkat(dirfd(dir), e->d_name, 0) == 0)
            continue;
        br__fail_file(BR_ERROR_IO, op, s->dir,
                      "the model was saved, but %s, which is not read any more, cannot be removed: "
                      "%s",
                      br_printable(e->d_name), strerror(errno));
        return false;
    }
    return true;
}

/* Adds the files. The weights come first and config.json last, because a folder is a model only if
 * it has a config.json: a new folder becomes a model when it is complete. */
static bool add_files(const saving *s, br_folder_writer *w)
{
    return add_weights(s, w) && br__writer_add_copies(w, s->from, "", copied_files) &&
           br__writer_add_copies(w, s->from, "additional_chat_templates", templates) &&
           copy_modules(s, w) && add_config(s, w);
}

static bool write_folder(const saving *s)
{
    br_folder_writer w;
    DIR *dir = NULL; /* opened before the first file is replaced, so that this cannot fail then */
    bool ok = br__writer_begin(&w, op, s->dir);
    if (ok && !(dir = opendir(s->dir)))
        br__fail_file(errno == ENOMEM ? BR_ERROR_MEMORY : BR_ERROR_IO, op, s->dir,
                      "cannot be opened: %s", strerror(errno));
    ok = dir && add_files(s, &w) && br__writer_commit(&w) && remove_shards(s, dir);
    br__writer_end(&w);
    if (dir)
        closedir(dir);
    return ok;
}

bool br_auto_model_save(const char *dir, br_module *model,
                        const br_auto_model_save_options *options)
{
    options = BR_OPTIONS_OF(op, br_auto_model_save, options);
    if (!br__required(op, "dir", dir) || !br_module_is_usable(op, model))
        return false;
    saving s = { .dir = dir,
                 .from = options->from ? options->from : dir,
                 .overrides = options->overrides,
                 .module = model };
    if (!*dir)
        br_fail(BR_ERROR_ARGUMENT, op, "dir is \"\", must be a path; the current folder is \".\"");
    if (!br_failed() && br_lora_num_adapters(model) > 0)
        br_fail(BR_ERROR_STATE, op,
                "the %s has adapters: save them by br_lora_save(), or call "
                "br_lora_merge_and_unload() first",
                br_module_class(model));
    if (!br_failed() && find_class(&s) && read_config(&s))
        s.state = br_state_dict(model);
    if (s.state)
        s.is_copy = br_calloc((size_t)s.state->count, sizeof *s.is_copy);
    bool ok = s.is_copy && settle_config(&s) && write_folder(&s);
    br_free(s.is_copy);
    br_named_list_free(s.state);
    br_auto_config_free(s.config);
    return ok;
}
