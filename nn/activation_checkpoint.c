/* nn/activation_checkpoint.c - activation checkpoints of modules: backward runs the module's
 * forward again to recompute the values that the gradients need. */
#include "nn/nn_internal.h"

#include <string.h>

/* Everything that is needed to run a forward again. The forward's arguments follow the struct. */
typedef struct again {
    br_module_token *token;
    br_module_run_fn forward;
    _Alignas(max_align_t) char args[];
} again;

/* The module whose forward is being run by a checkpoint. That forward must not start another
 * checkpoint of the module. */
static _Thread_local const br_module_state *inside;

/* ---- Turning checkpoints on and off ---------------------------------------------------------- */

/* Turning checkpoints off keeps the token, since graphs may still need it. */
bool br_module_checkpoint(br_module *module, bool on)
{
    if (br_failed() || !br_module_is_usable("module_checkpoint", module))
        return false;
    br_module_state *state = module->state;
    if (strcmp(state->class_name, "ModuleList") == 0) {
        for (int64_t i = 0; i < state->n_children && !br_failed(); i++)
            br_module_checkpoint(state->children[i]->module, on);
        return !br_failed();
    }
    state->checkpointed = on && br__token_begin(state);
    return !br_failed();
}

/* ---- Running --------------------------------------------------------------------------------- */

static br_tensor *call(br_tensor *const *inputs, int n, void *context)
{
    const again *a = context;
    (void)n;
    br_module *module = br__token_module(a->token);
    if (!module)
        return br_fail(BR_ERROR_STATE, "activation_checkpoint",
                       "the module was freed before backward, which must run its forward again");
    const br_module_state *before = inside;
    inside = module->state;
    br_tensor *y = a->forward(module, inputs, a->args);
    inside = before;
    return y;
}

static void free_again(void *context)
{
    br__token_release(((again *)context)->token);
    br_free(context);
}

/* Returns true if a forward that begins now must be a checkpoint. */
static bool checkpointed(const br_module_state *state)
{
    return state->checkpointed && inside != state && br_grad_enabled() && !br_failed();
}

static br_tensor *run_checkpoint(br_module_state *state, br_module_run_fn forward, int n_inputs,
                                 br_tensor *const *inputs, const void *args, size_t args_size)
{
    again *a = br_malloc(sizeof *a + args_size);
    if (!a)
        return NULL;
    a->token = br__token_of(state); /* exists since checkpoints were turned on */
    a->forward = forward;
    if (args_size > 0)
        memcpy(a->args, args, args_size);
    return br_activation_checkpoint(call, a, n_inputs, inputs,
                                    BR_OPTIONS(br_activation_checkpoint, .destroy = free_again));
}

static __attribute__((noinline, cold)) br_tensor *refuse_run(const br_module *module,
                                                             br_module_run_fn forward)
{
    if (!br_failed() && br_module_is_usable("forward", module))
        br_fail(BR_ERROR_ARGUMENT, "module_run", "%s is NULL, but it is required",
                forward ? "inputs" : "forward");
    return NULL;
}

br_tensor *br_module_run(void *self, br_module_run_fn forward, int n_inputs,
                         br_tensor *const *inputs, const void *args, size_t args_size)
{
    br_module *module = self;
    if (!module || !forward || (n_inputs > 0 && !inputs))
        return refuse_run(module, forward);
    if (br__module_exists("module_run", module) && checkpointed(module->state))
        return run_checkpoint(module->state, forward, n_inputs, inputs, args, args_size);
    return forward(self, inputs, args);
}
