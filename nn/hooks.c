/* nn/hooks.c - functions that a program hangs on a module's forward. */
#include "nn/nn_internal.h"

struct br_module_hook {
    br_module_hook *next;
    uint64_t handle;
    bool before; /* a pre-hook */
    br_module_hook_fn run;
    void *context;
};

static uint64_t add_hook(const char *op, br_module *module, br_module_hook_fn run, void *context,
                         bool before)
{
    if (br_failed() || !br__module_alive(op, module))
        return 0;
    if (!run) {
        br__fail(BR_ERROR_ARGUMENT, op, "hook is NULL, but it is required");
        return 0;
    }
    br_module_hook *hook = br__malloc(sizeof *hook), **end = &module->state->hooks;
    if (!hook)
        return 0;
    *hook = (br_module_hook){ NULL, 1, before, run, context };
    for (; *end; end = &(*end)->next)
        hook->handle = (*end)->handle + 1;
    *end = hook;
    return hook->handle;
}

uint64_t br_module_register_forward_pre_hook(br_module *module, br_module_hook_fn hook,
                                             void *context)
{
    return add_hook("register_forward_pre_hook", module, hook, context, true);
}

uint64_t br_module_register_forward_hook(br_module *module, br_module_hook_fn hook, void *context)
{
    return add_hook("register_forward_hook", module, hook, context, false);
}

void br_module_remove_hook(br_module *module, uint64_t handle)
{
    if (!module || !module->state)
        return;
    br_module_hook **at = &module->state->hooks;
    while (*at && (*at)->handle != handle)
        at = &(*at)->next;
    if (!*at)
        return;
    br_module_hook *gone = *at;
    *at = gone->next;
    br_free(gone);
}

bool br__run_module_hooks(br_module_state *state, bool before, br_tensor **t)
{
    for (br_module_hook *hook = state->hooks, *next; hook && !br_failed(); hook = next) {
        next = hook->next; /* a hook may remove itself */
        br_tensor *other =
            hook->before == before ? hook->run(state->module, *t, hook->context) : NULL;
        if (other)
            *t = other;
    }
    return !br_failed();
}

void br__free_module_hooks(br_module_state *state)
{
    while (state->hooks) {
        br_module_hook *next = state->hooks->next;
        br_free(state->hooks);
        state->hooks = next;
    }
}
