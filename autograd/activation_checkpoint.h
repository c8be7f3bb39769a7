/* autograd/activation_checkpoint.h - the functions of activation checkpoints that the tape calls:
 * see activation_checkpoint.c. */
#ifndef BR_CHECKPOINT_H
#define BR_CHECKPOINT_H

#include "autograd/tape.h"

/* One call of br_activation_checkpoint(), with all that is needed to recompute the values that its
 * nodes would have saved. */
typedef struct br_frame br_frame;

/* Adds the node, which saves a value, to `frame`, the thread's open frame. Returns false if the
 * value must not be kept, or if allocation fails. */
bool br__frame_add(br_frame *frame, br_node *node);
/* Recomputes the saved values of the frame's nodes if they are missing. Backward calls it before a
 * node's gradient function. Adds each frame that it fills to the list `filled`; br__frames_empty()
 * empties these frames at the end of the pass. */
bool br__frame_fill(br_frame *frame, br_frame **filled);
void br__frames_empty(br_frame *filled);
/* Removes a node that is freed or no longer needs its saved values from its frame. */
void br__frame_remove(br_node *node);

#endif
