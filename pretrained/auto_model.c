/* pretrained/auto_model.c - AutoModel: makes a module of the class that a folder or a GGUF file
 * names, and loads the weights into it.
 *
 * All keys are matched and checked before the first weight is set. Setting a weight swaps the
 * tensor's memory with the file's and keeps its identity, so that fields and ties stay valid. */
#include "nn/lora_internal.h"
#include "nn/match.h"
#include "nn/nn_internal.h"
#include "pretrained/auto_config_internal.h"
#include "pretrained/auto_model_internal.h"
#include "pretrained/gguf_config.h"
#include "pretrained/quantized_weights.h"

#include <brasa/pretrained.h>

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

BR_DEFINE_DEFAULTS(br_auto_model)

static const char op[] = "auto_model";

/* ---- The state of a loading ------------------------------------------------------------------ */

typedef struct loading {
    const char *dir;
    const br_auto_config *config;
    const br_model_family *family;
    const br_key_map *names; /* of the family's safetensors files or GGUF files */
    bool is_gguf;
    br_module *module;
    br_weight_files files;
    br_named_list *own;
    br_named_list *wanted; /* the same tensors, with the keys that files have for them */
    br__match match;       /* of the keys of the files with the names of `own` */
    br_dtype dtype;        /* of the model */
    bool keeps_blocks;     /* quantized weights stay so */
    bool allow_missing_keys, ignore_mismatched_sizes;
    /* For each name of `own`: its key that does not count because of another shape, or NULL. */
    const br_weight_key **mismatches;
    int64_t n_matched; /* number of keys that are loaded */
    int64_t n_poolers; /* number of missing weights of the pooler */
    br__names converted, renamed, missing, mismatched, unexpected, ignored, untied, unknown, absent;
} loading;

static const br_weight_key *key_at(const loading *l, int64_t k)
{
    return k < 0 ? NULL : &l->files.keys[k];
}

/* Returns the key that name i of the module is loaded from, or NULL. */
static const br_weight_key *key_of(const loading *l, int64_t i)
{
    return key_at(l, l->match.source_of[i]);
}

/* Returns the key that files have for name i of the module. */
static const char *wanted_key(const loading *l, int64_t i)
{
    return l->wanted->items[i].name;
}

static bool list_own(loading *l)
{
    l->own = br_state_dict(l->module);
    l->wanted = l->own ? br__file_keys(l->names, l->is_gguf, l->own) : NULL;
    l->mismatches = l->wanted ? br_calloc((size_t)l->own->count + 1, sizeof *l->mismatches) : NULL;
    return l->mismatches != NULL;
}

/* ---- Names ----------------------------------------------------------------------------------- */

/* Returns a copy of the name with TensorFlow's layer norm names (gamma, beta) replaced. The caller
 * frees it with br_free(). Returns NULL on error. */
static char *modern_name(const char *name)
{
    int n = br__before_end(name, ".gamma");
    if (n >= 0)
        return br_format("%.*s.weight", n, name);
    n = br__before_end(name, ".beta");
    return n >= 0 ? br_format("%.*s.bias", n, name) : br_strdup(name);
}

/* Finds the model's name for a key: with the family's renames, with modern names, and with or
 * without the prefix. *own is -1 if there is none. Returns false if allocation fails. */
static bool find_name(const loading *l, const br__match *m, const char *key, int64_t *own)
{
    const char *prefix = br__prefix(l->family);
    char *renamed = br__key_to_name(l->names, key), *name = renamed ? modern_name(renamed) : NULL;
    *own = name ? br__match_find(m, renamed) : -1;
    br_free(renamed);
    if (!name)
        return false;
    if (*own < 0)
        *own = br__match_find(m, name);
    if (*own < 0 && br__begins_with(name, prefix))
        *own = br__match_find(m, name + strlen(prefix));
    char *longer = *own < 0 ? br_format("%s%s", prefix, name) : NULL;
    if (longer)
        *own = br__match_find(m, longer);
    br_free(longer);
    br_free(name);
    return !br_failed();
}

static bool find_key(void *context, const br__match *m, int64_t k, int64_t *own)
{
    const loading *l = context;
    return find_name(l, m, l->files.keys[k].name, own);
}

/* ---- Matching -------------------------------------------------------------------------------- */

/* Describes a key's tensor, for example "F32 [2, 3]". The caller frees the text with br_free(). */
static char *describe(const loading *l, const br_weight_key *key)
{
    const int64_t *sizes;
    int ndim = br__weight_shape(&l->files, key, &sizes);
    br__text text = { 0 };
    bool ok = br__text_add(&text, "%s [", br__weight_type(&l->files, key));
    for (int i = 0; ok && i < ndim; i++)
        ok = br__text_add(&text, "%s%" PRId64, i ? ", " : "", sizes[i]);
    if (ok && br__text_add(&text, "]"))
        return text.data;
    br_free(text.data);
    return NULL;
}

/* Returns the dtype that a weight of that name gets. */
static br_dtype dtype_of(const loading *l, const char *name)
{
    bool kept = l->dtype == BR_F16 && br__is_kept_in_f32(l->family, name);
    return kept ? BR_F32 : l->dtype;
}

/* Returns whether name i of the model gets the blocks of the key's tensor. */
static bool keeps_blocks(const loading *l, const br_weight_key *key, int64_t i)
{
    const br_named_tensor *own = &l->own->items[i];
    const br_gguf_change *change =
        l->keeps_blocks ? br__gguf_change_of(l->family->gguf, key->name) : NULL;
    return l->keeps_blocks && br__weight_is_quantized(&l->files, key) &&
           !br__is_transposed(l->names, own) && !(change && !change->moves_rows) &&
           br__may_be_quantized(l->module, own->name, own->tensor);
}

/* Returns a header with the shape that files must have for name i of the model. */
static br_tensor in_file(const loading *l, int64_t i)
{
    const br_named_tensor *own = &l->own->items[i];
    br_tensor header = *own->tensor;
    if (br__is_transposed(l->names, own)) {
        header.sizes[0] = own->tensor->sizes[1];
        header.sizes[1] = own->tensor->sizes[0];
    }
    return header;
}

static bool fits(const loading *l, const br_weight_key *key, const br_tensor *wanted)
{
    const int64_t *sizes;
    int ndim = br__weight_shape(&l->files, key, &sizes);
    bool same = ndim == wanted->ndim && br__weight_is_floating(&l->files, key);
    for (int i = 0; same && i < ndim; i++)
        same = sizes[i] == wanted->sizes[i];
    return same;
}

/* Sets the error that the dtype or shape of a key's tensor does not match name i of the model. */
static bool refuse_key(const loading *l, const br_weight_key *key, int64_t i)
{
    br_tensor wanted = in_file(l, i);
    char *found = describe(l, key);
    if (found)
        br_fail(BR_ERROR_FORMAT, op, "%s: key \"%s\" is %s, must be F32, F16, BF16%s F64%s %s",
                br__weight_path(&l->files, key), br_printable(key->name), found,
                l->is_gguf ? "," : " or",
                l->is_gguf ? " or a quantized type that is supported" : "", br__shape(&wanted));
    br_free(found);
    return false;
}

/* Lets name i be initialized, because its key has another shape. */
static bool drop_mismatch(loading *l, const br_weight_key *key, int64_t i, const br_tensor *wanted)
{
    char *found = describe(l, key);
    bool ok = found && br__names_add(&l->mismatched, key->name) &&
              br__text_add(&l->mismatched.text, " %s unlike %s", found, br__shape(wanted));
    br_free(found);
    l->match.source_of[i] = -1;
    l->mismatches[i] = key;
    return ok;
}

/* Checks and reports a key that belongs to name i of the model. */
static bool use_key(loading *l, const br_weight_key *key, int64_t i)
{
    const br_weight_key *first = l->mismatches[i] ? l->mismatches[i] : key_of(l, i);
    if (first != key) {
        br_fail(BR_ERROR_FORMAT, op, "%s: keys \"%s\" and \"%s\" both match the model's %s",
                br__weight_path(&l->files, key), br_printable(first->name), br_printable(key->name),
                wanted_key(l, i));
        return false;
    }
    br_tensor wanted = in_file(l, i);
    if (!fits(l, key, &wanted))
        return l->ignore_mismatched_sizes && br__weight_is_floating(&l->files, key)
                   ? drop_mismatch(l, key, i, &wanted)
                   : refuse_key(l, key, i);
    l->n_matched++;
    const char *from = br__weight_type(&l->files, key);
    const char *to = br__dtypes[dtype_of(l, l->own->items[i].name)].stored_name;
    if (strcmp(from, to) != 0 && !keeps_blocks(l, key, i) &&
        !(br__names_add(&l->converted, key->name) &&
          br__text_add(&l->converted.text, " from %s to %s", from, to)))
        return false;
    if (strcmp(key->name, wanted_key(l, i)) == 0)
        return true;
    return br__names_add(&l->renamed, key->name) &&
           br__text_add(&l->renamed.text, " as %s", wanted_key(l, i));
}

static bool match_keys(loading *l)
{
    if (!br__match_begin(&l->match, l->own, l->files.n_keys, find_key, l))
        return false;
    for (int64_t k = 0; k < l->files.n_keys; k++) {
        const br_weight_key *key = &l->files.keys[k];
        int64_t i = l->match.own_of[k];
        bool ok = i >= 0 ? use_key(l, key, i)
                         : br__names_add(br__is_ignored(l->names, key->name) ? &l->ignored
                                                                             : &l->unexpected,
                                         key->name);
        if (!ok)
            return false;
    }
    if (l->n_matched > 0)
        return true;
    br__fail_file(BR_ERROR_FORMAT, op, l->files.shards[0].path,
                  "none of its %" PRId64 " keys belongs to a %s", l->files.n_keys,
                  br_module_class(l->module));
    return false;
}

/* ---- Ties ------------------------------------------------------------------------------------ */

/* Gives name i a tensor of its own, which `source` was tied to. */
static bool untie_name(loading *l, int64_t i, int64_t source)
{
    br_named_tensor *item = &l->own->items[i];
    char *path = br_strdup(item->name), *dot = path ? strrchr(path, '.') : NULL;
    if (dot)
        *dot = '\0';
    br_tensor *own = dot ? br__untie(l->module, path, dot + 1, item->tensor) : NULL;
    br_free(path);
    if (!own)
        return false;
    item->tensor = own;
    if (br_auto_config_has(l->config, "tie_word_embeddings") &&
        !br_auto_config_bool(l->config, "tie_word_embeddings"))
        return !br_failed();
    return br__names_add(&l->untied, wanted_key(l, i)) &&
           br__text_add(&l->untied.text, " unlike %s", wanted_key(l, source));
}

/* Ignores the key of name i, whose values equal those that the weight gets from another key. */
static bool drop_copy(loading *l, int64_t i, int64_t source)
{
    l->n_matched--;
    bool ok = br__names_add(&l->ignored, key_of(l, i)->name) &&
              br__text_add(&l->ignored.text, " equal to %s", key_of(l, source)->name);
    l->match.source_of[i] = -1;
    return ok;
}

/* Returns the tensor of a key that is used, in the model's dtype and in the module's layout. What a
 * converter changed is undone in f32, before rounding to the model's dtype. */
static br_tensor *get(const loading *l, const br_weight_key *key)
{
    int64_t i = l->match.own_of[key - l->files.keys];
    const br_named_tensor *own = &l->own->items[i];
    const br_gguf_change *change =
        l->is_gguf ? br__gguf_change_of(l->family->gguf, key->name) : NULL;
    br_dtype dtype = dtype_of(l, own->name);
    if (keeps_blocks(l, key, i)) {
        br_tensor *blocks = br__weight_get(&l->files, key, BR_QUANTIZED);
        return change ? br__undo_of_rows(change, l->config, blocks) : blocks;
    }
    br_tensor *t = br__weight_get(&l->files, key, change ? BR_F32 : dtype);
    if (change && t)
        t = br_to(change->undo(l->config, t), dtype);
    return br__is_transposed(l->names, own) ? br_contiguous(br_t(t)) : t;
}

static bool same_values(const loading *l, const br_weight_key *a, const br_weight_key *b)
{
    br_scope *scope = br_scope_begin();
    bool same = br__equal_weights(get(l, a), get(l, b));
    br_scope_end(scope);
    return same;
}

/* Settles weights with several names, which are tied. If the files have different values under the
 * first name and a later one, the later name gets a separate weight, as in transformers 5. */
static bool settle_ties(loading *l)
{
    for (int64_t i = 0; i < l->own->count; i++) {
        int64_t source = key_of(l, i) ? br__match_tie(&l->match, i) : -1;
        if (source < 0)
            continue;
        bool same = same_values(l, key_of(l, source), key_of(l, i));
        if (br_failed() || !(same ? drop_copy(l, i, source) : untie_name(l, i, source)))
            return false;
    }
    return true;
}

/* ---- Setting the weights --------------------------------------------------------------------- */

/* Gives `own` the values of t, and its dtype. Quantized weights are frozen. */
static bool assign(br_tensor *own, br_tensor *t)
{
    if (!t || (br__is_quantized(t) && !br_set_requires_grad(own, false)))
        return false;
    if (!br__is_quantized(t))
        t = br__placed(op, br__backend_of(own), t);
    if (t && t != own)
        br__swap_data(op, own, t);
    return t != NULL;
}

static bool assign_key(loading *l, br_tensor *own, const br_weight_key *key)
{
    br_scope *scope = br_scope_begin();
    bool ok = assign(own, get(l, key));
    br_scope_end(scope);
    return ok;
}

/* Returns the entry of the index for a weight, under any of its names, that its file lacks, or
 * NULL.
 */
static const br_absent_key *absent_key_for(const loading *l, const br_tensor *own)
{
    for (int64_t i = 0; i < l->files.n_absent; i++) {
        int64_t name;
        if (find_name(l, &l->match, l->files.absent[i].name, &name) && name >= 0 &&
            l->own->items[name].tensor == own)
            return &l->files.absent[i];
    }
    return NULL;
}

/* Sets the error that name i of the module is in no file. */
static bool refuse_missing(const loading *l, int64_t i)
{
    const br_weight_files *files = &l->files;
    const br_absent_key *absent = absent_key_for(l, l->own->items[i].tensor);
    br_tensor wanted = in_file(l, i);
    if (!br_failed())
        br__fail_file(BR_ERROR_FORMAT, op, files->shards[absent ? absent->shard : 0].path,
                      "key \"%s\" is missing%s%s%s, must be %s %s for a %s",
                      absent ? br_printable(absent->name) : wanted_key(l, i),
                      absent ? ", but " : "", absent ? br_printable(files->index) : "",
                      absent ? " lists it in this file" : "",
                      br__dtypes[dtype_of(l, l->own->items[i].name)].stored_name,
                      br__shape(&wanted), br_module_class(l->module));
    return false;
}

static bool init_missing(loading *l, const br_named_tensor *own)
{
    bool is_pooler = br__is_pooler(l->family, own->name);
    int64_t i = br__match_find(&l->match, own->name);
    if (!is_pooler && !br__is_head(l->family, own->name) && !l->allow_missing_keys &&
        !l->mismatches[i])
        return refuse_missing(l, i);
    l->n_poolers += is_pooler;
    if (!br__names_add(&l->missing, wanted_key(l, i)) ||
        !l->family->init(l->config, own->name, own->tensor))
        return false;
    br_scope *scope = br_no_grad_begin();
    bool ok = assign(own->tensor, br_to(own->tensor, dtype_of(l, own->name)));
    br_scope_end(scope);
    return ok;
}

/* Uses the order of the module's own list, so that new weights are initialized in a fixed order. */
static bool assign_weights(loading *l)
{
    br_named_list *list = br_parameters(l->module);
    bool ok = list != NULL;
    for (int64_t i = 0; ok && i < list->count; i++) {
        br_tensor *own = list->items[i].tensor;
        const br_weight_key *key = key_at(l, br__match_source(&l->match, own));
        ok = key ? assign_key(l, own, key) : init_missing(l, &list->items[i]);
    }
    br_named_list_free(list);
    return ok;
}

/* ---- Keys of the configuration --------------------------------------------------------------- */

static bool add_unknown(void *of, const char *key)
{
    loading *l = of;
    return br__names_add(&l->unknown, key);
}

/* ---- The index ------------------------------------------------------------------------------- */

/* Reports the keys that the index lists in a file that lacks them. */
static bool list_absent(loading *l)
{
    size_t before = strlen(l->dir) + 1;
    for (int64_t i = 0; i < l->files.n_absent; i++) {
        const br_absent_key *key = &l->files.absent[i];
        if (!br__names_add(&l->absent, key->name) ||
            !br__text_add(&l->absent.text, " in %s", l->files.shards[key->shard].path + before))
            return false;
    }
    return true;
}

/* ---- The dtype ------------------------------------------------------------------------------- */

/* Reads the dtype that config.json names, such as "bfloat16". Returns false without an error if it
 * names none. */
static bool configured_dtype(const br_auto_config *config, br_dtype *dtype)
{
    static const char *const keys[] = { "dtype", "torch_dtype" };
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        if (!br_auto_config_has(config, keys[i]))
            continue;
        const char *name = br_auto_config_string(config, keys[i]);
        if (!name)
            return false;
        const char *dot = strrchr(name, '.'); /* "torch.float16" */
        if (br_dtype_named(dot ? dot + 1 : name, dtype) && br__is_floating(*dtype))
            return true;
        br__fail_file(BR_ERROR_FORMAT, op, br_auto_config_path(config),
                      "%s is \"%s\", must be float32, float64, bfloat16 or float16; set the option "
                      "dtype to load the model in another dtype",
                      keys[i], br_printable(name));
        return false;
    }
    return false;
}

/* Sets *dtype to a tensor's dtype, if that is a floating-point dtype of Brasa. Otherwise returns
 * false. */
static bool floating_dtype(const br_safetensors *file, int64_t index, br_dtype *dtype)
{
    br_dtype is;
    bool ok = br_dtype_named(br_safetensors_dtype(file, index), &is) && br__is_floating(is);
    if (ok)
        *dtype = is;
    return ok;
}

/* Sets l->dtype. */
static bool choose_dtype(loading *l, br_dtype wanted)
{
    l->keeps_blocks = wanted == BR_QUANTIZED;
    l->dtype = l->keeps_blocks ? br__computed(wanted) : wanted;
    if (l->keeps_blocks && !l->is_gguf)
        return br_fail(BR_ERROR_ARGUMENT, op,
                       "dtype is quantized, but %s has no quantized weights: load a GGUF file, or "
                       "choose a floating-point dtype",
                       br_printable(l->dir));
    if (l->keeps_blocks || wanted != BR_DTYPE_AUTO || configured_dtype(l->config, &l->dtype))
        return true;
    l->dtype = BR_F32; /* also of GGUF files, whose weights are dequantized, as in transformers */
    const br_safetensors *file = l->files.shards[0].file;
    bool found = l->is_gguf;
    for (int64_t i = 0; !found && i < br_safetensors_count(file); i++)
        found = floating_dtype(file, i, &l->dtype);
    return !br_failed();
}

/* ---- The adapter ----------------------------------------------------------------------------- */

/* Adds a parameter without a key to the names, unless the adapter has values for it. */
static bool note_missing(const loading *l, const br_named_tensor *item, br__names *missing)
{
    int64_t i = br__match_find(&l->match, item->name);
    bool is_missing = i >= 0 && br__match_source(&l->match, item->tensor) < 0 &&
                      !br__lora_has_saved(l->module, item->tensor);
    return !is_missing || br__names_add(missing, wanted_key(l, i));
}

/* Adds the adapter of a folder. A head that the adapter brings is not missing. */
static bool add_adapter(loading *l, const char *dir)
{
    if (!dir)
        return true;
    br__names missing = { 0 };
    br_named_list *list = br_lora_load(dir, l->module, NULL) ? br_parameters(l->module) : NULL;
    bool ok = list != NULL;
    for (int64_t i = 0; ok && i < list->count; i++)
        ok = note_missing(l, &list->items[i], &missing);
    br_named_list_free(list);
    br_free(l->missing.text.data);
    l->missing = missing;
    return ok;
}

/* ---- Loading --------------------------------------------------------------------------------- */

static void move_report(loading *l, br_auto_model_report *report)
{
    br_auto_model_report r = { .matched = l->n_matched, .missing_poolers = l->n_poolers };
    br__names_take(&l->converted, &r.converted, &r.converted_names);
    br__names_take(&l->renamed, &r.renamed, &r.renamed_names);
    br__names_take(&l->missing, &r.missing, &r.missing_names);
    br__names_take(&l->mismatched, &r.mismatched, &r.mismatched_names);
    br__names_take(&l->unexpected, &r.unexpected, &r.unexpected_names);
    br__names_take(&l->ignored, &r.ignored, &r.ignored_names);
    br__names_take(&l->untied, &r.untied, &r.untied_names);
    br__names_take(&l->unknown, &r.unknown, &r.unknown_names);
    br__names_take(&l->absent, &r.absent, &r.absent_names);
    if (report)
        *report = r;
    else
        br_auto_model_report_clear(&r);
}

static void *load(const char *dir, const br_auto_config *config,
                  const br_auto_model_options *options, br_auto_model_report *report)
{
    loading l = { .dir = dir,
                  .config = config,
                  .allow_missing_keys = options->allow_missing_keys,
                  .ignore_mismatched_sizes = options->ignore_mismatched_sizes };
    l.family = br__model_family(config);
    const br_model_class *class =
        l.family ? br__model_class(config, l.family, options->class_name) : NULL;
    if (!class || !br__weight_files_open(&l.files, dir, options->copy))
        return NULL;
    l.is_gguf = br__weights_are_gguf(&l.files);
    l.names = l.is_gguf ? &l.family->gguf->names : &l.family->keys;
    bool plausible = l.allow_missing_keys || br__check_layers(op, config, l.family, l.files.n_keys,
                                                              "the weight files have");
    if (plausible && choose_dtype(&l, options->dtype))
        l.module = br__make_model(class, config);
    if (!br_failed() && br__config_each_unknown(config, add_unknown, &l) && list_absent(&l) &&
        list_own(&l) && match_keys(&l) && settle_ties(&l) && assign_weights(&l))
        add_adapter(&l, options->adapter);
    move_report(&l, report);
    br__weight_files_close(&l.files);
    br__match_end(&l.match);
    br_named_list_free(l.wanted);
    br_named_list_free(l.own);
    br_free(l.mismatches);
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
    if (report)
        *report = (br_auto_model_report){ 0 };
    options = BR_OPTIONS_OF(op, br_auto_model, options);
    if (!br__required(op, "dir", dir))
        return NULL;
    if (options->dtype != BR_DTYPE_AUTO && options->dtype != BR_QUANTIZED &&
        !br__is_floating(options->dtype))
        return br_fail(BR_ERROR_DTYPE, op,
                       "dtype is %s, must be a floating-point dtype, BR_QUANTIZED or BR_DTYPE_AUTO",
                       br_dtype_name(options->dtype));
    char *path = br_gguf_is_file(dir) ? br_strdup(dir) : br_format("%s/config.json", dir);
    br_auto_config *config = path ? br_auto_config_load_with(path, options->overrides) : NULL;
    br_free(path);
    void *module = config ? load(dir, config, options, report) : NULL;
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
    br_free(report->mismatched_names);
    br_free(report->unexpected_names);
    br_free(report->ignored_names);
    br_free(report->untied_names);
    br_free(report->unknown_names);
    br_free(report->absent_names);
    *report = (br_auto_model_report){ 0 };
}
