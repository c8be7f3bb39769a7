/* models/models_internal.h - shared by the models: checks of configurations, activations by name,
 * initial weights, attention and its masks. */
#ifndef BR_MODELS_INTERNAL_H
#define BR_MODELS_INTERNAL_H

#include "tensor/tensor_internal.h"

#include <brasa/models/auto_config.h>
#include <brasa/nn.h>

/* ---- Configurations -------------------------------------------------------------------------- */

/* These checks return false and set an error, whose message begins with the model's name, if the
 * value is invalid. They also return false if an error is pending. */

/* Checks that the configuration is not NULL. */
bool br__good_config(const char *model, const void *config);
/* Checks that the size is 1 .. INT32_MAX, so that products of two sizes cannot overflow. Allocation
 * checks larger products. */
bool br__good_size(const char *model, const char *name, int64_t size);
/* Checks that a valid size is a multiple of another one, such as a layer's size of its number of
 * heads. */
bool br__good_multiple(const char *model, const char *name, int64_t size, const char *by_name,
                       int64_t by);
/* Check that the value is 0 .. 1; positive; at least 0. */
bool br__good_probability(const char *model, const char *name, double p);
bool br__good_positive(const char *model, const char *name, double value);
bool br__good_deviation(const char *model, const char *name, double value);

/* Checks that a config.json has this model type, and that no key has an unsupported value that
 * would change the model's numbers. */
bool br__config_expect(const br_auto_config *config, const char *model_type);
/* Checks that a size in a config.json is a multiple of another one. Messages name the file. */
bool br__config_multiple(const br_auto_config *config, const char *key, const char *by);
/* Returns pad_token_id, the row of the embeddings that is initialized to 0, or -1 if it is null.
 * Negative ids count from the end, as in nn.Embedding. An id that is not in the vocabulary is an
 * error that names the file. */
int64_t br__config_padding(const br_auto_config *config);

/* ---- Activations ----------------------------------------------------------------------------- */

/* Consumes x: overwrites it in place when nothing else can observe the change. */
typedef br_tensor *(*br__activation)(br_tensor *x);
/* Returns the activation with a name of transformers, or NULL without an error if there is none or
 * the name is NULL. */
br__activation br__find_activation(const char *name);
/* Checks that the name is that of a supported activation. */
bool br__good_activation(const char *model, const char *key, const char *name);
/* Returns the activation's name under a key as a static string, or NULL and an error. If `gated` is
 * not NULL, "gated-" may precede the name, and *gated is set to whether it does. */
const char *br__config_activation(const br_auto_config *config, const char *key, bool *gated);

/* ---- Initial weights ------------------------------------------------------------------------- */

bool br__ends_with(const char *text, const char *end);
/* Initializes every parameter of a module that was made under br__skip_init(). Calls `init` with
 * each parameter's name. Returns the module, which is incomplete if that failed. */
typedef bool (*br__init_fn)(const void *config, const char *key, br_tensor *weight);
void *br__init_module(br_module *module, br__init_fn init, const void *config);

/* ---- Attention (models/attention.c) ---------------------------------------------------------- */

/* The arguments of br__attend(). */
typedef struct br__attention {
    br_tensor *visible;  /* bool, broadcasts to [B, heads, S, K], true if a query may attend to the
                            key; NULL: all */
    br_tensor *bias;     /* added to the scores, -infinity where `visible` is false; NULL: none */
    bool is_causal;      /* query i attends to keys 0 .. i; `visible` and `bias` must be NULL */
    bool is_cross;       /* the keys are another sequence's */
    double scale;        /* factor of the scores; 0: 1 / sqrt(d) */
    double dropout_p;    /* dropout of the probabilities */
    br_tensor **weights; /* receives the probabilities [B, heads, S, K]; may be NULL */
} br__attention;

/* Returns the context [B, S, heads d] of query [B, heads, S, d] and key, value [B, heads, K, d].
 * The probabilities are stored only if a->weights or br_tap_attention() needs them. A query that
 * may attend to no key gets 0. */
br_tensor *br__attend(br_tensor *query, br_tensor *key, br_tensor *value, const br__attention *a);
/* [B, S, heads d] -> [B, heads, S, d] */
br_tensor *br__split_heads(br_tensor *x, int64_t heads);
/* Converts an attention_mask [batch, keys], false or 0 where a token is padding, to `visible` [B,
 * 1, 1, K]. Returns NULL if `mask` is NULL, and NULL with an error if its shape is wrong. */
br_tensor *br__visible_keys(const char *model, const char *name, br_tensor *mask, int64_t batch,
                            int64_t keys);
/* Returns the causal mask of the last n of past + n tokens, bool [n, past + n]: each attends to
 * itself and all earlier tokens. */
br_tensor *br__visible_past(int64_t past, int64_t n);

#endif
