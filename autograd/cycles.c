/* autograd/cycles.c - reference cycles.
 *
 * A graph holds its leaves, and a leaf holds its gradient. With create_graph, the history of that
 * gradient leads back to the leaf, so neither would ever be freed. The history is therefore dropped
 * when the scope in which it was recorded closes: a guard, attached to a tensor of that scope,
 * drops it when the tensor is freed. The history is replaced by a node that raises an error if
 * backward reaches that node. */
#include "autograd/cycles.h"

typedef struct guard {
    br_meta meta;
    br_tensor *held;
} guard;

/* ---- The end of a history -------------------------------------------------------------------- */

static void ended_backward(br_node *node, br_tensor *dy, br_tensor **dx)
{
    (void)node;
    (void)dy;
    (void)dx;
    br_fail(
        BR_ERROR_STATE, "backward",
        "the history of a leaf's gradient ended with the scope in which it was recorded "
        "(create_graph): use the gradient before that scope closes, or compute it with br_grad()");
}

static const br_op ended_op = { "ended_history", ended_backward, false };

bool br__history_ended(const br_node *node)
{
    return node->op == &ended_op;
}

/* If allocation fails, the gradient is left without a history. */
static void end_history(br_tensor *grad)
{
    if (!grad->base && br_is_leaf(grad))
        return;
    br__drop_base(grad);
    br__drop_history(grad);
    br__record_as(&ended_op, grad, 0, NULL, NULL, 0);
}

static void run_guard(br_meta *meta)
{
    guard *g = (guard *)(void *)meta;
    br_tensor *t = g->held;
    br_autograd *a = (br_autograd *)(void *)t->meta;
    if (a)
        a->guarded = false;
    /* A gradient may have a gradient, whose history leads to the same leaf. */
    for (br_tensor *grad = a ? a->grad : NULL; grad; grad = br_grad_of(grad))
        end_history(grad);
    if (t->is_grad)
        end_history(t);
    br_release(t);
    br__object_free(g, sizeof *g);
}

bool br__end_history_with(br_scope *scope, br_tensor *t)
{
    br_autograd *a = br__autograd(t);
    if (!a || a->guarded)
        return a;
    br_tensor *place = br__new_on("backward", t, 0, NULL, BR_F32);
    guard *g = place ? br__object_alloc(sizeof *g) : NULL;
    if (!g)
        return false;
    *g = (guard){ { run_guard }, br_retain(t) };
    place->meta = &g->meta;
    a->guarded = true;
    if (scope)
        br_scope_return(scope, place);
    return true;
}

/* ---- Finding cycles -------------------------------------------------------------------------- */

bool br__grad_references(const br_tensor *grad, const br_tensor *t)
{
    return grad && (grad == t || br__grad_references(grad->base, t) ||
                    br__grad_references(br_grad_of(grad), t));
}

bool br__graph_reaches(int n, br_tensor *const *tensors, const br_tensor *leaf)
{
    br_node_list list = { .items = NULL };
    bool found = !br__collect_nodes(n, tensors, &list);
    for (size_t k = 0; k < list.count; k++) {
        br_node *node = list.items[k];
        node->seen = false;
        for (int i = 0; i < node->n_inputs; i++)
            found |= node->inputs[i].leaf == leaf;
    }
    br__node_list_free(&list);
    return found;
}
