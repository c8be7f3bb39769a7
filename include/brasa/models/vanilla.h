/* brasa/models/vanilla.h - Vanilla Transformer: every class of notebook 001.
 *
 * Classes, fields, state_dict keys and results are the notebook's, including its mistakes. The last
 * fields of the configuration select the intended behavior instead (docs/quirks.md). Each attention
 * is tapped (br_tap_attention). Masks are 0 (or false) where a key is hidden and broadcast to [B,
 * n_heads, queries, keys]; NULL hides none. */
#ifndef BRASA_MODELS_VANILLA_H
#define BRASA_MODELS_VANILLA_H

#include <brasa/nn.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Configuration --------------------------------------------------------------------------- */

/* The arguments of the notebook's constructors, under the same names. Each class reads only its own
 * arguments. */
typedef struct br_vanilla_config {
    int64_t embed_dim, n_heads;                                       /* every class */
    int64_t ff_hid_dim;                                               /* all but attention */
    int64_t n_layers, max_length;                                     /* Encoder, Decoder, models */
    int64_t vocab_size;                                               /* ... but not Transformer */
    int64_t src_vocab_size, trg_vocab_size, src_pad_idx, trg_pad_idx; /* Transformer */
    int64_t n_classes, pad_idx;                                       /* EncoderClassifier */
    double dropout;                                                   /* every class */

    /* The intended behavior; all zero is the notebook as written. */
    bool scale_by_head_dim;   /* scores are divided by sqrt(head_dim), not sqrt(embed_dim) */
    bool infinite_fill;       /* masked scores become -inf, not -1e20 */
    bool sublayer_dropout;    /* EncoderLayer applies dropout to sublayers, not to the residual */
    bool use_joint_attention; /* DecoderLayer attends to the encoder with joint_attention */
    bool use_norm_3;          /* DecoderLayer's last norm is norm_3, not norm_2 again */
    bool max_over_tokens;     /* EncoderClassifier's maximum excludes padding */
} br_vanilla_config;

/* ---- Layers ---------------------------------------------------------------------------------- */

/* The notebook's MultiHeadAttention. */
typedef struct br_vanilla_multi_head_attention {
    br_module base;
    int64_t head_dim, n_heads, embed_dim;
    double scale, fill;
    br_linear *keys, *queries, *values, *proj;
    br_dropout *dropout;
} br_vanilla_multi_head_attention;
/* Creates the module. n_heads must divide embed_dim. */
BR_API br_vanilla_multi_head_attention *br_vanilla_multi_head_attention_new(
    const br_vanilla_config *config);
/* Runs the module: q [B, Q, embed_dim], k and v [B, K, embed_dim] -> [B, Q, embed_dim]. A query
 * whose keys are all hidden attends to all of them equally; with infinite_fill it gives NaN. */
BR_API br_tensor *br_vanilla_multi_head_attention_forward(br_vanilla_multi_head_attention *self,
                                                          br_tensor *q, br_tensor *k, br_tensor *v,
                                                          br_tensor *mask);

/* The notebook's EncoderLayer. */
typedef struct br_vanilla_encoder_layer {
    br_module base;
    bool sublayer_dropout;
    br_vanilla_multi_head_attention *attention;
    br_layer_norm *norm_1, *norm_2;
    br_sequential *mlp;
    br_dropout *dropout;
} br_vanilla_encoder_layer;
BR_API br_vanilla_encoder_layer *br_vanilla_encoder_layer_new(const br_vanilla_config *config);
/* Runs the module: src [B, S, embed_dim] -> the same shape. */
BR_API br_tensor *br_vanilla_encoder_layer_forward(br_vanilla_encoder_layer *self, br_tensor *src,
                                                   br_tensor *mask);

/* The notebook's DecoderLayer. As written, joint_attention and norm_3 exist but are not used. */
typedef struct br_vanilla_decoder_layer {
    br_module base;
    bool use_joint_attention, use_norm_3;
    br_vanilla_multi_head_attention *attention, *joint_attention;
    br_layer_norm *norm_1, *norm_2, *norm_3;
    br_sequential *mlp;
    br_dropout *dropout;
} br_vanilla_decoder_layer;
BR_API br_vanilla_decoder_layer *br_vanilla_decoder_layer_new(const br_vanilla_config *config);
/* Runs the module: trg [B, T, embed_dim], src [B, S, embed_dim] (the encoder's output) -> trg's
 * shape. */
BR_API br_tensor *br_vanilla_decoder_layer_forward(br_vanilla_decoder_layer *self, br_tensor *trg,
                                                   br_tensor *src, br_tensor *trg_mask,
                                                   br_tensor *src_mask);

/* ---- Blocks ---------------------------------------------------------------------------------- */

/* The notebook's Encoder. */
typedef struct br_vanilla_encoder {
    br_module base;
    double scale;
    br_embedding *tok_emb, *pos_emb;
    br_module_list *blocks;
    br_dropout *dropout;
} br_vanilla_encoder;
BR_API br_vanilla_encoder *br_vanilla_encoder_new(const br_vanilla_config *config);
/* Runs the module: src i64 [B, S], S at most max_length -> [B, S, embed_dim]. */
BR_API br_tensor *br_vanilla_encoder_forward(br_vanilla_encoder *self, br_tensor *src,
                                             br_tensor *mask);

/* The notebook's Decoder. */
typedef struct br_vanilla_decoder {
    br_module base;
    double scale;
    br_embedding *tok_emb, *pos_emb;
    br_module_list *blocks;
    br_linear *fc;
    br_dropout *dropout;
} br_vanilla_decoder;
BR_API br_vanilla_decoder *br_vanilla_decoder_new(const br_vanilla_config *config);
/* Runs the module: trg i64 [B, T], T at most max_length, src [B, S, embed_dim] (the encoder's
 * output) -> logits [B, T, vocab_size]. */
BR_API br_tensor *br_vanilla_decoder_forward(br_vanilla_decoder *self, br_tensor *trg,
                                             br_tensor *src, br_tensor *trg_mask,
                                             br_tensor *src_mask);

/* ---- Models ---------------------------------------------------------------------------------- */

/* Transformer.src_mask and EncoderClassifier.mask: returns false where src is padding, for all
 * heads and queries; i64 [B, S] -> bool [B, 1, 1, S]. */
BR_API br_tensor *br_vanilla_src_mask(br_tensor *src, int64_t pad_idx);
/* Transformer.trg_mask: returns false where trg is padding and where the key is later than the
 * query; i64 [B, T] -> bool [B, 1, T, T]. */
BR_API br_tensor *br_vanilla_trg_mask(br_tensor *trg, int64_t pad_idx);

/* The notebook's Transformer. */
typedef struct br_vanilla_transformer {
    br_module base;
    br_vanilla_encoder *encoder;
    br_vanilla_decoder *decoder;
    int64_t src_pad_idx, trg_pad_idx;
} br_vanilla_transformer;
BR_API br_vanilla_transformer *br_vanilla_transformer_new(const br_vanilla_config *config);
/* Runs the module: src i64 [B, S], trg i64 [B, T] -> logits [B, T, trg_vocab_size]. */
BR_API br_tensor *br_vanilla_transformer_forward(br_vanilla_transformer *self, br_tensor *src,
                                                 br_tensor *trg);

/* The notebook's EncoderClassifier. */
typedef struct br_vanilla_encoder_classifier {
    br_module base;
    int64_t pad_idx;
    bool max_over_tokens;
    br_vanilla_encoder *encoder;
    br_linear *linear;
    br_dropout *dropout;
} br_vanilla_encoder_classifier;
BR_API br_vanilla_encoder_classifier *br_vanilla_encoder_classifier_new(
    const br_vanilla_config *config);
/* Runs the module: x i64 [B, S] -> logits [B, n_classes], from the maximum of each feature over the
 * positions. With max_over_tokens, every row must have a token that is not padding. */
BR_API br_tensor *br_vanilla_encoder_classifier_forward(br_vanilla_encoder_classifier *self,
                                                        br_tensor *x);

#ifdef __cplusplus
}
#endif
#endif
