/* models/modernbert_family.c - the family of ModernBERT: its classes, the keys of config.json, and
 * the names of its weights. */
#include "models/modernbert_internal.h"

#include <string.h>

/* ---- config.json ----------------------------------------------------------------------------- */

static const br_config_default defaults[] = {
    { "vocab_size", "50368" },
    { "hidden_size", "768" },
    { "intermediate_size", "1152" },
    { "num_hidden_layers", "22" },
    { "num_attention_heads", "12" },
    { "hidden_activation", "\"gelu\"" },
    { "max_position_embeddings", "8192" },
    { "initializer_range", "0.02" },
    { "initializer_cutoff_factor", "2.0" },
    { "norm_eps", "1e-05" },
    { "norm_bias", "false" },
    { "pad_token_id", "50283" },
    { "eos_token_id", "50282" },
    { "bos_token_id", "50281" },
    { "cls_token_id", "50281" },
    { "sep_token_id", "50282" },
    { "attention_bias", "false" },
    { "attention_dropout", "0.0" },
    { "local_attention", "128" },
    { "embedding_dropout", "0.0" },
    { "mlp_bias", "false" },
    { "mlp_dropout", "0.0" },
    { "decoder_bias", "true" },
    { "classifier_pooling", "\"cls\"" },
    { "classifier_dropout", "0.0" },
    { "classifier_bias", "false" },
    { "classifier_activation", "\"gelu\"" },
    { "deterministic_flash_attn", "false" },
    { "sparse_prediction", "false" },
    { "sparse_pred_ignore_index", "-100" },
    { "tie_word_embeddings", "true" },
    { NULL, NULL },
};

static const br_config_limit limits[] = {
    { "is_encoder_decoder", "false", false },
    { "partial_rotary_factor", "1.0", false },
    { "rope_scaling.partial_rotary_factor", "1.0", false },
    { "rope_parameters.full_attention.partial_rotary_factor", "1.0", false },
    { "rope_parameters.sliding_attention.partial_rotary_factor", "1.0", false },
    { NULL, NULL, false },
};

/* These have no defaults. modernbert_config.c reads them down to original_max_position_embeddings;
 * the others are in files of version 4, and no code of version 5 reads them. */
static const char *const harmless[] = {
    "layer_types",
    "rope_parameters",
    "sliding_window",
    "global_attn_every_n_layers",
    "global_rope_theta",
    "local_rope_theta",
    "rope_scaling",
    "original_max_position_embeddings",
    "position_embedding_type",
    "layer_norm_eps",
    "reference_compile",
    "repad_logits_with_grad",
    NULL,
};

/* ---- Making models --------------------------------------------------------------------------- */

static const char base_name[] = "ModernBertModel";

static br_modernbert_config config_of(const br_auto_config *config)
{
    br_modernbert_config c = br_modernbert_config_from(config);
    return zoo_modernbert_checked(&c);
}

static void *make_base(const br_auto_config *config)
{
    return zoo_modernbert_make(config_of(config));
}

static void *make_masked_lm(const br_auto_config *config)
{
    return zoo_modernbert_make_lm(config_of(config));
}

static void *make_sequence_classifier(const br_auto_config *config)
{
    return zoo_modernbert_make_classifier(config_of(config), BR_TASK_SEQUENCE_CLASSIFICATION);
}

static void *make_token_classifier(const br_auto_config *config)
{
    return zoo_modernbert_make_classifier(config_of(config), BR_TASK_TOKEN_CLASSIFICATION);
}

static void *make_question_answerer(const br_auto_config *config)
{
    return zoo_modernbert_make_classifier(config_of(config), BR_TASK_QUESTION_ANSWERING);
}

static bool init(const br_auto_config *config, const char *key, br_tensor *weight)
{
    br_modernbert_config c = br_modernbert_config_from(config);
    return zoo_modernbert_init(&c, key, weight);
}

static const br_modernbert *base_of(br_module *module)
{
    if (strcmp(br_module_class(module), base_name) == 0)
        return (const br_modernbert *)module;
    return (const br_modernbert *)br_module_find(module, "model");
}

static const char *differing_key(br_module *a, br_module *b)
{
    const br_modernbert_config *x = &base_of(a)->config, *y = &base_of(b)->config;
    if (x->num_attention_heads != y->num_attention_heads)
        return "num_attention_heads";
    if (x->norm_eps != y->norm_eps)
        return "norm_eps";
    if (x->local_attention / 2 != y->local_attention / 2)
        return "local_attention";
    for (int64_t i = 0; i < x->num_hidden_layers; i++)
        if (zoo_modernbert_is_local(x, i) != zoo_modernbert_is_local(y, i))
            return "layer_types";
    if (!zoo_same_rope(&x->global_rope, &y->global_rope) ||
        !zoo_same_rope(&x->local_rope, &y->local_rope))
        return "rope_parameters";
    if (br_find_activation(x->hidden_activation) != br_find_activation(y->hidden_activation))
        return "hidden_activation";
    if (br_find_activation(x->classifier_activation) !=
        br_find_activation(y->classifier_activation))
        return "classifier_activation";
    return strcmp(x->classifier_pooling, y->classifier_pooling) != 0 ? "classifier_pooling" : NULL;
}

/* ---- Running models -------------------------------------------------------------------------- */

static br_modernbert_options options_of(const br_model_input *input)
{
    return *BR_OPTIONS(br_modernbert, .attention_mask = input->batch.attention_mask,
                       .cu_seqlens = input->cu_seqlens);
}

static br_tensor *run_base(br_module *model, const br_model_input *input)
{
    br_modernbert_options o = options_of(input);
    return br_modernbert_forward((br_modernbert *)model, input->batch.ids, &o);
}

static br_tensor *run_masked_lm(br_module *model, const br_model_input *input)
{
    br_modernbert_options o = options_of(input);
    return br_modernbert_lm_forward((br_modernbert_lm *)model, input->batch.ids, &o);
}

static br_tensor *run_classifier(br_module *model, const br_model_input *input)
{
    br_modernbert_options o = options_of(input);
    return br_modernbert_classifier_forward((br_modernbert_classifier *)model, input->batch.ids,
                                            &o);
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
    {
        .name = "ModernBertForMaskedLM",
        .task = BR_TASK_MASKED_LM,
        .make = make_masked_lm,
        .forward = run_masked_lm,
    },
    {
        .name = "ModernBertForSequenceClassification",
        .task = BR_TASK_SEQUENCE_CLASSIFICATION,
        .make = make_sequence_classifier,
        .forward = run_classifier,
    },
    {
        .name = "ModernBertForTokenClassification",
        .task = BR_TASK_TOKEN_CLASSIFICATION,
        .make = make_token_classifier,
        .forward = run_classifier,
    },
    {
        .name = "ModernBertForQuestionAnswering",
        .task = BR_TASK_QUESTION_ANSWERING,
        .make = make_question_answerer,
        .forward = run_classifier,
    },
    { .name = NULL },
};

static const char *const heads[] = { "head.", "decoder.", "classifier.", NULL };
static const char *const layers[] = { "num_hidden_layers", NULL };
static const br_config_rows rows[] = {
    { "vocab_size", "embeddings.tok_embeddings.weight" },
    { "num_labels", "classifier.weight" },
    { NULL, NULL },
};

const br_model_family zoo_modernbert_family = {
    .model_type = "modernbert",
    .config = { .defaults = defaults, .limits = limits, .harmless = harmless },
    .classes = classes,
    .keys = { .prefix = "model." },
    .heads = heads,
    .init = init,
    .layers = layers,
    .rows = rows,
    .packs = true,
    .differing_key = differing_key,
};
