/* autograd/node.c - nodes: what gradient functions read from them, and their lifetime.
 *
 * Three kinds of objects hold one another: a tensor's autograd metadata holds the node that
 * computed the tensor, a node holds the nodes and leaves of its inputs, its saved values and the
 * frame of its activation checkpoint, and the frame of a second run holds its nodes. */
#include "autograd/node.h"

_Thread_local br_tape br__tape;

/* ---- What gradient functions read ------------------------------------------------------------ */

bool br_needs_input_grad(const br_node *node, int input)
{
    if (!node || input < 0 || input >= node->n_inputs)
        return false;
    return br__edge_needs_grad(&node->inputs[input]);
}

void br_changes_few_rows(br_node *node)
{
    if (node)
        node->few_rows = true;
}

const void *br_params(const br_node *node)
{
    return node ? node->params : NULL;
}

br_tensor *br_output_grad(const br_node *node, int output)
{
    return node && output >= 0 && output < node->n_outputs ? node->outputs[output].grad : NULL;
}

const int64_t *br_input_sizes(const br_node *node, int input, int *ndim)
{
    if (!node || input < 0 || input >= node->n_inputs)
        return NULL;
    *ndim = node->inputs[input].ndim;
    return node->inputs[input].sizes;
}

/* ---- Lifetime of nodes ----------------------------------------------------------------------- */

br_node *br__node_retain(br_node *node)
{
    if (node)
        node->refs++;
    return node;
}

void br__node_clear_saved(br_node *node)
{
    for (int i = 0; i < node->n_saved; i++) {
        br_tensor *value = node->saved[i].value;
        node->saved[i].value = NULL;
        br_release(value);
    }
}

static void free_node(br_node *node)
{
    br__node_clear_saved(node);
    if (node->frame)
        br__frame_remove(node);
    if (node->location)
        br_free(node->location);
    for (int i = 0; i < node->n_inputs; i++) {
        br__node_release(node->inputs[i].node);
        br_release(node->inputs[i].leaf);
    }
    for (int i = 0; i < node->n_outputs; i++) {
        if (node->outputs[i].hooks)
            br__hooks_free(&node->outputs[i].hooks);
        br_release(node->outputs[i].grad);
    }
    if (node->outputs != &node->first)
        br_free(node->outputs);
    br__object_free(node, node->size);
}

/* Freeing a node releases the nodes of its inputs, which may then be freed as well. They wait in a
 * thread-local list until the first node has been freed. */
void br__node_release(br_node *node)
{
    static _Thread_local br_node *unreachable;
    static _Thread_local bool freeing;
    if (!node || --node->refs > 0)
        return;
    node->next_to_free = unreachable;
    unreachable = node;
    if (freeing)
        return;
    freeing = true;
    while (unreachable) {
        br_node *next = unreachable;
        unreachable = next->next_to_free;
        free_node(next);
    }
    freeing = false;
}

/* ---- Lifetime of tensors' metadata ----------------------------------------------------------- */

static void destroy(br_meta *meta)
{
    br_autograd *a = (br_autograd *)(void *)meta;
    if (a->node && a->node->outputs[a->output].retained_by == a)
        a->node->outputs[a->output].retained_by = NULL;
    br__node_release(a->node);
    br_release(a->grad);
    if (a->hooks)
        br__hooks_free(&a->hooks);
    if (a->host)
        br__node_release(a->host);
    else
        br__object_free(a, sizeof *a);
}

const br_meta br__autograd_meta = { destroy };

/* ---- Lifetime of checkpoints' frames --------------------------------------------------------- */

void br__frame_drop_inputs(br_frame *frame)
{
    for (int i = 0; i < frame->n_inputs; i++) {
        br_release(frame->inputs[i].value);
        frame->inputs[i].value = NULL;
    }
}

void br__frame_release_references(br_frame *frame)
{
    for (size_t i = 0; i < frame->n_nodes; i++) {
        frame->nodes[i]->frame = NULL;
        br__node_release(frame->nodes[i]);
    }
    for (size_t i = 0; i < frame->n_frames; i++)
        br__frame_release(frame->frames[i]);
}

static void free_frame(br_frame *frame)
{
    if (frame->keeps)
        br__frame_release_references(frame);
    if (frame->inputs)
        br__frame_drop_inputs(frame);
    if (frame->destroy)
        frame->destroy(frame->context);
    if (frame->parent) {
        frame->parent->frames[frame->index] = NULL;
        br__frame_release(frame->parent);
    }
    br_free(frame->copy);
    br_free(frame->inputs);
    br_free(frame->nodes);
    br_free(frame->frames);
    br_free(frame);
}

br_frame *br__frame_retain(br_frame *frame)
{
    frame->refs++;
    return frame;
}

void br__frame_release(br_frame *frame)
{
    if (frame && --frame->refs == 0)
        free_frame(frame);
}

/* ---- Nodes of checkpoints' frames ------------------------------------------------------------ */

bool br__frame_add(br_frame *frame, br_node *node)
{
    if (node->frame)
        return frame->keeps;
    br_node **nodes = br__grow_from(16, frame->nodes, &frame->node_capacity,
                                    (int64_t)frame->n_nodes, sizeof *nodes);
    if (!nodes)
        return false;
    frame->nodes = nodes;
    if (frame->keeps)
        br__node_retain(node);
    else
        br__frame_retain(frame);
    node->frame = frame;
    node->frame_index = frame->n_nodes;
    frame->nodes[frame->n_nodes++] = node;
    return frame->keeps;
}

void br__frame_remove(br_node *node)
{
    br_frame *frame = node->frame;
    node->frame = NULL;
    frame->nodes[node->frame_index] = NULL;
    br__frame_release(frame);
}
