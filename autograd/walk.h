/* autograd/walk.h - the backward pass: backward.c runs it, grad.c selects where gradients go. */
#ifndef BR_WALK_H
#define BR_WALK_H

#include "autograd/activation_checkpoint.h"

/* A tensor whose gradient was requested, and the sum of the gradients received so far. */
typedef struct br_capture {
    const void *key; /* node that computed the tensor, or the leaf itself */
    int output;
    br_tensor *grad; /* owned */
} br_capture;

/* Gradient of a leaf that must get it as a whole: one with hooks, or one that has a gradient of an
 * earlier pass. It is complete when the oldest node that used the leaf has been visited. */
typedef struct br_deferred_leaf {
    struct br_deferred_leaf *next;
    uint64_t oldest; /* number of that node; 0 if unknown: complete when the pass ends */
    /* If the leaf has a partial-grad hook that was not called yet: number of the oldest node that
     * may change all rows, provided that an older node changes few. Otherwise 0. */
    uint64_t partial;
    br_tensor *leaf; /* owned */
    br_tensor *grad; /* owned; NULL: nothing was received yet */
} br_deferred_leaf;

/* A function to call when the pass ends; see br_queue_callback(). */
typedef struct br_walk_callback {
    struct br_walk_callback *next;
    void (*fn)(void *context);
    void *context;
} br_walk_callback;

typedef struct br_walk {
    const char *op;        /* name in error messages */
    struct br_walk *outer; /* the pass whose hook started this one, or NULL */
    br_scope *scope;       /* scope of the pass */
    br_node_list heap;
    bool retain_graph, create_graph;
    int n_captures;       /* 0: gradients go to the leaves; else only to these captures */
    br_capture *captures; /* sorted by key and output */
    int n_roots;          /* the tensors where the pass began */
    br_tensor *const *roots;
    const br_node_list *nodes;  /* the nodes of their graph if they were collected, else NULL */
    uint64_t number;            /* of the pass; each has its own */
    bool expects_leaves;        /* `deferred` has an entry for each leaf that needs one */
    bool expects_any_leaf;      /* ... or that is unknown: leaves wait until the pass ends */
    br_deferred_leaf *deferred; /* sorted by `oldest`, newest first */
    int n_partial;              /* entries with a number in `partial` */
    br_walk_callback *callbacks, **last_callback;
    br_frame *filled; /* list of the checkpoints whose values were recomputed for this pass */
} br_walk;

int br__compare_captures(const void *a, const void *b);
/* Returns the capture with this key and output, or NULL if there is none. */
br_capture *br__find_capture(const br_walk *w, const void *key, int output);

/* Runs backward from n tensors. gradients[i] is the gradient of tensors[i]; it may be NULL for a
 * tensor of one element, which means 1. `gradients` may be NULL, too. */
bool br__walk(br_walk *w, int n, br_tensor *const *tensors, br_tensor *const *gradients);
/* Adds dx to *slot, or makes it *slot if that is NULL. Takes over the caller's reference to dx. */
bool br__accumulate(const br_walk *w, br_tensor **slot, br_tensor *dx);
/* Adds dx, the whole gradient of this pass, to the leaf's gradient. Takes over the caller's
 * reference to dx. */
bool br__accumulate_leaf(const br_walk *w, br_tensor *leaf, br_tensor *dx);
/* Delivers dx, which is one part of the leaf's gradient or all of it. Takes over the caller's
 * reference to dx. */
bool br__deliver_to_leaf(br_walk *w, br_tensor *leaf, br_tensor *dx);
/* Returns the sum of the parts that the leaf received in this pass, to which further parts may be
 * added in place, or NULL. */
br_tensor *br__pending_leaf_grad(const br_walk *w, const br_tensor *leaf);
/* Delivers the gradients that are complete after the visit of node number `visited`: the remaining
 * nodes are older. Calls the partial-grad hooks whose time has come. If `ok` is false, only frees
 * the gradients. */
bool br__deliver_complete(br_walk *w, uint64_t visited, bool ok);

#endif
