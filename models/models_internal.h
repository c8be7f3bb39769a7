/* models/models_internal.h - what the models share: checks of configurations, whose messages begin
 * with the model's name and which nothing passes while an error is pending; activations by their
 * names; first values; attention and its masks. */
#ifndef BR_MODELS_INTERNAL_H
#define BR_MODELS_INTERNAL_H

#include <brasa/models/auto_config.h>
#include <brasa/nn.h>

/* ---- Configurations -------------------------------------------------------------------------- */

/* There is a configuration. */
bool br__good_config(const char *model, const void *config);
/* The size is 1 .. INT32_MAX, so that products of two cannot overflow; those of more are checked
 * where memory is taken. */
bool br__good_size(const char *model, const char *name, int64_t size);
/* A good size is a multiple of another, as a layer's is of its number of heads. */
bool br__good_multiple(const char *model, const char *name, int64_t size, const char *by_name,
                       int64_t by);
/* 0 .. 1; positive; at least 0. */
bool br__good_probability(const char *model, const char *name, double p);
bool br__good_positive(const char *model, const char *name, double value);
bool br__good_deviation(const char *model, const char *name, double value);

/* The same of sizes in a config.json, which messages name. */
bool br__config_multiple(const br_auto_config *config, const char *key, const char *by);

/* ---- Activations ----------------------------------------------------------------------------- */

/* Of an x that nothing wants afterwards: it is written over where that goes unnoticed. */
typedef br_tensor *(*br__activation)(br_tensor *x);
/* The function of a name of transformers; NULL (no error) for none and NULL. */
br__activation br__find_activation(const char *name);
/* The name, which must be of a known one; false and an error otherwise. */
bool br__good_activation(const char *model, const char *key, const char *name);
/* The value of a key that names one, as a string that lasts; NULL and an error. */
const char *br__config_activation(const br_auto_config *config, const char *key);

/* ---- First values ---------------------------------------------------------------------------- */

bool br__ends_with(const char *text, const char *end);
/* Gives every parameter of a module made under br__skip_init() its first value by `init`, which
 * gets a parameter's name. Returns the module, incomplete if that failed. */
typedef bool (*br__init_fn)(const void *config, const char *key, br_tensor *weight);
void *br__init_module(br_module *module, br__init_fn init, const void *config);

/* ---- Attention (models/attention.c) ---------------------------------------------------------- */

/* What queries may look at, and what is wanted besides the context. */
typedef struct br__attention {
    br_tensor *visible;  /* bool, broadcasts to [B, heads, S, K], true where a key may be looked at;
                            NULL: everywhere */
    br_tensor *bias;     /* added to the scores, -infinity where `visible` is false; NULL: none */
    bool is_causal;      /* query i sees keys 0 .. i; then `visible` and `bias` are NULL */
    bool is_cross;       /* the keys are another sequence's */
    double scale;        /* of the scores; 0: 1 / sqrt(d) */
    double dropout_p;    /* of the probabilities */
    br_tensor **weights; /* receives the probabilities [B, heads, S, K]; NULL: not wanted */
} br__attention;

/* The context [B, S, heads d] of query [B, heads, S, d] and key, value [B, heads, K, d]. Where the
 * probabilities are not wanted, nor recorded by br_tap_attention(), they are never held. A query
 * that may look at nothing gets 0. */
br_tensor *br__attend(br_tensor *query, br_tensor *key, br_tensor *value, const br__attention *a);
/* [B, S, heads d] -> [B, heads, S, d] */
br_tensor *br__split_heads(br_tensor *x, int64_t heads);
/* An attention_mask, bool or 0 where a token is padding, [batch, keys], as `visible`: [B, 1, 1, K].
 * NULL without one, or with an error if its shape is another. */
br_tensor *br__visible_keys(const char *model, const char *name, br_tensor *mask, int64_t batch,
                            int64_t keys);
/* bool [n, past + n]: the last n of past + n tokens see those before them and themselves. */
br_tensor *br__visible_past(int64_t past, int64_t n);

#endif
