/* brasa/models/modernbert.h - ModernBERT: an encoder with rotary positions, whose layers attend to
 * all tokens or to the tokens near them, and its heads.
 *
 *     br_modernbert_config config = br_modernbert_config_from(auto_config);
 *     br_modernbert *model = br_modernbert_new(&config);
 *     br_tensor *last_hidden_state = br_modernbert_forward(
 *         model, input_ids, BR_OPTIONS(br_modernbert, .attention_mask = mask));
 *
 * Modules and state_dict keys are those of transformers. New weights are initialized as there:
 * truncated normal with standard deviation initializer_range, divided by sqrt(2 num_hidden_layers)
 * at the end of each half of a layer and in the heads; biases 0, norms 1.
 *
 * There is no greatest number of tokens: max_position_embeddings only says how long the texts of
 * the training were. The angles of the rotation are computed in f32, as transformers does, or in
 * f64 in a model of f64.
 *
 * In each layer `attn` taps its attention (br_tap_attention) and "value" [B, heads, S, d], and the
 * layer taps "hidden_state". The whole attention matrix is stored only if a recorder or the options
 * request it, which changes results by rounding. Warner et al., 2024. */
#ifndef BRASA_MODELS_MODERNBERT_H
#define BRASA_MODELS_MODERNBERT_H

#include <brasa/nn.h>
#include <brasa/pretrained/auto_config.h>
#include <brasa/pretrained/family.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Configuration --------------------------------------------------------------------------- */

enum { BR_MODERNBERT_MAX_LAYERS = 256 };

typedef enum br_modernbert_layer_type {
    BR_MODERNBERT_BY_DISTANCE, /* global_attn_every_n_layers says it */
    BR_MODERNBERT_GLOBAL,      /* attends to all tokens */
    BR_MODERNBERT_LOCAL        /* attends to local_attention tokens */
} br_modernbert_layer_type;

typedef struct br_modernbert_config {
    int64_t vocab_size, hidden_size, intermediate_size, num_hidden_layers, num_attention_heads,
        num_labels;
    int64_t pad_token_id; /* its embedding gets no gradient; -1: none */
    /* Layers 0, n, 2 n, ... attend to all tokens, the other layers are local, except where
     * layer_types, of br_modernbert_layer_type, says otherwise. */
    int64_t global_attn_every_n_layers;
    uint8_t layer_types[BR_MODERNBERT_MAX_LAYERS];
    int64_t local_attention; /* a local layer attends to the local_attention / 2 tokens before each
                                token, as many after it, and the token itself */
    br_rope_options global_rope, local_rope; /* rotary positions of the two kinds of layers */
    double embedding_dropout, attention_dropout, mlp_dropout, classifier_dropout;
    double norm_eps, initializer_range;
    double initializer_cutoff_factor; /* initial weights are at most this many deviations from 0 */
    const char *hidden_activation, *classifier_activation; /* as br_hf_bert_config's hidden_act */
    const char *classifier_pooling; /* "cls", or "mean" of the tokens that are not padding */
    bool attention_bias, mlp_bias, norm_bias, classifier_bias, decoder_bias;
    bool untied; /* the decoder's weight is not tied to the embeddings */
} br_modernbert_config;

/* Returns the configuration of ModernBERT-base. */
BR_API br_modernbert_config br_modernbert_config_default(void);
/* Reads a configuration from a config.json of model_type "modernbert". Rotary positions are in
 * rope_parameters or, in older files, in global_rope_theta, local_rope_theta and rope_scaling.
 * Returns zeros and an error if a value is invalid. */
BR_API br_modernbert_config br_modernbert_config_from(const br_auto_config *config);

/* Optional inputs and outputs of a forward. Each may be NULL, and so may the options. Outputs are
 * owned by the caller's scope. */
typedef struct br_modernbert_options {
    size_t struct_size;
    br_tensor *attention_mask; /* [B, S], false or 0 where a token is padding. A query whose keys
                                  are all hidden gets the context 0. */
    br_tensor **hidden_states; /* num_hidden_layers + 1: the embeddings, then each layer; final_norm
                                  on the last */
    br_tensor **attentions;    /* num_hidden_layers tensors of shape [B, heads, S, S] */
    /* i64 [B + 1]: a packed batch, as in br_hf_bert_options. Cannot be combined with
     * attention_mask, attentions or an open recorder. */
    br_tensor *cu_seqlens;
} br_modernbert_options;
#define br_modernbert_default_fields .struct_size = sizeof(br_modernbert_options)
BR_API br_modernbert_options br_modernbert_defaults(void);

/* ---- ModernBertModel ------------------------------------------------------------------------- */

typedef struct br_modernbert_embeddings {
    br_module base;
    br_embedding *tok_embeddings;
    br_layer_norm *norm;
    br_dropout *drop;
} br_modernbert_embeddings;

typedef struct br_modernbert_attention {
    br_module base;
    br_linear *Wqkv; /* queries, keys and values */
    br_linear *Wo;
    br_dropout *out_drop;
    int64_t num_attention_heads;
    double attention_dropout; /* dropout of the probabilities in training mode */
} br_modernbert_attention;

/* Computes Wo(dropout(act(a) b)), where a and b are the halves of Wi(x). */
typedef struct br_modernbert_mlp {
    br_module base;
    br_linear *Wi, *Wo;
    br_dropout *drop;
    br_tensor *(*act)(br_tensor *x);
} br_modernbert_mlp;

typedef struct br_modernbert_layer {
    br_module base;
    br_layer_norm *attn_norm; /* NULL in the first layer */
    br_modernbert_attention *attn;
    br_layer_norm *mlp_norm;
    br_modernbert_mlp *mlp;
    bool is_local;
} br_modernbert_layer;

typedef struct br_modernbert {
    br_module base;
    br_modernbert_config config;
    br_modernbert_embeddings *embeddings;
    br_module_list *layers;
    br_layer_norm *final_norm;
} br_modernbert;
BR_API br_modernbert *br_modernbert_new(const br_modernbert_config *config);
/* Runs the module: input_ids i64 [B, S] -> last_hidden_state [B, S, hidden_size]. */
BR_API br_tensor *br_modernbert_forward(br_modernbert *self, br_tensor *input_ids,
                                        const br_modernbert_options *options);

/* ---- Heads ----------------------------------------------------------------------------------- */

/* Computes norm(act(dense(x))). */
typedef struct br_modernbert_head {
    br_module base;
    br_linear *dense;
    br_layer_norm *norm;
    br_tensor *(*act)(br_tensor *x);
} br_modernbert_head;

typedef struct br_modernbert_lm {
    br_module base;
    br_modernbert *model;
    br_modernbert_head *head;
    br_linear *decoder; /* its weight is tied to the embeddings' */
} br_modernbert_lm;
/* Makes transformers' ModernBertForMaskedLM. */
BR_API br_modernbert_lm *br_modernbert_for_masked_lm_new(const br_modernbert_config *config);
/* Returns the logits [B, S, vocab_size] of each token. */
BR_API br_tensor *br_modernbert_lm_forward(br_modernbert_lm *self, br_tensor *input_ids,
                                           const br_modernbert_options *options);

/* Models with labels for sequences, tokens or ends of answers. */
typedef struct br_modernbert_classifier {
    br_module base;
    br_modernbert *model;
    br_modernbert_head *head;
    br_dropout *drop;
    br_linear *classifier;
    br_model_task task;
} br_modernbert_classifier;
/* Make transformers' ModernBertForSequenceClassification, ModernBertForTokenClassification and
 * ModernBertForQuestionAnswering, whose num_labels must be 2. */
BR_API br_modernbert_classifier *br_modernbert_for_sequence_classification_new(
    const br_modernbert_config *config);
BR_API br_modernbert_classifier *br_modernbert_for_token_classification_new(
    const br_modernbert_config *config);
BR_API br_modernbert_classifier *br_modernbert_for_question_answering_new(
    const br_modernbert_config *config);
/* Returns the logits: of sequences [B, num_labels]; of tokens [B, S, num_labels]; of the first and
 * the last token of an answer [B, S, 2]. */
BR_API br_tensor *br_modernbert_classifier_forward(br_modernbert_classifier *self,
                                                   br_tensor *input_ids,
                                                   const br_modernbert_options *options);

#ifdef __cplusplus
}
#endif
#endif
