/* nn/lora_internal.h - LoRA adapters: lora_forward.c has the mathematics of one layer,
 * lora_layer.c its parameters; lora_match.c finds the layers, lora_saved.c has the modules that are
 * trained whole, lora_merge.c merges, lora.c has the adapters of a model. pretrained/lora_load.c
 * and lora_save.c read and write them. */
#ifndef BR_LORA_INTERNAL_H
#define BR_LORA_INTERNAL_H

#include "nn/nn_internal.h"

/* ---- One layer ------------------------------------------------------------------------------- */

typedef enum br_lora_family { BR_LORA_LINEAR, BR_LORA_EMBEDDING, BR_LORA_CONV } br_lora_family;

/* A class of layers that can have adapters. */
typedef struct br_lora_kind {
    const char *class_name;
    br_lora_family family;
    int weight_ndim;
    int out_dim; /* the dimension of the weight that numbers the outputs */
    size_t size; /* of the module's struct; 0: any module with such a weight */
} br_lora_kind;

/* What an adapter has in one layer. A and B are parameters of the layer's descendants, and so are
 * the magnitudes. */
typedef struct br_lora_part br_lora_part;
struct br_lora_part {
    br_lora_part *next;
    char *name; /* of the adapter */
    int64_t r;
    double alpha, scaling;
    bool active, merged;
    br_tensor *a, *b;
    br_module *module_a, *module_b; /* Linear or convolutions; NULL for an Embedding */
    br_tensor *magnitude;           /* of DoRA; else NULL */
    br_dropout *dropout;            /* or NULL */
    br_tensor *norm;                /* owned: of the weight before a DoRA was merged; else NULL */
};

typedef struct br_lora_layer {
    br_adapter base;
    const br_lora_kind *kind;
    br_lora_part *parts;
} br_lora_layer;

/* Returns the module's own parameter or buffer of that name, or NULL if it has none. */
br_tensor *br__lora_tensor(const br_module_state *state, const char *name);
/* Returns the kind of a module, or NULL if it cannot have an adapter. */
const br_lora_kind *br__lora_kind(const br_module_state *state);
/* Returns what the adapters of a layer have in it, or NULL if it has none. */
br_lora_layer *br__lora_layer_of(const br_module_state *state);
/* Returns the part of the adapter of that name, or NULL. */
br_lora_part *br__lora_part(const br_lora_layer *layer, const char *name);
/* Returns true if the module is a child that holds an adapter's parameters. */
bool br__lora_holds_parameters(const br_module_state *state);
/* Returns true if an adapter with these options fits the layer. Otherwise sets an error. */
bool br__lora_fits(const br_module_state *state, const char *path, int64_t r,
                   const br_lora_options *o);
/* Returns the dtype of an adapter's parameters beside a weight. */
br_dtype br__lora_dtype(const br_tensor *weight);
/* Adds a part to a layer that has none of this adapter. On failure, returns false, and the layer is
 * unchanged. */
bool br__lora_layer_add(br_module_state *state, int64_t r, double alpha, const br_lora_options *o);
/* Removes the adapter's part, if there is one. */
void br__lora_layer_remove(br_module_state *state, const char *name);
/* The shapes of A and B in a layer that br__lora_fits(). */
typedef struct br_lora_shape {
    int ndim;
    int64_t sizes[4];
} br_lora_shape;
void br__lora_shapes(const br_module_state *layer, int64_t r, br_lora_shape *a, br_lora_shape *b);
/* Returns the path of a module in the tree of `root`, which br_free() frees, or NULL and an error
 * if allocation fails. */
char *br__lora_path_in(const br_module *root, const br_module *module);
/* The function of a layer's br_adapter. */
br_tensor *br__lora_run(br_adapter *self, br_module *layer, br_tensor *input, br_tensor *result);
/* Returns DoRA's norms of the weight with the part, [outputs], through which no gradient flows. */
br_tensor *br__lora_norms(const br_module_state *state, const br_lora_part *part);
/* Returns the weight with a part merged or unmerged, in the weight's dtype: a tensor of the
 * innermost scope, which must not record. *norm gets DoRA's norms when a part is merged. */
br_tensor *br__lora_merged_weight(const br_module_state *state, const br_lora_part *part,
                                  br_tensor **norm);
br_tensor *br__lora_unmerged_weight(const br_module_state *state, const br_lora_part *part);

/* ---- A model --------------------------------------------------------------------------------- */

/* A tensor of a module that an adapter trains whole. The values of the module's tensor and of
 * `other` are exchanged when the adapter becomes active and when it stops being active. */
typedef struct br_lora_saved {
    br_tensor *own, *other; /* both held */
} br_lora_saved;

typedef struct br_lora_adapter br_lora_adapter;
struct br_lora_adapter {
    br_lora_adapter *next;
    br_lora_options options; /* names are owned */
    int64_t n_saved;
    br_lora_saved *saved;
};

typedef struct br_lora_set {
    br_adapter base;
    br_lora_adapter *adapters;
    br_lora_adapter *active; /* or NULL */
    bool merged;             /* the active adapter is */
} br_lora_set;

/* Returns the adapters of a model, or NULL if it has none. */
br_lora_set *br__lora_set_of(const br_module_state *state);
/* Returns the adapter of that name, or NULL. */
br_lora_adapter *br__lora_adapter(const br_lora_set *set, const char *name);

/* Calls visit(layer, context) for each layer of the tree with a part of any adapter, parents first.
 * Stops if it returns false, and returns false then. */
bool br__lora_each_layer(br_module_state *root, bool (*visit)(br_module_state *layer, void *),
                         void *context);

/* Merges the active adapter, or unmerges it. On failure, returns false, and no weight is changed.
 */
bool br__lora_change_weights(br_module *model, br_lora_set *set, bool merge);

/* ---- Options --------------------------------------------------------------------------------- */

bool br__lora_good_options(const br_lora_options *o);
/* Replaces all that the options point to by copies. On failure an error is pending, and
 * br__lora_options_free() frees those that were made. */
void br__lora_options_own(br_lora_options *o);
void br__lora_options_free(br_lora_options *o);

/* ---- Adding ---------------------------------------------------------------------------------- */

/* A layer that gets an adapter. */
typedef struct br_lora_target {
    br_module_state *layer;
    char *path;
    int64_t r;
    double alpha;
} br_lora_target;

typedef struct br_lora_targets {
    int64_t count, capacity;
    br_lora_target *items;
} br_lora_targets;

/* Appends a layer. Takes over nothing. */
bool br__lora_target_add(br_lora_targets *targets, br_module_state *layer, const char *path,
                         int64_t r, double alpha);
void br__lora_targets_free(br_lora_targets *targets);
/* Finds the layers that the options name. On failure, returns false and sets an error; the caller
 * frees the targets in either case. */
bool br__lora_find(br_module *model, const br_lora_options *o, br_lora_targets *targets);
/* Same, but names may match nothing, and so may all of them. */
bool br__lora_find_some(br_module *model, const br_lora_options *o, br_lora_targets *targets);
/* Returns true if a name of an option matches the path of a module: see br_lora_options. */
bool br__lora_name_matches(const char *name, const char *path);
/* Returns true if the options are valid, apart from the names of layers, and the model can get such
 * an adapter. Otherwise sets an error. */
bool br__lora_check(br_module *model, const br_lora_options *o);
/* Does what br_lora_add() does after this check, with targets in place of the names of layers. */
bool br__lora_add_to(br_module *model, const br_lora_options *o, const br_lora_targets *targets);

/* ---- Modules that are trained whole (lora_saved.c) ------------------------------------------- */

/* Copies the tensors of the modules that the options name. On failure, returns false and sets an
 * error; br__lora_saved_free() is called in either case. */
bool br__lora_saved_begin(br_module *model, br_lora_adapter *adapter);
/* Gives the copies the dtype and the device that the module's tensors have now. */
bool br__lora_saved_prepare(br_lora_adapter *adapter);
/* Exchanges the values. Needs br__lora_saved_prepare(), and cannot fail. */
void br__lora_saved_swap(br_lora_adapter *adapter);
void br__lora_saved_free(br_lora_adapter *adapter);
/* Returns true if the active adapter has values for the tensor of a saved module. */
bool br__lora_has_saved(const br_module *model, const br_tensor *own);
/* Returns true if the module at the path is in a module that the options name. */
bool br__lora_is_saved(const br_lora_options *o, const char *path);

#endif
