/* train/finetune_pairs.c - the objective "contrastive" of `brasa finetune`: trains a sentence
 * encoder so that the embeddings of two texts that belong together are similar. */
#include "train/finetune.h"
#include "train/text_rows.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { ANCHOR, POSITIVE, NEGATIVE, COLUMNS };
enum { FIELDS = FINETUNE_ENCODED }; /* of each column */
enum { SHOWN = 5 };
enum { LOSS, ACCURACY }; /* metrics */

typedef struct pairs_task {
    finetune base;
    double scale;
    br_sentence_transformer *encoder;
    text_rows rows;
    int columns;                  /* 2, or 3 with negatives */
    finetune_encodings encodings; /* [rows][columns] */
} pairs_task;

static const char *const names[] = { "anchor", "positive", "negative", NULL };

/* ---- Settings -------------------------------------------------------------------------------- */

static void preset(void *context, const char *name, bool as_written, train_options *options)
{
    (void)as_written;
    pairs_task *self = context;
    bool lora = strcmp(name, "lora") == 0;
    finetune_preset(&self->base, options, lora, lora ? 2e-4 : 5e-5);
    self->base.batch = 32;
    self->scale = 20;
}

static void add_settings(void *context, settings *s)
{
    pairs_task *self = context;
    finetune_add_settings(&self->base, s);
    settings_add(s, (setting){ "scale", SETTING_NUMBER, &self->scale, 1e-6, 1e6, false,
                               "factor of the cosine similarities" });
}

/* ---- Data ------------------------------------------------------------------------------------ */

static bool encode(pairs_task *self)
{
    self->columns = self->rows.has[NEGATIVE] ? 3 : 2;
    int64_t n = self->rows.count * self->columns;
    bool ok = finetune_encodings_begin(&self->encodings, n);
    for (int64_t i = 0; ok && i < n; i++) {
        br_text text = text_rows_get(&self->rows, i / self->columns, (int)(i % self->columns));
        ok = finetune_encode(&self->base, &self->encodings, i, &text, NULL);
    }
    return ok;
}

static bool get_example(void *context, int64_t i, br_tensor **fields)
{
    const pairs_task *self = context;
    for (int k = 0; k < self->columns; k++)
        finetune_fields(&self->encodings, i * self->columns + k, fields + k * FIELDS);
    return !br_failed();
}

/* Loads the model as sentence-transformers does, with its pooling. */
static bool load(pairs_task *self, br_dtype dtype)
{
    finetune *f = &self->base;
    self->encoder = br_sentence_transformer_load(
        f->model_dir.text, BR_OPTIONS(br_sentence_transformer, .dtype = dtype), &f->report);
    if (!self->encoder)
        return false;
    int64_t most = br_sentence_transformer_max_seq_length(self->encoder);
    f->limit = f->limit < most ? f->limit : most;
    return finetune_adapt(f, br_sentence_transformer_module(self->encoder), false);
}

/* Batches are drawn at random: the other texts of a batch are the wrong answers, and texts of the
 * same length would be too easy, or too hard, to tell apart. */
static br_module *prepare(void *context, const train_options *options, const char *text,
                          size_t length)
{
    pairs_task *self = context;
    finetune *f = &self->base;
    if (!finetune_begin(f, BR_TASK_BASE, "no class that embeds texts") ||
        !load(self, train_dtype(options)) ||
        !text_rows_read(&self->rows, names, NEGATIVE, text, length) || !encode(self))
        return NULL;
    double padding[COLUMNS * FIELDS] = { 0 };
    for (int k = 0; k < self->columns; k++)
        padding[k * FIELDS + FINETUNE_IDS] = finetune_padding(f);
    const finetune_data data = { .count = self->rows.count,
                                 .n_fields = self->columns * FIELDS,
                                 .get = get_example,
                                 .context = self,
                                 .padding = padding };
    return finetune_open(f, &data, options->workers) ? f->model : NULL;
}

/* ---- Training -------------------------------------------------------------------------------- */

/* Returns the embeddings [n, d] of a column of a batch. */
static br_tensor *embed(const pairs_task *self, br_tensor *const *fields, int column)
{
    const br_token_batch batch = finetune_batch(fields + column * FIELDS);
    return br_sentence_transformer_forward(self->encoder, &batch);
}

/* Returns the embeddings of all positives, and then of all negatives. */
static br_tensor *candidates_of(const pairs_task *self, br_tensor *const *batch)
{
    br_tensor *positives = embed(self, batch, POSITIVE);
    if (self->columns == 2)
        return positives;
    return br_cat(2, (br_tensor *[]){ positives, embed(self, batch, NEGATIVE) }, 0);
}

static br_tensor *loss(void *context, int64_t step, br_tensor **addends)
{
    (void)addends;
    pairs_task *self = context;
    br_tensor *batch[COLUMNS * FIELDS];
    if (!batches_get(&self->base.batches, step, batch))
        return NULL;
    for (int k = 0; k < self->columns; k++)
        self->base.tokens += br_numel(batch[k * FIELDS + FINETUNE_IDS]);
    br_tensor *anchors = embed(self, batch, ANCHOR);
    return br_info_nce_loss(anchors, candidates_of(self, batch), self->scale);
}

/* Returns the number of anchors whose most similar candidate is their own. */
static double count_right(br_tensor *anchors, br_tensor *candidates)
{
    br_tensor *similarity =
        br_cosine_similarity(br_unsqueeze(anchors, 1), br_unsqueeze(candidates, 0), 2, 1e-8);
    br_tensor *own = br_arange(0, (double)br_size(anchors, 0), 1, BR_I64);
    return br_item(br_sum(br_to(br_eq(br_argmax(similarity, 1, false), own), BR_F64)));
}

static void add_held_out(void *context, br_tensor *const *batch, double *sums)
{
    const pairs_task *self = context;
    br_tensor *anchors = embed(self, batch, ANCHOR), *candidates = candidates_of(self, batch);
    double size = (double)br_size(anchors, 0);
    sums[LOSS] += br_item(br_info_nce_loss(anchors, candidates, self->scale)) * size;
    sums[ACCURACY] += count_right(anchors, candidates);
}

/* The mean loss of the held-out anchors among the texts of their batch, and the part of them whose
 * most similar text is their own; NaN without held-out examples. */
static void evaluate(void *context, double *metrics)
{
    finetune *f = &((pairs_task *)context)->base;
    double sums[] = { [LOSS] = 0, [ACCURACY] = 0 };
    finetune_each_held_out(f, add_held_out, context, sums);
    metrics[LOSS] = sums[LOSS] / (double)f->held_out;
    metrics[ACCURACY] = sums[ACCURACY] / (double)f->held_out;
}

/* ---- Showing --------------------------------------------------------------------------------- */

static void show_example(FILE *out, pairs_task *self, int64_t i)
{
    br_scope *scope = br_scope_begin();
    br_tensor *fields[COLUMNS * FIELDS];
    bool ok = get_example(self, i, fields);
    br_tensor *anchor = NULL;
    fprintf(out, "\n");
    for (int k = 0; ok && k < self->columns; k++) {
        for (int j = 0; j < FIELDS; j++)
            fields[k * FIELDS + j] = br_unsqueeze(fields[k * FIELDS + j], 0);
        br_tensor *embedding = embed(self, fields, k);
        anchor = k == ANCHOR ? embedding : anchor;
        fprintf(out, "%-10s%s", names[k], br_printable(self->rows.rows[i].texts[k]));
        if (k != ANCHOR)
            fprintf(out, " (similarity %.3f)",
                    br_item(br_cosine_similarity(anchor, embedding, 1, 1e-8)));
        fprintf(out, "\n");
    }
    br_scope_end(scope);
}

static void show(void *context, FILE *out)
{
    pairs_task *self = context;
    const finetune *f = &self->base;
    fprintf(out, "%" PRId64 " pairs, %" PRId64 " of them held out, %" PRId64 " tokens\n",
            self->rows.count, f->held_out, self->encodings.n_tokens);
    for (int64_t i = 0; i < SHOWN && i < self->rows.count && !br_failed(); i++)
        show_example(out, self, f->numbers[i]);
}

/* ---- The result ------------------------------------------------------------------------------ */

static bool finish(void *context, const char *folder, FILE *out)
{
    pairs_task *self = context;
    finetune_result result = { .folder = folder,
                               .command = "embed",
                               .argument = "TEXT",
                               .task_type = "FEATURE_EXTRACTION",
                               .out = out };
    return finetune_save(&self->base, &result);
}

static void destroy(void *context)
{
    pairs_task *self = context;
    finetune_end(&self->base);
    br_sentence_transformer_free(self->encoder);
    finetune_encodings_end(&self->encodings);
    text_rows_free(&self->rows);
}

const recipe recipe_finetune_pairs = {
    .name = "finetune-contrastive",
    .summary = "train a sentence encoder on pairs of texts that belong together",
    .needs_data = "a CSV file with the columns anchor and positive, and negative if there are "
                  "any, or lines of JSON with these keys",
    .presets = (const char *const[]){ "full", "lora", NULL },
    .metrics = (const char *const[]){ "eval_loss", "accuracy", NULL },
    .size = sizeof(pairs_task),
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
