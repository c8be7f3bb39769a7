/* nn/hooks.c - hooks on a module's forward and backward.
 *
 * Backward hooks are run by two identity operations, one on the module's input and one on its
 * result. Both save the same tensor without elements, which owns the data of the call, so that the
 * data is freed with the graph. The call has a token of the module, since the module may be freed
 * before backward. */
#include "nn/nn_internal.h"

/* RESULT sees what the module computed, before FORWARD hooks may replace it. */
typedef enum hook_kind { PRE_FORWARD, RESULT, FORWARD, PRE_BACKWARD, BACKWARD } hook_kind;

typedef struct br_module_hook {
    br_hook_link link;
    hook_kind kind;
    br_module_hook_fn run;                   /* unless kind is BACKWARD */
    br_module_backward_hook_fn run_backward; /* if kind is BACKWARD */
    void *context;
} br_module_hook;

/* ---- The list -------------------------------------------------------------------------------- */

static uint64_t add_hook(const char *op, br_module *module, br_module_hook h)
{
    if (br_failed() || !br_module_is_usable(op, module))
        return 0;
    if (!h.run && !h.run_backward) {
        br_fail(BR_ERROR_ARGUMENT, op, "hook is NULL, but it is required");
        return 0;
    }
    br_module_hook *hook = br_malloc(sizeof *hook);
    if (!hook)
        return 0;
    *hook = h;
    return br__hook_append(&module->state->hooks, &hook->link);
}

uint64_t br_module_register_forward_pre_hook(br_module *module, br_module_hook_fn hook,
                                             void *context)
{
    return add_hook("register_forward_pre_hook", module,
                    (br_module_hook){ .kind = PRE_FORWARD, .run = hook, .context = context });
}

uint64_t br_module_register_forward_hook(br_module *module, br_module_hook_fn hook, void *context)
{
    return add_hook("register_forward_hook", module,
                    (br_module_hook){ .kind = FORWARD, .run = hook, .context = context });
}

uint64_t br__register_result_hook(br_module *module, br_module_hook_fn hook, void *context)
{
    return add_hook("register_forward_hook", module,
                    (br_module_hook){ .kind = RESULT, .run = hook, .context = context });
}

uint64_t br_module_register_full_backward_pre_hook(br_module *module, br_module_hook_fn hook,
                                                   void *context)
{
    return add_hook("register_full_backward_pre_hook", module,
                    (br_module_hook){ .kind = PRE_BACKWARD, .run = hook, .context = context });
}

uint64_t br_module_register_full_backward_hook(br_module *module, br_module_backward_hook_fn hook,
                                               void *context)
{
    return add_hook("register_full_backward_hook", module,
                    (br_module_hook){ .kind = BACKWARD, .run_backward = hook, .context = context });
}

void br_module_remove_hook(br_module *module, uint64_t handle)
{
    if (br__module_exists("remove_hook", module))
        br__hook_remove(&module->state->hooks, handle);
}

static const br_module_hook *hook_after(const br_module_state *state, uint64_t last, uint64_t end)
{
    return (const br_module_hook *)(void *)br__hook_after(state->hooks, last, end);
}

/* Runs the hooks of one kind on *t. Hooks may replace it. Returns false after an error. */
static bool run_hooks(br_module_state *state, hook_kind kind, br_tensor **t)
{
    const uint64_t end = br__hook_newest();
    uint64_t last = 0;
    for (const br_module_hook *hook; !br_failed() && (hook = hook_after(state, last, end));) {
        last = hook->link.handle;
        br_tensor *other = hook->kind == kind ? hook->run(state->module, *t, hook->context) : NULL;
        if (other)
            *t = other;
    }
    return !br_failed();
}

/* ---- Backward -------------------------------------------------------------------------------- */

/* One forward of a module with backward hooks. */
typedef struct call {
    br_module_token *token;
    /* Owned. Set when the gradient of the result arrives, and released after that of the input. */
    br_tensor *grad_output;
    bool has_input; /* the input requires grad */
} call;

static void free_call(void *context)
{
    call *c = context;
    br_release(c->grad_output);
    br__token_release(c->token);
    br_free(c);
}

/* Returns a tensor without elements that owns a new call: its storage frees the call. */
static br_tensor *new_call(br_module_state *state)
{
    call *c = br_calloc(1, sizeof *c);
    br_module_token *token = c ? br__token_of(state) : NULL;
    br_tensor *t = NULL;
    if (token) {
        c->token = token;
        t = br_borrow(BR_SHAPE(0), BR_I64, c, free_call, c);
    }
    if (!t) {
        br__token_release(token);
        br_free(c);
    }
    return t;
}

/* Returns the call that the tensor owns. */
static call *call_in(const br_tensor *t)
{
    return t ? t->storage->context : NULL;
}

static call *call_of(br_node *node)
{
    return call_in(br_saved(node, 0));
}

static br_tensor *run_backward_hooks(br_module_state *state, br_tensor *grad_input,
                                     br_tensor *grad_output)
{
    const uint64_t end = br__hook_newest();
    uint64_t last = 0;
    for (const br_module_hook *hook; !br_failed() && (hook = hook_after(state, last, end));) {
        last = hook->link.handle;
        br_tensor *other = hook->kind != BACKWARD ? NULL
                                                  : hook->run_backward(state->module, grad_input,
                                                                       grad_output, hook->context);
        if (other && grad_input)
            grad_input = other;
    }
    return grad_input;
}

static void output_backward(br_node *node, br_tensor *dy, br_tensor **dx)
{
    call *c = call_of(node);
    br_module *module = c ? br__token_module(c->token) : NULL;
    if (module && run_hooks(module->state, PRE_BACKWARD, &dy)) {
        br_release(c->grad_output);
        c->grad_output = c->has_input ? br_retain(dy) : NULL;
        if (!c->has_input)
            run_backward_hooks(module->state, NULL, dy);
    }
    dx[0] = dy;
}

static void input_backward(br_node *node, br_tensor *dy, br_tensor **dx)
{
    call *c = call_of(node);
    br_module *module = c ? br__token_module(c->token) : NULL;
    if (module) {
        dy = run_backward_hooks(module->state, dy, c->grad_output);
        br_release(c->grad_output);
        c->grad_output = NULL;
    }
    dx[0] = dy;
}

static const br_op input_op = { .name = "module_input", .backward = input_backward };
static const br_op output_op = { .name = "module_output", .backward = output_backward };

/* Returns a view of t computed by an identity operation that saves the call. */
static br_tensor *seen(const br_op *op, br_tensor *t, br_tensor *call_tensor)
{
    br_tensor *same = br__detached(t);
    br_node *node = br_record(op, same, BR_INPUTS(t), NULL, 0);
    br_save(node, 0, call_tensor);
    return same;
}

static bool sees_backward(const br_module_state *state)
{
    uint64_t last = 0;
    if (!br_grad_enabled())
        return false;
    for (const br_module_hook *hook; (hook = hook_after(state, last, UINT64_MAX));) {
        last = hook->link.handle;
        if (hook->kind == PRE_BACKWARD || hook->kind == BACKWARD)
            return true;
    }
    return false;
}

/* ---- Around a forward ------------------------------------------------------------------------ */

bool br__run_forward_pre_hooks(br_module_state *state, br_tensor **input)
{
    state->call = NULL;
    if (!run_hooks(state, PRE_FORWARD, input) || !sees_backward(state))
        return !br_failed();
    state->call = new_call(state);
    if (state->call && *input && br_requires_grad(*input)) {
        call_in(state->call)->has_input = true;
        *input = seen(&input_op, *input, state->call);
    }
    return !br_failed();
}

bool br__run_forward_hooks(br_module_state *state, br_tensor **result)
{
    br_tensor *call_tensor = state->call;
    state->call = NULL;
    if (run_hooks(state, RESULT, result) && run_hooks(state, FORWARD, result) && call_tensor &&
        br_requires_grad(*result))
        *result = seen(&output_op, *result, call_tensor);
    return !br_failed();
}
