/* brasa/models/architecture.h - Transformers Architecture: every class and function of notebook
 * 004.
 *
 * Classes, fields, state_dict keys and results are the notebook's, including its mistakes. The last
 * fields of the configuration select the intended behavior instead (docs/quirks.md). Each attention
 * is tapped (br_tap_attention). In a mask of any dtype, 0 (or false) hides the key; NULL hides
 * none. */
#ifndef BRASA_MODELS_ARCHITECTURE_H
#define BRASA_MODELS_ARCHITECTURE_H

#include <brasa/data.h>
#include <brasa/nn.h>
#include <brasa/pretrained/auto_config.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Configuration --------------------------------------------------------------------------- */

/* The values that the notebook reads from `config`, under the same names. */
typedef struct br_architecture_config {
    int64_t hidden_size, intermediate_size, num_hidden_layers, vocab_size, max_position_embeddings;
    double hidden_dropout_prob;
    int64_t num_attention_heads;
    int64_t num_labels; /* for the classifier only */

    /* The intended behavior; all zero is the notebook as written. */
    bool add_attention; /* an encoder block adds the attention's output to x, not x itself */
    bool pre_norm; /* x + sublayer(norm(x)) everywhere, and a norm "layer_norm" after the last block
                      of an encoder or decoder */
    bool mask_source;  /* EncoderDecoder passes source_mask to the encoder, too */
    bool mask_padding; /* the classifier hides keys whose id is pad_token_id */
    int64_t pad_token_id;
    bool dropout_once;      /* one dropout per sublayer: none after FeedForward's own */
    bool embedding_dropout; /* Embeddings' dropout is hidden_dropout_prob, not 0.5 */
    bool small_eps;         /* eps 1e-12 in the blocks' norms as in Embeddings', not 1e-5 */
} br_architecture_config;

/* Returns the configuration of cell 5, which is that of bert-base-uncased: vocabulary 30522, hidden
 * size 768, 12 layers with 12 heads, intermediate size 3072, 512 positions, 2 labels, dropout 0.1.
 */
BR_API br_architecture_config br_architecture_bert_config(void);
/* Reads a configuration from a config.json: pad_token_id and all fields except those of the
 * intended behavior. Returns zeros and an error if a key is missing, of the wrong type or out of
 * range, or if hidden_size is not divisible by num_attention_heads. */
BR_API br_architecture_config br_architecture_config_from(const br_auto_config *config);
/* Returns the configuration of the model that the notebook trains, from cell 26: vocabulary 100,
 * hidden size 512, 6 layers with 8 heads, intermediate size 2048, 512 positions, dropout 0.1. */
BR_API br_architecture_config br_architecture_notebook_config(void);

/* ---- Attention ------------------------------------------------------------------------------- */

/* Computes softmax(query key^T / sqrt(dim_k)) value, with scores of -inf where mask.unsqueeze(1) is
 * 0, and dropout of the weights (NULL: none). Meant for query [B, H, Q, dim_k], key [B, H, K,
 * dim_k], value [B, H, K, dim_v] and a mask [B, Q, K] or [B, 1, K] -> [B, H, Q, dim_v]. Other
 * shapes broadcast as in PyTorch: query [B, Q, dim_k] with a mask [B, Q, K] gives [B, B, Q, dim_v],
 * and the first dimension of a 2-D mask is broadcast against the heads. A query whose keys are all
 * hidden gives NaN. */
BR_API br_tensor *br_architecture_scaled_dot_product_attention(br_tensor *query, br_tensor *key,
                                                               br_tensor *value, br_tensor *mask,
                                                               br_dropout *dropout);

/* The notebook's MultiHeadAttention. */
typedef struct br_architecture_multi_head_attention {
    br_module base;
    int64_t embed_dim, num_heads, head_dim;
    br_linear *q, *k, *v, *output_linear;
    br_dropout *dropout;
} br_architecture_multi_head_attention;
BR_API br_architecture_multi_head_attention *br_architecture_multi_head_attention_new(
    const br_architecture_config *config);
/* Runs the module: query [B, Q, hidden_size], key and value [B, K, hidden_size], mask [B, Q, K] or
 * [B, 1, K] -> [B, Q, hidden_size]. */
BR_API br_tensor *br_architecture_multi_head_attention_forward(
    br_architecture_multi_head_attention *self, br_tensor *query, br_tensor *key, br_tensor *value,
    br_tensor *mask);

/* ---- Encoder --------------------------------------------------------------------------------- */

/* The notebook's FeedForward. */
typedef struct br_architecture_feed_forward {
    br_module base;
    br_linear *linear_1, *linear_2;
    br_activation *relu;
    br_dropout *dropout;
} br_architecture_feed_forward;
BR_API br_architecture_feed_forward *br_architecture_feed_forward_new(
    const br_architecture_config *config);
BR_API br_tensor *br_architecture_feed_forward_forward(br_architecture_feed_forward *self,
                                                       br_tensor *x);

/* The notebook's TransformerEncoderBlock. */
typedef struct br_architecture_encoder_block {
    br_module base;
    br_architecture_config config;
    br_layer_norm *layer_norm_1, *layer_norm_2;
    br_architecture_multi_head_attention *attention;
    br_architecture_feed_forward *feed_forward;
    br_dropout *dropout;
} br_architecture_encoder_block;
BR_API br_architecture_encoder_block *br_architecture_encoder_block_new(
    const br_architecture_config *config);
/* Runs the module: x [B, S, hidden_size] -> the same shape. */
BR_API br_tensor *br_architecture_encoder_block_forward(br_architecture_encoder_block *self,
                                                        br_tensor *x, br_tensor *mask);

/* The notebook's Embeddings. */
typedef struct br_architecture_embeddings {
    br_module base;
    br_embedding *token_embeddings, *position_embeddings;
    br_layer_norm *layer_norm;
    br_dropout *dropout;
} br_architecture_embeddings;
BR_API br_architecture_embeddings *br_architecture_embeddings_new(
    const br_architecture_config *config);
/* Runs the module: input_ids i64 [B, S], S at most max_position_embeddings -> [B, S, hidden_size].
 */
BR_API br_tensor *br_architecture_embeddings_forward(br_architecture_embeddings *self,
                                                     br_tensor *input_ids);

/* The notebook's TransformerEncoder. */
typedef struct br_architecture_encoder {
    br_module base;
    br_architecture_embeddings *embeddings;
    br_module_list *layers;
    br_layer_norm *layer_norm; /* NULL as written */
} br_architecture_encoder;
BR_API br_architecture_encoder *br_architecture_encoder_new(const br_architecture_config *config);
/* Runs the module: x i64 [B, S], mask [B, S, S] or [B, 1, S] -> [B, S, hidden_size]. */
BR_API br_tensor *br_architecture_encoder_forward(br_architecture_encoder *self, br_tensor *x,
                                                  br_tensor *mask);

/* The notebook's TransformerForSequenceClassification. */
typedef struct br_architecture_classifier {
    br_module base;
    br_architecture_config config;
    br_architecture_encoder *encoder;
    br_dropout *dropout;
    br_linear *classifier;
} br_architecture_classifier;
BR_API br_architecture_classifier *br_architecture_classifier_new(
    const br_architecture_config *config);
/* Runs the module: x i64 [B, S] -> logits [B, num_labels], from the state at position 0. */
BR_API br_tensor *br_architecture_classifier_forward(br_architecture_classifier *self,
                                                     br_tensor *x);

/* ---- Decoder --------------------------------------------------------------------------------- */

/* The notebook's TransformerDecoderBlock. */
typedef struct br_architecture_decoder_block {
    br_module base;
    br_architecture_config config;
    br_layer_norm *layer_norm_1, *layer_norm_2, *layer_norm_3;
    br_architecture_multi_head_attention *attn_1, *attn_2;
    br_architecture_feed_forward *feed_forward;
    br_dropout *dropout;
} br_architecture_decoder_block;
BR_API br_architecture_decoder_block *br_architecture_decoder_block_new(
    const br_architecture_config *config);
/* Runs the module: x [B, T, hidden_size], encoder_output [B, S, hidden_size], source_mask [B, 1, S]
 * or [B, T, S], target_mask [B, T, T] -> [B, T, hidden_size]. */
BR_API br_tensor *br_architecture_decoder_block_forward(br_architecture_decoder_block *self,
                                                        br_tensor *x, br_tensor *encoder_output,
                                                        br_tensor *source_mask,
                                                        br_tensor *target_mask);

/* The notebook's TransformerDecoder. */
typedef struct br_architecture_decoder {
    br_module base;
    br_architecture_embeddings *embeddings;
    br_module_list *layers;
    br_layer_norm *layer_norm; /* NULL as written */
} br_architecture_decoder;
BR_API br_architecture_decoder *br_architecture_decoder_new(const br_architecture_config *config);
/* Runs the module: input_ids i64 [B, T], the other arguments as for the block -> [B, T,
 * hidden_size]. */
BR_API br_tensor *br_architecture_decoder_forward(br_architecture_decoder *self,
                                                  br_tensor *input_ids, br_tensor *encoder_output,
                                                  br_tensor *source_mask, br_tensor *target_mask);

/* The notebook's EncoderDecoder. */
typedef struct br_architecture_encoder_decoder {
    br_module base;
    br_architecture_config config;
    br_architecture_encoder *encoder;
    br_architecture_decoder *decoder;
    br_linear *fc;
} br_architecture_encoder_decoder;
BR_API br_architecture_encoder_decoder *br_architecture_encoder_decoder_new(
    const br_architecture_config *config);
/* Runs the module: input_ids i64 [B, S], target_ids i64 [B, T] -> logits [B, T, vocab_size]. */
BR_API br_tensor *br_architecture_encoder_decoder_forward(br_architecture_encoder_decoder *self,
                                                          br_tensor *input_ids,
                                                          br_tensor *target_ids,
                                                          br_tensor *source_mask,
                                                          br_tensor *target_mask);

/* ---- Masks (models/architecture_data.c) ------------------------------------------------------ */

/* Returns ones on and below the diagonal and zeros above it: f32 [batch_size, seq_length,
 * seq_length], an expanded view of one matrix. */
BR_API br_tensor *br_architecture_create_mask(int64_t batch_size, int64_t seq_length);
/* RandomDataset.subsequent_mask: returns true on and below the diagonal, bool [size, size]. */
BR_API br_tensor *br_architecture_subsequent_mask(int64_t size);
/* RandomDataset.make_std_mask: returns bool [T, T] for target i64 [T], true for keys that are
 * neither `pad` nor later than the query. */
BR_API br_tensor *br_architecture_make_std_mask(br_tensor *target, int64_t pad);
/* Returns a sample's source_mask, (source != 0).unsqueeze(-2): bool [1, S] for source i64 [S], [B,
 * 1, S] for [B, S]. */
BR_API br_tensor *br_architecture_source_mask(br_tensor *source);

/* ---- RandomDataset (models/architecture_data.c) ---------------------------------------------- */

/* An item's fields, in the notebook's order. */
enum {
    BR_ARCHITECTURE_SOURCE,       /* i64 [L] */
    BR_ARCHITECTURE_TARGET,       /* source[:-1], i64 [L-1] */
    BR_ARCHITECTURE_TARGET_Y,     /* source[1:], i64 [L-1] */
    BR_ARCHITECTURE_SOURCE_MASK,  /* bool [1, L] */
    BR_ARCHITECTURE_TARGET_MASK,  /* bool [L, L]; with mask_target [L-1, L-1] */
    BR_ARCHITECTURE_TOKENS_COUNT, /* number of nonzero ids in target_y, i64 [] */
    BR_ARCHITECTURE_FIELDS,
};

/* RandomDataset: creates a dataset of batch_size * num_samples sequences of sample_length L for the
 * copy task. Each begins with 1. The other ids, 1 .. vocabulary_size - 1, are generated when the
 * dataset is made, by the algorithm of np.random.randint from this thread's generator: after
 * br_manual_seed(s) they equal the notebook's after np.random.seed(s). As written, the target's
 * mask is made of all L ids, so the model rejects it with a target of L - 1 ids. With mask_target
 * it is made of the target. */
BR_API br_dataset *br_architecture_random_dataset_new(int64_t vocabulary_size, int64_t batch_size,
                                                      int64_t num_samples, int64_t sample_length,
                                                      bool mask_target);

#ifdef __cplusplus
}
#endif
#endif
