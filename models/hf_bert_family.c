/* models/hf_bert_family.c - the family of BERT: its classes, the keys of config.json, and the names
 * of its weights. */
#include "models/hf_bert_internal.h"

#include <string.h>

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

/* ---- Making models --------------------------------------------------------------------------- */

static const char base_name[] = "BertModel";

static br_hf_bert_config config_of(const br_auto_config *config)
{
    br_hf_bert_config c = br_hf_bert_config_from(config);
    return zoo_hf_bert_checked(&c);
}

static void *make_base(const br_auto_config *config)
{
    return zoo_hf_bert_make(config_of(config), true);
}

static void *make_pretraining(const br_auto_config *config)
{
    return zoo_hf_bert_make_pretraining(config_of(config), zoo_bert_pretraining);
}

static void *make_masked_lm(const br_auto_config *config)
{
    return zoo_hf_bert_make_pretraining(config_of(config), zoo_bert_masked_lm);
}

static void *make_next_sentence(const br_auto_config *config)
{
    return zoo_hf_bert_make_pretraining(config_of(config), zoo_bert_next_sentence);
}

static void *make_classification(const br_auto_config *config)
{
    return zoo_hf_bert_make_classifier(config_of(config));
}

static bool init(const br_auto_config *config, const char *key, br_tensor *weight)
{
    br_hf_bert_config c = br_hf_bert_config_from(config);
    return zoo_hf_bert_init(&c, key, weight);
}

static const br_hf_bert *base_of(br_module *module)
{
    if (strcmp(br_module_class(module), base_name) == 0)
        return (const br_hf_bert *)module;
    return (const br_hf_bert *)br_module_find(module, "bert");
}

static br_hf_bert_activation activation_of(const br_hf_bert *bert)
{
    const br_hf_bert_layer *first = br_module_list_at(bert->encoder->layer, 0);
    return first->intermediate->activation;
}

static const char *differing_key(br_module *a, br_module *b)
{
    const br_hf_bert *x = base_of(a), *y = base_of(b);
    if (x->config.num_attention_heads != y->config.num_attention_heads)
        return "num_attention_heads";
    if (x->config.layer_norm_eps != y->config.layer_norm_eps)
        return "layer_norm_eps";
    return activation_of(x) != activation_of(y) ? "hidden_act" : NULL;
}

/* ---- Running models -------------------------------------------------------------------------- */

static br_hf_bert_options options_of(const br_model_input *input)
{
    return *BR_OPTIONS(br_hf_bert, .attention_mask = input->batch.attention_mask,
                       .token_type_ids = input->batch.type_ids);
}

static br_tensor *run_base(br_module *model, const br_model_input *input)
{
    br_hf_bert_options o = options_of(input);
    return br_hf_bert_forward((br_hf_bert *)model, input->batch.ids, &o);
}

static br_tensor *run_masked_lm(br_module *model, const br_model_input *input)
{
    br_hf_bert_options o = options_of(input);
    br_tensor *logits = NULL;
    br_hf_bert_pretraining_forward((br_hf_bert_pretraining *)model, input->batch.ids, &o, &logits,
                                   NULL);
    return logits;
}

static br_tensor *run_next_sentence(br_module *model, const br_model_input *input)
{
    br_hf_bert_options o = options_of(input);
    br_tensor *logits = NULL;
    br_hf_bert_pretraining_forward((br_hf_bert_pretraining *)model, input->batch.ids, &o, NULL,
                                   &logits);
    return logits;
}

static br_tensor *run_classification(br_module *model, const br_model_input *input)
{
    br_hf_bert_options o = options_of(input);
    return br_hf_bert_classifier_forward((br_hf_bert_classifier *)model, input->batch.ids, &o);
}

/* ---- The family ------------------------------------------------------------------------------ */

static const br_model_class classes[] = {
    {
        .name = base_name,
        .task = BR_TASK_BASE,
        .make = make_base,
        .forward = run_base,
        .embeds_sentences = true,
        .shows_attention = true,
    },
    { .name = zoo_bert_pretraining, .make = make_pretraining },
    {
        .name = zoo_bert_masked_lm,
        .task = BR_TASK_MASKED_LM,
        .make = make_masked_lm,
        .forward = run_masked_lm,
    },
    {
        .name = zoo_bert_next_sentence,
        .task = BR_TASK_NEXT_SENTENCE,
        .make = make_next_sentence,
        .forward = run_next_sentence,
    },
    {
        .name = zoo_bert_classification,
        .task = BR_TASK_SEQUENCE_CLASSIFICATION,
        .make = make_classification,
        .forward = run_classification,
    },
    { .name = NULL },
};

/* A BERT that was trained without a pooler or with another head lacks only these. */
static const char *const heads[] = { "cls.", "classifier.", NULL };
static const char *const ignored[] = { "embeddings.position_ids", NULL };
static const char *const layers[] = { "num_hidden_layers", NULL };
static const br_config_rows rows[] = {
    { "vocab_size", "embeddings.word_embeddings.weight" },
    { "num_labels", "classifier.weight" },
    { NULL, NULL },
};

const br_model_family zoo_hf_bert_family = {
    .model_type = "bert",
    .config = { .defaults = defaults, .limits = limits, .harmless = harmless },
    .classes = classes,
    .tokenizer_class = "BertTokenizer",
    .keys = { .prefix = "bert.", .ignored = ignored },
    .heads = heads,
    .pooler = "pooler.",
    .init = init,
    .layers = layers,
    .rows = rows,
    .differing_key = differing_key,
};
