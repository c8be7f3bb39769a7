/* models/llama_gguf.h - GGUF files of Llama and the decoders that are built like it: the rows that
 * their formats share. */
#ifndef BR_LLAMA_GGUF_H
#define BR_LLAMA_GGUF_H

#include "models/models_internal.h"

/* ---- Rows of `keys` -------------------------------------------------------------------------- */

#define ZOO_GGUF_INTEGER(key, config_key)                                 \
    {                                                                     \
        .name = key, .config = config_key, .type = BR_GGUF_NEEDS_INTEGER, \
    }
#define ZOO_GGUF_REQUIRED(key, config_key)                                                 \
    {                                                                                      \
        .name = key, .config = config_key, .type = BR_GGUF_NEEDS_INTEGER, .required = true \
    }
#define ZOO_GGUF_NUMBER(key, config_key)                                \
    {                                                                   \
        .name = key, .config = config_key, .type = BR_GGUF_NEEDS_NUMBER \
    }
/* A number that has only one supported value. */
#define ZOO_GGUF_ONLY(key, value)                                \
    {                                                            \
        .name = key, .type = BR_GGUF_NEEDS_NUMBER, .only = value \
    }

/* The keys that all architectures have, beside sizes. */
#define ZOO_GGUF_POSITIONS                                                           \
    { .name = "rope.scaling.type",                                                   \
      .config = "rope_scaling.rope_type",                                            \
      .type = BR_GGUF_NEEDS_STRING,                                                  \
      .nothing = "none" },                                                           \
        ZOO_GGUF_NUMBER("rope.scaling.factor", "rope_scaling.factor"),               \
        ZOO_GGUF_INTEGER("rope.scaling.original_context_length",                     \
                         "rope_scaling.original_max_position_embeddings"),           \
        ZOO_GGUF_NUMBER("rope.scaling.yarn_beta_fast", "rope_scaling.beta_fast"),    \
        ZOO_GGUF_NUMBER("rope.scaling.yarn_beta_slow", "rope_scaling.beta_slow"),    \
        ZOO_GGUF_ONLY("rope.scaling.yarn_attn_factor", "1"),                         \
        ZOO_GGUF_ONLY("rope.scaling.yarn_ext_factor", "1"),                          \
        ZOO_GGUF_ONLY("rope.scale_linear", "1"),                                     \
        { .name = "rope.scaling.finetuned", .type = BR_GGUF_NEEDS_BOOL },            \
        { .name = "tensor_data_layout", .type = BR_GGUF_NEEDS_STRING },              \
        { .name = "attention.causal", .type = BR_GGUF_NEEDS_BOOL, .only = "true" },  \
        { .name = "expert_count", .type = BR_GGUF_NEEDS_INTEGER, .only = "0" },      \
        { .name = "expert_used_count", .type = BR_GGUF_NEEDS_INTEGER, .only = "0" }, \
        ZOO_GGUF_INTEGER("pooling_type", NULL), /* of sentence embeddings */         \
        ZOO_GGUF_INTEGER("rope.dimension_count", NULL),                              \
        ZOO_GGUF_INTEGER("attention.value_length", NULL)

/* The keys that all architectures have. zoo_gguf_more() checks the last two of ZOO_GGUF_ALL_KEYS.
 */
#define ZOO_GGUF_KEYS ZOO_GGUF_ALL_KEYS, ZOO_GGUF_ONLY("rope.scaling.attn_factor", "1")
#define ZOO_GGUF_ALL_KEYS                                                 \
    ZOO_GGUF_REQUIRED("context_length", "max_position_embeddings"),       \
        ZOO_GGUF_REQUIRED("embedding_length", "hidden_size"),             \
        ZOO_GGUF_REQUIRED("block_count", "num_hidden_layers"),            \
        ZOO_GGUF_REQUIRED("feed_forward_length", "intermediate_size"),    \
        ZOO_GGUF_REQUIRED("attention.head_count", "num_attention_heads"), \
        { .name = "attention.layer_norm_rms_epsilon",                     \
          .config = "rms_norm_eps",                                       \
          .type = BR_GGUF_NEEDS_NUMBER,                                   \
          .required = true },                                             \
        ZOO_GGUF_NUMBER("rope.freq_base", "rope_theta"), ZOO_GGUF_POSITIONS

/* ---- The formats ----------------------------------------------------------------------------- */

/* Names of tensors: of Llama, which has two norms in a layer, and of Gemma, which has four. Biases
 * and the norms of queries and keys have rows in both, whether or not a model has them. */
extern const br_key_rename zoo_llama_renames[], zoo_gemma_renames[];
/* Suffixes of tensors that no model reads. */
extern const char *const zoo_gguf_ignored[];
/* Rows and columns that the converter of llama.cpp changed: it interleaves the two halves of each
 * head of Llama's queries and keys, and adds 1 to Gemma's norms. */
extern const br_gguf_change zoo_llama_changes[], zoo_gemma_changes[];
/* Flags of biases. */
extern const br_gguf_flag zoo_llama_flags[], zoo_qwen3_flags[];

/* Returns an integer of the architecture; `otherwise` if the file does not have the key. */
int64_t zoo_gguf_integer(const br_gguf *file, const char *name, int64_t otherwise);
/* Returns the part of a head of `head` numbers, 0 .. 1, that gives `dim` numbers. */
double zoo_gguf_part(int64_t head, int64_t dim);
/* Returns the size of a head, 0 with an error if it is invalid. */
int64_t zoo_gguf_head_size(const br_gguf *file);
/* Checks the sizes of heads. Returns the positions of Llama 3.1, which are a tensor in the file, or
 * an empty object. */
char *zoo_gguf_more(br_gguf *file);
/* Checks the same, and returns the scale of Gemma's attention. */
char *zoo_gemma_gguf_more(br_gguf *file);

#endif
