/* autograd/tape.c - nodes: recording an operation, saving values, freeing. */
#include "autograd/anomaly.h"
#include "autograd/checkpoint.h"

#include <string.h>

/* A thread's last node has this number, or a smaller one. */
static _Thread_local uint64_t last_number;

/* ---- Life of a node -------------------------------------------------------------------------- */

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
        br__frame_leave(node);
    if (node->where)
        br_free(node->where);
    for (int i = 0; i < node->n_inputs; i++) {
        br__node_release(node->inputs[i].node);
        br_release(node->inputs[i].leaf);
    }
    for (int i = 0; i < node->n_outputs; i++) {
        if (node->outputs[i].hooks)
            br__free_hooks(&node->outputs[i].hooks);
        br_release(node->outputs[i].grad);
    }
    if (node->outputs != &node->first)
        br_free(node->outputs);
    br__object_free(node, node->size);
}

/* Freeing a node frees what it held, and so the next: nodes whose turn comes meanwhile wait in a
 * list of the thread's until the first one is done. */
void br__node_release(br_node *node)
{
    static _Thread_local br_node *dead;
    static _Thread_local bool busy;
    if (!node || --node->refs > 0)
        return;
    node->next_dead = dead;
    dead = node;
    if (busy)
        return;
    busy = true;
    while (dead) {
        br_node *next = dead;
        dead = next->next_dead;
        free_node(next);
    }
    busy = false;
}

/* ---- Recording ------------------------------------------------------------------------------- */

static void describe_output(br_output *output, const br_tensor *t)
{
    output->dtype = t->dtype;
    output->ndim = t->ndim;
    for (int d = 0; d < t->ndim; d++)
        output->sizes[d] = t->sizes[d];
    output->grad = NULL;
    output->hooks = NULL;
    output->keeper = NULL;
}

static void connect(br_edge *edge, br_tensor *input)
{
    const br_autograd *a = br__autograd(input);
    edge->node = NULL;
    edge->leaf = NULL;
    edge->skip = false;
    if (!input)
        return;
    edge->dtype = input->dtype;
    edge->ndim = input->ndim;
    for (int d = 0; d < input->ndim; d++)
        edge->sizes[d] = input->sizes[d];
    if (a && a->node) {
        edge->node = br__node_retain(a->node);
        edge->output = a->output;
    } else if (a && a->requires_grad) {
        edge->leaf = br_retain(input);
    }
}

bool br__any_requires_grad(int n, br_tensor *const *tensors)
{
    for (int i = 0; i < n; i++) {
        const br_autograd *a = br__autograd(tensors[i]);
        if (a && (a->node || a->requires_grad))
            return true;
    }
    return false;
}

/* Larger than those of this thread's nodes, and of nodes that another one made. */
static uint64_t next_number(const br_node *node)
{
    for (int i = 0; i < node->n_inputs; i++) {
        const br_node *input = node->inputs[i].node;
        if (input && input->number > last_number)
            last_number = input->number;
    }
    return ++last_number;
}

/* Field by field: `place` and most of the saved values are for later, or never, to be written. */
static br_node *new_node(const br_op *op, const br_tensor *output, int n_inputs,
                         br_tensor *const *inputs, const void *params, size_t params_size)
{
    const size_t unit = _Alignof(max_align_t),
                 end = sizeof(br_node) + (size_t)n_inputs * sizeof(br_edge);
    const size_t params_at = (end + unit - 1) / unit * unit;
    br_node *node = br__object_alloc(params_at + params_size);
    if (!node)
        return NULL;
    node->size = params_at + params_size;
    node->params = params_size > 0 ? (char *)node + params_at : NULL;
    if (params_size > 0)
        memcpy(node->params, params, params_size);
    node->op = op;
    node->refs = 1;
    node->freed = node->queued = node->needed = node->seen = node->placed = false;
    node->n_saved = 0;
    node->next_dead = NULL;
    node->frame = NULL;
    node->frame_place = 0;
    node->where = NULL;
    node->module = BR_PROFILING ? br__event_place() : 0;
    if (BR_ANOMALY)
        br__anomaly_place(node);
    node->n_inputs = n_inputs;
    for (int i = 0; i < n_inputs; i++)
        connect(&node->inputs[i], inputs[i]);
    node->number = next_number(node);
    node->n_outputs = 1;
    node->outputs = &node->first;
    describe_output(&node->first, output);
    return node;
}

/* A tensor that an operation makes has its place on the tape in the operation's node. */
static br_autograd *place_for(br_tensor *t, br_node *node)
{
    if (t->meta || node->placed)
        return br__autograd_make(t);
    node->placed = true;
    node->place = (br_autograd){ .meta = br__autograd_meta, .host = br__node_retain(node) };
    t->meta = &node->place.meta;
    return &node->place;
}

/* Makes t output number `output` of the node, which t then holds. */
static bool attach(br_tensor *t, br_node *node, int output)
{
    br_autograd *a = place_for(t, node);
    if (!a)
        return false;
    br_node *old = a->node;
    if (old && old->outputs[a->output].keeper == a) { /* the gradient of what it is from now on */
        old->outputs[a->output].keeper = NULL;
        node->outputs[output].keeper = a;
    }
    a->node = br__node_retain(node);
    a->output = output;
    br__node_release(old);
    return true;
}

bool br__share_history(br_tensor *t, const br_autograd *of)
{
    return attach(t, of->node, of->output);
}

br_node *br__record_as(const br_op *op, br_tensor *output, int n_inputs, br_tensor *const *inputs,
                       const void *params, size_t params_size)
{
    if (!output || br__failed() || !br_is_floating(output))
        return NULL;
    br_node *node = new_node(op, output, n_inputs, inputs, params, params_size);
    if (!node)
        return NULL;
    bool attached = attach(output, node, 0);
    br__node_release(node); /* the output holds it now; without one it goes */
    return attached ? node : NULL;
}

br_node *br_record(const br_op *op, br_tensor *output, int n_inputs, br_tensor *const *inputs,
                   const void *params, size_t params_size)
{
    if (BR_PROFILING)
        br__event_result(output);
    if (BR_ANOMALY && !br__anomaly_forward(op, output, n_inputs, inputs))
        return NULL;
    if (br__thread.no_grad || !br__any_requires_grad(n_inputs, inputs))
        return NULL;
    const br_autograd *a = br__autograd(output);
    if (a && (a->node || a->requires_grad) && !br__failed())
        return br__fail(BR_ERROR_STATE, op->name,
                        "the output is already on the tape: an operation must return a new tensor");
    return br__record_as(op, output, n_inputs, inputs, params, params_size);
}

int br_record_output(br_node *node, br_tensor *output)
{
    if (!node || !output || br__failed() || !br_is_floating(output))
        return -1;
    size_t n = (size_t)node->n_outputs;
    if ((n & (n - 1)) == 0) { /* full: there is room for powers of two */
        br_output *outputs = br__malloc(2 * n * sizeof *outputs);
        if (!outputs)
            return -1;
        memcpy(outputs, node->outputs, n * sizeof *outputs);
        if (node->outputs != &node->first)
            br_free(node->outputs);
        node->outputs = outputs;
    }
    describe_output(&node->outputs[n], output);
    node->n_outputs++;
    return attach(output, node, (int)n) ? (int)n : -1;
}

/* ---- What a gradient needs ------------------------------------------------------------------- */

bool br_wants(const br_node *node, int input)
{
    if (!node || input < 0 || input >= node->n_inputs)
        return false;
    return br__edge_leads(&node->inputs[input]);
}

static int output_number(const br_node *node, const br_autograd *a)
{
    return a && a->node && a->node == node ? a->output : -1;
}

br_saved_value br__saved_value(const br_node *node, br_tensor *t, bool keep)
{
    /* What the node made is its output, whatever t is for others by now. */
    const br_autograd *a = (br_autograd *)(void *)t->meta;
    if (!a || a->node != node)
        a = br__autograd(t);
    br_saved_value saved = { NULL, br_tensor_version(t), output_number(node, a) };
    if (!keep)
        return saved;
    if (a && a->requires_grad && !a->node) {
        saved.value = br_retain(t); /* gradients of gradients must find this very leaf */
        return saved;
    }
    /* An alias: it does not follow t if t is changed in place, and, for an output, does not hold
     * the node that holds it. */
    saved.value = br__alias(t);
    if (saved.value && a && a->node && saved.output < 0 &&
        !attach(saved.value, a->node, a->output)) {
        br_release(saved.value);
        saved.value = NULL;
    }
    return saved;
}

void br_save(br_node *node, int slot, br_tensor *t)
{
    if (!node || !t || br__failed())
        return;
    for (; node->n_saved <= slot && slot < BR_MAX_SAVED; node->n_saved++)
        node->saved[node->n_saved].value = NULL;
    if (slot < 0 || slot >= BR_MAX_SAVED || node->saved[slot].value) {
        br__fail(BR_ERROR_ARGUMENT, node->op->name, "slot %d to save in is %s", slot,
                 slot < 0 || slot >= BR_MAX_SAVED ? "outside 0 .. 7" : "taken");
        return;
    }
    br_frame *frame = br__thread.frame;
    node->saved[slot] = br__saved_value(node, t, !frame || br__frame_keeps(frame, node));
}

br_tensor *br_saved(br_node *node, int slot)
{
    if (!node || slot < 0 || slot >= node->n_saved || br__failed())
        return NULL;
    br_saved_value *saved = &node->saved[slot];
    if (!saved->value)
        return NULL;
    if (br_tensor_version(saved->value) != saved->version) {
        const char *writer = saved->value->storage->writer;
        return br__fail(BR_ERROR_STATE, node->op->name,
                        "its gradient needs a value %s that was changed in place by %s since",
                        br__shape(saved->value), writer ? writer : "br_bump_version()");
    }
    if (saved->output < 0 || br__thread.no_grad)
        return saved->value;
    br_tensor *output = br__detached(saved->value);
    return output && attach(output, node, saved->output) ? output : NULL;
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

const char *br_op_name(const br_tensor *t)
{
    const br_autograd *a = br__autograd(t);
    return a && a->node ? a->node->op->name : "";
}

/* ---- Walks ----------------------------------------------------------------------------------- */

static bool grow(br_node_list *list)
{
    br_node **items = br__malloc(2 * list->room * sizeof *items);
    if (!items)
        return false;
    memcpy(items, list->items, list->count * sizeof *items);
    if (list->items != list->few)
        br_free(list->items);
    list->items = items;
    list->room *= 2;
    return true;
}

bool br__node_list_push(br_node_list *list, br_node *node)
{
    if (!list->items) {
        list->items = list->few;
        list->room = sizeof list->few / sizeof *list->few;
    }
    if (list->count == list->room && !grow(list))
        return false;
    list->items[list->count++] = node;
    return true;
}

void br__node_list_free(br_node_list *list)
{
    if (list->items != list->few)
        br_free(list->items);
    list->items = NULL;
    list->count = list->room = 0;
}

static bool see(br_node_list *list, br_node *node)
{
    if (!node || node->seen)
        return true;
    if (!br__node_list_push(list, node))
        return false;
    node->seen = true;
    return true;
}

bool br__collect_nodes(int n, br_tensor *const *tensors, br_node_list *list)
{
    for (int i = 0; i < n; i++) {
        const br_autograd *a = br__autograd(tensors[i]);
        if (a && !see(list, a->node))
            return false;
    }
    for (size_t k = 0; k < list->count; k++) {
        br_node *node = list->items[k];
        for (int i = 0; i < node->n_inputs; i++)
            if (!see(list, node->inputs[i].node))
                return false;
    }
    return true;
}

bool br__visit_leaves(br_tensor *output, void (*visit)(br_tensor *leaf, void *context),
                      void *context)
{
    br_node_list list = { .items = NULL };
    bool ok = br__collect_nodes(1, &output, &list);
    for (size_t k = 0; k < list.count; k++) {
        br_node *node = list.items[k];
        node->seen = false;
        for (int i = 0; ok && i < node->n_inputs; i++)
            if (node->inputs[i].leaf)
                visit(node->inputs[i].leaf, context);
    }
    br__node_list_free(&list);
    return ok;
}
