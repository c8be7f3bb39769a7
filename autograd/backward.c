/* autograd/backward.c - the walk from outputs to leaves.
 *
 * Nodes wait in a heap, the newest on top. A node is newer than all it points to, so when it comes
 * off every gradient that feeds it is there: no counting of edges beforehand, no recursion. Each
 * node's gradient runs in a scope of its own, so what it makes goes at once. */
#include "autograd/tape.h"

#include <stdlib.h>

/* An input of br_grad() and the gradient that has come in for it. */
typedef struct capture {
    const void *key; /* the node that made the input, or the leaf itself */
    int output;
    br_tensor *grad; /* held */
} capture;

/* The gradient of a leaf with hooks, which want it complete: held back to the end of the walk. */
typedef struct held_leaf {
    struct held_leaf *next;
    br_tensor *leaf, *grad; /* both held */
} held_leaf;

typedef struct walk {
    br_node_list heap;
    bool retain_graph, create_graph;
    int n_captures;    /* 0: gradients go to the leaves */
    capture *captures; /* sorted by key and output */
    held_leaf *held;
} walk;

/* ---- The heap -------------------------------------------------------------------------------- */

static bool enqueue(walk *w, br_node *node)
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
static br_node *dequeue(walk *w)
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

/* Adds dx, which the caller holds and gives away, to *slot: in place if the sum is nobody else's,
 * and dense (an expanded one has one place for many elements). */
static bool accumulate(const walk *w, br_tensor **slot, br_tensor *dx)
{
    if (!*slot) {
        *slot = dx;
        return true;
    }
    br_tensor *sum;
    if (!w->create_graph && br__is_exclusive(*slot) && (*slot)->contiguous) {
        sum = br_retain(br__grad_ops.add_(*slot, dx));
    } else {
        br_scope *scope = br_scope_begin();
        sum = br_retain(br__grad_ops.add(*slot, dx));
        br_scope_end(scope);
    }
    br_release(dx);
    if (!sum)
        return false;
    br_release(*slot);
    *slot = sum;
    return true;
}

/* A leaf's gradient is nobody else's memory and dense, so that optimizers may change it. */
static br_tensor *make_own(const walk *w, br_tensor *dx)
{
    if (w->create_graph || (br__is_exclusive(dx) && dx->contiguous))
        return dx;
    br_scope *scope = br_scope_begin();
    br_tensor *copy = br__new("backward", dx->ndim, dx->sizes, dx->dtype);
    if (copy)
        br__copy(copy, dx);
    br_retain(copy);
    br_scope_end(scope);
    br_release(dx);
    return copy;
}

static bool give_leaf(const walk *w, br_tensor *leaf, br_tensor *dx)
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

static int compare_captures(const void *a, const void *b)
{
    const capture *x = a, *y = b;
    if (x->key != y->key)
        return (uintptr_t)x->key < (uintptr_t)y->key ? -1 : 1;
    return (x->output > y->output) - (x->output < y->output);
}

static capture *find_capture(const walk *w, const void *key, int output)
{
    capture wanted = { key, output, NULL };
    return w->n_captures == 0 ? NULL
                              : bsearch(&wanted, w->captures, (size_t)w->n_captures, sizeof wanted,
                                        compare_captures);
}

static bool hold_leaf(walk *w, br_tensor *leaf, br_tensor *dx)
{
    held_leaf *h = w->held;
    while (h && h->leaf != leaf)
        h = h->next;
    if (!h) {
        if (!(h = br__malloc(sizeof *h))) {
            br_release(dx);
            return false;
        }
        *h = (held_leaf){ w->held, br_retain(leaf), NULL };
        w->held = h;
    }
    return accumulate(w, &h->grad, dx);
}

/* Sends dx, which the caller holds and gives away, where the edge leads. */
static bool send(walk *w, const br_edge *edge, br_tensor *dx)
{
    if (edge->node) {
        if (enqueue(w, edge->node)) /* first: what waits in the heap is let go of after an error */
            return accumulate(w, &edge->node->outputs[edge->output].grad, dx);
        br_release(dx);
        return false;
    }
    const br_autograd *a = br__autograd(edge->leaf);
    if (a && a->hooks)
        return hold_leaf(w, edge->leaf, dx);
    capture *c = find_capture(w, edge->leaf, 0);
    return c ? accumulate(w, &c->grad, dx) : give_leaf(w, edge->leaf, dx);
}

/* Hooks of leaves see the whole gradient; then it goes on its way. */
static bool send_held(walk *w)
{
    bool ok = !br_failed();
    while (w->held) {
        held_leaf *h = w->held;
        w->held = h->next;
        if (ok && br__run_hooks(br__autograd(h->leaf)->hooks, &h->grad)) {
            capture *c = find_capture(w, h->leaf, 0);
            ok = c ? accumulate(w, &c->grad, h->grad) : give_leaf(w, h->leaf, h->grad);
        } else {
            br_release(h->grad);
            ok = false;
        }
        br_release(h->leaf);
        br_free(h);
    }
    return ok;
}

/* ---- One node -------------------------------------------------------------------------------- */

/* What is asked of the gradients that have come in: hooks, a keeper, a capture. */
static bool deliver_outputs(walk *w, br_node *node)
{
    for (int i = 0; i < node->n_outputs; i++) {
        br_output *output = &node->outputs[i];
        if (!output->grad)
            continue;
        if (!br__run_hooks(output->hooks, &output->grad))
            return false;
        capture *c = find_capture(w, node, i);
        if (c && !accumulate(w, &c->grad, br_retain(output->grad)))
            return false;
        if (output->keeper && !accumulate(w, &output->keeper->grad, br_retain(output->grad)))
            return false;
    }
    return true;
}

/* Brings a gradient to the input's shape and checks what the operation gave. The result is held. */
static br_tensor *fit(const br_node *node, int i, br_tensor *dx)
{
    const br_edge *edge = &node->inputs[i];
    if (dx->dtype != edge->dtype)
        return br__fail(BR_ERROR_DTYPE, node->op->name,
                        "its gradient by input %d is %s, the input is %s", i,
                        br_dtype_name(dx->dtype), br_dtype_name(edge->dtype));
    bool same = dx->ndim == edge->ndim;
    for (int d = 0; same && d < dx->ndim; d++)
        same = dx->sizes[d] == edge->sizes[d];
    return br_retain(same ? dx : br__grad_ops.sum_to_size(dx, edge->ndim, edge->sizes));
}

static bool run_gradient(walk *w, br_node *node)
{
    enum { FEW = 16 };
    br_tensor *few[FEW] = { NULL }, **dx = few;
    if (node->n_inputs > FEW && !(dx = br__calloc((size_t)node->n_inputs, sizeof *dx)))
        return false;
    br_scope *scope = br_scope_begin();
    br__thread.no_grad = !w->create_graph;
    node->op->backward(node, node->outputs[0].grad, dx);
    for (int i = 0; i < node->n_inputs; i++)
        dx[i] = dx[i] && br_wants(node, i) && !br_failed() ? fit(node, i, dx[i]) : NULL;
    br_scope_end(scope); /* before sending, so that what is nobody else's can be told */
    bool ok = !br_failed();
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

static bool visit(walk *w, br_node *node)
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
    bool ok = run_gradient(w, node);
    if (ok && !w->retain_graph) {
        node->freed = true;
        br__node_clear_saved(node);
    }
    return ok;
}

static void drop_grads(br_node *node)
{
    for (int i = 0; i < node->n_outputs; i++) {
        br_tensor *grad = node->outputs[i].grad;
        node->outputs[i].grad = NULL;
        br_release(grad);
    }
}

/* Walks until the heap is empty; after an error only to let go of what waits there. */
static bool run(walk *w)
{
    bool ok = !br_failed();
    while (w->heap.count > 0) {
        br_node *node = dequeue(w);
        ok = ok && visit(w, node);
        drop_grads(node);
        br__node_release(node);
    }
    br__node_list_free(&w->heap);
    return send_held(w) && ok;
}

/* ---- Starting -------------------------------------------------------------------------------- */

/* Field by field: the heap's room need not be cleared. */
static void begin_walk(walk *w, bool retain_graph, bool create_graph)
{
    w->heap.items = NULL;
    w->heap.count = w->heap.room = 0;
    w->retain_graph = retain_graph || create_graph;
    w->create_graph = create_graph;
    w->n_captures = 0;
    w->captures = NULL;
    w->held = NULL;
}

/* Sends an output's own gradient, given or 1, on its way. */
static bool start(walk *w, const char *op, br_tensor *t, br_tensor *gradient)
{
    if (!br__required(op, "t", t))
        return false;
    if (!br_requires_grad(t)) {
        br__fail(BR_ERROR_STATE, op,
                 "t %s does not require grad: nothing under it asks for a gradient, or it was made "
                 "in a no-grad scope",
                 br__shape(t));
        return false;
    }
    if (gradient && (!br_same_shape(gradient, t) || gradient->dtype != t->dtype)) {
        br__fail(BR_ERROR_SHAPE, op, "gradient %s of %s must have t's shape %s and dtype %s",
                 br__shape(gradient), br_dtype_name(gradient->dtype), br__shape(t),
                 br_dtype_name(t->dtype));
        return false;
    }
    if (!gradient && t->numel != 1) {
        br__fail(BR_ERROR_SHAPE, op, "t %s has %lld elements: give a gradient, or reduce it to one",
                 br__shape(t), (long long)t->numel);
        return false;
    }
    br_scope *scope = br_scope_begin();
    br_tensor *dy = br_retain(gradient ? gradient : br_ones_like(t));
    br_scope_end(scope);
    if (!dy)
        return false;
    const br_autograd *a = br__autograd(t);
    br_edge edge = { .node = a->node, .output = a->output, .leaf = a->node ? NULL : t };
    return send(w, &edge, dy);
}

bool br_backward(br_tensor *t)
{
    return br_backward_with(t, NULL);
}

bool br_backward_with(br_tensor *t, const br_backward_options *options)
{
    BR_EVENT(br__event_backward());
    static const br_backward_options defaults;
    const br_backward_options *o = options ? options : &defaults;
    walk w;
    begin_walk(&w, o->retain_graph, o->create_graph);
    br_scope *scope = br_scope_begin();
    br__thread.no_grad = !w.create_graph;
    start(&w, "backward", t, o->gradient);
    bool ok = run(&w);
    br_scope_end(scope);
    return ok;
}

/* ---- br_grad --------------------------------------------------------------------------------- */

static int compare_numbers(const void *a, const void *b)
{
    const br_node *x = *(br_node *const *)a, *y = *(br_node *const *)b;
    return (x->number > y->number) - (x->number < y->number);
}

/* Finds the nodes and edges that lead to a captured input; from the oldest on, so that a node's
 * inputs are known before it. */
static void mark_needed(const walk *w, br_node_list *list)
{
    if (list->count > 0)
        qsort(list->items, list->count, sizeof *list->items, compare_numbers);
    for (size_t k = 0; k < list->count; k++) {
        br_node *node = list->items[k];
        node->needed = false;
        for (int i = 0; i < node->n_inputs; i++) {
            br_edge *edge = &node->inputs[i];
            bool wanted =
                edge->node ? edge->node->needed || find_capture(w, edge->node, edge->output) != NULL
                           : edge->leaf && find_capture(w, edge->leaf, 0) != NULL;
            edge->skip = !wanted;
            node->needed |= wanted;
        }
    }
}

static void unmark(br_node_list *list)
{
    for (size_t k = 0; k < list->count; k++) {
        br_node *node = list->items[k];
        node->seen = false;
        for (int i = 0; i < node->n_inputs; i++)
            node->inputs[i].skip = false;
    }
    br__node_list_free(list);
}

static const void *capture_key(br_tensor *input, int *output)
{
    const br_autograd *a = br__autograd(input);
    *output = a->node ? a->output : 0;
    return a->node ? (const void *)a->node : (const void *)input;
}

static bool make_captures(walk *w, int n, br_tensor *const *inputs)
{
    if (n <= 0 || !inputs) {
        br__fail(BR_ERROR_ARGUMENT, "grad", "%d inputs, must be at least one", n);
        return false;
    }
    for (int i = 0; i < n; i++) {
        if (!inputs[i] || !br_requires_grad(inputs[i])) {
            br__fail(BR_ERROR_STATE, "grad", "input %d %s does not require grad", i,
                     br__shape(inputs[i]));
            return false;
        }
    }
    w->captures = br__calloc((size_t)n, sizeof *w->captures);
    if (!w->captures)
        return false;
    w->n_captures = n;
    for (int i = 0; i < n; i++)
        w->captures[i].key = capture_key(inputs[i], &w->captures[i].output);
    qsort(w->captures, (size_t)n, sizeof *w->captures, compare_captures);
    /* An input named twice is captured once. */
    int kept = 0;
    for (int i = 0; i < n; i++)
        if (kept == 0 || compare_captures(&w->captures[kept - 1], &w->captures[i]) != 0)
            w->captures[kept++] = w->captures[i];
    w->n_captures = kept;
    return true;
}

/* A captured gradient as a tensor of the innermost scope: itself, or, where it is somebody else's
 * too, a view of it with the same history. */
static br_tensor *to_scope(br_tensor *grad)
{
    if (atomic_load(&grad->refs) == 1 && grad->slot == SIZE_MAX) {
        br_retain(grad);
        if (br__own(grad))
            return grad;
        br_release(grad);
        return NULL;
    }
    br_tensor *view = br__view_of(grad, grad->ndim, grad->sizes, grad->strides, grad->data);
    const br_autograd *a = br__autograd(grad);
    if (view && a && a->node && !br__share_history(view, a))
        return NULL;
    return view;
}

static bool hand_out(walk *w, int n, br_tensor *const *inputs, br_tensor **grads, bool allow_unused)
{
    for (int i = 0; i < n && !br_failed(); i++) {
        int output;
        const void *key = capture_key(inputs[i], &output);
        br_tensor *grad = find_capture(w, key, output)->grad;
        if (grad)
            grads[i] = to_scope(grad);
        else if (!allow_unused)
            br__fail(BR_ERROR_STATE, "grad",
                     "input %d %s: no output depends on it (allow_unused gives NULL instead)", i,
                     br__shape(inputs[i]));
    }
    return !br_failed();
}

bool br_grad(int n_outputs, br_tensor *const *outputs, int n_inputs, br_tensor *const *inputs,
             br_tensor **grads, const br_grad_options *options)
{
    BR_EVENT(br__event_backward());
    static const br_grad_options defaults;
    const br_grad_options *o = options ? options : &defaults;
    walk w;
    begin_walk(&w, o->retain_graph, o->create_graph);
    for (int i = 0; grads && i < n_inputs; i++)
        grads[i] = NULL;
    if (br_failed())
        return false;
    if (n_outputs <= 0 || !outputs || !grads) {
        br__fail(BR_ERROR_ARGUMENT, "grad", "outputs and grads are required");
        return false;
    }
    br_node_list list = { .items = NULL };
    bool ok = make_captures(&w, n_inputs, inputs) && br__collect_nodes(n_outputs, outputs, &list);
    if (ok) {
        mark_needed(&w, &list);
        br_scope *scope = br_scope_begin();
        br__thread.no_grad = !w.create_graph;
        for (int i = 0; i < n_outputs && !br_failed(); i++)
            start(&w, "grad", outputs[i], o->gradients ? o->gradients[i] : NULL);
        ok = run(&w);
        br_scope_end(scope);
    }
    unmark(&list);
    ok = ok && hand_out(&w, n_inputs, inputs, grads, o->allow_unused);
    for (int i = 0; i < w.n_captures; i++)
        br_release(w.captures[i].grad);
    br_free(w.captures);
    return ok;
}
