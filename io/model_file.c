/* io/model_file.c - saves a module's state dict to a safetensors file that contains each tied
 * tensor once, and loads it, like save_model() and load_model() of the Python package safetensors.
 */
#include "io/io_internal.h"
#include "nn/nn_internal.h"

#include <string.h>

static const char op[] = "model_file";

/* ---- Saving ---------------------------------------------------------------------------------- */

/* Returns the name under which the file stores a tensor: the first of its names in the order of
 * strcmp(). */
static const char *kept_name(const br_named_list *state, const br_tensor *t)
{
    const char *kept = NULL;
    for (int64_t i = 0; i < state->count; i++)
        if (state->items[i].tensor == t && (!kept || strcmp(state->items[i].name, kept) < 0))
            kept = state->items[i].name;
    return kept;
}

static bool has_key(int64_t n, const br_metadata *metadata, const char *key)
{
    for (int64_t i = 0; i < n; i++)
        if (metadata[i].key && strcmp(metadata[i].key, key) == 0)
            return true;
    return false;
}

/* Adds each tensor of a state dict to `once`, under its kept name. For each other name, appends
 * metadata to `all` that maps it to the kept name. Returns false on error. */
static bool sort_ties(const br_named_list *state, br_named_list *once, br_metadata *all,
                      int64_t *n_all)
{
    int64_t given = *n_all;
    for (int64_t i = 0; i < state->count; i++) {
        const br_named_tensor *item = &state->items[i];
        const char *kept = kept_name(state, item->tensor);
        if (strcmp(kept, item->name) == 0) {
            if (!br__named_list_add(once, item->name, item->tensor))
                return false;
        } else if (!has_key(given, all, item->name)) {
            all[(*n_all)++] = (br_metadata){ item->name, kept };
        }
    }
    return true;
}

bool br_model_save(const char *path, br_module *model, int64_t n_metadata,
                   const br_metadata *metadata)
{
    if (!br_failed() && (n_metadata < 0 || (n_metadata > 0 && !metadata)))
        br_fail(BR_ERROR_ARGUMENT, op,
                "n_metadata is %lld and metadata is %s: n_metadata must be at least 0, and 0 if "
                "metadata is NULL",
                (long long)n_metadata, metadata ? "not NULL" : "NULL");
    br_named_list *state = br_failed() ? NULL : br_state_dict(model);
    if (!state)
        return false;
    int64_t n = n_metadata;
    br_named_list *once = br__named_list_new(false);
    br_metadata *all = br_calloc((size_t)(n + state->count) + 1, sizeof *all);
    if (all && n > 0)
        memcpy(all, metadata, (size_t)n * sizeof *all);
    bool ok =
        once && all && sort_ties(state, once, all, &n) && br_safetensors_save(path, once, n, all);
    br_free(all);
    br_named_list_free(once);
    br_named_list_free(state);
    return ok;
}

/* ---- Loading --------------------------------------------------------------------------------- */

bool br_model_load(const char *path, br_module *model, bool strict, br_load_report *report)
{
    if (report)
        *report = (br_load_report){ 0 };
    bool usable = !br_failed() && br_module_is_usable("state_dict", model);
    br_safetensors *file = usable ? br_safetensors_open(path, NULL) : NULL;
    br_named_list *source = file ? br_safetensors_all(file) : NULL;
    br__load_mode mode = { .strict = strict, .ties = true };
    br_loading *loading = source ? br__loading_begin(model, source, path, mode, report) : NULL;
    if (loading)
        br__loading_apply(loading);
    br__loading_end(loading);
    br_named_list_free(source);
    br_safetensors_close(file);
    return loading != NULL;
}
