/* autograd/grad.c - chooses where the gradients of a backward pass go: to leaves or to given
 * tensors (br_backward() and its variants), or to the caller (br_grad()). */
#include "autograd/cycles.h"
#include "autograd/walk.h"

#include <stdlib.h>

BR_DEFINE_DEFAULTS(br_backward)
BR_DEFINE_DEFAULTS(br_grad)

/* ---- Backward to given tensors --------------------------------------------------------------- */

/* Marks the nodes and edges that lead to a captured input. Visits the nodes from oldest to newest,
 * so that a node's inputs are marked before the node. */
static void mark_required(const br_walk *w, br_node_list *list)
{
    if (list->count > 1)
        qsort(list->items, list->count, sizeof *list->items, br__compare_nodes);
    for (size_t k = 0; k < list->count; k++) {
        br_node *node = list->items[k];
        /* Backward must reach a node whose history has ended, to report the error. */
        node->needed = br__history_ended(node);
        for (int i = 0; i < node->n_inputs; i++) {
            br_edge *edge = &node->inputs[i];
            bool required = edge->node ? edge->node->needed ||
                                             br__find_capture(w, edge->node, edge->output) != NULL
                                       : edge->leaf && br__find_capture(w, edge->leaf, 0) != NULL;
            edge->skip = !required;
            node->needed |= required;
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

/* Few captures, the usual case, are sorted in place: qsort() takes longer than the rest of a small
 * br_grad(). */
static void sort_captures(br_capture *captures, int n)
{
    enum { SMALL_COUNT = 16 };
    if (n > SMALL_COUNT) {
        qsort(captures, (size_t)n, sizeof *captures, br__compare_captures);
        return;
    }
    for (int i = 1; i < n; i++) {
        br_capture moving = captures[i];
        int to = i;
        for (; to > 0 && br__compare_captures(&captures[to - 1], &moving) > 0; to--)
            captures[to] = captures[to - 1];
        captures[to] = moving;
    }
}

static bool make_captures(br_walk *w, int n, br_tensor *const *inputs)
{
    if (n <= 0 || !inputs) {
        br_fail(BR_ERROR_ARGUMENT, w->op,
                n > 0 ? "inputs is NULL, but n_inputs is %d"
                      : "got %d inputs, expected at least one",
                n);
        return false;
    }
    for (int i = 0; i < n; i++) {
        if (!inputs[i] || !br_requires_grad(inputs[i])) {
            br_fail(BR_ERROR_STATE, w->op, "input %d %s does not require grad", i,
                    br__shape(inputs[i]));
            return false;
        }
    }
    w->captures = br_calloc((size_t)n, sizeof *w->captures);
    if (!w->captures)
        return false;
    w->n_captures = n;
    for (int i = 0; i < n; i++)
        w->captures[i].key = capture_key(inputs[i], &w->captures[i].output);
    sort_captures(w->captures, n);
    /* An input that is passed twice is captured once. */
    int n_unique = 0;
    for (int i = 0; i < n; i++)
        if (n_unique == 0 || br__compare_captures(&w->captures[n_unique - 1], &w->captures[i]) != 0)
            w->captures[n_unique++] = w->captures[i];
    w->n_captures = n_unique;
    return true;
}

/* Runs backward and keeps the gradients of the inputs in captures, one for each distinct input. */
static bool walk_to(br_walk *w, int n_outputs, br_tensor *const *outputs,
                    br_tensor *const *gradients, int n_inputs, br_tensor *const *inputs)
{
    br_node_list list = { .items = NULL };
    bool ok = make_captures(w, n_inputs, inputs) && br__collect_nodes(n_outputs, outputs, &list);
    if (ok) {
        mark_required(w, &list);
        w->nodes = &list;
        ok = br__walk(w, n_outputs, outputs, gradients);
    }
    unmark(&list);
    return ok;
}

static void free_captures(br_walk *w)
{
    for (int i = 0; i < w->n_captures; i++)
        br_release(w->captures[i].grad);
    br_free(w->captures);
}

/* ---- br_grad --------------------------------------------------------------------------------- */

static void alias_backward(br_node *node, br_tensor *dy, br_tensor **dx)
{
    (void)node;
    dx[0] = dy;
}

static const br_op alias_op = { "alias", alias_backward, false };

/* Gives `view`, a view of `grad`, the history of `grad`. */
static bool follow(const br_walk *w, br_tensor *view, br_tensor *grad)
{
    const br_autograd *a = br__autograd(grad);
    if (!w->create_graph || !a)
        return true;
    if (a->node)
        return br__share_history(view, a);
    if (!a->requires_grad)
        return true;
    /* grad is a leaf: the caller passed it as the gradient of an output that is also an input. */
    bool no_grad = br__thread.no_grad;
    br__thread.no_grad = false;
    br_record(&alias_op, view, BR_INPUTS(grad), NULL, 0);
    br__thread.no_grad = no_grad;
    return !br__failed();
}

/* Returns a captured gradient as a tensor of the innermost scope: the gradient itself, or a view of
 * it if something else holds it, too. */
static br_tensor *to_scope(const br_walk *w, br_tensor *grad)
{
    if (atomic_load(&grad->refs) == 1 && grad->slot == BR_NO_SLOT) {
        br_retain(grad);
        if (br__scope_add(grad))
            return grad;
        br_release(grad);
        return NULL;
    }
    br_tensor *view = br__detached(grad);
    return view && follow(w, view, grad) ? view : NULL;
}

static bool return_tensor(br_walk *w, int n, br_tensor *const *inputs, br_tensor **grads,
                          const br_grad_options *o)
{
    for (int i = 0; i < n && !br__failed(); i++) {
        int output;
        const void *key = capture_key(inputs[i], &output);
        br_tensor *grad = br__find_capture(w, key, output)->grad;
        if (grad)
            grads[i] = to_scope(w, grad);
        else if (o->materialize_grads)
            grads[i] = br_zeros_like(inputs[i]);
        else if (!o->allow_unused)
            br_fail(BR_ERROR_STATE, w->op,
                    "no output depends on input %d %s: set allow_unused to get NULL instead of "
                    "this error",
                    i, br__shape(inputs[i]));
    }
    return !br__failed();
}

bool br_grad(int n_outputs, br_tensor *const *outputs, int n_inputs, br_tensor *const *inputs,
             br_tensor **grads, const br_grad_options *options)
{
    BR_EVENT(br__thread.events->backward());
    const br_grad_options *o = BR_OPTIONS_OF("grad", br_grad, options);
    for (int i = 0; grads && i < n_inputs; i++)
        grads[i] = NULL;
    if (br__failed())
        return false;
    if (n_outputs <= 0 || !outputs || !grads) {
        br_fail(BR_ERROR_ARGUMENT, "grad", "outputs and grads are required");
        return false;
    }
    br_walk w = { .op = "grad", .n_captures = 0 };
    w.retain_graph = o->retain_graph;
    w.create_graph = o->create_graph;
    bool ok = walk_to(&w, n_outputs, outputs, o->gradients, n_inputs, inputs) &&
              return_tensor(&w, n_inputs, inputs, grads, o);
    free_captures(&w);
    return ok;
}

/* ---- br_backward ----------------------------------------------------------------------------- */

/* Adds the captured gradients to the inputs' gradients, whether the inputs are leaves or not. */
static bool return_captured(br_walk *w, int n, br_tensor *const *inputs)
{
    br_scope *scope = w->scope = br_scope_begin();
    for (int i = 0; i < n && !br__failed(); i++) {
        int output;
        const void *key = capture_key(inputs[i], &output);
        br_capture *c = br__find_capture(w, key, output);
        br_tensor *grad = c->grad;
        c->grad = NULL; /* an input that is passed twice gets it once */
        if (grad && br__accumulate_leaf(w, inputs[i], grad))
            br__run_post_accumulate_hooks(inputs[i]);
    }
    br_scope_end(scope);
    return !br__failed();
}

bool br_backward_all(int n, br_tensor *const *tensors, br_tensor *const *gradients,
                     const br_backward_options *options)
{
    BR_EVENT(br__thread.events->backward());
    const br_backward_options *o = BR_OPTIONS_OF("backward", br_backward, options);
    if (br__failed())
        return false;
    if (n <= 0 || !tensors) {
        br_fail(BR_ERROR_ARGUMENT, "backward",
                n > 0 ? "tensors is NULL, but n is %d" : "got %d tensors, expected at least one",
                n);
        return false;
    }
    br_walk w; /* initialized field by field: the heap's array need not be cleared */
    w.op = "backward";
    w.retain_graph = o->retain_graph;
    w.create_graph = o->create_graph;
    w.n_captures = 0;
    w.captures = NULL;
    w.nodes = NULL;
    br_tensor *const *first = !gradients && o->gradient ? &o->gradient : gradients;
    if (!o->inputs && o->n_inputs == 0)
        return br__walk(&w, n, tensors, first);
    bool ok = walk_to(&w, n, tensors, first, o->n_inputs, o->inputs) &&
              return_captured(&w, o->n_inputs, o->inputs);
    free_captures(&w);
    return ok;
}

bool br_backward_with(br_tensor *t, const br_backward_options *options)
{
    return br_backward_all(1, &t, NULL, options);
}

bool br_backward(br_tensor *t)
{
    return br_backward_with(t, NULL);
}
