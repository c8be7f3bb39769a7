/* autograd/set_grad.c - sets the gradient of a tensor. */
#include "autograd/cycles.h"

bool br_set_grad(br_tensor *t, br_tensor *grad)
{
    if (!grad) { /* allowed even while an error is pending */
        br__drop_grad(t);
        return t != NULL;
    }
    if (!br__required("set_grad", "t", t) || !br__compatible("set_grad", "t", t, "grad", grad))
        return false;
    if (!br__same_shape(t, grad)) {
        br_fail(BR_ERROR_SHAPE, "set_grad", "grad %s must have t's shape %s", br__shape(grad),
                br__shape(t));
        return false;
    }
    if (br__grad_references(grad, t)) {
        br_fail(BR_ERROR_ARGUMENT, "set_grad",
                "grad %s is t, a view of t, or has t as its own gradient: pass a clone",
                br__shape(grad));
        return false;
    }
    br_autograd *a = br__autograd_make(t);
    if (!a)
        return false;
    br_tensor *old = a->grad;
    a->grad = br_retain(grad);
    a->grad_pass = 0;
    grad->is_grad = true;
    if (grad->base)
        grad->base->is_grad = true;
    br_release(old);
    if (br_is_leaf(grad))
        return true;
    if (br_is_leaf(t))
        return br__end_history_with(NULL, t);
    /* t may be a leaf's gradient, whose history has ended: that of grad must end, too. */
    return !t->is_grad || br__end_history_with(NULL, grad);
}
