/* pretrained/pipeline.c - pipelines: loading, and the classification of texts. pipeline_tags.c tags
 * tokens, pipeline_answers.c answers questions. */
#include "pretrained/pipeline_internal.h"

#include "nn/nn_internal.h"
#include "pretrained/text_pack.h"
#include "tensor/device.h"
#include "tensor/handles.h"

#include <inttypes.h>
#include <string.h>

BR_DEFINE_DEFAULTS(br_pipeline)
BR_DEFINE_DEFAULTS(br_classify)

static const char op[] = "pipeline";

/* ---- Loading --------------------------------------------------------------------------------- */

static bool classifies_texts(const br_model_class *class)
{
    return class->task == BR_TASK_SEQUENCE_CLASSIFICATION && class->forward;
}

static bool tags_tokens(const br_model_class *class)
{
    return class->task == BR_TASK_TOKEN_CLASSIFICATION && class->forward;
}

static bool answers_questions(const br_model_class *class)
{
    return class->task == BR_TASK_QUESTION_ANSWERING && class->forward;
}

/* The tasks of pipelines. */
static const struct {
    br_model_task task;
    const char *name, *what;
    bool (*fits)(const br_model_class *class);
} tasks[] = {
    { BR_TASK_SEQUENCE_CLASSIFICATION, "BR_TASK_SEQUENCE_CLASSIFICATION", "classes of texts are",
      classifies_texts },
    { BR_TASK_TOKEN_CLASSIFICATION, "BR_TASK_TOKEN_CLASSIFICATION", "tags of tokens are",
      tags_tokens },
    { BR_TASK_QUESTION_ANSWERING, "BR_TASK_QUESTION_ANSWERING", "answers to questions are",
      answers_questions },
};
enum { N_TASKS = sizeof tasks / sizeof *tasks };

/* Returns the index of a task, or N_TASKS. */
static int index_of(br_model_task task)
{
    int i = 0;
    while (i < N_TASKS && tasks[i].task != task)
        i++;
    return i;
}

static bool find_class(br_pipeline *self, br_model_task task)
{
    int i = index_of(task);
    self->class = br__class_that_fits(op, self->config, tasks[i].fits, tasks[i].what);
    return self->class;
}

/* Reads the names of the labels. */
static bool read_labels(br_pipeline *self)
{
    self->n_labels = br_auto_config_size(self->config, "num_labels");
    if (br_failed())
        return false;
    self->labels = br_calloc((size_t)self->n_labels, sizeof *self->labels);
    for (int64_t i = 0; self->labels && i < self->n_labels; i++) {
        self->labels[i] = br_auto_config_label(self->config, i);
        if (!self->labels[i])
            return false;
    }
    return self->labels;
}

/* Reads which scores the model was trained for. */
static bool read_scores(br_pipeline *self)
{
    static const br_scores by_type[] = { BR_SCORES_LOGITS, BR_SCORES_SIGMOID, BR_SCORES_SOFTMAX };
    self->scores = self->n_labels == 1 ? BR_SCORES_SIGMOID : BR_SCORES_SOFTMAX;
    if (!br_auto_config_has(self->config, "problem_type"))
        return !br_failed();
    int i = br_auto_config_choice(
        self->config, "problem_type",
        BR_CHOICES("regression", "multi_label_classification", "single_label_classification"));
    if (i < 0)
        return false;
    if (i < 2 || self->n_labels > 1)
        self->scores = by_type[i];
    return true;
}

static bool load_module(br_pipeline *self, const char *dir, const br_pipeline_options *o,
                        br_auto_model_report *report)
{
    br_auto_model_report own = { 0 }, *r = report ? report : &own;
    self->module = br_auto_model_load(dir,
                                      BR_OPTIONS(br_auto_model, .class_name = self->class->name,
                                                 .dtype = o->dtype, .adapter = o->adapter),
                                      r);
    if (self->module && r->missing > 0)
        br_fail(BR_ERROR_FORMAT, op,
                "%s: the files lack weights of a %s, which would have random values: %s",
                br_printable(dir), self->class->name, br_printable(r->missing_names));
    br_auto_model_report_clear(&own);
    return !br_failed();
}

static bool load(br_pipeline *self, const char *dir, br_model_task task,
                 const br_pipeline_options *o, br_auto_model_report *report)
{
    self->config = br_auto_config_load(dir);
    if (!self->config || !find_class(self, task) || !read_labels(self) || !read_scores(self))
        return false;
    self->tokenizer = br_auto_tokenizer_load(
        dir, BR_OPTIONS(br_auto_tokenizer, .do_lower_case = o->do_lower_case));
    self->limits = (br_text_limits){ .config = self->config,
                                     .tokenizer = self->tokenizer,
                                     .option = "max_length",
                                     .command = "classify" };
    return self->tokenizer && br__read_limits(&self->limits) && load_module(self, dir, o, report);
}

static bool check_load(const char *dir, br_model_task task, const br_pipeline_options *o)
{
    if (!br__required(op, "dir", dir))
        return false;
    if (index_of(task) == N_TASKS)
        br_fail(BR_ERROR_ARGUMENT, op,
                "task is %d, must be BR_TASK_SEQUENCE_CLASSIFICATION, "
                "BR_TASK_TOKEN_CLASSIFICATION or BR_TASK_QUESTION_ANSWERING",
                (int)task);
    else if (o->do_lower_case < BR_SETTING_AUTO || o->do_lower_case > BR_SETTING_ON)
        br_fail(BR_ERROR_ARGUMENT, op, "the option do_lower_case is %d, must be one of br_setting",
                (int)o->do_lower_case);
    return !br_failed();
}

br_pipeline *br_pipeline_load(const char *dir, br_model_task task,
                              const br_pipeline_options *options, br_auto_model_report *report)
{
    if (report)
        *report = (br_auto_model_report){ 0 };
    const br_pipeline_options *o = BR_OPTIONS_OF(op, br_pipeline, options);
    if (!check_load(dir, task, o))
        return NULL;
    br_pipeline *self = BR_NEW(br_pipeline);
    if (self && load(self, dir, task, o, report))
        return self;
    br_pipeline_free(self);
    return NULL;
}

void br_pipeline_free(br_pipeline *self)
{
    if (!BR_END("pipeline_free", self))
        return;
    for (int64_t i = 0; self->labels && i < self->n_labels; i++)
        br_free(self->labels[i]);
    br_free(self->labels);
    br_module_free(self->module);
    br_tokenizer_free(self->tokenizer);
    br_auto_config_free(self->config);
    BR_FREE(self);
}

/* ---- Parts ----------------------------------------------------------------------------------- */

int64_t br_pipeline_labels(const br_pipeline *self)
{
    return br__required("pipeline_labels", "self", self) ? self->n_labels : 0;
}

const char *br_pipeline_label(const br_pipeline *self, int64_t id)
{
    static const char each[] = "pipeline_label";
    if (!br__required(each, "self", self))
        return NULL;
    if (id >= 0 && id < self->n_labels)
        return self->labels[id];
    return br_fail(BR_ERROR_INDEX, each, "id is %" PRId64 ", must be 0 .. %" PRId64, id,
                   self->n_labels - 1);
}

const br_tokenizer *br_pipeline_tokenizer(const br_pipeline *self)
{
    return br__required("pipeline_tokenizer", "self", self) ? self->tokenizer : NULL;
}

br_module *br_pipeline_module(const br_pipeline *self)
{
    return br__required("pipeline_module", "self", self) ? self->module : NULL;
}

/* ---- Running --------------------------------------------------------------------------------- */

bool br__pipeline_begin(const char *operation, br_pipeline *self, br_model_task task)
{
    if (!br__required(operation, "self", self))
        return false;
    if (self->class->task != task)
        return br_fail(BR_ERROR_ARGUMENT, operation,
                       "self has a %s, must be loaded with the task %s", self->class->name,
                       tasks[index_of(task)].name);
    if (br_is_training(self->module))
        br_eval(self->module);
    return !br_failed();
}

br_tensor *br__pipeline_logits(const char *operation, const br_pipeline *self,
                               const br_token_batch *batch)
{
    const br_device device = br_module_device(self->module);
    br_model_input input = { .batch = { .ids = br_to_device(batch->ids, device),
                                        .attention_mask =
                                            br_to_device(batch->attention_mask, device),
                                        .type_ids = br_to_device(batch->type_ids, device) } };
    br_tensor *logits = self->class->forward(self->module, &input);
    return br_to(br__on_host(operation, logits), BR_F32);
}

/* ---- Classification of texts ----------------------------------------------------------------- */

/* A call of br_pipeline_classify(). */
typedef struct classification {
    const br_pipeline *self;
    const br_classify_options *o;
    int64_t n;
    br_text *texts, *pairs; /* with their lengths; pairs may be NULL */
    int64_t *order;         /* indices of the texts, sorted by length */
    br_tensor *rows;
} classification;

static const char classify_op[] = "pipeline_classify";

static bool check_options(const br_classify_options *o)
{
    if (o->max_length < 0)
        br_fail(BR_ERROR_ARGUMENT, classify_op,
                "the option max_length is %" PRId64 ", must be at least 0", o->max_length);
    else if (o->scores < BR_SCORES_AUTO || o->scores > BR_SCORES_LOGITS)
        br_fail(BR_ERROR_ARGUMENT, classify_op, "the option scores is %d, must be one of br_scores",
                (int)o->scores);
    return !br_failed();
}

static bool copy_texts(classification *c, const br_text *texts, const br_text *pairs)
{
    c->texts = br__copy_texts(classify_op, "texts", c->n, texts);
    if (c->texts && pairs)
        c->pairs = br__copy_texts(classify_op, "pairs", c->n, pairs);
    if (!br_failed())
        c->order = br__sort_by_length(c->n, c->texts, c->pairs);
    return !br_failed();
}

static bool tokenize(const classification *c, const int64_t *order, int64_t n,
                     br_token_batch *batch)
{
    br_text *texts = br__chosen_texts(c->texts, order, n);
    br_text *pairs = texts && c->pairs ? br__chosen_texts(c->pairs, order, n) : NULL;
    bool ok = !br_failed() && br_tokenizer_encode_batch(
                                  c->self->tokenizer, n, texts, pairs,
                                  BR_OPTIONS(br_encode, .max_length = c->o->max_length), batch);
    br_free(texts);
    br_free(pairs);
    return ok && br__check_tokens(classify_op, &c->self->limits, order, batch);
}

static br_tensor *scores_of(const classification *c, br_tensor *logits)
{
    br_scores scores = c->o->scores == BR_SCORES_AUTO ? c->self->scores : c->o->scores;
    switch (scores) {
    case BR_SCORES_SOFTMAX:
        return br_softmax(logits, -1);
    case BR_SCORES_SIGMOID:
        return br_sigmoid(logits);
    default:
        return logits;
    }
}

/* Stores the scores of the texts order[0] .. order[n - 1]. */
static bool store_scores(const classification *c, const int64_t *order, int64_t n,
                         br_tensor *logits)
{
    br_tensor *scores = logits ? scores_of(c, logits) : NULL;
    for (int64_t i = 0; scores && i < n; i++)
        br_copy_(br_select(c->rows, 0, order[i]), br_select(scores, 0, i));
    return !br_failed();
}

/* A batch of a classification. */
typedef struct classified_batch {
    const classification *c;
    const int64_t *order;
} classified_batch;

static bool classify_pack(const void *of, const br_text_pack *pack)
{
    const classified_batch *b = of;
    const br_pipeline *self = b->c->self;
    br_tensor *logits = self->class->forward(self->module, &pack->input);
    logits = br_to(br__on_host(classify_op, logits), BR_F32);
    return store_scores(b->c, b->order + pack->from, pack->n, logits);
}

/* Classifies the texts order[from] .. order[from + n - 1] into their rows. */
static bool classify_batch(const void *of, int64_t from, int64_t n)
{
    const classification *c = of;
    const br_pipeline *self = c->self;
    const int64_t *order = c->order + from;
    br_scope *scope = br_scope_begin();
    br_token_batch batch = { 0 };
    const bool ok = tokenize(c, order, n, &batch);
    if (ok && br__packs(self->config, &batch))
        br__run_packs(classify_op, &batch, br_module_device(self->module), classify_pack,
                      &(classified_batch){ c, order });
    else if (ok)
        store_scores(c, order, n, br__pipeline_logits(classify_op, self, &batch));
    br_scope_end(scope);
    return !br_failed();
}

br_tensor *br_pipeline_classify(br_pipeline *self, int64_t n, const br_text *texts,
                                const br_text *pairs, const br_classify_options *options)
{
    const br_classify_options *o = BR_OPTIONS_OF(classify_op, br_classify, options);
    const br_text_batches batches = { classify_op, n, o->batch_size, o->on_batch, o->context };
    if (!br__pipeline_begin(classify_op, self, BR_TASK_SEQUENCE_CLASSIFICATION) ||
        !check_options(o) || !br__check_batches(&batches, texts))
        return NULL;
    br_scope *scope = br_no_grad_begin();
    classification c = { .self = self, .o = o, .n = n };
    c.rows = br__new_on_host(classify_op, BR_SHAPE(n, self->n_labels), BR_F32);
    bool ok =
        c.rows && copy_texts(&c, texts, pairs) && br__run_batches(&batches, classify_batch, &c);
    br_tensor *rows = ok ? br_scope_return(scope, c.rows) : NULL;
    br_free(c.texts);
    br_free(c.pairs);
    br_free(c.order);
    br_scope_end(scope);
    return rows;
}
