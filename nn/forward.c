/* nn/forward.c - forward passes: the scope of a module's forward, its hooks, and the parameters
 * that it computes from other tensors (parametrize.c). To compute them, other forward passes run.
 */
#include "nn/parametrized.h"

#include <string.h>

/* ---- Parametrized parameters ----------------------------------------------------------------- */

br_tensor *br__run_first_parametrization(br_module_run_fn forward, br_module *first,
                                         br_tensor *const *originals)
{
    return forward ? forward(first, originals, NULL) : br_forward(first, originals[0]);
}

br_tensor *br__compute_parametrized(br_parametrization_list *list)
{
    br_enter(list);
    const br_module_state *state = list->base.state;
    br_tensor *originals[BR_MAX_ORIGINALS] = { NULL };
    for (int i = 0; i < list->n_originals; i++)
        originals[i] = state->entries[i].tensor;
    br_tensor *value =
        br__run_first_parametrization(list->forward, state->children[0]->module, originals);
    for (int64_t i = 1; i < state->n_children; i++)
        value = br_forward(state->children[i]->module, value);
    return br_leave(list, value);
}

/* Returns true if the module's forward is running. */
static bool is_running(const br_module_state *state)
{
    const br_scope *scope = br__thread.scope;
    while (scope && scope->owner != state)
        scope = scope->outer;
    return scope != NULL;
}

static void end_parametrized(br_module_state *state)
{
    if (!state->parametrized || is_running(state))
        return;
    for (br_parametrized *p = state->parametrized; p; p = p->next)
        br__parametrized_clear(p);
}

static bool begin_parametrized(br_module_state *state)
{
    for (br_parametrized *p = state->parametrized; p; p = p->next) {
        br_tensor *value = br_retain(br__compute_parametrized(p->list));
        if (p->field)
            *p->field = value;
        br_release(p->value);
        p->value = value;
    }
    return !br_failed();
}

/* ---- The scope of a forward pass ------------------------------------------------------------- */

static bool open_scope(const char *op, br_module *module)
{
    if (br_failed() || !br_module_is_usable(op, module))
        return false;
    if (module->state->incomplete)
        br_fail(BR_ERROR_STATE, op,
                "%s is incomplete: its constructor failed to create a part of it",
                module->state->class_name);
    return !br_failed() && br__scope_begin_for(module->state);
}

bool br_module_enter(br_module *module)
{
    return br_module_enter_with(module, NULL);
}

bool br_module_enter_with(br_module *module, br_tensor **input)
{
    return br_module_enter_from("forward", module, input);
}

bool br_module_enter_from(const char *function, br_module *module, br_tensor **input)
{
    if (!br__required("module_enter_from", "function", function) ||
        !open_scope(strncmp(function, "br_", 3) == 0 ? function + 3 : function, module))
        return false;
    br_scope *scope = br__thread.scope;
    br_tensor *shown = input ? *input : NULL;
    if ((module->state->hooks && !br__run_forward_pre_hooks(module->state, &shown)) ||
        (module->state->parametrized && !begin_parametrized(module->state))) {
        br_scope_end(scope);
        end_parametrized(module->state);
        return false;
    }
    if (input)
        *input = shown;
    scope->input = shown;
    return true;
}

br_tensor *br_module_leave(br_module *module, br_tensor *result)
{
    if (br_failed())
        result = NULL;
    if (!br__module_exists("leave", module))
        return result;
    br_scope *scope = br__thread.scope;
    while (scope && scope->owner != module->state)
        scope = scope->outer;
    if (!scope) {
        if (!br_failed())
            br_fail(BR_ERROR_STATE, "leave",
                    "%s was not entered, or was left before: pass the module that was entered",
                    module->state->class_name);
        return NULL;
    }
    br_adapter *adapter = module->state->adapter;
    if (result && adapter && adapter->run)
        result = adapter->run(adapter, module, scope->input, result);
    if (result && module->state->hooks && !br__run_forward_hooks(module->state, &result))
        result = NULL;
    br_scope_return(scope, result);
    br_scope_end(scope);
    end_parametrized(module->state);
    return result;
}

/* ---- br_forward() ---------------------------------------------------------------------------- */

void br_module_set_forward(br_module *module, br_forward_fn forward)
{
    if (br_module_is_usable("set_forward", module))
        module->state->forward = forward;
}

static br_tensor *forward_one(void *self, br_tensor *const *inputs, const void *args)
{
    (void)args;
    return ((br_module *)self)->state->forward(self, inputs[0]);
}

br_tensor *br_forward(void *module, br_tensor *x)
{
    br_module *self = module;
    if (!br_module_is_usable("forward", self))
        return NULL;
    if (!self->state->forward)
        return br_fail(BR_ERROR_ARGUMENT, "forward",
                       "%s has no forward function of one tensor: set one with "
                       "br_module_set_forward(), or call the module's own forward function",
                       self->state->class_name);
    return br_module_run(self, forward_one, BR_INPUTS(x), NULL, 0);
}
