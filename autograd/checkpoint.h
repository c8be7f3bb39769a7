/* autograd/checkpoint.h - what the tape asks of checkpoints: see checkpoint.c. */
#ifndef BR_CHECKPOINT_H
#define BR_CHECKPOINT_H

#include "autograd/tape.h"

/* One call of br_activation_checkpoint(): how to make again what its nodes would have saved. */
typedef struct br_frame br_frame;

/* Called for a value that is to be saved while a frame is open in the thread: takes the node in.
 * False if the value is not to be kept, or memory fails. */
bool br__frame_keeps(br_frame *frame, br_node *node);
/* Before a gradient: makes the saved values of the node's frame if they are not there. Frames that
 * were filled are added to the list, to be emptied at the end of the walk. */
bool br__frame_fill(br_frame *frame, br_frame **filled);
void br__frames_empty(br_frame *filled);
/* The node is freed, or needs its saved values no more. */
void br__frame_leave(br_node *node);

#endif
