/* train/recipe_classifier.c - the recipe classifier: trains the sequence classifiers of notebooks
 * 000, 001 and 004 on the topics of short texts. */
#include "common/text.h"
#include "train/batches.h"
#include "train/texts.h"
#include "train/train.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SHOWN_RIGHT = 6, SHOWN_WRONG = 4, SHOWN_BYTES = 66 };
enum { IDS, LABEL, FIELDS }; /* fields of an item: i64 [length], i64 [] */

typedef struct classifier_task {
    setting_choice model;
    bool as_written;
    int64_t hidden_size, intermediate_size, layers, heads, length, min_count, batch;
    double dropout, held_out_part;
    texts texts;
    br_vocab *vocab;
    int64_t held_out, *numbers; /* indices of all texts, the held-out ones first */
    int64_t *predictions;       /* predicted labels of the held-out texts */
    br_dataset *all, *train_set, *held_out_set;
    batches batches, held_out_batches;
    void *module;
} classifier_task;

/* ---- The models ------------------------------------------------------------------------------ */

static void *new_anatomy(const classifier_task *self)
{
    bool intended = !self->as_written;
    br_anatomy_config config = { .vocab_size = br_vocab_size(self->vocab),
                                 .hidden_size = self->hidden_size,
                                 .num_hidden_layers = self->layers,
                                 .num_attention_heads = self->heads,
                                 .intermediate_size = self->intermediate_size,
                                 .max_position_embeddings = self->length,
                                 .num_labels = br_vocab_size(self->texts.labels),
                                 .hidden_dropout_prob = self->dropout,
                                 .mask_padding = intended,
                                 .pad_token_id = TEXTS_PADDING,
                                 .attention_dropout = intended,
                                 .final_norm = intended,
                                 .small_eps = intended };
    return br_anatomy_classifier_new(&config);
}

static void *new_vanilla(const classifier_task *self)
{
    bool intended = !self->as_written;
    br_vanilla_config config = { .embed_dim = self->hidden_size,
                                 .n_heads = self->heads,
                                 .ff_hid_dim = self->intermediate_size,
                                 .n_layers = self->layers,
                                 .max_length = self->length,
                                 .vocab_size = br_vocab_size(self->vocab),
                                 .n_classes = br_vocab_size(self->texts.labels),
                                 .pad_idx = TEXTS_PADDING,
                                 .dropout = self->dropout,
                                 .scale_by_head_dim = intended,
                                 .infinite_fill = intended,
                                 .sublayer_dropout = intended,
                                 .max_over_tokens = intended };
    return br_vanilla_encoder_classifier_new(&config);
}

static void *new_architecture(const classifier_task *self)
{
    bool intended = !self->as_written;
    br_architecture_config config = { .hidden_size = self->hidden_size,
                                      .intermediate_size = self->intermediate_size,
                                      .num_hidden_layers = self->layers,
                                      .vocab_size = br_vocab_size(self->vocab),
                                      .max_position_embeddings = self->length,
                                      .hidden_dropout_prob = self->dropout,
                                      .num_attention_heads = self->heads,
                                      .num_labels = br_vocab_size(self->texts.labels),
                                      .add_attention = intended,
                                      .pre_norm = intended,
                                      .mask_padding = intended,
                                      .pad_token_id = TEXTS_PADDING,
                                      .dropout_once = intended,
                                      .embedding_dropout = intended,
                                      .small_eps = intended };
    return br_architecture_classifier_new(&config);
}

static br_tensor *forward_anatomy(void *model, br_tensor *ids)
{
    return br_anatomy_classifier_forward(model, ids);
}

static br_tensor *forward_vanilla(void *model, br_tensor *ids)
{
    return br_vanilla_encoder_classifier_forward(model, ids);
}

static br_tensor *forward_architecture(void *model, br_tensor *ids)
{
    return br_architecture_classifier_forward(model, ids);
}

static const char *const model_names[] = { "anatomy", "vanilla", "architecture", NULL };

/* In the order of model_names. */
static const struct {
    void *(*make)(const classifier_task *self);
    br_tensor *(*forward)(void *model, br_tensor *ids); /* i64 [B, length] -> logits [B, labels] */
} models[] = {
    { new_anatomy, forward_anatomy },
    { new_vanilla, forward_vanilla },
    { new_architecture, forward_architecture },
};

/* ---- Settings -------------------------------------------------------------------------------- */

static void preset(void *context, const char *name, bool as_written, train_options *options)
{
    classifier_task *self = context;
    *self = (classifier_task){ .model = { .names = model_names },
                               .as_written = as_written,
                               .hidden_size = 64,
                               .intermediate_size = 128,
                               .layers = 2,
                               .heads = 4,
                               .dropout = 0.3,
                               .length = 64,
                               .min_count = 2,
                               .held_out_part = 0.2,
                               .batch = 32 };
    *options = (train_options){ .steps = 1500,
                                .schedule = { .lr = 1e-3, .warmup = 100 },
                                .checkpoint_every = 500,
                                .eval_every = 100 };
    if (strcmp(name, "small") != 0)
        return;
    self->hidden_size = 32;
    self->intermediate_size = 64;
    self->layers = 1;
    self->heads = 2;
    self->length = 32;
    options->steps = 400;
    options->schedule.lr = 3e-3;
}

static void add_settings(void *context, settings *s)
{
    classifier_task *self = context;
    const setting items[] = {
        { "model", SETTING_CHOICE, &self->model, 0, 0, false, "anatomy, vanilla or architecture" },
        { "hidden_size", SETTING_INTEGER, &self->hidden_size, 1, 1 << 20, false,
          "size of the embeddings" },
        { "intermediate_size", SETTING_INTEGER, &self->intermediate_size, 1, 1 << 20, false,
          "hidden size of the feed-forward network" },
        { "heads", SETTING_INTEGER, &self->heads, 1, 1 << 20, false,
          "attention heads; must divide hidden_size" },
        { "layers", SETTING_INTEGER, &self->layers, 1, 1 << 10, false, "layers of the encoder" },
        { "dropout", SETTING_NUMBER, &self->dropout, 0, 1, false, "dropout probability" },
        { "length", SETTING_INTEGER, &self->length, 2, 1 << 14, false,
          "words per text; longer texts are truncated, shorter ones padded" },
        { "min_count", SETTING_INTEGER, &self->min_count, 1, 1 << 30, false,
          "words that occur less often in the training texts are unknown" },
        { "held_out", SETTING_NUMBER, &self->held_out_part, 0, 1, false,
          "fraction of the texts to hold out for evaluation" },
        { "batch", SETTING_INTEGER, &self->batch, 1, 1 << 20, false, "texts per batch" },
        { "as_written", SETTING_BOOL, &self->as_written, 0, 0, false,
          "use the notebook's variant of the model" },
    };
    for (size_t i = 0; i < sizeof items / sizeof *items; i++)
        settings_add(s, items[i]);
}

/* ---- Data ------------------------------------------------------------------------------------ */

/* Shuffles the texts with the seed; the first ones are held out. */
static bool hold_out(classifier_task *self)
{
    int64_t n = self->texts.count;
    self->held_out = (int64_t)llround(self->held_out_part * (double)n);
    if (self->held_out < 1 || self->held_out >= n)
        br_raise(BR_ERROR_ARGUMENT,
                 "held_out is %g, which holds out %" PRId64 " of %" PRId64
                 " texts, must hold out 1 .. %" PRId64,
                 self->held_out_part, self->held_out, n, n - 1);
    if (!br_failed())
        self->numbers = batches_shuffled(n);
    self->predictions = calloc((size_t)n, sizeof *self->predictions);
    if (!self->predictions)
        br_raise(BR_ERROR_MEMORY, "cannot allocate memory for the labels of %" PRId64 " texts", n);
    return !br_failed();
}

/* The notebooks as written put no [CLS] before a text. */
static bool make_data(classifier_task *self, int64_t workers)
{
    int64_t held_out = self->held_out, others = self->texts.count - held_out;
    const int64_t *train = self->numbers + held_out;
    self->vocab = texts_vocab(&self->texts, others, train, self->min_count);
    br_scope *scope = br_scope_begin();
    br_tensor *ids = texts_ids(&self->texts, self->vocab, self->length, !self->as_written);
    self->all = br_tensor_dataset_new(FIELDS, (br_tensor *[]){ ids, texts_labels(&self->texts) });
    br_scope_end(scope);
    self->train_set = br_subset_new(self->all, others, train);
    self->held_out_set = br_subset_new(self->all, held_out, self->numbers);
    return batches_open(&self->batches, self->train_set, self->batch, true, workers) &&
           batches_open_whole(&self->held_out_batches, self->held_out_set, self->batch);
}

/* ---- Training -------------------------------------------------------------------------------- */

static br_module *prepare(void *context, const train_options *options, const char *text,
                          size_t length)
{
    classifier_task *self = context;
    if (!texts_read(&self->texts, text, length) || !hold_out(self) ||
        !make_data(self, options->workers))
        return NULL;
    self->module = models[self->model.index].make(self);
    return br_failed() ? NULL : self->module;
}

/* Removes the columns that are padding in every text of the batch. The variants as written keep
 * these columns, because their results depend on the padding. */
static br_tensor *logits_of(classifier_task *self, br_tensor *ids)
{
    if (!self->as_written) {
        br_tensor *is_word = br_to(br_ne_scalar(ids, TEXTS_PADDING), BR_I64);
        int64_t longest = br_item_i64(br_max(br_sum_dim(is_word, BR_DIMS(1), false)));
        ids = br_narrow(ids, 1, 0, longest);
    }
    return models[self->model.index].forward(self->module, ids);
}

static br_tensor *loss(void *context, int64_t step, br_tensor **addends)
{
    (void)addends;
    classifier_task *self = context;
    br_tensor *batch[FIELDS];
    if (!batches_get(&self->batches, step, batch))
        return NULL;
    return br_cross_entropy(logits_of(self, batch[IDS]), batch[LABEL], NULL);
}

static void destroy(void *context)
{
    classifier_task *self = context;
    batches_close(&self->batches);
    batches_close(&self->held_out_batches);
    br_dataset_free(self->train_set);
    br_dataset_free(self->held_out_set);
    br_dataset_free(self->all);
    br_module_free(self->module);
    br_vocab_free(self->vocab);
    texts_free(&self->texts);
    free(self->numbers);
    free(self->predictions);
}

/* ---- Measuring and showing ------------------------------------------------------------------- */

/* Predicts the labels of the held-out texts; returns the sum of the losses. */
static double predict(classifier_task *self)
{
    double sum = 0;
    int64_t *predictions = self->predictions;
    for (int64_t k = 0; k < batches_count(&self->held_out_batches) && !br_failed(); k++) {
        br_scope *scope = br_scope_begin();
        br_tensor *batch[FIELDS];
        if (batches_get(&self->held_out_batches, k, batch)) {
            br_tensor *logits = logits_of(self, batch[IDS]);
            int64_t n = br_size(batch[LABEL], 0);
            sum += br_item(br_cross_entropy(logits, batch[LABEL], NULL)) * (double)n;
            br_copy_out(br_argmax(logits, -1, false), predictions, (size_t)n * sizeof *predictions);
            predictions += n;
        }
        br_scope_end(scope);
    }
    return sum;
}

static const labelled_text *held_out_text(const classifier_task *self, int64_t i)
{
    return &self->texts.items[self->numbers[i]];
}

static void evaluate(void *context, double *metrics)
{
    classifier_task *self = context;
    int64_t right = 0;
    metrics[0] = predict(self) / (double)self->held_out;
    for (int64_t i = 0; i < self->held_out; i++)
        right += self->predictions[i] == held_out_text(self, i)->label;
    metrics[1] = (double)right / (double)self->held_out;
}

static const char *topic(const classifier_task *self, int64_t label)
{
    return br_vocab_word(self->texts.labels, label);
}

/* Prints the text, truncated between code points to fit on a line. */
static void print_text(FILE *out, const labelled_text *text)
{
    size_t n = text->length;
    if (n > SHOWN_BYTES)
        for (n = SHOWN_BYTES; n > 0 && ((unsigned char)text->text[n] & 0xc0) == 0x80;)
            n--;
    fprintf(out, "\n%.*s%s\n", (int)n, text->text, n < text->length ? " ..." : "");
}

static void show_examples(FILE *out, const classifier_task *self)
{
    int64_t shown[2] = { 0 }; /* number of wrong and of right examples */
    for (int64_t i = 0; i < self->held_out; i++) {
        const labelled_text *text = held_out_text(self, i);
        bool right = self->predictions[i] == text->label;
        if (shown[right]++ >= (right ? SHOWN_RIGHT : SHOWN_WRONG))
            continue;
        print_text(out, text);
        fprintf(out, "  model: %s  ", topic(self, self->predictions[i]));
        if (right)
            fprintf(out, "right\n");
        else
            fprintf(out, "wrong: it is %s\n", topic(self, text->label));
    }
}

/* Counts for one topic. */
typedef struct tally {
    int64_t trained, held_out, right;
} tally;

static void count(const classifier_task *self, tally *tallies)
{
    for (int64_t i = 0; i < self->texts.count; i++) {
        int64_t label = held_out_text(self, i)->label;
        if (i >= self->held_out) {
            tallies[label].trained++;
            continue;
        }
        tallies[label].held_out++;
        tallies[label].right += self->predictions[i] == label;
    }
}

static void print_share(FILE *out, const char *what, int64_t part, int64_t all)
{
    fprintf(out, "%-24s %5" PRId64 " of %5" PRId64 " right", what, part, all);
    if (all > 0)
        fprintf(out, "  %5.1f %%", 100 * (double)part / (double)all);
    fprintf(out, "\n");
}

static void show_shares(FILE *out, const classifier_task *self, const tally *tallies, int64_t n)
{
    int64_t right = 0, majority = 0;
    fprintf(out, "\n");
    for (int64_t i = 0; i < n; i++) {
        print_share(out, topic(self, i), tallies[i].right, tallies[i].held_out);
        right += tallies[i].right;
        if (tallies[i].trained > tallies[majority].trained)
            majority = i;
    }
    print_share(out, "all held-out texts", right, self->held_out);
    char *majority_text = text_format("always %s", topic(self, majority));
    if (majority_text)
        print_share(out, majority_text, tallies[majority].held_out, self->held_out);
    free(majority_text);
}

static void show(void *context, FILE *out)
{
    classifier_task *self = context;
    predict(self);
    int64_t n = br_vocab_size(self->texts.labels);
    tally *tallies = calloc((size_t)n, sizeof *tallies);
    if (!tallies)
        br_raise(BR_ERROR_MEMORY, "cannot allocate memory for %" PRId64 " labels", n);
    if (!br_failed()) {
        count(self, tallies);
        show_examples(out, self);
        show_shares(out, self, tallies, n);
    }
    free(tallies);
}

static const char *const presets[] = { "fortunes", "small", NULL };
static const char *const addends[] = { NULL };
static const char *const metrics[] = { "held_out_loss", "held_out_accuracy", NULL };

const recipe recipe_classifier = {
    .name = "classifier",
    .summary = "train a classifier of notebook 000, 001 or 004 on the topics of texts",
    .needs_data = "a file with lines LABEL<tab>TEXT; './run classifier' makes one from fortunes",
    .presets = presets,
    .addends = addends,
    .metrics = metrics,
    .size = sizeof(classifier_task),
    .preset = preset,
    .settings = add_settings,
    .prepare = prepare,
    .loss = loss,
    .evaluate = evaluate,
    .show = show,
    .destroy = destroy,
};
