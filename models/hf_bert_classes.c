/* models/hf_bert_classes.c - the functions of the families of BERT and its relatives. */
#include "models/hf_bert_internal.h"

#include <string.h>

/* ---- Making models --------------------------------------------------------------------------- */

static br_hf_bert_config config_of(const br_auto_config *config)
{
    br_hf_bert_config c = br_hf_bert_config_from(config);
    return zoo_hf_bert_checked(&c);
}

void *zoo_bert_make_base(const br_auto_config *config)
{
    return zoo_hf_bert_make(config_of(config), true);
}

void *zoo_bert_make_pretraining(const br_auto_config *config)
{
    return zoo_hf_bert_make_pretraining(config_of(config));
}

void *zoo_bert_make_masked_lm(const br_auto_config *config)
{
    return zoo_hf_bert_make_masked_lm(config_of(config));
}

void *zoo_bert_make_next_sentence(const br_auto_config *config)
{
    return zoo_hf_bert_make_next_sentence(config_of(config));
}

void *zoo_bert_make_sequence_classifier(const br_auto_config *config)
{
    return zoo_hf_bert_make_classifier(config_of(config), BR_TASK_SEQUENCE_CLASSIFICATION);
}

void *zoo_bert_make_token_classifier(const br_auto_config *config)
{
    return zoo_hf_bert_make_classifier(config_of(config), BR_TASK_TOKEN_CLASSIFICATION);
}

void *zoo_bert_make_question_answerer(const br_auto_config *config)
{
    return zoo_hf_bert_make_classifier(config_of(config), BR_TASK_QUESTION_ANSWERING);
}

void *zoo_bert_make_discriminator(const br_auto_config *config)
{
    return zoo_hf_bert_make_discriminator(config_of(config));
}

bool zoo_bert_init_weight(const br_auto_config *config, const char *name, br_tensor *weight)
{
    br_hf_bert_config c = br_hf_bert_config_from(config);
    return zoo_hf_bert_init(&c, name, weight);
}

/* ---- Lists ----------------------------------------------------------------------------------- */

const char *const zoo_bert_ignored[] = { "embeddings.position_ids", NULL };
/* A model that was trained without a pooler or with another head lacks only these. */
const char *const zoo_bert_heads[] = {
    "cls.", "pre_classifier.", "classifier.", "discriminator_predictions.", "qa_outputs.", NULL,
};
const char *const zoo_bert_layers[] = { "num_hidden_layers", NULL };
const br_config_rows zoo_bert_rows[] = {
    { "vocab_size", "embeddings.word_embeddings.weight" },
    { "num_labels", "classifier.weight" },
    { "num_labels", "classifier.out_proj.weight" },
    { NULL, NULL },
};

int64_t zoo_bert_max_tokens(const br_auto_config *config)
{
    br_hf_bert_config c = br_hf_bert_config_from(config);
    return c.max_position_embeddings - 1 - c.pad_token_id;
}

/* ---- Comparing models ------------------------------------------------------------------------ */

/* Returns true if the module is of one of the model type's classes. Sets *is_base to whether it is
 * the base model. */
static bool is_of(const br_module *module, const zoo_bert_kind *kind, bool *is_base)
{
    const br_model_class *first = br_model_family_find(kind->model_type)->classes, *c = first;
    while (c->name && strcmp(c->name, br_module_class(module)) != 0)
        c++;
    *is_base = c == first;
    return c->name != NULL;
}

static const br_hf_bert *base_of(br_module *module)
{
    bool is_base = true;
    int i = 0;
    while (zoo_bert_kind_at(i) && !is_of(module, zoo_bert_kind_at(i), &is_base))
        i++;
    return is_base ? (const br_hf_bert *)module
                   : (const br_hf_bert *)br_module_find(module, zoo_bert_kind_at(i)->base);
}

/* Returns the family's name for a key that BERT has, too: "n_heads" in DistilBERT. */
static const char *key_of(const char *model_type, const char *name)
{
    const br_config_alias *a = br_model_family_find(model_type)->config.aliases;
    while (a && a->name && strcmp(a->name, name) != 0)
        a++;
    return a && a->name ? a->key : name;
}

const char *zoo_bert_differing_key(br_module *a, br_module *b)
{
    const br_hf_bert_config *x = &base_of(a)->config, *y = &base_of(b)->config;
    const zoo_bert_kind *kind = zoo_bert_kind_of(x->model_type);
    if (x->num_attention_heads != y->num_attention_heads)
        return key_of(kind->model_type, "num_attention_heads");
    if (x->layer_norm_eps != y->layer_norm_eps)
        return "layer_norm_eps";
    if (kind->skips_padding && x->pad_token_id != y->pad_token_id)
        return "pad_token_id";
    if (kind->shares_layers && x->num_hidden_layers != y->num_hidden_layers)
        return "num_hidden_layers";
    if (br_find_activation(x->hidden_act) != br_find_activation(y->hidden_act))
        return kind->keys.hidden_act;
    return NULL;
}

/* ---- Running models -------------------------------------------------------------------------- */

static br_hf_bert_options options_of(const br_model_input *input)
{
    return *BR_OPTIONS(br_hf_bert, .attention_mask = input->batch.attention_mask,
                       .token_type_ids = input->batch.type_ids, .cu_seqlens = input->cu_seqlens);
}

br_tensor *zoo_bert_run_base(br_module *model, const br_model_input *input)
{
    br_hf_bert_options o = options_of(input);
    return br_hf_bert_forward((br_hf_bert *)model, input->batch.ids, &o);
}

br_tensor *zoo_bert_run_masked_lm(br_module *model, const br_model_input *input)
{
    br_hf_bert_options o = options_of(input);
    br_tensor *logits = NULL;
    br_hf_bert_pretraining_forward((br_hf_bert_pretraining *)model, input->batch.ids, &o, &logits,
                                   NULL);
    return logits;
}

br_tensor *zoo_bert_run_next_sentence(br_module *model, const br_model_input *input)
{
    br_hf_bert_options o = options_of(input);
    br_tensor *logits = NULL;
    br_hf_bert_pretraining_forward((br_hf_bert_pretraining *)model, input->batch.ids, &o, NULL,
                                   &logits);
    return logits;
}

br_tensor *zoo_bert_run_classifier(br_module *model, const br_model_input *input)
{
    br_hf_bert_options o = options_of(input);
    return br_hf_bert_classifier_forward((br_hf_bert_classifier *)model, input->batch.ids, &o);
}
