/* autograd/anomaly.h - the functions of anomaly detection that the tape calls: see anomaly.c. All
 * functions are called only under BR_ANOMALY. */
#ifndef BR_ANOMALY_H
#define BR_ANOMALY_H

#include "autograd/node.h"

/* Returns false and sets an error if the output has an anomaly that the inputs do not have. */
bool br__anomaly_forward(const br_op *op, const br_tensor *output, int n_inputs,
                         br_tensor *const *inputs);
/* Stores in a new node the place where it was recorded. */
void br__anomaly_set_location(br_node *node);
/* Returns false and sets an error if the node's gradients dx have an anomaly that the gradients of
 * its outputs do not have. */
bool br__anomaly_backward(const br_node *node, br_tensor *const *dx);
/* Returns the kinds of anomalies in t, as bits. */
unsigned br__anomaly_of(const br_tensor *t);
/* Returns false and sets an error if the sum has a kind of anomaly that is not in `parts`, the bits
 * of the summands. */
bool br__anomaly_sum(const br_tensor *sum, unsigned parts);

#endif
