/* autograd/hooks.c - hooks on gradients, and br_retain_grad(). */
#include "autograd/tape.h"

/* `name` is the tensor's name in the header. */
static bool on_the_tape(const char *op, const char *name, const br_tensor *t)
{
    if (!br__required(op, name, t))
        return false;
    if (!br_requires_grad(t))
        br_fail(BR_ERROR_STATE, op, "%s %s does not require grad", name, br__shape(t));
    return br_requires_grad(t);
}

br_tensor *br_retain_grad(br_tensor *t)
{
    if (!on_the_tape("retain_grad", "t", t))
        return NULL;
    br_autograd *a = br__autograd(t);
    if (a->node)
        a->node->outputs[a->output].retained_by = a;
    return t;
}

/* ---- Hooks of tensors ------------------------------------------------------------------------ */

typedef struct br_hook {
    br_hook_link link;
    br_hook_fn fn; /* one of the three is set */
    br_accumulated_fn accumulated;
    br_partial_grad_fn partial;
    void *context;
} br_hook;

static br_hook_link **hooks_of(br_autograd *a)
{
    return a->node ? &a->node->outputs[a->output].hooks : &a->hooks;
}

static uint64_t add_hook(br_hook_link **list, br_hook hook)
{
    br_hook *h = br_malloc(sizeof *h);
    if (!h)
        return 0;
    *h = hook;
    return br__hook_append(list, &h->link);
}

uint64_t br_register_hook(br_tensor *t, br_hook_fn hook, void *context)
{
    if (!on_the_tape("register_hook", "t", t))
        return 0;
    if (!hook) {
        br_fail(BR_ERROR_ARGUMENT, "register_hook", "hook is NULL, but it is required");
        return 0;
    }
    return add_hook(hooks_of(br__autograd(t)), (br_hook){ .fn = hook, .context = context });
}

/* Adds a hook that only leaves can have. */
static uint64_t add_leaf_hook(const char *op, br_tensor *leaf, br_hook hook)
{
    if (!on_the_tape(op, "leaf", leaf))
        return 0;
    bool given = hook.accumulated || hook.partial;
    if (given && br_is_leaf(leaf))
        return add_hook(&br__autograd(leaf)->hooks, hook);
    br_fail(BR_ERROR_ARGUMENT, op,
            given ? "the tensor %s is not a leaf: it was computed by %s"
                  : "hook is NULL, but it is required",
            br__shape(leaf), br_op_name(leaf));
    return 0;
}

uint64_t br_register_post_accumulate_grad_hook(br_tensor *leaf, br_accumulated_fn hook,
                                               void *context)
{
    return add_leaf_hook("register_post_accumulate_grad_hook", leaf,
                         (br_hook){ .accumulated = hook, .context = context });
}

uint64_t br_register_partial_grad_hook(br_tensor *leaf, br_partial_grad_fn hook, void *context)
{
    return add_leaf_hook("register_partial_grad_hook", leaf,
                         (br_hook){ .partial = hook, .context = context });
}

void br_remove_hook(br_tensor *t, uint64_t handle)
{
    br_autograd *a = BR_LIVE("remove_hook", t) ? br__autograd(t) : NULL;
    if (a)
        br__hook_remove(hooks_of(a), handle);
}

/* ---- Running hooks --------------------------------------------------------------------------- */

/* Calls a hook, which may remove itself, on *grad. */
static bool run_hook(const br_hook *hook, br_tensor **grad)
{
    br_tensor *replaced = hook->fn ? hook->fn(*grad, hook->context) : NULL;
    if (br__failed())
        return false;
    if (!replaced || replaced == *grad)
        return true;
    if (!br__same_shape(replaced, *grad) || replaced->dtype != (*grad)->dtype) {
        br_fail(BR_ERROR_SHAPE, "backward",
                "a hook returned a gradient of shape %s and dtype %s, expected %s and %s",
                br__shape(replaced), br_dtype_name(replaced->dtype), br__shape(*grad),
                br_dtype_name((*grad)->dtype));
        return false;
    }
    if (!br__same_device("backward", "a hook's gradient", replaced, "the gradient", *grad))
        return false;
    br_retain(replaced);
    br_release(*grad);
    *grad = replaced;
    return true;
}

static br_hook *hook_after(br_hook_link *list, uint64_t last, uint64_t end)
{
    return (br_hook *)(void *)br__hook_after(list, last, end);
}

bool br__run_hooks(br_hook_link *const *list, br_tensor **grad)
{
    const uint64_t end = br__hook_newest();
    uint64_t last = 0;
    for (const br_hook *h; (h = hook_after(*list, last, end));) {
        last = h->link.handle;
        if (!run_hook(h, grad))
            return false;
    }
    return true;
}

/* Returns the leaf's list of hooks. Called before each hook, since a hook may free the leaf's
 * metadata and with it the list. */
static br_hook_link *hooks_of_leaf(br_tensor *leaf)
{
    const br_autograd *a = br__autograd(leaf);
    return a ? a->hooks : NULL;
}

bool br__run_leaf_hooks(br_tensor *leaf, br_tensor **grad)
{
    const uint64_t end = br__hook_newest();
    uint64_t last = 0;
    for (const br_hook *h; (h = hook_after(hooks_of_leaf(leaf), last, end));) {
        last = h->link.handle;
        if (!run_hook(h, grad))
            return false;
    }
    return true;
}

/* Calls the leaf's partial-grad hooks with `partial`, or, if it is NULL, its post-accumulate-grad
 * hooks. */
static bool run_observers(br_tensor *leaf, br_tensor *partial)
{
    const uint64_t end = br__hook_newest();
    uint64_t last = 0;
    for (const br_hook *h; !br__failed() && (h = hook_after(hooks_of_leaf(leaf), last, end));) {
        last = h->link.handle;
        if (partial && h->partial)
            h->partial(partial, h->context);
        else if (!partial && h->accumulated)
            h->accumulated(leaf, h->context);
    }
    return !br__failed();
}

bool br__run_post_accumulate_hooks(br_tensor *leaf)
{
    return run_observers(leaf, NULL);
}

bool br__run_partial_hooks(br_tensor *leaf, br_tensor *grad)
{
    return run_observers(leaf, grad);
}

bool br__has_partial_hook(const br_autograd *a)
{
    for (br_hook_link *link = a ? a->hooks : NULL; link; link = link->next)
        if (((const br_hook *)(const void *)link)->partial)
            return true;
    return false;
}
