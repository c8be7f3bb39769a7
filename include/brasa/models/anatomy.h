/* brasa/models/anatomy.h - Transformer Anatomy: every class and function of notebook 000.
 *
 * Classes, fields, state_dict keys and results are the notebook's, including its mistakes. The last
 * fields of the configuration select the intended behavior instead (docs/quirks.md). Each head taps
 * its attention (br_tap_attention). In a mask, 0 (or false) hides the key; NULL hides none. */
#ifndef BRASA_MODELS_ANATOMY_H
#define BRASA_MODELS_ANATOMY_H

#include <brasa/nn.h>
#include <brasa/pretrained/auto_config.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Configuration --------------------------------------------------------------------------- */

/* The values that the notebook reads from `config`, under the same names. */
typedef struct br_anatomy_config {
    int64_t vocab_size, hidden_size, num_hidden_layers, num_attention_heads, intermediate_size,
        max_position_embeddings, num_labels;
    double hidden_dropout_prob;

    /* The intended behavior; all zero is the notebook as written. */
    bool mask_padding;      /* the encoder hides keys whose id is pad_token_id */
    int64_t pad_token_id;   /* the id of [PAD] */
    bool attention_dropout; /* dropout of the attention weights and of the attention's output */
    bool final_norm;        /* a norm "layer_norm" after the last encoder layer */
    bool small_eps;         /* eps 1e-12 in the layers' norms as in the embeddings', not 1e-5 */
} br_anatomy_config;

/* Returns the notebook's configuration, which is that of bert-base-uncased: vocabulary 30522,
 * hidden size 768, 12 layers with 12 heads, intermediate size 3072, 512 positions, 2 labels,
 * dropout 0.1. */
BR_API br_anatomy_config br_anatomy_notebook_config(void);
/* Reads a configuration from a config.json: pad_token_id and all fields except those of the
 * intended behavior. Returns zeros and an error if a key is missing, of the wrong type or out of
 * range, or if hidden_size is not divisible by num_attention_heads. Ignores hidden_act: the
 * notebook uses GELU. */
BR_API br_anatomy_config br_anatomy_config_from(const br_auto_config *config);

/* ---- Attention ------------------------------------------------------------------------------- */

/* Computes softmax(query key^T / sqrt(dim_k)) value, with scores of -inf where the mask is 0: query
 * [B, Q, dim_k], key [B, K, dim_k], value [B, K, dim_v], mask broadcasts to [B, Q, K] -> [B, Q,
 * dim_v]. A query whose keys are all hidden gives NaN. */
BR_API br_tensor *br_anatomy_scaled_dot_product_attention(br_tensor *query, br_tensor *key,
                                                          br_tensor *value, br_tensor *mask);
/* Returns ones on and below the diagonal and zeros above it: f32 [1, seq_len, seq_len]. */
BR_API br_tensor *br_anatomy_causal_mask(int64_t seq_len);

/* The notebook's cells before the classes: attention with query = key = value =
 * token_emb(input_ids). */
typedef struct br_anatomy_simplified_attention {
    br_module base;
    br_embedding *token_emb;
} br_anatomy_simplified_attention;
/* Its intermediate results, under the notebook's names. */
typedef struct br_anatomy_simplified_steps {
    br_tensor *inputs_embeds;    /* [B, S, hidden_size] */
    br_tensor *scores, *weights; /* [B, S, S] */
    br_tensor *attn_outputs;     /* [B, S, hidden_size] */
} br_anatomy_simplified_steps;
BR_API br_anatomy_simplified_attention *br_anatomy_simplified_attention_new(int64_t vocab_size,
                                                                            int64_t hidden_size);
/* Runs the module on input_ids i64 [B, S]. All fields of the result are NULL on error. */
BR_API br_anatomy_simplified_steps br_anatomy_simplified_attention_forward(
    br_anatomy_simplified_attention *self, br_tensor *input_ids);

/* The notebook's AttentionHead. */
typedef struct br_anatomy_attention_head {
    br_module base;
    br_linear *q, *k, *v;
    br_dropout *dropout; /* NULL as written */
} br_anatomy_attention_head;
BR_API br_anatomy_attention_head *br_anatomy_attention_head_new(int64_t embed_dim,
                                                                int64_t head_dim);
/* Runs the module: hidden_state [B, S, embed_dim] -> [B, S, head_dim]. */
BR_API br_tensor *br_anatomy_attention_head_forward(br_anatomy_attention_head *self,
                                                    br_tensor *hidden_state, br_tensor *mask);

/* The notebook's MultiHeadAttention. */
typedef struct br_anatomy_multi_head_attention {
    br_module base;
    br_module_list *heads;
    br_linear *output_linear;
    br_dropout *dropout; /* NULL as written */
} br_anatomy_multi_head_attention;
BR_API br_anatomy_multi_head_attention *br_anatomy_multi_head_attention_new(
    const br_anatomy_config *config);
/* Runs the module: hidden_state [B, S, hidden_size] -> the same shape. */
BR_API br_tensor *br_anatomy_multi_head_attention_forward(br_anatomy_multi_head_attention *self,
                                                          br_tensor *hidden_state, br_tensor *mask);

/* ---- Encoder --------------------------------------------------------------------------------- */

/* The notebook's FeedForward. */
typedef struct br_anatomy_feed_forward {
    br_module base;
    br_linear *linear_1, *linear_2;
    br_activation *gelu;
    br_dropout *dropout;
} br_anatomy_feed_forward;
BR_API br_anatomy_feed_forward *br_anatomy_feed_forward_new(const br_anatomy_config *config);
BR_API br_tensor *br_anatomy_feed_forward_forward(br_anatomy_feed_forward *self, br_tensor *x);

/* The notebook's TransformerEncoderLayer. */
typedef struct br_anatomy_encoder_layer {
    br_module base;
    br_layer_norm *layer_norm_1, *layer_norm_2;
    br_anatomy_multi_head_attention *attention;
    br_anatomy_feed_forward *feed_forward;
} br_anatomy_encoder_layer;
BR_API br_anatomy_encoder_layer *br_anatomy_encoder_layer_new(const br_anatomy_config *config);
/* Runs the module: x [B, S, hidden_size] -> the same shape. */
BR_API br_tensor *br_anatomy_encoder_layer_forward(br_anatomy_encoder_layer *self, br_tensor *x,
                                                   br_tensor *mask);

/* The notebook's Embeddings. */
typedef struct br_anatomy_embeddings {
    br_module base;
    br_embedding *token_embeddings, *position_embeddings;
    br_layer_norm *layer_norm;
    br_dropout *dropout;
} br_anatomy_embeddings;
BR_API br_anatomy_embeddings *br_anatomy_embeddings_new(const br_anatomy_config *config);
/* Runs the module: input_ids i64 [B, S], S at most max_position_embeddings -> [B, S, hidden_size].
 */
BR_API br_tensor *br_anatomy_embeddings_forward(br_anatomy_embeddings *self, br_tensor *input_ids);

/* The notebook's TransformerEncoder. */
typedef struct br_anatomy_encoder {
    br_module base;
    br_anatomy_config config;
    br_anatomy_embeddings *embeddings;
    br_module_list *layers;
    br_layer_norm *layer_norm; /* NULL as written */
} br_anatomy_encoder;
BR_API br_anatomy_encoder *br_anatomy_encoder_new(const br_anatomy_config *config);
/* Runs the module: x i64 [B, S] -> [B, S, hidden_size]. */
BR_API br_tensor *br_anatomy_encoder_forward(br_anatomy_encoder *self, br_tensor *x);

/* The notebook's TransformerForSequenceClassification. */
typedef struct br_anatomy_classifier {
    br_module base;
    br_anatomy_encoder *encoder;
    br_dropout *dropout;
    br_linear *classifier;
} br_anatomy_classifier;
BR_API br_anatomy_classifier *br_anatomy_classifier_new(const br_anatomy_config *config);
/* Runs the module: x i64 [B, S] -> logits [B, num_labels], from the state at position 0. */
BR_API br_tensor *br_anatomy_classifier_forward(br_anatomy_classifier *self, br_tensor *x);

#ifdef __cplusplus
}
#endif
#endif
