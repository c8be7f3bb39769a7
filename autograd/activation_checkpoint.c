/* autograd/activation_checkpoint.c - activation checkpoints: backward recomputes the values that a
 * function's gradients need, instead of keeping them.
 *
 * The tape has the same nodes as without a checkpoint; only their saved values are missing. When
 * backward reaches the first of these nodes, the function runs a second time, and each node
 * receives the values that its counterpart in that run saved. So hooks, br_grad() and create_graph
 * work as usual, and the gradients are bit-identical. The two runs are compared node by node.
 *
 * During the first run, the function's frame is the thread's open frame, and br_save() stores only
 * the node and the value's version. During the second run, another frame is open, and it keeps the
 * values. A nested checkpoint does not keep its inputs, since they would keep the memory of the
 * outer checkpoint alive: it receives them when the outer function runs again. */
#include "autograd/activation_checkpoint.h"

#include <string.h>

BR_DEFINE_DEFAULTS(br_activation_checkpoint)

/* ---- The second run -------------------------------------------------------------------------- */

static bool differs(const char *what, const char *first, const char *second)
{
    br_fail(BR_ERROR_STATE, "activation_checkpoint",
            "%s differs between the two runs of the function, which must be identical: %s in the "
            "first, %s in the second",
            what, first, second);
    return false;
}

/* Copies a saved value of the second run to the first run's node or frame, after comparing the
 * versions that both runs stored. */
static bool share(br_saved_value *first, const br_saved_value *second, const char *op)
{
    if (second->value && first->version != second->version) {
        const char *writer = second->value->storage->writer;
        br_fail(BR_ERROR_STATE, "activation_checkpoint",
                "%s needs a value %s that was changed in place by %s since the first run of the "
                "function",
                op, br__shape(second->value), writer ? writer : "br_bump_version()");
        return false;
    }
    *first = *second;
    br_retain(first->value);
    return true;
}

static bool same_shape(const br_output *a, const br_output *b)
{
    return a->dtype == b->dtype && a->ndim == b->ndim &&
           memcmp(a->sizes, b->sizes, (size_t)a->ndim * sizeof *a->sizes) == 0;
}

/* Writes "f32 [2, 3]". */
static const char *describe(const br_output *output, char *text, size_t size)
{
    snprintf(text, size, "%s %s", br_dtype_name(output->dtype),
             br__shape_of(output->ndim, output->sizes));
    return text;
}

static bool fill_node(br_node *first, const br_node *second)
{
    char made[2][BR_SHAPE_SIZE + 8];
    if (first->op != second->op)
        return differs("an operation", first->op->name, second->op->name);
    if (!same_shape(first->outputs, second->outputs))
        return differs(first->op->name, describe(first->outputs, made[0], sizeof made[0]),
                       describe(second->outputs, made[1], sizeof made[1]));
    if (first->n_saved != second->n_saved)
        return differs(first->op->name, "one number of saved values", "another");
    for (int k = 0; k < second->n_saved; k++)
        if (!share(&first->saved[k], &second->saved[k], first->op->name))
            return false;
    return true;
}

static bool fill_inputs(br_frame *first, const br_frame *second)
{
    if (first->fn != second->fn || first->n_inputs != second->n_inputs)
        return differs("a nested checkpoint", "one function", "another");
    for (int k = 0; k < second->n_inputs; k++)
        if (!share(&first->inputs[k], &second->inputs[k], "a nested checkpoint"))
            return false;
    return true;
}

/* Copies what the second run saved to those nodes of the first run that still need it. */
static bool fill_from(br_frame *first, const br_frame *second)
{
    char made[2][48];
    if (first->n_nodes != second->n_nodes || first->n_frames != second->n_frames) {
        for (int i = 0; i < 2; i++) {
            const br_frame *f = i ? second : first;
            snprintf(made[i], sizeof made[i], "%zu with %zu nested checkpoints", f->n_nodes,
                     f->n_frames);
        }
        return differs("the number of operations that save values", made[0], made[1]);
    }
    for (size_t i = 0; i < first->n_nodes; i++)
        if (first->nodes[i] && !fill_node(first->nodes[i], second->nodes[i]))
            return false;
    for (size_t i = 0; i < first->n_frames; i++)
        if (first->frames[i] && !fill_inputs(first->frames[i], second->frames[i]))
            return false;
    return true;
}

static br_tensor *call(const br_frame *frame)
{
    enum { INLINE_INPUTS = 16 };
    br_tensor *inline_inputs[INLINE_INPUTS], **inputs = inline_inputs;
    if (frame->n_inputs > INLINE_INPUTS &&
        !(inputs = br_malloc((size_t)frame->n_inputs * sizeof *inputs)))
        return NULL;
    for (int i = 0; i < frame->n_inputs; i++)
        inputs[i] = frame->inputs[i].value;
    br_tensor *y = br_failed() ? NULL : frame->fn(inputs, frame->n_inputs, frame->context);
    if (inputs != inline_inputs)
        br_free(inputs);
    return y;
}

static bool inputs_unchanged(const br_frame *frame, const char *when)
{
    for (int i = 0; i < frame->n_inputs; i++) {
        const br_saved_value *input = &frame->inputs[i];
        if (!input->value || br_tensor_version(input->value) == input->version)
            continue;
        br_fail(BR_ERROR_STATE, "activation_checkpoint", "input %d %s was changed in place %s", i,
                br__shape(input->value), when);
        return false;
    }
    return true;
}

/* Restores the state even while an error is pending, and keeps the error. */
static void restore_rng_state(const br_rng_state *state)
{
    br_error error = br__thread.error;
    br__thread.error = BR_OK;
    br_set_rng_state(state);
    br__thread.error = error;
}

/* Runs the function again and fills the frame. Recording is on, taps are off, mixed precision is
 * that of the first run, and so are the random numbers unless `uses_new_rng` is set. */
static bool run_again(br_frame *frame)
{
    BR_OP("activation_checkpoint");
    br_frame second = { .keeps = true };
    br_rng_state rng;
    br_scope *scope = br_enable_grad_begin();
    br_frame *frame_before = br__tape.frame;
    bool recomputing = br__tape.recomputing;
    br__tape.frame = &second;
    br__tape.recomputing = true;
    br_get_rng_state(&rng);
    if (!frame->uses_new_rng)
        br_set_rng_state(&frame->rng);
    br_autocast *cast = br_autocast_begin(frame->autocast);
    call(frame);
    br_autocast_end(cast);
    if (!frame->uses_new_rng)
        restore_rng_state(&rng);
    br__tape.recomputing = recomputing;
    br__tape.frame = frame_before;
    bool ok = scope && !br_failed() && fill_from(frame, &second);
    br__frame_release_references(&second);
    br_free(second.nodes);
    br_free(second.frames);
    br_scope_end(scope);
    return ok;
}

/* Makes the inputs available, if necessary by running the enclosing checkpoint again. */
static bool get_inputs(br_frame *frame, br_frame **filled)
{
    return !frame->parent || br__frame_fill(frame->parent, filled);
}

bool br__frame_fill(br_frame *frame, br_frame **filled)
{
    if (frame->filled)
        return true;
    if (frame->open) {
        br_fail(BR_ERROR_STATE, "activation_checkpoint",
                "backward reached the checkpoint before its function had returned");
        return false;
    }
    if (!get_inputs(frame, filled) ||
        !inputs_unchanged(frame, "since the first run of the function"))
        return false;
    frame->filled = true;
    frame->next_filled = *filled;
    *filled = br__frame_retain(frame);
    return run_again(frame);
}

void br__frames_empty(br_frame *filled)
{
    while (filled) {
        br_frame *frame = filled;
        filled = frame->next_filled;
        frame->filled = false;
        for (size_t i = 0; i < frame->n_nodes; i++)
            if (frame->nodes[i])
                br__node_clear_saved(frame->nodes[i]);
        for (size_t i = 0; i < frame->n_frames; i++)
            if (frame->frames[i])
                br__frame_drop_inputs(frame->frames[i]);
        br__frame_release(frame);
    }
}

/* ---- The first run --------------------------------------------------------------------------- */

/* Keeps the inputs as a node keeps its saved values: as aliases that have the inputs' history but
 * do not follow later in-place changes. Inside another checkpoint, stores only the inputs'
 * versions. */
static bool keep_inputs(br_frame *frame, int n, br_tensor *const *inputs)
{
    frame->inputs = br_calloc((size_t)(n > 0 ? n : 1), sizeof *frame->inputs);
    if (!frame->inputs)
        return false;
    frame->n_inputs = n;
    for (int i = 0; i < n && !br_failed(); i++) {
        br_saved_value *input = &frame->inputs[i];
        *input = (br_saved_value){ .output = -1 };
        if (inputs[i])
            *input = br__saved_value(NULL, inputs[i], !frame->parent);
    }
    return !br_failed();
}

static bool join_parent(br_frame *frame)
{
    br_frame *outer = br__tape.frame;
    if (!outer)
        return true;
    br_frame **frames =
        br__grow(outer->frames, &outer->frame_capacity, (int64_t)outer->n_frames, sizeof *frames);
    if (!frames)
        return false;
    outer->frames = frames;
    frame->index = outer->n_frames;
    if (outer->keeps)
        br__frame_retain(frame);
    else
        frame->parent = br__frame_retain(outer);
    outer->frames[outer->n_frames++] = frame;
    return true;
}

static bool copy_context(br_frame *frame, const void *context, size_t size)
{
    if (size == 0)
        return true;
    frame->copy = frame->context = br_malloc(size);
    if (frame->copy)
        memcpy(frame->copy, context, size);
    return frame->copy != NULL;
}

/* Takes over the context, even on failure. */
static br_frame *new_frame(br_function fn, void *context, int n, br_tensor *const *inputs,
                           const br_activation_checkpoint_options *o)
{
    br_frame *frame = br_calloc(1, sizeof *frame);
    if (!frame) {
        if (o->destroy)
            o->destroy(context);
        return NULL;
    }
    frame->refs = 1;
    frame->fn = fn;
    frame->context = context;
    frame->destroy = o->destroy;
    frame->uses_new_rng = !o->preserve_rng_state;
    frame->autocast = br_autocast_dtype();
    br_get_rng_state(&frame->rng);
    if (copy_context(frame, context, o->context_size) && join_parent(frame) &&
        keep_inputs(frame, n, inputs))
        return frame;
    br__frame_release(frame);
    return NULL;
}

/* Compares the inputs' versions with those before the run: a function that changes its inputs
 * cannot run again. */
static bool inputs_unmodified(const br_frame *frame, br_tensor *const *inputs)
{
    for (int i = 0; i < frame->n_inputs; i++) {
        if (!inputs[i] || br_tensor_version(inputs[i]) == frame->inputs[i].version)
            continue;
        br_fail(BR_ERROR_STATE, "activation_checkpoint",
                "the function changed its input %d %s in place, so it cannot run again", i,
                br__shape(inputs[i]));
        return false;
    }
    return true;
}

static br_tensor *run_first(br_frame *frame, int n, br_tensor *const *inputs)
{
    br_frame *before = br__tape.frame;
    br_scope *scope = br_scope_begin();
    br__tape.frame = frame;
    frame->open = true;
    br_tensor *y = scope ? frame->fn(inputs, n, frame->context) : NULL;
    frame->open = false;
    br__tape.frame = before;
    if (!y && !br_failed())
        br_fail(BR_ERROR_ARGUMENT, "activation_checkpoint", "the function returned NULL");
    if (!br_failed())
        inputs_unmodified(frame, inputs);
    y = br_failed() ? NULL : br_scope_return(scope, y);
    br_scope_end(scope);
    return y;
}

/* Calls the function without a checkpoint, since nothing is recorded. */
static br_tensor *run_once(br_function fn, void *context, int n, br_tensor *const *inputs,
                           const br_activation_checkpoint_options *o)
{
    br_tensor *y = br_failed() ? NULL : fn(inputs, n, context);
    if (o->destroy)
        o->destroy(context);
    if (!y && !br_failed())
        br_fail(BR_ERROR_ARGUMENT, "activation_checkpoint", "the function returned NULL");
    return br_failed() ? NULL : y;
}

br_tensor *br_activation_checkpoint(br_function fn, void *context, int n_inputs,
                                    br_tensor *const *inputs,
                                    const br_activation_checkpoint_options *options)
{
    const br_activation_checkpoint_options *o =
        BR_OPTIONS_OF("activation_checkpoint", br_activation_checkpoint, options);
    if (!br_failed() && (!fn || n_inputs < 0 || (n_inputs > 0 && !inputs)))
        br_fail(BR_ERROR_ARGUMENT, "activation_checkpoint",
                "a function and n_inputs >= 0 inputs are required (n_inputs is %d)", n_inputs);
    if (br_failed() || br__thread.no_grad)
        return run_once(fn, context, n_inputs, inputs, o);
    br_frame *frame = new_frame(fn, context, n_inputs, inputs, o);
    br_tensor *y = frame ? run_first(frame, n_inputs, inputs) : NULL;
    br__frame_release(frame);
    return y;
}
