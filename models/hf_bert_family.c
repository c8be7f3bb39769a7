/* models/hf_bert_family.c - the family of BERT: its classes, the keys of config.json, and the names
 * of its weights. */
#include "models/hf_bert_internal.h"

/* ---- config.json ----------------------------------------------------------------------------- */

static const br_config_default defaults[] = {
    { "vocab_size", "30522" },
    { "hidden_size", "768" },
    { "num_hidden_layers", "12" },
    { "num_attention_heads", "12" },
    { "intermediate_size", "3072" },
    { "hidden_act", "\"gelu\"" },
    { "hidden_dropout_prob", "0.1" },
    { "attention_probs_dropout_prob", "0.1" },
    { "max_position_embeddings", "512" },
    { "type_vocab_size", "2" },
    { "initializer_range", "0.02" },
    { "layer_norm_eps", "1e-12" },
    { "pad_token_id", "0" },
    { "bos_token_id", "null" },
    { "eos_token_id", "null" },
    { "classifier_dropout", "null" },
    { "use_cache", "true" },
    { "is_decoder", "false" },
    { "add_cross_attention", "false" },
    { "tie_word_embeddings", "true" },
    { NULL, NULL },
};

static const br_config_limit limits[] = {
    { "is_decoder", "false", true },
    { "add_cross_attention", "false", true },
    { "is_encoder_decoder", "false", false },
    { "position_embedding_type", "\"absolute\"", false },
    { NULL, NULL, false },
};

/* The pooler's keys are in multilingual BERT's file, and no code has ever read them. */
static const char *const harmless[] = {
    "directionality",
    "pooler_fc_size",
    "pooler_num_attention_heads",
    "pooler_num_fc_layers",
    "pooler_size_per_head",
    "pooler_type",
    NULL,
};

/* ---- The family ------------------------------------------------------------------------------ */

static const br_model_class classes[] = {
    ZOO_BERT_BASE("BertModel"),
    { .name = "BertForPreTraining", .make = zoo_bert_make_pretraining },
    ZOO_BERT_MASKED_LM("BertForMaskedLM"),
    {
        .name = "BertForNextSentencePrediction",
        .task = BR_TASK_NEXT_SENTENCE,
        .make = zoo_bert_make_next_sentence,
        .forward = zoo_bert_run_next_sentence,
    },
    ZOO_BERT_SEQUENCES("BertForSequenceClassification"),
    ZOO_BERT_TOKENS("BertForTokenClassification"),
    ZOO_BERT_QUESTIONS("BertForQuestionAnswering"),
    { .name = NULL },
};

const br_model_family zoo_hf_bert_family = {
    .model_type = "bert",
    .config = { .defaults = defaults, .limits = limits, .harmless = harmless },
    .classes = classes,
    .packs = true,
    .tokenizer_class = "BertTokenizer",
    .keys = { .prefix = "bert.", .ignored = zoo_bert_ignored },
    .heads = zoo_bert_heads,
    .pooler = "pooler.",
    .init = zoo_bert_init_weight,
    .layers = zoo_bert_layers,
    .rows = zoo_bert_rows,
    .differing_key = zoo_bert_differing_key,
};
