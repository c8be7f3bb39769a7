/* autograd/backward.c - the walk from outputs to leaves.
 *
 * Nodes wait in a heap, the newest on top. A node is newer than all it points to, so when it comes
 * off every gradient that feeds it is there: no counting of edges beforehand, no recursion. Each
 * node's gradient runs in a scope of its own, so what it makes goes at once. */
#include "autograd/anomaly.h"
#include "autograd/walk.h"

#include <stdlib.h>

/* ---- The heap -------------------------------------------------------------------------------- */

static bool enqueue(br_walk *w, br_node *node)
{
    if (node->queued)
        return true;
    if (!br__node_list_push(&w->heap, node))
        return false;
    node->queued = true;
    br__node_retain(node);
    br_node **heap = w->heap.items;
    size_t i = w->heap.count - 1;
    for (; i > 0 && heap[(i - 1) / 2]->number < node->number; i = (i - 1) / 2)
        heap[i] = heap[(i - 1) / 2];
    heap[i] = node;
    return true;
}

/* The newest node; the caller holds it now. */
static br_node *dequeue(br_walk *w)
{
    br_node **heap = w->heap.items;
    br_node *top = heap[0], *last = heap[--w->heap.count];
    size_t n = w->heap.count, i = 0;
    for (size_t child; (child = 2 * i + 1) < n; i = child) {
        if (child + 1 < n && heap[child + 1]->number > heap[child]->number)
            child++;
        if (heap[child]->number < last->number)
            break;
        heap[i] = heap[child];
    }
    heap[i] = last;
    top->queued = false;
    return top;
}

/* ---- Accumulation ---------------------------------------------------------------------------- */

/* The sum, held: in place if *slot is nobody else's, and dense (an expanded one has one place for
 * many elements). */
static br_tensor *sum_of(const br_walk *w, br_tensor *slot, br_tensor *dx)
{
    if (!w->create_graph && br__is_exclusive(slot) && slot->contiguous)
        return br_retain(br__grad_ops.add_(slot, dx));
    br_scope *scope = br_scope_begin();
    br_tensor *sum = br__take(br__grad_ops.add(slot, dx));
    br_scope_end(scope);
    return sum;
}

/* Adds dx, which the caller holds and gives away, to *slot. */
static bool accumulate(const br_walk *w, br_tensor **slot, br_tensor *dx)
{
    if (!*slot) {
        *slot = dx;
        return true;
    }
    int anomaly = br__thread.anomaly;
    unsigned parts = BR_ANOMALY ? br__anomaly_of(*slot) | br__anomaly_of(dx) : 0;
    br__thread.anomaly = 0; /* the sum is looked at here, where it is known what it is */
    br_tensor *sum = sum_of(w, *slot, dx);
    br__thread.anomaly = anomaly;
    br_release(dx);
    if (!sum)
        return false;
    br_release(*slot);
    *slot = sum;
    return !BR_ANOMALY || br__anomaly_sum(sum, parts);
}

/* A leaf's gradient is nobody else's memory and dense, so that optimizers may change it. A scope is
 * open, the walk's or the caller's. */
static br_tensor *make_own(const br_walk *w, br_tensor *dx)
{
    if (w->create_graph || (br__is_exclusive(dx) && dx->contiguous))
        return dx;
    br_tensor *copy = br__new_like("backward", dx, dx->dtype);
    if (copy)
        br__copy(copy, dx);
    br_release(dx);
    return br__take(copy);
}

bool br__give_leaf(const br_walk *w, br_tensor *leaf, br_tensor *dx)
{
    br_autograd *a = br__autograd_make(leaf);
    if (a && a->grad &&
        !w->create_graph) { /* in place even if the caller looks at it, as PyTorch */
        bool ok = br__grad_ops.add_(a->grad, dx) != NULL;
        br_release(dx);
        return ok;
    }
    if (a && !a->grad)
        dx = make_own(w, dx);
    if (!a || !dx) {
        br_release(dx);
        return false;
    }
    return accumulate(w, &a->grad, dx);
}

int br__compare_captures(const void *a, const void *b)
{
    const br_capture *x = a, *y = b;
    if (x->key != y->key)
        return (uintptr_t)x->key < (uintptr_t)y->key ? -1 : 1;
    return (x->output > y->output) - (x->output < y->output);
}

br_capture *br__find_capture(const br_walk *w, const void *key, int output)
{
    br_capture wanted = { key, output, NULL };
    return w->n_captures == 0 ? NULL
                              : bsearch(&wanted, w->captures, (size_t)w->n_captures, sizeof wanted,
                                        br__compare_captures);
}

static bool hold_leaf(br_walk *w, br_tensor *leaf, br_tensor *dx)
{
    br_held_leaf *h = w->held;
    while (h && h->leaf != leaf)
        h = h->next;
    if (!h) {
        if (!(h = br__malloc(sizeof *h))) {
            br_release(dx);
            return false;
        }
        *h = (br_held_leaf){ w->held, br_retain(leaf), NULL };
        w->held = h;
    }
    return accumulate(w, &h->grad, dx);
}

/* The complete gradient, or a part of it where the leaf has no hooks. */
static bool deliver_leaf(br_walk *w, br_tensor *leaf, br_tensor *dx)
{
    br_capture *c = br__find_capture(w, leaf, 0);
    if (c)
        return accumulate(w, &c->grad, dx);
    if (w->n_captures == 0)
        return br__give_leaf(w, leaf, dx);
    br_release(dx);
    return true;
}

/* Sends dx, which the caller holds and gives away, where the edge leads. */
static bool send(br_walk *w, const br_edge *edge, br_tensor *dx)
{
    if (edge->node) {
        if (enqueue(w, edge->node)) /* first: what waits in the heap is let go of after an error */
            return accumulate(w, &edge->node->outputs[edge->output].grad, dx);
        br_release(dx);
        return false;
    }
    const br_autograd *a = br__autograd(edge->leaf);
    return a && a->hooks ? hold_leaf(w, edge->leaf, dx) : deliver_leaf(w, edge->leaf, dx);
}

/* Hooks of leaves see the whole gradient; then it goes on its way. */
static bool send_held(br_walk *w)
{
    bool ok = !br__failed();
    while (w->held) {
        br_held_leaf *h = w->held;
        w->held = h->next;
        if (ok && br__run_hooks(br__autograd(h->leaf)->hooks, &h->grad)) {
            ok = deliver_leaf(w, h->leaf, h->grad);
        } else {
            br_release(h->grad);
            ok = false;
        }
        if (ok && w->n_captures == 0)
            ok = br__run_accumulated(h->leaf);
        br_release(h->leaf);
        br_free(h);
    }
    return ok;
}

/* ---- One node -------------------------------------------------------------------------------- */

/* What is asked of the gradients that have come in: hooks, a keeper, a capture. */
static bool deliver_outputs(br_walk *w, br_node *node)
{
    for (int i = 0; i < node->n_outputs; i++) {
        br_output *output = &node->outputs[i];
        if (!output->grad)
            continue;
        if (output->hooks && !br__run_hooks(output->hooks, &output->grad))
            return false;
        br_capture *c = br__find_capture(w, node, i);
        if (c && !accumulate(w, &c->grad, br_retain(output->grad)))
            return false;
        if (output->keeper && !accumulate(w, &output->keeper->grad, br_retain(output->grad)))
            return false;
    }
    return true;
}

/* A reference to what the gradient function gave. That of the node itself is handed on where it
 * gave its own gradient, which nobody asks the node for again. */
static br_tensor *hold(br_node *node, br_tensor *dx)
{
    if (dx != node->outputs[0].grad)
        return br__take(dx);
    node->outputs[0].grad = NULL;
    return dx;
}

/* Brings a gradient to the input's shape and checks what the operation gave. The result is held. */
static br_tensor *fit(br_node *node, int i, br_tensor *dx)
{
    const br_edge *edge = &node->inputs[i];
    if (dx->dtype != edge->dtype)
        return br__fail(BR_ERROR_DTYPE, node->op->name,
                        "its gradient by input %d is %s, the input is %s", i,
                        br_dtype_name(dx->dtype), br_dtype_name(edge->dtype));
    bool same = dx->ndim == edge->ndim;
    for (int d = 0; same && d < dx->ndim; d++)
        same = dx->sizes[d] == edge->sizes[d];
    return hold(node, same ? dx : br__grad_ops.sum_to_size(dx, edge->ndim, edge->sizes));
}

static void drop_grads(br_node *node)
{
    for (int i = 0; i < node->n_outputs; i++) {
        br_tensor *grad = node->outputs[i].grad;
        node->outputs[i].grad = NULL;
        br_release(grad);
    }
}

/* Where the gradient by an input waits for the rest of it, if it is added to in place; or NULL. */
static br_tensor *waiting(const br_walk *w, const br_edge *edge)
{
    if (edge->node)
        return edge->node->outputs[edge->output].grad;
    const br_autograd *a = br__autograd(edge->leaf);
    return a && !a->hooks && w->n_captures == 0 ? a->grad : NULL;
}

br_tensor *br_grad_so_far(const br_node *node, int input)
{
    const br_walk *w = br__thread.walk;
    if (!w || w->create_graph || BR_ANOMALY || !br_wants(node, input))
        return NULL;
    const br_edge *edge = &node->inputs[input];
    br_tensor *sum = waiting(w, edge);
    if (!sum || !sum->contiguous || (edge->node && !br__is_exclusive(sum)))
        return NULL;
    br_bump_version(sum);
    return sum;
}

static bool run_gradient(br_walk *w, br_node *node)
{
    enum { FEW = 16 };
    br_tensor *few[FEW], **dx = few;
    if (node->n_inputs > FEW && !(dx = br__malloc((size_t)node->n_inputs * sizeof *dx)))
        return false;
    for (int i = 0; i < node->n_inputs; i++)
        dx[i] = NULL;
    /* The walk's scope: one for each node would cost more than it does. */
    br_scope *scope = br__thread.scope;
    size_t mark = br__thread.top;
    br__thread.no_grad = !w->create_graph;
    br_node *gradient_of = br__thread.gradient_of;
    br_walk *walk = br__thread.walk;
    br__thread.gradient_of = BR_ANOMALY ? node : NULL;
    br__thread.walk = w;
    node->op->backward(node, node->outputs[0].grad, dx);
    br__thread.gradient_of = gradient_of;
    br__thread.walk = walk;
    if (BR_ANOMALY)
        br__anomaly_backward(node, dx);
    for (int i = 0; i < node->n_inputs; i++)
        dx[i] =
            dx[i] && br__edge_leads(&node->inputs[i]) && !br__failed() ? fit(node, i, dx[i]) : NULL;
    br__scope_free_from(scope, mark); /* before sending: what is nobody else's can then be told */
    br__thread.no_grad = !w->create_graph;
    drop_grads(node);
    bool ok = !br__failed();
    for (int i = 0; i < node->n_inputs; i++) {
        if (ok && dx[i])
            ok = send(w, &node->inputs[i], dx[i]);
        else
            br_release(dx[i]);
    }
    if (dx != few)
        br_free(dx);
    return ok;
}

static bool visit(br_walk *w, br_node *node)
{
    BR_EVENT(br__event_gradient(node->op->name, node->module, node->outputs[0].ndim,
                                node->outputs[0].sizes));
    if (!deliver_outputs(w, node))
        return false;
    if (w->n_captures > 0 && !node->needed)
        return true;
    if (node->freed) {
        br__fail(BR_ERROR_STATE, "backward",
                 "the graph under %s was freed by an earlier backward: keep it with retain_graph",
                 node->op->name);
        return false;
    }
    if (w->create_graph && node->op->first_order_only) {
        br__fail(BR_ERROR_STATE, "backward",
                 "the gradient of %s cannot be differentiated again (create_graph)",
                 node->op->name);
        return false;
    }
    if (node->frame && !br__frame_fill(node->frame, &w->filled))
        return false;
    bool ok = run_gradient(w, node);
    if (ok && !w->retain_graph) {
        node->freed = true;
        br__node_clear_saved(node);
        if (node->frame)
            br__frame_leave(node);
    }
    return ok;
}

/* Walks until the heap is empty; after an error only to let go of what waits there. */
static bool run(br_walk *w)
{
    bool ok = !br__failed();
    while (w->heap.count > 0) {
        br_node *node = dequeue(w);
        ok = ok && visit(w, node);
        drop_grads(node);
        br__node_release(node);
    }
    br__node_list_free(&w->heap);
    br__frames_empty(w->filled);
    return send_held(w) && ok;
}

/* ---- Starting -------------------------------------------------------------------------------- */

/* Sends an output's own gradient, given or 1, on its way. */
static bool start(br_walk *w, br_tensor *t, br_tensor *gradient)
{
    if (!br__required(w->op, "t", t))
        return false;
    if (!br_requires_grad(t)) {
        br__fail(BR_ERROR_STATE, w->op,
                 "t %s does not require grad: nothing under it asks for a gradient, or it was made "
                 "in a no-grad scope",
                 br__shape(t));
        return false;
    }
    if (gradient && (!br_same_shape(gradient, t) || gradient->dtype != t->dtype)) {
        br__fail(BR_ERROR_SHAPE, w->op, "gradient %s of %s must have t's shape %s and dtype %s",
                 br__shape(gradient), br_dtype_name(gradient->dtype), br__shape(t),
                 br_dtype_name(t->dtype));
        return false;
    }
    if (!gradient && t->numel != 1) {
        br__fail(BR_ERROR_SHAPE, w->op,
                 "t %s has %lld elements: give a gradient, or reduce it to one", br__shape(t),
                 (long long)t->numel);
        return false;
    }
    br_tensor *dy = gradient ? br_retain(gradient) : br__take(br_ones_like(t));
    if (!dy)
        return false;
    const br_autograd *a = br__autograd(t);
    br_edge edge; /* what send() reads of one */
    edge.node = a->node;
    edge.output = a->output;
    edge.leaf = a->node ? NULL : t;
    return send(w, &edge, dy);
}

bool br__walk(br_walk *w, int n, br_tensor *const *tensors, br_tensor *const *gradients)
{
    w->heap.items = NULL;
    w->heap.count = w->heap.room = 0;
    w->held = NULL;
    w->filled = NULL;
    w->retain_graph |= w->create_graph;
    br_scope *scope = br_scope_begin();
    br__thread.no_grad = !w->create_graph;
    for (int i = 0; i < n && !br__failed(); i++)
        start(w, tensors[i], gradients ? gradients[i] : NULL);
    bool ok = run(w);
    br_scope_end(scope);
    return ok;
}
