/* brasa/nn/transformer.h - attention and Transformer layers (nn/attention.c, transformer*.c); part
 * of brasa/nn.h. */
#ifndef BRASA_NN_TRANSFORMER_H
#define BRASA_NN_TRANSFORMER_H

#include <brasa/nn/layers.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct br_multihead_attention_options {
    size_t struct_size;
    double dropout; /* of the attention weights */
    bool bias;
    bool add_bias_kv;   /* add a learned key and value */
    bool add_zero_attn; /* add a key and a value of zeros */
    int64_t kdim, vdim; /* sizes of keys and values; 0: embed_dim */
    bool batch_first;   /* [batch, length, size] instead of [length, batch, size] */
} br_multihead_attention_options;
#define br_multihead_attention_default_fields \
    .struct_size = sizeof(br_multihead_attention_options), .bias = true
BR_API br_multihead_attention_options br_multihead_attention_defaults(void);

typedef struct br_multihead_attention {
    br_module base;
    br_tensor *in_proj_weight; /* [3 embed_dim, embed_dim] if kdim and vdim equal embed_dim */
    /* Used otherwise: NULL if in_proj_weight is set. */
    br_tensor *q_proj_weight, *k_proj_weight, *v_proj_weight;
    br_tensor *in_proj_bias; /* [3 embed_dim] */
    br_linear *out_proj;
    br_tensor *bias_k, *bias_v; /* [1, 1, embed_dim] */
    int64_t embed_dim, num_heads;
    br_multihead_attention_options options;
} br_multihead_attention;

/* Creates nn.MultiheadAttention, Vaswani et al., 2017. `options` may be NULL. */
BR_API br_multihead_attention *br_multihead_attention_new(
    int64_t embed_dim, int64_t num_heads, const br_multihead_attention_options *options);

typedef struct br_multihead_attention_inputs {
    /* A bool mask is true for keys that are masked out; a mask of the query's dtype is added to the
     * scores. */
    br_tensor *key_padding_mask; /* [N, S], or [S] without batch; NULL: none */
    br_tensor *attn_mask;        /* [L, S] or [N * num_heads, L, S]; NULL: none */
    bool is_causal;              /* attn_mask is causal, and may then be NULL */
    br_tensor **weights;         /* receives the weights [N, L, S], averaged over heads; or NULL */
    bool weights_per_head;       /* the weights are [N, num_heads, L, S] */
} br_multihead_attention_inputs;
/* Returns [L, N, embed_dim] for query [L, N, embed_dim], key [S, N, kdim] and value [S, N, vdim];
 * without a batch, the dimension N is absent from all of them. `inputs` may be NULL. As in PyTorch,
 * fully masked queries get NaN if the weights are requested, and zeros otherwise. If the weights
 * are neither requested nor recorded by a tap, the scores are never stored. The weights are tapped
 * (br_tap_attention()) before dropout. */
BR_API br_tensor *br_multihead_attention_forward(br_multihead_attention *self, br_tensor *query,
                                                 br_tensor *key, br_tensor *value,
                                                 const br_multihead_attention_inputs *inputs);

typedef struct br_transformer_options {
    size_t struct_size;
    int64_t dim_feedforward;
    double dropout;
    br_tensor *(*activation)(br_tensor *x); /* NULL: br_relu(), or the erf GELU if `gelu` is set */
    bool gelu;
    double layer_norm_eps;
    bool batch_first;
    bool norm_first; /* apply the norms before attention and feed-forward instead of after the
                        residual sums */
    bool bias;
} br_transformer_options;
#define br_transformer_default_fields                                                       \
    .struct_size = sizeof(br_transformer_options), .dim_feedforward = 2048, .dropout = 0.1, \
    .layer_norm_eps = 1e-5, .bias = true
BR_API br_transformer_options br_transformer_defaults(void);

typedef struct br_transformer_encoder_layer {
    br_module base;
    br_multihead_attention *self_attn;
    br_linear *linear1, *linear2;
    br_layer_norm *norm1, *norm2;
    br_dropout *dropout, *dropout1, *dropout2;
    br_transformer_options options;
} br_transformer_encoder_layer;
/* Creates nn.TransformerEncoderLayer. `options` may be NULL, here and below. */
BR_API br_transformer_encoder_layer *br_transformer_encoder_layer_new(
    int64_t d_model, int64_t nhead, const br_transformer_options *options);
/* The masks are those of br_multihead_attention_inputs; NULL: none. */
BR_API br_tensor *br_transformer_encoder_layer_forward(br_transformer_encoder_layer *self,
                                                       br_tensor *src, br_tensor *src_mask,
                                                       br_tensor *src_key_padding_mask,
                                                       bool is_causal);

typedef struct br_transformer_encoder {
    br_module base;
    br_module_list *layers;
    br_layer_norm *norm; /* NULL: none */
} br_transformer_encoder;
/* Creates nn.TransformerEncoder: num_layers layers, followed by a LayerNorm if `norm` is true. All
 * layers have the same initial values, since PyTorch copies one layer. */
BR_API br_transformer_encoder *br_transformer_encoder_new(int64_t d_model, int64_t nhead,
                                                          int64_t num_layers, bool norm,
                                                          const br_transformer_options *options);
BR_API br_tensor *br_transformer_encoder_forward(br_transformer_encoder *self, br_tensor *src,
                                                 br_tensor *mask, br_tensor *src_key_padding_mask,
                                                 bool is_causal);

typedef struct br_transformer_masks {
    br_tensor *src_mask, *tgt_mask, *memory_mask;
    br_tensor *src_key_padding_mask, *tgt_key_padding_mask, *memory_key_padding_mask;
    bool src_is_causal, tgt_is_causal, memory_is_causal;
} br_transformer_masks;

typedef struct br_transformer_decoder_layer {
    br_module base;
    br_multihead_attention *self_attn, *multihead_attn;
    br_linear *linear1, *linear2;
    br_layer_norm *norm1, *norm2, *norm3;
    br_dropout *dropout, *dropout1, *dropout2, *dropout3;
    br_transformer_options options;
} br_transformer_decoder_layer;
BR_API br_transformer_decoder_layer *br_transformer_decoder_layer_new(
    int64_t d_model, int64_t nhead, const br_transformer_options *options);
/* `masks` may be NULL; its src fields are not used. */
BR_API br_tensor *br_transformer_decoder_layer_forward(br_transformer_decoder_layer *self,
                                                       br_tensor *tgt, br_tensor *memory,
                                                       const br_transformer_masks *masks);

typedef struct br_transformer_decoder {
    br_module base;
    br_module_list *layers;
    br_layer_norm *norm; /* NULL: none */
} br_transformer_decoder;
BR_API br_transformer_decoder *br_transformer_decoder_new(int64_t d_model, int64_t nhead,
                                                          int64_t num_layers, bool norm,
                                                          const br_transformer_options *options);
BR_API br_tensor *br_transformer_decoder_forward(br_transformer_decoder *self, br_tensor *tgt,
                                                 br_tensor *memory,
                                                 const br_transformer_masks *masks);

typedef struct br_transformer {
    br_module base;
    br_transformer_encoder *encoder;
    br_transformer_decoder *decoder;
    int64_t d_model;
} br_transformer;
/* Creates nn.Transformer: an encoder and a decoder, each followed by a LayerNorm. */
BR_API br_transformer *br_transformer_new(int64_t d_model, int64_t nhead,
                                          int64_t num_encoder_layers, int64_t num_decoder_layers,
                                          const br_transformer_options *options);
BR_API br_tensor *br_transformer_forward(br_transformer *self, br_tensor *src, br_tensor *tgt,
                                         const br_transformer_masks *masks);
/* Returns a mask [size, size] with -inf above the diagonal and 0 elsewhere. */
BR_API br_tensor *br_transformer_square_subsequent_mask(int64_t size, br_dtype dtype);

#ifdef __cplusplus
}
#endif
#endif
