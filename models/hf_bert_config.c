/* models/hf_bert_config.c - configurations of BERT and its relatives, and their initial weights. */
#include "models/hf_bert_internal.h"

#include <inttypes.h>
#include <string.h>

static const char op[] = "hf_bert";
static const char types[] =
    "bert, roberta, xlm-roberta, camembert, distilbert, electra, albert or mpnet";

br_hf_bert_config br_hf_bert_config_default(void)
{
    return (br_hf_bert_config){
        .model_type = "bert",
        .vocab_size = 30522,
        .hidden_size = 768,
        .num_hidden_layers = 12,
        .num_attention_heads = 12,
        .intermediate_size = 3072,
        .max_position_embeddings = 512,
        .type_vocab_size = 2,
        .num_labels = 2,
        .hidden_dropout_prob = 0.1,
        .attention_probs_dropout_prob = 0.1,
        .classifier_dropout = 0.1,
        .layer_norm_eps = 1e-12,
        .initializer_range = 0.02,
        .hidden_act = "gelu",
    };
}

/* ---- config.json ----------------------------------------------------------------------------- */

/* Returns the id of padding. If it has a position, it is not counted from the end if it is
 * negative, and must not be null. */
static int64_t read_padding(const br_auto_config *config, const zoo_bert_kind *kind)
{
    if (kind->has_fixed_padding)
        return 1;
    if (!kind->skips_padding)
        return br_auto_config_padding(config);
    if (br_auto_config_has(config, "pad_token_id"))
        return br_auto_config_integer(config, "pad_token_id");
    if (!br_error_pending())
        br_raise(
            BR_ERROR_FORMAT,
            "hf_bert: %s: pad_token_id is null, must be an id: a model of type %s gives padding "
            "a position",
            br_auto_config_path(config), kind->model_type);
    return -1;
}

static void read_sizes(const br_auto_config *config, const zoo_bert_kind *kind,
                       br_hf_bert_config *c)
{
    c->vocab_size = br_auto_config_size(config, "vocab_size");
    c->hidden_size = br_auto_config_size(config, "hidden_size");
    c->num_hidden_layers = br_auto_config_size(config, "num_hidden_layers");
    c->num_attention_heads = br_auto_config_size(config, "num_attention_heads");
    c->intermediate_size = br_auto_config_size(config, kind->keys.intermediate_size);
    c->max_position_embeddings = br_auto_config_size(config, "max_position_embeddings");
    c->num_labels = br_auto_config_size(config, "num_labels");
    c->pad_token_id = read_padding(config, kind);
    if (!kind->has_no_types)
        c->type_vocab_size = br_auto_config_size(config, "type_vocab_size");
    if (kind->has_embedding_size)
        c->embedding_size = br_auto_config_size(config, "embedding_size");
    if (kind->biases_scores)
        c->relative_attention_num_buckets =
            br_auto_config_size(config, "relative_attention_num_buckets");
    if (!kind->shares_layers)
        return;
    c->num_hidden_groups = br_auto_config_size(config, "num_hidden_groups");
    c->inner_group_num = br_auto_config_size(config, "inner_group_num");
}

/* Returns the dropout before a classifier, for which null usually means hidden_dropout_prob. */
static double read_classifier_dropout(const br_auto_config *config, const zoo_bert_kind *kind,
                                      double hidden_dropout_prob)
{
    const char *key = kind->keys.classifier_dropout;
    bool is_own = key && (kind->needs_classifier_dropout || br_auto_config_has(config, key));
    return is_own ? br_auto_config_probability(config, key) : hidden_dropout_prob;
}

static void read_numbers(const br_auto_config *config, const zoo_bert_kind *kind,
                         br_hf_bert_config *c)
{
    const zoo_bert_keys *keys = &kind->keys;
    c->hidden_dropout_prob = br_auto_config_probability(config, keys->hidden_dropout_prob);
    c->attention_probs_dropout_prob =
        br_auto_config_probability(config, keys->attention_probs_dropout_prob);
    c->classifier_dropout = read_classifier_dropout(config, kind, c->hidden_dropout_prob);
    c->qa_dropout = keys->qa_dropout ? br_auto_config_probability(config, keys->qa_dropout) : 0;
    c->layer_norm_eps =
        keys->layer_norm_eps ? br_auto_config_number(config, keys->layer_norm_eps) : 1e-12;
    c->initializer_range = br_auto_config_number(config, "initializer_range");
    c->hidden_act = br_auto_config_activation(config, keys->hidden_act, NULL);
    c->untied = !br_auto_config_bool(config, "tie_word_embeddings");
}

static bool read_config(const br_auto_config *config, br_hf_bert_config *c)
{
    const char *type = br_auto_config_model_type(config);
    const zoo_bert_kind *kind = zoo_bert_kind_of(type);
    if (!kind && !br_error_pending())
        br_raise(BR_ERROR_FORMAT, "hf_bert: %s: model_type is \"%s\", must be %s",
                 br_auto_config_path(config), br_printable(type), types);
    if (!kind || !br_auto_config_expect(config, kind->model_type))
        return false;
    *c = (br_hf_bert_config){ .model_type = kind->model_type };
    read_sizes(config, kind, c);
    read_numbers(config, kind, c);
    return br_auto_config_multiple(config, "hidden_size", "num_attention_heads");
}

br_hf_bert_config br_hf_bert_config_from(const br_auto_config *config)
{
    br_hf_bert_config c;
    return read_config(config, &c) ? c : (br_hf_bert_config){ 0 };
}

/* ---- Checks ---------------------------------------------------------------------------------- */

static bool good_type(const br_hf_bert_config *c)
{
    if (zoo_bert_kind_of(c->model_type))
        return true;
    br_raise(BR_ERROR_ARGUMENT, "hf_bert: model_type is '%s', must be %s",
             br_printable(c->model_type), types);
    return false;
}

static bool good_sizes(const br_hf_bert_config *c)
{
    const zoo_bert_kind *kind = zoo_bert_kind_of(c->model_type);
    const struct {
        const char *name;
        int64_t size;
    } sizes[] = {
        { "vocab_size", c->vocab_size },
        { "num_hidden_layers", c->num_hidden_layers },
        { "intermediate_size", c->intermediate_size },
        { "max_position_embeddings", c->max_position_embeddings },
        { "type_vocab_size", kind->has_no_types ? 1 : c->type_vocab_size },
        { "num_labels", c->num_labels },
        { "embedding_size", c->embedding_size ? c->embedding_size : 1 },
        { "num_hidden_groups", c->num_hidden_groups ? c->num_hidden_groups : 1 },
        { "inner_group_num", c->inner_group_num ? c->inner_group_num : 1 },
        { "relative_attention_num_buckets",
          kind->biases_scores ? c->relative_attention_num_buckets : 1 },
    };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        if (!zoo_good_size(op, sizes[i].name, sizes[i].size))
            return false;
    return zoo_good_multiple(op, "hidden_size", c->hidden_size, "num_attention_heads",
                             c->num_attention_heads) &&
           zoo_good_size(op, "num_hidden_layers * inner_group_num", zoo_hf_bert_layers(c));
}

/* Checks that the padding has an embedding, and a position if it needs one. */
static bool good_padding(const br_hf_bert_config *c)
{
    const zoo_bert_kind *kind = zoo_bert_kind_of(c->model_type);
    int64_t id = c->pad_token_id;
    if (id >= c->vocab_size)
        br_raise(BR_ERROR_ARGUMENT,
                 "hf_bert: pad_token_id is %" PRId64 ", must be below vocab_size %" PRId64, id,
                 c->vocab_size);
    else if (kind->skips_padding && (id < 0 || id >= c->max_position_embeddings))
        br_raise(BR_ERROR_ARGUMENT,
                 "hf_bert: pad_token_id is %" PRId64
                 ", but a model of type %s needs a position for "
                 "it: must be 0 .. max_position_embeddings - 1 = %" PRId64,
                 id, kind->model_type, c->max_position_embeddings - 1);
    return !br_error_pending();
}

static bool good_config(const br_hf_bert_config *c)
{
    if (!zoo_good_config(op, c) || !good_type(c) || !good_sizes(c) || !good_padding(c))
        return false;
    return br_require_activation(op, "hidden_act", c->hidden_act) &&
           zoo_good_probability(op, "attention_probs_dropout_prob",
                                c->attention_probs_dropout_prob) &&
           zoo_good_positive(op, "layer_norm_eps", c->layer_norm_eps) &&
           zoo_good_deviation(op, "initializer_range", c->initializer_range);
}

br_hf_bert_config zoo_hf_bert_checked(const br_hf_bert_config *config)
{
    return good_config(config) ? *config
                               : (br_hf_bert_config){ .num_attention_heads = 1,
                                                      .pad_token_id = -1,
                                                      .hidden_act = "gelu" };
}

int64_t zoo_hf_bert_layers(const br_hf_bert_config *c)
{
    return c->num_hidden_layers * (c->inner_group_num ? c->inner_group_num : 1);
}

const char *zoo_bert_class(const br_hf_bert_config *c, br_model_task task)
{
    const char *type = zoo_bert_kind_of(c->model_type)->model_type;
    const br_model_class *class = br_model_class_for(br_model_family_find(type), task);
    if (!class && !br_error_pending())
        br_raise(BR_ERROR_ARGUMENT, "hf_bert: models of type %s have no such head", type);
    return class ? class->name : "";
}

/* ---- Initial weights ------------------------------------------------------------------------- */

/* Returns true if the row of padding in an embedding is 0. */
static bool has_padding(const br_hf_bert_config *c, const char *key)
{
    bool skips = zoo_bert_kind_of(c->model_type)->skips_padding;
    return c->pad_token_id >= 0 && (zoo_ends_with(key, "word_embeddings.weight") ||
                                    (skips && zoo_ends_with(key, "position_embeddings.weight")));
}

bool zoo_hf_bert_init(const void *of, const char *key, br_tensor *weight)
{
    const br_hf_bert_config *c = of;
    if (zoo_ends_with(key, "LayerNorm.weight"))
        return br_init_ones_(weight);
    if (br_ndim(weight) < 2)
        return br_init_zeros_(weight);
    if (!br_init_normal_(weight, 0, c->initializer_range))
        return false;
    if (!has_padding(c, key))
        return true;
    br_scope *scope = br_no_grad_begin();
    br_zero_(br_select(weight, 0, c->pad_token_id));
    br_scope_end(scope);
    return !br_error_pending();
}
