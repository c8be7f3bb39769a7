/* train/recipe_copy.c - the recipe copy-task: trains notebook 004's EncoderDecoder to copy the
 * sequences of its RandomDataset. */
#include "train/batches.h"
#include "train/greedy.h"
#include "train/train.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SHOWN = 8 }; /* new sequences to print */

typedef struct copy_task {
    br_architecture_config config;
    bool as_written;
    int64_t length, batch, num_samples;
    br_dataset *train_set, *new_set;
    batches batches, new_batches; /* new_batches has a single batch */
    br_architecture_encoder_decoder *model;
} copy_task;

/* ---- Settings -------------------------------------------------------------------------------- */

/* As written, the notebook's model never does better than guessing, in PyTorch as well
 * (docs/quirks.md). The only change needed to run it is to the target's mask, whose shape the model
 * rejects. The intended variant learns with Xavier initialization, which the notebook uses for
 * another model, and a warm-up. */
static void preset(void *context, const char *name, bool as_written, train_options *options)
{
    copy_task *self = context;
    self->config = br_architecture_notebook_config();
    self->as_written = as_written;
    self->length = 10;
    self->batch = 64;
    self->num_samples = 1000;
    *options = (train_options){ .steps = as_written ? 150 : 200,
                                .checkpoint_every = 100,
                                .eval_every = 50,
                                .schedule = { .lr = as_written ? 1e-3 : 3e-4,
                                              .warmup = as_written ? 0 : 100 } };
    if (strcmp(name, "small") != 0)
        return;
    br_architecture_config *c = &self->config;
    c->hidden_size = 64;
    c->intermediate_size = 256;
    c->num_hidden_layers = 2;
    c->num_attention_heads = 4;
    if (!as_written)
        options->schedule.lr = 3e-3;
}

static void add_settings(void *context, settings *s)
{
    copy_task *self = context;
    br_architecture_config *c = &self->config;
    const setting items[] = {
        { "d_model", SETTING_INTEGER, &c->hidden_size, 1, 1 << 20, false,
          "size of the embeddings" },
        { "d_ff", SETTING_INTEGER, &c->intermediate_size, 1, 1 << 20, false,
          "hidden size of the feed-forward network" },
        { "heads", SETTING_INTEGER, &c->num_attention_heads, 1, 1 << 20, false,
          "attention heads; must divide d_model" },
        { "layers", SETTING_INTEGER, &c->num_hidden_layers, 1, 1 << 10, false,
          "blocks in the encoder and in the decoder" },
        { "vocab", SETTING_INTEGER, &c->vocab_size, 2, 1 << 20, false,
          "number of ids, including padding" },
        { "length", SETTING_INTEGER, &self->length, 2, 1 << 14, false, "ids per sequence" },
        { "batch", SETTING_INTEGER, &self->batch, 1, 1 << 20, false, "sequences per batch" },
        { "num_samples", SETTING_INTEGER, &self->num_samples, 1, 1 << 20, false,
          "batches per epoch" },
        { "dropout", SETTING_NUMBER, &c->hidden_dropout_prob, 0, 1, false, "dropout probability" },
        { "as_written", SETTING_BOOL, &self->as_written, 0, 0, false,
          "use the notebook's variant of the model" },
    };
    for (size_t i = 0; i < sizeof items / sizeof *items; i++)
        settings_add(s, items[i]);
}

/* ---- Training -------------------------------------------------------------------------------- */

static void choose_variant(copy_task *self)
{
    br_architecture_config *c = &self->config;
    bool intended = !self->as_written;
    c->add_attention = c->pre_norm = c->mask_source = intended;
    c->dropout_once = c->embedding_dropout = c->small_eps = intended;
    if (c->max_position_embeddings < self->length)
        c->max_position_embeddings = self->length;
}

static br_dataset *make_data(const copy_task *self, int64_t num_samples)
{
    return br_architecture_random_dataset_new(self->config.vocab_size, self->batch, num_samples,
                                              self->length, true);
}

static void initialize(br_module *model)
{
    br_named_list *parameters = br_parameters(model);
    for (int64_t i = 0; parameters && i < parameters->count; i++)
        if (br_ndim(parameters->items[i].tensor) > 1)
            br_init_xavier_uniform_(parameters->items[i].tensor, 1);
    br_named_list_free(parameters);
}

/* The model would refuse this, too, by the names that its configuration has. */
static bool good_heads(const br_architecture_config *c)
{
    if (c->hidden_size % c->num_attention_heads != 0)
        br_raise(BR_ERROR_ARGUMENT, "d_model %" PRId64 " is not divisible by heads %" PRId64,
                 c->hidden_size, c->num_attention_heads);
    return !br_failed();
}

static br_module *prepare(void *context, const train_options *options, const char *text,
                          size_t length)
{
    (void)text;
    (void)length;
    copy_task *self = context;
    if (!good_heads(&self->config))
        return NULL;
    choose_variant(self);
    self->train_set = make_data(self, self->num_samples);
    self->new_set = make_data(self, 1);
    if (!batches_open(&self->batches, self->train_set, self->batch, false, options->workers) ||
        !batches_open_whole(&self->new_batches, self->new_set, self->batch))
        return NULL;
    self->model = br_architecture_encoder_decoder_new(&self->config);
    if (!self->as_written)
        initialize(br_base(self->model));
    return br_failed() ? NULL : br_base(self->model);
}

static br_tensor *forward(copy_task *self, br_tensor *const *batch)
{
    return br_architecture_encoder_decoder_forward(
        self->model, batch[BR_ARCHITECTURE_SOURCE], batch[BR_ARCHITECTURE_TARGET],
        batch[BR_ARCHITECTURE_SOURCE_MASK], batch[BR_ARCHITECTURE_TARGET_MASK]);
}

static br_tensor *loss_of(br_tensor *logits, br_tensor *target_y)
{
    return br_cross_entropy(br_flatten(logits, 0, 1), br_flatten(target_y, 0, 1), NULL);
}

static br_tensor *loss(void *context, int64_t step, br_tensor **addends)
{
    (void)addends;
    copy_task *self = context;
    br_tensor *batch[BR_ARCHITECTURE_FIELDS];
    if (!batches_get(&self->batches, step, batch))
        return NULL;
    return loss_of(forward(self, batch), batch[BR_ARCHITECTURE_TARGET_Y]);
}

static void destroy(void *context)
{
    copy_task *self = context;
    batches_close(&self->batches);
    batches_close(&self->new_batches);
    br_dataset_free(self->train_set);
    br_dataset_free(self->new_set);
    br_module_free(self->model);
}

/* ---- Measuring and showing ------------------------------------------------------------------- */

static void evaluate(void *context, double *metrics)
{
    copy_task *self = context;
    br_tensor *batch[BR_ARCHITECTURE_FIELDS];
    if (!batches_get(&self->new_batches, 0, batch))
        return;
    br_tensor *logits = forward(self, batch), *target = batch[BR_ARCHITECTURE_TARGET_Y];
    br_tensor *right = br_eq(br_argmax(logits, -1, false), target);
    metrics[0] = br_item(loss_of(logits, target));
    metrics[1] = br_item(br_mean(br_to(right, BR_F64)));
}

typedef struct source {
    copy_task *task;
    br_tensor *ids, *mask;
} source;

static br_tensor *next_logits(void *context, br_tensor *ids)
{
    source *s = context;
    br_tensor *mask = br_unsqueeze(br_architecture_subsequent_mask(br_size(ids, 1)), 0);
    return br_architecture_encoder_decoder_forward(s->task->model, s->ids, ids, s->mask, mask);
}

static void print_ids(FILE *out, const char *name, const int64_t *ids, int64_t n)
{
    fprintf(out, "%s", name);
    for (int64_t i = 0; i < n; i++)
        fprintf(out, " %2" PRId64, ids[i]);
}

static void show(void *context, FILE *out)
{
    copy_task *self = context;
    br_tensor *batch[BR_ARCHITECTURE_FIELDS];
    if (!batches_get(&self->new_batches, 0, batch))
        return;
    source s = { self, batch[BR_ARCHITECTURE_SOURCE], batch[BR_ARCHITECTURE_SOURCE_MASK] };
    br_tensor *copies = greedy_decode(next_logits, &s, self->batch, 1, self->length);
    const int64_t *from = br_data_i64(s.ids), *to = br_data_i64(copies);
    if (br_failed())
        return;
    int64_t right = 0;
    for (int64_t i = 0; i < self->batch; i++, from += self->length, to += self->length) {
        bool equal = memcmp(from, to, (size_t)self->length * sizeof *to) == 0;
        right += equal;
        if (i >= SHOWN)
            continue;
        print_ids(out, "\nnew sequence ", from, self->length);
        print_ids(out, "\n  greedy copy", to, self->length);
        fprintf(out, "  %s", equal ? "right" : "wrong");
    }
    fprintf(out, "\n\n%" PRId64 " of %" PRId64 " new sequences copied without a mistake\n", right,
            self->batch);
}

/* ---- Attention ------------------------------------------------------------------------------- */

/* Parses a list of ids and prepends 1, the first id of every sequence. Returns i64 [1, n]. */
static br_tensor *ids_of(const copy_task *self, const char *text)
{
    int64_t ids[1 << 14] = { 1 }, n = 1, max_ids = self->config.max_position_embeddings;
    for (char *end; *text; text = end + strspn(end, " ")) {
        ids[n++] = strtoll(text, &end, 10);
        bool good = end != text && ids[n - 1] >= 1 && ids[n - 1] < self->config.vocab_size;
        if (!good || n > max_ids || n == sizeof ids / sizeof *ids) {
            br_raise(BR_ERROR_ARGUMENT,
                     "'%s': copy-task takes at most %" PRId64 " ids in 1 .. %" PRId64, text,
                     max_ids - 1, self->config.vocab_size - 1);
            return NULL;
        }
    }
    return br_from_i64(BR_SHAPE(1, n), ids);
}

typedef char id_text[24];

static const char **texts_of(br_tensor *ids, id_text *texts, const char **pointers)
{
    const int64_t *values = br_data_i64(ids);
    for (int64_t i = 0; values && i < br_numel(ids); i++) {
        snprintf(texts[i], sizeof texts[i], "%" PRId64, values[i]);
        pointers[i] = texts[i];
    }
    return pointers;
}

/* Creates the attention for a source and its greedy copy. */
static br_attention *attention_of(br_tensor *from, br_tensor *copy)
{
    int64_t n = br_numel(from), m = br_numel(copy);
    id_text *texts = calloc((size_t)(n + m), sizeof *texts);
    const char **pointers = calloc((size_t)(n + m), sizeof *pointers);
    br_attention *attention = NULL;
    if (texts && pointers)
        attention = br_attention_new(
            &(br_attention_text){ .n_tokens = n,
                                  .tokens = texts_of(from, texts, pointers),
                                  .n_decoder_tokens = m,
                                  .decoder_tokens = texts_of(copy, texts + n, pointers + n) });
    else
        br_raise(BR_ERROR_MEMORY, "cannot allocate memory for the tokens");
    free(texts);
    free(pointers);
    return attention;
}

static br_attention *attend(void *context, const char *text)
{
    copy_task *self = context;
    br_tensor *batch[BR_ARCHITECTURE_FIELDS] = { 0 };
    if (!text && !batches_get(&self->new_batches, 0, batch))
        return NULL;
    br_tensor *ids = text ? ids_of(self, text) : br_narrow(batch[0], 0, 0, 1);
    source s = { self, ids, br_architecture_source_mask(ids) };
    br_tensor *copy = greedy_decode(next_logits, &s, 1, 1, br_size(ids, 1));
    br_attention *attention = br_failed() ? NULL : attention_of(ids, copy);
    br_recorder *recorder = br_recorder_begin();
    next_logits(&s, copy);
    br_attention_add_recorded(attention, recorder);
    br_recorder_end(recorder);
    return attention;
}

static const char *const presets[] = { "notebook", "small", NULL };
static const char *const addends[] = { NULL };
static const char *const metrics[] = { "new_loss", "new_accuracy", NULL };

const recipe recipe_copy_task = {
    .name = "copy-task",
    .summary = "train the encoder-decoder of notebook 004 to copy sequences",
    .presets = presets,
    .addends = addends,
    .metrics = metrics,
    .size = sizeof(copy_task),
    .preset = preset,
    .settings = add_settings,
    .prepare = prepare,
    .loss = loss,
    .evaluate = evaluate,
    .show = show,
    .attend = attend,
    .destroy = destroy,
};
