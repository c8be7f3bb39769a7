/* autograd/cycles.h - finds and prevents reference cycles between tensors and their graphs. */
#ifndef BR_CYCLES_H
#define BR_CYCLES_H

#include "autograd/tape.h"

/* Ends the histories of t's gradient, of that one's gradient and so on, and of t if t is a
 * gradient, when the parent of `scope` closes, or the innermost scope if `scope` is NULL. Returns
 * false and sets an error if allocation fails. */
bool br__end_history_with(br_scope *scope, br_tensor *t);
/* Returns true if the node marks a history that has ended. */
bool br__history_ended(const br_node *node);
/* Returns true if grad is t, is a view of t, or has t as its own gradient, directly or indirectly.
 * References through the graph do not count. */
bool br__grad_references(const br_tensor *grad, const br_tensor *t);
/* Returns true if the tensors' graph has an edge to the leaf. Also returns true, and sets an error,
 * if allocation fails. */
bool br__graph_reaches(int n, br_tensor *const *tensors, const br_tensor *leaf);

#endif
