/* nn/named_list.c - lists of named tensors, and their collection from a module tree.
 *
 * Tied tensors are found by linear search, which is fast enough because lists are not made in every
 * step. */
#include "nn/names.h"
#include "nn/nn_internal.h"

#include <fnmatch.h>
#include <string.h>

/* The allocation behind a br_named_list. */
typedef struct named_list {
    br_named_list public;
    int64_t capacity;
    bool holds;
} named_list;

br_named_list *br__named_list_new(bool holds)
{
    named_list *list = br__handle_new(sizeof *list, BR_HANDLE_list, NULL);
    if (!list)
        return NULL;
    list->holds = holds;
    return &list->public;
}

bool br__named_list_add(br_named_list *list, const char *name, br_tensor *t)
{
    named_list *self = (named_list *)(void *)list;
    br_named_tensor *items = br__grow(list->items, &self->capacity, list->count, sizeof *items);
    if (!items)
        return false;
    list->items = items;
    char *copy = br_strdup(name);
    if (!copy)
        return false;
    items[list->count++] = (br_named_tensor){ copy, self->holds ? br_retain(t) : t };
    return true;
}

br_named_list *br_named_list_new(void)
{
    return br_failed() ? NULL : br__named_list_new(true);
}

bool br_named_list_add(br_named_list *list, const char *name, br_tensor *tensor)
{
    const char *op = "named_list_add";
    if (!br__required(op, "list", list) || !br__required(op, "name", name) ||
        !br__required(op, "tensor", tensor))
        return false;
    if (br__named_list_find(list, name, 0) >= 0)
        br_fail(BR_ERROR_ARGUMENT, op, "the list already has a tensor named %s",
                br_printable(name));
    return !br_failed() && br__named_list_add(list, name, tensor);
}

const br_named_tensor *br_named_list_next(const br_named_list *list, const br_named_tensor *item)
{
    if (!list)
        return NULL;
    item = item ? item + 1 : list->items;
    return item && item < list->items + list->count ? item : NULL;
}

void br_named_list_free(br_named_list *list)
{
    if (!BR_END("named_list_free", list))
        return;
    named_list *self = (named_list *)(void *)list;
    for (int64_t i = 0; i < list->count; i++) {
        br_free((char *)list->items[i].name);
        if (self->holds)
            br_release(list->items[i].tensor);
    }
    br_free(list->items);
    BR_FREE(list);
}

int64_t br__named_list_find(const br_named_list *list, const char *name, int64_t from)
{
    for (int64_t k = 0; k < list->count; k++) {
        int64_t i = (from + k) % list->count;
        if (strcmp(list->items[i].name, name) == 0)
            return i;
    }
    return -1;
}

br_tensor *br_named_list_get(const br_named_list *list, const char *name)
{
    int64_t i = BR_LIVE("named_list_get", list) && name ? br__named_list_find(list, name, 0) : -1;
    return i < 0 ? NULL : list->items[i].tensor;
}

/* Warns of a glob that matches no name although a name is similar. A glob without a similar name
 * may be meant for other models, too. */
static void warn_of_typo(const char *op, const br_named_list *all, const char *glob)
{
    for (int64_t i = 0; i < all->count; i++)
        if (fnmatch(glob, all->items[i].name, 0) == 0)
            return;
    const char *nearest = br__nearest_name(all, glob, true);
    if (nearest)
        br_raise(BR_WARNING, "%s: no name matches '%s': the most similar name is '%s'", op,
                 br_printable(glob), nearest);
}

br_named_list *br_named_list_filter(const br_named_list *all, int n_globs, const char *const *globs,
                                    bool invert)
{
    const char *op = "named_list_filter";
    if (!br__required(op, "all", all) || (n_globs > 0 && !br__required(op, "globs", globs)))
        return NULL;
    if (n_globs < 0)
        return br_fail(BR_ERROR_ARGUMENT, op, "n_globs is %d, must not be negative", n_globs);
    for (int k = 0; k < n_globs; k++)
        if (!br__required_item_handle(op, "globs", k, globs[k], BR_HANDLE_NONE))
            return NULL;
    for (int k = 0; k < n_globs; k++)
        warn_of_typo(op, all, globs[k]);
    br_named_list *list = br__named_list_new(false);
    for (int64_t i = 0; list && i < all->count; i++) {
        bool matches = false;
        for (int k = 0; k < n_globs && !matches; k++)
            matches = fnmatch(globs[k], all->items[i].name, 0) == 0;
        if (matches != invert &&
            !br__named_list_add(list, all->items[i].name, all->items[i].tensor)) {
            br_named_list_free(list);
            list = NULL;
        }
    }
    return list;
}

/* ---- Collecting ------------------------------------------------------------------------------ */

typedef struct collector {
    br_named_list *list;
    const char *op;
    br__text path; /* of the module being visited, with a dot at its end unless it is empty */
    int what;
} collector;

static bool has_tensor(const br_named_list *list, const br_tensor *t)
{
    for (int64_t i = 0; i < list->count; i++)
        if (list->items[i].tensor == t)
            return true;
    return false;
}

static bool collect_entries(collector *c, const br_module_state *state, br_entry_kind kind)
{
    size_t length = c->path.length;
    for (int64_t i = 0; i < state->n_entries; i++) {
        const br_entry *entry = &state->entries[i];
        if (entry->kind != kind ||
            ((c->what & BR_COLLECT_TRAINABLE) && !br_requires_grad(entry->tensor)))
            continue;
        if (!(c->what & BR_COLLECT_ALIASES) && has_tensor(c->list, entry->tensor))
            continue;
        if (!br__text_add(&c->path, "%s", entry->name) ||
            !br__named_list_add(c->list, c->path.data, entry->tensor))
            return false;
        br__text_truncate(&c->path, length);
    }
    return true;
}

static bool collect_tree(collector *c, br_module_state *state)
{
    if (__builtin_expect(br__debug, 0))
        br__check_fields(c->op, state);
    if (!(c->what & BR_COLLECT_NO_PARAMETERS) && !collect_entries(c, state, BR_ENTRY_PARAMETER))
        return false;
    if ((c->what & BR_COLLECT_BUFFERS) && !collect_entries(c, state, BR_ENTRY_BUFFER))
        return false;
    if ((c->what & BR_COLLECT_NONPERSISTENT) && !collect_entries(c, state, BR_ENTRY_NONPERSISTENT))
        return false;
    size_t length = c->path.length;
    for (int64_t i = 0; i < state->n_children; i++) {
        if (!br__text_add(&c->path, "%s.", state->children[i]->name) ||
            !collect_tree(c, state->children[i]))
            return false;
        br__text_truncate(&c->path, length);
    }
    return true;
}

br_named_list *br__collect(const char *op, br_module *module, int what)
{
    if (br_failed() || !br_module_is_usable(op, module))
        return NULL;
    collector c = { .list = br__named_list_new(false), .op = op, .what = what };
    bool ok = c.list && collect_tree(&c, module->state);
    br_free(c.path.data);
    if (ok)
        return c.list;
    br_named_list_free(c.list);
    return NULL;
}

br_named_list *br_parameters(br_module *module)
{
    return br__collect("parameters", module, 0);
}

br_named_list *br_buffers(br_module *module)
{
    return br__collect("buffers", module,
                       BR_COLLECT_NO_PARAMETERS | BR_COLLECT_BUFFERS | BR_COLLECT_NONPERSISTENT);
}

br_named_list *br_state_dict(br_module *module)
{
    return br__collect("state_dict", module, BR_COLLECT_BUFFERS | BR_COLLECT_ALIASES);
}
