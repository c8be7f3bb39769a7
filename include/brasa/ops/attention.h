/* brasa/ops/attention.h - scaled dot product attention and rotary embeddings; part of brasa/ops.h.
 * f32 and f64. Implemented in ops/attention/. */
#ifndef BRASA_OPS_ATTENTION_H
#define BRASA_OPS_ATTENTION_H

#include <brasa/autograd.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct br_attention_options {
    size_t struct_size;
    double dropout_p; /* probability of dropping an attention weight; others are multiplied by 1 /
                         (1 - dropout_p) */
    bool is_causal;   /* query i attends to keys 0 .. i; attn_mask must be NULL */
    double scale;     /* factor of query key^T; BR_NONE_F64: 1 / sqrt(E) */
    bool enable_gqa;  /* grouped heads: query head h uses head h / (Hq / H) of key and value */
} br_attention_options;
#define br_attention_default_fields \
    .struct_size = sizeof(br_attention_options), .scale = BR_NONE_F64
BR_API br_attention_options br_attention_defaults(void);

/* Returns softmax(scale query key^T + mask) value, [*, L, Ev], for query [*, L, E], key [*, S, E]
 * and value [*, S, Ev]. Leading dimensions broadcast. With enable_gqa the last of them is the
 * heads: Hq in query and H in key and value, where Hq is a multiple of H. attn_mask, or NULL,
 * broadcasts to [*, L, S]. A bool mask is true where a query may attend to a key; a mask of the
 * query's dtype is added to the scores. If a query may attend to no key, its result is zeros and
 * its gradients are 0, as in PyTorch.
 *
 * Memory is linear in L and S, also in the gradient: scores are computed, used and recomputed block
 * by block. The gradient of a mask that requires grad has the mask's shape. Dropout uses this
 * thread's random number generator; the same generator state drops the same weights, regardless of
 * the values and the number of threads. With br_set_float32_matmul_precision("medium"), the
 * operands of products in f32 are rounded to bf16 if there are at least 16 queries. Second-order
 * gradients are computed by plain operations. `options` may be NULL: no dropout, not causal, no
 * groups. Dao, 2023. */
BR_API br_tensor *br_scaled_dot_product_attention(br_tensor *query, br_tensor *key,
                                                  br_tensor *value, br_tensor *attn_mask,
                                                  const br_attention_options *options);

typedef struct br_varlen_attn_options {
    size_t struct_size;
    bool is_causal;  /* query i of a sequence attends to its keys 0 .. i: PyTorch's window_size =
                        (-1, 0). Each sequence must then have as many keys as queries */
    double scale;    /* factor of query key^T, greater than 0; BR_NONE_F64: 1 / sqrt(D) */
    bool enable_gqa; /* grouped heads: query head h uses head h / (Hq / H) of key and value */
} br_varlen_attn_options;
#define br_varlen_attn_default_fields \
    .struct_size = sizeof(br_varlen_attn_options), .scale = BR_NONE_F64
BR_API br_varlen_attn_options br_varlen_attn_defaults(void);

/* Returns the attention of B sequences of unlike length that follow each other, [Tq, Hq, Dv], for
 * query [Tq, Hq, D], key [Tk, H, D] and value [Tk, H, Dv]. Sequence b has queries cu_seq_q[b] ..
 * cu_seq_q[b + 1] - 1, and the keys and values in the same way by cu_seq_k; both are i32 or i64 [B
 * + 1], begin with 0 and end with the number of tokens. cu_seq_k may be NULL: that of the queries.
 *
 * Each query attends only to the keys of its sequence. In f32 and f64 the result of a sequence, and
 * its gradients, are to the bit those of br_scaled_dot_product_attention() for it alone, except
 * with br_set_float32_matmul_precision("medium"). A sequence without keys gets zeros. The lists are
 * read on the host. PyTorch's max_q and max_k are not needed. Second-order gradients are computed
 * by plain operations. `options` may be NULL. */
BR_API br_tensor *br_varlen_attn(br_tensor *query, br_tensor *key, br_tensor *value,
                                 br_tensor *cu_seq_q, br_tensor *cu_seq_k,
                                 const br_varlen_attn_options *options);

/* Rotates pairs of elements of x's last dimension: (x1 cos - x2 sin, x2 cos + x1 sin), where cos
 * and sin broadcast to x's shape with its last dimension halved. Pair i consists of element i of
 * each half or, if interleaved, of elements 2 i and 2 i + 1. Su et al., 2021. */
BR_API br_tensor *br_f_rotary_embedding(br_tensor *x, br_tensor *cos, br_tensor *sin,
                                        bool interleaved);

#ifdef __cplusplus
}
#endif

#endif
