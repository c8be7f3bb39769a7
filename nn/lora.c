/* nn/lora.c - the LoRA adapters of a model: adding, switching, merging and removing them.
 *
 * The root of the model has a list of its adapters, each with its options. Everything else is found
 * by a walk of the tree, so that modules may be added and freed at any time. */
#include "nn/lora_internal.h"
#include "nn/match.h"

#include <inttypes.h>
#include <string.h>

static const char op[] = "lora_add";

/* ---- Lifetime -------------------------------------------------------------------------------- */

static void free_adapter(br_lora_adapter *adapter)
{
    br__lora_saved_free(adapter);
    br__lora_options_free(&adapter->options);
    br_free(adapter);
}

static void release(br_adapter *self)
{
    br_lora_set *set = (br_lora_set *)self;
    while (set->adapters) {
        br_lora_adapter *adapter = set->adapters;
        set->adapters = adapter->next;
        free_adapter(adapter);
    }
    br_free(set);
}

/* ---- Checks of the model --------------------------------------------------------------------- */

/* Returns a module in the tree, other than the root, that has a list of adapters, or NULL. */
static const br_module_state *other_root(const br_module_state *state)
{
    for (int64_t i = 0; i < state->n_children; i++) {
        const br_module_state *child = state->children[i];
        const br_module_state *found = br__lora_set_of(child) ? child : other_root(child);
        if (found)
            return found;
    }
    return NULL;
}

/* Checks that no module above or below has a list of adapters: their layers could be the same. */
static bool is_only_root(const br_module_state *state)
{
    const br_module_state *other = other_root(state);
    for (const br_module_state *s = state->parent; s && !other; s = s->parent)
        other = br__lora_set_of(s) ? s : NULL;
    char path[256];
    if (other)
        br_fail(BR_ERROR_STATE, op, "%s '%s' has adapters: pass it instead of %s",
                other->class_name, br_module_path(other->module, path, sizeof path),
                state->class_name);
    else if (br__lora_layer_of(state))
        br_fail(BR_ERROR_STATE, op, "%s is a layer with an adapter: pass the model",
                state->class_name);
    return !br_failed();
}

static bool good_model(const br_module *model, const br_lora_options *o)
{
    const br_lora_set *set = br__lora_set_of(model->state);
    if (!is_only_root(model->state))
        return false;
    if (br__lora_adapter(set, o->adapter_name))
        br_fail(BR_ERROR_ARGUMENT, op,
                "%s already has an adapter named '%s': choose another adapter_name, or call "
                "br_lora_delete_adapter() first",
                model->state->class_name, br_printable(o->adapter_name));
    else if (set && set->merged)
        br_fail(BR_ERROR_STATE, op, "the adapter '%s' is merged: call br_lora_unmerge() first",
                set->active->options.adapter_name);
    else if (set && o->bias != BR_LORA_BIAS_NONE)
        br_fail(
            BR_ERROR_ARGUMENT, op,
            "bias must be BR_LORA_BIAS_NONE for a second adapter: the model has only one set of "
            "biases");
    return !br_failed();
}

/* ---- Which parameters require grad ----------------------------------------------------------- */

static void set_part(br_lora_part *part, bool active)
{
    br_tensor *const parameters[] = { part->a, part->b, part->magnitude };
    part->active = active;
    for (int i = 0; i < 3; i++)
        if (parameters[i])
            br_set_requires_grad(parameters[i], active);
}

/* Activates the parts of the adapter with that name. Parts of other adapters become inactive. */
static bool activate_parts(br_module_state *layer, void *name)
{
    for (br_lora_part *part = br__lora_layer_of(layer)->parts; part; part = part->next)
        set_part(part, name && strcmp(part->name, name) == 0);
    return true;
}

static void train_saved(const br_lora_adapter *adapter, bool on)
{
    for (int64_t i = 0; adapter && i < adapter->n_saved; i++)
        if (br_is_floating(adapter->saved[i].own) && br_is_leaf(adapter->saved[i].own))
            br_set_requires_grad(adapter->saved[i].own, on);
}

/* Makes `next` the active adapter, whose parameters then require grad; NULL: none. Cannot fail. */
static void activate(br_module_state *root, br_lora_set *set, br_lora_adapter *next)
{
    br_lora_adapter *const both[] = { set->active, next };
    for (int i = 0; i < 2 && set->active != next; i++)
        if (both[i])
            br__lora_saved_swap(both[i]);
    train_saved(set->active, false);
    train_saved(next, true);
    set->active = next;
    br__lora_each_layer(root, activate_parts, next ? (char *)next->options.adapter_name : NULL);
}

static bool train_own_bias(br_module_state *layer, void *unused)
{
    (void)unused;
    br_tensor *bias = br__lora_tensor(layer, "bias");
    if (bias)
        br_set_requires_grad(bias, true);
    return true;
}

/* Freezes the model, except for the biases that the adapter trains. */
static bool freeze(br_module *model, br_lora_bias bias)
{
    br_named_list *list = br__collect(op, model, BR_COLLECT_ALIASES);
    for (int64_t i = 0; list && i < list->count; i++) {
        const char *name = list->items[i].name, *dot = strrchr(name, '.');
        bool is_bias = strcmp(dot ? dot + 1 : name, "bias") == 0;
        if (br_is_floating(list->items[i].tensor))
            br_set_requires_grad(list->items[i].tensor, is_bias && bias == BR_LORA_BIAS_ALL);
    }
    br_named_list_free(list);
    if (list && bias == BR_LORA_BIAS_LORA_ONLY)
        br__lora_each_layer(model->state, train_own_bias, NULL);
    return list != NULL;
}

/* ---- Adding ---------------------------------------------------------------------------------- */

/* Removes the adapter's parts from the layers, and the list of adapters if it is empty. */
static bool remove_parts(br_module_state *layer, void *name)
{
    br__lora_layer_remove(layer, name);
    return true;
}

static void drop_empty_set(br_module_state *root)
{
    br_lora_set *set = br__lora_set_of(root);
    if (set && !set->adapters) {
        root->adapter = NULL;
        release(&set->base);
    }
}

static br_lora_set *make_set(br_module_state *root)
{
    br_lora_set *set = br__lora_set_of(root);
    if (set || !(set = br_calloc(1, sizeof *set)))
        return set;
    set->base.release = release;
    root->adapter = &set->base;
    return set;
}

static br_lora_adapter *make_adapter(br_module *model, const br_lora_options *o)
{
    br_lora_adapter *adapter = br_calloc(1, sizeof *adapter);
    if (!adapter)
        return NULL;
    adapter->options = *o;
    br__lora_options_own(&adapter->options);
    if (!br_failed() && br__lora_saved_begin(model, adapter))
        return adapter;
    free_adapter(adapter);
    return NULL;
}

static bool add_parts(const br_lora_targets *targets, const br_lora_options *o)
{
    for (int64_t i = 0; i < targets->count; i++) {
        const br_lora_target *t = &targets->items[i];
        if (br__lora_layer_add(t->layer, t->r, t->alpha, o))
            continue;
        while (i-- > 0)
            br__lora_layer_remove(targets->items[i].layer, o->adapter_name);
        return false;
    }
    return true;
}

bool br__lora_add_to(br_module *model, const br_lora_options *o, const br_lora_targets *targets)
{
    br_module_state *root = model->state;
    bool is_first = !br__lora_set_of(root);
    br_lora_adapter *adapter = make_adapter(model, o);
    br_lora_set *set = adapter ? make_set(root) : NULL;
    bool ok = set && add_parts(targets, o);
    if (ok && is_first && !freeze(model, o->bias)) { /* the list could not be allocated */
        br__lora_each_layer(root, remove_parts, (char *)o->adapter_name);
        ok = false;
    }
    if (!ok) {
        if (adapter)
            free_adapter(adapter);
        drop_empty_set(root);
        return false;
    }
    br_lora_adapter **end = &set->adapters;
    while (*end)
        end = &(*end)->next;
    *end = adapter;
    if (is_first)
        activate(root, set, adapter);
    else
        br__lora_each_layer(root, activate_parts,
                            set->active ? (char *)set->active->options.adapter_name : NULL);
    return true;
}

bool br__lora_check(br_module *model, const br_lora_options *o)
{
    return !br_failed() && br_module_is_usable(op, model) && br__lora_good_options(o) &&
           good_model(model, o);
}

bool br_lora_add(br_module *model, const br_lora_options *options)
{
    const br_lora_options *o = BR_OPTIONS_OF(op, br_lora, options);
    if (!br__lora_check(model, o))
        return false;
    if (o->n_target_modules == 0)
        return br_fail(BR_ERROR_ARGUMENT, op,
                       "target_modules is empty: name the layers that get an adapter, such as "
                       "\"q_proj\", or \"all-linear\"");
    br_lora_targets targets = { 0 };
    bool ok = br__lora_find(model, o, &targets) && br__lora_add_to(model, o, &targets);
    br__lora_targets_free(&targets);
    return ok;
}

/* Returns the adapters of the model, or NULL and an error if it has none. */
static br_lora_set *required_set(const char *what, const br_module *model)
{
    if (br_failed() || !br_module_is_usable(what, model))
        return NULL;
    br_lora_set *set = br__lora_set_of(model->state);
    return set ? set
               : br_fail(BR_ERROR_STATE, what, "%s has no adapters: call br_lora_add() first",
                         model->state->class_name);
}

bool br_lora_merge(br_module *model)
{
    br_lora_set *set = required_set("lora_merge", model);
    if (!set)
        return false;
    if (!set->active)
        return br_fail(BR_ERROR_STATE, "lora_merge",
                       "no adapter is active: call br_lora_set_adapter() first");
    return set->merged || br__lora_change_weights(model, set, true);
}

bool br_lora_unmerge(br_module *model)
{
    br_lora_set *set = required_set("lora_unmerge", model);
    return set && (!set->merged || br__lora_change_weights(model, set, false));
}

/* ---- Switching and removing ------------------------------------------------------------------ */

/* Returns the adapter of that name, or NULL and an error that lists the names. */
static br_lora_adapter *required_adapter(const char *what, const br_lora_set *set, const char *name)
{
    br_lora_adapter *found = br__lora_adapter(set, name);
    br__names names = { 0 };
    for (br_lora_adapter *a = set->adapters; a && !found; a = a->next)
        br__names_add(&names, a->options.adapter_name);
    int64_t count;
    char *list;
    br__names_take(&names, &count, &list);
    if (!found && !br_failed())
        br_fail(BR_ERROR_ARGUMENT, what, "adapter_name is '%s', must be one of: %s",
                br_printable(name), list);
    br_free(list);
    return found;
}

static bool set_adapter(br_module *model, br_lora_set *set, br_lora_adapter *next)
{
    if ((set->merged && !br__lora_change_weights(model, set, false)) ||
        (set->active && !br__lora_saved_prepare(set->active)) ||
        (next && !br__lora_saved_prepare(next)))
        return false;
    activate(model->state, set, next);
    return true;
}

bool br_lora_set_adapter(br_module *model, const char *adapter_name)
{
    static const char what[] = "lora_set_adapter";
    br_lora_set *set = required_set(what, model);
    br_lora_adapter *next = set && adapter_name ? required_adapter(what, set, adapter_name) : NULL;
    return set && (next || !adapter_name) && set_adapter(model, set, next);
}

bool br_lora_delete_adapter(br_module *model, const char *adapter_name)
{
    static const char what[] = "lora_delete_adapter";
    br_lora_set *set = required_set(what, model);
    if (!set || !br__required(what, "adapter_name", adapter_name))
        return false;
    br_lora_adapter *gone = required_adapter(what, set, adapter_name);
    if (!gone || (gone == set->active && !set_adapter(model, set, NULL)))
        return false;
    br__lora_each_layer(model->state, remove_parts, (char *)gone->options.adapter_name);
    br_lora_adapter **at = &set->adapters;
    while (*at != gone)
        at = &(*at)->next;
    *at = gone->next;
    free_adapter(gone);
    drop_empty_set(model->state);
    return true;
}

bool br_lora_merge_and_unload(br_module *model)
{
    br_lora_set *set = required_set("lora_merge_and_unload", model);
    if (!set || (set->active && !set->merged && !br__lora_change_weights(model, set, true)))
        return false;
    for (br_lora_adapter *a = set->adapters; a; a = a->next)
        br__lora_each_layer(model->state, remove_parts, (char *)a->options.adapter_name);
    train_saved(set->active, false);
    model->state->adapter = NULL;
    release(&set->base);
    return true;
}

/* ---- Questions ------------------------------------------------------------------------------- */

static const br_lora_set *set_of(const char *what, const br_module *model)
{
    return br__module_exists(what, model) ? br__lora_set_of(model->state) : NULL;
}

const char *br_lora_active_adapter(const br_module *model)
{
    const br_lora_set *set = set_of("lora_active_adapter", model);
    return set && set->active ? set->active->options.adapter_name : NULL;
}

int64_t br_lora_num_adapters(const br_module *model)
{
    const br_lora_set *set = set_of("lora_num_adapters", model);
    int64_t n = 0;
    for (const br_lora_adapter *a = set ? set->adapters : NULL; a; a = a->next)
        n++;
    return n;
}

const char *br_lora_adapter_at(const br_module *model, int64_t i)
{
    int64_t n = br_lora_num_adapters(model);
    if (!br_module_is_usable("lora_adapter_at", model))
        return NULL;
    if (i < 0 || i >= n)
        return br_fail(BR_ERROR_INDEX, "lora_adapter_at",
                       "index %" PRId64 " is out of range: %s has %" PRId64 " adapters", i,
                       model->state->class_name, n);
    const br_lora_adapter *a = br__lora_set_of(model->state)->adapters;
    while (i-- > 0)
        a = a->next;
    return a->options.adapter_name;
}

bool br__lora_has_saved(const br_module *model, const br_tensor *own)
{
    const br_lora_set *set = br__lora_set_of(model->state);
    const br_lora_adapter *active = set ? set->active : NULL;
    bool found = false;
    for (int64_t i = 0; active && i < active->n_saved && !found; i++)
        found = active->saved[i].own == own;
    return found;
}
