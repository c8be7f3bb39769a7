/* nn/containers.c - Sequential and ModuleList: modules named "0", "1", ... */
#include "nn/nn_internal.h"

#include <inttypes.h>

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
    int64_t n = br_module_list_size(self);
    if (i < -n || i >= n)
        return br_fail(BR_ERROR_INDEX, "module_list",
                       "index %" PRId64 " is out of range for %" PRId64 " modules", i, n);
    return self->base.state->children[i < 0 ? i + n : i]->module;
}
