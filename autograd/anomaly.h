/* autograd/anomaly.h - what the tape asks of the search for NaN and infinities: see anomaly.c. All
 * of it is called under BR_ANOMALY only. */
#ifndef BR_ANOMALY_H
#define BR_ANOMALY_H

#include "autograd/tape.h"

/* False and an error if the operation made what its inputs had not. */
bool br__anomaly_forward(const br_op *op, const br_tensor *output, int n_inputs,
                         br_tensor *const *inputs);
/* Notes in a new node where it is recorded. */
void br__anomaly_place(br_node *node);
/* False and an error if the node's gradient dx made what the gradients by its outputs had not. */
bool br__anomaly_backward(const br_node *node, br_tensor *const *dx);
/* What of it t has, as bits; the sum of a gradient is told what its parts had. */
unsigned br__anomaly_of(const br_tensor *t);
bool br__anomaly_sum(const br_tensor *sum, unsigned parts);

#endif
