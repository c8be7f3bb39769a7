/* nn/nn_internal.h - internals of modules, for nn/ and the folders that build on it: module state,
 * lists of named tensors, and growable strings. */
#ifndef BR_NN_INTERNAL_H
#define BR_NN_INTERNAL_H

#include "autograd/hook_list.h"
#include "tensor/growing_text.h"
#include "tensor/tensor_internal.h"

#include <brasa/nn.h>

/* ---- Modules --------------------------------------------------------------------------------- */

typedef enum br_entry_kind {
    BR_ENTRY_PARAMETER,
    BR_ENTRY_BUFFER,
    BR_ENTRY_NONPERSISTENT, /* a buffer that is not in state_dict */
} br_entry_kind;

/* A parameter or buffer; it holds a reference to its tensor. */
typedef struct br_entry {
    char *name;
    br_tensor *tensor;
    br_entry_kind kind;
    br_tensor *(*compute)(void *self); /* computes a buffer of constants in f64; NULL for others */
} br_entry;

/* Changes the results of a layer that is entered with its input, or marks the root of a model whose
 * layers have such parts: lora_internal.h. */
typedef struct br_adapter br_adapter;
struct br_adapter {
    /* Returns the layer's result for `input`, which is NULL if the layer was entered without one.
     * `result` is what the layer computed. NULL in the root of a model. */
    br_tensor *(*run)(br_adapter *self, br_module *layer, br_tensor *input, br_tensor *result);
    void (*release)(br_adapter *self); /* frees it; called when the module is freed */
};

/* A parametrized parameter: parametrized.h. */
typedef struct br_parametrized br_parametrized;

/* Tells whether a module still exists. A graph holds it in place of the module: see
 * br__token_of(). */
typedef struct br_module_token br_module_token;

struct br_module_state {
    br_module *module; /* the struct that begins with the br_module */
    br_module_state *parent;
    char *name; /* name in the parent; NULL for a root */
    char *class_name;
    br_entry *entries; /* in the order of registration; so are the children */
    int64_t n_entries, entry_capacity;
    br_module_state **children;
    int64_t n_children, child_capacity;
    br_forward_fn forward;
    br_forward_fn body; /* the part of a layer's forward that runs inside its scope */
    br_hook_link *hooks;
    br_tensor *call; /* set during a forward whose backward has hooks: see hooks.c */
    br_parametrized *parametrized;
    br_adapter *adapter; /* owned; NULL: none */
    void (*destroy)(void *self);
    bool training;
    size_t size;            /* of the struct */
    bool fields_checked;    /* in debug mode: see br__check_fields() */
    bool checkpointed;      /* forward is run as an activation checkpoint */
    br_module_token *token; /* owned; NULL until a graph needs it */
    bool incomplete;        /* a part could not be created, so forward fails */
};

/* A graph holds a token in place of a module, because the module may be freed first. br__token_of()
 * returns a new reference to the module's token, or NULL on error. br__token_module() returns NULL
 * once the module is freed. */
br_module_token *br__token_of(br_module_state *state);
br_module *br__token_module(const br_module_token *token);
void br__token_release(br_module_token *token);
/* Creates the module's token if it has none. Returns false and sets an error if allocation fails.
 */
bool br__token_begin(br_module_state *state);
/* Called when the module is freed. */
void br__token_end(br_module_state *state);

/* In debug mode, warns once of each tensor and module in the module's struct that was not
 * registered (check_fields.c). */
void br__check_fields(const char *op, br_module_state *state);

/* Returns true if self is a module, other than a dead one (module.c). In debug mode, sets an error
 * if the handle was freed or is not a module. */
bool br__module_exists(const char *op, const void *self);
/* Returns the module's parameter or buffer of that name, or NULL, without an error, if there is
 * none. */
br_entry *br__find_entry(const br_module_state *state, const char *name);
/* Returns true if the module has that class and a struct of that size; 0: any. A program may have a
 * class of the same name. */
static inline bool br__is_class(const br_module_state *state, const char *name, size_t size)
{
    return strcmp(state->class_name, name) == 0 && (size == 0 || size == state->size);
}
/* Like br_buffer(), but the tensor also stays in its scope. */
br_tensor *br__module_share_buffer(br_module *module, const char *name, br_tensor *t);
/* Begin and end a layer's constructor. If the module cannot be allocated, br__layer_begin() returns
 * a dead module; a later failure leaves the module incomplete. `body`, which may be NULL, computes
 * the forward of one input inside the module's scope. */
void *br__layer_begin(size_t size, const char *class_name, br_forward_fn body);
void br__layer_end(br_module *module, br_scope *scope);
/* Runs the forward of a layer that has a body: enters the module, runs the body, leaves the module.
 * The macro names the calling function in errors. */
br_tensor *br__layer_forward(void *self, br_tensor *x);
br_tensor *br__layer_forward_from(const char *function, void *self, br_tensor *x);
#define BR_LAYER_FORWARD(self, x) br__layer_forward_from(__func__, self, x)
/* Returns true if `size`, an argument of a constructor, is at least `minimum`. Otherwise returns
 * false and sets an error that names the argument. */
bool br__layer_size(const char *op, const char *name, int64_t size, int64_t minimum);
/* The shape of a convolution's parameters; `op` names the layer in errors. */
typedef struct br__conv_shape {
    const char *op;
    bool transposed;
    int64_t in_channels, out_channels, groups;
    int dims;
    const int64_t *kernel; /* a number for each of the `dims` */
} br__conv_shape;
/* Checks the shape, and registers a convolution's weight and bias with initial values. Registers
 * nothing after an error. Without a bias *bias becomes NULL. */
void br__add_conv_parameters(br_module *module, const br__conv_shape *shape, bool with_bias,
                             br_tensor **weight, br_tensor **bias);
/* Run a module's hooks: before its forward on the input, which may be NULL, and after its forward
 * on the result. Hooks may replace both tensors. Return false after an error. */
bool br__run_forward_pre_hooks(br_module_state *state, br_tensor **input);
bool br__run_forward_hooks(br_module_state *state, br_tensor **result);
/* Adds a hook that runs before all hooks of br_module_register_forward_hook(). */
uint64_t br__register_result_hook(br_module *module, br_module_hook_fn hook, void *context);
/* Returns the parameter of that name, or its value if it is parametrized. The result belongs to the
 * innermost scope or to the module. */
br_tensor *br__current_value(br_module *module, const char *name);
/* Returns the name in the library's own memory, which is never freed; NULL if there is no such
 * activation function. */
const char *br__activation_name(const char *name);
/* Writes why the activation's name is not supported, and the names that are, and returns the text.
 */
enum { BR_REASON = 600 };
const char *br__activation_reason(const char *name, bool may_be_gated, char text[BR_REASON]);

/* ---- Lists of named tensors ------------------------------------------------------------------ */

/* Returns an empty list, or NULL on error. The list holds references to its tensors if `holds` is
 * true. */
br_named_list *br__named_list_new(bool holds);
/* Appends a tensor under a copy of the name. */
bool br__named_list_add(br_named_list *list, const char *name, br_tensor *t);
/* Returns the index of a name, or -1. Searches from item `from` to the end and then from the start,
 * since lists that are compared usually have the same order. */
int64_t br__named_list_find(const br_named_list *list, const char *name, int64_t from);

/* Selects what br__collect() adds to the parameters: buffers that are in state_dict, buffers that
 * are not, and further names of tied tensors; or leaves out the parameters, or the tensors that do
 * not require grad. */
enum {
    BR_COLLECT_BUFFERS = 1,
    BR_COLLECT_NONPERSISTENT = 2,
    BR_COLLECT_ALIASES = 4,
    BR_COLLECT_NO_PARAMETERS = 8,
    BR_COLLECT_TRAINABLE = 16,
};
/* Returns the tree's tensors under their dotted names: a module's own, then each child's. Without
 * BR_COLLECT_ALIASES a tied tensor appears once, under its first name. Returns NULL on error. */
br_named_list *br__collect(const char *op, br_module *module, int what);

/* ---- Loading a state dict in two steps ------------------------------------------------------- */

/* Does what br_load_state_dict() does, except for copying. Returns NULL and sets an error if
 * `source` does not fit the module. `source` must live until br__loading_end(). `path` names the
 * file that `source` was read from in that error; NULL: none. */
typedef struct br_loading br_loading;
typedef struct br__load_mode {
    bool strict;    /* the source and the module must have the same tensors */
    bool trainable; /* only of the module's parameters that require grad */
    bool ties;      /* the source has a tied tensor under one of its names or several */
} br__load_mode;
br_loading *br__loading_begin(br_module *module, const br_named_list *source, const char *path,
                              br__load_mode mode, br_load_report *report);
/* Copies the tensors. Cannot fail. */
void br__loading_apply(const br_loading *loading);
void br__loading_end(br_loading *loading);

#endif
