/* brasa/models/scratch.h - Transformers from Scratch: every class and function of notebook 002.
 *
 * The notebook is the first half of Transformer Anatomy with the same classes, fields and
 * state_dict keys, but without masks. The types are therefore those of anatomy.h, and modules of
 * both headers are interchangeable. */
#ifndef BRASA_MODELS_SCRATCH_H
#define BRASA_MODELS_SCRATCH_H

#include <brasa/models/anatomy.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Computes softmax(query key^T / sqrt(dim_k)) value: query [B, Q, dim_k], key [B, K, dim_k], value
 * [B, K, dim_v] -> [B, Q, dim_v]. */
BR_API br_tensor *br_scratch_scaled_dot_product_attention(br_tensor *query, br_tensor *key,
                                                          br_tensor *value);

/* Simplified self-attention: query = key = value = token_emb(input_ids). */
typedef br_anatomy_simplified_attention br_scratch_simplified_attention;
typedef br_anatomy_simplified_steps br_scratch_simplified_steps;
BR_API br_scratch_simplified_attention *br_scratch_simplified_attention_new(int64_t vocab_size,
                                                                            int64_t hidden_size);
BR_API br_scratch_simplified_steps br_scratch_simplified_attention_forward(
    br_scratch_simplified_attention *self, br_tensor *input_ids);

/* The notebook's AttentionHead. */
typedef br_anatomy_attention_head br_scratch_attention_head;
BR_API br_scratch_attention_head *br_scratch_attention_head_new(int64_t embed_dim,
                                                                int64_t head_dim);
/* Runs the module: hidden_state [B, S, embed_dim] -> [B, S, head_dim]. */
BR_API br_tensor *br_scratch_attention_head_forward(br_scratch_attention_head *self,
                                                    br_tensor *hidden_state);

/* The notebook's MultiHeadAttention. */
typedef br_anatomy_config br_scratch_config;
typedef br_anatomy_multi_head_attention br_scratch_multi_head_attention;
BR_API br_scratch_multi_head_attention *br_scratch_multi_head_attention_new(
    const br_scratch_config *config);
/* Runs the module: hidden_state [B, S, hidden_size] -> the same shape. */
BR_API br_tensor *br_scratch_multi_head_attention_forward(br_scratch_multi_head_attention *self,
                                                          br_tensor *hidden_state);

#ifdef __cplusplus
}
#endif
#endif
