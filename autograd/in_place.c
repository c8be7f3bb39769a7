/* autograd/in_place.c - recording of in-place changes.
 *
 * Values on the tape never change: after an in-place change, the tensor stands for a new value.
 * This applies to its whole family, which is a base and its views. A base that was changed through
 * a view becomes "the old base with the view's new value where the view is", and a view whose base
 * has changed becomes "its part of the new base". Views are updated when their history is next
 * needed. Saved values are not part of the family: changing one is an error (br_saved()). */
#include "autograd/in_place.h"
#include "autograd/anomaly.h"
#include "autograd/cycles.h"

/* ---- Gradients ------------------------------------------------------------------------------- */

/* Gradient of base = old base with the view's value where the view is. */
static void base_backward(br_node *node, br_tensor *dy, br_tensor **dx)
{
    if (br_needs_input_grad(node, 0))
        dx[0] = br__grad_ops.clear_part(dy, br_params(node));
    if (br_needs_input_grad(node, 1))
        dx[1] = br__grad_ops.part(dy, br_params(node));
}

static const br_op base_op = { "change_in_place", base_backward, false };

/* ---- A base and its views -------------------------------------------------------------------- */

/* Called after t was changed in place. Invalidates the history of t's views or, if t is a view,
 * records the change of its base. */
static bool propagate_to_views(br_tensor *t)
{
    if (!t->base) {
        t->changes++;
        return true;
    }
    br_part part = br__part_of(t);
    if (!br__record_as(&base_op, t->base, BR_INPUTS(t->base, t), &part, sizeof part))
        return false;
    t->base->changes++;
    return true;
}

/* ---- Changing -------------------------------------------------------------------------------- */

/* Returns true if t is a leaf that requires grad, or a view of one. */
static bool is_of_leaf(const br_tensor *t)
{
    const br_autograd *a = br__autograd(t->base ? t->base : t);
    return a && a->requires_grad && !a->node;
}

/* Returns true and sets an error if t is still a leaf of the graph that computes its new value,
 * which can happen after its requires_grad was cleared: the tensor would hold a reference to
 * itself. */
static bool makes_cycle(const char *op, const char *name, const br_tensor *t, int n_inputs,
                        br_tensor *const *inputs)
{
    const br_tensor *changed = t->base ? t->base : t;
    const br_autograd *a = br__autograd(changed);
    if (!a || !a->stopped || !br__graph_reaches(n_inputs, inputs, changed))
        return false;
    if (!br__failed())
        br_fail(BR_ERROR_STATE, op,
                "%s %s once required grad and is a leaf of the graph that computes its new value: "
                "change a clone of it",
                name, br__shape(t));
    return true;
}

/* Returns true if autograd can follow a change of t by `op` that is computed from the inputs. */
static bool can_follow(const char *op, const char *name, const br_tensor *t, int n_inputs,
                       br_tensor *const *inputs)
{
    bool recorded = br_requires_grad(t) || br__any_requires_grad(n_inputs, inputs);
    if (!recorded && !t->hides_grad)
        return true;
    if (t->untracked)
        br_fail(BR_ERROR_STATE, op,
                "%s %s is a view made in a no-grad scope, so a change of it in grad mode would not "
                "reach the gradient of the viewed tensor: clone it first, or change it inside "
                "br_no_grad_begin()",
                name, br__shape(t));
    else if (t->base && !br__is_inside_base(t))
        br__fail_outside_base(op, name, t);
    else if (t->base && !t->base->contiguous)
        br_fail(BR_ERROR_STATE, op,
                "%s %s is a view of %s, which is not contiguous: clone the base first", name,
                br__shape(t), br__shape(t->base));
    else
        return !makes_cycle(op, name, t, n_inputs, inputs);
    return false;
}

/* Makes the checks that apply to any change. */
static bool check_change(const char *op, const char *name, br_tensor *t, int n_inputs,
                         br_tensor *const *inputs)
{
    if (br__thread.no_grad)
        return true;
    if (!is_of_leaf(t))
        return can_follow(op, name, t, n_inputs, inputs);
    br_fail(BR_ERROR_STATE, op,
            "%s %s is a %s that requires grad: change it inside br_no_grad_begin()", name,
            br__shape(t), t->base ? "view of a leaf" : "leaf");
    return false;
}

bool br__before_fill(const char *op, const char *name, br_tensor *t, int n_inputs,
                     br_tensor *const *inputs)
{
    if (BR_PROFILING)
        br__thread.events->result(t);
    if (!check_change(op, name, t, n_inputs, inputs))
        return false;
    br__changed_by(t, op);
    return true;
}

bool br__can_change(const char *op, const char *name, br_tensor *t, int n_inputs,
                    br_tensor *const *inputs)
{
    if (!br__shares_elements(t))
        return check_change(op, name, t, n_inputs, inputs);
    br_fail(BR_ERROR_STATE, op,
            "%s %s is expanded or unfolded, so several elements share memory: clone it first", name,
            br__shape(t));
    return false;
}

bool br__before_change(const char *op, const char *name, br_tensor *t, int n_inputs,
                       br_tensor *const *inputs)
{
    if (!br__can_change(op, name, t, n_inputs, inputs))
        return false;
    if (BR_PROFILING)
        br__thread.events->result(t);
    br__changed_by(t, op);
    return true;
}

bool br_before_in_place(const char *op, br_tensor *t, int n_inputs, br_tensor *const *inputs)
{
    if (!op || !br__required(op, "t", t)) {
        br__required("before_in_place", "op", op);
        return false;
    }
    if (n_inputs > 0 && !br__required(op, "inputs", inputs))
        return false;
    return br__before_change(op, "t", t, n_inputs, inputs);
}

/* If t is a gradient, ends the history that it got by an in-place change when the scope ends, as
 * with create_graph. */
static bool end_of_gradient(br_tensor *t)
{
    br_tensor *changed = t->base ? t->base : t;
    return !changed->is_grad || br__end_history_with(NULL, changed);
}

br_node *br_record_in_place(const br_op *op, br_tensor *t, int n_inputs, br_tensor *const *inputs,
                            const void *params, size_t params_size)
{
    if (!br__recordable("record_in_place", op, n_inputs, inputs))
        return NULL;
    if (BR_ANOMALY && !br__anomaly_forward(op, t, n_inputs, inputs))
        return NULL;
    if (br__failed() || br__thread.no_grad || !t || !br__any_requires_grad(n_inputs, inputs) ||
        !can_follow(op->name, "t", t, n_inputs, inputs))
        return NULL;
    br_node *node = br__record_as(op, t, n_inputs, inputs, params, params_size);
    return node && propagate_to_views(t) && end_of_gradient(t) ? node : NULL;
}
