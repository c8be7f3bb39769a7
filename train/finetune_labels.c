/* train/finetune_labels.c - the objective "classify" of `brasa finetune`: trains a pretrained
 * encoder to give labels to texts. */
#include "train/finetune.h"
#include "train/labelled.h"

#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { TARGET = FINETUNE_ENCODED, FIELDS }; /* i64 [], or f32 [labels] */
enum { SHOWN = 5 };
enum { LOSS, ACCURACY }; /* metrics */

typedef struct labels_task {
    finetune base;
    setting_choice problem;
    labelled data;
    br_vocab *names;              /* of the labels */
    finetune_encodings encodings; /* of the examples */
    char *overrides;              /* of config.json */
} labels_task;

static const char *const problems[] = { [LABELLED_AUTO] = "auto",
                                        [LABELLED_SINGLE] = "single_label_classification",
                                        [LABELLED_MULTI] = "multi_label_classification",
                                        [LABELLED_REGRESSION] = "regression",
                                        NULL };

/* ---- Settings -------------------------------------------------------------------------------- */

static void preset(void *context, const char *name, bool as_written, train_options *options)
{
    (void)as_written;
    labels_task *self = context;
    bool lora = strcmp(name, "lora") == 0;
    finetune_preset(&self->base, options, lora, lora ? 2e-4 : 5e-5);
    self->base.merge = true; /* an adapter does not have the names of the labels */
    self->problem = (setting_choice){ .names = problems };
}

static void add_settings(void *context, settings *s)
{
    labels_task *self = context;
    finetune_add_settings(&self->base, s);
    settings_add(s, (setting){ "problem_type", SETTING_CHOICE, &self->problem, 0, 0, false,
                               "auto: lists of labels are multi-label, fractions are regression" });
}

/* ---- Labels ---------------------------------------------------------------------------------- */

/* Returns the labels of the model in their order; NULL with an error on failure. */
static br_vocab *names_of_model(const finetune *f)
{
    br_auto_config *config = br_auto_config_load(f->model_dir.text);
    br_vocab *names = config ? br_vocab_new() : NULL;
    int64_t n = config ? br_auto_config_size(config, "num_labels") : 0;
    for (int64_t i = 0; i < n && !br_failed(); i++) {
        char *name = br_auto_config_label(config, i);
        if (name)
            br_vocab_add(names, name, strlen(name));
        br_free(name);
    }
    br_auto_config_free(config);
    if (!br_failed() && br_vocab_size(names) == n)
        return names;
    br_vocab_free(names);
    return NULL;
}

static bool has_all(const br_vocab *names, const br_vocab *wanted)
{
    for (int64_t i = 0; i < br_vocab_size(wanted); i++) {
        const char *name = br_vocab_word(wanted, i);
        if (br_vocab_find(names, name, strlen(name)) < 0)
            return false;
    }
    return true;
}

/* Uses the labels of the model if they have all of the data's, and with them its head. */
static bool find_names(labels_task *self)
{
    self->names = labelled_names(&self->data);
    br_vocab *own = self->names ? names_of_model(&self->base) : NULL;
    if (own && has_all(own, self->names)) {
        br_vocab *data = self->names;
        self->names = own;
        own = data;
    }
    br_vocab_free(own);
    if (self->names && br_vocab_size(self->names) < 2)
        br_raise(BR_ERROR_ARGUMENT,
                 "all examples have the label \"%s\", must have at least two labels",
                 br_printable(br_vocab_word(self->names, 0)));
    return !br_failed() && labelled_number(&self->data, self->names);
}

/* Returns {"0": the first label, ...}, or the labels with their numbers; NULL if that fails. */
static json_t *label_map(const br_vocab *names, bool by_id)
{
    json_t *map = json_object();
    bool ok = map != NULL;
    for (int64_t i = 0; ok && i < br_vocab_size(names); i++) {
        char id[24];
        snprintf(id, sizeof id, "%" PRId64, i);
        const char *name = br_vocab_word(names, i);
        ok = by_id ? json_object_set_new(map, id, json_string(name)) == 0
                   : json_object_set_new(map, name, json_integer(i)) == 0;
    }
    if (ok)
        return map;
    json_decref(map);
    return NULL;
}

/* Sets the keys of config.json that the data decide. */
static bool make_overrides(labels_task *self)
{
    bool regression = self->data.problem == LABELLED_REGRESSION;
    json_t *ids = NULL, *numbers = NULL, *object;
    if (regression)
        object = json_pack("{s:i, s:{s:s}, s:{s:i}, s:s}", "num_labels", 1, "id2label", "0",
                           "LABEL_0", "label2id", "LABEL_0", 0, "problem_type", "regression");
    else if ((ids = label_map(self->names, true)) && (numbers = label_map(self->names, false)))
        object =
            json_pack("{s:I, s:o, s:o, s:s}", "num_labels", (json_int_t)br_vocab_size(self->names),
                      "id2label", json_incref(ids), "label2id", json_incref(numbers),
                      "problem_type", problems[self->data.problem]);
    else
        object = NULL;
    self->overrides = object ? json_dumps(object, JSON_COMPACT) : NULL;
    json_decref(ids);
    json_decref(numbers);
    json_decref(object);
    if (!self->overrides)
        br_raise(BR_ERROR_FORMAT, "the labels of the data are not UTF-8, or memory is missing");
    return self->overrides != NULL;
}

static bool settle_labels(labels_task *self)
{
    return (self->data.problem == LABELLED_REGRESSION || find_names(self)) && make_overrides(self);
}

/* ---- Data ------------------------------------------------------------------------------------ */

static bool encode(labels_task *self)
{
    bool ok = finetune_encodings_begin(&self->encodings, self->data.count);
    for (int64_t i = 0; ok && i < self->data.count; i++) {
        const labelled_item *item = &self->data.items[i];
        br_text text = { item->text, item->length }, pair = { item->pair, item->pair_length };
        ok = finetune_encode(&self->base, &self->encodings, i, &text, item->pair ? &pair : NULL);
    }
    return ok;
}

static int64_t length_of(const void *context, int64_t i)
{
    return ((const labels_task *)context)->encodings.items[i]->length;
}

/* Returns what the model must answer. */
static br_tensor *target_of(const labels_task *self, const labelled_item *item)
{
    if (self->data.problem == LABELLED_SINGLE)
        return br_from_i64(0, NULL, item->ids);
    if (self->data.problem == LABELLED_REGRESSION)
        return br_full(BR_SHAPE(1), item->number, BR_F32);
    int64_t n = br_vocab_size(self->names);
    br_tensor *target = br_zeros(BR_SHAPE(n), BR_F32);
    for (int64_t i = 0; i < item->n_labels; i++)
        br_fill_(br_select(target, 0, item->ids[i]), 1);
    return target;
}

static bool get_example(void *context, int64_t i, br_tensor **fields)
{
    labels_task *self = context;
    finetune_fields(&self->encodings, i, fields);
    fields[TARGET] = target_of(self, &self->data.items[i]);
    return !br_failed();
}

static br_module *prepare(void *context, const train_options *options, const char *text,
                          size_t length)
{
    labels_task *self = context;
    finetune *f = &self->base;
    if (!finetune_begin(f, BR_TASK_SEQUENCE_CLASSIFICATION, "no class that classifies texts") ||
        !labelled_read(&self->data, (labelled_problem)self->problem.index, text, length) ||
        !settle_labels(self) || !encode(self) ||
        !finetune_load(f, train_dtype(options), self->overrides, true))
        return NULL;
    const double padding[FIELDS] = { [FINETUNE_IDS] = finetune_padding(f) };
    const finetune_data data = { .count = self->data.count,
                                 .n_fields = FIELDS,
                                 .get = get_example,
                                 .context = self,
                                 .length = length_of,
                                 .padding = padding };
    return finetune_open(f, &data, options->workers) ? f->model : NULL;
}

/* ---- Training -------------------------------------------------------------------------------- */

static br_tensor *logits_of(const labels_task *self, br_tensor *const *batch)
{
    const br_model_input input = { .batch = finetune_batch(batch) };
    return self->base.class->forward(self->base.model, &input);
}

/* Returns the mean loss of the batch, as transformers computes it for the problem_type. */
static br_tensor *loss_of(const labels_task *self, br_tensor *logits, br_tensor *target)
{
    switch (self->data.problem) {
    case LABELLED_SINGLE:
        return br_cross_entropy(logits, target, NULL);
    case LABELLED_MULTI:
        return br_binary_cross_entropy_with_logits(logits, br_to(target, br_dtype_of(logits)), NULL,
                                                   BR_REDUCTION_MEAN, NULL);
    default:
        return br_mse_loss(logits, br_to(target, br_dtype_of(logits)), BR_REDUCTION_MEAN);
    }
}

static br_tensor *loss(void *context, int64_t step, br_tensor **addends)
{
    (void)addends;
    labels_task *self = context;
    br_tensor *batch[FIELDS];
    if (!batches_get(&self->base.batches, step, batch))
        return NULL;
    self->base.tokens += br_numel(batch[FINETUNE_IDS]);
    return loss_of(self, logits_of(self, batch), batch[TARGET]);
}

/* Returns the number of examples of a batch whose labels are all right. */
static double count_right(const labels_task *self, br_tensor *logits, br_tensor *target)
{
    if (self->data.problem == LABELLED_REGRESSION)
        return NAN;
    br_tensor *right = self->data.problem == LABELLED_SINGLE
                           ? br_eq(br_argmax(logits, 1, false), target)
                           : br_all_dim(br_eq(br_gt_scalar(logits, 0), br_gt_scalar(target, 0)),
                                        BR_DIMS(1), false);
    return br_item(br_sum(br_to(right, BR_F64)));
}

static void add_held_out(void *context, br_tensor *const *batch, double *sums)
{
    const labels_task *self = context;
    br_tensor *logits = logits_of(self, batch);
    sums[LOSS] += br_item(loss_of(self, logits, batch[TARGET])) * (double)br_size(logits, 0);
    sums[ACCURACY] += count_right(self, logits, batch[TARGET]);
}

/* The mean loss of the held-out examples, and the part of them that is right; NaN without such
 * examples. */
static void evaluate(void *context, double *metrics)
{
    finetune *f = &((labels_task *)context)->base;
    double sums[] = { [LOSS] = 0, [ACCURACY] = 0 };
    finetune_each_held_out(f, add_held_out, context, sums);
    metrics[LOSS] = sums[LOSS] / (double)f->held_out;
    metrics[ACCURACY] = sums[ACCURACY] / (double)f->held_out;
}

/* ---- Showing --------------------------------------------------------------------------------- */

/* Prints the labels of an example, or its value. */
static void print_expected(FILE *out, const labels_task *self, const labelled_item *item)
{
    fprintf(out, "\nexpected: ");
    if (self->data.problem == LABELLED_REGRESSION)
        fprintf(out, "%g", item->number);
    else if (item->n_labels == 0)
        fprintf(out, "(no label)");
    for (int64_t i = 0; i < item->n_labels; i++)
        fprintf(out, "%s%s", i ? ", " : "", br_printable(item->labels[i]));
}

/* Prints the model's answer for one example: logits [1, labels]. */
static void print_answer(FILE *out, const labels_task *self, br_tensor *logits)
{
    if (self->data.problem == LABELLED_REGRESSION) {
        fprintf(out, "\nmodel:    %.4g\n", br_item(logits));
        return;
    }
    bool single = self->data.problem == LABELLED_SINGLE;
    br_tensor *scores = single ? br_softmax(logits, 1) : br_sigmoid(logits);
    int n = 0;
    fprintf(out, "\nmodel:    ");
    int64_t best = br_item_i64(br_argmax(logits, 1, false));
    for (int64_t i = 0; i < br_size(logits, 1); i++) {
        double score = br_item(br_select(br_select(scores, 0, 0), 0, i));
        if (single ? i == best : score > 0.5)
            fprintf(out, "%s%s (%.3f)", n++ ? ", " : "",
                    br_printable(br_vocab_word(self->names, i)), score);
    }
    fprintf(out, "%s\n", n ? "" : "(no label)");
}

static void show_example(FILE *out, labels_task *self, int64_t i)
{
    const labelled_item *item = &self->data.items[i];
    br_scope *scope = br_scope_begin();
    br_tensor *fields[FIELDS];
    if (get_example(self, i, fields)) {
        for (int k = 0; k < FINETUNE_ENCODED; k++)
            fields[k] = br_unsqueeze(fields[k], 0);
        fprintf(out, "\ntext:     %s", br_printable(item->text));
        if (item->pair)
            fprintf(out, "\npair:     %s", br_printable(item->pair));
        print_expected(out, self, item);
        print_answer(out, self, logits_of(self, fields));
    }
    br_scope_end(scope);
}

static void show(void *context, FILE *out)
{
    labels_task *self = context;
    const finetune *f = &self->base;
    fprintf(out, "%" PRId64 " examples, %" PRId64 " of them held out, %" PRId64 " tokens",
            self->data.count, f->held_out, self->encodings.n_tokens);
    if (self->encodings.cut > 0)
        fprintf(out, "; %" PRId64 " longer than %" PRId64 " tokens were cut", self->encodings.cut,
                f->limit);
    fprintf(out, "\n");
    for (int64_t i = 0; i < SHOWN && i < self->data.count && !br_failed(); i++)
        show_example(out, self, f->numbers[i]);
}

/* ---- The result ------------------------------------------------------------------------------ */

static bool finish(void *context, const char *folder, FILE *out)
{
    labels_task *self = context;
    const finetune_result result = { .folder = folder,
                                     .command = "classify",
                                     .argument = self->data.has_pairs ? "--pair TEXT PAIR" : "TEXT",
                                     .overrides = self->overrides,
                                     .task_type = "SEQ_CLS",
                                     .out = out };
    return finetune_save(&self->base, &result);
}

static void destroy(void *context)
{
    labels_task *self = context;
    finetune_end(&self->base);
    finetune_encodings_end(&self->encodings);
    labelled_free(&self->data);
    br_vocab_free(self->names);
    free(self->overrides);
}

const recipe recipe_finetune_labels = {
    .name = "finetune-classify",
    .summary = "train a pretrained encoder to give labels to texts",
    .needs_data = "a CSV file with the columns text and label, or lines of JSON with \"text\" and "
                  "\"label\"",
    .presets = (const char *const[]){ "full", "lora", NULL },
    .metrics = (const char *const[]){ "eval_loss", "accuracy", NULL },
    .size = sizeof(labels_task),
    .preset = preset,
    .settings = add_settings,
    .prepare = prepare,
    FINETUNE_FUNCTIONS,
    .loss = loss,
    .evaluate = evaluate,
    .show = show,
    .finish = finish,
    .destroy = destroy,
};
