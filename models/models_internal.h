/* models/models_internal.h - shared by the models: checks of configurations, initial weights,
 * attention and its masks. Like the models themselves, it uses public headers only. */
#ifndef BR_MODELS_INTERNAL_H
#define BR_MODELS_INTERNAL_H

#include <brasa/nn.h>
#include <brasa/pretrained/auto_config.h>
#include <brasa/pretrained/family.h>

/* ---- Configurations -------------------------------------------------------------------------- */

/* These checks return false and set an error, whose message begins with the model's name, if the
 * value is invalid. They also return false if an error is pending. */

/* Checks that the configuration is not NULL. */
bool zoo_good_config(const char *model, const void *config);
/* Checks that the size is 1 .. INT32_MAX, so that products of two sizes cannot overflow. Allocation
 * checks larger products. */
bool zoo_good_size(const char *model, const char *name, int64_t size);
/* Checks that a valid size is a multiple of another one, such as a layer's size of its number of
 * heads. */
bool zoo_good_multiple(const char *model, const char *name, int64_t size, const char *by_name,
                       int64_t by);
/* Check that the value is 0 .. 1; positive; at least 0. */
bool zoo_good_probability(const char *model, const char *name, double p);
bool zoo_good_positive(const char *model, const char *name, double value);
bool zoo_good_deviation(const char *model, const char *name, double value);

/* ---- Families ------------------------------------------------------------------------------- */

/* The families that AutoModel knows, in the order in which messages list them: ROW(name) stands for
 * zoo_NAME_family. */
/* clang-format off */
#define ZOO_FAMILIES(ROW)                                                                        \
    ROW(hf_bert) ROW(roberta) ROW(xlm_roberta) ROW(camembert) ROW(distilbert) ROW(electra)       \
    ROW(albert) ROW(mpnet) ROW(modernbert)                                                       \
    ROW(gpt2) ROW(gpt_neox) ROW(t5)                                                              \
    ROW(llama) ROW(mistral) ROW(smollm3) ROW(granite) ROW(phi3) ROW(qwen2) ROW(qwen3)            \
    ROW(qwen3_moe) ROW(gemma2) ROW(gemma3)
/* clang-format on */

#define ZOO_DECLARE_FAMILY(name) extern const br_model_family zoo_##name##_family;
ZOO_FAMILIES(ZOO_DECLARE_FAMILY)
#undef ZOO_DECLARE_FAMILY

/* ---- Initial weights ------------------------------------------------------------------------- */

bool zoo_ends_with(const char *text, const char *end);
/* Initializes every parameter of a module that was made under br_skip_init(). Calls `init` with
 * each parameter's name. Returns the module, which is incomplete if that failed. */
typedef bool (*zoo_init_fn)(const void *config, const char *key, br_tensor *weight);
void *zoo_init_module(br_module *module, zoo_init_fn init, const void *config);

/* ---- Attention (models/attention.c) ---------------------------------------------------------- */

/* The arguments of zoo_attend(). */
typedef struct zoo_attention {
    br_tensor *visible;  /* bool, broadcasts to [B, heads, S, K], true if a query may attend to the
                            key; NULL: all */
    br_tensor *bias;     /* added to the scores, -infinity where `visible` is false; NULL: none */
    bool is_causal;      /* query i attends to keys 0 .. i; `visible` and `bias` must be NULL */
    bool is_cross;       /* the keys are another sequence's */
    double scale;        /* factor of the scores; 0: 1 / sqrt(d) */
    double softcap;      /* c: scaled scores s become c tanh(s / c); 0: they stay */
    double dropout_p;    /* dropout of the probabilities */
    br_tensor **weights; /* receives the probabilities [B, heads, S, K]; may be NULL */
} zoo_attention;

/* Returns the context [B, S, heads d] of query [B, heads, S, d] and key, value [B, key heads, K,
 * d]. `heads` is a multiple of the key heads, and adjacent heads share a key head. The
 * probabilities are stored only if a->weights, a->softcap or br_tap_attention() needs them. A query
 * that may attend to no key gets 0. */
br_tensor *zoo_attend(br_tensor *query, br_tensor *key, br_tensor *value, const zoo_attention *a);
/* [B, S, heads d] -> [B, heads, S, d] */
br_tensor *zoo_split_heads(br_tensor *x, int64_t heads);
/* Converts an attention_mask [batch, keys], false or 0 where a token is padding, to `visible` [B,
 * 1, 1, K]. Returns NULL if `mask` is NULL, and NULL with an error if its shape is wrong. */
br_tensor *zoo_visible_keys(const char *model, const char *name, br_tensor *mask, int64_t batch,
                            int64_t keys);
/* Returns the causal mask of the last n of past + n tokens, bool [n, past + n]: each attends to
 * itself and all earlier tokens. It is on the device of `like`. */
br_tensor *zoo_visible_past(const br_tensor *like, int64_t past, int64_t n);

/* n queries, which follow `past` earlier tokens, and their keys. */
typedef struct zoo_span {
    int64_t past, n, keys;
} zoo_span;

/* Returns the bucket of the distance of each query and key, i64 [n, keys], on the device of `like`.
 * If both directions count, the second half of the n_buckets buckets is for keys after the query;
 * else such keys have bucket 0. Source: Raffel et al. 2020, section 2.1. */
br_tensor *zoo_relative_buckets(const br_tensor *like, int64_t n_buckets, int64_t max_distance,
                                bool both_directions, zoo_span span);

/* ---- Rotary positions (models/rope_config.c) ------------------------------------------------- */

/* Where config.json has rotary positions: in "rope_parameters", or in `inner` in it, or in the
 * object `scaling` of older files, whose keys take precedence over those of `inner`. The base is
 * "rope_theta" in that object, or the key `theta`. The part of a head that is turned is
 * "partial_rotary_factor" in that object, or the key `partial`; if `partial` is NULL, all of it. */
typedef struct zoo_rope_keys {
    const char *inner, *scaling, *theta, *partial;
    double default_theta, default_partial;
    bool is_phi; /* the positions are plain or longrope, which older files call "su" or "yarn" */
} zoo_rope_keys;
#define ZOO_ROPE(base)                                                          \
    {                                                                           \
        .scaling = "rope_scaling", .theta = "rope_theta", .default_theta = base \
    }

/* Reads rotary positions from config.json. */
br_rope_options zoo_read_rope(const br_auto_config *config, const zoo_rope_keys *keys);
/* Returns how many numbers of a head of `size` numbers are turned, which is even and at least 2; 0
 * and an error if config.json says something else. */
int64_t zoo_read_rotary_dim(const br_auto_config *config, const zoo_rope_keys *keys, int64_t size);
/* Returns true if heads of `size` numbers may have the positions; false and an error otherwise. */
bool zoo_good_rope(int64_t size, const br_rope_options *rope);
bool zoo_same_rope(const br_rope_options *a, const br_rope_options *b);
/* Turns heads [B, heads, S, d] by the tables [..., S, pairs] of br_rope(): the first 2 pairs
 * numbers of each, and the others stay. */
br_tensor *zoo_turn(br_tensor *x, br_tensor *cos, br_tensor *sin);

/* ---- Language models (models/causal_lm.c) ---------------------------------------------------- */

/* Returns br_causal_lm_loss() of the logits head(x) for labels i64 [B, S] and x [B, S, e], without
 * the head's bias. The logits are computed and used for some positions at a time. Errors begin with
 * `name`. */
br_tensor *zoo_chunked_lm_loss(const char *name, br_tensor *x, br_linear *head, br_tensor *labels);
/* Returns the positions of ids [B, S]: `given`, which must be [B, S] or [1, S] unless it is NULL,
 * or those that follow the cached tokens, i64 [1, S]. */
br_tensor *zoo_positions(const char *model, const br_tensor *ids, br_tensor *given,
                         const br_cache *cache);
/* Returns the positions i64 [B, n] of the last n tokens of an attention_mask, which count only
 * tokens that are not padding. The positions of padding do not matter. */
br_tensor *zoo_masked_positions(br_tensor *mask, int64_t n);

/* ---- Outputs (models/outputs.c) -------------------------------------------------------------- */

/* The optional outputs of a forward: layers + 1 hidden states and `layers` attention maps; each
 * list may be NULL. */
typedef struct zoo_outputs {
    br_tensor **hidden_states, **attentions;
    int64_t layers;
} zoo_outputs;

/* Sets all outputs to NULL, so that they are NULL after a failure. */
void zoo_clear_outputs(zoo_outputs outputs);
/* Moves the outputs from the innermost scope to the enclosing one. */
void zoo_return_outputs(zoo_outputs outputs);

#endif
