/* autograd/walk.h - a walk from outputs to leaves, as its files share it: backward.c walks, grad.c
 * chooses where gradients go. */
#ifndef BR_WALK_H
#define BR_WALK_H

#include "autograd/checkpoint.h"

/* A tensor whose gradient is asked for, and what has come in for it. */
typedef struct br_capture {
    const void *key; /* the node that made the tensor, or the leaf itself */
    int output;
    br_tensor *grad; /* held */
} br_capture;

/* The gradient of a leaf with hooks, which want it complete: held back to the end of the walk. */
typedef struct br_held_leaf {
    struct br_held_leaf *next;
    br_tensor *leaf, *grad; /* both held */
} br_held_leaf;

typedef struct br_walk {
    const char *op; /* what messages call it */
    br_node_list heap;
    bool retain_graph, create_graph;
    int n_captures;       /* 0: gradients go to the leaves, else to these and nowhere else */
    br_capture *captures; /* sorted by key and output */
    br_held_leaf *held;
    br_frame *filled; /* checkpoints whose values were made for this walk */
} br_walk;

int br__compare_captures(const void *a, const void *b);
/* NULL if nothing is captured there. */
br_capture *br__find_capture(const br_walk *w, const void *key, int output);

/* Walks from n tensors, whose own gradients are given; NULL, or a NULL entry: 1 for a tensor of one
 * element. */
bool br__walk(br_walk *w, int n, br_tensor *const *tensors, br_tensor *const *gradients);
/* Adds dx, which the caller holds and gives away, to the leaf's gradient. */
bool br__give_leaf(const br_walk *w, br_tensor *leaf, br_tensor *dx);

#endif
