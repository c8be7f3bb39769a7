/* models/llama_internal.h - Llama and the decoders that are built like it: the functions from which
 * the families are made. */
#ifndef BR_LLAMA_INTERNAL_H
#define BR_LLAMA_INTERNAL_H

#include "models/models_internal.h"

#include <brasa/models/llama.h>

/* ---- Model types ----------------------------------------------------------------------------- */

/* What distinguishes a model type from Llama; false and NULL mean like Llama. */
typedef struct zoo_llama_kind {
    const char *model_type;
    const char *prefix;     /* begins the names of the classes: "Llama" */
    const char *base;       /* the class of the base model; NULL: prefix "Model" */
    const char *classifier; /* the class for sequences; NULL: prefix "ForSequenceClassification" */
    zoo_rope_keys rope;
    zoo_rope_keys local_rope; /* of layers with a window; without a base: the same */
    bool is_gemma;            /* norms, scales and softcaps are Gemma's */
    bool caps_attention;      /* attn_logit_softcapping counts, which Gemma 3 ignores */
    /* Sets c->sliding_window and c->layers from config.json. NULL: all layers are equal. */
    void (*read_layers)(const br_auto_config *config, br_llama_config *c);
    /* The keys of biases, or NULL */
    const char *attention_bias, *output_bias, *mlp_bias;
    bool always_has_attention_bias;
    bool has_qk_norm;
    bool has_experts;
    bool has_multipliers; /* Granite's factors of scores, embeddings, parts of layers and logits */
    bool is_fused;        /* fields `fused` and resid_pdrop of br_llama_config */
    /* null does not mean num_attention_heads, and hidden_size / num_attention_heads. */
    bool needs_key_value_heads, needs_head_dim;
    bool head_dim_is_not_null; /* it may be missing, but not null */
} zoo_llama_kind;

/* Returns the kind of a model type, that of Llama for NULL; NULL without an error if there is none.
 */
const zoo_llama_kind *zoo_llama_kind_of(const char *model_type);
/* Returns the model types for messages: "llama, mistral, ... or gemma3_text". */
typedef struct zoo_llama_list {
    char text[300];
} zoo_llama_list;
zoo_llama_list zoo_llama_types(void);

/* ---- Families -------------------------------------------------------------------------------- */

/* The functions of a family: see br_model_family and br_model_class. */
void *zoo_llama_make_base(const br_auto_config *config);
void *zoo_llama_make_lm(const br_auto_config *config);
void *zoo_llama_make_classifier(const br_auto_config *config);
br_tensor *zoo_llama_run_base(br_module *model, const br_model_input *input);
br_tensor *zoo_llama_run_lm(br_module *model, const br_model_input *input);
br_tensor *zoo_llama_run_classifier(br_module *model, const br_model_input *input);
br_tensor *zoo_llama_loss(br_module *model, const br_model_input *input, br_tensor *labels);
br_language_model zoo_llama_language_model(br_model_source *source);
bool zoo_llama_init_weight(const br_auto_config *config, const char *name, br_tensor *weight);
const char *zoo_llama_differing_key(br_module *a, br_module *b);
/* Lists and limits of a family. */
extern const char *const zoo_llama_ignored[], *const zoo_llama_heads[], *const zoo_llama_layers[];
extern const char *const zoo_llama_harmless[];
extern const br_config_rows zoo_llama_rows[];
extern const br_config_limit zoo_llama_limits[], zoo_gemma3_limits[], zoo_phi3_limits[];

/* Rows of a family's `classes`. */
#define ZOO_LLAMA_BASE(class)                                                            \
    {                                                                                    \
        .name = class, .task = BR_TASK_BASE, .make = zoo_llama_make_base,                \
        .forward = zoo_llama_run_base, .embeds_sentences = true, .shows_attention = true \
    }
#define ZOO_LLAMA_LM(class)                                                  \
    {                                                                        \
        .name = class, .task = BR_TASK_CAUSAL_LM, .make = zoo_llama_make_lm, \
        .forward = zoo_llama_run_lm, .loss = zoo_llama_loss,                 \
        .language_model = zoo_llama_language_model                           \
    }
#define ZOO_LLAMA_CLASSIFIER(class)                                                                \
    {                                                                                              \
        .name = class, .task = BR_TASK_SEQUENCE_CLASSIFICATION, .make = zoo_llama_make_classifier, \
        .forward = zoo_llama_run_classifier                                                        \
    }
#define ZOO_LLAMA_CLASSES(prefix)                                       \
    ZOO_LLAMA_BASE(prefix "Model"), ZOO_LLAMA_LM(prefix "ForCausalLM"), \
        ZOO_LLAMA_CLASSIFIER(prefix "ForSequenceClassification")

/* Rows of `defaults`, with the keys that all families have. */
#define ZOO_LLAMA_DEFAULTS(vocab, hidden, inner, layers, heads, longest, pad, bos, eos) \
    { "vocab_size", vocab }, { "hidden_size", hidden }, { "intermediate_size", inner }, \
        { "num_hidden_layers", layers }, { "num_attention_heads", heads },              \
        { "max_position_embeddings", longest }, { "initializer_range", "0.02" },        \
        { "rms_norm_eps", "1e-6" }, { "use_cache", "true" }, { "pad_token_id", pad },   \
        { "bos_token_id", bos }, { "eos_token_id", eos },                               \
    {                                                                                   \
        "rope_parameters", "null"                                                       \
    }

/* The family of a model type; gguf_of is its format of GGUF files, or NULL. */
#define ZOO_LLAMA_FAMILY(type, defaults_of, classes_of, gguf_of)              \
    ZOO_LLAMA_FAMILY_WITH(type, classes_of, gguf_of, .defaults = defaults_of, \
                          .limits = zoo_llama_limits)
/* The same, with fields of br_config_keys. */
#define ZOO_LLAMA_FAMILY_WITH(type, classes_of, gguf_of, ...)                                \
    {                                                                                        \
        .model_type = type, .config = { __VA_ARGS__, .harmless = zoo_llama_harmless },       \
        .classes = classes_of, .keys = { .prefix = "model.", .ignored = zoo_llama_ignored }, \
        .heads = zoo_llama_heads, .init = zoo_llama_init_weight, .layers = zoo_llama_layers, \
        .rows = zoo_llama_rows, .differing_key = zoo_llama_differing_key, .gguf = gguf_of,   \
        .packs = true,                                                                       \
    }

/* ---- Models ---------------------------------------------------------------------------------- */

/* Returns the configuration if it is valid. Otherwise an error is pending: returns one with the
 * smallest sizes, so that the constructors can go on and do nothing. */
br_llama_config zoo_llama_checked(const br_llama_config *config);
/* Returns the size of a head. */
int64_t zoo_llama_head_dim(const br_llama_config *c);
/* Returns how many numbers of a head are turned. */
int64_t zoo_llama_rotary_dim(const br_llama_config *c);
/* Creates a module whose class name is the model type's prefix and `end`. */
void *zoo_llama_create(const br_llama_config *c, size_t size, const char *end);
/* Make a model from a checked configuration. Weights are not initialized under br_skip_init(). */
br_llama *zoo_llama_make(const br_llama_config *config);
br_llama_lm *zoo_llama_make_lm_of(const br_llama_config *config);
br_llama_classifier *zoo_llama_make_classifier_of(const br_llama_config *config);
/* Moves the optional results of a forward from the innermost scope to the enclosing one. */
void zoo_llama_return_outputs(const br_llama *self, const br_llama_options *o);
/* Initializes a weight. `config` is a br_llama_config. */
bool zoo_llama_init(const void *config, const char *key, br_tensor *weight);

/* ---- The feed-forward part of a layer (models/llama_mlp.c) ----------------------------------- */

br_llama_mlp *zoo_llama_new_mlp(const br_llama_config *c, int64_t inner);
br_tensor *zoo_llama_feed_forward(br_llama_mlp *self, br_tensor *x);
br_llama_moe *zoo_llama_new_moe(const br_llama_config *c);
/* Returns the result for x [..., e]. Unless `logits` is NULL, sets *logits to those of the router,
 * [number of tokens, experts]. */
br_tensor *zoo_llama_run_moe(br_llama_moe *self, br_tensor *x, br_tensor **logits);
/* Returns aux_loss of br_llama_options. logits[i] are those of the router of layer i, or NULL; `k`
 * experts are chosen for each token. `mask` is the attention_mask or NULL. Without experts it is
 * 0. */
br_tensor *zoo_balance_loss(br_tensor *const *logits, int64_t layers, int64_t k, br_tensor *mask);

#endif
