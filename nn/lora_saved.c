/* nn/lora_saved.c - modules that an adapter trains whole: modules_to_save.
 *
 * The module keeps its tensors, which fields and optimizers point to. While the adapter is active
 * they have the adapter's values, and the copies the model's; otherwise the other way round. */
#include "nn/lora_internal.h"

#include <stdio.h>
#include <string.h>

static const char op[] = "lora_add";

/* ---- Copying --------------------------------------------------------------------------------- */

/* Fails if the tensor has another name: changing its values would change that module, too. */
static bool check_ties(const br_named_list *list, int64_t i)
{
    for (int64_t k = 0; k < list->count; k++)
        if (list->items[k].tensor == list->items[i].tensor && k != i) {
            br_fail(BR_ERROR_ARGUMENT, op,
                    "modules_to_save: %s is tied to %s, which would change with it",
                    list->items[i].name, list->items[k].name);
            return false;
        }
    return true;
}

/* Returns true if the tensor of that name belongs to a saved module. */
static bool is_saved(const br_lora_options *o, const char *name)
{
    char path[1024];
    const char *dot = strrchr(name, '.');
    snprintf(path, sizeof path, "%.*s", dot ? (int)(dot - name) : 0, name);
    return *path && br__lora_is_saved(o, path);
}

/* Returns true if the name of a module matches one with tensors. */
static bool matches_module(const char *name, const br_named_list *list)
{
    const br_lora_options one = { .n_modules_to_save = 1, .modules_to_save = &name };
    bool found = false;
    for (int64_t i = 0; i < list->count && !found; i++)
        found = is_saved(&one, list->items[i].name);
    return found;
}

static bool copy_tensors(br_lora_adapter *adapter, const br_named_list *list)
{
    for (int64_t i = 0; i < list->count; i++) {
        br_tensor *own = list->items[i].tensor;
        if (!is_saved(&adapter->options, list->items[i].name))
            continue;
        if (!check_ties(list, i))
            return false;
        br_tensor *other = br_clone(own);
        if (!other)
            return false;
        adapter->saved[adapter->n_saved++] = (br_lora_saved){ br_retain(own), br_retain(other) };
    }
    return true;
}

bool br__lora_saved_begin(br_module *model, br_lora_adapter *adapter)
{
    const br_lora_options *o = &adapter->options;
    if (o->n_modules_to_save == 0)
        return !br_failed();
    br_named_list *list = br_state_dict(model);
    for (int64_t i = 0; list && i < o->n_modules_to_save && !br_failed(); i++)
        if (!matches_module(o->modules_to_save[i], list))
            br_fail(BR_ERROR_ARGUMENT, op,
                    "modules_to_save: no module of %s with parameters matches '%s'",
                    br_module_class(model), br_printable(o->modules_to_save[i]));
    br_scope *scope = br_no_grad_begin();
    if (!br_failed())
        adapter->saved = br_calloc((size_t)list->count, sizeof *adapter->saved);
    bool ok = adapter->saved && copy_tensors(adapter, list);
    br_scope_end(scope);
    br_named_list_free(list);
    return ok;
}

/* ---- Exchanging ------------------------------------------------------------------------------ */

/* Gives the copy the dtype and the device that the module has now. */
static bool follow(br_lora_saved *saved)
{
    br_tensor *t = br_to_device(saved->other, br_device_of(saved->own));
    t = br_to(t, saved->own->dtype);
    if (!t || t == saved->other)
        return t != NULL;
    br_retain(t);
    br_release(saved->other);
    saved->other = t;
    return true;
}

bool br__lora_saved_prepare(br_lora_adapter *adapter)
{
    br_scope *scope = br_no_grad_begin();
    bool ok = scope != NULL;
    for (int64_t i = 0; ok && i < adapter->n_saved; i++)
        ok = follow(&adapter->saved[i]);
    br_scope_end(scope);
    return ok;
}

void br__lora_saved_swap(br_lora_adapter *adapter)
{
    for (int64_t i = 0; i < adapter->n_saved; i++) {
        br_tensor *own = adapter->saved[i].own;
        if (br_grad_of(own))
            br_set_grad(own, NULL);
        br__swap_data("lora_set_adapter", own, adapter->saved[i].other);
    }
}

void br__lora_saved_free(br_lora_adapter *adapter)
{
    for (int64_t i = 0; i < adapter->n_saved; i++) {
        br_release(adapter->saved[i].own);
        br_release(adapter->saved[i].other);
    }
    br_free(adapter->saved);
    adapter->saved = NULL;
    adapter->n_saved = 0;
}
