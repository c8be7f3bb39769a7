/* autograd/tape.c - the tape: recording an operation, saving values, visiting the nodes. */
#include "autograd/tape.h"
#include "autograd/anomaly.h"

#include <string.h>

/* Upper bound on the numbers of this thread's nodes. */
static _Thread_local uint64_t last_number;

/* ---- Recording ------------------------------------------------------------------------------- */

static void describe_output(br_output *output, const br_tensor *t)
{
    output->dtype = t->dtype;
    output->ndim = t->ndim;
    for (int d = 0; d < t->ndim; d++)
        output->sizes[d] = t->sizes[d];
    output->grad = NULL;
    output->hooks = NULL;
    output->retained_by = NULL;
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

/* Returns a number larger than those of this thread's nodes and of the input nodes, which another
 * thread may have made. */
static uint64_t next_number(const br_node *node)
{
    for (int i = 0; i < node->n_inputs; i++) {
        const br_node *input = node->inputs[i].node;
        if (input && input->number > last_number)
            last_number = input->number;
    }
    return ++last_number;
}

/* Initializes field by field: `inline_meta` and most of the saved values are written later or
 * never. */
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
    node->freed = node->queued = node->needed = node->seen = node->inline_meta_used = false;
    node->few_rows = false;
    node->n_saved = 0;
    node->next_to_free = NULL;
    node->frame = NULL;
    node->frame_index = 0;
    node->location = NULL;
    node->module = BR_PROFILING ? br__thread.events->location() : 0;
    if (BR_ANOMALY)
        br__anomaly_set_location(node);
    node->n_inputs = n_inputs;
    for (int i = 0; i < n_inputs; i++)
        connect(&node->inputs[i], inputs[i]);
    node->number = next_number(node);
    node->n_outputs = 1;
    node->outputs = &node->first;
    describe_output(&node->first, output);
    return node;
}

br_autograd *br__autograd_make(br_tensor *t)
{
    if (t->meta)
        return br__autograd(t);
    br_autograd *a = br__object_alloc(sizeof *a);
    if (!a)
        return NULL;
    *a = (br_autograd){ .meta = br__autograd_meta };
    t->meta = &a->meta;
    return a;
}

/* Returns t's autograd metadata. The metadata of the first tensor attached to a node is stored
 * inside the node. */
static br_autograd *new_meta(br_tensor *t, br_node *node)
{
    if (t->meta || node->inline_meta_used)
        return br__autograd_make(t);
    node->inline_meta_used = true;
    node->inline_meta = (br_autograd){ .meta = br__autograd_meta, .host = br__node_retain(node) };
    t->meta = &node->inline_meta.meta;
    return &node->inline_meta;
}

/* Makes t output number `output` of the node. t then holds a reference to the node. */
static bool attach(br_tensor *t, br_node *node, int output)
{
    br_autograd *a = new_meta(t, node);
    if (!a)
        return false;
    br_node *old = a->node;
    if (old &&
        old->outputs[a->output].retained_by == a) { /* keep the new value's gradient instead */
        old->outputs[a->output].retained_by = NULL;
        node->outputs[output].retained_by = a;
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
    br__node_release(node); /* now held by the output, or freed if attach() failed */
    return attached ? node : NULL;
}

bool br__refuse_record(const char *name, const br_op *op)
{
    if (!br__failed())
        br_fail(BR_ERROR_ARGUMENT, name, "%s is NULL, but it is required", op ? "inputs" : "op");
    return false;
}

br_node *br_record(const br_op *op, br_tensor *output, int n_inputs, br_tensor *const *inputs,
                   const void *params, size_t params_size)
{
    if (!br__recordable("record", op, n_inputs, inputs))
        return NULL;
    if (BR_PROFILING)
        br__thread.events->result(output);
    if (BR_ANOMALY && !br__anomaly_forward(op, output, n_inputs, inputs))
        return NULL;
    if (br__failed() || (br__thread.no_grad && !(output && output->untracked)) ||
        !br__any_requires_grad(n_inputs, inputs))
        return NULL;
    if (br__thread.no_grad) {
        output->hides_grad = true;
        return NULL;
    }
    /* The output is a view whose base was local to the operation and is freed: nothing else uses
     * its storage. */
    if (output && output->untracked && atomic_load(&output->storage->refs) == 1)
        output->untracked = output->hides_grad = false;
    const br_autograd *a = br__autograd(output);
    if (a && (a->node || a->requires_grad))
        return br_fail(BR_ERROR_STATE, op->name,
                       "the output is already on the tape: an operation must return a new tensor, "
                       "which it computes inside br_no_grad_begin()");
    return br__record_as(op, output, n_inputs, inputs, params, params_size);
}

int br_record_output(br_node *node, br_tensor *output)
{
    if (!node || !BR_LIVE("record_output", output) || br__failed() || !br_is_floating(output))
        return -1;
    size_t n = (size_t)node->n_outputs;
    if ((n & (n - 1)) == 0) { /* full: the capacity is a power of two */
        br_output *outputs = br_malloc(2 * n * sizeof *outputs);
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

/* ---- Views whose base has changed ------------------------------------------------------------ */

/* Gradient of view = part of base. */
static void view_backward(br_node *node, br_tensor *dy, br_tensor **dx)
{
    dx[0] = br__grad_ops.fill_part(dy, br_params(node));
}

static const br_op view_op = { "view_in_place", view_backward, false };

br_part br__part_of(const br_tensor *t)
{
    const br_tensor *base = t->base;
    br_part part = { .ndim = t->ndim, .base_ndim = base->ndim };
    part.offset = br__offset_in(base, t);
    memcpy(part.sizes, t->sizes, (size_t)t->ndim * sizeof *t->sizes);
    memcpy(part.strides, t->strides, (size_t)t->ndim * sizeof *t->strides);
    memcpy(part.base_sizes, base->sizes, (size_t)base->ndim * sizeof *base->sizes);
    return part;
}

void br__fail_outside_base(const char *op, const char *name, const br_tensor *view)
{
    br_fail(BR_ERROR_STATE, op,
            "%s %s is a view with elements outside of its base, which is %s now: br_resize_() has "
            "changed one of them: make the view again",
            name, br__shape(view), br__shape(view->base));
}

/* Cold: br__autograd(), which small operations call several times, rarely calls it. */
__attribute__((cold)) void br__follow_base(const br_tensor *t)
{
    br_tensor *view = (br_tensor *)t, *base = t->base;
    view->changes = base->changes;
    const br_autograd *a = br__autograd(base);
    if (!a || !a->node || br__failed())
        return;
    if (!br__is_inside_base(view)) {
        br__fail_outside_base("view", "x", view);
        return;
    }
    br_part part = br__part_of(view);
    br__record_as(&view_op, view, BR_INPUTS(base), &part, sizeof part);
}

/* ---- Saved values ---------------------------------------------------------------------------- */

static int output_number(const br_node *node, const br_autograd *a)
{
    return a && a->node && a->node == node ? a->output : -1;
}

br_saved_value br__saved_value(const br_node *node, br_tensor *t, bool keep)
{
    /* Read without following the base: if this node computed t, then t is its output even if the
     * base has changed since. */
    const br_autograd *a = (br_autograd *)(void *)t->meta;
    if (!a || a->node != node)
        a = br__autograd(t);
    br_saved_value saved = { NULL, br_tensor_version(t), output_number(node, a) };
    if (!keep)
        return saved;
    if (a && a->requires_grad && !a->node) {
        saved.value = br_retain(t); /* gradients of gradients must reach the leaf itself */
        return saved;
    }
    /* An alias does not follow later in-place changes of t. The alias of an output does not hold
     * the node, since that would be a reference cycle. */
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
    if (!node || !BR_LIVE_ANY("save", t) || br__failed())
        return;
    for (; node->n_saved <= slot && slot < BR_MAX_SAVED; node->n_saved++)
        node->saved[node->n_saved].value = NULL;
    if (slot < 0 || slot >= BR_MAX_SAVED || node->saved[slot].value) {
        br_fail(BR_ERROR_ARGUMENT, node->op->name, "cannot save in slot %d: it is %s", slot,
                slot < 0 || slot >= BR_MAX_SAVED ? "outside 0 .. 7" : "already in use");
        return;
    }
    br_frame *frame = br__tape.frame;
    node->saved[slot] = br__saved_value(node, t, !frame || br__frame_add(frame, node));
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
        return br_fail(
            BR_ERROR_STATE, node->op->name,
            "a value %s needed for its gradient was changed in place by %s: change a copy "
            "(br_clone()), or use an operation that is not in place; %s%s",
            br__shape(saved->value), writer ? writer : "br_bump_version()",
            node->location ? "forward ran " : "",
            node->location ? node->location
                           : "br_set_detect_anomaly(BR_ANOMALY_NAN) before forward adds the name "
                             "of the module to this message");
    }
    if (saved->output < 0 || br__thread.no_grad)
        return saved->value;
    br_tensor *output = br__detached(saved->value);
    return output && attach(output, node, saved->output) ? output : NULL;
}

const char *br_op_name(const br_tensor *t)
{
    const br_autograd *a = BR_LIVE_ANY("op_name", t) ? br__autograd(t) : NULL;
    return a && a->node ? a->node->op->name : "";
}

/* ---- Graph traversal ------------------------------------------------------------------------- */

static bool grow(br_node_list *list)
{
    br_node **items = br_malloc(2 * list->capacity * sizeof *items);
    if (!items)
        return false;
    memcpy(items, list->items, list->count * sizeof *items);
    if (list->items != list->inline_items)
        br_free(list->items);
    list->items = items;
    list->capacity *= 2;
    return true;
}

bool br__node_list_push(br_node_list *list, br_node *node)
{
    if (!list->items) {
        list->items = list->inline_items;
        list->capacity = sizeof list->inline_items / sizeof *list->inline_items;
    }
    if (list->count == list->capacity && !grow(list))
        return false;
    list->items[list->count++] = node;
    return true;
}

void br__node_list_free(br_node_list *list)
{
    if (list->items != list->inline_items)
        br_free(list->items);
    list->items = NULL;
    list->count = list->capacity = 0;
}

int br__compare_nodes(const void *a, const void *b)
{
    const br_node *x = *(br_node *const *)a, *y = *(br_node *const *)b;
    return (x->number > y->number) - (x->number < y->number);
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
