/* brasa/nn.h - modules that mirror torch.nn, nn.init and nn.utils.
 *
 * A module is a struct whose first member is a br_module and whose other fields are named as in the
 * PyTorch class, so that state_dict keys are equal:
 *
 *     typedef struct { br_module base; br_linear *q, *k; } head;
 *
 *     head *self = br_module_new(head);
 *     self->q = br_child(self, "q", br_linear_new(8, 4, true));
 *
 * Constructors never return NULL: if memory fails the error is pending and what is returned can be
 * used and freed like any module; its forward returns NULL as long as the error is pending. A
 * module owns its parameters, buffers and children; br_module_free() frees the whole tree. */
#ifndef BRASA_NN_H
#define BRASA_NN_H

#include <brasa/ops.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Modules --------------------------------------------------------------------------------- */

typedef struct br_module_state br_module_state;
typedef struct br_module {
    br_module_state *state; /* name, parent, parameters, children: private */
} br_module;

enum { BR_MODULE_MAX_SIZE = 4096 }; /* the most bytes a module's struct may have */

/* A new module of the given struct type, zeroed, in training mode. */
#define br_module_new(type) ((type *)br_module_create(sizeof(type), #type))
/* The br_module of any module struct. */
#define br_base(self) (&(self)->base)

BR_API void *br_module_create(size_t size, const char *class_name);
/* Frees the module with its children; NULL is ignored. A child is freed by its parent; freed before
 * that, it leaves its parent. */
BR_API void br_module_free(br_module *module);
/* The same for a pointer to any module struct. */
BR_API void br_free_module(void *self);

/* Registers `child` under `name` and returns it. The parent owns it from now on. If the
 * registration fails the child is freed, unless it is part of a tree already, and NULL returned. */
#define br_child(self, name, child) br_module_add_child(br_base(self), (name), (child))
/* `child` points to a struct that begins with a br_module; a child has one parent. */
BR_API void *br_module_add_child(br_module *parent, const char *name, void *child);

/* Registers a tensor as a parameter (it then requires grad if it is a float) or as a buffer, and
 * returns it; the module holds its own reference. The same tensor under a second name, here or in
 * another module, is a tied parameter: it is counted and optimized once. NULL is passed through:
 * an absent optional parameter has no entry. */
#define br_parameter(self, name, t) br_module_add_parameter(br_base(self), (name), (t))
#define br_buffer(self, name, t)    br_module_add_buffer(br_base(self), (name), (t), true)
BR_API br_tensor *br_module_add_parameter(br_module *module, const char *name, br_tensor *t);
/* Puts t in the place of the parameter of that name, which must be there, and returns it: assigned
 * to the field too, this is how PyTorch's `decoder.weight = embedding.weight` ties parameters. */
BR_API br_tensor *br_module_replace_parameter(br_module *module, const char *name, br_tensor *t);
BR_API br_tensor *br_module_add_buffer(br_module *module, const char *name, br_tensor *t,
                                       bool persistent);

/* Opens a scope for a forward pass; errors and taps inside it carry the module's path. Where the
 * pass cannot run it returns NULL from the function it stands in: while an error is pending, and,
 * with an error, if self is NULL or lacks a part that its constructor failed to make. So a function
 * that enters first may use its fields without a check. */
#define br_enter(self)                                       \
    do {                                                     \
        if (!br_module_enter((self) ? br_base(self) : NULL)) \
            return NULL;                                     \
    } while (0)
/* Closes it, hands the result to the scope outside, and returns it. */
#define br_leave(self, result) br_module_leave(br_base(self), (result))
/* The same, and hooks see the input x, a variable, and may put another in its place. */
#define br_enter_with(self, x)                                          \
    do {                                                                \
        if (!br_module_enter_with((self) ? br_base(self) : NULL, &(x))) \
            return NULL;                                                \
    } while (0)
/* The same for functions of another type; after false nothing is open, and br_module_leave() must
 * not be called. */
BR_API bool br_module_enter(br_module *module);
BR_API bool br_module_enter_with(br_module *module, br_tensor **input);
BR_API br_tensor *br_module_leave(br_module *module, br_tensor *result);

/* Gives the module a forward function of one tensor, for br_forward(), Sequential and ModuleList.
 */
typedef br_tensor *(*br_forward_fn)(void *self, br_tensor *x);
BR_API void br_module_set_forward(br_module *module, br_forward_fn forward);
BR_API br_tensor *br_forward(void *module, br_tensor *x);

/* Hooks on a module's forward, whichever function it runs by: inside its scope, in the order they
 * were added. A pre-hook comes before it and gives the input to go on with (NULL: the one given);
 * modules that are entered without one show NULL. A forward hook comes behind it and gives the
 * result to go on with (NULL: the one given). They return a handle for br_module_remove_hook(), 0
 * on error. */
typedef br_tensor *(*br_module_hook_fn)(br_module *module, br_tensor *t, void *context);
BR_API uint64_t br_module_register_forward_pre_hook(br_module *module, br_module_hook_fn hook,
                                                    void *context);
BR_API uint64_t br_module_register_forward_hook(br_module *module, br_module_hook_fn hook,
                                                void *context);
/* Hooks on a module's backward, wherever its result has a gradient. A pre-hook is given that by the
 * result, and gives the one to go on with (NULL: the one given). A backward hook is called when the
 * gradient by the input is there too, and gives that to go on with (NULL: the one given); where the
 * module was entered without an input, or with one that asks for no gradient, it is shown NULL. The
 * module must be there until backward; else its hooks are passed over. */
BR_API uint64_t br_module_register_full_backward_pre_hook(br_module *module, br_module_hook_fn hook,
                                                          void *context);
typedef br_tensor *(*br_module_backward_hook_fn)(br_module *module, br_tensor *grad_input,
                                                 br_tensor *grad_output, void *context);
BR_API uint64_t br_module_register_full_backward_hook(br_module *module,
                                                      br_module_backward_hook_fn hook,
                                                      void *context);
BR_API void br_module_remove_hook(br_module *module, uint64_t handle);
/* Called when the module is freed, after its children: for memory of its own. */
BR_API void br_module_set_destroy(br_module *module, void (*destroy)(void *self));

/* ---- Walking a module tree ------------------------------------------------------------------- */

BR_API const char *br_module_name(const br_module *module);
BR_API const char *br_module_class(const br_module *module);
/* "encoder.layers.0" in `buffer`, cut to `size`; "" for the root. */
BR_API char *br_module_path(const br_module *module, char *buffer, size_t size);
BR_API int64_t br_module_num_children(const br_module *module);
BR_API br_module *br_module_child_at(const br_module *module, int64_t i);
/* The module under a dotted path, or NULL and an error. */
BR_API br_module *br_module_find(br_module *module, const char *path);
/* Calls fn for every module of the tree, children before their parent, as Module.apply. */
BR_API void br_module_apply(br_module *module, void (*fn)(br_module *module, void *context),
                            void *context);

/* A parameter or buffer of the tree under its dotted name. */
typedef struct br_named_tensor {
    const char *name;
    br_tensor *tensor;
} br_named_tensor;
typedef struct br_named_list {
    int64_t count;
    br_named_tensor *items;
} br_named_list;

/* Parameters in PyTorch's order (own ones, then each child's), tied ones once; br_state_dict() adds
 * persistent buffers and every name of a tied tensor. Tensors are borrowed from the module, names
 * belong to the list. NULL on error. */
BR_API br_named_list *br_parameters(br_module *module);
BR_API br_named_list *br_state_dict(br_module *module);
BR_API void br_named_list_free(br_named_list *list);
/* The tensor of that name, or NULL (no error). */
BR_API br_tensor *br_named_list_get(const br_named_list *list, const char *name);
/* The parameter or buffer under a dotted name, or NULL and an error. */
BR_API br_tensor *br_module_get(br_module *module, const char *name);
/* Elements of all parameters, tied ones once; with `trainable_only`, of those that require grad. */
BR_API int64_t br_count_parameters(br_module *module, bool trainable_only);

/* What br_load_state_dict() found. Names joined by ", "; "" if none. They are as the source has
 * them: those of a file may hold anything, and only error messages escape it. */
typedef struct br_load_report {
    int64_t matched;
    int64_t missing, unexpected, mismatched;
    char *missing_names;
    char *unexpected_names;
    char *mismatched_names; /* each with both shapes or dtypes */
} br_load_report;

/* Copies the tensors of `source` into the module's of the same name. With `strict`, anything
 * missing, unexpected or of another shape or dtype is an error that lists all of it, and nothing is
 * copied; otherwise what fits is copied. `report` may be NULL; the caller frees it with
 * br_load_report_clear(). */
BR_API bool br_load_state_dict(br_module *module, const br_named_list *source, bool strict,
                               br_load_report *report);
BR_API void br_load_report_clear(br_load_report *report);

BR_API void br_train(br_module *module, bool training);
#define br_eval(module) br_train((module), false)
BR_API bool br_is_training(const br_module *module);
/* Sets requires_grad of the parameters whose dotted name matches `glob` (as in fnmatch: "*",
 * "embedding.*"); returns how many matched, -1 on error. */
BR_API int64_t br_module_requires_grad(br_module *module, const char *glob, bool requires_grad);
#define br_freeze(module, glob) br_module_requires_grad((module), (glob), false)
BR_API void br_zero_grad(br_module *module);
/* Converts parameters and floating buffers to f32 or f64 in place (their gradients are dropped). */
BR_API bool br_module_to(br_module *module, br_dtype dtype);

/* The tree with classes, shapes and parameter counts. The caller frees it with br_free(). */
BR_API char *br_summary(br_module *module);

/* What br_backward() left undone: the module's parameters that require grad and have none, and
 * leaves under `output` (taken before backward) that require grad and no parameter of the module
 * is: layers made during forward, for example. */
typedef struct br_unused_report {
    int64_t without_grad; /* parameters */
    int64_t foreign_leaves;
    char *text; /* one line each; "" if there is nothing to report */
} br_unused_report;
BR_API bool br_report_unused(br_module *module, br_tensor *output, br_unused_report *report);
BR_API void br_unused_report_clear(br_unused_report *report);

/* ---- Activation checkpoints ------------------------------------------------------------------ */

/* With `on`, the module's forward keeps only its inputs, and backward runs it again for what the
 * gradients need: see br_activation_checkpoint(). A ModuleList hands this on to its modules. It
 * holds wherever the forward runs through br_forward() or br_module_run(): in Sequential, in the
 * layers of the Transformers and the zoo, in your modules with a forward of one tensor. The module
 * must be there until backward. False and an error if memory fails. */
BR_API bool br_module_checkpoint(br_module *module, bool on);

/* A forward of several tensors (NULL: absent ones) and other arguments. */
typedef br_tensor *(*br_module_run_fn)(void *self, br_tensor *const *inputs, const void *args);
/* Calls forward(self, inputs, args), in a checkpoint if the module is to have them; `args` is then
 * copied. What a module's public forward function calls to let br_module_checkpoint() hold. */
BR_API br_tensor *br_module_run(void *self, br_module_run_fn forward, int n_inputs,
                                br_tensor *const *inputs, const void *args, size_t args_size);

/* ---- Taps ------------------------------------------------------------------------------------ */

/* While a recorder is open in this thread, br_tap() keeps t under "module.path.name"; a second tap
 * of the same name adds "#1", and so on. Returns t; without a recorder it does nothing else. */
BR_API br_tensor *br_tap(const char *name, br_tensor *t);
/* What a module that attends taps, so that its attention can be looked into (viz.h): "query",
 * "key", and `weights` as "attention", or as "cross_attention" where the keys are another
 * sequence's than the queries. All as [batch, heads, tokens, ...]; a module that is one head, of a
 * list `heads` perhaps, leaves that dimension out. Returns weights. */
BR_API br_tensor *br_tap_attention(br_tensor *query, br_tensor *key, br_tensor *weights,
                                   bool cross);
typedef struct br_recorder br_recorder;
BR_API br_recorder *br_recorder_begin(void);
/* Stops recording and frees what was recorded. */
BR_API void br_recorder_end(br_recorder *recorder);
BR_API int64_t br_recorder_count(const br_recorder *recorder);
BR_API const char *br_recorder_name(const br_recorder *recorder, int64_t i);
/* Borrowed from the recorder. */
BR_API br_tensor *br_recorder_tensor(const br_recorder *recorder, int64_t i);
/* The tensor of that full name, or NULL (no error). */
BR_API br_tensor *br_recorder_get(const br_recorder *recorder, const char *name);

/* ---- Layers (nn/layers.c, activations.c, containers.c) --------------------------------------- */

typedef struct br_linear {
    br_module base;
    br_tensor *weight; /* [out_features, in_features] */
    br_tensor *bias;   /* [out_features] or NULL */
    int64_t in_features, out_features;
} br_linear;
/* Weights and bias uniform on +-1/sqrt(in_features), as nn.Linear draws them. */
BR_API br_linear *br_linear_new(int64_t in_features, int64_t out_features, bool bias);
BR_API br_tensor *br_linear_forward(br_linear *self, br_tensor *x);

typedef struct br_embedding {
    br_module base;
    br_tensor *weight; /* [num_embeddings, embedding_dim] */
    int64_t num_embeddings, embedding_dim;
    int64_t padding_idx; /* -1: none */
    double max_norm;     /* 0: none; else a forward first shortens the rows that it looks up to this
                            norm, as PyTorch does, unrecorded */
    double norm_type;    /* 2 */
} br_embedding;
/* Weights from N(0, 1); row padding_idx (-1: none) is zero and gets no gradient. */
BR_API br_embedding *br_embedding_new(int64_t num_embeddings, int64_t embedding_dim,
                                      int64_t padding_idx);
BR_API br_tensor *br_embedding_forward(br_embedding *self, br_tensor *index);

typedef struct br_layer_norm {
    br_module base;
    br_tensor *weight, *bias; /* of the normalized shape, ones and zeros, or NULL */
    int ndim;
    int64_t normalized_shape[BR_MAX_DIMS];
    double eps;
} br_layer_norm;
/* Over the last dimension. eps 0 means PyTorch's default, 1e-5. */
BR_API br_layer_norm *br_layer_norm_new(int64_t normalized_size, double eps);
/* Over as many last dimensions as the shape has. */
BR_API br_layer_norm *br_layer_norm_shape_new(int ndim, const int64_t *normalized_shape, double eps,
                                              bool elementwise_affine, bool bias);
BR_API br_tensor *br_layer_norm_forward(br_layer_norm *self, br_tensor *x);

typedef struct br_dropout {
    br_module base;
    double p;
} br_dropout;
BR_API br_dropout *br_dropout_new(double p);
BR_API br_tensor *br_dropout_forward(br_dropout *self, br_tensor *x);

/* nn.ReLU and friends: modules without parameters that apply a function to x and their arguments.
 * A program sets inplace where it wants x no more: then ReLU, Tanh, Sigmoid, SiLU and GELU write
 * over x if br_may_overwrite(x) where forward is called, and make a new tensor otherwise. */
typedef br_tensor *(*br_activation_fn)(br_tensor *x, const double *args);
typedef struct br_activation {
    br_module base;
    br_activation_fn function, over; /* `over` changes x; NULL for those that cannot */
    double args[2];
    bool inplace;
} br_activation;
BR_API br_activation *br_relu_new(void);
BR_API br_activation *br_tanh_new(void);
BR_API br_activation *br_sigmoid_new(void);
BR_API br_activation *br_silu_new(void);
BR_API br_activation *br_gelu_new(br_gelu_form form);
BR_API br_activation *br_leaky_relu_new(double negative_slope);
BR_API br_activation *br_elu_new(double alpha);
BR_API br_activation *br_softplus_new(double beta, double threshold);
BR_API br_activation *br_softmax_new(int64_t dim);
BR_API br_activation *br_log_softmax_new(int64_t dim);
BR_API br_activation *br_identity_new(void);
/* nn.Flatten's defaults are 1 and -1. */
BR_API br_activation *br_flatten_new(int64_t start_dim, int64_t end_dim);
BR_API br_tensor *br_activation_forward(br_activation *self, br_tensor *x);

/* Modules one after the other, named "0", "1", ... */
typedef struct br_sequential {
    br_module base;
} br_sequential;
/* Takes n modules that have a forward function; they belong to it. */
BR_API br_sequential *br_sequential_new(int n, void *const *modules);
#define BR_MODULES(...)                                                   \
    (int)(sizeof((void *[]){ __VA_ARGS__ }) / sizeof(void *)), (void *[]) \
    {                                                                     \
        __VA_ARGS__                                                       \
    }
BR_API br_tensor *br_sequential_forward(br_sequential *self, br_tensor *x);

/* A list of modules, named "0", "1", ... */
typedef struct br_module_list {
    br_module base;
} br_module_list;
BR_API br_module_list *br_module_list_new(void);
/* Appends and returns the module. */
BR_API void *br_module_list_append(br_module_list *self, void *module);
BR_API int64_t br_module_list_size(const br_module_list *self);
/* NULL and an error outside 0 .. size-1; negative i counts from the end. */
BR_API void *br_module_list_at(const br_module_list *self, int64_t i);

/* ---- Norms (nn/norms.c) ---------------------------------------------------------------------- */

typedef struct br_rms_norm {
    br_module base;
    br_tensor *weight; /* of the normalized shape, ones, or NULL */
    int ndim;
    int64_t normalized_shape[BR_MAX_DIMS];
    double eps;
} br_rms_norm;
/* Over the last dimension. eps 0 is PyTorch's default: the distance from 1 to the next number. */
BR_API br_rms_norm *br_rms_norm_new(int64_t normalized_size, double eps);
/* Over as many last dimensions as the shape has. */
BR_API br_rms_norm *br_rms_norm_shape_new(int ndim, const int64_t *normalized_shape, double eps,
                                          bool elementwise_affine);
BR_API br_tensor *br_rms_norm_forward(br_rms_norm *self, br_tensor *x);

typedef struct br_batch_norm_options {
    double eps;      /* 0: 1e-5 */
    double momentum; /* of the running statistics; 0: 0.1 */
    bool cumulative; /* they are the mean over all batches (momentum=None) */
    bool no_affine;
    bool no_track_running_stats; /* the batch's statistics count in evaluation, too */
} br_batch_norm_options;

typedef struct br_batch_norm {
    br_module base;
    br_tensor *weight, *bias;              /* [num_features], ones and zeros, or NULL */
    br_tensor *running_mean, *running_var; /* [num_features], zeros and ones, or NULL */
    br_tensor *num_batches_tracked;        /* i64 */
    int64_t num_features;
    int least_dims, most_dims; /* of x */
    br_batch_norm_options options;
} br_batch_norm;
/* x is [N, C] or [N, C, L]; or [N, C, H, W]. `options` may be NULL. */
BR_API br_batch_norm *br_batch_norm1d_new(int64_t num_features,
                                          const br_batch_norm_options *options);
BR_API br_batch_norm *br_batch_norm2d_new(int64_t num_features,
                                          const br_batch_norm_options *options);
BR_API br_tensor *br_batch_norm_forward(br_batch_norm *self, br_tensor *x);

typedef struct br_group_norm {
    br_module base;
    br_tensor *weight, *bias; /* [num_channels], ones and zeros, or NULL */
    int64_t num_groups, num_channels;
    double eps;
} br_group_norm;
/* eps 0 means PyTorch's default, 1e-5. */
BR_API br_group_norm *br_group_norm_new(int64_t num_groups, int64_t num_channels, double eps,
                                        bool affine);
BR_API br_tensor *br_group_norm_forward(br_group_norm *self, br_tensor *x);

/* ---- Convolutions and pooling (nn/convolutions.c) -------------------------------------------- */

typedef br_tensor *(*br_conv_fn)(br_tensor *x, br_tensor *weight, br_tensor *bias,
                                 const br_conv_options *options);
typedef struct br_conv {
    br_module base;
    br_tensor *weight; /* [out_channels, in_channels / groups, kernel ...], or, transposed,
                          [in_channels, out_channels / groups, kernel ...] */
    br_tensor *bias;   /* [out_channels] or NULL */
    int64_t in_channels, out_channels;
    br_conv_options options;
    br_conv_fn function;
} br_conv;
/* Weights and bias uniform on +-1/sqrt(inputs of an output), as PyTorch draws them. `options` may
 * be NULL. */
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
    int64_t num_layers; /* 0: 1 */
    bool no_bias;
    bool batch_first; /* [batch, length, size], not [length, batch, size] */
    double dropout;   /* of each layer's input but the first one's */
    bool bidirectional;
    bool relu;         /* of nn.RNN: in place of tanh */
    int64_t proj_size; /* of nn.LSTM: states are projected to this size; 0: they are not */
} br_rnn_options;

typedef struct br_rnn {
    br_module base;
    br_tensor *
        *weights; /* of each layer, of each direction: weight_ih, weight_hh, bias_ih, bias_hh,
                     weight_hr; all but the first two may be NULL. In state dicts "weight_ih_l0",
                     "..._l0_reverse" */
    int64_t input_size, hidden_size;
    int kind; /* which cell: private */
    br_rnn_options options;
} br_rnn;
/* nn.RNN, nn.LSTM (Hochreiter and Schmidhuber, 1997) and nn.GRU (Cho et al., 2014); all parameters
 * uniform on +-1/sqrt(hidden_size). `options` may be NULL. */
BR_API br_rnn *br_rnn_new(int64_t input_size, int64_t hidden_size, const br_rnn_options *options);
BR_API br_rnn *br_lstm_new(int64_t input_size, int64_t hidden_size, const br_rnn_options *options);
BR_API br_rnn *br_gru_new(int64_t input_size, int64_t hidden_size, const br_rnn_options *options);
/* input [L, N, input_size], or without N, gives the last layer's states [L, N, directions *
 * hidden_size]. h_0 and, of an LSTM, c_0 are [layers * directions, N, hidden_size] or NULL for
 * zeros; so are the last states, unless NULL is given for *h_n and *c_n. With proj_size that is the
 * size of results and of h. */
BR_API br_tensor *br_rnn_forward(br_rnn *self, br_tensor *input, br_tensor *h_0, br_tensor *c_0,
                                 br_tensor **h_n, br_tensor **c_n);
/* The same of a batch of sequences that end after `lengths` steps, i64 [N], and are padded: results
 * behind the end are 0, last states are those of the last step that is there, with which the
 * reverse direction begins. As pack_padded_sequence() and pad_packed_sequence() around the module.
 */
BR_API br_tensor *br_rnn_forward_lengths(br_rnn *self, br_tensor *input, br_tensor *lengths,
                                         br_tensor *h_0, br_tensor *c_0, br_tensor **h_n,
                                         br_tensor **c_n);

/* ---- Positions (nn/positions.c) -------------------------------------------------------------- */

typedef struct br_sinusoidal_positional_encoding {
    br_module base;
    br_tensor *pe; /* [1, max_len, d_model]: sin and cos of position / 10000^(2 i / d_model) in
                      columns 2 i and 2 i + 1 */
    br_dropout *dropout;
} br_sinusoidal_positional_encoding;
/* Vaswani et al., 2017. */
BR_API br_sinusoidal_positional_encoding *br_sinusoidal_positional_encoding_new(int64_t d_model,
                                                                                int64_t max_len,
                                                                                double dropout);
/* dropout(x + pe) of x [N, L, d_model]. */
BR_API br_tensor *br_sinusoidal_positional_encoding_forward(br_sinusoidal_positional_encoding *self,
                                                            br_tensor *x);

typedef struct br_rotary_embedding {
    br_module base;
    br_tensor *cos,
        *sin; /* [max_len, dim / 2] of position / base^(2 i / dim); not in state dicts */
    bool interleaved;
} br_rotary_embedding;
/* Of vectors of `dim` numbers, as br_f_rotary_embedding() pairs them; base 0 means 10000. */
BR_API br_rotary_embedding *br_rotary_embedding_new(int64_t dim, int64_t max_len, double base,
                                                    bool interleaved);
/* x [..., L, dim], whose first position is `offset`. */
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
    double margin;                  /* beta and delta, too */
    bool log_target;
    br_cross_entropy_options classes; /* but for the weight */
    br_triplet_options triplet;
};
/* nn.MSELoss and friends: what the functions of ops.h of these names are called with. Weights and
 * options may be NULL. */
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
/* Its inputs are those of the function: br_loss_forward(loss, BR_INPUTS(input, target)). */
BR_API br_tensor *br_loss_forward(br_loss *self, int n, br_tensor *const *inputs);

/* ---- Attention and Transformer layers (nn/attention.c, transformer*.c) ----------------------- */

typedef struct br_multihead_attention_options {
    double dropout; /* of the weights */
    bool no_bias;
    bool add_bias_kv;   /* a key and a value that are learnt */
    bool add_zero_attn; /* a key and a value of zeros */
    int64_t kdim, vdim; /* sizes of keys and values; 0: embed_dim */
    bool batch_first;   /* [batch, length, size], not [length, batch, size] */
} br_multihead_attention_options;

typedef struct br_multihead_attention {
    br_module base;
    br_tensor *in_proj_weight; /* [3 embed_dim, embed_dim]; NULL where kdim or vdim differ: */
    br_tensor *q_proj_weight, *k_proj_weight, *v_proj_weight;
    br_tensor *in_proj_bias; /* [3 embed_dim] */
    br_linear *out_proj;
    br_tensor *bias_k, *bias_v; /* [1, 1, embed_dim] */
    int64_t embed_dim, num_heads;
    br_multihead_attention_options options;
} br_multihead_attention;

/* nn.MultiheadAttention, Vaswani et al., 2017. `options` may be NULL. */
BR_API br_multihead_attention *br_multihead_attention_new(
    int64_t embed_dim, int64_t num_heads, const br_multihead_attention_options *options);

typedef struct br_multihead_attention_inputs {
    /* A bool mask is true where a key takes no part; one of the query's dtype is added. */
    br_tensor *key_padding_mask; /* [N, S], or [S] without batch; NULL: none */
    br_tensor *attn_mask;        /* [L, S] or [N * num_heads, L, S]; NULL: none */
    bool is_causal;              /* attn_mask is the causal one, and may be left out */
    br_tensor **weights;   /* receives the weights [N, L, S], the heads' mean; NULL: not wanted */
    bool weights_per_head; /* ... [N, num_heads, L, S] */
} br_multihead_attention_inputs;
/* query [L, N, embed_dim], key [S, N, kdim], value [S, N, vdim], or without N; gives [L, N,
 * embed_dim]. `inputs` may be NULL. Without weights it never holds the scores, and queries that may
 * see no key get zeros; with weights they get NaN, both as in PyTorch. Its attention is tapped
 * (br_tap_attention) before dropout. */
BR_API br_tensor *br_multihead_attention_forward(br_multihead_attention *self, br_tensor *query,
                                                 br_tensor *key, br_tensor *value,
                                                 const br_multihead_attention_inputs *inputs);

typedef struct br_transformer_options {
    int64_t dim_feedforward; /* 0: 2048 */
    double dropout;
    br_tensor *(*activation)(br_tensor *x); /* NULL: br_relu(), or GELU (erf) with gelu */
    bool gelu;
    double layer_norm_eps; /* 0: 1e-5 */
    bool batch_first;
    bool norm_first; /* norms before attention and feed-forward, not behind the sums */
    bool no_bias;
} br_transformer_options;

typedef struct br_transformer_encoder_layer {
    br_module base;
    br_multihead_attention *self_attn;
    br_linear *linear1, *linear2;
    br_layer_norm *norm1, *norm2;
    br_dropout *dropout, *dropout1, *dropout2;
    br_transformer_options options;
} br_transformer_encoder_layer;
/* nn.TransformerEncoderLayer. Where `options` is NULL dropout is 0.1; options that are given say it
 * themselves. So for the others below. */
BR_API br_transformer_encoder_layer *br_transformer_encoder_layer_new(
    int64_t d_model, int64_t nhead, const br_transformer_options *options);
/* Masks as those of attention; NULL: none. */
BR_API br_tensor *br_transformer_encoder_layer_forward(br_transformer_encoder_layer *self,
                                                       br_tensor *src, br_tensor *src_mask,
                                                       br_tensor *src_key_padding_mask,
                                                       bool is_causal);

typedef struct br_transformer_encoder {
    br_module base;
    br_module_list *layers;
    br_layer_norm *norm; /* NULL: none */
} br_transformer_encoder;
/* num_layers layers of equal initial values, as PyTorch's copies of one, and a LayerNorm behind
 * them if `norm`. */
BR_API br_transformer_encoder *br_transformer_encoder_new(int64_t d_model, int64_t nhead,
                                                          int64_t num_layers, bool norm,
                                                          const br_transformer_options *options);
BR_API br_tensor *br_transformer_encoder_forward(br_transformer_encoder *self, br_tensor *src,
                                                 br_tensor *mask, br_tensor *src_key_padding_mask,
                                                 bool is_causal);

typedef struct br_transformer_masks {
    br_tensor *src_mask, *tgt_mask, *memory_mask;
    br_tensor *src_key_padding_mask, *tgt_key_padding_mask, *memory_key_padding_mask;
    bool src_is_causal, tgt_is_causal, memory_is_causal;
} br_transformer_masks;

typedef struct br_transformer_decoder_layer {
    br_module base;
    br_multihead_attention *self_attn, *multihead_attn;
    br_linear *linear1, *linear2;
    br_layer_norm *norm1, *norm2, *norm3;
    br_dropout *dropout, *dropout1, *dropout2, *dropout3;
    br_transformer_options options;
} br_transformer_decoder_layer;
BR_API br_transformer_decoder_layer *br_transformer_decoder_layer_new(
    int64_t d_model, int64_t nhead, const br_transformer_options *options);
/* Of the masks, which may be NULL, those of src are not used. */
BR_API br_tensor *br_transformer_decoder_layer_forward(br_transformer_decoder_layer *self,
                                                       br_tensor *tgt, br_tensor *memory,
                                                       const br_transformer_masks *masks);

typedef struct br_transformer_decoder {
    br_module base;
    br_module_list *layers;
    br_layer_norm *norm; /* NULL: none */
} br_transformer_decoder;
BR_API br_transformer_decoder *br_transformer_decoder_new(int64_t d_model, int64_t nhead,
                                                          int64_t num_layers, bool norm,
                                                          const br_transformer_options *options);
BR_API br_tensor *br_transformer_decoder_forward(br_transformer_decoder *self, br_tensor *tgt,
                                                 br_tensor *memory,
                                                 const br_transformer_masks *masks);

typedef struct br_transformer {
    br_module base;
    br_transformer_encoder *encoder;
    br_transformer_decoder *decoder;
    int64_t d_model;
} br_transformer;
/* nn.Transformer: encoder and decoder, each with a norm behind it. */
BR_API br_transformer *br_transformer_new(int64_t d_model, int64_t nhead,
                                          int64_t num_encoder_layers, int64_t num_decoder_layers,
                                          const br_transformer_options *options);
BR_API br_tensor *br_transformer_forward(br_transformer *self, br_tensor *src, br_tensor *tgt,
                                         const br_transformer_masks *masks);
/* [size, size] with -inf above the diagonal and 0 elsewhere. */
BR_API br_tensor *br_transformer_square_subsequent_mask(int64_t size, br_dtype dtype);

#ifdef __cplusplus
}
#endif

#include <brasa/nn/init.h>
#include <brasa/nn/parametrize.h>

#endif
