/* ops/composed_internal.h - second-order gradients of fused operations, computed from an equivalent
 * composition of plain operations. */
#ifndef BR_COMPOSED_INTERNAL_H
#define BR_COMPOSED_INTERNAL_H

#include "ops/ops_internal.h"

/* Computes a fused operation with plain operations: sets its outputs, at most BR_COMPOSED_OUTPUTS,
 * from its inputs. Optional inputs may be NULL. */
enum { BR_COMPOSED_INPUTS = 5, BR_COMPOSED_OUTPUTS = 3, BR_COMPOSED_PARAMS = 128 };
typedef void (*br_composition)(br_tensor *const *inputs, const void *params, br_tensor **outputs);

/* Computes gradients while backward is itself recorded: sets dx[i] to the gradient of `compose`
 * with respect to inputs[i], for each input whose gradient `node` needs. dy[k] is the gradient with
 * respect to output k, or NULL if there is none. `inputs` are the operation's first n_inputs
 * inputs. Records one node, whose own gradient runs the composition again; third-order gradients
 * fail. `params`, of at most BR_COMPOSED_PARAMS bytes, are passed to `compose`. */
void br__composed_backward(br_node *node, br_composition compose, int n_inputs,
                           br_tensor *const *inputs, int n_outputs, br_tensor *const *dy,
                           const void *params, size_t params_size, br_tensor **dx);

#endif
