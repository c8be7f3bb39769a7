/* models/hf_bert_internal.h - BERT and its relatives: what distinguishes a model type, and the
 * functions from which the families are made. */
#ifndef BR_HF_BERT_INTERNAL_H
#define BR_HF_BERT_INTERNAL_H

#include "models/models_internal.h"

#include <brasa/models/hf_bert.h>

/* ---- Model types ----------------------------------------------------------------------------- */

/* Keys of config.json that DistilBERT and ALBERT have other names for; NULL: there is none. */
typedef struct zoo_bert_keys {
    const char *intermediate_size, *hidden_dropout_prob, *attention_probs_dropout_prob,
        *classifier_dropout, *qa_dropout, *layer_norm_eps, *hidden_act;
} zoo_bert_keys;

/* What distinguishes a model type from BERT; false and NULL mean like BERT. */
typedef struct zoo_bert_kind {
    const char *model_type;
    const char *base; /* name of the base model in a model with a head: "bert" */
    zoo_bert_keys keys;

    /* The base model */
    bool has_no_types, has_no_pooler;
    bool has_embedding_size;  /* of its own */
    bool projects_embeddings; /* also if embedding_size is hidden_size */
    bool skips_padding;       /* in positions */
    bool has_fixed_padding;   /* with id 1 */
    bool shares_layers, biases_scores;
    bool attention_has_no_dropout, feed_forward_has_no_dropout; /* of their results */

    /* Heads */
    bool predicts_with_gelu; /* whatever hidden_act is */
    bool decoder_has_bias;   /* of its own */
    bool has_discriminator;
    const char *pretraining; /* name of the class with both pretraining heads */
    /* A classifier of sequences without a pooler: the class of its module, NULL for DistilBERT's,
     * and the activation between its layers. */
    const char *head, *head_activation;
    bool needs_classifier_dropout;   /* null does not mean hidden_dropout_prob */
    bool tokens_have_hidden_dropout; /* before the classifier of tokens */
} zoo_bert_kind;

/* Returns the kind of a model type, that of BERT for NULL; NULL without an error if there is none.
 */
const zoo_bert_kind *zoo_bert_kind_of(const char *model_type);
/* Returns the i-th kind; NULL after the last. */
const zoo_bert_kind *zoo_bert_kind_at(int i);

/* ---- Families -------------------------------------------------------------------------------- */

/* The functions of a family: see br_model_family and br_model_class. */
void *zoo_bert_make_base(const br_auto_config *config);
void *zoo_bert_make_pretraining(const br_auto_config *config);
void *zoo_bert_make_masked_lm(const br_auto_config *config);
void *zoo_bert_make_next_sentence(const br_auto_config *config);
void *zoo_bert_make_sequence_classifier(const br_auto_config *config);
void *zoo_bert_make_token_classifier(const br_auto_config *config);
void *zoo_bert_make_question_answerer(const br_auto_config *config);
void *zoo_bert_make_discriminator(const br_auto_config *config);
br_tensor *zoo_bert_run_base(br_module *model, const br_model_input *input);
br_tensor *zoo_bert_run_masked_lm(br_module *model, const br_model_input *input);
br_tensor *zoo_bert_run_next_sentence(br_module *model, const br_model_input *input);
br_tensor *zoo_bert_run_classifier(br_module *model, const br_model_input *input);
bool zoo_bert_init_weight(const br_auto_config *config, const char *name, br_tensor *weight);
const char *zoo_bert_differing_key(br_module *a, br_module *b);
/* max_position_embeddings without the positions up to that of padding, for a family that has one.
 */
int64_t zoo_bert_max_tokens(const br_auto_config *config);
/* Lists of a family, which name the heads of all of them. */
extern const char *const zoo_bert_ignored[], *const zoo_bert_heads[], *const zoo_bert_layers[];
extern const br_config_rows zoo_bert_rows[];

/* Rows of `renames`: the head for masks of RoBERTa and MPNet. */
#define ZOO_BERT_LM_HEAD                                                        \
    { "lm_head.dense", "cls.predictions.transform.dense", false },              \
        { "lm_head.layer_norm", "cls.predictions.transform.LayerNorm", false }, \
        { "lm_head.decoder", "cls.predictions.decoder", false },                \
    {                                                                           \
        "lm_head.bias", "cls.predictions.bias", false                           \
    }

/* Rows of a family's `classes`. */
#define ZOO_BERT_BASE(class)                                                             \
    {                                                                                    \
        .name = class, .task = BR_TASK_BASE, .make = zoo_bert_make_base,                 \
        .forward = zoo_bert_run_base, .embeds_sentences = true, .shows_attention = true, \
    }
#define ZOO_BERT_HEAD(class, kind, head, runner)                   \
    {                                                              \
        .name = class, .task = kind, .make = zoo_bert_make_##head, \
        .forward = zoo_bert_run_##runner                           \
    }
#define ZOO_BERT_MASKED_LM(class) ZOO_BERT_HEAD(class, BR_TASK_MASKED_LM, masked_lm, masked_lm)
#define ZOO_BERT_SEQUENCES(class) \
    ZOO_BERT_HEAD(class, BR_TASK_SEQUENCE_CLASSIFICATION, sequence_classifier, classifier)
#define ZOO_BERT_TOKENS(class) \
    ZOO_BERT_HEAD(class, BR_TASK_TOKEN_CLASSIFICATION, token_classifier, classifier)
#define ZOO_BERT_QUESTIONS(class) \
    ZOO_BERT_HEAD(class, BR_TASK_QUESTION_ANSWERING, question_answerer, classifier)
/* Those that all families have, after the base model. */
#define ZOO_BERT_HEADS(prefix)                                  \
    ZOO_BERT_MASKED_LM(prefix "ForMaskedLM"),                   \
        ZOO_BERT_SEQUENCES(prefix "ForSequenceClassification"), \
        ZOO_BERT_TOKENS(prefix "ForTokenClassification"),       \
        ZOO_BERT_QUESTIONS(prefix "ForQuestionAnswering")

/* ---- Models ---------------------------------------------------------------------------------- */

/* Returns the configuration if it is valid. Otherwise an error is pending: returns one with the
 * smallest sizes, so that the constructors can go on and do nothing. */
br_hf_bert_config zoo_hf_bert_checked(const br_hf_bert_config *config);
/* Returns the name of the class of the model type with this task, "" and an error if there is none.
 */
const char *zoo_bert_class(const br_hf_bert_config *c, br_model_task task);
/* Returns the number of layers that run. */
int64_t zoo_hf_bert_layers(const br_hf_bert_config *c);
/* Makes the model from a checked configuration. Weights are not initialized under br_skip_init().
 */
br_hf_bert *zoo_hf_bert_make(br_hf_bert_config config, bool pooler);
/* Make a model with heads. */
br_hf_bert_pretraining *zoo_hf_bert_make_pretraining(br_hf_bert_config config);
br_hf_bert_pretraining *zoo_hf_bert_make_masked_lm(br_hf_bert_config config);
br_hf_bert_pretraining *zoo_hf_bert_make_next_sentence(br_hf_bert_config config);
br_hf_bert_classifier *zoo_hf_bert_make_classifier(br_hf_bert_config config, br_model_task task);
br_hf_bert_classifier *zoo_hf_bert_make_discriminator(br_hf_bert_config config);
/* Initializes a weight. `config` is a br_hf_bert_config. */
bool zoo_hf_bert_init(const void *config, const char *key, br_tensor *weight);
/* Batches without padding (models/hf_bert_packed.c). `starts` is what zoo_hf_bert_starts()
 * returned, NULL for a padded batch. */

/* Checks o->cu_seqlens and what must not be combined with it. Returns it in the host's memory;
 * NULL, with or without an error, if the batch is not packed. */
br_tensor *zoo_hf_bert_starts(const br_hf_bert *self, const br_tensor *ids,
                              const br_hf_bert_options *o);
/* Returns the positions of the tokens of each text, i64 [1, tokens]. */
br_tensor *zoo_hf_bert_packed_positions(const br_hf_bert_embeddings *self, br_tensor *ids,
                                        br_tensor *starts);
/* Moves the outputs requested by the options from the innermost scope to the enclosing one. */
void zoo_hf_bert_store_outputs(const br_hf_bert *self, const br_hf_bert_options *options);

#endif
