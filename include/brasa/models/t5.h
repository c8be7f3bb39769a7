/* brasa/models/t5.h - Hugging Face's T5: encoder and decoder with relative positions. Raffel et
 * al., 2020.
 *
 *     br_t5 *model = br_auto_model_load("t5-small", NULL, NULL);
 *     br_t5_source source = { model, br_t5_encode(model, input_ids, NULL), NULL };
 *     br_language_model lm = br_t5_language_model(&source);
 *     br_tensor *ids = br_generate(&lm, br_t5_start(model, 1), NULL);
 *
 * Modules and state_dict keys are those of transformers. Each attention taps "query", "key" and
 * "value" [B, heads, S, d], and "attention" or "cross_attention". The whole attention matrix is
 * stored only if a recorder requests it. */
#ifndef BRASA_MODELS_T5_H
#define BRASA_MODELS_T5_H

#include <brasa/nn.h>
#include <brasa/pretrained/auto_config.h>
#include <brasa/pretrained/generate.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Configuration --------------------------------------------------------------------------- */

typedef struct br_t5_config {
    int64_t vocab_size, d_model, d_kv, d_ff, num_layers, num_decoder_layers, num_heads;
    int64_t relative_attention_num_buckets, relative_attention_max_distance;
    /* Only br_t5_start() and br_t5_shift_right() need these; they fail if the id that they need is
     * not 0 .. vocab_size - 1. */
    int64_t pad_token_id, decoder_start_token_id;
    double dropout_rate, layer_norm_epsilon, initializer_factor;
    const char *activation; /* one of the names for br_hf_bert_config's hidden_act */
    bool gated;             /* (act(x wi_0) * (x wi_1)) wo instead of act(x wi) wo */
    bool untied;            /* lm_head's weight is not tied to the embeddings */
    bool unscaled;          /* lm_head's input is not multiplied by 1 / sqrt(d_model); T5 v1.1 */
} br_t5_config;

/* Returns the configuration of t5-small. */
BR_API br_t5_config br_t5_config_default(void);
/* Reads a configuration from a config.json of model_type "t5". Returns zeros and an error if a
 * value is invalid. */
BR_API br_t5_config br_t5_config_from(const br_auto_config *config);

/* ---- T5Model, T5ForConditionalGeneration ----------------------------------------------------- */

typedef struct br_t5_attention {
    br_module base;
    br_linear *q, *k, *v, *o;
    br_embedding *relative_attention_bias; /* NULL except in a stack's first layer */
    int64_t num_heads, number;             /* number: in the cache */
    double dropout_rate;
} br_t5_attention;

/* Computes x + dropout(sublayer(layer_norm(x))). Only one of the three sublayers is not NULL. */
typedef struct br_t5_layer {
    br_module base;
    br_t5_attention *SelfAttention, *EncDecAttention;
    struct br_t5_dense *DenseReluDense;
    br_rms_norm *layer_norm;
    br_dropout *dropout;
} br_t5_layer;

typedef struct br_t5_dense {
    br_module base;
    br_linear *wi, *wi_0, *wi_1, *wo; /* wi, or wi_0 and wi_1 */
    br_dropout *dropout;
    br_tensor *(*act)(br_tensor *x);
} br_t5_dense;

typedef struct br_t5_block {
    br_module base;
    br_module_list *layer;
} br_t5_block;

typedef struct br_t5_stack {
    br_module base;
    br_embedding *embed_tokens; /* its weight is tied to shared's */
    br_module_list *block;
    br_rms_norm *final_layer_norm;
    br_dropout *dropout;
    br_t5_config config;
    bool is_decoder;
} br_t5_stack;

typedef struct br_t5 {
    br_module base;
    br_t5_config config;
    br_embedding *shared;
    br_t5_stack *encoder, *decoder;
    br_linear *lm_head; /* NULL in T5Model */
} br_t5;
BR_API br_t5 *br_t5_new(const br_t5_config *config);
BR_API br_t5 *br_t5_for_conditional_generation_new(const br_t5_config *config);

/* Runs the encoder: input_ids i64 [B, S] -> [B, S, d_model]. attention_mask is NULL, or [B, S] with
 * false or 0 where a token is padding. */
BR_API br_tensor *br_t5_encode(br_t5 *self, br_tensor *input_ids, br_tensor *attention_mask);

typedef struct br_t5_options {
    size_t struct_size;
    br_tensor *attention_mask;         /* [B, S], for the encoder's tokens */
    br_tensor *decoder_attention_mask; /* [B, K], including the cached tokens */
    br_cache *cache;                   /* earlier tokens; decoder_input_ids are appended */
} br_t5_options;
#define br_t5_default_fields .struct_size = sizeof(br_t5_options)
BR_API br_t5_options br_t5_defaults(void);
/* Runs the decoder on decoder_input_ids i64 [B, T] and `memory`, the encoder's output. Returns the
 * last hidden state [B, T, d_model]. `options` may be NULL. */
BR_API br_tensor *br_t5_decode(br_t5 *self, br_tensor *decoder_input_ids, br_tensor *memory,
                               const br_t5_options *options);
/* Returns the logits [B, T, vocab_size] of the decoder's last hidden state. The model must have an
 * lm_head. */
BR_API br_tensor *br_t5_logits(br_t5 *self, br_tensor *hidden);
/* Returns the decoder's input for the labels, i64 [B, T]: decoder_start_token_id, then all labels
 * but the last, with padding for -100. */
BR_API br_tensor *br_t5_shift_right(const br_t5 *self, br_tensor *labels);

/* ---- For br_generate() ----------------------------------------------------------------------- */

/* The source from which the decoder generates. */
typedef struct br_t5_source {
    br_t5 *model;
    br_tensor *memory;         /* the result of br_t5_encode(), a row for each text; with beams the
                                  decoder has several rows for each */
    br_tensor *attention_mask; /* NULL: no padding */
} br_t5_source;
/* Returns a language model for br_generate(). `source` must outlive it. */
BR_API br_language_model br_t5_language_model(br_t5_source *source);
/* Returns i64 [batch, 1] filled with decoder_start_token_id. */
BR_API br_tensor *br_t5_start(const br_t5 *self, int64_t batch);

#ifdef __cplusplus
}
#endif
#endif
