/* autograd/grad.c - where the gradients of a walk go: to the leaves, to chosen tensors (br_backward
 * and its kin), or to the caller (br_grad). */
#include "autograd/walk.h"

#include <stdlib.h>

/* ---- Walks to chosen tensors ----------------------------------------------------------------- */

static int compare_numbers(const void *a, const void *b)
{
    const br_node *x = *(br_node *const *)a, *y = *(br_node *const *)b;
    return (x->number > y->number) - (x->number < y->number);
}

/* Finds the nodes and edges that lead to a captured input; from the oldest on, so that a node's
 * inputs are known before it. */
static void mark_needed(const br_walk *w, br_node_list *list)
{
    if (list->count > 0)
        qsort(list->items, list->count, sizeof *list->items, compare_numbers);
    for (size_t k = 0; k < list->count; k++) {
        br_node *node = list->items[k];
        node->needed = false;
        for (int i = 0; i < node->n_inputs; i++) {
            br_edge *edge = &node->inputs[i];
            bool wanted = edge->node ? edge->node->needed ||
                                           br__find_capture(w, edge->node, edge->output) != NULL
                                     : edge->leaf && br__find_capture(w, edge->leaf, 0) != NULL;
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

static bool make_captures(br_walk *w, int n, br_tensor *const *inputs)
{
    if (n <= 0 || !inputs) {
        br__fail(BR_ERROR_ARGUMENT, w->op, "%d inputs, must be at least one", n);
        return false;
    }
    for (int i = 0; i < n; i++) {
        if (!inputs[i] || !br_requires_grad(inputs[i])) {
            br__fail(BR_ERROR_STATE, w->op, "input %d %s does not require grad", i,
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
    qsort(w->captures, (size_t)n, sizeof *w->captures, br__compare_captures);
    /* An input named twice is captured once. */
    int kept = 0;
    for (int i = 0; i < n; i++)
        if (kept == 0 || br__compare_captures(&w->captures[kept - 1], &w->captures[i]) != 0)
            w->captures[kept++] = w->captures[i];
    w->n_captures = kept;
    return true;
}

/* The walk with all that comes in kept in captures, one for each of the inputs. */
static bool walk_to(br_walk *w, int n_outputs, br_tensor *const *outputs,
                    br_tensor *const *gradients, int n_inputs, br_tensor *const *inputs)
{
    br_node_list list = { .items = NULL };
    bool ok = make_captures(w, n_inputs, inputs) && br__collect_nodes(n_outputs, outputs, &list);
    if (ok) {
        mark_needed(w, &list);
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

/* Gives a view of a gradient the gradient's history. */
static bool follow(const br_walk *w, br_tensor *view, br_tensor *grad)
{
    const br_autograd *a = br__autograd(grad);
    if (!w->create_graph || !a)
        return true;
    if (a->node)
        return br__share_history(view, a);
    if (!a->requires_grad)
        return true;
    /* A leaf came through untouched: the gradient that was given, of an output that is an input. */
    bool no_grad = br__thread.no_grad;
    br__thread.no_grad = false;
    br_record(&alias_op, view, BR_INPUTS(grad), NULL, 0);
    br__thread.no_grad = no_grad;
    return !br__failed();
}

/* A captured gradient as a tensor of the innermost scope: itself, or, where it is somebody else's
 * too, a view of it. */
static br_tensor *to_scope(const br_walk *w, br_tensor *grad)
{
    if (atomic_load(&grad->refs) == 1 && grad->slot == SIZE_MAX) {
        br_retain(grad);
        if (br__own(grad))
            return grad;
        br_release(grad);
        return NULL;
    }
    br_tensor *view = br__detached(grad);
    return view && follow(w, view, grad) ? view : NULL;
}

static bool hand_out(br_walk *w, int n, br_tensor *const *inputs, br_tensor **grads,
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
            br__fail(BR_ERROR_STATE, w->op,
                     "input %d %s: no output depends on it (allow_unused gives NULL instead)", i,
                     br__shape(inputs[i]));
    }
    return !br__failed();
}

bool br_grad(int n_outputs, br_tensor *const *outputs, int n_inputs, br_tensor *const *inputs,
             br_tensor **grads, const br_grad_options *options)
{
    BR_EVENT(br__event_backward());
    static const br_grad_options defaults;
    const br_grad_options *o = options ? options : &defaults;
    for (int i = 0; grads && i < n_inputs; i++)
        grads[i] = NULL;
    if (br__failed())
        return false;
    if (n_outputs <= 0 || !outputs || !grads) {
        br__fail(BR_ERROR_ARGUMENT, "grad", "outputs and grads are required");
        return false;
    }
    br_walk w = { .op = "grad", .n_captures = 0 };
    w.retain_graph = o->retain_graph;
    w.create_graph = o->create_graph;
    bool ok = walk_to(&w, n_outputs, outputs, o->gradients, n_inputs, inputs) &&
              hand_out(&w, n_inputs, inputs, grads, o);
    free_captures(&w);
    return ok;
}

/* ---- br_backward ----------------------------------------------------------------------------- */

/* Adds what came in for the inputs to their gradients, whether they are leaves or not. */
static bool give_captured(br_walk *w, int n, br_tensor *const *inputs)
{
    br_scope *scope = br_scope_begin();
    for (int i = 0; i < n && !br__failed(); i++) {
        int output;
        const void *key = capture_key(inputs[i], &output);
        br_capture *c = br__find_capture(w, key, output);
        br_tensor *grad = c->grad;
        c->grad = NULL; /* of an input that is named twice nothing is left */
        if (grad && br__give_leaf(w, inputs[i], grad))
            br__run_accumulated(inputs[i]);
    }
    br_scope_end(scope);
    return !br__failed();
}

bool br_backward_all(int n, br_tensor *const *tensors, br_tensor *const *gradients,
                     const br_backward_options *options)
{
    BR_EVENT(br__event_backward());
    static const br_backward_options defaults;
    const br_backward_options *o = options ? options : &defaults;
    if (br__failed())
        return false;
    if (n <= 0 || !tensors) {
        br__fail(BR_ERROR_ARGUMENT, "backward", "%d tensors, must be at least one", n);
        return false;
    }
    br_walk w; /* field by field: the heap's room need not be cleared */
    w.op = "backward";
    w.retain_graph = o->retain_graph;
    w.create_graph = o->create_graph;
    w.n_captures = 0;
    w.captures = NULL;
    br_tensor *const *first = !gradients && o->gradient ? &o->gradient : gradients;
    if (!o->inputs && o->n_inputs == 0)
        return br__walk(&w, n, tensors, first);
    bool ok = walk_to(&w, n, tensors, first, o->n_inputs, o->inputs) &&
              give_captured(&w, o->n_inputs, o->inputs);
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
