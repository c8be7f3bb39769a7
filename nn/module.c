/* nn/module.c - modules: lifetime, registration of parameters and children, and paths. forward.c
 * runs them.
 *
 * A module's struct holds one pointer, to its state. A struct whose state is NULL is a dead module.
 * Constructors return one when allocation fails, and every function here accepts it. A module is
 * incomplete if a part of it could not be created: it can be used and freed, but its forward fails.
 */
#include "nn/parametrized.h"

#include <pthread.h>
#include <string.h>

/* ---- Paths ----------------------------------------------------------------------------------- */

/* Writes as much of the path as fits, and returns the length of the whole path. */
static size_t write_path(const br_module_state *state, char *buffer, size_t size)
{
    if (!state->parent)
        return 0;
    size_t n = write_path(state->parent, buffer, size);
    const char *format = n > 0 ? ".%s" : "%s";
    return n + (size_t)snprintf(n < size ? buffer + n : NULL, n < size ? size - n : 0, format,
                                state->name);
}

char *br_module_path(const br_module *module, char *buffer, size_t size)
{
    if (!buffer || size == 0)
        return buffer;
    buffer[0] = '\0';
    if (br__module_exists("module_path", module))
        write_path(module->state, buffer, size);
    return buffer;
}

static char *owner_path(const void *owner, char *buffer, size_t size)
{
    return br_module_path(((const br_module_state *)owner)->module, buffer, size);
}

static const char *owner_class(const void *owner)
{
    return ((const br_module_state *)owner)->class_name;
}

static void install_owner_names(void)
{
    br__owner_path = owner_path;
    br__owner_class = owner_class;
}

const char *br_module_name(const br_module *module)
{
    return br__module_exists("module_name", module) && module->state->name ? module->state->name
                                                                           : "";
}

const char *br_module_class(const br_module *module)
{
    return br__module_exists("module_class", module) ? module->state->class_name : "";
}

/* ---- Lifetime -------------------------------------------------------------------------------- */

/* This thread's placeholder, which stands in for any module whose constructor failed. */
static br_module *placeholder(void)
{
    return (br_module *)(void *)(br__thread_cold()->module + sizeof(br_handle_mark));
}

/* Returns the placeholder: it has no state, and all its fields are zero. Like every module it has a
 * mark. */
static void *placeholder_module(void)
{
    br_module *module = placeholder();
    _Static_assert(sizeof((br_thread_cold *)0)->module >=
                       sizeof(br_handle_mark) + BR_MODULE_MAX_SIZE,
                   "any module must fit");
    *br__mark_of(module) = (br_handle_mark){ .mark = BR_MARK_LIVE, .kind = BR_HANDLE_module };
    return memset(module, 0, BR_MODULE_MAX_SIZE);
}

static br_module *make(size_t size, const char *class_name)
{
    bool failed_before = br_failed();
    if (size < sizeof(br_module) || size > BR_MODULE_MAX_SIZE)
        return br_fail(BR_ERROR_ARGUMENT, "module_create",
                       "struct %s has %zu bytes, must have %zu .. %d and begin with a br_module",
                       class_name, size, sizeof(br_module), BR_MODULE_MAX_SIZE);
    br_module_state *state = br_calloc(1, sizeof *state);
    char *name = br_strdup(class_name);
    br_module *module = state && name ? br__handle_new(size, BR_HANDLE_module, class_name) : NULL;
    if (!module) {
        br_free(state);
        br_free(name);
        return NULL;
    }
    *state = (br_module_state){
        .module = module,
        .size = size,
        .class_name = name,
        .training = true,
        .incomplete = failed_before,
    };
    module->state = state;
    return module;
}

void *br_module_create(size_t size, const char *class_name)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, install_owner_names);
    br_module *module = make(size, class_name ? class_name : "Module");
    return module ? module : placeholder_module();
}

bool br__module_exists(const char *op, const void *self)
{
    const br_module *module = self;
    if (!module)
        return false;
    if (__builtin_expect(br__debug, 0) && self == (const void *)placeholder())
        return false;
    return br__is_live(op, "module", BR_HANDLE_module, self) && module->state != NULL;
}

bool br_module_is_usable(const char *op, const void *self)
{
    const br_module *module = self;
    if (br__module_exists(op, self))
        return true;
    br_fail(BR_ERROR_ARGUMENT, op,
            module ? "the module cannot be used: its constructor failed"
                   : "module is NULL, but it is required");
    return false;
}

void br_module_set_incomplete(br_module *module)
{
    if (br__module_exists("module_set_incomplete", module))
        module->state->incomplete = true;
}

static void leave_parent(br_module_state *state)
{
    br_module_state *parent = state->parent;
    if (!parent)
        return;
    int64_t i = 0;
    while (parent->children[i] != state)
        i++;
    parent->n_children--;
    memmove(&parent->children[i], &parent->children[i + 1],
            (size_t)(parent->n_children - i) * sizeof *parent->children);
    state->parent = NULL;
}

static void free_parametrized(br_module_state *state)
{
    while (state->parametrized) {
        br_parametrized *p = state->parametrized;
        state->parametrized = p->next;
        br__parametrized_clear(p);
        br_free(p);
    }
}

static void free_tree(br_module_state *state)
{
    free_parametrized(state);
    for (int64_t i = state->n_children - 1; i >= 0; i--)
        free_tree(state->children[i]);
    if (state->destroy)
        state->destroy(state->module);
    if (state->adapter)
        state->adapter->release(state->adapter);
    br__token_end(state);
    br__hooks_free(&state->hooks);
    for (int64_t i = state->n_entries - 1; i >= 0; i--) {
        br_release(state->entries[i].tensor);
        br_free(state->entries[i].name);
    }
    br_free(state->entries);
    br_free(state->children);
    br_free(state->name);
    br_free(state->class_name);
    if (br__handle_end("module_free", "module", BR_HANDLE_module, state->module))
        br__handle_free(state->module, state->size);
    br_free(state);
}

/* Sets an error if the forward of a module of the tree is still entered. Scopes that br_leave() did
 * not end stay open, but belong to no module any more. */
static void disown_scopes(const br_module_state *state)
{
    for (br_scope *s = br__thread.scope; s; s = s->outer) {
        if (s->owner != state)
            continue;
        s->owner = NULL;
        if (!br_failed()) /* after an error, forward functions may return early */
            br_fail(BR_ERROR_STATE, "module_free",
                    "the forward of %s was entered by br_enter(), but not left by br_leave()",
                    state->class_name);
    }
    for (int64_t i = 0; i < state->n_children; i++)
        disown_scopes(state->children[i]);
}

void br_module_free(void *module)
{
    br_module *self = module;
    if (!br__module_exists("module_free", self))
        return;
    disown_scopes(self->state);
    leave_parent(self->state);
    free_tree(self->state);
}

void br_module_set_destroy(br_module *module, void (*destroy)(void *self))
{
    if (br_module_is_usable("set_destroy", module))
        module->state->destroy = destroy;
}

/* ---- Registration ---------------------------------------------------------------------------- */

br_entry *br__find_entry(const br_module_state *state, const char *name)
{
    for (int64_t i = 0; i < state->n_entries; i++)
        if (strcmp(state->entries[i].name, name) == 0)
            return &state->entries[i];
    return NULL;
}

static bool is_taken(const br_module_state *state, const char *name)
{
    if (br__find_entry(state, name))
        return true;
    for (int64_t i = 0; i < state->n_children; i++)
        if (strcmp(state->children[i]->name, name) == 0)
            return true;
    return false;
}

static bool good_name(const char *op, const br_module_state *state, const char *name)
{
    if (br_failed())
        return false;
    if (!name || !*name)
        br_fail(BR_ERROR_ARGUMENT, op, "a parameter, buffer or child of %s has an empty name",
                state->class_name);
    else if (strchr(name, '.'))
        br_fail(BR_ERROR_ARGUMENT, op,
                "name '%s' in %s contains a dot, which separates the names in a path", name,
                state->class_name);
    else if (is_taken(state, name))
        br_fail(BR_ERROR_ARGUMENT, op, "%s already has a parameter, buffer or child named '%s'",
                state->class_name, name);
    return !br_failed();
}

/* Makes a floating-point tensor require grad. Fails if t was computed: backward would give it no
 * gradient. */
static bool make_parameter(const char *op, const br_module_state *state, const char *name,
                           br_tensor *t)
{
    if (!br_is_leaf(t)) {
        br_fail(BR_ERROR_STATE, op,
                "parameter '%s' of %s was computed by %s: a parameter must be a leaf: compute it "
                "inside br_no_grad_begin(), or pass br_detach(t)",
                name, state->class_name, br_op_name(t));
        return false;
    }
    return !br_is_floating(t) || br_set_requires_grad(t, true);
}

/* Registers t. `hold`, which is br__take_over() or br_retain(), acquires the module's reference. */
static bool add_entry(const char *op, br_module_state *state, const char *name, br_tensor *t,
                      br_entry_kind kind, br_tensor *(*hold)(br_tensor *))
{
    if (!good_name(op, state, name))
        return false;
    br_entry *entries =
        br__grow(state->entries, &state->entry_capacity, state->n_entries, sizeof *entries);
    if (!entries)
        return false;
    state->entries = entries;
    char *copy = br_strdup(name);
    if (!copy || (kind == BR_ENTRY_PARAMETER && !make_parameter(op, state, name, t))) {
        br_free(copy);
        return false;
    }
    state->entries[state->n_entries++] = (br_entry){ copy, hold(t), kind, NULL };
    return true;
}

static br_tensor *add_tensor(const char *op, br_module *module, const char *name, br_tensor *t,
                             br_entry_kind kind, br_tensor *(*hold)(br_tensor *))
{
    if (!br_module_is_usable(op, module) || (!t && !br_failed()))
        return NULL;
    if (add_entry(op, module->state, name, t, kind, hold))
        return t;
    module->state->incomplete = true;
    return NULL;
}

br_tensor *br_module_add_parameter(br_module *module, const char *name, br_tensor *t)
{
    return add_tensor("add_parameter", module, name, t, BR_ENTRY_PARAMETER, br__take_over);
}

br_tensor *br_module_add_buffer(br_module *module, const char *name, br_tensor *t, bool persistent)
{
    return add_tensor("add_buffer", module, name, t,
                      persistent ? BR_ENTRY_BUFFER : BR_ENTRY_NONPERSISTENT, br__take_over);
}

br_tensor *br__module_share_buffer(br_module *module, const char *name, br_tensor *t)
{
    return add_tensor("add_buffer", module, name, t, BR_ENTRY_BUFFER, br_retain);
}

br_tensor *br_module_add_computed_buffer(br_module *module, const char *name,
                                         br_tensor *(*compute)(void *self), bool persistent)
{
    const char *op = "add_computed_buffer";
    if (!br_module_is_usable(op, module))
        return NULL;
    br_scope *scope = br_no_grad_begin();
    if (!compute)
        br_fail(BR_ERROR_ARGUMENT, op, "compute is NULL, but it is required");
    br_tensor *exact = br_failed() ? NULL : compute(module);
    br_tensor *t = exact ? br__new_on(op, exact, exact->ndim, exact->sizes, BR_F32) : NULL;
    if (t)
        br__copy(br_scope_return(scope, t), exact);
    br_scope_end(scope);
    br_module_state *state = module->state;
    br_entry_kind kind = persistent ? BR_ENTRY_BUFFER : BR_ENTRY_NONPERSISTENT;
    if (!add_tensor(op, module, name, t, kind, br__take_over))
        return NULL;
    state->entries[state->n_entries - 1].compute = compute;
    return t;
}

static bool replace_parameter(br_module_state *state, const char *name, br_tensor *t)
{
    const char *op = "replace_parameter";
    if (!br__required(op, "t", t))
        return false;
    br_entry *entry = br__find_entry(state, name);
    if (!entry || entry->kind != BR_ENTRY_PARAMETER) {
        br_fail(BR_ERROR_ARGUMENT, op, "%s has no parameter '%s'", state->class_name, name);
        return false;
    }
    if (!make_parameter(op, state, name, t))
        return false;
    br__take_over(t);
    br_release(entry->tensor);
    entry->tensor = t;
    return true;
}

br_tensor *br_module_replace_parameter(br_module *module, const char *name, br_tensor *t)
{
    if (!br_module_is_usable("replace_parameter", module))
        return NULL;
    if (replace_parameter(module->state, name ? name : "", t))
        return t;
    module->state->incomplete = true;
    return NULL;
}

/* Returns true if `state` is `other` or an ancestor of `other`. */
static bool is_above(const br_module_state *state, const br_module_state *other)
{
    while (other && other != state)
        other = other->parent;
    return other != NULL;
}

static bool add_child(br_module *parent, const char *name, br_module *child)
{
    const char *op = "add_child";
    if (!br_module_is_usable(op, parent) || !br_module_is_usable(op, child) ||
        !good_name(op, parent->state, name))
        return false;
    br_module_state *self = parent->state, *state = child->state;
    if (state->parent || is_above(state, self)) {
        br_fail(BR_ERROR_ARGUMENT, op, "cannot add '%s' to %s: the %s %s", name, self->class_name,
                state->class_name,
                state->parent ? "already has a parent" : "would be its own ancestor");
        return false;
    }
    br_module_state **children =
        br__grow(self->children, &self->child_capacity, self->n_children, sizeof *children);
    if (!children)
        return false;
    self->children = children;
    state->name = br_strdup(name);
    if (!state->name)
        return false;
    state->parent = self;
    self->children[self->n_children++] = state;
    return true;
}

void *br_module_add_child(br_module *parent, const char *name, void *child)
{
    br_module *module = child;
    if (add_child(parent, name, module))
        return child;
    br_module_state *self = br__module_exists("add_child", parent) ? parent->state : NULL;
    if (self)
        self->incomplete = true;
    /* Free the child unless it belongs to a tree, such as the parent's own. */
    if (br__module_exists("add_child", module) && !module->state->parent &&
        !is_above(module->state, self))
        br_module_free(module);
    return NULL;
}
