/* autograd/leaf.c - a tensor's side of the tape: asking for gradients, detaching, grad mode. */
#include "autograd/tape.h"

/* ---- A tensor's place on the tape ------------------------------------------------------------ */

static void destroy(br_meta *meta)
{
    br_autograd *a = (br_autograd *)(void *)meta;
    if (a->node && a->node->outputs[a->output].keeper == a)
        a->node->outputs[a->output].keeper = NULL;
    br__node_release(a->node);
    br_release(a->grad);
    if (a->hooks)
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
