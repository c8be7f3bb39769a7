/* ops/composed_internal.h - second-order gradients of fused operations, by their composition. */
#ifndef BR_COMPOSED_INTERNAL_H
#define BR_COMPOSED_INTERNAL_H

#include "ops/ops_internal.h"

/* A fused operation as plain ones: sets the outputs, at most BR_COMPOSED_OUTPUTS, from the inputs,
 * of which optional ones may be NULL. */
enum { BR_COMPOSED_INPUTS = 5, BR_COMPOSED_OUTPUTS = 3, BR_COMPOSED_PARAMS = 128 };
typedef void (*br_composition)(br_tensor *const *inputs, const void *params, br_tensor **outputs);

/* In a gradient that is itself recorded: sets dx[i] to the gradient by inputs[i], for each that
 * `node` wants, of what `compose` makes of them; dy[k] is the gradient by output k, NULL for none.
 * The inputs are the operation's first ones. What is recorded is one node, whose own gradient runs
 * the composition again; there it ends: a third order is refused. `params`, of at most
 * BR_COMPOSED_PARAMS bytes, are what `compose` gets. */
void br__composed_backward(br_node *node, br_composition compose, int n_inputs,
                           br_tensor *const *inputs, int n_outputs, br_tensor *const *dy,
                           const void *params, size_t params_size, br_tensor **dx);

#endif
