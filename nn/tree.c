/* nn/tree.c - traversals of a module tree: finding modules, applying functions, training mode,
 * freezing, converting. */
#include "nn/names.h"
#include "nn/nn_internal.h"

#include <fnmatch.h>
#include <inttypes.h>
#include <string.h>

/* ---- Children and paths ---------------------------------------------------------------------- */

int64_t br_module_num_children(const br_module *module)
{
    return br__module_exists("module_num_children", module) ? module->state->n_children : 0;
}

br_module *br_module_child_at(const br_module *module, int64_t i)
{
    if (!br_module_is_usable("child_at", module))
        return NULL;
    const br_module_state *state = module->state;
    if (i < 0 || i >= state->n_children)
        return br_fail(BR_ERROR_INDEX, "child_at",
                       "index %" PRId64 " is out of range: %s has %" PRId64 " children", i,
                       state->class_name, state->n_children);
    return state->children[i]->module;
}

/* Returns the child whose name is the first `length` bytes of `name`. */
static br_module_state *child_named(const br_module_state *state, const char *name, size_t length)
{
    for (int64_t i = 0; i < state->n_children; i++) {
        const char *child = state->children[i]->name;
        if (strncmp(child, name, length) == 0 && child[length] == '\0')
            return state->children[i];
    }
    return NULL;
}

/* Follows path[0 .. length-1]; an empty path is the module itself. */
static br_module_state *follow(const char *op, br_module *module, const char *path, size_t length)
{
    if (br_failed() || !br_module_is_usable(op, module))
        return NULL;
    br_module_state *state = module->state;
    const char *end = path + length;
    for (const char *part = path; part < end;) {
        const char *dot = memchr(part, '.', (size_t)(end - part));
        size_t n = (size_t)((dot ? dot : end) - part);
        br_module_state *child = child_named(state, part, n);
        if (!child)
            return br_fail(BR_ERROR_ARGUMENT, op, "'%s': %s has no child named '%.*s'", path,
                           state->class_name, (int)n, part);
        state = child;
        part += n + (dot != NULL);
    }
    return state;
}

br_module *br_module_find(br_module *module, const char *path)
{
    br_module_state *state = follow("find", module, path ? path : "", path ? strlen(path) : 0);
    return state ? state->module : NULL;
}

br_tensor *br_module_get(br_module *module, const char *name)
{
    if (!br__required("get", "name", name))
        return NULL;
    const char *dot = strrchr(name, '.');
    br_module_state *state = follow("get", module, name, dot ? (size_t)(dot - name) : 0);
    if (!state)
        return NULL;
    const char *last = dot ? dot + 1 : name;
    const br_entry *entry = br__find_entry(state, last);
    if (entry)
        return entry->tensor;
    return br_fail(BR_ERROR_ARGUMENT, "get", "'%s': %s has no parameter or buffer named '%s'", name,
                   state->class_name, last);
}

/* ---- Applying a function to every module ----------------------------------------------------- */

void br_module_apply(br_module *module, void (*fn)(br_module *module, void *context), void *context)
{
    if (br_failed() || !br_module_is_usable("apply", module))
        return;
    if (!fn) {
        br_fail(BR_ERROR_ARGUMENT, "apply", "fn is NULL, but it is required");
        return;
    }
    for (int64_t i = 0; i < module->state->n_children; i++)
        br_module_apply(module->state->children[i]->module, fn, context);
    fn(module, context);
}

static void set_training(br_module *module, void *context)
{
    module->state->training = *(const bool *)context;
}

void br_train(br_module *module, bool training)
{
    if (!br_failed() && br_module_is_usable("train", module))
        br_module_apply(module, set_training, &training);
}

bool br_is_training(const br_module *module)
{
    return br__module_exists("is_training", module) && module->state->training;
}

static void drop_gradients(br_module *module, void *context)
{
    (void)context;
    const br_module_state *state = module->state;
    for (int64_t i = 0; i < state->n_entries; i++)
        if (br_grad_of(state->entries[i].tensor))
            br_set_grad(state->entries[i].tensor, NULL);
}

void br_zero_grad(br_module *module)
{
    if (!br_failed() && br_module_is_usable("zero_grad", module))
        br_module_apply(module, drop_gradients, NULL);
}

/* ---- Counting and freezing ------------------------------------------------------------------- */

int64_t br_count_parameters(br_module *module, bool trainable_only)
{
    br_named_list *list = br__collect("count_parameters", module, 0);
    if (!list)
        return -1;
    int64_t n = 0;
    for (int64_t i = 0; i < list->count; i++)
        if (!trainable_only || br_requires_grad(list->items[i].tensor))
            n += list->items[i].tensor->numel;
    br_named_list_free(list);
    return n;
}

/* Returns true if an item before item i has the same tensor and also matches. */
static bool matched_before(const br_named_list *list, int64_t i, const char *glob)
{
    for (int64_t k = 0; k < i; k++)
        if (list->items[k].tensor == list->items[i].tensor &&
            fnmatch(glob, list->items[k].name, 0) == 0)
            return true;
    return false;
}

static void warn_of_no_match(const br_module *module, const br_named_list *list, const char *glob)
{
    const char *nearest = br__nearest_name(list, glob, false);
    br_raise(BR_WARNING, "requires_grad: no parameter of %s matches '%s'%s%s%s",
             br_module_class(module), br_printable(glob),
             nearest ? ": the most similar name is '" : ": it has no parameters",
             nearest ? nearest : "", nearest ? "'" : "");
}

int64_t br_module_requires_grad(br_module *module, const char *glob, bool requires_grad)
{
    if (!br__required("requires_grad", "glob", glob))
        return -1;
    br_named_list *list = br__collect("requires_grad", module, BR_COLLECT_ALIASES);
    if (!list)
        return -1;
    int64_t n = 0;
    for (int64_t i = 0; i < list->count; i++) {
        br_tensor *t = list->items[i].tensor;
        if (fnmatch(glob, list->items[i].name, 0) != 0 || matched_before(list, i, glob))
            continue;
        n++;
        if (br_is_floating(t))
            br_set_requires_grad(t, requires_grad);
    }
    if (n == 0)
        warn_of_no_match(module, list, glob);
    br_named_list_free(list);
    return br_failed() ? -1 : n;
}

/* ---- Converting ------------------------------------------------------------------------------ */

/* If t is a computed buffer, returns its entry and sets *self to its module; else returns NULL. */
static const br_entry *computed_entry_of(const br_module_state *state, const br_tensor *t,
                                         void **self)
{
    *self = state->module;
    for (int64_t i = 0; i < state->n_entries; i++)
        if (state->entries[i].tensor == t && state->entries[i].compute)
            return &state->entries[i];
    const br_entry *found = NULL;
    for (int64_t i = 0; i < state->n_children && !found; i++)
        found = computed_entry_of(state->children[i], t, self);
    return found;
}

/* Returns t in `dtype`, on its device. A computed buffer whose values are unchanged is computed
 * again, so that it has the full precision of `dtype`. */
static br_tensor *convert(const br_module *module, br_tensor *t, br_dtype dtype)
{
    if (br__is_quantized(t))
        return br_to(t, dtype);
    void *self;
    const br_entry *entry = computed_entry_of(module->state, t, &self);
    br_tensor *exact = entry ? entry->compute(self) : NULL;
    exact = exact ? br_to_device(exact, br_device_of(t)) : NULL;
    bool same = exact && br__same_shape(exact, t) && br_equal(br_to(exact, t->dtype), t);
    br_tensor *converted = br_failed() ? NULL : br__new_like("module_to", t, dtype);
    if (converted)
        br__copy(converted, same ? exact : t);
    return converted;
}

/* Fails if a tensor shares its storage, since the other users of the storage would see it with the
 * wrong dtype or on the wrong device. */
static bool owns_memory(const char *op, const br_named_tensor *item)
{
    if (atomic_load(&item->tensor->storage->refs) == 1)
        return true;
    br_fail(BR_ERROR_STATE, op,
            "%s %s shares its memory with a view or a saved value: free those first", item->name,
            br__shape(item->tensor));
    return false;
}

/* Makes copies of the list's floating-point tensors in `dtype`, in the innermost scope. The entries
 * of tensors that need no conversion stay NULL. */
static bool make_converted(const br_module *module, const br_named_list *list, br_dtype dtype,
                           br_tensor **converted)
{
    for (int64_t i = 0; i < list->count; i++) {
        br_tensor *t = list->items[i].tensor;
        if ((!br_is_floating(t) && !br__is_quantized(t)) || t->dtype == dtype)
            continue;
        if (!owns_memory("module_to", &list->items[i]))
            return false;
        converted[i] = convert(module, t, dtype);
        if (!converted[i])
            return false;
    }
    return true;
}

bool br_module_to(br_module *module, br_dtype dtype)
{
    if (!br__is_floating(dtype)) {
        br_fail(BR_ERROR_DTYPE, "module_to", "dtype is %s, must be a floating-point dtype",
                br_dtype_name(dtype));
        return false;
    }
    br_named_list *list =
        br__collect("module_to", module, BR_COLLECT_BUFFERS | BR_COLLECT_NONPERSISTENT);
    if (!list)
        return false;
    br_scope *scope = br_no_grad_begin();
    br_tensor **converted = br_calloc((size_t)list->count, sizeof(br_tensor *));
    bool ok = scope && converted && make_converted(module, list, dtype, converted);
    for (int64_t i = 0; ok && i < list->count; i++) {
        if (!converted[i])
            continue;
        br_set_grad(list->items[i].tensor, NULL);
        br__swap_data("module_to", list->items[i].tensor, converted[i]);
    }
    br_free(converted);
    br_scope_end(scope);
    br_named_list_free(list);
    return ok;
}

/* Makes copies of the list's tensors, and of their gradients, on a device, in the innermost scope.
 * The entries of tensors that are there already, and of gradients that do not exist, stay NULL. */
static bool make_moved(const br_named_list *list, br_device device, br_tensor **moved,
                       br_tensor **grads)
{
    for (int64_t i = 0; i < list->count; i++) {
        br_tensor *t = list->items[i].tensor, *grad = br_grad_of(t);
        br_tensor *copy = br_to_device(t, device);
        if (copy == t)
            continue;
        if (!copy || !owns_memory("module_to_device", &list->items[i]))
            return false;
        moved[i] = copy;
        grads[i] = grad ? br_to_device(grad, device) : NULL;
    }
    return !br_failed();
}

br_device br_module_device(const br_module *module)
{
    br_named_list *list = br__collect("module_device", (br_module *)module,
                                      BR_COLLECT_BUFFERS | BR_COLLECT_NONPERSISTENT);
    const br_device device = br_device_of(list && list->count > 0 ? list->items[0].tensor : NULL);
    br_named_list_free(list);
    return device;
}

bool br_module_to_device(br_module *module, br_device device)
{
    static const char op[] = "module_to_device";
    br_named_list *list =
        br__find_backend(op, device)
            ? br__collect(op, module, BR_COLLECT_BUFFERS | BR_COLLECT_NONPERSISTENT)
            : NULL;
    if (!list)
        return false;
    br_scope *scope = br_no_grad_begin();
    br_tensor **moved = br_calloc(2 * (size_t)list->count, sizeof(br_tensor *));
    br_tensor **grads = moved ? moved + list->count : NULL;
    bool ok = scope && moved && make_moved(list, device, moved, grads);
    for (int64_t i = 0; ok && i < list->count; i++) {
        br_tensor *t = list->items[i].tensor;
        if (!moved[i])
            continue;
        br_set_grad(t, NULL);
        br__swap_data(op, t, moved[i]);
        if (grads[i])
            ok = br_set_grad(t, grads[i]);
    }
    br_free(moved);
    br_scope_end(scope);
    br_named_list_free(list);
    return ok;
}
