/* brasa/autograd.h - the tape: recording, backward, and operations of your own.
 *
 * While grad mode is on, an operation with an input that requires grad leaves a node that points
 * to a constant descriptor of the operation, to its inputs' nodes and to what its gradient needs.
 * br_backward() walks the nodes from the newest to the oldest. Nodes hold values, not scopes: a
 * tensor may go with its scope while the graph keeps what it needs of it. */
#ifndef BRASA_AUTOGRAD_H
#define BRASA_AUTOGRAD_H

#include <brasa/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Leaves and gradients ------------------------------------------------------------------ */

/* True if t is a leaf that asks for gradients or was computed from one while grad mode was on. */
BR_API bool br_requires_grad(const br_tensor *t);
/* Makes a leaf ask for its gradient (f32 or f64 only) or stop asking; returns t. */
BR_API br_tensor *br_set_requires_grad(br_tensor *t, bool requires_grad);
/* True if no recorded operation made t. */
BR_API bool br_is_leaf(const br_tensor *t);
/* The gradient that backward accumulated in t, or NULL if there is none. Borrowed from t. */
BR_API br_tensor *br_grad_of(const br_tensor *t);
/* Replaces the gradient; NULL drops it. Shape and dtype must be t's. */
BR_API bool br_set_grad(br_tensor *t, br_tensor *grad);
/* Makes backward keep the gradient of a tensor that is not a leaf. */
BR_API br_tensor *br_retain_grad(br_tensor *t);
/* A view of t that the tape does not know. */
BR_API br_tensor *br_detach(br_tensor *t);
/* Makes t itself forget how it was made: a leaf that asks for no gradient; returns t. What only its
 * history held is freed. A view cannot. */
BR_API br_tensor *br_detach_(br_tensor *t);

/* ---- Grad mode ----------------------------------------------------------------------------- */

/* Opens a scope in which nothing is recorded; br_scope_end() closes it and restores the mode. */
BR_API br_scope *br_no_grad_begin(void);
/* Opens a scope in which operations are recorded, inside a no-grad scope for example. */
BR_API br_scope *br_enable_grad_begin(void);
/* Turns recording on or off until the innermost scope closes; outside every scope, for good. */
BR_API void br_set_grad_enabled(bool enabled);
BR_API bool br_grad_enabled(void);

/* ---- Backward ------------------------------------------------------------------------------ */

typedef struct br_backward_options {
    br_tensor *gradient; /* of the output; NULL: 1 for an output of one element */
    bool retain_graph;   /* keep saved values for another backward */
    bool create_graph;   /* record backward itself, to differentiate again; implies retain_graph */
    int n_inputs;        /* 0: gradients go to all leaves */
    br_tensor *const *inputs; /* the only tensors, leaves or not, whose gradients are added to */
} br_backward_options;

/* Adds the gradient of t by every leaf under it to the leaf's gradient. The graph's saved values
 * are freed as the walk passes them. False and an error if t has more than one element, no graph,
 * or a graph that was freed; gradients are then as far as the walk had come. */
BR_API bool br_backward(br_tensor *t);
/* The same with options; NULL gives the defaults. */
BR_API bool br_backward_with(br_tensor *t, const br_backward_options *options);
/* The same from n tensors at once; gradients[i] is that of tensors[i]. `gradients`, or an entry of
 * it, may be NULL for tensors of one element. */
BR_API bool br_backward_all(int n, br_tensor *const *tensors, br_tensor *const *gradients,
                            const br_backward_options *options);

typedef struct br_grad_options {
    br_tensor *const *gradients; /* of the outputs; NULL or NULL entries: 1 for one element */
    bool retain_graph;
    bool create_graph;
    bool allow_unused;      /* an input that no output depends on gets NULL instead of an error */
    bool materialize_grads; /* ... gets zeros */
} br_grad_options;

/* grads[i] = d(sum over outputs) / d inputs[i], without touching any leaf's gradient. The results
 * belong to the innermost scope. */
BR_API bool br_grad(int n_outputs, br_tensor *const *outputs, int n_inputs,
                    br_tensor *const *inputs, br_tensor **grads, const br_grad_options *options);

/* ---- Derivatives of a function ------------------------------------------------------------- */

/* A function of tensors: returns one tensor computed from inputs[0 .. n-1]. */
typedef br_tensor *(*br_function)(br_tensor *const *inputs, int n, void *context);

typedef struct br_functional_options {
    bool create_graph; /* results can be differentiated by inputs that require grad */
} br_functional_options;

/* All of these call f once at the inputs, of which those of f32 and f64 are differentiated by; the
 * entries of others are NULL. They return f's result, and NULL on error; gradients of leaves are
 * not touched, and the results belong to the innermost scope. `options` may be NULL. Sizes and
 * names are those of torch.autograd.functional, where J has a row for each element of the result.
 */

/* products[i] = v J_i, of input i's shape; v has the result's, and may be NULL for one element. */
BR_API br_tensor *br_vjp(br_function f, void *context, int n, br_tensor *const *inputs,
                         br_tensor *v, br_tensor **products, const br_functional_options *options);
/* *product = sum over i of J_i v[i], of the result's shape; v[i] has that of input i. By two
 * backwards, which every operation but the first_order_only ones allows. */
BR_API br_tensor *br_jvp(br_function f, void *context, int n, br_tensor *const *inputs,
                         br_tensor *const *v, br_tensor **product,
                         const br_functional_options *options);
/* jacobians[i]: the result's sizes, then those of input i; one backward for each row. */
BR_API br_tensor *br_jacobian(br_function f, void *context, int n, br_tensor *const *inputs,
                              br_tensor **jacobians, const br_functional_options *options);
/* For an f of one element: products[i] = sum over j of H_ij v[j], of input i's shape. */
BR_API br_tensor *br_hvp(br_function f, void *context, int n, br_tensor *const *inputs,
                         br_tensor *const *v, br_tensor **products,
                         const br_functional_options *options);
/* hessians[i * n + j]: the sizes of input i, then those of input j. */
BR_API br_tensor *br_hessian(br_function f, void *context, int n, br_tensor *const *inputs,
                             br_tensor **hessians, const br_functional_options *options);

/* ---- Hooks --------------------------------------------------------------------------------- */

/* Called with the complete gradient of a tensor before backward goes on; returns the gradient to
 * go on with (NULL: the one given). */
typedef br_tensor *(*br_hook_fn)(br_tensor *grad, void *context);
/* Adds a hook to t, which must require grad; hooks run in the order they were added. Returns a
 * handle for br_remove_hook(), 0 on error. */
BR_API uint64_t br_register_hook(br_tensor *t, br_hook_fn hook, void *context);
/* Called with a leaf after backward has added to its gradient, which br_grad_of() then gives: at
 * the end of the walk, when the gradient is complete. Returns a handle as above. */
typedef void (*br_accumulated_fn)(br_tensor *leaf, void *context);
BR_API uint64_t br_register_post_accumulate_grad_hook(br_tensor *leaf, br_accumulated_fn hook,
                                                      void *context);
BR_API void br_remove_hook(br_tensor *t, uint64_t handle);

/* ---- Checkpoints --------------------------------------------------------------------------- */

typedef struct br_activation_checkpoint_options {
    size_t context_size; /* not 0: so many bytes at `context` are copied, and fn gets the copy */
    /* Called once, with the context that fn gets, when no backward can need it any more, or at once
     * if nothing is recorded. NULL: nothing to call. */
    void (*destroy)(void *context);
    bool no_preserve_rng_state; /* the second run draws new numbers: for an fn that draws none */
} br_activation_checkpoint_options;

/* f(inputs), of which no value is kept for the gradients: backward calls fn a second time and makes
 * them again, so that a computation cut into n checkpoints wants the memory of its cuts and of one
 * of the parts, for the time of another forward. Gradients are the same to the bit; graph, hooks,
 * br_grad() and create_graph are as without. Checkpoints may be made inside fn, and any tensors,
 * parameters above all, be used besides the inputs (NULL entries: absent ones).
 *
 * fn must do the same both times, which is checked where it saves values: not change its inputs in
 * place, and find `context` as it was. The thread's generator starts the second run where it
 * started the first, and is put back. Taps see the first run only. As
 * torch.utils.checkpoint(use_reentrant=False). `options` may be NULL. Chen et al., 2016. */
BR_API br_tensor *br_activation_checkpoint(br_function fn, void *context, int n_inputs,
                                           br_tensor *const *inputs,
                                           const br_activation_checkpoint_options *options);

/* ---- Anomalies ----------------------------------------------------------------------------- */

typedef enum br_anomaly {
    BR_ANOMALY_OFF,
    BR_ANOMALY_NAN,
    BR_ANOMALY_NONFINITE, /* NaN and infinities */
} br_anomaly;

/* Looks, in this thread, for the operation that makes the first NaN or infinity: its forward, or
 * backward, fails with BR_ERROR_ANOMALY and a message that names the operation, the element, and
 * the module whose forward it was. An infinity that an operation was given (in a mask, or as the
 * value to fill in) and hands on is none of its making. Everything is read once more for it; while
 * off, an operation pays a branch. Returns the mode before. As torch.autograd.set_detect_anomaly,
 * which looks in backward only. */
BR_API br_anomaly br_set_detect_anomaly(br_anomaly mode);

/* ---- Operations of your own ---------------------------------------------------------------- */

typedef struct br_node br_node;

/* What the tape knows of an operation: a constant, one for each operation. The library's own
 * operations are made of exactly this. */
typedef struct br_op {
    const char *name;
    /* Sets dx[i] to the gradient by input i for every i with br_wants(node, i), given dy, the
     * gradient by the output. It may be of the shape of a broadcast result: the engine sums it down
     * to the input's. It may call operations; while backward is itself recorded they are recorded
     * too. Entries left NULL count as zero. dy is NULL if nothing depends on output 0, which can
     * only be where br_record_output() was used. */
    void (*backward)(br_node *node, br_tensor *dy, br_tensor **dx);
    /* True if backward computes by kernels that the tape cannot see: create_graph is then refused
     * with an error that names the operation. */
    bool first_order_only;
} br_op;

/* Records that `op` made `output` from `inputs` (NULL entries: absent optional ones), and returns
 * the node, in which the caller saves what the gradient needs. Returns NULL when there is nothing
 * to record: grad mode is off, no input requires grad, or an error is pending. All functions below
 * accept that NULL. `params` is copied into the node. */
BR_API br_node *br_record(const br_op *op, br_tensor *output, int n_inputs,
                          br_tensor *const *inputs, const void *params, size_t params_size);
/* Adds one more output to the node; returns its number, which br_output_grad() takes. */
BR_API int br_record_output(br_node *node, br_tensor *output);
/* Spells the inputs as the pair that br_record() takes. */
#define BR_INPUTS(...)                                                                   \
    (int)(sizeof((br_tensor *[]){ __VA_ARGS__ }) / sizeof(br_tensor *)), (br_tensor *[]) \
    {                                                                                    \
        __VA_ARGS__                                                                      \
    }

/* True if the gradient by input i is wanted. False for a NULL node. */
BR_API bool br_wants(const br_node *node, int input);
/* Keeps t, an input, the output or any other tensor, in slot 0 .. 7 until backward has passed.
 * NULL t is ignored. An in-place change of its storage in between is an error in backward. */
BR_API void br_save(br_node *node, int slot, br_tensor *t);
/* In a gradient: what was saved, NULL if nothing was. */
BR_API br_tensor *br_saved(br_node *node, int slot);
/* In a gradient: the params given to br_record(). */
BR_API const void *br_params(const br_node *node);
/* In a gradient: the gradient by output number i, NULL if nothing depends on it. */
BR_API br_tensor *br_output_grad(const br_node *node, int output);
/* In a gradient: the sum of what has come in so far for input i, for a gradient that is zero almost
 * everywhere, as that of a view of a part: it may add itself to this, in place, and leave dx[i]
 * NULL. NULL where that is not so: nothing has come in, others see it, it is not dense, or backward
 * is itself recorded; then dx[i] is to be set. Borrowed. */
BR_API br_tensor *br_grad_so_far(const br_node *node, int input);
/* In a gradient: the sizes of input i, and their number in *ndim. */
BR_API const int64_t *br_input_sizes(const br_node *node, int input, int *ndim);
/* The operation that made t, "" for a leaf. */
BR_API const char *br_op_name(const br_tensor *t);

/* Must be called by an operation that changes t in place, before it writes: checks that t may be
 * changed (no leaf that requires grad nor a view of one, nothing expanded, no view that was made in
 * a no-grad scope), and counts the change. `op`, a string constant, is named if a saved value is
 * lost by it. After writing, br_record_in_place() makes t the output of the operation, and what t
 * is a view of another tensor: views of that follow. */
BR_API bool br_before_in_place(const char *op, br_tensor *t);
BR_API br_node *br_record_in_place(const br_op *op, br_tensor *t, int n_inputs,
                                   br_tensor *const *inputs, const void *params,
                                   size_t params_size);

/* ---- Gradient check ------------------------------------------------------------------------ */

typedef struct br_gradcheck_options {
    double eps;     /* step of the central difference; 0: 1e-6 */
    double atol;    /* 0: 1e-7 */
    double rtol;    /* 0: 1e-5 */
    uint64_t seed;  /* of the random output weights */
    bool allow_f32; /* f32 inputs are refused unless this is set */
} br_gradcheck_options;

/* Compares the gradient of sum(f(inputs) * random weights) by each input that requires grad with
 * central differences. False and an error that names the input, the element, both values and the
 * difference if |got - want| <= atol + rtol * |want| does not hold everywhere. The inputs' values
 * are restored to the bit; their gradients are not touched. `options` may be NULL. */
BR_API bool br_gradcheck(br_function f, void *context, int n_inputs, br_tensor *const *inputs,
                         const br_gradcheck_options *options);
/* The same for the gradients by each of these inputs, as functions of the inputs and of the
 * gradient of the result, which is drawn by options->seed: checks gradients of gradients. */
BR_API bool br_gradgradcheck(br_function f, void *context, int n_inputs, br_tensor *const *inputs,
                             const br_gradcheck_options *options);

#ifdef __cplusplus
}
#endif
#endif
