/* nn/nn_internal.h - what the files of nn/ and the layers below may know of modules: their state,
 * lists of named tensors, and growing texts. */
#ifndef BR_NN_INTERNAL_H
#define BR_NN_INTERNAL_H

#include "tensor/tensor_internal.h"

#include <brasa/nn.h>

/* ---- Modules --------------------------------------------------------------------------------- */

typedef enum br_entry_kind {
    BR_ENTRY_PARAMETER,
    BR_ENTRY_BUFFER,
    BR_ENTRY_TEMPORARY, /* a buffer that state_dict leaves out */
} br_entry_kind;

/* A parameter or buffer; it holds a reference to its tensor. */
typedef struct br_entry {
    char *name;
    br_tensor *tensor;
    br_entry_kind kind;
} br_entry;

/* A list of hooks: hooks.c. */
typedef struct br_module_hook br_module_hook;

/* Computed parameters: parametrize.c. */
typedef struct br_parametrized br_parametrized;

/* Tells whether a module is still there: see checkpoint.c. */
typedef struct br_module_token br_module_token;

struct br_module_state {
    br_module *module; /* the struct that begins with the br_module */
    br_module_state *parent;
    char *name; /* under its parent; NULL for a root */
    char *class_name;
    br_entry *entries; /* in the order of registration, as are children */
    int64_t n_entries, entry_room;
    br_module_state **children;
    int64_t n_children, child_room;
    br_forward_fn forward;
    br_forward_fn body; /* of a layer of one input: what its forward does inside its scope */
    br_module_hook *hooks;
    br_tensor *call; /* of the forward that runs, if hooks see its backward: hooks.c */
    br_parametrized *parametrized;
    void (*destroy)(void *self);
    bool training;
    bool checkpointed;      /* forward keeps nothing for its gradients */
    br_module_token *token; /* held once a graph had one; NULL before */
    bool incomplete;        /* a part could not be made: forward must not run without it */
};

/* What a graph holds of a module, in place of it: a reference to its token, NULL on error; the
 * module, NULL once it is freed. */
br_module_token *br__token_of(br_module_state *state);
br_module *br__token_module(const br_module_token *token);
void br__token_release(br_module_token *token);
/* The module is freed. */
void br__token_end(br_module_state *state);

/* True if `self`, a struct that begins with a br_module, can be used; else an error is pending. */
bool br__module_alive(const char *op, const void *self);
/* How a layer's constructor begins and ends. While memory fails the module is dead, and stays so;
 * what failed after registration leaves it incomplete. `body`, which may be NULL, is what its
 * forward does with one input, inside its scope. */
void *br__layer_begin(size_t size, const char *class_name, br_forward_fn body);
void br__layer_end(br_module *module, br_scope *scope);
/* The forward of such a layer: enters, runs the body, leaves. */
br_tensor *br__layer_forward(void *self, br_tensor *x);
/* True if a size that a constructor got is at least `least`, else an error that names it. */
bool br__layer_size(const char *op, const char *name, int64_t size, int64_t least);
/* Run a module's hooks before its forward, on the input (NULL: not shown), and behind it, on the
 * result; they may replace both. False after an error. */
bool br__hooks_before(br_module_state *state, br_tensor **input);
bool br__hooks_behind(br_module_state *state, br_tensor **result);
void br__free_module_hooks(br_module_state *state);
/* Compute a module's parametrized parameters where a forward begins, and drop them where it ends.
 */
bool br__parametrized_begin(br_module_state *state);
void br__parametrized_end(br_module_state *state);
void br__free_parametrized(br_module_state *state);
/* Copies the shape that a norm got, and checks it; false and an error if it is not one. */
bool br__norm_shape(const char *op, int ndim, const int64_t *sizes, int *own_ndim,
                    int64_t *own_sizes);
/* While true, in this thread, Linear and Embedding leave their weights undefined and draw nothing:
 * for a model that gets other values at once, whose memory is then never touched. Returns what was
 * set before. */
bool br__skip_init(bool skip);

/* ---- Lists of named tensors ------------------------------------------------------------------ */

/* An empty list; one that `holds` keeps its tensors alive. NULL on error. */
br_named_list *br__named_list_new(bool holds);
/* Appends a tensor under a copy of the name. */
bool br__named_list_add(br_named_list *list, const char *name, br_tensor *t);
/* Position of a name, looked for from item `from` on and then from the start; -1 if it is not
 * there. Lists that are walked side by side mostly agree in order. */
int64_t br__named_list_find(const br_named_list *list, const char *name, int64_t from);

/* What br__collect() takes besides parameters: buffers of state_dict, those it leaves out. */
enum { BR_COLLECT_BUFFERS = 1, BR_COLLECT_TEMPORARY = 2, BR_COLLECT_ALIASES = 4 };
/* The tree's tensors under their dotted names: own ones, then each child's. Without
 * BR_COLLECT_ALIASES a tied tensor is there once, under its first name. NULL on error. */
br_named_list *br__collect(const char *op, br_module *module, int what);

/* ---- Loading a state dict in two steps ------------------------------------------------------- */

/* br_load_state_dict() without the copying: NULL and an error if `source`, which must stay, does
 * not fit the module. */
typedef struct br_loading br_loading;
br_loading *br__loading_begin(br_module *module, const br_named_list *source, bool strict,
                              br_load_report *report);
/* Copies. Cannot fail. */
void br__loading_apply(const br_loading *loading);
void br__loading_end(br_loading *loading);

/* ---- Growing texts --------------------------------------------------------------------------- */

typedef struct br_text {
    char *data; /* ends with 0; NULL while nothing was added */
    size_t length, room;
} br_text;

/* Appends; false and an error if memory fails, the text is then as it was. */
bool br__text_add(br_text *text, const char *format, ...) BR_PRINTF(2, 3);
/* Shortens the text to `length`. */
void br__text_cut(br_text *text, size_t length);
/* The text for the caller to free with br_free(): "" if nothing was added, NULL on error. */
char *br__text_take(br_text *text);

#endif
