/* autograd/backward.c - the backward pass.
 *
 * Nodes wait in a heap, the newest on top. A node is newer than every node it points to, so when a
 * node is removed from the heap, all of its gradients have arrived: edges need not be counted
 * beforehand, and there is no recursion. The tensors that a node's gradient function creates are
 * freed as soon as the function is done. */
#include "autograd/anomaly.h"
#include "autograd/walk.h"

#include <stdatomic.h>
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

/* Removes the newest node and returns it. The heap's reference moves to the caller. */
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

/* ---- Edges ----------------------------------------------------------------------------------- */

/* Sends dx along the edge. Takes over the caller's reference to dx. */
static bool send(br_walk *w, const br_edge *edge, br_tensor *dx)
{
    if (edge->node) {
        /* Enqueue first: if accumulate() fails, run() frees the gradients of queued nodes. */
        if (enqueue(w, edge->node))
            return br__accumulate(w, &edge->node->outputs[edge->output].grad, dx);
        br_release(dx);
        return false;
    }
    return br__deliver_to_leaf(w, edge->leaf, dx);
}

/* ---- One node -------------------------------------------------------------------------------- */

/* Passes the complete output gradients to hooks, captures and br_retain_grad(). */
static bool deliver_outputs(br_walk *w, br_node *node)
{
    for (int i = 0; i < node->n_outputs; i++) {
        br_output *output = &node->outputs[i];
        if (!output->grad)
            continue;
        if (output->hooks && !br__run_hooks(&output->hooks, &output->grad))
            return false;
        br_capture *c = br__find_capture(w, node, i);
        if (c && !br__accumulate(w, &c->grad, br_retain(output->grad)))
            return false;
        if (output->retained_by &&
            !br__accumulate(w, &output->retained_by->grad, br_retain(output->grad)))
            return false;
    }
    return true;
}

/* Returns a reference to a result of the gradient function. If the result is the node's own output
 * gradient, the node's reference is transferred, since the node no longer needs it. */
static br_tensor *hold(br_node *node, br_tensor *dx)
{
    if (dx != node->outputs[0].grad)
        return br__take(dx);
    node->outputs[0].grad = NULL;
    return dx;
}

/* Returns true if the input broadcasts to the shape of its gradient, which can then be summed. */
static bool covers(const br_tensor *dx, const br_edge *edge)
{
    for (int d = 1; d <= edge->ndim; d++) {
        int64_t size = edge->sizes[edge->ndim - d];
        if (d > dx->ndim || (size != 1 && size != dx->sizes[dx->ndim - d]))
            return false;
    }
    return true;
}

/* Checks the shape of a gradient, reduces it to the input's shape, and converts it to the input's
 * dtype. The caller owns the result. */
static br_tensor *fit(br_node *node, int i, br_tensor *dx)
{
    const br_edge *edge = &node->inputs[i];
    const bool same_dtype = dx->dtype == edge->dtype;
    if (!same_dtype && !br__is_floating(dx->dtype))
        return br_fail(BR_ERROR_DTYPE, node->op->name,
                       "the gradient with respect to input %d is %s, but the input is %s", i,
                       br_dtype_name(dx->dtype), br_dtype_name(edge->dtype));
    bool same = dx->ndim == edge->ndim;
    for (int d = 0; same && d < dx->ndim; d++)
        same = dx->sizes[d] == edge->sizes[d];
    if (!same && !covers(dx, edge))
        return br_fail(BR_ERROR_SHAPE, node->op->name,
                       "the gradient with respect to input %d is %s, but the input is %s", i,
                       br__shape(dx), br__shape_of(edge->ndim, edge->sizes));
    if (!same)
        dx = br__grad_ops.sum_to_size(dx, edge->ndim, edge->sizes);
    if (!same_dtype && dx)
        dx = br__grad_ops.to(dx, edge->dtype);
    return hold(node, dx);
}

static void drop_grads(br_node *node)
{
    for (int i = 0; i < node->n_outputs; i++) {
        br_tensor *grad = node->outputs[i].grad;
        node->outputs[i].grad = NULL;
        br_release(grad);
    }
}

/* Returns the tensor to which an input's gradient can be added in place, or NULL. */
static br_tensor *pending_grad(const br_walk *w, const br_edge *edge)
{
    if (edge->node)
        return edge->node->outputs[edge->output].grad;
    return br__pending_leaf_grad(w, edge->leaf);
}

br_tensor *br_accumulated_grad(const br_node *node, int input)
{
    const br_walk *w = br__tape.walk;
    if (!w || w->create_graph || BR_ANOMALY || !br_needs_input_grad(node, input))
        return NULL;
    const br_edge *edge = &node->inputs[input];
    br_tensor *sum = pending_grad(w, edge);
    if (!sum || !sum->contiguous || (edge->node && !br__is_exclusive(sum)))
        return NULL;
    br_bump_version(sum);
    return sum;
}

br_tensor *br__take_saved(br_node *node, int slot)
{
    br_tensor *value = br_saved(node, slot);
    const br_walk *w = br__tape.walk;
    if (!value || !w || w->retain_graph || value != node->saved[slot].value)
        return value;
    if (!br__scope_add(value))
        return NULL;
    node->saved[slot].value = NULL;
    node->freed = true; /* even if this pass fails */
    return value;
}

static bool run_gradient(br_walk *w, br_node *node)
{
    enum { INLINE_INPUTS = 16 };
    br_tensor *inline_inputs[INLINE_INPUTS], **dx = inline_inputs;
    if (node->n_inputs > INLINE_INPUTS && !(dx = br_malloc((size_t)node->n_inputs * sizeof *dx)))
        return false;
    for (int i = 0; i < node->n_inputs; i++)
        dx[i] = NULL;
    /* Uses the scope of the pass: a scope for each node would cost more than it saves. */
    br_scope *scope = br__thread.scope;
    size_t mark = br__thread.top;
    br__thread.no_grad = !w->create_graph;
    br_node *gradient_node = br__tape.gradient_node;
    br__tape.gradient_node = BR_ANOMALY ? node : NULL;
    const char *gradient_of = br__thread.gradient_of;
    br__thread.gradient_of = node->op->name;
    node->op->backward(node, node->outputs[0].grad, dx);
    br__thread.gradient_of = gradient_of;
    br__tape.gradient_node = gradient_node;
    if (BR_ANOMALY)
        br__anomaly_backward(node, dx);
    for (int i = 0; i < node->n_inputs; i++)
        dx[i] = dx[i] && br__edge_needs_grad(&node->inputs[i]) && !br__failed()
                    ? fit(node, i, dx[i])
                    : NULL;
    /* Before send(), so that br__is_exclusive() does not count the scope's references. */
    br__scope_free_from(scope, mark);
    br__thread.no_grad = !w->create_graph;
    drop_grads(node);
    bool ok = !br__failed();
    for (int i = 0; i < node->n_inputs; i++) {
        if (ok && dx[i])
            ok = send(w, &node->inputs[i], dx[i]);
        else
            br_release(dx[i]);
    }
    if (dx != inline_inputs)
        br_free(dx);
    return ok;
}

static bool visit(br_walk *w, br_node *node)
{
    BR_EVENT(br__thread.events->gradient(node->op->name, node->module, node->outputs[0].ndim,
                                         node->outputs[0].sizes));
    if (!deliver_outputs(w, node))
        return false;
    if (w->n_captures > 0 && !node->needed)
        return true;
    if (node->freed) {
        br_fail(BR_ERROR_STATE, "backward",
                "the graph of %s was freed by an earlier backward, or that backward failed: "
                "compute the loss again, or keep the graph with the option retain_graph of "
                "br_backward_with()",
                node->op->name);
        return false;
    }
    if (w->create_graph && node->op->first_order_only) {
        br_fail(BR_ERROR_STATE, "backward",
                "the gradient of %s cannot be differentiated again (create_graph)", node->op->name);
        return false;
    }
    if (node->frame && !br__frame_fill(node->frame, &w->filled))
        return false;
    bool ok = run_gradient(w, node);
    if (ok && !w->retain_graph) {
        node->freed = true;
        br__node_clear_saved(node);
        if (node->frame)
            br__frame_remove(node);
    }
    return ok;
}

/* Runs until the heap is empty. After an error it only releases the queued nodes. */
static bool run(br_walk *w)
{
    bool ok = !br__failed();
    while (w->heap.count > 0) {
        br_node *node = dequeue(w);
        ok = ok && visit(w, node);
        if (w->deferred)
            ok = br__deliver_complete(w, node->number, ok);
        drop_grads(node);
        br__node_release(node);
    }
    br__node_list_free(&w->heap);
    br__frames_empty(w->filled);
    ok = ok && !br__failed();
    return w->deferred ? br__deliver_complete(w, 0, ok) : ok;
}

bool br_queue_callback(void (*fn)(void *context), void *context)
{
    const char *op = "queue_callback";
    br_walk *w = br__tape.walk;
    if (!fn || !w) {
        br_fail(fn ? BR_ERROR_STATE : BR_ERROR_ARGUMENT, op,
                fn ? "no backward pass is running: call it from a hook or a gradient function"
                   : "fn is NULL, but it is required");
        return false;
    }
    br_walk_callback *c = br_malloc(sizeof *c);
    if (!c)
        return false;
    *c = (br_walk_callback){ NULL, fn, context };
    *w->last_callback = c;
    w->last_callback = &c->next;
    return true;
}

/* Calls the queued functions in their order, also after an error. They may queue others. */
__attribute__((cold, noinline)) static void run_callbacks(br_walk *w)
{
    while (w->callbacks) {
        br_walk_callback *c = w->callbacks;
        c->fn(c->context);
        w->callbacks = c->next;
        if (!w->callbacks)
            w->last_callback = &w->callbacks;
        br_free(c);
    }
}

/* ---- Starting -------------------------------------------------------------------------------- */

/* Starts the pass at the output t with the given gradient, or with 1 if it is NULL. */
static bool start(br_walk *w, br_tensor *t, br_tensor *gradient)
{
    if (!br__required(w->op, "t", t))
        return false;
    if (!br_requires_grad(t)) {
        br_fail(BR_ERROR_STATE, w->op,
                "t %s does not require grad: no tensor it was computed from requires grad, or it "
                "was computed in a no-grad scope",
                br__shape(t));
        return false;
    }
    if (gradient && (!br__same_shape(gradient, t) || gradient->dtype != t->dtype)) {
        br_fail(BR_ERROR_SHAPE, w->op, "gradient is %s %s, but t is %s %s", br__shape(gradient),
                br_dtype_name(gradient->dtype), br__shape(t), br_dtype_name(t->dtype));
        return false;
    }
    if (gradient && !br__same_device(w->op, "gradient", gradient, "t", t))
        return false;
    if (!gradient && t->numel != 1) {
        br_fail(BR_ERROR_SHAPE, w->op,
                "t %s has %lld elements: pass a gradient, or reduce t to one element", br__shape(t),
                (long long)t->numel);
        return false;
    }
    br_tensor *dy = gradient ? br_retain(gradient) : br__take(br_ones_like(t));
    if (!dy)
        return false;
    const br_autograd *a = br__autograd(t);
    br_edge edge; /* send() reads only these fields */
    edge.node = a->node;
    edge.output = a->output;
    edge.leaf = a->node ? NULL : t;
    return send(w, &edge, dy);
}

static atomic_uint_fast64_t passes; /* number of passes that have begun, in all threads */

bool br__walk(br_walk *w, int n, br_tensor *const *tensors, br_tensor *const *gradients)
{
    w->heap.items = NULL;
    w->heap.count = w->heap.capacity = 0;
    w->n_roots = n;
    w->roots = tensors;
    w->number = atomic_fetch_add_explicit(&passes, 1, memory_order_relaxed) + 1;
    w->expects_leaves = w->expects_any_leaf = false;
    w->deferred = NULL;
    w->n_partial = 0;
    w->callbacks = NULL;
    w->last_callback = &w->callbacks;
    w->filled = NULL;
    w->retain_graph |= w->create_graph;
    br_scope *scope = w->scope = br_scope_begin();
    w->outer = br__tape.walk;
    br__tape.walk = w;
    br__thread.no_grad = !w->create_graph;
    struct br_autocast *const autocast = br__thread.autocast;
    br__thread.autocast = NULL; /* gradients have the dtypes of the forward pass */
    for (int i = 0; i < n && !br__failed(); i++)
        start(w, tensors[i], gradients ? gradients[i] : NULL);
    bool ok = run(w);
    if (w->callbacks)
        run_callbacks(w);
    br__tape.walk = w->outer;
    br__thread.autocast = autocast;
    br_scope_end(scope);
    return ok && !br__failed();
}
