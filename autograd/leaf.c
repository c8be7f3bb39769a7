/* autograd/leaf.c - a tensor's side of the tape: asking for gradients, hooks, grad mode. */
#include "autograd/tape.h"

/* ---- A tensor's place on the tape ------------------------------------------------------------ */

static void destroy(br_meta *meta)
{
    br_autograd *a = (br_autograd *)(void *)meta;
    if (a->node && a->node->outputs[a->output].keeper == a)
        a->node->outputs[a->output].keeper = NULL;
    br__node_release(a->node);
    br_release(a->grad);
    br__free_hooks(&a->hooks);
    if (a->host)
        br__node_release(a->host);
    else
        br__object_free(a, sizeof *a);
}

const br_meta br__autograd_meta = { destroy };

br_autograd *br__autograd_make(br_tensor *t)
{
    if (t->meta)
        return br__autograd(t);
    br_autograd *a = br__object_alloc(sizeof *a);
    if (!a)
        return NULL;
    *a = (br_autograd){ .meta = br__autograd_meta };
    t->meta = &a->meta;
    return a;
}

bool br_requires_grad(const br_tensor *t)
{
    const br_autograd *a = br__autograd(t);
    return a && (a->node || a->requires_grad);
}

bool br_is_leaf(const br_tensor *t)
{
    const br_autograd *a = br__autograd(t);
    return t && !(a && a->node);
}

br_tensor *br_set_requires_grad(br_tensor *t, bool requires_grad)
{
    if (!br__required("set_requires_grad", "t", t))
        return NULL;
    if (!br_is_leaf(t)) {
        if (requires_grad)
            return t;
        return br__fail(BR_ERROR_STATE, "set_requires_grad",
                        "t %s was made by %s: only leaves can stop asking, use br_detach()",
                        br__shape(t), br_op_name(t));
    }
    if (requires_grad && !br__floating("set_requires_grad", "t", t))
        return NULL;
    if (!requires_grad && !t->meta)
        return t;
    br_autograd *a = br__autograd_make(t);
    if (!a)
        return NULL;
    a->requires_grad = requires_grad;
    if (requires_grad)
        br__leave_base(t); /* a leaf has its own history */
    return t;
}

br_tensor *br_grad_of(const br_tensor *t)
{
    const br_autograd *a = br__autograd(t);
    return a ? a->grad : NULL;
}

bool br_set_grad(br_tensor *t, br_tensor *grad)
{
    if (!grad) { /* dropping one is always right, even while an error is pending */
        br_autograd *a = br__autograd(t);
        if (a) {
            br_tensor *old = a->grad;
            a->grad = NULL;
            br_release(old);
        }
        return t != NULL;
    }
    if (!br__required("set_grad", "t", t) || !br__same_dtype("set_grad", "t", t, "grad", grad))
        return false;
    if (!br_same_shape(t, grad)) {
        br__fail(BR_ERROR_SHAPE, "set_grad", "grad %s must have t's shape %s", br__shape(grad),
                 br__shape(t));
        return false;
    }
    br_autograd *a = br__autograd_make(t);
    if (!a)
        return false;
    br_tensor *old = a->grad;
    a->grad = br_retain(grad);
    br_release(old);
    return true;
}

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

br_tensor *br_detach(br_tensor *t)
{
    if (!br__required("detach", "t", t))
        return NULL;
    return br__detached(t);
}

/* Its place on the tape may stand in the node that made it, which would stay with it: the gradient
 * moves to a place of its own. */
br_tensor *br_detach_(br_tensor *t)
{
    if (!br__required("detach_", "t", t))
        return NULL;
    if (t->is_view)
        return br__fail(BR_ERROR_STATE, "detach_",
                        "t %s is a view, whose history is that of its base: use br_detach()",
                        br__shape(t));
    br_autograd *old = br__autograd(t);
    if (!old)
        return t;
    t->meta = NULL;
    br_autograd *own = old->grad ? br__autograd_make(t) : NULL;
    if (old->grad && !own) {
        t->meta = &old->meta;
        return NULL;
    }
    if (own) {
        own->grad = old->grad;
        old->grad = NULL;
    }
    old->meta.destroy(&old->meta);
    return t;
}

/* ---- Hooks ----------------------------------------------------------------------------------- */

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

/* ---- Grad mode ------------------------------------------------------------------------------- */

static br_scope *begin_with(bool no_grad)
{
    br_scope *scope = br_scope_begin();
    if (scope)
        br__thread.no_grad = no_grad;
    return scope;
}

br_scope *br_no_grad_begin(void)
{
    return begin_with(true);
}

br_scope *br_enable_grad_begin(void)
{
    return begin_with(false);
}

void br_set_grad_enabled(bool enabled)
{
    br__thread.no_grad = !enabled;
}

bool br_grad_enabled(void)
{
    return !br__thread.no_grad;
}
