/* autograd/tape.h - the tape's own structs. Operations need only brasa/autograd.h. */
#ifndef BR_TAPE_H
#define BR_TAPE_H

#include "autograd/in_place.h"
#include "tensor/tensor_internal.h"

#include <brasa/autograd.h>

/* ---- What the tape needs of the operations --------------------------------------------------- */

/* ops/grad_ops.c defines it: the tape stands above the operations and names none of them. */
typedef struct br_grad_ops {
    br_tensor *(*add)(br_tensor *a, br_tensor *b);
    br_tensor *(*add_)(br_tensor *a, br_tensor *b);
    br_tensor *(*sum_to_size)(br_tensor *x, int ndim, const int64_t *sizes);
    br_tensor *(*stack)(int n, br_tensor *const *tensors, int64_t dim);
    br_tensor *(*reshape)(br_tensor *x, int ndim, const int64_t *sizes);
    br_tensor *(*part)(br_tensor *x, const br_part *part);
    br_tensor *(*clear_part)(br_tensor *x, const br_part *part);
    br_tensor *(*fill_part)(br_tensor *y, const br_part *part);
} br_grad_ops;
extern const br_grad_ops br__grad_ops;

/* ---- Hooks ----------------------------------------------------------------------------------- */

typedef struct br_hook {
    struct br_hook *next;
    uint64_t handle;
    br_hook_fn fn; /* one of the two */
    br_accumulated_fn accumulated;
    void *context;
} br_hook;

/* Runs the hooks on *grad, of which the caller holds a reference that moves to the replacement. */
bool br__run_hooks(const br_hook *hooks, br_tensor **grad);
/* Runs those that wait for a leaf's gradient to be added. */
bool br__run_accumulated(br_tensor *leaf);
void br__free_hooks(br_hook **hooks);

/* ---- A tensor's place on the tape ------------------------------------------------------------ */

typedef struct br_autograd {
    br_meta meta;
    bool requires_grad; /* a leaf that asks for its gradient */
    br_node *node;      /* the operation that made the tensor, held; NULL for a leaf */
    int output;         /* which of the node's outputs it is */
    br_tensor *grad;    /* held */
    br_hook *hooks;     /* of a leaf; those of other tensors are with the node */
    br_node *host;      /* held: the node that this stands in; NULL for an object of its own */
} br_autograd;

/* Gives a view the history of its base, which was changed in place since. */
void br__follow_base(const br_tensor *t);
static inline br_autograd *br__autograd(const br_tensor *t)
{
    if (!t)
        return NULL;
    if (__builtin_expect(t->base && t->changes != t->base->changes, 0))
        br__follow_base(t);
    return (br_autograd *)(void *)t->meta;
}
extern const br_meta br__autograd_meta;
/* The same, made if the tensor has none; NULL and an error if memory fails. */
br_autograd *br__autograd_make(br_tensor *t);
/* br_record() without looking whether there is anything to record; t may have a history, which it
 * then had. */
br_node *br__record_as(const br_op *op, br_tensor *t, int n_inputs, br_tensor *const *inputs,
                       const void *params, size_t params_size);
bool br__any_requires_grad(int n, br_tensor *const *tensors);
/* Makes t, which has no history, the same output of the same node as `of`. */
bool br__share_history(br_tensor *t, const br_autograd *of);

/* ---- Nodes ----------------------------------------------------------------------------------- */

enum { BR_MAX_SAVED = 8 };

/* Where the gradient by an input goes: to the node that made it or to a leaf, one of them held, or
 * nowhere. */
typedef struct br_edge {
    br_node *node;
    int output;
    bool skip; /* br_grad(): leads to no wanted input */
    br_tensor *leaf;
    br_dtype dtype;
    int ndim;
    int64_t sizes[BR_MAX_DIMS];
} br_edge;

/* Whether a gradient is wanted there. */
static inline bool br__edge_leads(const br_edge *edge)
{
    return (edge->node || edge->leaf) && !edge->skip;
}

typedef struct br_output {
    br_dtype dtype;
    int ndim;
    int64_t sizes[BR_MAX_DIMS];
    br_tensor *grad; /* backward: what has come in so far, held */
    br_hook *hooks;
    br_autograd
        *keeper; /* of the tensor that wants its gradient kept; it clears this when it goes */
} br_output;

typedef struct br_saved_value {
    br_tensor *value; /* held: an alias, or the leaf itself */
    uint64_t version;
    int output; /* number of the output it is, -1 for an input or another tensor */
} br_saved_value;

struct br_node {
    const br_op *op;
    int refs;        /* not atomic: a graph belongs to one thread at a time */
    uint64_t number; /* larger than that of every node it points to */
    uint64_t module; /* for profiles: that of the forward, as br__event_place() has it */
    bool freed;      /* saved values are gone */
    bool queued;     /* backward: waits in the heap */
    bool needed;     /* br_grad(): leads to a wanted input */
    bool seen;       /* walks: visited; cleared at their end */
    int n_inputs, n_outputs;
    int n_saved;               /* slots of saved[] that have been written */
    bool placed;               /* `place` is in use, or was */
    size_t size;               /* of the object, which ends with inputs and parameters */
    br_node *next_dead;        /* list of nodes to be freed */
    struct br_frame *frame;    /* of the checkpoint that makes the saved values, or NULL */
    size_t frame_place;        /* in the frame's list */
    char *where;               /* anomalies: where forward ran; NULL: they were not looked for */
    br_autograd place;         /* of the first tensor that it is given to */
    br_output first, *outputs; /* outputs is &first, or a block for several */
    br_saved_value saved[BR_MAX_SAVED];
    void *params;
    br_edge inputs[];
};

/* What keeps t for a node's gradient (NULL: for nobody's), or with `keep` false notes its version.
 */
br_saved_value br__saved_value(const br_node *node, br_tensor *t, bool keep);
br_node *br__node_retain(br_node *node);
/* Frees without recursion: a chain of a million nodes needs no stack. */
void br__node_release(br_node *node);
void br__node_clear_saved(br_node *node);

/* ---- Lists of nodes that grow ---------------------------------------------------------------- */

typedef struct br_node_list {
    br_node **items; /* few[] as long as that is enough, so a list must not be moved */
    size_t count, room;
    br_node *few[32];
} br_node_list;
bool br__node_list_push(br_node_list *list, br_node *node);
void br__node_list_free(br_node_list *list);
/* Every node under the tensors, each once, in no order; `seen` is set in all of them and the caller
 * clears it. Held by their graph. False and an error if memory fails. */
bool br__collect_nodes(int n, br_tensor *const *tensors, br_node_list *list);

/* Calls visit for every leaf that requires grad under `output`, once for each edge to it. */
bool br__visit_leaves(br_tensor *output, void (*visit)(br_tensor *leaf, void *context),
                      void *context);

#endif
