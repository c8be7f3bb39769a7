/* brasa/nn/lora.h - LoRA adapters: small trainable matrices beside the frozen weights of a model,
 * with the names, defaults and numbers of Hugging Face's peft; part of brasa/nn.h.
 *
 *     static const char *const names[] = { "q_proj", "v_proj" };
 *     br_lora_add(model, BR_OPTIONS(br_lora, .r = 16, .lora_alpha = 32, .n_target_modules = 2,
 *                                   .target_modules = names));
 *     br_optim *adamw = br_adamw(model, BR_OPTIONS(br_adamw, .lr = 1e-4));
 *
 * docs/fine_tuning.md shows a whole training. */
#ifndef BRASA_NN_LORA_H
#define BRASA_NN_LORA_H

#include <brasa/nn/module.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The biases of the model that an adapter trains. */
typedef enum br_lora_bias {
    BR_LORA_BIAS_NONE,      /* peft's "none" */
    BR_LORA_BIAS_ALL,       /* "all": every parameter whose name ends in "bias" */
    BR_LORA_BIAS_LORA_ONLY, /* "lora_only": those of the layers that have the adapter */
} br_lora_bias;

/* The first values of A and B, peft's init_lora_weights. */
typedef enum br_lora_init {
    BR_LORA_INIT_TRUE,  /* True: A is Kaiming uniform, and B is zero, so the result is the same */
    BR_LORA_INIT_FALSE, /* False: A and B are random, for tests */
    BR_LORA_INIT_GAUSSIAN, /* "gaussian": A is normal with deviation 1 / r, and B is zero */
} br_lora_init;

/* A rank or an alpha of the modules with a name, instead of `r` or `lora_alpha`. */
typedef struct br_lora_pattern {
    const char *name; /* as in target_modules */
    double value;
} br_lora_pattern;

typedef struct br_lora_options {
    size_t struct_size;
    const char *adapter_name; /* must not contain a dot; not a field of LoraConfig */
    int64_t r;                /* columns of B and rows of A */
    /* The adapter's result is multiplied by lora_alpha / r or, if use_rslora, lora_alpha / sqrt(r).
     */
    double lora_alpha;
    bool use_rslora;
    double lora_dropout; /* probability of the dropout of the adapter's input; 0 <= p < 1 */
    /* Names of the layers that get the adapter. A name matches a module whose path is the name or
     * ends in a dot and the name. A name with '*', '?' or '[' is a pattern of fnmatch() for the
     * path. "all-linear" stands for every Linear and Conv1D but the output head: the layer that
     * computes the logits of tokens, and a child "classifier" or "score" of the model. */
    int64_t n_target_modules;
    const char *const *target_modules;
    int64_t n_exclude_modules; /* names of layers that get none, in the same form */
    const char *const *exclude_modules;
    int64_t n_layers_to_transform; /* 0: all layers of a stack; else only those of these numbers */
    const int64_t *layers_to_transform;
    int64_t n_rank_pattern, n_alpha_pattern; /* the first pattern that matches counts */
    const br_lora_pattern *rank_pattern, *alpha_pattern;
    bool use_dora; /* DoRA: also train the norm of each row of the weight. Liu et al., 2024 */
    br_lora_bias bias;
    br_lora_init init_lora_weights;
    /* Names of modules without an adapter that are trained whole, such as a new "classifier", in
     * the same form. They keep their values for each adapter. */
    int64_t n_modules_to_save;
    const char *const *modules_to_save;
} br_lora_options;
#define br_lora_default_fields \
    .struct_size = sizeof(br_lora_options), .adapter_name = "default", .r = 8, .lora_alpha = 8
BR_API br_lora_options br_lora_defaults(void);

/* Adds an adapter to the layers of the model whose names match: Linear, Embedding, Conv1d, Conv2d,
 * and Conv1D of GPT-2. A layer's result gets scaling * B(A(dropout(x))) added, for its input x. A
 * and B become children of the layer, "lora_A.NAME" and "lora_B.NAME" ("lora_embedding_A" and
 * "lora_embedding_B" of an Embedding), and DoRA's norms "lora_magnitude_vector.NAME". They are f64
 * beside a weight of f64, and f32 beside any other.
 *
 * The first adapter of a model is active: all other parameters stop requiring grad, except those
 * of `bias` and `modules_to_save`. A later adapter is inactive until br_lora_set_adapter().
 *
 * Make the optimizer after this call, since it then has no state for frozen parameters. Returns
 * false and an error if an option is wrong, if a name matches no supported layer, or if the model
 * has an adapter of that name; the model is then unchanged. */
BR_API bool br_lora_add(br_module *model, const br_lora_options *options);

/* Makes an adapter the active one, whose parameters then require grad. NULL: none is active, and
 * the model computes what it did before the first adapter. Merged weights are unmerged first. An
 * optimizer does not see the change: make a new one. Returns false and an error if the model has no
 * such adapter. */
BR_API bool br_lora_set_adapter(br_module *model, const char *adapter_name);
/* Removes an adapter with its parameters. If it is active, none is active then. */
BR_API bool br_lora_delete_adapter(br_module *model, const char *adapter_name);
/* Return the name of the active adapter, or NULL, without an error, if none is active; the number
 * of adapters; and the name of the i-th. The names live as long as the adapters. */
BR_API const char *br_lora_active_adapter(const br_module *model);
BR_API int64_t br_lora_num_adapters(const br_module *model);
BR_API const char *br_lora_adapter_at(const br_module *model, int64_t i);

/* Adds the active adapter's product to the weights, so that a forward costs what it did without the
 * adapter. Gradients do not reach the adapter until br_lora_unmerge(). As in peft, the sum is
 * rounded to the dtype of the weight, and unmerging subtracts what was added, which may differ from
 * the first values by rounding. Merging a merged adapter, or unmerging an unmerged one, does
 * nothing. Return false and an error, and change nothing, if no adapter is active, if a layer has
 * groups, or if another layer shares a weight. */
BR_API bool br_lora_merge(br_module *model);
BR_API bool br_lora_unmerge(br_module *model);
/* Merges the active adapter, if there is one, and removes all adapters. The model is an ordinary
 * one again, with the values of modules_to_save. Its parameters stay frozen. */
BR_API bool br_lora_merge_and_unload(br_module *model);
/* Returns true if the active adapter changes the layer's result, and is not merged. A function that
 * computes with a layer's weight without calling its forward must check this. */
BR_API bool br_lora_is_adapted(const br_module *layer);

#ifdef __cplusplus
}
#endif
#endif
