/* models/hf_bert_kinds.c - the table of BERT and its relatives. */
#include "models/hf_bert_internal.h"

#include <string.h>

/* The names of most model types. */
#define KEYS                                                                                    \
    {                                                                                           \
        .intermediate_size = "intermediate_size", .hidden_dropout_prob = "hidden_dropout_prob", \
        .attention_probs_dropout_prob = "attention_probs_dropout_prob",                         \
        .classifier_dropout = "classifier_dropout", .layer_norm_eps = "layer_norm_eps",         \
        .hidden_act = "hidden_act",                                                             \
    }
#define ROBERTA(type, class)                                                                       \
    {                                                                                              \
        .model_type = type, .base = "roberta", .keys = KEYS, .skips_padding = true,                \
        .predicts_with_gelu = true, .head = class "ClassificationHead", .head_activation = "tanh", \
    }

static const zoo_bert_kind kinds[] = {
    { .model_type = "bert", .base = "bert", .keys = KEYS, .pretraining = "BertForPreTraining" },
    ROBERTA("roberta", "Roberta"),
    ROBERTA("xlm-roberta", "XLMRoberta"),
    ROBERTA("camembert", "Camembert"),
    {
        .model_type = "distilbert",
        .base = "distilbert",
        .keys = { .intermediate_size = "hidden_dim",
                  .hidden_dropout_prob = "dropout",
                  .attention_probs_dropout_prob = "attention_dropout",
                  .classifier_dropout = "seq_classif_dropout",
                  .qa_dropout = "qa_dropout",
                  .hidden_act = "activation" },
        .has_no_types = true,
        .has_no_pooler = true,
        .attention_has_no_dropout = true,
        .decoder_has_bias = true,
        .needs_classifier_dropout = true,
        .tokens_have_hidden_dropout = true,
    },
    {
        .model_type = "electra",
        .base = "electra",
        .keys = KEYS,
        .has_no_pooler = true,
        .has_embedding_size = true,
        .predicts_with_gelu = true,
        .decoder_has_bias = true,
        .has_discriminator = true,
        .head = "ElectraClassificationHead",
        .head_activation = "gelu",
    },
    {
        .model_type = "albert",
        .base = "albert",
        .keys = { .intermediate_size = "intermediate_size",
                  .hidden_dropout_prob = "hidden_dropout_prob",
                  .attention_probs_dropout_prob = "attention_probs_dropout_prob",
                  .classifier_dropout = "classifier_dropout_prob",
                  .layer_norm_eps = "layer_norm_eps",
                  .hidden_act = "hidden_act" },
        .has_embedding_size = true,
        .projects_embeddings = true,
        .shares_layers = true,
        .feed_forward_has_no_dropout = true,
        .needs_classifier_dropout = true,
        .pretraining = "AlbertForPreTraining",
    },
    {
        .model_type = "mpnet",
        .base = "mpnet",
        .keys = { .intermediate_size = "intermediate_size",
                  .hidden_dropout_prob = "hidden_dropout_prob",
                  .attention_probs_dropout_prob = "attention_probs_dropout_prob",
                  .layer_norm_eps = "layer_norm_eps",
                  .hidden_act = "hidden_act" },
        .has_no_types = true,
        .skips_padding = true,
        .has_fixed_padding = true,
        .biases_scores = true,
        .predicts_with_gelu = true,
        .head = "MPNetClassificationHead",
        .head_activation = "tanh",
    },
};
enum { N_KINDS = sizeof kinds / sizeof *kinds };

const zoo_bert_kind *zoo_bert_kind_at(int i)
{
    return i < N_KINDS ? &kinds[i] : NULL;
}

const zoo_bert_kind *zoo_bert_kind_of(const char *model_type)
{
    int i = 0;
    while (model_type && i < N_KINDS && strcmp(kinds[i].model_type, model_type) != 0)
        i++;
    return zoo_bert_kind_at(i);
}
