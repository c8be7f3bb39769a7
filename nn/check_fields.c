/* nn/check_fields.c - in debug mode, finds the fields of a module's struct that its constructor did
 * not register: no optimizer would train them, and no state dict would hold them.
 *
 * C has no list of a struct's fields. But the registry of handles knows every live tensor and
 * module, so each word of the struct is looked up there. */
#include "nn/nn_internal.h"

/* Returns true if t is a parameter or buffer of the tree. */
static bool has_entry(const br_module_state *state, const br_tensor *t)
{
    for (int64_t i = 0; i < state->n_entries; i++)
        if (state->entries[i].tensor == t)
            return true;
    for (int64_t i = 0; i < state->n_children; i++)
        if (has_entry(state->children[i], t))
            return true;
    return false;
}

/* Returns the parameters of the tree that require grad or, with `frozen`, those that do not. */
static int64_t count_parameters(const br_module_state *state, bool frozen)
{
    int64_t n = 0;
    for (int64_t i = 0; i < state->n_entries; i++)
        n += state->entries[i].kind == BR_ENTRY_PARAMETER &&
             br_requires_grad(state->entries[i].tensor) != frozen;
    for (int64_t i = 0; i < state->n_children; i++)
        n += count_parameters(state->children[i], frozen);
    return n;
}

static const br_module_state *root_of(const br_module_state *state)
{
    while (state->parent)
        state = state->parent;
    return state;
}

/* Returns true if a module in a field is no fault: it is in a tree, it is the root of this tree, or
 * it is borrowed and frozen, like a teacher. */
static bool is_placed(const br_module_state *state, const br_module_state *other)
{
    return !other || other->parent || other == root_of(state) ||
           (count_parameters(other, false) == 0 && count_parameters(other, true) > 0);
}

/* A result is computed, and integers and masks are not trained. */
static bool may_be_parameter(const br_tensor *t)
{
    return br_is_floating(t) && br_is_leaf(t);
}

static void warn(const char *op, const br_module_state *state, size_t at, const void *object,
                 const char *what, const char *mend)
{
    char path[256], place[BR_DEBUG_PLACE];
    br_module_path(state->module, path, sizeof path);
    br_raise(BR_WARNING,
             "%s: %s%s%s has a %s at byte %zu of its struct that it did not register, created %s: "
             "%s in the constructor, or it is neither trained nor saved",
             op, state->class_name, *path ? " " : "", path, what, at,
             br__debug_place(object, place), mend);
}

void br__check_fields(const char *op, br_module_state *state)
{
    const char *bytes = (const char *)state->module;
    if (state->fields_checked)
        return;
    state->fields_checked = true;
    for (size_t at = sizeof(br_module); at + sizeof(void *) <= state->size; at += sizeof(void *)) {
        void *object;
        memcpy(&object, bytes + at, sizeof object);
        br_handle kind = object ? br__debug_kind_of(object) : BR_HANDLE_NONE;
        if (kind == BR_HANDLE_module && !is_placed(state, ((br_module *)object)->state)) {
            char what[128];
            snprintf(what, sizeof what, "module %s", ((br_module *)object)->state->class_name);
            warn(op, state, at, object, what, "call br_child()");
        } else if (kind == BR_HANDLE_tensor && may_be_parameter(object) &&
                   !has_entry(root_of(state), object)) {
            char what[128];
            snprintf(what, sizeof what, "tensor %s", br__shape(object));
            warn(op, state, at, object, what, "call br_parameter() or br_buffer()");
        }
    }
}
