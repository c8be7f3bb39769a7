/* autograd/leaf.c - autograd state of tensors: requires_grad, gradients, detaching, grad mode. */
#include "autograd/tape.h"

/* ---- State of a tensor ----------------------------------------------------------------------- */

bool br_requires_grad(const br_tensor *t)
{
    if (!BR_LIVE_ANY("requires_grad", t))
        return false;
    const br_autograd *a = br__autograd_as_is(t);
    return (a && (a->node || a->requires_grad)) || br__is_behind_base(t);
}

bool br_is_leaf(const br_tensor *t)
{
    if (!BR_LIVE_ANY("is_leaf", t))
        return t != NULL;
    const br_autograd *a = br__autograd_as_is(t);
    return !(a && a->node) && !br__is_behind_base(t);
}

br_tensor *br_set_requires_grad(br_tensor *t, bool requires_grad)
{
    if (!br__required_any("set_requires_grad", "t", t))
        return NULL;
    if (requires_grad && br__is_quantized(t))
        return br_fail(BR_ERROR_DTYPE, "set_requires_grad",
                       "t %s is quantized (%s) and cannot be trained: train a LoRA adapter, or "
                       "convert it with br_to(t, BR_F32)",
                       br__shape(t), br__block_info(t)->name);
    if (!br_is_leaf(t)) {
        if (requires_grad)
            return t;
        return br_fail(BR_ERROR_STATE, "set_requires_grad",
                       "t %s was computed by %s: requires_grad can be cleared only for leaves; "
                       "use br_detach()",
                       br__shape(t), br_op_name(t));
    }
    if (requires_grad && !br__floating("set_requires_grad", "t", t))
        return NULL;
    if (!requires_grad && !t->meta)
        return t;
    br_autograd *a = br__autograd_make(t);
    if (!a)
        return NULL;
    a->stopped |= a->requires_grad && !requires_grad;
    a->requires_grad = requires_grad;
    if (requires_grad)
        br__drop_base(t); /* a leaf has its own history */
    return t;
}

br_tensor *br_grad_of(const br_tensor *t)
{
    const br_autograd *a = BR_LIVE_ANY("grad_of", t) ? br__autograd_as_is(t) : NULL;
    return a ? a->grad : NULL;
}

void br__drop_grad(br_tensor *t)
{
    br_autograd *a = br__autograd(t);
    br_tensor *old = a ? a->grad : NULL;
    if (a)
        a->grad = NULL;
    br_release(old);
}

br_tensor *br_detach(br_tensor *t)
{
    if (!br__required_any("detach", "t", t))
        return NULL;
    return br__detached(t);
}

/* Drops t's history but keeps its gradient, and that a graph may still have t as a leaf. The
 * metadata may be embedded in the node that computed t and would keep that node alive, so what is
 * kept moves to separate metadata. */
static bool drop_history(br_tensor *t)
{
    br_autograd *old = (br_autograd *)(void *)t->meta;
    if (!old)
        return true;
    t->meta = NULL;
    bool stopped = old->stopped || old->requires_grad, keeps = old->grad || stopped;
    br_autograd *own = keeps ? br__autograd_make(t) : NULL;
    if (keeps && !own) {
        t->meta = &old->meta;
        return false;
    }
    if (own) {
        own->stopped = stopped;
        own->grad = old->grad;
        own->grad_pass = old->grad_pass;
        old->grad = NULL;
    }
    old->meta.destroy(&old->meta);
    return true;
}

void br__drop_history(br_tensor *t)
{
    if (!drop_history(t)) {
        br__drop_grad(t);
        br_autograd *a = br__autograd(t);
        a->stopped = a->requires_grad = false; /* nothing is left to move */
        drop_history(t);
    }
}

br_tensor *br_detach_(br_tensor *t)
{
    if (!br__required("detach_", "t", t))
        return NULL;
    if (t->is_view)
        return br_fail(BR_ERROR_STATE, "detach_",
                       "t %s is a view and shares the history of its base: use br_detach()",
                       br__shape(t));
    return drop_history(t) ? t : NULL;
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
