/* brasa/nn/module.h - modules: construction, forward, hooks, trees, state dicts, checkpoints, taps;
 * part of brasa/nn.h. */
#ifndef BRASA_NN_MODULE_H
#define BRASA_NN_MODULE_H

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

/* Creates a module of the given struct type, zeroed, in training mode. In C, a struct whose first
 * member is not `base` does not compile: "size of array 'the_struct_must_begin_with_base' is
 * negative". */
#ifndef __cplusplus
#    define br_module_new(type)                                                          \
        ((type *)br_module_create(                                                       \
            sizeof(type) +                                                               \
                0 * sizeof(struct {                                                      \
                    char the_struct_must_begin_with_base[offsetof(type, base) ? -1 : 1]; \
                }),                                                                      \
            #type))
#else
/* clang-format off */
#    define br_module_new(type) ((type *)br_module_create(sizeof(type), #type))
/* clang-format on */
#endif
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
 * error if self was not entered. If it is forgotten, the end of an enclosing scope sets an error.
 */
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

/* Returns true if `self`, any module struct, can be used. Otherwise returns false and sets an error
 * that begins with `op`: it is NULL, was freed, or its constructor failed. */
BR_API bool br_module_is_usable(const char *op, const void *self);
/* Marks a module as incomplete, for constructors that fail after they registered all parts: its
 * forward then fails. */
BR_API void br_module_set_incomplete(br_module *module);
/* Sets whether initialization is skipped in this thread, and returns the previous setting. While it
 * is skipped, Linear and Embedding leave their weights uninitialized and use no random numbers.
 * This avoids touching the memory of a model whose values are about to be replaced. */
BR_API bool br_skip_init(bool skip);

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
 * "embedding.*"). Warns if none matches. Returns how many parameters matched, or -1 on error. */
BR_API int64_t br_module_requires_grad(br_module *module, const char *glob, bool requires_grad);
#define br_freeze(module, glob) br_module_requires_grad((module), (glob), false)
BR_API void br_zero_grad(br_module *module);
/* Converts floating-point parameters and buffers to a floating-point dtype in place, and drops
 * their gradients. */
BR_API bool br_module_to(br_module *module, br_dtype dtype);
/* Moves parameters, buffers and gradients to a device. The tensor objects stay the same. An
 * optimizer that has made a step keeps its state on the device on which it was made: move the
 * module first. */
BR_API bool br_module_to_device(br_module *module, br_device device);
/* Returns the device of the module's first parameter or buffer, or the CPU if it has none. */
BR_API br_device br_module_device(const br_module *module);

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
/* Returns whether a recorder is open in this thread. */
BR_API bool br_recorder_is_open(void);
BR_API br_recorder *br_recorder_begin(void);
/* Stops recording and frees the recorded tensors. */
BR_API void br_recorder_end(br_recorder *recorder);
BR_API int64_t br_recorder_count(const br_recorder *recorder);
BR_API const char *br_recorder_name(const br_recorder *recorder, int64_t i);
/* Returns a tensor borrowed from the recorder. */
BR_API br_tensor *br_recorder_tensor(const br_recorder *recorder, int64_t i);
/* Returns the tensor of that full name, or NULL, without an error, if there is none. */
BR_API br_tensor *br_recorder_get(const br_recorder *recorder, const char *name);

#ifdef __cplusplus
}
#endif

#endif
