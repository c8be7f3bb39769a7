/* autograd/node.h - what a graph consists of: nodes, the metadata of tensors, and the frames of
 * activation checkpoints; and the thread's state of the tape. */
#ifndef BR_NODE_H
#define BR_NODE_H

#include "autograd/hook_list.h"
#include "tensor/tensor_internal.h"

#include <brasa/autograd.h>

/* ---- State of a thread ----------------------------------------------------------------------- */

typedef struct br_tape {
    int anomaly;              /* br_anomaly: what to detect */
    const char *nonfinite_op; /* the operation that was given a non-finite scalar, or NULL */
    br_node *gradient_node;   /* with `anomaly`: the node of the running gradient, or NULL */
    struct br_walk *walk;     /* the backward walk in progress, or NULL */
    struct br_frame *frame;   /* the checkpoint whose function is running, or NULL */
    bool recomputing;         /* a checkpoint is being recomputed for backward: taps ignore it */
} br_tape;
extern _Thread_local br_tape br__tape;

/* True while br_set_detect_anomaly() is on. While it is off, it costs only this branch. */
#define BR_ANOMALY __builtin_expect(br__tape.anomaly != 0, 0)

/* ---- Autograd metadata of a tensor ----------------------------------------------------------- */

typedef struct br_autograd {
    br_meta meta;
    bool requires_grad; /* set on a leaf that requires grad */
    bool stopped;    /* requires_grad was set and then cleared: a graph may still have this leaf */
    bool guarded;    /* its gradient's history ends when an open scope closes: see cycles.c */
    uint8_t uses;    /* while a pass looks for leaves: see leaf_gradients.c */
    br_node *node;   /* operation that computed the tensor, owned; NULL for a leaf */
    int output;      /* index of the tensor among the node's outputs */
    br_tensor *grad; /* owned */
    uint64_t grad_pass;  /* of a leaf: number of the pass that created `grad`; 0: none did */
    br_hook_link *hooks; /* of a leaf; hooks of other tensors are stored in the node */
    br_node *host;       /* node that contains this struct, owned; NULL if allocated on its own */
} br_autograd;

extern const br_meta br__autograd_meta;

/* ---- Nodes ----------------------------------------------------------------------------------- */

enum { BR_MAX_SAVED = 8 };

/* Destination of the gradient with respect to one input: the node that computed the input, or a
 * leaf, or neither. The one that is set is owned. */
typedef struct br_edge {
    br_node *node;
    int output;
    bool skip; /* br_grad(): leads to none of the requested inputs */
    br_tensor *leaf;
    br_dtype dtype;
    int ndim;
    int64_t sizes[BR_MAX_DIMS];
} br_edge;

/* Returns true if the edge needs a gradient. */
static inline bool br__edge_needs_grad(const br_edge *edge)
{
    return (edge->node || edge->leaf) && !edge->skip;
}

typedef struct br_output {
    br_dtype dtype;
    int ndim;
    int64_t sizes[BR_MAX_DIMS];
    br_tensor *grad; /* backward: sum of the gradients received so far, owned */
    br_hook_link *hooks;
    br_autograd *retained_by; /* tensor with br_retain_grad(); cleared when the tensor is freed */
} br_output;

typedef struct br_saved_value {
    br_tensor *value; /* owned: an alias of the tensor, or the leaf itself */
    uint64_t version;
    int output; /* output number if the value is an output of the node, else -1 */
} br_saved_value;

struct br_node {
    const br_op *op;
    int refs;        /* not atomic: a graph belongs to one thread at a time */
    uint64_t number; /* larger than that of every node it points to */
    uint64_t module; /* for profiles: module whose forward recorded it (tensor/events.h) */
    bool freed;      /* the saved values were freed */
    bool queued;     /* backward: is in the heap */
    bool needed;     /* br_grad(): leads to a requested input */
    bool few_rows;   /* its gradients are zero but for a few rows */
    bool seen;       /* graph traversal: visited; cleared at its end */
    int n_inputs, n_outputs;
    int n_saved;               /* slots of saved[] that have been written */
    bool inline_meta_used;     /* `inline_meta` is in use, or was */
    size_t size;               /* bytes of the allocation, which includes inputs and params */
    br_node *next_to_free;     /* list of nodes to be freed */
    struct br_frame *frame;    /* checkpoint that recomputes the saved values, or NULL */
    size_t frame_index;        /* index in the frame's list */
    char *location;            /* anomaly detection: where forward ran; NULL if it was off */
    br_autograd inline_meta;   /* metadata of the first tensor attached to this node */
    br_output first, *outputs; /* outputs is &first, or an array if there are several */
    br_saved_value saved[BR_MAX_SAVED];
    void *params;
    br_edge inputs[];
};

br_node *br__node_retain(br_node *node);
/* Frees iteratively, so that a chain of a million nodes does not overflow the stack. */
void br__node_release(br_node *node);
void br__node_clear_saved(br_node *node);

/* ---- Frames of activation checkpoints -------------------------------------------------------- */

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
    br_rng_state rng;  /* state before the function ran */
    br_dtype autocast; /* of the region of mixed precision in which it ran */
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

#endif
