/* models/modernbert_heads.c - ModernBERT's head for masks and its classifiers. */
#include "models/modernbert_internal.h"
#include "models/packed.h"

#include <inttypes.h>
#include <string.h>

/* ---- The layers before the logits ------------------------------------------------------------ */

static br_modernbert_head *new_head(const br_modernbert_config *c)
{
    br_modernbert_head *self = br_module_create(sizeof *self, "ModernBertPredictionHead");
    self->dense =
        br_child(self, "dense", br_linear_new(c->hidden_size, c->hidden_size, c->classifier_bias));
    self->norm = br_child(self, "norm", zoo_modernbert_norm(c));
    self->act = br_find_activation(c->classifier_activation);
    return self;
}

static br_tensor *run_head(br_modernbert_head *self, br_tensor *x)
{
    br_enter(self);
    x = self->act(br_linear_forward(self->dense, x));
    return br_leave(self, br_layer_norm_forward(self->norm, x));
}

/* ---- ModernBertForMaskedLM ------------------------------------------------------------------- */

br_modernbert_lm *zoo_modernbert_make_lm(br_modernbert_config c)
{
    br_modernbert_lm *self = br_module_create(sizeof *self, "ModernBertForMaskedLM");
    self->model = br_child(self, "model", zoo_modernbert_make(c));
    self->head = br_child(self, "head", new_head(&c));
    self->decoder =
        br_child(self, "decoder", br_linear_new(c.hidden_size, c.vocab_size, c.decoder_bias));
    if (!c.untied && !br_error_pending())
        self->decoder->weight = br_module_replace_parameter(
            br_base(self->decoder), "weight", self->model->embeddings->tok_embeddings->weight);
    return self;
}

br_modernbert_lm *br_modernbert_for_masked_lm_new(const br_modernbert_config *config)
{
    br_modernbert_config c = zoo_modernbert_checked(config);
    bool before = br_skip_init(true);
    br_modernbert_lm *self = zoo_modernbert_make_lm(c);
    br_skip_init(before);
    return zoo_init_module(br_base(self), zoo_modernbert_init, &c);
}

br_tensor *br_modernbert_lm_forward(br_modernbert_lm *self, br_tensor *input_ids,
                                    const br_modernbert_options *options)
{
    br_enter(self);
    const br_modernbert_options *o = BR_OPTIONS_OF("modernbert", br_modernbert, options);
    br_tensor *x = br_modernbert_forward(self->model, input_ids, o);
    x = br_linear_forward(self->decoder, run_head(self->head, x));
    zoo_modernbert_store_outputs(self->model, o);
    return br_leave(self, x);
}

/* ---- Classifiers ----------------------------------------------------------------------------- */

/* Returns the name of the class of a task, and checks the number of labels. */
static const char *class_of(const br_modernbert_config *c, br_model_task task)
{
    if (task == BR_TASK_SEQUENCE_CLASSIFICATION)
        return "ModernBertForSequenceClassification";
    if (task == BR_TASK_TOKEN_CLASSIFICATION)
        return "ModernBertForTokenClassification";
    if (c->num_labels != 2 && !br_error_pending())
        br_raise(BR_ERROR_ARGUMENT,
                 "modernbert: num_labels is %" PRId64
                 ", but a model that answers questions has 2: the first and the last token of an "
                 "answer",
                 c->num_labels);
    return "ModernBertForQuestionAnswering";
}

br_modernbert_classifier *zoo_modernbert_make_classifier(br_modernbert_config c, br_model_task task)
{
    br_modernbert_classifier *self = br_module_create(sizeof *self, class_of(&c, task));
    self->task = task;
    self->model = br_child(self, "model", zoo_modernbert_make(c));
    self->head = br_child(self, "head", new_head(&c));
    self->drop = br_child(self, "drop", br_dropout_new(c.classifier_dropout));
    self->classifier =
        br_child(self, "classifier", br_linear_new(c.hidden_size, c.num_labels, true));
    return self;
}

static br_modernbert_classifier *new_classifier(const br_modernbert_config *config,
                                                br_model_task task)
{
    br_modernbert_config c = zoo_modernbert_checked(config);
    bool before = br_skip_init(true);
    br_modernbert_classifier *self = zoo_modernbert_make_classifier(c, task);
    br_skip_init(before);
    return zoo_init_module(br_base(self), zoo_modernbert_init, &c);
}

br_modernbert_classifier *br_modernbert_for_sequence_classification_new(
    const br_modernbert_config *config)
{
    return new_classifier(config, BR_TASK_SEQUENCE_CLASSIFICATION);
}

br_modernbert_classifier *br_modernbert_for_token_classification_new(
    const br_modernbert_config *config)
{
    return new_classifier(config, BR_TASK_TOKEN_CLASSIFICATION);
}

br_modernbert_classifier *br_modernbert_for_question_answering_new(
    const br_modernbert_config *config)
{
    return new_classifier(config, BR_TASK_QUESTION_ANSWERING);
}

/* Returns the mean [B, hidden_size] of the rows of x [B, S, hidden_size] whose token is no padding.
 */
static br_tensor *mean_of_tokens(br_tensor *x, br_tensor *mask)
{
    if (!mask || br_error_pending())
        return br_mean_dim(x, BR_DIMS(1), false);
    br_tensor *weight = br_unsqueeze(br_to(br_ne_scalar(mask, 0), br_dtype_of(x)), -1);
    return br_div(br_sum_dim(br_mul(x, weight), BR_DIMS(1), false),
                  br_sum_dim(weight, BR_DIMS(1), false));
}

/* Returns the means of the texts of a packed batch. */
static br_tensor *means_of_texts(br_tensor *x, br_tensor *starts)
{
    int64_t *at = br_error_pending() ? NULL : zoo_copy_elements(starts);
    const int64_t n = at ? br_numel(starts) - 1 : 0;
    br_tensor **means = at ? br_calloc((size_t)n, sizeof *means) : NULL, *all = NULL;
    for (int64_t i = 0; means && i < n; i++)
        means[i] = br_mean_dim(br_narrow(x, 1, at[i], at[i + 1] - at[i]), BR_DIMS(1), false);
    if (means)
        all = br_cat((int)n, means, 0);
    br_free(means);
    br_free(at);
    return all;
}

/* Returns the vector of each sequence, [B, hidden_size]. */
static br_tensor *pool(const br_modernbert_classifier *self, br_tensor *x, br_tensor *mask,
                       br_tensor *starts)
{
    if (strcmp(self->model->config.classifier_pooling, "mean") != 0)
        return zoo_first_tokens(x, starts);
    return starts ? means_of_texts(x, starts) : mean_of_tokens(x, mask);
}

/* Returns the logits of rows x. */
static br_tensor *classify(br_modernbert_classifier *self, br_tensor *x)
{
    x = br_dropout_forward(self->drop, run_head(self->head, x));
    return br_linear_forward(self->classifier, x);
}

br_tensor *br_modernbert_classifier_forward(br_modernbert_classifier *self, br_tensor *input_ids,
                                            const br_modernbert_options *options)
{
    br_enter(self);
    const br_modernbert_options *o = BR_OPTIONS_OF("modernbert", br_modernbert, options);
    const bool of_texts = self->task == BR_TASK_SEQUENCE_CLASSIFICATION;
    br_tensor *starts = of_texts ? o->cu_seqlens : NULL;
    br_tensor *x = br_modernbert_forward(self->model, input_ids, o);
    if (of_texts)
        x = zoo_enough_rows(pool(self, x, o->attention_mask, starts), starts);
    x = zoo_own_rows(classify(self, x), starts);
    zoo_modernbert_store_outputs(self->model, o);
    return br_leave(self, x);
}
