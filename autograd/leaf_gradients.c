/* autograd/leaf_gradients.c - adds up the gradients of a backward pass, and delivers them to
 * leaves.
 *
 * N passes give a leaf ((g0 + g1) + g2) + ..., where each g is the whole gradient of one pass. Sums
 * of floats depend on their brackets, so the parts of g must not be added one by one to what
 * earlier passes left. Only the first pass may do so, since it begins with nothing. Later ones, and
 * leaves with hooks, keep the parts aside until the oldest node that used the leaf was visited. */
#include "autograd/anomaly.h"
#include "autograd/cycles.h"
#include "autograd/walk.h"

#include <stdlib.h>

/* ---- Accumulation ---------------------------------------------------------------------------- */

/* Returns slot + dx, owned by the caller. Adds in place if nothing else holds slot and slot is
 * contiguous (elements of an expanded tensor share memory). */
static br_tensor *sum_of(const br_walk *w, br_tensor *slot, br_tensor *dx)
{
    if (!w->create_graph && br__is_exclusive(slot) && slot->contiguous)
        return br_retain(br__grad_ops.add_(slot, dx));
    br_scope *scope = br_scope_begin();
    br_tensor *sum = br__take(br__grad_ops.add(slot, dx));
    br_scope_end(scope);
    return sum;
}

bool br__accumulate(const br_walk *w, br_tensor **slot, br_tensor *dx)
{
    if (!*slot) {
        *slot = dx;
        return true;
    }
    int anomaly = br__tape.anomaly;
    unsigned parts = BR_ANOMALY ? br__anomaly_of(*slot) | br__anomaly_of(dx) : 0;
    br__tape.anomaly = 0; /* the addition is not checked: br__anomaly_sum() checks the sum */
    br_tensor *sum = sum_of(w, *slot, dx);
    br__tape.anomaly = anomaly;
    br_release(dx);
    if (!sum)
        return false;
    br_release(*slot);
    *slot = sum;
    return !BR_ANOMALY || br__anomaly_sum(sum, parts);
}

/* Returns dx, or a contiguous copy of it, so that optimizers may change a leaf's gradient. Takes
 * over the caller's reference to dx. The scope of the pass, or the caller's, must be open. */
static br_tensor *make_writable(const br_walk *w, br_tensor *dx)
{
    if (w->create_graph || (br__is_exclusive(dx) && dx->contiguous))
        return dx;
    br_tensor *copy = br__new_like("backward", dx, dx->dtype);
    if (copy)
        br__copy(copy, dx);
    br_release(dx);
    return br__take(copy);
}

bool br__accumulate_leaf(const br_walk *w, br_tensor *leaf, br_tensor *dx)
{
    br_autograd *a = br__autograd_make(leaf);
    if (a && a->grad && !w->create_graph) {
        /* In place even if the caller holds it, as in PyTorch. */
        bool ok = br__grad_ops.add_(a->grad, dx) != NULL;
        br_release(dx);
        return ok;
    }
    if (a && !a->grad) {
        dx = make_writable(w, dx);
        a->grad_pass = w->number;
    }
    if (!a || !dx) {
        br_release(dx);
        return false;
    }
    if (!br__accumulate(w, &a->grad, dx))
        return false;
    a->grad->is_grad = true;
    /* A former leaf may have a history now, but the graph of this pass still holds it. */
    bool circle = w->create_graph && (br_is_leaf(leaf) || a->stopped) && !br_is_leaf(a->grad);
    return !circle || br__end_history_with(w->scope, leaf);
}

/* ---- Captures -------------------------------------------------------------------------------- */

int br__compare_captures(const void *a, const void *b)
{
    const br_capture *x = a, *y = b;
    if (x->key != y->key)
        return (uintptr_t)x->key < (uintptr_t)y->key ? -1 : 1;
    return (x->output > y->output) - (x->output < y->output);
}

br_capture *br__find_capture(const br_walk *w, const void *key, int output)
{
    br_capture target = { key, output, NULL };
    return w->n_captures == 0 ? NULL
                              : bsearch(&target, w->captures, (size_t)w->n_captures, sizeof target,
                                        br__compare_captures);
}

/* ---- Leaves that wait for their whole gradient ----------------------------------------------- */

/* Returns whether the leaf must get its gradient as a whole: its hooks need it, or it is added to
 * the gradient of an earlier pass. */
static bool needs_whole_gradient(const br_walk *w, const br_autograd *a)
{
    return a && (a->hooks || (a->grad && a->grad_pass != w->number && w->n_captures == 0));
}

/* Adds an entry for a leaf in front of *list. Returns it, or NULL and an error. */
static br_deferred_leaf *add_deferred(br_deferred_leaf **list, br_tensor *leaf, uint64_t oldest)
{
    br_deferred_leaf *h = br_malloc(sizeof *h);
    if (!h)
        return NULL;
    *h = (br_deferred_leaf){ .next = *list, .oldest = oldest, .leaf = br_retain(leaf) };
    return *list = h;
}

/* Returns the entry of a leaf, or NULL. Entries are removed in the order in which leaves are
 * completed, so the search is short. */
static br_deferred_leaf *deferred_leaf(const br_walk *w, const br_tensor *leaf)
{
    br_deferred_leaf *h = w->deferred;
    while (h && h->leaf != leaf)
        h = h->next;
    return h;
}

/* Returns whether a leaf whose uses were counted must be kept aside. A leaf without hooks that is
 * used once gets its whole gradient at once. */
static bool needs_entry(const br_walk *w, const br_autograd *a)
{
    return needs_whole_gradient(w, a) && a->uses > (a->hooks ? 0 : 1);
}

/* What br_autograd.uses means while a pass looks for leaves. */
enum {
    TWO_USES = 2, /* smaller numbers count */
    FEW_ROWS = 3  /* it has an entry, and the nodes found since then change few of its rows */
};

/* Counts a use of t if it is a leaf that must get its whole gradient. Returns whether it needs an
 * entry. */
static bool count_use(const br_walk *w, br_tensor *t)
{
    br_autograd *a = br__autograd(t);
    if (!needs_whole_gradient(w, a) || a->node)
        return false;
    if (a->uses < TWO_USES)
        a->uses++;
    return needs_entry(w, a);
}

/* Counts, up to two, how often the pass adds to the gradients of these leaves. Returns whether a
 * leaf needs an entry. */
static bool count_uses(const br_walk *w, const br_node_list *nodes)
{
    bool some = false;
    for (int i = 0; i < w->n_roots; i++)
        some |= count_use(w, w->roots[i]);
    for (size_t k = 0; k < nodes->count; k++)
        for (int i = 0; i < nodes->items[k]->n_inputs; i++)
            some |= count_use(w, nodes->items[k]->inputs[i].leaf);
    return some;
}

static void clear_use(br_tensor *t)
{
    br_autograd *a = br__autograd(t);
    if (a && a->uses > 0)
        a->uses = 0;
}

static void clear_uses(const br_walk *w, const br_node_list *nodes)
{
    for (int i = 0; i < w->n_roots; i++)
        clear_use(w->roots[i]);
    for (size_t k = 0; k < nodes->count; k++)
        for (int i = 0; i < nodes->items[k]->n_inputs; i++)
            clear_use(nodes->items[k]->inputs[i].leaf);
}

/* Adds an entry for a leaf that `node` used, or where the pass begins if that is NULL, if the leaf
 * needs one and has none yet. */
static bool expect_leaf(br_walk *w, br_tensor *leaf, const br_node *node)
{
    br_autograd *a = br__autograd(leaf);
    bool few_rows = node && node->few_rows;
    if (a && a->uses == FEW_ROWS) {
        if (few_rows)
            return true;
        a->uses = 0;
        deferred_leaf(w, leaf)->partial = node->number;
        w->n_partial++;
        return true;
    }
    if (!needs_entry(w, a))
        return true;
    a->uses = few_rows && w->n_captures == 0 && br__has_partial_hook(a) ? FEW_ROWS : 0;
    return add_deferred(&w->deferred, leaf, node ? node->number : 0) != NULL;
}

/* Adds the entries of the leaves that need one. A leaf where the pass begins waits for the end of
 * the pass. The nodes are visited from the oldest to the newest, so the first that used a leaf is
 * the oldest, and the entries end up in descending order. */
static bool expect_leaves_of(br_walk *w, const br_node_list *nodes)
{
    const br_node **sorted = br_malloc((nodes->count + 1) * sizeof *sorted);
    if (!sorted)
        return false;
    for (size_t k = 0; k < nodes->count; k++)
        sorted[k] = nodes->items[k];
    qsort(sorted, nodes->count, sizeof *sorted, br__compare_nodes);
    bool ok = true;
    for (int i = 0; ok && i < w->n_roots; i++)
        ok = expect_leaf(w, w->roots[i], NULL);
    for (size_t k = 0; ok && k < nodes->count; k++)
        for (int i = 0; ok && i < sorted[k]->n_inputs; i++)
            ok = expect_leaf(w, sorted[k]->inputs[i].leaf, sorted[k]);
    br_free(sorted);
    return ok;
}

/* Finds out which leaves of the graph need an entry, and the oldest node that used each. This
 * happens when the first leaf that must get its whole gradient receives a part, so that passes
 * without such leaves cost nothing. */
__attribute__((cold, noinline)) static bool expect_leaves(br_walk *w)
{
    if (w->expects_leaves)
        return true;
    w->expects_leaves = true;
    for (const br_walk *outer = w->outer; outer; outer = outer->outer)
        if (outer->nodes) { /* its marks are in the nodes: all leaves wait until the pass ends */
            w->expects_any_leaf = true;
            return true;
        }
    br_node_list own = { .items = NULL };
    const br_node_list *nodes = w->nodes ? w->nodes : &own;
    bool ok = w->nodes || br__collect_nodes(w->n_roots, w->roots, &own);
    if (ok && count_uses(w, nodes))
        ok = expect_leaves_of(w, nodes);
    clear_uses(w, nodes);
    for (size_t k = 0; k < own.count; k++)
        own.items[k]->seen = false;
    br__node_list_free(&own);
    return ok;
}

/* Delivers a gradient to a leaf: the complete gradient, or one summand of it. */
static bool deliver_leaf(br_walk *w, br_tensor *leaf, br_tensor *dx)
{
    br_capture *c = br__find_capture(w, leaf, 0);
    if (c)
        return br__accumulate(w, &c->grad, dx);
    if (w->n_captures == 0)
        return br__accumulate_leaf(w, leaf, dx);
    br_release(dx);
    return true;
}

/* Adds dx to the entry of a leaf that must get its whole gradient. Takes over the caller's
 * reference to dx. Without an entry, dx is the whole gradient, unless hooks or an outer pass make
 * it wait for the end of this pass. */
__attribute__((cold, noinline)) static bool defer_leaf(br_walk *w, br_tensor *leaf, br_tensor *dx)
{
    br_deferred_leaf *h = NULL;
    bool ok = expect_leaves(w);
    if (ok && !(h = deferred_leaf(w, leaf))) {
        if (!br__autograd(leaf)->hooks && !w->expects_any_leaf)
            return deliver_leaf(w, leaf, dx);
        br_deferred_leaf **last = &w->deferred;
        while (*last)
            last = &(*last)->next;
        ok = (h = add_deferred(last, leaf, 0)) != NULL;
    }
    if (!ok) {
        br_release(dx);
        return false;
    }
    if (!h->grad) /* so that the sum is computed in place, as in br__accumulate_leaf() */
        return (h->grad = make_writable(w, dx)) != NULL;
    return br__accumulate(w, &h->grad, dx);
}

/* Runs the hooks of a leaf on its complete gradient, and delivers the gradient. */
static bool deliver_deferred(br_walk *w, br_deferred_leaf *h)
{
    if (!br__run_leaf_hooks(h->leaf, &h->grad))
        return false;
    br_tensor *grad = h->grad;
    h->grad = NULL;
    return deliver_leaf(w, h->leaf, grad) &&
           (w->n_captures > 0 || br__run_post_accumulate_hooks(h->leaf));
}

/* Runs the hooks of the leaves whose gradients lack only parts that change few rows. */
static bool show_partial(br_walk *w, uint64_t visited)
{
    bool ok = true;
    for (br_deferred_leaf *h = w->deferred; ok && h; h = h->next) {
        if (h->partial == 0 || h->partial < visited)
            continue;
        br_scope *scope = br__thread.scope;
        size_t mark = br__thread.top;
        h->partial = 0;
        w->n_partial--;
        ok = !h->grad || br__run_partial_hooks(h->leaf, h->grad);
        br__scope_free_from(scope, mark);
    }
    return ok;
}

/* Delivers the gradients that are complete after the visit of node number `visited`: the remaining
 * nodes are older. Tensors that hooks create are freed after each leaf. If `ok` is false, only
 * frees the entries. */
bool br__deliver_complete(br_walk *w, uint64_t visited, bool ok)
{
    if (w->n_partial > 0 && ok)
        ok = show_partial(w, visited);
    while (w->deferred && w->deferred->oldest >= visited) {
        br_deferred_leaf *h = w->deferred;
        br_scope *scope = br__thread.scope;
        size_t mark = br__thread.top;
        w->deferred = h->next;
        ok = ok && (!h->grad || deliver_deferred(w, h));
        br__scope_free_from(scope, mark);
        br_release(h->grad);
        br_release(h->leaf);
        br_free(h);
    }
    return ok;
}

bool br__deliver_to_leaf(br_walk *w, br_tensor *leaf, br_tensor *dx)
{
    return needs_whole_gradient(w, br__autograd(leaf)) ? defer_leaf(w, leaf, dx)
                                                       : deliver_leaf(w, leaf, dx);
}

br_tensor *br__pending_leaf_grad(const br_walk *w, const br_tensor *leaf)
{
    const br_autograd *a = br__autograd(leaf);
    if (w->n_captures > 0 || !a)
        return NULL;
    if (!needs_whole_gradient(w, a))
        return a->grad;
    const br_deferred_leaf *h = deferred_leaf(w, leaf);
    return h ? h->grad : NULL;
}
