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
    ZOO_BERT_HEADS("Roberta"),
    { .name = NULL },
};

static const br_model_class xlm_classes[] = {
    ZOO_BERT_BASE("XLMRobertaModel"),
    ZOO_BERT_HEADS("XLMRoberta"),
    { .name = NULL },
};

static const br_model_class camembert_classes[] = {
    ZOO_BERT_BASE("CamembertModel"),
    ZOO_BERT_HEADS("Camembert"),
    { .name = NULL },
};

static const br_key_rename renames[] = {
    ZOO_BERT_LM_HEAD,
    { NULL, NULL, false },
};

/* ---- The families ---------------------------------------------------------------------------- */

#define FAMILY(type, defaults_of, classes_of, tokenizer)                                           \
    {                                                                                              \
        .model_type = type, .config = { .defaults = defaults_of, .limits = limits },               \
        .classes = classes_of, .tokenizer_class = tokenizer, .max_tokens = zoo_bert_max_tokens,    \
        .packs = true,                                                                             \
        .keys = { .prefix = "roberta.", .renames = renames, .ignored = zoo_bert_ignored },         \
        .heads = zoo_bert_heads, .pooler = "pooler.", .init = zoo_bert_init_weight,                \
        .layers = zoo_bert_layers, .rows = zoo_bert_rows, .differing_key = zoo_bert_differing_key, \
    }

const br_model_family zoo_roberta_family =
    FAMILY("roberta", roberta_defaults, roberta_classes, "RobertaTokenizer");
const br_model_family zoo_xlm_roberta_family =
    FAMILY("xlm-roberta", xlm_defaults, xlm_classes, "XLMRobertaTokenizer");
const br_model_family zoo_camembert_family =
    FAMILY("camembert", xlm_defaults, camembert_classes, "CamembertTokenizer");
