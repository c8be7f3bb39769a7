/* nn/parametrize.c - parameters that a module's forward computes from other tensors.
 *
 * The originals are entries of a module "parametrizations.<name>", whose children compute the
 * parameter. So parameter lists, state dicts, conversion and training mode need no special code.
 * From br_enter() to br_leave(), the module's field points to the computed tensor (forward.c). */
#include "nn/parametrized.h"

#include <inttypes.h>
#include <string.h>

BR_DEFINE_DEFAULTS(br_parametrization)

static const char op[] = "register_parametrization";
static const char dict_name[] = "parametrizations";

static const char *name_of(const br_parametrized *p)
{
    return p->list->base.state->name;
}

static br_parametrized *find(const br_module_state *state, const char *name)
{
    br_parametrized *p = state->parametrized;
    while (p && strcmp(name_of(p), name) != 0)
        p = p->next;
    return p;
}

bool br_is_parametrized(const br_module *module, const char *name)
{
    if (!br__module_exists("is_parametrized", module))
        return false;
    return name ? find(module->state, name) != NULL : module->state->parametrized != NULL;
}

/* ---- Values ---------------------------------------------------------------------------------- */

static br_parametrized *required(const char *what, br_module *module, const char *name)
{
    if (br_failed() || !br_module_is_usable(what, module))
        return NULL;
    br_parametrized *p = name ? find(module->state, name) : NULL;
    return p ? p
             : br_fail(BR_ERROR_ARGUMENT, what, "%s has no parametrization of '%s'",
                       module->state->class_name, name ? name : "");
}

br_tensor *br_parametrized_value(br_module *module, const char *name)
{
    br_parametrized *p = required("parametrized_value", module, name);
    return p ? br__compute_parametrized(p->list) : NULL;
}

br_tensor *br__current_value(br_module *module, const char *name)
{
    return br_is_parametrized(module, name) ? br_parametrized_value(module, name)
                                            : br_module_get(module, name);
}

/* ---- Registering: checks --------------------------------------------------------------------- */

static bool same_kind(const char *what, const br_tensor *value, const br_tensor *computed)
{
    if (computed && (!br__same_shape(value, computed) || value->dtype != computed->dtype))
        br_fail(BR_ERROR_SHAPE, op,
                "%s returned shape %s and dtype %s for a parameter of shape %s and dtype %s", what,
                br__shape(computed), br_dtype_name(computed->dtype), br__shape(value),
                br_dtype_name(value->dtype));
    return computed && !br_failed();
}

static bool good_options(const br_parametrization_options *o)
{
    if (o->n_originals < 1 || o->n_originals > BR_MAX_ORIGINALS)
        br_fail(BR_ERROR_ARGUMENT, op, "n_originals is %d, must be in 1 .. %d", o->n_originals,
                BR_MAX_ORIGINALS);
    else if (o->n_originals > 1 && (!o->forward || !o->right_inverse))
        br_fail(BR_ERROR_ARGUMENT, op, "n_originals > 1 requires forward and right_inverse");
    return !br_failed();
}

/* Computes the originals of the entry's value, without recording, as tensors of the innermost
 * scope. */
static bool originals_of(br_module *parametrization, const br_entry *entry,
                         const br_parametrization_options *o, br_tensor **originals)
{
    originals[0] = entry->tensor;
    if (o->right_inverse && !o->right_inverse(parametrization, entry->tensor, originals)) {
        if (!br_failed())
            br_fail(BR_ERROR_ARGUMENT, op, "right_inverse of %s failed",
                    br_module_class(parametrization));
        return false;
    }
    for (int i = 0; i < o->n_originals && !br_failed(); i++) {
        if (!originals[i])
            br_fail(BR_ERROR_ARGUMENT, op, "right_inverse of %s did not set original %d",
                    br_module_class(parametrization), i);
        else if (originals[i] != entry->tensor)
            originals[i] = br_clone(originals[i]); /* separate memory */
    }
    return !br_failed();
}

static br_entry *find_entry(br_module_state *state, const char *name)
{
    br_entry *entry = br__find_entry(state, name);
    if (entry)
        return entry;
    return br_fail(BR_ERROR_ARGUMENT, op, "%s has no parameter or buffer '%s'", state->class_name,
                   name);
}

static bool good_field(const br_module_state *state, const br_entry *entry, br_tensor **field)
{
    if (field && *field != entry->tensor)
        br_fail(BR_ERROR_ARGUMENT, op, "field does not point to the tensor '%s' of %s", entry->name,
                state->class_name);
    return !br_failed();
}

/* Frees a module that cannot be used, unless it is part of a tree. */
static void drop(br_module *parametrization)
{
    if (parametrization && parametrization->state && !parametrization->state->parent)
        br_module_free(parametrization);
}

/* ---- Registering: the first parametrization of a parameter ----------------------------------- */

/* Adds an original with the kind and the requires_grad of the entry that it replaces. */
static void add_original(br_parametrization_list *list, const char *name, br_tensor *t,
                         const br_entry *from)
{
    br_module *base = br_base(list);
    if (from->kind != BR_ENTRY_PARAMETER) {
        br_module_add_buffer(base, name, t, from->kind == BR_ENTRY_BUFFER);
        return;
    }
    bool requires_grad = br_requires_grad(from->tensor);
    if (br_module_add_parameter(base, name, t) && br_is_floating(t))
        br_set_requires_grad(t, requires_grad);
}

static br_parametrization_list *make_list(const br_entry *entry, br_module *parametrization,
                                          const br_parametrization_options *o,
                                          br_tensor **originals)
{
    br_parametrization_list *list =
        br_module_create(sizeof(br_parametrization_list), "ParametrizationList");
    list->forward = o->forward;
    list->n_originals = o->n_originals;
    for (int i = 0; i < o->n_originals; i++) {
        char name[32] = "original";
        if (o->n_originals > 1)
            snprintf(name, sizeof name, "original%d", i);
        add_original(list, name, originals[i], entry);
    }
    br_child(list, "0", parametrization);
    return list;
}

/* Returns the child that contains the lists, and creates it if there is none. */
static br_module *dict_of(br_module_state *state)
{
    for (int64_t i = 0; i < state->n_children; i++)
        if (strcmp(state->children[i]->name, dict_name) == 0)
            return state->children[i]->module;
    bool incomplete = state->incomplete;
    br_module *dict = br_module_create(sizeof(br_module), "ModuleDict");
    dict = br_module_add_child(state->module, dict_name, dict);
    state->incomplete = incomplete; /* on failure the module is unchanged */
    return dict;
}

static void free_if_empty(br_module *dict)
{
    if (br_module_num_children(dict) == 0)
        br_module_free(dict);
}

static void remove_entry(br_module_state *state, br_entry *entry)
{
    br_free(entry->name);
    br_release(entry->tensor);
    br_entry *end = state->entries + --state->n_entries;
    memmove(entry, entry + 1, (size_t)(end - entry) * sizeof *entry);
}

/* Replaces the parameter by the list, and takes ownership of the list. */
static bool install(br_module_state *state, br_entry *entry, br_tensor **field,
                    br_parametrization_list *list)
{
    br_parametrized *p = br_failed() ? NULL : br_calloc(1, sizeof *p);
    br_module *dict = p ? dict_of(state) : NULL;
    if (!dict)
        br_module_free(list);
    if (!dict || !br_module_add_child(dict, entry->name, list)) {
        free_if_empty(dict);
        br_free(p);
        return false;
    }
    *p = (br_parametrized){ NULL, field, list, NULL };
    br_parametrized **end = &state->parametrized;
    while (*end)
        end = &(*end)->next;
    *end = p;
    remove_entry(state, entry);
    if (field)
        *field = NULL;
    return true;
}

/* A single original is the parameter's own tensor, which optimizers may already hold. Its value is
 * set at the end, when nothing else can fail. */
static bool register_first(br_module_state *state, const char *name, br_tensor **field,
                           br_module *parametrization, const br_parametrization_options *o)
{
    br_tensor *originals[BR_MAX_ORIGINALS] = { NULL };
    br_entry *entry = good_options(o) ? find_entry(state, name) : NULL;
    if (!entry || !good_field(state, entry, field) ||
        !originals_of(parametrization, entry, o, originals) ||
        !same_kind(br_module_class(parametrization), entry->tensor,
                   br__run_first_parametrization(o->forward, parametrization, originals))) {
        drop(parametrization);
        return false;
    }
    br_tensor *t = entry->tensor, *start = originals[0];
    if (o->n_originals == 1 && br__same_shape(start, t))
        originals[0] = t;
    if (!install(state, entry, field, make_list(entry, parametrization, o, originals)))
        return false;
    return originals[0] == start || br_copy_(t, start);
}

/* ---- Registering: the public function -------------------------------------------------------- */

static bool register_next(br_parametrized *p, br_module *parametrization,
                          const br_parametrization_options *o)
{
    br_tensor *value = NULL, *next = NULL;
    if (o->n_originals > 1 || o->forward || o->right_inverse)
        br_fail(BR_ERROR_ARGUMENT, op,
                "'%s' is already parametrized: further parametrizations take no options",
                name_of(p));
    else if ((value = br__compute_parametrized(p->list)))
        next = br_forward(parametrization, value);
    if (!same_kind(br_module_class(parametrization), value, next)) {
        drop(parametrization);
        return false;
    }
    char name[24];
    snprintf(name, sizeof name, "%" PRId64, br_module_num_children(br_base(p->list)));
    return br_child(p->list, name, parametrization) != NULL;
}

static bool good_arguments(const br_module *module, const char *name,
                           const br_module *parametrization)
{
    if (br_failed() || !br_module_is_usable(op, module) ||
        !br_module_is_usable(op, parametrization) || !br__required(op, "name", name))
        return false;
    if (parametrization->state->parent)
        br_fail(BR_ERROR_ARGUMENT, op, "the parametrization already has a parent");
    return !br_failed();
}

bool br_register_parametrization(br_module *module, const char *name, br_tensor **field,
                                 void *parametrization, const br_parametrization_options *options)
{
    if (!good_arguments(module, name, parametrization)) {
        drop(parametrization);
        return false;
    }
    const br_parametrization_options *o =
        BR_OPTIONS_OF("register_parametrization", br_parametrization, options);
    br_train(parametrization, br_is_training(module));
    br_scope *scope = br_no_grad_begin();
    br_parametrized *before = find(module->state, name);
    bool ok = before ? register_next(before, parametrization, o)
                     : register_first(module->state, name, field, parametrization, o);
    br_scope_end(scope);
    return ok;
}

/* ---- Removing -------------------------------------------------------------------------------- */

/* Returns the tensor that becomes the parameter: a tensor of the innermost scope, or an original.
 */
static br_tensor *final_value(br_parametrized *p, bool leave_parametrized)
{
    const char *what = "remove_parametrizations";
    br_tensor *first = p->list->base.state->entries[0].tensor;
    if (!leave_parametrized) {
        if (p->list->n_originals == 1)
            return first;
        return br_fail(BR_ERROR_ARGUMENT, what,
                       "'%s' is computed from %d originals, none of which can replace it: set "
                       "leave_parametrized",
                       name_of(p), p->list->n_originals);
    }
    br_tensor *value = br_contiguous(br__compute_parametrized(p->list));
    if (!value || p->list->n_originals > 1 || !br__same_shape(first, value))
        return br_clone(value);
    return br_copy_(first, value);
}

static void unlink(br_module_state *state, br_parametrized *gone)
{
    br_parametrized **at = &state->parametrized;
    while (*at != gone)
        at = &(*at)->next;
    *at = gone->next;
    br__parametrized_clear(gone);
    br_free(gone);
}

static bool put_back(br_module_state *state, br_parametrized *p, br_tensor *t)
{
    br_module *module = state->module, *list = br_base(p->list);
    br_entry first = list->state->entries[0];
    bool requires_grad = br_requires_grad(first.tensor), incomplete = state->incomplete;
    br_tensor *added =
        first.kind == BR_ENTRY_PARAMETER
            ? br_module_add_parameter(module, name_of(p), t)
            : br_module_add_buffer(module, name_of(p), t, first.kind == BR_ENTRY_BUFFER);
    state->incomplete = incomplete;
    if (added && br_is_floating(t) && br_is_leaf(t))
        br_set_requires_grad(t, requires_grad);
    return added != NULL;
}

bool br_remove_parametrizations(br_module *module, const char *name, bool leave_parametrized)
{
    br_parametrized *p = required("remove_parametrizations", module, name);
    if (!p)
        return false;
    br_scope *scope = br_no_grad_begin();
    br_tensor *t = final_value(p, leave_parametrized), **field = p->field;
    bool ok = t && put_back(module->state, p, t);
    if (ok) {
        br_module *list = br_base(p->list), *dict = list->state->parent->module;
        unlink(module->state, p);
        br_module_free(list);
        free_if_empty(dict);
        if (field)
            *field = t;
    }
    br_scope_end(scope);
    return ok;
}
