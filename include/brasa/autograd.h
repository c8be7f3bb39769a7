/* brasa/autograd.h - the tape: recording, backward, and custom operations.
 *
 * While grad mode is on, an operation with an input that requires grad records a node. The node
 * points to a constant descriptor of the operation, to the nodes of its inputs and to the values
 * that its gradient needs. br_backward() visits the nodes from newest to oldest. Nodes hold
 * references to values, not to scopes: closing a scope frees its tensors, but the graph keeps the
 * values that it needs. */
#ifndef BRASA_AUTOGRAD_H
#define BRASA_AUTOGRAD_H

#include <brasa/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Leaves and gradients ------------------------------------------------------------------ */

/* Returns true if t is a leaf that requires grad, or was computed from one while grad mode was on.
 */
BR_API bool br_requires_grad(const br_tensor *t);
/* Sets requires_grad of a leaf and returns t. Only f32 and f64 tensors can require grad. */
BR_API br_tensor *br_set_requires_grad(br_tensor *t, bool requires_grad);
/* Returns true if t was not computed by a recorded operation. */
BR_API bool br_is_leaf(const br_tensor *t);
/* Returns the gradient that backward accumulated in t, borrowed, or NULL if there is none. */
BR_API br_tensor *br_grad_of(const br_tensor *t);
/* Replaces the gradient of t; NULL clears it. grad must have t's shape and dtype and must not be t
 * or a view of t. If t is a leaf and grad has a history, the history is dropped when the innermost
 * scope closes; the values stay. */
BR_API bool br_set_grad(br_tensor *t, br_tensor *grad);
/* Makes backward keep t's gradient even if t is not a leaf. Returns t. */
BR_API br_tensor *br_retain_grad(br_tensor *t);
/* Returns a view of t that is detached from the graph. */
BR_API br_tensor *br_detach(br_tensor *t);
/* Detaches t itself: makes it a leaf that does not require grad, and returns t. Frees everything
 * that only its history kept alive. Fails if t is a view. */
BR_API br_tensor *br_detach_(br_tensor *t);

/* ---- Grad mode ----------------------------------------------------------------------------- */

/* Opens a scope in which nothing is recorded; br_scope_end() closes it and restores the mode. */
BR_API br_scope *br_no_grad_begin(void);
/* Opens a scope in which operations are recorded, even inside a no-grad scope. */
BR_API br_scope *br_enable_grad_begin(void);
/* Turns recording on or off until the innermost scope closes, or permanently if no scope is open.
 */
BR_API void br_set_grad_enabled(bool enabled);
BR_API bool br_grad_enabled(void);

/* ---- Backward ------------------------------------------------------------------------------ */

typedef struct br_backward_options {
    size_t struct_size;
    br_tensor *gradient; /* gradient of the output; NULL means 1, for an output of one element */
    bool retain_graph;   /* keep saved values for another backward */
    /* Record backward itself, so that gradients can be differentiated; implies retain_graph. The
     * history of a leaf's gradient is dropped when the scope around backward closes, since a leaf
     * and its gradient would otherwise form a reference cycle; the gradient's values stay.
     * Gradients from br_grad() are ordinary tensors and keep their history. */
    bool create_graph;
    /* If given, only these tensors get gradients, whether they are leaves or not. */
    int n_inputs;
    br_tensor *const *inputs;
} br_backward_options;
#define br_backward_default_fields .struct_size = sizeof(br_backward_options)
BR_API br_backward_options br_backward_defaults(void);

/* Computes the gradient of t with respect to every leaf of its graph and adds it to the leaf's
 * gradient. Frees the graph's saved values on the way. Returns false and sets an error if t has
 * more than one element, has no graph, or its graph was freed. On error, some gradients may already
 * have been added. */
BR_API bool br_backward(br_tensor *t);
/* Like br_backward(), with options; NULL means the defaults. */
BR_API bool br_backward_with(br_tensor *t, const br_backward_options *options);
/* Like br_backward_with(), for n tensors at once; gradients[i] is the gradient of tensors[i].
 * `gradients`, or an entry of it, may be NULL for tensors of one element. */
BR_API bool br_backward_all(int n, br_tensor *const *tensors, br_tensor *const *gradients,
                            const br_backward_options *options);

typedef struct br_grad_options {
    size_t struct_size;
    br_tensor *const *gradients; /* gradients of the outputs; NULL, or a NULL entry, means 1 */
    bool retain_graph;
    bool create_graph;
    bool allow_unused;      /* inputs that no output depends on get NULL instead of an error */
    bool materialize_grads; /* such inputs get zeros */
} br_grad_options;
#define br_grad_default_fields .struct_size = sizeof(br_grad_options)
BR_API br_grad_options br_grad_defaults(void);

/* Computes grads[i] = d(sum over outputs) / d inputs[i] without changing any leaf's gradient. The
 * results belong to the innermost scope. */
BR_API bool br_grad(int n_outputs, br_tensor *const *outputs, int n_inputs,
                    br_tensor *const *inputs, br_tensor **grads, const br_grad_options *options);

/* ---- Derivatives of a function ------------------------------------------------------------- */

/* A function of tensors: returns one tensor computed from inputs[0 .. n-1]. */
typedef br_tensor *(*br_function)(br_tensor *const *inputs, int n, void *context);

typedef struct br_functional_options {
    size_t struct_size;
    bool create_graph; /* results can be differentiated with respect to inputs that require grad */
} br_functional_options;
#define br_functional_default_fields .struct_size = sizeof(br_functional_options)
BR_API br_functional_options br_functional_defaults(void);

/* The functions below call f once on the inputs and differentiate with respect to the f32 and f64
 * inputs; the results for other inputs are NULL. They return f's result, or NULL on error. The
 * gradients of leaves are not changed, and the results belong to the innermost scope. `options` may
 * be NULL. Names and shapes follow torch.autograd.functional: J has a row for each element of f's
 * result. */

/* Computes products[i] = v J_i, which has the shape of input i. v has the shape of f's result, and
 * may be NULL if the result has one element. */
BR_API br_tensor *br_vjp(br_function f, void *context, int n, br_tensor *const *inputs,
                         br_tensor *v, br_tensor **products, const br_functional_options *options);
/* Computes *product = sum over i of J_i v[i], which has the shape of f's result; v[i] has the shape
 * of input i. Takes two backward passes, so it fails if f uses a first_order_only operation. */
BR_API br_tensor *br_jvp(br_function f, void *context, int n, br_tensor *const *inputs,
                         br_tensor *const *v, br_tensor **product,
                         const br_functional_options *options);
/* Computes jacobians[i], whose sizes are those of the result followed by those of input i. Takes
 * one backward pass for each row. */
BR_API br_tensor *br_jacobian(br_function f, void *context, int n, br_tensor *const *inputs,
                              br_tensor **jacobians, const br_functional_options *options);
/* Computes products[i] = sum over j of H_ij v[j], which has the shape of input i. f must return one
 * element. */
BR_API br_tensor *br_hvp(br_function f, void *context, int n, br_tensor *const *inputs,
                         br_tensor *const *v, br_tensor **products,
                         const br_functional_options *options);
/* Computes hessians[i * n + j], whose sizes are those of input i followed by those of input j. f
 * must return one element. */
BR_API br_tensor *br_hessian(br_function f, void *context, int n, br_tensor *const *inputs,
                             br_tensor **hessians, const br_functional_options *options);

/* ---- Hooks --------------------------------------------------------------------------------- */

/* A hook. Backward calls it with the complete gradient of a tensor. Returns a replacement for the
 * gradient, or NULL to keep it. */
typedef br_tensor *(*br_hook_fn)(br_tensor *grad, void *context);
/* Adds a hook to t, which must require grad. Hooks run in the order in which they were added. A
 * hook may remove hooks, itself included; removed hooks are not called any more. It may also add
 * hooks, which run from the next gradient on. Returns a handle for br_remove_hook(), or 0 on error.
 */
BR_API uint64_t br_register_hook(br_tensor *t, br_hook_fn hook, void *context);
/* Adds a hook to a leaf. In each backward pass that adds to the leaf's gradient, the hook is called
 * with the leaf as soon as that gradient (br_grad_of()) is complete, while the pass still computes
 * other gradients. Returns a handle for br_remove_hook(), or 0 on error. */
typedef void (*br_accumulated_fn)(br_tensor *leaf, void *context);
BR_API uint64_t br_register_post_accumulate_grad_hook(br_tensor *leaf, br_accumulated_fn hook,
                                                      void *context);
/* Adds a hook to a leaf. It is called in each pass whose last parts of the leaf's gradient come
 * from operations that change few rows, such as lookups (see br_changes_few_rows()), as soon as all
 * others have arrived: with the sum so far, which the hook may neither change nor keep. So the
 * greater part of the gradient of a weight that is both the output layer's and the embedding's is
 * known when backward has only begun. Which rows change afterwards is not promised, and hooks of
 * br_register_hook() are called later, with the complete gradient. The hook is not called by
 * br_grad(), nor in a pass that runs within another one. Returns a handle for br_remove_hook(), or
 * 0 on error. */
typedef void (*br_partial_grad_fn)(br_tensor *grad, void *context);
BR_API uint64_t br_register_partial_grad_hook(br_tensor *leaf, br_partial_grad_fn hook,
                                              void *context);
BR_API void br_remove_hook(br_tensor *t, uint64_t handle);
/* Queues a function. The running backward pass calls it when the pass ends, successfully or with an
 * error. Call it from a hook or a gradient function. Returns false and sets an error if no pass is
 * running in this thread. */
BR_API bool br_queue_callback(void (*fn)(void *context), void *context);

/* ---- Checkpoints --------------------------------------------------------------------------- */

typedef struct br_activation_checkpoint_options {
    size_t struct_size;
    size_t context_size; /* if not 0, fn gets a copy of this many bytes at `context` */
    /* Called once with the context that fn gets, when no backward can need the context any more, or
     * right after fn if nothing is recorded. May be NULL. */
    void (*destroy)(void *context);
    bool preserve_rng_state; /* the second run generates the same random numbers; may be false if fn
                                generates none */
} br_activation_checkpoint_options;
#define br_activation_checkpoint_default_fields \
    .struct_size = sizeof(br_activation_checkpoint_options), .preserve_rng_state = true
BR_API br_activation_checkpoint_options br_activation_checkpoint_defaults(void);

/* Returns fn(inputs) without keeping the values that its gradients need: backward calls fn a second
 * time to recompute them. A computation divided into n checkpoints keeps only the inputs of each
 * checkpoint and the values of one checkpoint at a time, and takes the time of one more forward.
 * Gradients are bit-identical; the graph, hooks, br_grad() and create_graph work as without
 * checkpoints. Checkpoints may be nested, and fn may use tensors other than the inputs, such as
 * parameters. Entries of inputs may be NULL for absent inputs.
 *
 * fn must perform the same operations both times: it must not change its inputs in place, and
 * `context` must be unchanged. The operations that save values are compared. Unless
 * preserve_rng_state is false, the second run generates the random numbers of the first, and the
 * thread's generator is restored afterwards. Taps (br_tap()) record only the first run. Equivalent
 * to torch.utils.checkpoint(use_reentrant=False). `options` may be NULL. Chen et al., 2016. */
BR_API br_tensor *br_activation_checkpoint(br_function fn, void *context, int n_inputs,
                                           br_tensor *const *inputs,
                                           const br_activation_checkpoint_options *options);

/* ---- Anomaly detection --------------------------------------------------------------------- */

typedef enum br_anomaly {
    BR_ANOMALY_OFF,
    BR_ANOMALY_NAN,
    BR_ANOMALY_NONFINITE, /* NaN and infinities */
} br_anomaly;

/* Sets the anomaly mode of this thread and returns the previous mode. The operation whose forward
 * or backward produces the first NaN or infinity fails with BR_ERROR_ANOMALY; the message names the
 * operation, the element, and the module whose forward was running. An infinity that an operation
 * only passes on, from an input such as a mask or from a fill value, is not reported. Unlike with
 * other errors, the operation's result is returned, so that it can be inspected in a debugger.
 * While the mode is on, every result is read once more; while it is off, an operation costs one
 * more branch. The counterpart in PyTorch, torch.autograd.set_detect_anomaly, checks only backward.
 */
BR_API br_anomaly br_set_detect_anomaly(br_anomaly mode);

/* ---- Custom operations --------------------------------------------------------------------- */

typedef struct br_node br_node;

/* Describes an operation to the tape. Each operation has one constant br_op. The library's own
 * operations use the same struct. */
typedef struct br_op {
    const char *name;
    /* Sets dx[i] to the gradient with respect to input i, for every i with
     * br_needs_input_grad(node, i). dy is the gradient with respect to the output. dx[i] may have
     * the shape of a broadcast result: the tape sums it down to the input's shape. backward may
     * call operations; they are recorded if backward is itself recorded. Entries left NULL count as
     * zero. dy is NULL if nothing depends on output 0, which can happen only if br_record_output()
     * was used. */
    void (*backward)(br_node *node, br_tensor *dy, br_tensor **dx);
    /* True if backward computes with kernels that are not recorded: create_graph then fails with an
     * error that names the operation. */
    bool first_order_only;
} br_op;

/* Records that `op` computed `output` from `inputs` (NULL entries: absent optional inputs). Returns
 * the node, so that the caller can save what the gradient needs. Returns NULL if there is nothing
 * to record: grad mode is off, no input requires grad, or an error is pending. All functions below
 * accept a NULL node. `params` is copied into the node. */
BR_API br_node *br_record(const br_op *op, br_tensor *output, int n_inputs,
                          br_tensor *const *inputs, const void *params, size_t params_size);
/* Adds another output to the node. Returns its number for br_output_grad(), or -1 on error. */
BR_API int br_record_output(br_node *node, br_tensor *output);
/* Expands to the arguments n_inputs and inputs of br_record(). */
#define BR_INPUTS(...) BR__LIST(br_tensor *, __VA_ARGS__)

/* Returns true if the gradient with respect to input i is needed. Returns false for a NULL node. */
BR_API bool br_needs_input_grad(const br_node *node, int input);
/* Saves t (an input, the output or any other tensor) in slot 0 .. 7 until backward has passed the
 * node. Does nothing if t is NULL. If t's storage is changed in place before that, backward fails.
 */
BR_API void br_save(br_node *node, int slot, br_tensor *t);
/* Returns the tensor saved in the slot, or NULL if there is none. For use in br_op.backward. */
BR_API br_tensor *br_saved(br_node *node, int slot);
/* States that the gradients with respect to the inputs are zero but for a few rows (indices of
 * dimension 0), as that of an embedding is. See br_register_partial_grad_hook(). */
BR_API void br_changes_few_rows(br_node *node);
/* Returns the params given to br_record(). For use in br_op.backward. */
BR_API const void *br_params(const br_node *node);
/* Returns the gradient with respect to an output, or NULL if nothing depends on the output. For use
 * in br_op.backward. */
BR_API br_tensor *br_output_grad(const br_node *node, int output);
/* Returns the sum of the gradients received so far for input i, borrowed. For use in
 * br_op.backward: if the gradient is zero almost everywhere, as that of a slice is, backward may
 * add it to this tensor in place and leave dx[i] NULL. Returns NULL if that is not possible and
 * dx[i] must be set, for example because no gradient has been received, something else holds it, it
 * is not contiguous, or backward is itself recorded. */
BR_API br_tensor *br_accumulated_grad(const br_node *node, int input);
/* Returns the sizes of input i, and their number in *ndim. For use in br_op.backward. */
BR_API const int64_t *br_input_sizes(const br_node *node, int input, int *ndim);
/* Returns the name of the operation that computed t, or "" for a leaf. */
BR_API const char *br_op_name(const br_tensor *t);

/* Prepares an in-place change of t. An operation must call this before it writes, with the inputs
 * that it will record. Returns false and sets an error, with t unchanged, if t may not be changed.
 * This is the case for an expanded tensor (only br_fill_() and br_zero_() accept one) and, while
 * grad mode is on, for
 *   - a leaf that requires grad, or a view of such a leaf;
 *   - a view that was made in a no-grad scope, if the viewed tensor required grad or if an input
 *     requires grad: autograd would not know that the viewed tensor has changed.
 * Otherwise increments t's version. `op` must be a string constant: it names the operation if the
 * change invalidates a saved value. After writing, br_record_in_place() makes t the output of the
 * operation. If t is a view, its base and the base's other views are updated, too. */
BR_API bool br_before_in_place(const char *op, br_tensor *t, int n_inputs,
                               br_tensor *const *inputs);
BR_API br_node *br_record_in_place(const br_op *op, br_tensor *t, int n_inputs,
                                   br_tensor *const *inputs, const void *params,
                                   size_t params_size);

/* ---- Gradient check ------------------------------------------------------------------------ */

typedef struct br_gradcheck_options {
    size_t struct_size;
    double eps; /* step of the central difference */
    double atol;
    double rtol;
    uint64_t seed;  /* for the random weights of the outputs */
    bool allow_f32; /* f32 inputs are an error unless this is set */
    /* Compare one random direction of each input instead of every element: two calls of f per input
     * instead of two per element. If a direction fails, its elements are compared. */
    bool fast_mode;
    /* A mismatch is an error, which makes later calls fail until it is handled. If false, it is a
     * BR_WARNING, and the program can go on. */
    bool raise_exception;
} br_gradcheck_options;
#define br_gradcheck_default_fields                                                       \
    .struct_size = sizeof(br_gradcheck_options), .eps = 1e-6, .atol = 1e-5, .rtol = 1e-3, \
    .raise_exception = true
BR_API br_gradcheck_options br_gradcheck_defaults(void);

/* Compares the gradient of sum(f(inputs) * random weights) with respect to each input that requires
 * grad to central differences. Returns false and sets an error that names the input, the element,
 * both values and their difference unless |gradient - central difference| <= atol + rtol * |central
 * difference| for every element. The message says so if a kink of f may be the cause. Errors other
 * than a mismatch are always errors. The inputs' values are restored bit by bit; their gradients
 * are not changed. f may use random numbers: each call of it begins with the same generator state.
 * `options` may be NULL. */
BR_API bool br_gradcheck(br_function f, void *context, int n_inputs, br_tensor *const *inputs,
                         const br_gradcheck_options *options);
/* Like br_gradcheck(), for gradients of gradients: treats the gradient with respect to each such
 * input as a function of the inputs and of the output gradient, and checks the gradients of that
 * function. The output gradient is random, from options->seed. */
BR_API bool br_gradgradcheck(br_function f, void *context, int n_inputs, br_tensor *const *inputs,
                             const br_gradcheck_options *options);

#ifdef __cplusplus
}
#endif
#endif
