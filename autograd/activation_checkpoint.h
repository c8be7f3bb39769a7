/* autograd/activation_checkpoint.h - frames of activation checkpoints, and the functions that the
 * tape calls: see activation_checkpoint.c. */
#ifndef BR_CHECKPOINT_H
#define BR_CHECKPOINT_H

#include "autograd/tape.h"

/* One call of br_activation_checkpoint(), with all that is needed to recompute the values that its
 * nodes would have saved. */
typedef struct br_frame br_frame;
struct br_frame {
    int refs; /* one for each node or nested frame that may need it, and each current user */
    br_frame *parent; /* enclosing checkpoint, owned: its second run provides the inputs; or NULL */
    bool keeps;       /* second run: keeps values, owns its nodes and frames */
    bool open;        /* the function is in its first run */
    bool filled;
    br_frame *next_filled; /* owned */

    br_function fn;
    void *context;
    void *copy; /* copy of the context, or NULL */
    void (*destroy)(void *context);
    bool uses_new_rng;
    br_rng_state rng; /* state before the function ran */
    int n_inputs;
    br_saved_value *inputs;

    br_node **nodes; /* in the order of their first saved value; NULL for a removed node */
    size_t n_nodes;
    int64_t node_capacity;
    br_frame **frames; /* frames of nested checkpoints, likewise */
    size_t n_frames;
    int64_t frame_capacity;
    size_t index; /* index in the parent's `frames` */
};

/* ---- Lifetime, in node.c --------------------------------------------------------------------- */

br_frame *br__frame_retain(br_frame *frame);
void br__frame_release(br_frame *frame);
/* Releases the values of the frame's inputs. */
void br__frame_drop_inputs(br_frame *frame);
/* Releases the nodes and frames of a second run. Nodes that something else holds become ordinary
 * nodes. */
void br__frame_release_references(br_frame *frame);

/* Adds the node, which saves a value, to `frame`, the thread's open frame. Returns false if the
 * value must not be kept, or if allocation fails. */
bool br__frame_add(br_frame *frame, br_node *node);
/* Removes a node that is freed or no longer needs its saved values from its frame. */
void br__frame_remove(br_node *node);

/* ---- The second run, in activation_checkpoint.c ---------------------------------------------- */

/* Recomputes the saved values of the frame's nodes if they are missing. Backward calls it before a
 * node's gradient function. Adds each frame that it fills to the list `filled`; br__frames_empty()
 * empties these frames at the end of the pass. */
bool br__frame_fill(br_frame *frame, br_frame **filled);
void br__frames_empty(br_frame *filled);

#endif
