/* brasa/models/hf_bert.h - Hugging Face's BERT and its relatives: the encoder and its heads.
 *
 *     br_hf_bert_config config = br_hf_bert_config_from(auto_config);
 *     br_hf_bert *bert = br_hf_bert_new(&config);
 *     br_tensor *pooled = NULL;
 *     br_tensor *last_hidden_state = br_hf_bert_forward(
 *         bert, input_ids,
 *         BR_OPTIONS(br_hf_bert, .attention_mask = mask, .pooler_output = &pooled));
 *
 * The relatives are RoBERTa, XLM-RoBERTa, CamemBERT, DistilBERT, ELECTRA, ALBERT and MPNet:
 * encoders of the same layers, LayerNorm(attention(x) + x) and LayerNorm(feed_forward(x) + x),
 * which differ in their embeddings, in the sharing of layers and in their heads. The model type of
 * the configuration chooses one of them.
 *
 * Modules and state_dict keys are those of transformers' BERT for every model type; only the base
 * model in a head has the model type's name, such as "roberta". br_auto_model_load() and
 * br_auto_model_save() translate the keys of files. br_module_class() of a model returns the name
 * of its class in transformers. New weights are initialized as in the paper: normal with standard
 * deviation initializer_range, biases 0, norms 1.
 *
 * In each layer attention.self taps its attention (br_tap_attention) and "value" [B, heads, S, d],
 * and the layer taps "hidden_state". The whole attention matrix is stored only if a recorder or the
 * options request it, which changes results by rounding. */
#ifndef BRASA_MODELS_HF_BERT_H
#define BRASA_MODELS_HF_BERT_H

#include <brasa/nn.h>
#include <brasa/pretrained/auto_config.h>
#include <brasa/pretrained/family.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Configuration --------------------------------------------------------------------------- */

typedef struct br_hf_bert_config {
    const char *model_type; /* "bert", "roberta", "xlm-roberta", "camembert", "distilbert",
                               "electra", "albert" or "mpnet"; NULL: "bert" */
    int64_t vocab_size, hidden_size, num_hidden_layers, num_attention_heads, intermediate_size,
        max_position_embeddings, type_vocab_size, num_labels;
    int64_t pad_token_id;   /* its embedding is initialized to 0 and gets no gradient; -1: none.
                               RoBERTa, XLM-RoBERTa, CamemBERT and MPNet (where it must be 1) give
                               padding this position, and count the positions of other tokens from
                               pad_token_id + 1 */
    int64_t embedding_size; /* ELECTRA, ALBERT: width of the embeddings; 0: hidden_size */
    /* ALBERT: the layers are divided into num_hidden_groups groups of consecutive layers, which
     * share their weights. Each layer is a chain of inner_group_num layers. 0: 1 */
    int64_t num_hidden_groups, inner_group_num;
    int64_t relative_attention_num_buckets; /* MPNet: rows of the table, of which 32 are used */
    double hidden_dropout_prob, attention_probs_dropout_prob;
    double classifier_dropout; /* dropout in a classifier of sequences or tokens */
    double qa_dropout;         /* DistilBERT: dropout before qa_outputs */
    double layer_norm_eps, initializer_range;
    const char *hidden_act; /* "gelu", "relu", ...: a name of transformers' ACT2FN except "prelu"
                               and "xielu", which have weights */
    bool untied;            /* the decoder's weight is not tied to the word embeddings */
} br_hf_bert_config;

/* The function that hidden_act names. */
typedef br_tensor *(*br_hf_bert_activation)(br_tensor *x);

/* Returns the configuration of bert-base-uncased. */
BR_API br_hf_bert_config br_hf_bert_config_default(void);
/* Reads a configuration from a config.json of one of the model types. Returns zeros and an error if
 * a value is invalid, or if it requires an unsupported feature: decoders, cross attention, BERT's
 * relative positions. */
BR_API br_hf_bert_config br_hf_bert_config_from(const br_auto_config *config);

/* Optional inputs and outputs of a forward. Each may be NULL, and so may the options. Outputs are
 * owned by the caller's scope. */
typedef struct br_hf_bert_options {
    size_t struct_size;
    /* 0 (or false) where a key is hidden, such as padding: [B, S], or [B, S, S] with a row for each
     * query. A query whose keys are all hidden gets the context 0. */
    br_tensor *attention_mask;
    br_tensor *token_type_ids; /* i64 [B, S]; all 0 if NULL. DistilBERT and MPNet ignore them */
    br_tensor **pooler_output; /* one tensor [B, hidden_size]; NULL if the model has no pooler */
    /* For each layer that runs, which ALBERT has num_hidden_layers inner_group_num of: */
    br_tensor **hidden_states; /* one tensor more than layers: the embeddings, then each layer */
    br_tensor **attentions;    /* tensors of shape [B, heads, S, S] */
    /* i64 [B + 1]: a packed batch. The B texts follow each other without padding in input_ids [1,
     * N], and text b has tokens cu_seqlens[b] .. cu_seqlens[b + 1] - 1. Positions begin again with
     * each text, and tokens attend to those of their text only. Outputs of tokens are [1, N, ...],
     * outputs of texts [B, ...]. In f32 they do not depend on the other texts, to the bit, if N is
     * at least 16. There must be no attention_mask, attentions, open recorder or dropout of the
     * attention. */
    br_tensor *cu_seqlens;
} br_hf_bert_options;
#define br_hf_bert_default_fields .struct_size = sizeof(br_hf_bert_options)
BR_API br_hf_bert_options br_hf_bert_defaults(void);

/* ---- BertModel ------------------------------------------------------------------------------- */

typedef struct br_hf_bert_embeddings {
    br_module base;
    br_embedding *word_embeddings, *position_embeddings;
    br_embedding *token_type_embeddings; /* NULL in DistilBERT and MPNet */
    br_layer_norm *LayerNorm;
    br_dropout *dropout;
    int64_t max_position_embeddings;
    int64_t padding_position; /* the position of padding, which is not counted; -1: it is counted */
} br_hf_bert_embeddings;

typedef struct br_hf_bert_self_attention {
    br_module base;
    br_linear *query, *key, *value;
    double dropout_p; /* dropout of the probabilities in training mode */
    int64_t num_attention_heads;
} br_hf_bert_self_attention;

/* Computes LayerNorm(dropout(dense(x)) + input), the end of both halves of a layer. */
typedef struct br_hf_bert_residual {
    br_module base;
    br_linear *dense;
    br_layer_norm *LayerNorm;
    br_dropout *dropout;
} br_hf_bert_residual;

typedef struct br_hf_bert_attention {
    br_module base;
    br_hf_bert_self_attention *self;
    br_hf_bert_residual *output;
} br_hf_bert_attention;

/* Computes activation(dense(x)): a layer's `intermediate`, and, with tanh, the pooler. */
typedef struct br_hf_bert_dense {
    br_module base;
    br_linear *dense;
    br_hf_bert_activation activation;
} br_hf_bert_dense;

typedef struct br_hf_bert_layer {
    br_module base;
    br_hf_bert_attention *attention;
    br_hf_bert_dense *intermediate;
    br_hf_bert_residual *output;
} br_hf_bert_layer;

/* Layers that run one after another. */
typedef struct br_hf_bert_group {
    br_module base;
    br_module_list *albert_layers;
} br_hf_bert_group;

typedef struct br_hf_bert_encoder {
    br_module base;
    br_module_list *layer;                 /* NULL in ALBERT */
    br_module_list *albert_layer_groups;   /* of br_hf_bert_group; NULL but in ALBERT */
    br_embedding *relative_attention_bias; /* MPNet: added to the scores of all layers; else NULL */
} br_hf_bert_encoder;

typedef struct br_hf_bert {
    br_module base;
    br_hf_bert_config config;
    br_hf_bert_embeddings *embeddings;
    br_linear
        *embeddings_project; /* ELECTRA, ALBERT: from embedding_size to hidden_size; or NULL */
    br_hf_bert_encoder *encoder;
    br_hf_bert_dense *pooler; /* NULL in BertForMaskedLM */
} br_hf_bert;
BR_API br_hf_bert *br_hf_bert_new(const br_hf_bert_config *config);
/* Runs the module: input_ids i64 [B, S] -> last_hidden_state [B, S, hidden_size]. */
BR_API br_tensor *br_hf_bert_forward(br_hf_bert *self, br_tensor *input_ids,
                                     const br_hf_bert_options *options);

/* ---- Heads ----------------------------------------------------------------------------------- */

/* Computes LayerNorm(activation(dense(x))). */
typedef struct br_hf_bert_transform {
    br_module base;
    br_linear *dense;
    br_layer_norm *LayerNorm;
    br_hf_bert_activation activation;
} br_hf_bert_transform;

typedef struct br_hf_bert_predictions {
    br_module base;
    br_hf_bert_transform *transform;
    br_linear *decoder; /* tied: its weight to the word embeddings, its bias to `bias` */
    br_tensor *bias;    /* NULL in DistilBERT and ELECTRA, whose decoder has a bias of its own */
} br_hf_bert_predictions;

typedef struct br_hf_bert_heads {
    br_module base;
    br_hf_bert_predictions *predictions; /* NULL in BertForNextSentencePrediction */
    br_dropout *dropout;                 /* ALBERT: before seq_relationship; else NULL */
    br_linear *seq_relationship;         /* NULL in BertForMaskedLM */
} br_hf_bert_heads;

/* BertForPreTraining, BertForMaskedLM or BertForNextSentencePrediction, which differ in their
 * heads. BERT and ALBERT, whose seq_relationship is sop_classifier.classifier in transformers, have
 * a class with both heads; only BERT has the last one. */
typedef struct br_hf_bert_pretraining {
    br_module base;
    br_hf_bert *bert;
    br_hf_bert_heads *cls;
} br_hf_bert_pretraining;
BR_API br_hf_bert_pretraining *br_hf_bert_for_pretraining_new(const br_hf_bert_config *config);
BR_API br_hf_bert_pretraining *br_hf_bert_for_masked_lm_new(const br_hf_bert_config *config);
BR_API br_hf_bert_pretraining *br_hf_bert_for_next_sentence_new(const br_hf_bert_config *config);
/* Stores the prediction logits [B, S, vocab_size] in *prediction, and the next sentence logits [B,
 * 2] (class 0: the sentences are consecutive; ALBERT: in order) in *relationship. Either pointer
 * may be NULL. An output whose head the model lacks is set to NULL. Returns false on error. */
BR_API bool br_hf_bert_pretraining_forward(br_hf_bert_pretraining *self, br_tensor *input_ids,
                                           const br_hf_bert_options *options,
                                           br_tensor **prediction, br_tensor **relationship);

/* Computes out_proj(dropout(activation(dense(dropout(x))))): the classifier of RoBERTa, ELECTRA and
 * MPNet. ELECTRA's discriminator has no dropout, and its out_proj is named dense_prediction. */
typedef struct br_hf_bert_classification_head {
    br_module base;
    br_linear *dense, *out_proj;
    br_dropout *dropout;
    br_hf_bert_activation activation;
} br_hf_bert_classification_head;

/* Models with labels for sequences, tokens or ends of answers, and ELECTRA's discriminator. */
typedef struct br_hf_bert_classifier {
    br_module base;
    br_hf_bert *bert;
    br_linear *pre_classifier; /* DistilBERT's classifier of sequences: before a ReLU; else NULL */
    br_dropout *dropout;
    br_linear *classifier; /* NULL if the model has a `head` */
    br_hf_bert_classification_head *head;
    br_model_task task; /* of a discriminator: BR_TASK_OTHER */
} br_hf_bert_classifier;
/* Make transformers' BertForSequenceClassification, BertForTokenClassification and
 * BertForQuestionAnswering, whose num_labels must be 2. */
BR_API br_hf_bert_classifier *br_hf_bert_for_sequence_classification_new(
    const br_hf_bert_config *config);
BR_API br_hf_bert_classifier *br_hf_bert_for_token_classification_new(
    const br_hf_bert_config *config);
BR_API br_hf_bert_classifier *br_hf_bert_for_question_answering_new(
    const br_hf_bert_config *config);
/* Makes ELECTRA's ElectraForPreTraining. */
BR_API br_hf_bert_classifier *br_hf_bert_discriminator_new(const br_hf_bert_config *config);
/* Returns the logits: of sequences [B, num_labels]; of tokens [B, S, num_labels]; of the first and
 * the last token of an answer [B, S, 2]; of the discriminator [B, S], positive where a token was
 * replaced. */
BR_API br_tensor *br_hf_bert_classifier_forward(br_hf_bert_classifier *self, br_tensor *input_ids,
                                                const br_hf_bert_options *options);

#ifdef __cplusplus
}
#endif
#endif
