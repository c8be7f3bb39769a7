/* autograd/hooks.c - who looks at gradients on their way: hooks, and tensors that keep theirs. */
#include "autograd/tape.h"

static bool on_the_tape(const char *op, const br_tensor *t)
{
    if (!br__required(op, "t", t))
        return false;
    if (!br_requires_grad(t))
        br__fail(BR_ERROR_STATE, op, "t %s does not require grad", br__shape(t));
    return br_requires_grad(t);
}

br_tensor *br_retain_grad(br_tensor *t)
{
    if (!on_the_tape("retain_grad", t))
        return NULL;
    br_autograd *a = br__autograd(t);
    if (a->node)
        a->node->outputs[a->output].keeper = a;
    return t;
}

static br_hook **hooks_of(br_autograd *a)
{
    return a->node ? &a->node->outputs[a->output].hooks : &a->hooks;
}

/* Appends a hook, and returns its handle. */
static uint64_t add_hook(br_hook **end, br_hook hook)
{
    static atomic_uint_fast64_t handles;
    br_hook *h = br__malloc(sizeof *h);
    if (!h)
        return 0;
    *h = hook;
    h->handle = atomic_fetch_add(&handles, 1) + 1;
    while (*end)
        end = &(*end)->next;
    *end = h;
    return h->handle;
}

uint64_t br_register_hook(br_tensor *t, br_hook_fn hook, void *context)
{
    if (!on_the_tape("register_hook", t))
        return 0;
    if (!hook) {
        br__fail(BR_ERROR_ARGUMENT, "register_hook", "hook is NULL, but it is required");
        return 0;
    }
    return add_hook(hooks_of(br__autograd(t)), (br_hook){ .fn = hook, .context = context });
}

uint64_t br_register_post_accumulate_grad_hook(br_tensor *leaf, br_accumulated_fn hook,
                                               void *context)
{
    const char *op = "register_post_accumulate_grad_hook";
    if (!on_the_tape(op, leaf))
        return 0;
    if (!hook || !br_is_leaf(leaf)) {
        br__fail(BR_ERROR_ARGUMENT, op,
                 hook ? "leaf %s was made by %s: it has no gradient of its own"
                      : "hook is NULL, but it is required",
                 br__shape(leaf), br_op_name(leaf));
        return 0;
    }
    return add_hook(&br__autograd(leaf)->hooks,
                    (br_hook){ .accumulated = hook, .context = context });
}

void br_remove_hook(br_tensor *t, uint64_t handle)
{
    br_autograd *a = br__autograd(t);
    for (br_hook **h = a ? hooks_of(a) : NULL; h && *h; h = &(*h)->next) {
        if ((*h)->handle == handle) {
            br_hook *gone = *h;
            *h = gone->next;
            br_free(gone);
            return;
        }
    }
}

void br__free_hooks(br_hook **hooks)
{
    while (*hooks) {
        br_hook *h = *hooks;
        *hooks = h->next;
        br_free(h);
    }
}

bool br__run_hooks(const br_hook *hooks, br_tensor **grad)
{
    for (const br_hook *h = hooks; h; h = h->next) {
        br_tensor *replaced = h->fn ? h->fn(*grad, h->context) : NULL;
        if (br__failed())
            return false;
        if (!replaced || replaced == *grad)
            continue;
        if (!br_same_shape(replaced, *grad) || replaced->dtype != (*grad)->dtype) {
            br__fail(BR_ERROR_SHAPE, "backward",
                     "a hook returned a gradient %s of %s in place of %s of %s",
                     br__shape(replaced), br_dtype_name(replaced->dtype), br__shape(*grad),
                     br_dtype_name((*grad)->dtype));
            return false;
        }
        br_retain(replaced);
        br_release(*grad);
        *grad = replaced;
    }
    return true;
}

bool br__run_accumulated(br_tensor *leaf)
{
    const br_autograd *a = br__autograd(leaf);
    for (const br_hook *h = a ? a->hooks : NULL; h && !br__failed(); h = h->next)
        if (h->accumulated)
            h->accumulated(leaf, h->context);
    return !br__failed();
}
