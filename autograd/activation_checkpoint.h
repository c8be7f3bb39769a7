/* autograd/activation_checkpoint.h - the functions of activation checkpoints that backward calls:
 * see activation_checkpoint.c. */
#ifndef BR_CHECKPOINT_H
#define BR_CHECKPOINT_H

#include "autograd/tape.h"

/* Recomputes the saved values of the frame's nodes if they are missing. Backward calls it before a
 * node's gradient function. Adds each frame that it fills to the list `filled`; br__frames_empty()
 * empties these frames at the end of the pass. */
bool br__frame_fill(br_frame *frame, br_frame **filled);
void br__frames_empty(br_frame *filled);

#endif
