/* brasa/nn.h - modules that mirror torch.nn, nn.init and nn.utils.
 *
 * A module is a struct whose first member is a br_module and whose other fields are named as in the
 * PyTorch class, so that state_dict keys are the same as in PyTorch:
 *
 *     typedef struct { br_module base; br_linear *q, *k; } head;
 *
 *     head *self = br_module_new(head);
 *     self->q = br_child(self, "q", br_linear_new(8, 4, true));
 *
 * Constructors never return NULL. If allocation fails, an error is pending, and the returned module
 * can be used and freed like any other, but its forward returns NULL. A module owns its parameters,
 * buffers and children; br_module_free() frees the whole tree. */
#ifndef BRASA_NN_H
#define BRASA_NN_H

#include <brasa/nn/named_list.h>
#include <brasa/ops.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Modules --------------------------------------------------------------------------------- */

typedef struct br_module_state br_module_state;
typedef struct br_module {
    br_module_state *state; /* private: name, parent, parameters, children and more */
} br_module;

enum { BR_MODULE_MAX_SIZE = 4096 }; /* maximum size of a module's struct in bytes */

/* Creates a module of the given struct type, zeroed, in training mode. */
#define br_module_new(type) ((type *)br_module_create(sizeof(type), #type))
/* Returns the br_module of any module struct. */
#define br_base(self) (&(self)->base)

BR_API void *br_module_create(size_t size, const char *class_name);
/* Frees a module (any module struct) with its children; NULL is ignored. A parent frees its
 * children; a child that is freed earlier is removed from its parent. */
BR_API void br_module_free(void *module);

/* Registers `child` under `name` and returns it. The parent then owns it. If registration fails,
 * returns NULL and frees the child, unless it is already part of a tree. */
#ifndef __cplusplus
#    define br_child(self, name, child) br_module_add_child(br_base(self), (name), (child))
#else
#    define br_child(self, name, child) \
        static_cast<decltype(+(child))>(br_module_add_child(br_base(self), (name), (child)))
#endif
/* `child` points to a struct that begins with a br_module; a child has one parent. */
BR_API void *br_module_add_child(br_module *parent, const char *name, void *child);

/* Registers a tensor as a parameter or as a buffer and returns it. A floating-point parameter is
 * made to require grad, and must be a leaf (br_is_leaf()). t then belongs to the module instead of
 * to a scope, and is freed with the module; to keep it longer, call br_retain(). A tensor that is
 * registered again under another name, here or in another module, is a tied parameter: it is
 * counted and optimized once, and freed with the last of its modules. If t is NULL (an absent
 * optional parameter), returns NULL and registers nothing. */
#define br_parameter(self, name, t) br_module_add_parameter(br_base(self), (name), (t))
#define br_buffer(self, name, t)    br_module_add_buffer(br_base(self), (name), (t), true)
BR_API br_tensor *br_module_add_parameter(br_module *module, const char *name, br_tensor *t);
/* Replaces an existing parameter of that name by t and returns t, which then belongs to the module,
 * as with br_parameter(). To tie parameters like PyTorch's `decoder.weight = embedding.weight`,
 * pass the other module's parameter and assign the result to this module's field. */
BR_API br_tensor *br_module_replace_parameter(br_module *module, const char *name, br_tensor *t);
BR_API br_tensor *br_module_add_buffer(br_module *module, const char *name, br_tensor *t,
                                       bool persistent);
/* Registers a buffer of constants, which `compute` computes from the module's fields in f64 and the
 * buffer stores as f32. br_module_to() calls `compute` again, so that the constants have full
 * precision in f64. If the buffer's values were changed, br_module_to() converts it like any other
 * buffer. */
BR_API br_tensor *br_module_add_computed_buffer(br_module *module, const char *name,
                                                br_tensor *(*compute)(void *self), bool persistent);

/* Opens a scope for a forward pass; errors and taps inside it carry the module's path. Makes the
 * enclosing function return NULL if an error is pending. Sets an error and does the same if self is
 * NULL or lacks a part that its constructor failed to create. So a function that begins with
 * br_enter() may use self's fields without a check. */
#define br_enter(self)                                                            \
    do {                                                                          \
        if (!br_module_enter_from(__func__, (self) ? br_base(self) : NULL, NULL)) \
            return NULL;                                                          \
    } while (0)
/* Closes the scope, moves the result to the outer scope, and returns it. Returns NULL and sets an
 * error if self was not entered. */
#define br_leave(self, result) br_module_leave(br_base(self), (result))
/* Like br_enter(), but hooks receive the input x and may replace it. x must be a variable. */
#define br_enter_with(self, x)                                                    \
    do {                                                                          \
        if (!br_module_enter_from(__func__, (self) ? br_base(self) : NULL, &(x))) \
            return NULL;                                                          \
    } while (0)
/* Like the macros above, for functions with another return type. If they return false, no scope is
 * open, and br_module_leave() must not be called. br_module_enter_from() takes the name of the
 * calling function, which an error begins with, and `input` may be NULL. */
BR_API bool br_module_enter(br_module *module);
BR_API bool br_module_enter_with(br_module *module, br_tensor **input);
BR_API bool br_module_enter_from(const char *function, br_module *module, br_tensor **input);
BR_API br_tensor *br_module_leave(br_module *module, br_tensor *result);

/* Sets a module's forward function of one tensor, for br_forward(), Sequential and ModuleList. */
typedef br_tensor *(*br_forward_fn)(void *self, br_tensor *x);
BR_API void br_module_set_forward(br_module *module, br_forward_fn forward);
BR_API br_tensor *br_forward(void *module, br_tensor *x);

/* Add hooks on a module's forward, whichever function runs it. Hooks run inside the forward's
 * scope, in the order in which they were added. A pre-hook receives the input before the forward,
 * or NULL if the module was entered without one; a forward hook receives the result after it. Both
 * return a replacement, or NULL to keep the tensor. These functions return a handle for
 * br_module_remove_hook(), or 0 on error. */
typedef br_tensor *(*br_module_hook_fn)(br_module *module, br_tensor *t, void *context);
BR_API uint64_t br_module_register_forward_pre_hook(br_module *module, br_module_hook_fn hook,
                                                    void *context);
BR_API uint64_t br_module_register_forward_hook(br_module *module, br_module_hook_fn hook,
                                                void *context);
/* Add hooks on a module's backward, which run if its result gets a gradient. A pre-hook receives
 * the gradient of the result. A backward hook also receives the gradient of the input, and is
 * called when that gradient is complete; grad_input is NULL if the module was entered without an
 * input, or if the input does not require grad. A pre-hook may return a replacement for the
 * result's gradient, and a backward hook one for the input's gradient; NULL keeps the gradient. The
 * module must live until backward; otherwise its hooks are skipped. */
BR_API uint64_t br_module_register_full_backward_pre_hook(br_module *module, br_module_hook_fn hook,
                                                          void *context);
typedef br_tensor *(*br_module_backward_hook_fn)(br_module *module, br_tensor *grad_input,
                                                 br_tensor *grad_output, void *context);
BR_API uint64_t br_module_register_full_backward_hook(br_module *module,
                                                      br_module_backward_hook_fn hook,
                                                      void *context);
BR_API void br_module_remove_hook(br_module *module, uint64_t handle);
/* Sets a function that is called when the module is freed, after its children are freed. */
BR_API void br_module_set_destroy(br_module *module, void (*destroy)(void *self));

/* ---- Module trees ---------------------------------------------------------------------------- */

BR_API const char *br_module_name(const br_module *module);
BR_API const char *br_module_class(const br_module *module);
/* Writes the module's path, such as "encoder.layers.0", to `buffer`, truncated to `size` bytes, and
 * returns `buffer`. The root's path is "". */
BR_API char *br_module_path(const br_module *module, char *buffer, size_t size);
BR_API int64_t br_module_num_children(const br_module *module);
BR_API br_module *br_module_child_at(const br_module *module, int64_t i);
/* Returns the module at a dotted path. Returns NULL and sets an error if there is none. */
BR_API br_module *br_module_find(br_module *module, const char *path);
/* Calls fn for every module of the tree, children before their parent, like Module.apply. */
BR_API void br_module_apply(br_module *module, void (*fn)(br_module *module, void *context),
                            void *context);

/* Return the parameters in PyTorch's order (a module's own, then each child's). br_parameters()
 * lists a tied parameter once; br_state_dict() lists it under each of its names, and adds
 * persistent buffers. br_buffers() lists all buffers instead. The tensors are borrowed from the
 * module; the caller frees the list, which owns the names. Return NULL on error. */
BR_API br_named_list *br_parameters(br_module *module);
BR_API br_named_list *br_buffers(br_module *module);
BR_API br_named_list *br_state_dict(br_module *module);
/* Returns the parameter or buffer with a dotted name. Returns NULL and sets an error if there is
 * none. */
BR_API br_tensor *br_module_get(br_module *module, const char *name);
/* Counts the elements of all parameters or, with `trainable_only`, of those that require grad.
 * Counts a tied parameter once. Returns -1 on error. */
BR_API int64_t br_count_parameters(br_module *module, bool trainable_only);

/* The result of br_load_state_dict(). Each string has names joined by ", ", or is "" if there are
 * none. Names are not escaped, and names from a file may contain any bytes; error messages escape
 * them. */
typedef struct br_load_report {
    int64_t matched;
    int64_t missing, unexpected, mismatched;
    char *missing_names;
    char *unexpected_names;
    char *mismatched_names; /* each with both shapes and dtypes */
} br_load_report;

/* Copies the tensors of `source` to the module's tensors of the same names. With `strict`, if a
 * name is missing or unexpected, or a shape or dtype differs, copies nothing and sets an error that
 * lists all such names. Without `strict`, copies the tensors that match. `report` may be NULL; the
 * caller frees it with br_load_report_clear(). */
BR_API bool br_load_state_dict(br_module *module, const br_named_list *source, bool strict,
                               br_load_report *report);
BR_API void br_load_report_clear(br_load_report *report);

BR_API void br_train(br_module *module, bool training);
#define br_eval(module) br_train((module), false)
BR_API bool br_is_training(const br_module *module);
/* Sets requires_grad of the parameters whose dotted name matches `glob` (as in fnmatch: "*",
 * "embedding.*"). Returns how many parameters matched, or -1 on error. */
BR_API int64_t br_module_requires_grad(br_module *module, const char *glob, bool requires_grad);
#define br_freeze(module, glob) br_module_requires_grad((module), (glob), false)
BR_API void br_zero_grad(br_module *module);
/* Converts floating-point parameters and buffers to f32 or f64 in place, and drops their gradients.
 */
BR_API bool br_module_to(br_module *module, br_dtype dtype);

/* Like br_gradcheck(), for a module: checks the gradients with respect to the inputs and to all
 * parameters that require grad. Messages name the parameter. f(inputs, n_inputs, context) runs the
 * module, which should be in f64; NULL means br_forward() of one input. */
BR_API bool br_module_gradcheck(br_module *module, br_function f, void *context, int n_inputs,
                                br_tensor *const *inputs, const br_gradcheck_options *options);

/* Returns a text that shows the module tree with classes, shapes and parameter counts. The caller
 * frees it with br_free(). */
BR_API char *br_summary(br_module *module);

/* Reports, after br_backward(), the module's parameters that require grad but have no gradient, and
 * the leaves in the graph of `output` that require grad but are not parameters of the module:
 * layers created during forward, for example. */
typedef struct br_unused_report {
    int64_t without_grad; /* parameters */
    int64_t foreign_leaves;
    char *text; /* one line for each; "" if there are none */
} br_unused_report;
BR_API bool br_report_unused(br_module *module, br_tensor *output, br_unused_report *report);
BR_API void br_unused_report_clear(br_unused_report *report);

/* ---- Activation checkpoints ------------------------------------------------------------------ */

/* Turns activation checkpointing of a module on or off. While it is on, the module's forward keeps
 * only its inputs, and backward runs the forward again: see br_activation_checkpoint(). For a
 * ModuleList, applies to each of its modules. Takes effect only when forward is run by br_forward()
 * or br_module_run(), as it is for Sequential, the layers of the Transformers and of the model zoo,
 * and your own modules with a forward of one tensor. The module must live until backward. Returns
 * false and sets an error if allocation fails. */
BR_API bool br_module_checkpoint(br_module *module, bool on);

/* A forward of several tensors (NULL: absent) and other arguments. */
typedef br_tensor *(*br_module_run_fn)(void *self, br_tensor *const *inputs, const void *args);
/* Calls forward(self, inputs, args), in a checkpoint if checkpointing is on for the module; `args`
 * is then copied. A module's public forward function calls this to support br_module_checkpoint().
 */
BR_API br_tensor *br_module_run(void *self, br_module_run_fn forward, int n_inputs,
                                br_tensor *const *inputs, const void *args, size_t args_size);

/* ---- Taps ------------------------------------------------------------------------------------ */

/* If a recorder is open in this thread, records t under "module.path.name"; a second tap of the
 * same name gets the suffix "#1", and so on. Returns t. */
BR_API br_tensor *br_tap(const char *name, br_tensor *t);
/* Taps an attention module's tensors for plots (viz.h): `query`, `key`, and `weights`, which is
 * named "attention", or "cross_attention" if keys and queries come from different sequences. Each
 * tensor is [batch, heads, tokens, ...]; a module that is a single head, for example in a list
 * `heads`, omits the dimension of heads. Returns `weights`. */
BR_API br_tensor *br_tap_attention(br_tensor *query, br_tensor *key, br_tensor *weights,
                                   bool cross);
typedef struct br_recorder br_recorder;
BR_API br_recorder *br_recorder_begin(void);
/* Stops recording and frees the recorded tensors. */
BR_API void br_recorder_end(br_recorder *recorder);
BR_API int64_t br_recorder_count(const br_recorder *recorder);
BR_API const char *br_recorder_name(const br_recorder *recorder, int64_t i);
/* Returns a tensor borrowed from the recorder. */
BR_API br_tensor *br_recorder_tensor(const br_recorder *recorder, int64_t i);
/* Returns the tensor of that full name, or NULL, without an error, if there is none. */
BR_API br_tensor *br_recorder_get(const br_recorder *recorder, const char *name);

/* ---- Layers (nn/layers.c, activations.c, containers.c) --------------------------------------- */

typedef struct br_linear {
    br_module base;
    br_tensor *weight; /* [out_features, in_features] */
    br_tensor *bias;   /* [out_features] or NULL */
    int64_t in_features, out_features;
} br_linear;
/* Creates nn.Linear. Weights and bias are uniform on +-1/sqrt(in_features), from the same random
 * numbers as in PyTorch. */
BR_API br_linear *br_linear_new(int64_t in_features, int64_t out_features, bool bias);
BR_API br_tensor *br_linear_forward(br_linear *self, br_tensor *x);

typedef struct br_embedding {
    br_module base;
    br_tensor *weight; /* [num_embeddings, embedding_dim] */
    int64_t num_embeddings, embedding_dim;
    int64_t padding_idx; /* -1: none */
    /* 0: none. Otherwise forward first scales the rows that it looks up down to at most this norm,
     * without recording, as PyTorch does. */
    double max_norm;
    double norm_type; /* 2 by default */
} br_embedding;
/* Creates nn.Embedding. Weights are from N(0, 1); row padding_idx (-1: none) is zero and gets no
 * gradient. */
BR_API br_embedding *br_embedding_new(int64_t num_embeddings, int64_t embedding_dim,
                                      int64_t padding_idx);
BR_API br_tensor *br_embedding_forward(br_embedding *self, br_tensor *index);

typedef struct br_layer_norm_options {
    size_t struct_size;
    double eps; /* at least 0 */
    bool elementwise_affine;
    bool bias; /* if false, `elementwise_affine` adds only a weight */
} br_layer_norm_options;
#define br_layer_norm_default_fields                                                       \
    .struct_size = sizeof(br_layer_norm_options), .eps = 1e-5, .elementwise_affine = true, \
    .bias = true
BR_API br_layer_norm_options br_layer_norm_defaults(void);

typedef struct br_layer_norm {
    br_module base;
    br_tensor *weight, *bias; /* shape normalized_shape, initially ones and zeros; or NULL */
    int ndim;
    int64_t normalized_shape[BR_MAX_DIMS];
    double eps;
} br_layer_norm;
/* Creates nn.LayerNorm over the last dimension. `options` may be NULL. */
BR_API br_layer_norm *br_layer_norm_new(int64_t normalized_size,
                                        const br_layer_norm_options *options);
/* Creates nn.LayerNorm over the last ndim dimensions. */
BR_API br_layer_norm *br_layer_norm_shape_new(int ndim, const int64_t *normalized_shape,
                                              const br_layer_norm_options *options);
BR_API br_tensor *br_layer_norm_forward(br_layer_norm *self, br_tensor *x);

typedef struct br_dropout {
    br_module base;
    double p;
} br_dropout;
BR_API br_dropout *br_dropout_new(double p);
BR_API br_tensor *br_dropout_forward(br_dropout *self, br_tensor *x);

/* Modules without parameters, such as nn.ReLU, that apply a function to x and to fixed arguments.
 * Set inplace if x is not needed after the forward: ReLU, Tanh, Sigmoid, SiLU and GELU then
 * overwrite x if br_may_overwrite(x) is true in the calling scope, and otherwise create a new
 * tensor. */
typedef br_tensor *(*br_activation_fn)(br_tensor *x, const double *args);
typedef struct br_activation {
    br_module base;
    br_activation_fn function,
        inplace_function; /* `inplace_function` changes x in place, or is NULL */
    double args[2];
    bool inplace;
} br_activation;
BR_API br_activation *br_relu_new(void);
BR_API br_activation *br_tanh_new(void);
BR_API br_activation *br_sigmoid_new(void);
BR_API br_activation *br_silu_new(void);
BR_API br_activation *br_gelu_new(br_gelu_approximate approximate);
BR_API br_activation *br_leaky_relu_new(double negative_slope);
BR_API br_activation *br_elu_new(double alpha);
BR_API br_activation *br_softplus_new(double beta, double threshold);
BR_API br_activation *br_softmax_new(int64_t dim);
BR_API br_activation *br_log_softmax_new(int64_t dim);
BR_API br_activation *br_identity_new(void);
/* PyTorch's defaults are start_dim 1 and end_dim -1. */
BR_API br_activation *br_flatten_new(int64_t start_dim, int64_t end_dim);
BR_API br_tensor *br_activation_forward(br_activation *self, br_tensor *x);

/* Runs modules one after another. They are named "0", "1", ... */
typedef struct br_sequential {
    br_module base;
} br_sequential;
/* Creates a Sequential of n modules and takes ownership of them. Each module must have a forward
 * function (br_module_set_forward()). */
BR_API br_sequential *br_sequential_new(int n, void *const *modules);
#define BR_MODULES(...) BR__LIST(void *, __VA_ARGS__)
BR_API br_tensor *br_sequential_forward(br_sequential *self, br_tensor *x);

/* A list of modules, named "0", "1", ... */
typedef struct br_module_list {
    br_module base;
} br_module_list;
BR_API br_module_list *br_module_list_new(void);
/* Appends the module and returns it. */
BR_API void *br_module_list_append(br_module_list *self, void *module);
BR_API int64_t br_module_list_size(const br_module_list *self);
/* Returns module i; a negative i counts from the end. Returns NULL and sets an error if i is out of
 * range. */
BR_API void *br_module_list_at(const br_module_list *self, int64_t i);

/* ---- Norms (nn/norms.c) ---------------------------------------------------------------------- */

typedef struct br_rms_norm_options {
    size_t struct_size;
    double eps; /* at least 0; BR_NONE_F64: the machine epsilon of x's dtype */
    bool elementwise_affine;
} br_rms_norm_options;
#define br_rms_norm_default_fields \
    .struct_size = sizeof(br_rms_norm_options), .eps = BR_NONE_F64, .elementwise_affine = true
BR_API br_rms_norm_options br_rms_norm_defaults(void);

typedef struct br_rms_norm {
    br_module base;
    br_tensor *weight; /* shape normalized_shape, initially ones; or NULL */
    int ndim;
    int64_t normalized_shape[BR_MAX_DIMS];
    double eps;
} br_rms_norm;
/* Creates nn.RMSNorm over the last dimension. `options` may be NULL. */
BR_API br_rms_norm *br_rms_norm_new(int64_t normalized_size, const br_rms_norm_options *options);
/* Creates nn.RMSNorm over the last ndim dimensions. */
BR_API br_rms_norm *br_rms_norm_shape_new(int ndim, const int64_t *normalized_shape,
                                          const br_rms_norm_options *options);
BR_API br_tensor *br_rms_norm_forward(br_rms_norm *self, br_tensor *x);

typedef struct br_batch_norm_options {
    size_t struct_size;
    double eps;
    double momentum; /* momentum of the running statistics */
    bool cumulative; /* running statistics are means over all batches (momentum=None) */
    bool affine;
    bool bias;                /* if false, `affine` adds only a weight */
    bool track_running_stats; /* if false, evaluation also uses the batch's statistics */
} br_batch_norm_options;
#define br_batch_norm_default_fields                                                            \
    .struct_size = sizeof(br_batch_norm_options), .eps = 1e-5, .momentum = 0.1, .affine = true, \
    .bias = true, .track_running_stats = true
BR_API br_batch_norm_options br_batch_norm_defaults(void);

typedef struct br_batch_norm {
    br_module base;
    br_tensor *weight, *bias;              /* [num_features], initially ones and zeros; or NULL */
    br_tensor *running_mean, *running_var; /* [num_features], initially zeros and ones; or NULL */
    br_tensor *num_batches_tracked;        /* i64 */
    int64_t num_features;
    int min_dims, max_dims; /* allowed numbers of dimensions of x */
    br_batch_norm_options options;
} br_batch_norm;
/* Create nn.BatchNorm1d, for x [N, C] or [N, C, L], and nn.BatchNorm2d, for x [N, C, H, W].
 * `options` may be NULL. */
BR_API br_batch_norm *br_batch_norm1d_new(int64_t num_features,
                                          const br_batch_norm_options *options);
BR_API br_batch_norm *br_batch_norm2d_new(int64_t num_features,
                                          const br_batch_norm_options *options);
BR_API br_tensor *br_batch_norm_forward(br_batch_norm *self, br_tensor *x);

typedef struct br_group_norm_options {
    size_t struct_size;
    double eps; /* at least 0 */
    bool affine;
} br_group_norm_options;
#define br_group_norm_default_fields \
    .struct_size = sizeof(br_group_norm_options), .eps = 1e-5, .affine = true
BR_API br_group_norm_options br_group_norm_defaults(void);

typedef struct br_group_norm {
    br_module base;
    br_tensor *weight, *bias; /* [num_channels], initially ones and zeros; or NULL */
    int64_t num_groups, num_channels;
    double eps;
} br_group_norm;
/* Creates nn.GroupNorm. `options` may be NULL. */
BR_API br_group_norm *br_group_norm_new(int64_t num_groups, int64_t num_channels,
                                        const br_group_norm_options *options);
BR_API br_tensor *br_group_norm_forward(br_group_norm *self, br_tensor *x);

/* ---- Convolutions and pooling (nn/convolutions.c) -------------------------------------------- */

typedef br_tensor *(*br_conv_fn)(br_tensor *x, br_tensor *weight, br_tensor *bias,
                                 const br_conv_options *options);
typedef struct br_conv {
    br_module base;
    br_tensor *weight; /* [out_channels, in_channels / groups, kernel ...]; if transposed,
                          [in_channels, out_channels / groups, kernel ...] */
    br_tensor *bias;   /* [out_channels] or NULL */
    int64_t in_channels, out_channels;
    br_conv_options options;
    br_conv_fn function;
} br_conv;
/* Create nn.Conv1d and so on. Weights and bias are uniform on +-1/sqrt(fan_in), from the same
 * random numbers as in PyTorch. `options` may be NULL. */
BR_API br_conv *br_conv1d_new(int64_t in_channels, int64_t out_channels, int64_t kernel_size,
                              bool bias, const br_conv_options *options);
BR_API br_conv *br_conv2d_new(int64_t in_channels, int64_t out_channels, int64_t kernel_height,
                              int64_t kernel_width, bool bias, const br_conv_options *options);
BR_API br_conv *br_conv_transpose1d_new(int64_t in_channels, int64_t out_channels,
                                        int64_t kernel_size, bool bias,
                                        const br_conv_options *options);
BR_API br_conv *br_conv_transpose2d_new(int64_t in_channels, int64_t out_channels,
                                        int64_t kernel_height, int64_t kernel_width, bool bias,
                                        const br_conv_options *options);
BR_API br_tensor *br_conv_forward(br_conv *self, br_tensor *x);

typedef br_tensor *(*br_pool_fn)(br_tensor *x, const br_pool_options *options);
typedef struct br_pool {
    br_module base;
    br_pool_options options;
    br_pool_fn function;
} br_pool;
BR_API br_pool *br_max_pool1d_new(const br_pool_options *options);
BR_API br_pool *br_max_pool2d_new(const br_pool_options *options);
BR_API br_pool *br_avg_pool1d_new(const br_pool_options *options);
BR_API br_pool *br_avg_pool2d_new(const br_pool_options *options);
BR_API br_pool *br_adaptive_avg_pool1d_new(int64_t output_size);
BR_API br_pool *br_adaptive_avg_pool2d_new(int64_t height, int64_t width);
BR_API br_tensor *br_pool_forward(br_pool *self, br_tensor *x);

/* ---- Recurrent layers (nn/recurrent.c) ------------------------------------------------------- */

typedef struct br_rnn_options {
    size_t struct_size;
    int64_t num_layers;
    bool bias;
    bool batch_first; /* [batch, length, size] instead of [length, batch, size] */
    double dropout;   /* applied to the input of each layer but the first */
    bool bidirectional;
    bool relu;         /* nn.RNN only: relu instead of tanh */
    int64_t proj_size; /* nn.LSTM only: size that states are projected to; 0: no projection */
} br_rnn_options;
#define br_rnn_default_fields .struct_size = sizeof(br_rnn_options), .num_layers = 1, .bias = true
BR_API br_rnn_options br_rnn_defaults(void);

typedef struct br_rnn {
    br_module base;
    br_tensor **weights; /* for each layer and direction: weight_ih, weight_hh, bias_ih, bias_hh,
                            weight_hr; the last three may be NULL. Names in state dicts:
                            "weight_ih_l0", "weight_ih_l0_reverse" and so on */
    int64_t input_size, hidden_size;
    int kind; /* private: the kind of cell */
    br_rnn_options options;
} br_rnn;
/* Create nn.RNN, nn.LSTM (Hochreiter and Schmidhuber, 1997) and nn.GRU (Cho et al., 2014). All
 * parameters are uniform on +-1/sqrt(hidden_size). `options` may be NULL. */
BR_API br_rnn *br_rnn_new(int64_t input_size, int64_t hidden_size, const br_rnn_options *options);
BR_API br_rnn *br_lstm_new(int64_t input_size, int64_t hidden_size, const br_rnn_options *options);
BR_API br_rnn *br_gru_new(int64_t input_size, int64_t hidden_size, const br_rnn_options *options);
/* Returns the last layer's states [L, N, directions * hidden_size] for input [L, N, input_size].
 * Without a batch, the dimension N is absent everywhere. h_0 and, for an LSTM, c_0 are [layers *
 * directions, N, hidden_size], or NULL for zeros. *h_n and *c_n receive the last states, in the
 * same shape, unless h_n or c_n is NULL. If proj_size is set, it replaces hidden_size in the
 * results, h_0 and h_n. */
BR_API br_tensor *br_rnn_forward(br_rnn *self, br_tensor *input, br_tensor *h_0, br_tensor *c_0,
                                 br_tensor **h_n, br_tensor **c_n);
/* Like br_rnn_forward(), for a batch of padded sequences with `lengths` steps, i64 [N]. Results
 * after a sequence's end are 0. The forward direction's last states are those of each sequence's
 * last step, and the reverse direction begins at that step. Equivalent to pack_padded_sequence()
 * before the module and pad_packed_sequence() after it. */
BR_API br_tensor *br_rnn_forward_lengths(br_rnn *self, br_tensor *input, br_tensor *lengths,
                                         br_tensor *h_0, br_tensor *c_0, br_tensor **h_n,
                                         br_tensor **c_n);

/* ---- Positions (nn/positions.c) -------------------------------------------------------------- */

typedef struct br_sinusoidal_positional_encoding {
    br_module base;
    br_tensor *pe; /* [1, max_len, d_model]: sin and cos of position / 10000^(2 i / d_model) in
                      columns 2 i and 2 i + 1 */
    br_dropout *dropout;
    int64_t d_model, max_len;
} br_sinusoidal_positional_encoding;
/* Creates the positional encoding of Vaswani et al., 2017. */
BR_API br_sinusoidal_positional_encoding *br_sinusoidal_positional_encoding_new(int64_t d_model,
                                                                                int64_t max_len,
                                                                                double dropout);
/* Returns dropout(x + pe) for x [N, L, d_model]. */
BR_API br_tensor *br_sinusoidal_positional_encoding_forward(br_sinusoidal_positional_encoding *self,
                                                            br_tensor *x);

typedef struct br_rotary_embedding {
    br_module base;
    br_tensor *cos, *sin; /* [max_len, dim / 2]: cosine and sine of position / base^(2 i / dim); not
                             in state dicts */
    bool interleaved;
    int64_t dim, max_len;
    double theta; /* the `base` of the angles */
} br_rotary_embedding;
/* Creates a rotary embedding for vectors of `dim` numbers, paired as in br_f_rotary_embedding().
 * `base` is positive, usually 10000. */
BR_API br_rotary_embedding *br_rotary_embedding_new(int64_t dim, int64_t max_len, double base,
                                                    bool interleaved);
/* Rotates x [..., L, dim], whose first token is at position `offset`. */
BR_API br_tensor *br_rotary_embedding_forward(br_rotary_embedding *self, br_tensor *x,
                                              int64_t offset);

/* ---- Losses (nn/losses.c) -------------------------------------------------------------------- */

typedef struct br_loss br_loss;
typedef br_tensor *(*br_loss_fn)(const br_loss *self, br_tensor *const *inputs);
struct br_loss {
    br_module base;
    br_loss_fn function;
    int n_inputs;
    br_reduction reduction;
    br_tensor *weight, *pos_weight; /* buffers, or NULL */
    double margin;                  /* or beta or delta, depending on the loss */
    bool log_target;
    br_cross_entropy_options classes; /* its weight is the field `weight` above */
    br_triplet_options triplet;
};
/* Create loss modules such as nn.MSELoss. Each calls the loss function of the same name in ops.h
 * with the given arguments. Weights and options may be NULL. */
BR_API br_loss *br_mse_loss_new(br_reduction reduction);
BR_API br_loss *br_l1_loss_new(br_reduction reduction);
BR_API br_loss *br_smooth_l1_loss_new(br_reduction reduction, double beta);
BR_API br_loss *br_huber_loss_new(br_reduction reduction, double delta);
BR_API br_loss *br_cross_entropy_loss_new(const br_cross_entropy_options *options);
BR_API br_loss *br_nll_loss_new(const br_cross_entropy_options *options);
BR_API br_loss *br_bce_loss_new(br_tensor *weight, br_reduction reduction);
BR_API br_loss *br_bce_with_logits_loss_new(br_tensor *weight, br_reduction reduction,
                                            br_tensor *pos_weight);
BR_API br_loss *br_kl_div_loss_new(br_reduction reduction, bool log_target);
BR_API br_loss *br_cosine_embedding_loss_new(double margin, br_reduction reduction);
BR_API br_loss *br_margin_ranking_loss_new(double margin, br_reduction reduction);
BR_API br_loss *br_triplet_margin_loss_new(const br_triplet_options *options,
                                           br_reduction reduction);
/* Computes the loss from the inputs of the loss function: br_loss_forward(loss, BR_INPUTS(input,
 * target)). */
BR_API br_tensor *br_loss_forward(br_loss *self, int n, br_tensor *const *inputs);

#ifdef __cplusplus
}
#endif

#include <brasa/nn/init.h>
#include <brasa/nn/parametrize.h>
#include <brasa/nn/transformer.h>

#endif
