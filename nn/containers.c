/* nn/containers.c - Sequential, ModuleList and ParameterList, whose parts are named "0", "1", ...,
 * and ModuleDict. */
#include "nn/nn_internal.h"

#include <inttypes.h>
#include <string.h>

/* `op` names the container's function in messages. */
static void *append(const char *op, br_module *self, void *module)
{
    char name[24];
    if (!module && br_module_is_usable(op, self)) {
        self->state->incomplete = true;
        return br_fail(BR_ERROR_ARGUMENT, op, "module %" PRId64 " is NULL, but it is required",
                       br_module_num_children(self));
    }
    snprintf(name, sizeof name, "%" PRId64, br_module_num_children(self));
    return br_module_add_child(self, name, module);
}

/* Returns the position that i means, of n, or -1 and sets an error. `parts` names them in it. */
static int64_t position(const char *op, const char *parts, int64_t i, int64_t n)
{
    if (i < -n || i >= n) {
        br_fail(BR_ERROR_INDEX, op, "index %" PRId64 " is out of range for %" PRId64 " %s", i, n,
                parts);
        return -1;
    }
    return i < 0 ? i + n : i;
}

/* ---- Sequential ------------------------------------------------------------------------------ */

static br_tensor *forward_sequential(void *self, br_tensor *x)
{
    return br_sequential_forward(self, x);
}

br_sequential *br_sequential_new(int n, void *const *modules)
{
    br_sequential *self = br_module_create(sizeof *self, "Sequential");
    br_module *base = br_base(self);
    if (base->state)
        base->state->forward = forward_sequential;
    if (n < 0 || (n > 0 && !modules)) {
        br_fail(BR_ERROR_ARGUMENT, "sequential",
                "n is %d and the list of modules is %s: it must have n >= 0 modules", n,
                modules ? "not NULL" : "NULL");
        return self;
    }
    /* The container owns all modules, even if some are invalid. */
    for (int i = 0; i < n; i++) {
        br_module *module = append("sequential", base, modules[i]);
        if (module && !module->state->forward)
            br_fail(BR_ERROR_ARGUMENT, "sequential",
                    "module %d, %s, has no forward function of one tensor", i,
                    module->state->class_name);
    }
    if (br_failed() && base->state)
        base->state->incomplete = true;
    return self;
}

static br_tensor *run_sequential(void *module, br_tensor *const *inputs, const void *args)
{
    (void)args;
    br_sequential *self = module;
    br_tensor *x = inputs[0];
    if (!br_module_enter_from("sequential_forward", br_base(self), &x))
        return NULL;
    const br_module_state *state = self->base.state;
    br__required("sequential", "x", x); /* also without modules, which would refuse NULL */
    for (int64_t i = 0; i < state->n_children; i++)
        x = br_scope_replace(x, br_forward(state->children[i]->module, x));
    return br_leave(self, br_failed() ? NULL : x);
}

br_tensor *br_sequential_forward(br_sequential *self, br_tensor *x)
{
    if (!br_module_is_usable("sequential", self))
        return NULL;
    return br_module_run(self, run_sequential, BR_INPUTS(x), NULL, 0);
}

/* ---- ModuleList ------------------------------------------------------------------------------ */

br_module_list *br_module_list_new(void)
{
    return br_module_create(sizeof(br_module_list), "ModuleList");
}

void *br_module_list_append(br_module_list *self, void *module)
{
    return append("module_list_append", self ? br_base(self) : NULL, module);
}

int64_t br_module_list_size(const br_module_list *self)
{
    return br_module_num_children(self ? br_base(self) : NULL);
}

void *br_module_list_at(const br_module_list *self, int64_t i)
{
    if (!br_module_is_usable("module_list", self))
        return NULL;
    i = position("module_list", "modules", i, br_module_list_size(self));
    return i < 0 ? NULL : self->base.state->children[i]->module;
}

/* ---- ModuleDict ------------------------------------------------------------------------------ */

br_module_dict *br_module_dict_new(void)
{
    return br_module_create(sizeof(br_module_dict), "ModuleDict");
}

void *br_module_dict_add(br_module_dict *self, const char *key, void *module)
{
    const char *op = "module_dict_add";
    if (br_module_is_usable(op, self) && br__required(op, "key", key))
        br_module_is_usable(op, module);
    /* Also after an error, because the dict owns the module. The first error stays. */
    return br_module_add_child(self ? br_base(self) : NULL, key, module);
}

void *br_module_dict_at(const br_module_dict *self, const char *key)
{
    if (!br_module_is_usable("module_dict", self) || !br__required("module_dict", "key", key))
        return NULL;
    const br_module_state *state = self->base.state;
    for (int64_t i = 0; i < state->n_children; i++)
        if (strcmp(state->children[i]->name, key) == 0)
            return state->children[i]->module;
    return br_fail(BR_ERROR_INDEX, "module_dict", "key \"%s\" is none of the %" PRId64 " keys",
                   br_printable(key), state->n_children);
}

/* ---- ParameterList --------------------------------------------------------------------------- */

br_parameter_list *br_parameter_list_new(void)
{
    return br_module_create(sizeof(br_parameter_list), "ParameterList");
}

br_tensor *br_parameter_list_append(br_parameter_list *self, br_tensor *t)
{
    if (!br_module_is_usable("parameter_list", self) || !br__required("parameter_list", "t", t))
        return NULL;
    char name[24];
    snprintf(name, sizeof name, "%" PRId64, self->base.state->n_entries);
    return br_parameter(self, name, t);
}

int64_t br_parameter_list_size(const br_parameter_list *self)
{
    return br_module_is_usable("parameter_list", self) ? self->base.state->n_entries : 0;
}

br_tensor *br_parameter_list_at(br_parameter_list *self, int64_t i)
{
    if (!br_module_is_usable("parameter_list", self))
        return NULL;
    const br_module_state *state = self->base.state;
    i = position("parameter_list", "parameters", i, state->n_entries);
    return i < 0 ? NULL : br__current_value(br_base(self), state->entries[i].name);
}
