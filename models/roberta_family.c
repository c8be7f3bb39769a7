/* models/roberta_family.c - the families of RoBERTa, XLM-RoBERTa and CamemBERT, which differ in the
 * names of their classes, their vocabularies and their tokenizers. */
#include "models/hf_bert_internal.h"

/* ---- config.json ----------------------------------------------------------------------------- */

#define DEFAULTS(vocab_size)                                                                    \
    {                                                                                           \
        { "vocab_size", vocab_size }, { "hidden_size", "768" }, { "num_hidden_layers", "12" },  \
            { "num_attention_heads", "12" }, { "intermediate_size", "3072" },                   \
            { "hidden_act", "\"gelu\"" }, { "hidden_dropout_prob", "0.1" },                     \
            { "attention_probs_dropout_prob", "0.1" }, { "max_position_embeddings", "512" },    \
            { "type_vocab_size", "2" }, { "initializer_range", "0.02" },                        \
            { "layer_norm_eps", "1e-12" }, { "pad_token_id", "1" }, { "bos_token_id", "0" },    \
            { "eos_token_id", "2" }, { "classifier_dropout", "null" }, { "use_cache", "true" }, \
            { "is_decoder", "false" }, { "add_cross_attention", "false" },                      \
            { "tie_word_embeddings", "true" },                                                  \
        {                                                                                       \
            NULL, NULL                                                                          \
        }                                                                                       \
    }

static const br_config_default roberta_defaults[] = DEFAULTS("50265");
static const br_config_default xlm_defaults[] = DEFAULTS("30522");

static const br_config_limit limits[] = {
    { "is_decoder", "false", true },
    { "add_cross_attention", "false", true },
    { "is_encoder_decoder", "false", false },
    { "position_embedding_type", "\"absolute\"", false },
    { NULL, NULL, false },
};

/* ---- Classes and weights --------------------------------------------------------------------- */

static const br_model_class roberta_classes[] = {
    ZOO_BERT_BASE("RobertaModel"),
    ZOO_BERT_MASKED_LM("RobertaForMaskedLM"),
    ZOO_BERT_SEQUENCES("RobertaForSequenceClassification"),
    ZOO_BERT_TOKENS("RobertaForTokenClassification"),
    ZOO_BERT_QUESTIONS("RobertaForQuestionAnswering"),
    { .name = NULL },
};

static const br_model_class xlm_classes[] = {
    ZOO_BERT_BASE("XLMRobertaModel"),
    ZOO_BERT_MASKED_LM("XLMRobertaForMaskedLM"),
    ZOO_BERT_SEQUENCES("XLMRobertaForSequenceClassification"),
    ZOO_BERT_TOKENS("XLMRobertaForTokenClassification"),
    ZOO_BERT_QUESTIONS("XLMRobertaForQuestionAnswering"),
    { .name = NULL },
};

static const br_model_class camembert_classes[] = {
    ZOO_BERT_BASE("CamembertModel"),
    ZOO_BERT_MASKED_LM("CamembertForMaskedLM"),
    ZOO_BERT_SEQUENCES("CamembertForSequenceClassification"),
    ZOO_BERT_TOKENS("CamembertForTokenClassification"),
    ZOO_BERT_QUESTIONS("CamembertForQuestionAnswering"),
    { .name = NULL },
};

static const br_key_rename renames[] = {
    { "lm_head.dense", "cls.predictions.transform.dense", false },
    { "lm_head.layer_norm", "cls.predictions.transform.LayerNorm", false },
    { "lm_head.decoder", "cls.predictions.decoder", false },
    { "lm_head.bias", "cls.predictions.bias", false },
    { NULL, NULL, false },
};
static const char *const ignored[] = { "embeddings.position_ids", NULL };
static const char *const heads[] = { "cls.", "classifier.", "qa_outputs.", NULL };
static const char *const layers[] = { "num_hidden_layers", NULL };
static const br_config_rows rows[] = {
    { "vocab_size", "embeddings.word_embeddings.weight" },
    { "num_labels", "classifier.weight" },
    { "num_labels", "classifier.out_proj.weight" },
    { NULL, NULL },
};

static int64_t max_tokens(const br_auto_config *config)
{
    return br_auto_config_size(config, "max_position_embeddings") - 1 -
           br_auto_config_integer(config, "pad_token_id");
}

/* ---- The families ---------------------------------------------------------------------------- */

const br_model_family zoo_roberta_family = {
    .model_type = "roberta",
    .config = { .defaults = roberta_defaults, .limits = limits },
    .classes = roberta_classes,
    .tokenizer_class = "RobertaTokenizer",
    .max_tokens = max_tokens,
    .keys = { .prefix = "roberta.", .renames = renames, .ignored = ignored },
    .heads = heads,
    .pooler = "pooler.",
    .init = zoo_bert_init_weight,
    .layers = layers,
    .rows = rows,
    .differing_key = zoo_bert_differing_key,
};

const br_model_family zoo_xlm_roberta_family = {
    .model_type = "xlm-roberta",
    .config = { .defaults = xlm_defaults, .limits = limits },
    .classes = xlm_classes,
    .tokenizer_class = "XLMRobertaTokenizer",
    .max_tokens = max_tokens,
    .keys = { .prefix = "roberta.", .renames = renames, .ignored = ignored },
    .heads = heads,
    .pooler = "pooler.",
    .init = zoo_bert_init_weight,
    .layers = layers,
    .rows = rows,
    .differing_key = zoo_bert_differing_key,
};

const br_model_family zoo_camembert_family = {
    .model_type = "camembert",
    .config = { .defaults = xlm_defaults, .limits = limits },
    .classes = camembert_classes,
    .tokenizer_class = "CamembertTokenizer",
    .max_tokens = max_tokens,
    .keys = { .prefix = "roberta.", .renames = renames, .ignored = ignored },
    .heads = heads,
    .pooler = "pooler.",
    .init = zoo_bert_init_weight,
    .layers = layers,
    .rows = rows,
    .differing_key = zoo_bert_differing_key,
};
