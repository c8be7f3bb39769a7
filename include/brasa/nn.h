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
/* The same for functions of another type; after false nothing is open, and br_module_leave() must
 * not be called. */
BR_API bool br_module_enter(br_module *module);
BR_API br_tensor *br_module_leave(br_module *module, br_tensor *result);

/* Gives the module a forward function of one tensor, for br_forward(), Sequential and ModuleList.
 */
typedef br_tensor *(*br_forward_fn)(void *self, br_tensor *x);
BR_API void br_module_set_forward(br_module *module, br_forward_fn forward);
BR_API br_tensor *br_forward(void *module, br_tensor *x);
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

/* ---- Taps ------------------------------------------------------------------------------------ */

/* While a recorder is open in this thread, br_tap() keeps t under "module.path.name"; a second tap
 * of the same name adds "#1", and so on. Returns t; without a recorder it does nothing else. */
BR_API br_tensor *br_tap(const char *name, br_tensor *t);
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

/* ---- Layers (nn/layers.c, nn/containers.c) --------------------------------------------------- */

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
} br_embedding;
/* Weights from N(0, 1); row padding_idx (-1: none) is zero and gets no gradient. */
BR_API br_embedding *br_embedding_new(int64_t num_embeddings, int64_t embedding_dim,
                                      int64_t padding_idx);
BR_API br_tensor *br_embedding_forward(br_embedding *self, br_tensor *index);

typedef struct br_layer_norm {
    br_module base;
    br_tensor *weight, *bias; /* [normalized_size], ones and zeros */
    int64_t normalized_size;
    double eps;
} br_layer_norm;
/* Over the last dimension. eps 0 means PyTorch's default, 1e-5. */
BR_API br_layer_norm *br_layer_norm_new(int64_t normalized_size, double eps);
BR_API br_tensor *br_layer_norm_forward(br_layer_norm *self, br_tensor *x);

typedef struct br_dropout {
    br_module base;
    double p;
} br_dropout;
BR_API br_dropout *br_dropout_new(double p);
BR_API br_tensor *br_dropout_forward(br_dropout *self, br_tensor *x);

/* nn.ReLU and friends: modules without parameters that apply a function. */
typedef struct br_activation {
    br_module base;
    br_tensor *(*function)(br_tensor *x);
} br_activation;
BR_API br_activation *br_relu_new(void);
BR_API br_activation *br_tanh_new(void);
BR_API br_activation *br_sigmoid_new(void);
BR_API br_activation *br_gelu_new(br_gelu_form form);
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

/* ---- nn.init: fill t in place, unrecorded; return t -------------------------------------------
 */

BR_API br_tensor *br_init_uniform_(br_tensor *t, double a, double b);
BR_API br_tensor *br_init_normal_(br_tensor *t, double mean, double std);
BR_API br_tensor *br_init_constant_(br_tensor *t, double value);
BR_API br_tensor *br_init_zeros_(br_tensor *t);
BR_API br_tensor *br_init_ones_(br_tensor *t);
BR_API br_tensor *br_init_eye_(br_tensor *t);
/* Glorot and Bengio, 2010: U(+-gain sqrt(6 / (fan_in + fan_out))), N(0, gain^2 2 / (fan_in +
 * fan_out)). */
BR_API br_tensor *br_init_xavier_uniform_(br_tensor *t, double gain);
BR_API br_tensor *br_init_xavier_normal_(br_tensor *t, double gain);
/* He et al., 2015, by fan_in for a leaky ReLU of slope a: bound gain sqrt(3 / fan_in), deviation
 * gain / sqrt(fan_in), gain = sqrt(2 / (1 + a^2)). */
BR_API br_tensor *br_init_kaiming_uniform_(br_tensor *t, double a);
BR_API br_tensor *br_init_kaiming_normal_(br_tensor *t, double a);
/* Normal values cut to [low, high]: those outside are drawn again or, where that would hardly ever
 * end, uniform ones are taken with a probability that follows the density; as PyTorch 2.15. */
BR_API br_tensor *br_init_trunc_normal_(br_tensor *t, double mean, double std, double low,
                                        double high);

#ifdef __cplusplus
}
#endif
#endif
