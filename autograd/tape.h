/* autograd/tape.h - the tape: its functions for the other files of autograd/. Operations need only
 * brasa/autograd.h. */
#ifndef BR_TAPE_H
#define BR_TAPE_H

#include "autograd/node.h"
#include "autograd/part.h"

/* ---- Operations that the tape uses ----------------------------------------------------------- */

/* Defined in ops/grad_ops.c. The tape calls differentiable operations only through this table, so
 * that it does not depend on ops/. */
typedef struct br_grad_ops {
    br_tensor *(*add)(br_tensor *a, br_tensor *b);
    br_tensor *(*add_)(br_tensor *a, br_tensor *b);
    br_tensor *(*to)(br_tensor *x, br_dtype dtype);
    br_tensor *(*sum_to_size)(br_tensor *x, int ndim, const int64_t *sizes);
    br_tensor *(*stack)(int n, br_tensor *const *tensors, int64_t dim);
    br_tensor *(*reshape)(br_tensor *x, int ndim, const int64_t *sizes);
    br_tensor *(*part)(br_tensor *x, const br_part *part);
    br_tensor *(*clear_part)(br_tensor *x, const br_part *part);
    br_tensor *(*fill_part)(br_tensor *y, const br_part *part);
} br_grad_ops;
extern const br_grad_ops br__grad_ops;

/* ---- Hooks ----------------------------------------------------------------------------------- */

/* Runs the hooks of a node's output, or of a leaf, on *grad. If a hook returns a replacement, sets
 * *grad to a new reference to it and releases the old one. */
bool br__run_hooks(br_hook_link *const *list, br_tensor **grad);
bool br__run_leaf_hooks(br_tensor *leaf, br_tensor **grad);
/* Runs the post-accumulate-grad hooks of a leaf. */
bool br__run_post_accumulate_hooks(br_tensor *leaf);
/* Runs the partial-grad hooks of a leaf. */
bool br__run_partial_hooks(br_tensor *leaf, br_tensor *grad);

/* ---- Autograd metadata of a tensor ----------------------------------------------------------- */

/* Returns the position of the view t in its base. */
br_part br__part_of(const br_tensor *t);
/* Sets the error of a view that is not inside its base: `op` and `name` begin the message. */
void br__fail_outside_base(const char *op, const char *name, const br_tensor *view);
/* Updates the history of a view whose base was changed in place. */
void br__follow_base(const br_tensor *t);
static inline br_autograd *br__autograd(const br_tensor *t)
{
    if (!t)
        return NULL;
    if (__builtin_expect(t->base && t->changes != t->base->changes, 0))
        br__follow_base(t);
    return (br_autograd *)(void *)t->meta;
}
/* For functions that must not change t's history. br__autograd_as_is() returns t's metadata without
 * updating it. br__is_behind_base() returns true if t is a view whose base was changed in place, so
 * that br__autograd() would give t a new history. */
static inline const br_autograd *br__autograd_as_is(const br_tensor *t)
{
    return (const br_autograd *)(const void *)t->meta;
}
static inline bool br__is_behind_base(const br_tensor *t)
{
    if (!t->base || t->changes == t->base->changes)
        return false;
    const br_autograd *base = br__autograd_as_is(t->base);
    return base && base->node;
}
/* Returns true if the leaf has a partial-grad hook. */
bool br__has_partial_hook(const br_autograd *a);
/* Returns t's autograd metadata, which it creates if there is none. Returns NULL and sets an error
 * if allocation fails. */
br_autograd *br__autograd_make(br_tensor *t);
/* Like br_record(), but does not check whether there is anything to record. If t has a history, the
 * new node replaces it. */
br_node *br__record_as(const br_op *op, br_tensor *t, int n_inputs, br_tensor *const *inputs,
                       const void *params, size_t params_size);
__attribute__((cold)) bool br__refuse_record(const char *name, const br_op *op);
/* Returns false and sets an error if the operation or its list of inputs is NULL. */
static inline bool br__recordable(const char *name, const br_op *op, int n_inputs,
                                  br_tensor *const *inputs)
{
    return (op && (inputs || n_inputs <= 0)) || br__refuse_record(name, op);
}
bool br__any_requires_grad(int n, br_tensor *const *tensors);
/* Makes t, which has no history, the same output of the same node as `of`. */
bool br__share_history(br_tensor *t, const br_autograd *of);
/* Makes t a leaf that keeps its gradient. If allocation fails, the gradient is dropped, too. */
void br__drop_history(br_tensor *t);
/* Releases the gradient of t, which may be NULL. */
void br__drop_grad(br_tensor *t);

/* ---- Saved values ---------------------------------------------------------------------------- */

/* Returns a saved value of t for the node's gradient; node may be NULL. If `keep` is false, only
 * the version is stored. */
br_saved_value br__saved_value(const br_node *node, br_tensor *t, bool keep);
/* Returns the same value as br_saved(). If the pass frees the graph, moves it from the node to the
 * innermost scope, so that a gradient may overwrite it if br_may_overwrite() allows that. */
br_tensor *br__take_saved(br_node *node, int slot);
/* ---- Growable lists of nodes ----------------------------------------------------------------- */

typedef struct br_node_list {
    br_node **items; /* points to few[] at first, so a list must not be moved in memory */
    size_t count, capacity;
    br_node *inline_items[32];
} br_node_list;
bool br__node_list_push(br_node_list *list, br_node *node);
void br__node_list_free(br_node_list *list);
/* Compares two pointers to nodes by the nodes' numbers. */
int br__compare_nodes(const void *a, const void *b);
/* Collects every node of the tensors' graph, each once, in no particular order. Sets `seen` in all
 * of them; the caller must clear it. The list owns no references. Returns false and sets an error
 * if allocation fails. */
bool br__collect_nodes(int n, br_tensor *const *tensors, br_node_list *list);

/* Calls visit for every leaf that requires grad in the graph of `output`, once for each edge to the
 * leaf. */
bool br__visit_leaves(br_tensor *output, void (*visit)(br_tensor *leaf, void *context),
                      void *context);

/* Like br_gradcheck(), but messages refer to input i by names[i] if that is not NULL. */
bool br__gradcheck(br_function f, void *context, int n_inputs, br_tensor *const *inputs,
                   const char *const *names, const br_gradcheck_options *options);

#endif
