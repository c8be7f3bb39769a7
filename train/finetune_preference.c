/* train/finetune_preference.c - the objective "preference" of `brasa finetune`: trains a language
 * model to prefer one answer to another, by direct preference optimization.
 *
 * The log-probabilities of the reference model, which is the model before training, are computed
 * once, before the first step. So no second model is in memory. A resumed run computes them again
 * from the same folder. */
#include "train/examples.h"
#include "train/finetune.h"
#include "train/text_rows.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

enum { PROMPT, CHOSEN, REJECTED, COLUMNS };
enum { SHOWN = 3 };
enum { LOSS, ACCURACY }; /* metrics */

typedef struct preference_task {
    finetune base;
    setting_choice loss_type;
    double beta, label_smoothing;
    text_rows rows;
    examples examples; /* 2 i: prompt and chosen answer of row i; 2 i + 1: with the rejected one */
    double *reference; /* log-probability of each example by the model before training */
} preference_task;

static const char *const columns[] = { "prompt", "chosen", "rejected", NULL };

static const char *const loss_types[] = {
    [BR_DPO_SIGMOID] = "sigmoid", [BR_DPO_HINGE] = "hinge", [BR_DPO_IPO] = "ipo", NULL
};

/* ---- Settings -------------------------------------------------------------------------------- */

static void preset(void *context, const char *name, bool as_written, train_options *options)
{
    (void)as_written;
    preference_task *self = context;
    bool lora = name[0] == 'l';
    finetune_preset(&self->base, options, lora, lora ? 1e-5 : 1e-6);
    self->loss_type = (setting_choice){ .names = loss_types };
    self->beta = 0.1;
}

static void add_settings(void *context, settings *s)
{
    preference_task *self = context;
    finetune_add_settings(&self->base, s);
    settings_add(s, (setting){ "loss_type", SETTING_CHOICE, &self->loss_type, 0, 0, false,
                               "sigmoid, hinge or ipo" });
    settings_add(s, (setting){ "beta", SETTING_NUMBER, &self->beta, 1e-6, 1e6, false,
                               "how strongly the model is kept near the one before training" });
    settings_add(s, (setting){ "label_smoothing", SETTING_NUMBER, &self->label_smoothing, 0, 0.49,
                               false, "probability that a preference is wrong" });
}

/* ---- Data ------------------------------------------------------------------------------------ */

/* Adds the prompt with both answers, of which some token must remain. */
static bool add_row(preference_task *self, const examples_source *source, int64_t i)
{
    br_text prompt = text_rows_get(&self->rows, i, PROMPT);
    for (int k = CHOSEN; k <= REJECTED; k++) {
        if (!examples_add_completion(&self->examples, source, prompt,
                                     text_rows_get(&self->rows, i, k)))
            return false;
        if (self->examples.dropped == 0)
            continue;
        br_raise(BR_ERROR_ARGUMENT,
                 "line %" PRId64 " of the data has a prompt of %" PRId64
                 " tokens or more, so that none of \"%s\" is left: set length to a larger number",
                 self->rows.rows[i].line, source->length, columns[k]);
        return false;
    }
    return true;
}

static bool read_rows(preference_task *self, const char *text, size_t length)
{
    const finetune *f = &self->base;
    const examples_source source = { .tokenizer = f->tokenizer, .length = f->limit };
    bool ok = text_rows_read(&self->rows, columns, COLUMNS, text, length);
    for (int64_t i = 0; ok && i < self->rows.count; i++)
        ok = add_row(self, &source, i);
    return ok;
}

/* A batch has the numbers of rows, whose texts are run one at a time, without padding. */
static bool get_example(void *context, int64_t i, br_tensor **fields)
{
    (void)context;
    fields[0] = br_from_i64(0, NULL, &i);
    return !br_failed();
}

/* ---- Log-probabilities ----------------------------------------------------------------------- */

/* Returns the number of tokens of an example that count. */
static int64_t counted(const examples *e, int64_t i)
{
    const int64_t *labels = examples_labels(e, i);
    int64_t n = 0;
    for (int64_t k = 1; k < examples_length(e, i); k++)
        n += labels[k] != EXAMPLES_IGNORED;
    return n;
}

/* Returns the log-probability of the answer of an example: the sum over its tokens, or for ipo
 * their mean. */
static br_tensor *log_probability(const preference_task *self, int64_t i)
{
    const examples *e = &self->examples;
    const br_model_class *class = self->base.class;
    int64_t n = examples_length(e, i);
    br_tensor *labels = br_from_i64(BR_SHAPE(1, n), examples_labels(e, i));
    br_model_input input = { .batch.ids = br_from_i64(BR_SHAPE(1, n), examples_ids(e, i)) };
    br_tensor *mean = class->loss
                          ? class->loss(self->base.model, &input, labels)
                          : br_causal_lm_loss(class->forward(self->base.model, &input), labels);
    bool is_mean = self->loss_type.index == BR_DPO_IPO;
    return br_mul_scalar(mean, is_mean ? -1 : -(double)counted(e, i));
}

/* Computes the log-probabilities of all examples by the model before training. */
static bool find_reference(preference_task *self)
{
    int64_t n = self->examples.count;
    self->reference = calloc((size_t)n, sizeof *self->reference);
    if (!self->reference)
        br_raise(BR_ERROR_MEMORY, "cannot allocate memory for %" PRId64 " examples", n);
    br_eval(self->base.model);
    for (int64_t i = 0; i < n && !br_failed(); i++) {
        br_scope *scope = br_no_grad_begin();
        self->reference[i] = br_item(log_probability(self, i));
        br_scope_end(scope);
    }
    br_train(self->base.model, true);
    return !br_failed();
}

static br_module *prepare(void *context, const train_options *options, const char *text,
                          size_t length)
{
    preference_task *self = context;
    finetune *f = &self->base;
    if (!finetune_begin(f, BR_TASK_CAUSAL_LM, "no language model that predicts the next token") ||
        !read_rows(self, text, length) || !finetune_load(f, train_dtype(options), NULL, false) ||
        !find_reference(self))
        return NULL;
    const finetune_data data = {
        .count = self->rows.count, .n_fields = 1, .get = get_example, .context = self
    };
    return finetune_open(f, &data, options->workers) ? f->model : NULL;
}

/* ---- Training -------------------------------------------------------------------------------- */

static br_tensor *reference_of(const preference_task *self, int64_t i)
{
    return br_scalar(self->reference[i], BR_F32);
}

/* Returns the loss of a row. Sets *right to whether the model prefers the chosen answer, more than
 * the model before training did. */
static br_tensor *loss_of_row(const preference_task *self, int64_t row, bool *right)
{
    br_tensor *chosen = br_to(log_probability(self, 2 * row), BR_F32);
    br_tensor *rejected = br_to(log_probability(self, 2 * row + 1), BR_F32);
    *right = br_item(chosen) - self->reference[2 * row] >
             br_item(rejected) - self->reference[2 * row + 1];
    return br_dpo_loss(chosen, rejected, reference_of(self, 2 * row),
                       reference_of(self, 2 * row + 1),
                       BR_OPTIONS(br_dpo, .loss_type = (br_dpo_loss_type)self->loss_type.index,
                                  .beta = self->beta, .label_smoothing = self->label_smoothing));
}

/* Returns the sum of the losses of a batch of n rows, and adds to *right. */
static br_tensor *loss_of(preference_task *self, br_tensor *rows, double *right)
{
    br_tensor *sum = NULL;
    for (int64_t i = 0; i < br_numel(rows) && !br_failed(); i++) {
        int64_t row = br_item_i64(br_select(rows, 0, i));
        bool is_right;
        br_tensor *loss = loss_of_row(self, row, &is_right);
        sum = sum ? br_add(sum, loss) : loss;
        *right += is_right;
    }
    return sum;
}

static br_tensor *loss(void *context, int64_t step, br_tensor **addends)
{
    (void)addends;
    preference_task *self = context;
    br_tensor *rows;
    double right = 0;
    if (!batches_get(&self->base.batches, step, &rows))
        return NULL;
    int64_t n = br_numel(rows);
    for (int64_t i = 0; i < n; i++) {
        int64_t row = br_item_i64(br_select(rows, 0, i));
        self->base.tokens += examples_length(&self->examples, 2 * row) +
                             examples_length(&self->examples, 2 * row + 1);
    }
    return br_mul_scalar(loss_of(self, rows, &right), 1 / (double)n);
}

/* The mean loss of the held-out rows, and the part of them in which the model prefers the chosen
 * answer more than before. */
static void evaluate(void *context, double *metrics)
{
    preference_task *self = context;
    finetune *f = &self->base;
    double sum = 0, right = 0;
    for (int64_t i = 0; i < f->held_out && !br_failed(); i++) {
        br_scope *scope = br_scope_begin();
        bool is_right;
        sum += br_item(loss_of_row(self, f->numbers[i], &is_right));
        right += is_right;
        br_scope_end(scope);
    }
    metrics[LOSS] = sum / (double)f->held_out; /* NaN without held-out examples */
    metrics[ACCURACY] = right / (double)f->held_out;
}

/* ---- Showing --------------------------------------------------------------------------------- */

/* Prints an answer, and by how much the logarithm of its probability has changed. */
static void print_answer(FILE *out, const preference_task *self, int64_t row, int column)
{
    int64_t i = 2 * row + (column == REJECTED);
    fprintf(out, "%-10s%s (log-probability %.4g, before %.4g)\n", columns[column],
            br_printable(self->rows.rows[row].texts[column]), br_item(log_probability(self, i)),
            self->reference[i]);
}

static void show(void *context, FILE *out)
{
    preference_task *self = context;
    const finetune *f = &self->base;
    fprintf(out, "%" PRId64 " pairs, %" PRId64 " of them held out, %" PRId64 " tokens",
            self->rows.count, f->held_out, self->examples.n_ids);
    if (self->examples.cut > 0)
        fprintf(out, "; %" PRId64 " texts longer than %" PRId64 " tokens were cut",
                self->examples.cut, f->limit);
    fprintf(out, "\n");
    for (int64_t i = 0; i < SHOWN && i < self->rows.count && !br_failed(); i++) {
        br_scope *scope = br_scope_begin();
        int64_t row = f->numbers[i];
        fprintf(out, "\nprompt    %s\n", br_printable(self->rows.rows[row].texts[PROMPT]));
        print_answer(out, self, row, CHOSEN);
        print_answer(out, self, row, REJECTED);
        br_scope_end(scope);
    }
}

/* ---- The result ------------------------------------------------------------------------------ */

static bool finish(void *context, const char *folder, FILE *out)
{
    preference_task *self = context;
    const finetune_result result = { .folder = folder,
                                     .command = "generate",
                                     .argument = "PROMPT",
                                     .task_type = "CAUSAL_LM",
                                     .out = out };
    return finetune_save(&self->base, &result);
}

static void destroy(void *context)
{
    preference_task *self = context;
    finetune_end(&self->base);
    examples_free(&self->examples);
    text_rows_free(&self->rows);
    free(self->reference);
}

const recipe recipe_finetune_preference = {
    .name = "finetune-preference",
    .summary = "train a language model to prefer some answers to others",
    .needs_data = "a CSV file with the columns prompt, chosen and rejected, or lines of JSON with "
                  "these keys",
    .presets = (const char *const[]){ "lora", "full", NULL },
    .metrics = (const char *const[]){ "eval_loss", "accuracy", NULL },
    .size = sizeof(preference_task),
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
