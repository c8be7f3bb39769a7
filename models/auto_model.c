/* models/auto_model.c - AutoModel: the class a folder wants, made and given the folder's weights.
 *
 * All keys are matched and checked before the first weight takes its place. A weight's tensor keeps
 * its identity and trades its memory for the file's, so that fields and ties stay as they are. */
#include "models/auto_model_internal.h"
#include "nn/nn_internal.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const char op[] = "auto_model";

static const br_model_family *const families[] = { &br__hf_bert_family, &br__gpt2_family,
                                                   &br__t5_family };
enum { N_FAMILIES = sizeof families / sizeof *families };

/* ---- The class ------------------------------------------------------------------------------- */

const char *br_auto_model_class(int i)
{
    for (int f = 0; f < N_FAMILIES && i >= 0; f++)
        for (const br_model_class *c = families[f]->classes; c->name; c++)
            if (i-- == 0)
                return c->name;
    return NULL;
}

static const br_model_family *find_family(const br_auto_config *config)
{
    const char *type = br_auto_config_model_type(config);
    br_text known = { 0 };
    for (int f = 0; f < N_FAMILIES; f++) {
        if (type && strcmp(families[f]->model_type, type) == 0) {
            br_free(known.data);
            return families[f];
        }
        br__text_add(&known, "%s\"%s\"", f ? ", " : "", families[f]->model_type);
    }
    if (known.data && !br_failed())
        br__fail(BR_ERROR_FORMAT, op, "%s: model_type is %s%s%s, must be one of %s",
                 br__printable(br_auto_config_path(config)), type ? "\"" : "",
                 type ? br__printable(type) : "missing", type ? "\"" : "", known.data);
    br_free(known.data);
    return NULL;
}

/* The class of that name; NULL and an error that lists those there are. */
static const br_model_class *class_named(const br_auto_config *config,
                                         const br_model_family *family, const char *name,
                                         const char *source)
{
    br_text known = { 0 };
    for (const br_model_class *c = family->classes; c->name; c++) {
        if (strcmp(c->name, name) == 0) {
            br_free(known.data);
            return c;
        }
        br__text_add(&known, "%s%s", c == family->classes ? "" : ", ", c->name);
    }
    if (known.data && !br_failed())
        br__fail(BR_ERROR_ARGUMENT, op, "%s: %s is \"%s\", must be one of %s",
                 br__printable(br_auto_config_path(config)), source, br__printable(name),
                 known.data);
    br_free(known.data);
    return NULL;
}

static const br_model_class *find_class(const br_auto_config *config, const br_model_family *family,
                                        const char *wanted)
{
    if (wanted)
        return class_named(config, family, wanted, "class_name");
    int64_t n = br_auto_config_list_size(config, "architectures");
    if (n <= 0)
        return n == 0 ? family->classes : NULL;
    const char *name = br_auto_config_list_string(config, "architectures", 0);
    return name ? class_named(config, family, name, "architectures[0]") : NULL;
}

/* ---- A loading ------------------------------------------------------------------------------- */

/* A weight of the model under one of its names. */
typedef struct place {
    const char *name;
    br_tensor *own;
    const br_weight_key *key; /* what it gets; NULL: nothing under this name */
} place;

typedef struct loading {
    const br_auto_config *config;
    const br_model_family *family;
    br_module *module;
    br_weight_files files;
    br_named_list *own;
    place *places; /* by name */
    bool all_missing;
    br_text converted, renamed, missing, unexpected, ignored;
    br_auto_model_report report;
} loading;

static bool add_name(br_text *text, int64_t *count, const char *name)
{
    return br__text_add(text, "%s%s", (*count)++ > 0 ? ", " : "", name);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const place *)a)->name, ((const place *)b)->name);
}

static bool list_places(loading *l)
{
    l->own = br_state_dict(l->module);
    l->places = l->own ? br__calloc((size_t)l->own->count, sizeof *l->places) : NULL;
    if (!l->places)
        return false;
    for (int64_t i = 0; i < l->own->count; i++)
        l->places[i] = (place){ l->own->items[i].name, l->own->items[i].tensor, NULL };
    qsort(l->places, (size_t)l->own->count, sizeof *l->places, by_name);
    return true;
}

/* ---- Names ----------------------------------------------------------------------------------- */

static place *find_place(const loading *l, const char *name)
{
    place wanted = { .name = name };
    return bsearch(&wanted, l->places, (size_t)l->own->count, sizeof wanted, by_name);
}

static bool begins_with(const char *text, const char *start)
{
    return strncmp(text, start, strlen(start)) == 0;
}

/* The part of `text` before its end `end`, as a length; -1 if it ends otherwise. */
static int before_end(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);
    return n >= m && n < INT32_MAX && strcmp(text + n - m, end) == 0 ? (int)(n - m) : -1;
}

/* The name with the words of TensorFlow's layer norms replaced, for br_free(); NULL on error. */
static char *modern_name(const char *name)
{
    int n = before_end(name, ".gamma");
    if (n >= 0)
        return br__format("%.*s.weight", n, name);
    n = before_end(name, ".beta");
    return n >= 0 ? br__format("%.*s.bias", n, name) : br__strdup(name);
}

/* The place for a key, by its name or one that it may stand for. False if memory fails. */
static bool place_of(const loading *l, const char *key, place **found)
{
    const char *prefix = l->family->prefix;
    char *name = modern_name(key);
    if (!name)
        return false;
    *found = find_place(l, key);
    if (!*found)
        *found = find_place(l, name);
    if (!*found && begins_with(name, prefix))
        *found = find_place(l, name + strlen(prefix));
    char *longer = *found ? NULL : br__format("%s%s", prefix, name);
    if (longer)
        *found = find_place(l, longer);
    br_free(longer);
    br_free(name);
    return !br_failed();
}

static bool is_ignored(const br_model_family *family, const char *key)
{
    for (const char *const *end = family->ignored; *end; end++)
        if (before_end(key, *end) >= 0)
            return true;
    return false;
}

/* ---- Matching -------------------------------------------------------------------------------- */

/* "F32 [2, 3]" of a key's tensor, for br_free(). */
static char *describe(const br_safetensors *file, int64_t index)
{
    const int64_t *sizes;
    int ndim = br_safetensors_shape(file, index, &sizes);
    br_text text = { 0 };
    bool ok = br__text_add(&text, "%s [", br_safetensors_dtype(file, index));
    for (int i = 0; ok && i < ndim; i++)
        ok = br__text_add(&text, "%s%" PRId64, i ? ", " : "", sizes[i]);
    if (ok && br__text_add(&text, "]"))
        return text.data;
    br_free(text.data);
    return NULL;
}

/* The dtype, if it is one of 16 bits that is converted; or NULL. */
static const char *half_dtype(const br_safetensors *file, int64_t index)
{
    const char *dtype = br_safetensors_dtype(file, index);
    return strcmp(dtype, "F16") == 0 || strcmp(dtype, "BF16") == 0 ? dtype : NULL;
}

static bool fits(const br_safetensors *file, int64_t index, const br_tensor *own)
{
    const int64_t *sizes;
    int ndim = br_safetensors_shape(file, index, &sizes);
    bool same = ndim == own->ndim &&
                (strcmp(br_safetensors_dtype(file, index), "F32") == 0 || half_dtype(file, index));
    for (int i = 0; same && i < ndim; i++)
        same = sizes[i] == own->sizes[i];
    return same;
}

/* The tensor of the key must be what the place holds. */
static bool check_fit(const loading *l, const br_weight_key *key, const place *p)
{
    const br_safetensors *file = l->files.shards[key->shard].file;
    if (fits(file, key->index, p->own))
        return true;
    char *found = describe(file, key->index);
    if (found)
        br__fail(BR_ERROR_FORMAT, op, "%s: key \"%s\" is %s, must be F32, F16 or BF16 %s",
                 br__weight_path(&l->files, key), br__printable(key->name), found,
                 br__shape(p->own));
    br_free(found);
    return false;
}

static bool take_key(loading *l, const br_weight_key *key, place *p)
{
    if (p->key) {
        br__fail(BR_ERROR_FORMAT, op, "%s: keys \"%s\" and \"%s\" are both the model's %s",
                 br__weight_path(&l->files, key), br__printable(p->key->name),
                 br__printable(key->name), p->name);
        return false;
    }
    if (!check_fit(l, key, p))
        return false;
    p->key = key;
    l->report.matched++;
    const char *half = half_dtype(l->files.shards[key->shard].file, key->index);
    if (half && !(add_name(&l->converted, &l->report.converted, key->name) &&
                  br__text_add(&l->converted, " from %s", half)))
        return false;
    if (strcmp(key->name, p->name) == 0)
        return true;
    return add_name(&l->renamed, &l->report.renamed, key->name) &&
           br__text_add(&l->renamed, " as %s", p->name);
}

static bool match_keys(loading *l)
{
    for (int64_t i = 0; i < l->files.n_keys; i++) {
        const br_weight_key *key = &l->files.keys[i];
        place *p = NULL;
        bool ok = place_of(l, key->name, &p);
        if (ok && p)
            ok = take_key(l, key, p);
        else if (ok && is_ignored(l->family, key->name))
            ok = add_name(&l->ignored, &l->report.ignored, key->name);
        else if (ok)
            ok = add_name(&l->unexpected, &l->report.unexpected, key->name);
        if (!ok)
            return false;
    }
    if (l->report.matched > 0)
        return true;
    br__fail_file(BR_ERROR_FORMAT, op, l->files.shards[0].path,
                  "none of its %" PRId64 " keys is one of %s", l->files.n_keys,
                  br_module_class(l->module));
    return false;
}

/* ---- Giving the weights ---------------------------------------------------------------------- */

/* The key that the weight gets, under whichever of its names. */
static const br_weight_key *key_for(const loading *l, const br_tensor *own)
{
    for (int64_t i = 0; i < l->own->count; i++)
        if (l->places[i].own == own && l->places[i].key)
            return l->places[i].key;
    return NULL;
}

static bool give_key(loading *l, br_tensor *own, const br_weight_key *key)
{
    br_scope *scope = br_scope_begin();
    br_tensor *t = br_safetensors_get(l->files.shards[key->shard].file, key->name);
    if (t)
        br__swap_data(op, own, t);
    br_scope_end(scope);
    return t != NULL;
}

static bool may_be_new(const loading *l, const char *name)
{
    for (const char *const *head = l->family->heads; *head; head++)
        if (begins_with(name, *head))
            return true;
    return l->all_missing;
}

static bool give_new(loading *l, const char *name, br_tensor *own)
{
    if (may_be_new(l, name))
        return add_name(&l->missing, &l->report.missing, name) &&
               l->family->init(l->config, name, own);
    br__fail_file(BR_ERROR_FORMAT, op, l->files.shards[0].path,
                  "key \"%s\" is missing, must be F32 %s for a %s", name, br__shape(own),
                  br_module_class(l->module));
    return false;
}

/* In the order of the module's own list, so that new values are drawn in a settled order. */
static bool give_weights(loading *l)
{
    br_named_list *list = br_parameters(l->module);
    bool ok = list != NULL;
    for (int64_t i = 0; ok && i < list->count; i++) {
        br_tensor *own = list->items[i].tensor;
        const br_weight_key *key = key_for(l, own);
        ok = key ? give_key(l, own, key) : give_new(l, list->items[i].name, own);
    }
    br_named_list_free(list);
    return ok;
}

/* ---- Loading --------------------------------------------------------------------------------- */

static void take_report(loading *l, br_auto_model_report *report)
{
    l->report.converted_names = br__text_take(&l->converted);
    l->report.renamed_names = br__text_take(&l->renamed);
    l->report.missing_names = br__text_take(&l->missing);
    l->report.unexpected_names = br__text_take(&l->unexpected);
    l->report.ignored_names = br__text_take(&l->ignored);
    if (report)
        *report = l->report;
    else
        br_auto_model_report_clear(&l->report);
}

/* A configuration may ask for any number of layers, which would take all memory before their
 * weights are found to be missing; so where there are many, there must be a tensor for each. */
static bool check_layers(const loading *l)
{
    enum { MANY = 1024 };
    int64_t layers = br_auto_config_size(l->config, "num_hidden_layers");
    if (!br_failed() && !l->all_missing && layers > MANY && layers > l->files.n_keys)
        br__fail(BR_ERROR_FORMAT, op,
                 "%s: num_hidden_layers is %" PRId64 ", but the files of weights have only %" PRId64
                 " tensors",
                 br__printable(br_auto_config_path(l->config)), layers, l->files.n_keys);
    return !br_failed();
}

static br_module *make_module(const br_model_class *class, const br_auto_config *config)
{
    bool before = br__skip_init(true);
    br_module *module = class->make(config);
    br__skip_init(before);
    return module;
}

static void *load(const char *dir, const br_auto_config *config,
                  const br_auto_model_options *options, br_auto_model_report *report)
{
    loading l = { .config = config, .all_missing = options->all_missing };
    l.family = find_family(config);
    const br_model_class *class =
        l.family ? find_class(config, l.family, options->class_name) : NULL;
    if (!class || !br__weight_files_open(&l.files, dir, options->copy))
        return NULL;
    l.module = check_layers(&l) ? make_module(class, config) : NULL;
    if (!br_failed() && list_places(&l) && match_keys(&l))
        give_weights(&l);
    take_report(&l, report);
    br__weight_files_close(&l.files);
    br_named_list_free(l.own);
    br_free(l.places);
    if (!br_failed())
        br_eval(l.module);
    if (!br_failed())
        return l.module;
    br_module_free(l.module);
    return NULL;
}

void *br_auto_model_load(const char *dir, const br_auto_model_options *options,
                         br_auto_model_report *report)
{
    static const br_auto_model_options defaults = { 0 };
    if (report)
        *report = (br_auto_model_report){ 0 };
    if (!br__required(op, "dir", dir))
        return NULL;
    char *path = br__format("%s/config.json", dir);
    br_auto_config *config = path ? br_auto_config_load(path) : NULL;
    br_free(path);
    void *module = config ? load(dir, config, options ? options : &defaults, report) : NULL;
    br_auto_config_free(config);
    return module;
}

void br_auto_model_report_clear(br_auto_model_report *report)
{
    if (!report)
        return;
    br_free(report->converted_names);
    br_free(report->renamed_names);
    br_free(report->missing_names);
    br_free(report->unexpected_names);
    br_free(report->ignored_names);
    *report = (br_auto_model_report){ 0 };
}
