/* autograd/in_place.c - recorded changes in place.
 *
 * The tape has values that never change; a change in place makes a tensor stand for another one. If
 * it has views, or is one, so do all of its family, a base and the views of it: a base that was
 * changed through a view becomes "the old base with the view's new value where the view is", and a
 * view whose base has become another becomes "what it shows of the new base". Views find that out
 * when somebody next asks for their history. Saved values are not of the family: a change of theirs
 * is an error (br_saved). */
#include "autograd/in_place.h"
#include "autograd/anomaly.h"

#include <string.h>

/* ---- Gradients ------------------------------------------------------------------------------- */

/* view = what it shows of base */
static void view_backward(br_node *node, br_tensor *dy, br_tensor **dx)
{
    dx[0] = br__grad_ops.fill_part(dy, br_params(node));
}

static const br_op view_op = { "view_in_place", view_backward, false };

/* base = the base before, with the view's value where the view is */
static void base_backward(br_node *node, br_tensor *dy, br_tensor **dx)
{
    if (br_wants(node, 0))
        dx[0] = br__grad_ops.clear_part(dy, br_params(node));
    if (br_wants(node, 1))
        dx[1] = br__grad_ops.part(dy, br_params(node));
}

static const br_op base_op = { "change_in_place", base_backward, false };

/* ---- Families -------------------------------------------------------------------------------- */

/* Where t lies in its base. */
static br_part part_of(const br_tensor *t)
{
    const br_tensor *base = t->base;
    br_part part = { .ndim = t->ndim, .base_ndim = base->ndim };
    part.offset = (t->data - base->data) / (ptrdiff_t)br_dtype_size(t->dtype);
    memcpy(part.sizes, t->sizes, (size_t)t->ndim * sizeof *t->sizes);
    memcpy(part.strides, t->strides, (size_t)t->ndim * sizeof *t->strides);
    memcpy(part.base_sizes, base->sizes, (size_t)base->ndim * sizeof *base->sizes);
    return part;
}

void br__follow_base(const br_tensor *t)
{
    br_tensor *view = (br_tensor *)t, *base = t->base;
    view->changes = base->changes;
    const br_autograd *a = br__autograd(base);
    if (!a || !a->node || br__failed())
        return;
    br_part part = part_of(view);
    br__record_as(&view_op, view, BR_INPUTS(base), &part, sizeof part);
}

/* Says of a tensor that has become another one so to its views, and to its base if it is one. */
static bool tell_family(br_tensor *t)
{
    if (!t->base) {
        t->changes++;
        return true;
    }
    br_part part = part_of(t);
    if (!br__record_as(&base_op, t->base, BR_INPUTS(t->base, t), &part, sizeof part))
        return false;
    t->base->changes++;
    return true;
}

/* ---- Changing -------------------------------------------------------------------------------- */

/* True if t is a leaf that asks for its gradient, or a view of one. */
static bool is_of_leaf(const br_tensor *t)
{
    const br_autograd *a = br__autograd(t->base ? t->base : t);
    return a && a->requires_grad && !a->node;
}

/* True if a change of t can be recorded; `op` would make it. */
static bool can_record(const char *op, const br_tensor *t)
{
    if (t->untracked)
        br__fail(BR_ERROR_STATE, op,
                 "a %s is a view that was made in a no-grad scope: a recorded change would not "
                 "reach what it is a view of, clone it first",
                 br__shape(t));
    else if (t->base && !t->base->contiguous)
        br__fail(BR_ERROR_STATE, op,
                 "a %s is a view of %s, which is not contiguous: clone that first", br__shape(t),
                 br__shape(t->base));
    return !br_failed();
}

bool br_before_in_place(const char *op, br_tensor *t)
{
    if (!br__required(op, "a", t))
        return false;
    if (BR_PROFILING)
        br__event_result(t);
    for (int i = 0; i < t->ndim; i++) {
        if (t->strides[i] == 0 && t->sizes[i] > 1) {
            br__fail(BR_ERROR_STATE, op,
                     "a %s is expanded: several elements are the same memory, clone it first",
                     br__shape(t));
            return false;
        }
    }
    if (!br__thread.no_grad && is_of_leaf(t)) {
        br__fail(BR_ERROR_STATE, op,
                 "a %s is a %s that requires grad: change it inside br_no_grad_begin()",
                 br__shape(t), t->base ? "view of a leaf" : "leaf");
        return false;
    }
    if (!br__thread.no_grad && br_requires_grad(t) && !can_record(op, t))
        return false;
    t->storage->writer = op;
    br_bump_version(t);
    return true;
}

br_node *br_record_in_place(const br_op *op, br_tensor *t, int n_inputs, br_tensor *const *inputs,
                            const void *params, size_t params_size)
{
    if (BR_ANOMALY && !br__anomaly_forward(op, t, n_inputs, inputs))
        return NULL;
    if (br__failed() || br__thread.no_grad || !t || !br__any_requires_grad(n_inputs, inputs) ||
        !can_record(op->name, t))
        return NULL;
    br_node *node = br__record_as(op, t, n_inputs, inputs, params, params_size);
    return node && tell_family(t) ? node : NULL;
}
