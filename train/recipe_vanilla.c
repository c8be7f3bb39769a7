/* train/recipe_vanilla.c - the recipe vanilla: trains notebook 001's Transformer to convert dates,
 * character by character, to ISO 8601 format.
 *
 * The seed selects the held-out dates. None of their texts occurs in training, because no text can
 * mean two dates (train/dates.h). */
#include "train/batches.h"
#include "train/dates.h"
#include "train/greedy.h"
#include "train/train.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Ids: 0 is padding, and 1 begins a target. A character's id is its index in the string below, plus
 * 1 in a source and plus 2 in a target. */
static const char source_letters[] = " ',-./0123456789abcdefghijklmnopqrstuvwxyz";
static const char target_letters[] = "0123456789-";
enum { PADDING, BEGIN };
enum {
    SOURCE,
    TARGET,
    FIELDS
}; /* fields of an example: i64 [SOURCE_LENGTH], i64 [TARGET_LENGTH] */
enum {
    SOURCE_LENGTH = DATES_TEXT - 1,
    TARGET_LENGTH = DATES_ISO, /* BEGIN in place of the NUL */
    SHOWN_RIGHT = 6,
    SHOWN_WRONG = 4,
};

typedef struct example {
    int32_t day, format; /* numbers as in train/dates.h */
} example;

typedef struct vanilla_task {
    br_vanilla_config config;
    bool as_written;
    int64_t batch, samples, held_out, formats;
    example *examples; /* the held-out ones, then the training examples */
    br_dataset *train_set, *held_out_set;
    batches batches, held_out_batches;
    br_vanilla_transformer *model;
} vanilla_task;

/* ---- Settings -------------------------------------------------------------------------------- */

/* Dropout is 0, because a run is a single epoch with few repeated examples. */
static void preset(void *context, const char *name, bool as_written, train_options *options)
{
    vanilla_task *self = context;
    self->config = (br_vanilla_config){
        .embed_dim = 64, .n_heads = 4, .ff_hid_dim = 256, .n_layers = 2, .dropout = 0
    };
    self->as_written = as_written;
    self->batch = 64;
    self->samples = 1 << 17;
    self->held_out = 512;
    self->formats = DATES_FORMATS;
    *options = (train_options){
        .steps = 2000,
        .checkpoint_every = 500,
        .eval_every = 250,
        .schedule = { .lr = 3e-3, .warmup = 100, .decay.index = SCHEDULE_INVERSE_ROOT }
    };
    if (strcmp(name, "small") != 0)
        return;
    self->config.n_layers = 1;
    self->formats = 8;
    self->held_out = 128;
    options->steps = 600;
    options->eval_every = 150;
}

static void add_settings(void *context, settings *s)
{
    vanilla_task *self = context;
    br_vanilla_config *c = &self->config;
    const setting items[] = {
        { "embed_dim", SETTING_INTEGER, &c->embed_dim, 1, 1 << 20, false,
          "size of the embeddings" },
        { "ff_hid_dim", SETTING_INTEGER, &c->ff_hid_dim, 1, 1 << 20, false,
          "hidden size of the feed-forward network" },
        { "heads", SETTING_INTEGER, &c->n_heads, 1, 1 << 20, false,
          "attention heads; must divide embed_dim" },
        { "layers", SETTING_INTEGER, &c->n_layers, 1, 1 << 10, false,
          "layers in the encoder and in the decoder" },
        { "dropout", SETTING_NUMBER, &c->dropout, 0, 1, false, "dropout probability" },
        { "batch", SETTING_INTEGER, &self->batch, 1, 1 << 20, false, "dates per batch" },
        { "samples", SETTING_INTEGER, &self->samples, 1, 1 << 30, false,
          "training examples per epoch" },
        { "held_out", SETTING_INTEGER, &self->held_out, 1, DATES_COUNT - 1, false,
          "number of dates held out for evaluation" },
        { "forms", SETTING_INTEGER, &self->formats, 1, DATES_FORMATS, false,
          "number of date formats" },
        { "as_written", SETTING_BOOL, &self->as_written, 0, 0, false,
          "use the notebook's variant of the model" },
    };
    for (size_t i = 0; i < sizeof items / sizeof *items; i++)
        settings_add(s, items[i]);
}

/* ---- Data ------------------------------------------------------------------------------------ */

static br_tensor *ids_of(const char *text, const char *letters, int64_t first, int64_t length)
{
    br_tensor *ids = br_full(BR_SHAPE(length), PADDING, BR_I64);
    int64_t *values = br_data_i64(ids);
    for (int64_t i = 0; values && text[i]; i++)
        values[i] = strchr(letters, text[i]) - letters + first;
    return ids;
}

static bool get_example(void *context, int64_t i, br_tensor **fields)
{
    const example *e = (const example *)context + i;
    char text[DATES_TEXT], iso[DATES_ISO];
    dates_write(dates_at(e->day), e->format, text);
    dates_iso(dates_at(e->day), iso);
    fields[SOURCE] = ids_of(text, source_letters, 1, SOURCE_LENGTH);
    br_tensor *begin = br_full(BR_SHAPE(1), BEGIN, BR_I64);
    br_tensor *letters = ids_of(iso, target_letters, 2, TARGET_LENGTH - 1);
    fields[TARGET] = br_cat(BR_INPUTS(begin, letters), 0);
    return !br_failed();
}

/* Generates one example of each held-out date, and random training examples of the other dates. */
static void random_examples(vanilla_task *self, br_python_random *random)
{
    int64_t days[DATES_COUNT], others = DATES_COUNT - self->held_out;
    for (int64_t i = 0; i < DATES_COUNT; i++)
        days[i] = i;
    br_python_random_shuffle(random, DATES_COUNT, days);
    for (int64_t i = 0; i < self->held_out + self->samples; i++) {
        bool held_out = i < self->held_out;
        int64_t k = held_out ? i : self->held_out + br_python_random_randrange(random, others);
        int64_t format = br_python_random_randrange(random, self->formats);
        self->examples[i] = (example){ (int32_t)days[k], (int32_t)format };
    }
}

static bool make_data(vanilla_task *self, int64_t workers)
{
    self->examples = calloc((size_t)(self->held_out + self->samples), sizeof *self->examples);
    if (!self->examples) {
        br_raise(BR_ERROR_MEMORY, "cannot allocate memory for %" PRId64 " dates", self->samples);
        return false;
    }
    br_python_random *random = br_python_random_new(br_initial_seed());
    if (random)
        random_examples(self, random);
    br_python_random_free(random);
    self->held_out_set = br_dataset_new(self->held_out, FIELDS, get_example, self->examples, NULL);
    self->train_set =
        br_dataset_new(self->samples, FIELDS, get_example, self->examples + self->held_out, NULL);
    return batches_open(&self->batches, self->train_set, self->batch, true, workers) &&
           batches_open_whole(&self->held_out_batches, self->held_out_set, self->batch);
}

/* Gets a batch; trims the padding of the sources to the longest source. */
static bool get_batch(batches *b, int64_t i, br_tensor **fields)
{
    if (!batches_get(b, i, fields))
        return false;
    br_tensor *is_letter = br_to(br_ne_scalar(fields[SOURCE], PADDING), BR_I64);
    int64_t longest = br_item_i64(br_max(br_sum_dim(is_letter, BR_DIMS(1), false)));
    fields[SOURCE] = br_narrow(fields[SOURCE], 1, 0, longest);
    return !br_failed();
}

/* ---- Training -------------------------------------------------------------------------------- */

static void choose_variant(vanilla_task *self)
{
    br_vanilla_config *c = &self->config;
    bool intended = !self->as_written;
    c->scale_by_head_dim = c->infinite_fill = c->sublayer_dropout = intended;
    c->use_joint_attention = c->use_norm_3 = intended;
    c->src_vocab_size = (int64_t)sizeof source_letters; /* padding in place of the NUL */
    c->trg_vocab_size = (int64_t)sizeof target_letters + 1;
    c->src_pad_idx = c->trg_pad_idx = PADDING;
    c->max_length = SOURCE_LENGTH;
}

/* Sets the sinusoidal position embeddings of "Attention Is All You Need": feature 2k of position p
 * is sin(p / 10000^(2k / embed_dim)), feature 2k + 1 the cosine of the same angle. */
static void begin_with_sinusoids(br_tensor *weight)
{
    float *values = br_data_f32(weight);
    int64_t positions = br_size(weight, 0), n = br_size(weight, 1);
    for (int64_t i = 0; values && i < positions * n; i++) {
        int64_t feature = i % n;
        double angle = (double)(i / n) * pow(1e4, -(double)(feature / 2 * 2) / (double)n);
        values[i] = (float)(feature % 2 == 0 ? sin(angle) : cos(angle));
    }
    br_bump_version(weight);
}

/* Initializes the embeddings (docs/quirks.md): sinusoidal positions, and token embeddings of about
 * the same magnitude after the model multiplies them by sqrt(embed_dim). Both are trained. */
static void initialize(vanilla_task *self)
{
    br_vanilla_encoder *encoder = self->model->encoder;
    br_vanilla_decoder *decoder = self->model->decoder;
    double std = 1 / sqrt((double)self->config.embed_dim);
    br_init_normal_(encoder->tok_emb->weight, 0, std);
    br_init_normal_(decoder->tok_emb->weight, 0, std);
    begin_with_sinusoids(encoder->pos_emb->weight);
    begin_with_sinusoids(decoder->pos_emb->weight);
}

static br_module *prepare(void *context, const train_options *options, const char *text,
                          size_t length)
{
    (void)text;
    (void)length;
    vanilla_task *self = context;
    choose_variant(self);
    if (!make_data(self, options->workers))
        return NULL;
    self->model = br_vanilla_transformer_new(&self->config);
    if (!br_failed() && !self->as_written)
        initialize(self);
    return br_failed() ? NULL : br_base(self->model);
}

/* Returns the mean loss of the target's characters, each predicted from the source and the correct
 * characters before it (teacher forcing). */
static br_tensor *loss_of(vanilla_task *self, br_tensor *const *batch)
{
    br_tensor *before = br_narrow(batch[TARGET], 1, 0, TARGET_LENGTH - 1);
    br_tensor *right = br_narrow(batch[TARGET], 1, 1, TARGET_LENGTH - 1);
    br_tensor *logits = br_vanilla_transformer_forward(self->model, batch[SOURCE], before);
    return br_cross_entropy(br_flatten(logits, 0, 1), br_flatten(right, 0, 1), NULL);
}

static br_tensor *loss(void *context, int64_t step, br_tensor **addends)
{
    (void)addends;
    vanilla_task *self = context;
    br_tensor *batch[FIELDS];
    return get_batch(&self->batches, step, batch) ? loss_of(self, batch) : NULL;
}

static void destroy(void *context)
{
    vanilla_task *self = context;
    batches_close(&self->batches);
    batches_close(&self->held_out_batches);
    br_dataset_free(self->train_set);
    br_dataset_free(self->held_out_set);
    br_module_free(self->model);
    free(self->examples);
}

/* ---- Reading --------------------------------------------------------------------------------- */

typedef struct reading {
    br_vanilla_decoder *decoder;
    br_tensor *encoded, *src_mask;
} reading;

static br_tensor *next_logits(void *context, br_tensor *ids)
{
    reading *r = context;
    br_tensor *trg_mask = br_vanilla_trg_mask(ids, PADDING);
    return br_vanilla_decoder_forward(r->decoder, ids, r->encoded, trg_mask, r->src_mask);
}

/* Returns the model's greedy output for the texts, i64 [B, TARGET_LENGTH]. */
static br_tensor *read_dates(vanilla_task *self, br_tensor *source)
{
    reading r = { .decoder = self->model->decoder,
                  .src_mask = br_vanilla_src_mask(source, PADDING) };
    r.encoded = br_vanilla_encoder_forward(self->model->encoder, source, r.src_mask);
    return greedy_decode(next_logits, &r, br_size(source, 0), BEGIN, TARGET_LENGTH);
}

/* ---- Measuring and showing ------------------------------------------------------------------- */

static bool is_right(br_tensor *dates, br_tensor *answers, int64_t i)
{
    const int64_t *a = br_data_i64(dates) + i * TARGET_LENGTH;
    return memcmp(a, br_data_i64(answers) + i * TARGET_LENGTH, TARGET_LENGTH * sizeof *a) == 0;
}

static void evaluate(void *context, double *metrics)
{
    vanilla_task *self = context;
    double sum = 0;
    int64_t right = 0;
    for (int64_t k = 0; k < batches_count(&self->held_out_batches) && !br_failed(); k++) {
        br_scope *scope = br_scope_begin();
        br_tensor *batch[FIELDS];
        if (get_batch(&self->held_out_batches, k, batch)) {
            int64_t n = br_size(batch[TARGET], 0);
            sum += br_item(loss_of(self, batch)) * (double)n;
            br_tensor *answers = read_dates(self, batch[SOURCE]);
            for (int64_t i = 0; i < n && !br_failed(); i++)
                right += is_right(batch[TARGET], answers, i);
        }
        br_scope_end(scope);
    }
    metrics[0] = sum / (double)self->held_out;
    metrics[1] = (double)right / (double)self->held_out;
}

/* Number of held-out dates that were converted correctly and incorrectly. */
typedef struct tally {
    int64_t right, wrong;
} tally;

static void show_example(FILE *out, const example *e, const int64_t *answer, bool right, tally *t)
{
    char text[DATES_TEXT], iso[DATES_ISO] = "";
    int64_t shown = right ? t->right++ : t->wrong++;
    if (shown >= (right ? SHOWN_RIGHT : SHOWN_WRONG))
        return;
    for (int i = 1; i < TARGET_LENGTH; i++)
        iso[i - 1] = answer[i] > BEGIN ? target_letters[answer[i] - BEGIN - 1] : '?';
    dates_write(dates_at(e->day), e->format, text);
    fprintf(out, "\n%s\n  model: %s  ", text, iso);
    dates_iso(dates_at(e->day), iso);
    if (right)
        fprintf(out, "right\n");
    else
        fprintf(out, "wrong: it is %s\n", iso);
}

static void show(void *context, FILE *out)
{
    vanilla_task *self = context;
    const example *next = self->examples;
    tally t = { 0 };
    for (int64_t k = 0; k < batches_count(&self->held_out_batches) && !br_failed(); k++) {
        br_scope *scope = br_scope_begin();
        br_tensor *batch[FIELDS];
        bool ok = get_batch(&self->held_out_batches, k, batch);
        br_tensor *answers = ok ? read_dates(self, batch[SOURCE]) : NULL;
        for (int64_t i = 0; answers && i < br_size(answers, 0); i++)
            show_example(out, next++, br_data_i64(answers) + i * TARGET_LENGTH,
                         is_right(batch[TARGET], answers, i), &t);
        br_scope_end(scope);
    }
    fprintf(out,
            "\n%" PRId64 " of %" PRId64 " held-out dates converted without a mistake (%.1f %%)\n",
            t.right, self->held_out, 100 * (double)t.right / (double)self->held_out);
}

/* ---- Attention ------------------------------------------------------------------------------- */

/* Creates the attention. Its tokens are the characters of the text and those of the decoder's
 * input. */
static br_attention *attention_of(const char *text, br_tensor *answer)
{
    const char *tokens[SOURCE_LENGTH], *answers[TARGET_LENGTH] = { "(begin)" };
    char letters[SOURCE_LENGTH][2] = { 0 }, answered[TARGET_LENGTH][2] = { 0 };
    const int64_t *ids = br_data_i64(answer);
    int64_t n = (int64_t)strlen(text), m = br_numel(answer);
    for (int64_t i = 0; i < n; i++) {
        letters[i][0] = text[i];
        tokens[i] = letters[i];
    }
    for (int64_t i = 1; ids && i < m; i++) {
        answered[i][0] = (char)(ids[i] > BEGIN ? target_letters[ids[i] - BEGIN - 1] : '?');
        answers[i] = answered[i];
    }
    return br_attention_new(&(br_attention_text){ n, tokens, m, answers, 0, 0 });
}

static bool good_letters(const char *text)
{
    size_t n = strlen(text);
    if (n > 0 && n <= SOURCE_LENGTH && strspn(text, source_letters) == n)
        return true;
    br_raise(BR_ERROR_ARGUMENT, "'%s': vanilla takes 1 .. %d characters from \"%s\"", text,
             SOURCE_LENGTH, source_letters);
    return false;
}

static br_attention *attend(void *context, const char *text)
{
    vanilla_task *self = context;
    const example *e = self->examples; /* the first held-out example */
    char own[DATES_TEXT];
    if (!text)
        dates_write(dates_at(e->day), e->format, own);
    text = text ? text : own;
    if (!good_letters(text))
        return NULL;
    br_tensor *source = ids_of(text, source_letters, 1, (int64_t)strlen(text));
    source = br_unsqueeze(source, 0);
    br_tensor *before = br_narrow(read_dates(self, source), 1, 0, TARGET_LENGTH - 1);
    br_attention *attention = br_failed() ? NULL : attention_of(text, before);
    br_recorder *recorder = br_recorder_begin();
    br_vanilla_transformer_forward(self->model, source, before);
    br_attention_add_recorded(attention, recorder);
    br_recorder_end(recorder);
    return attention;
}

static const char *const presets[] = { "dates", "small", NULL };
static const char *const addends[] = { NULL };
static const char *const metrics[] = { "held_out_loss", "exact_match", NULL };

const recipe recipe_vanilla = {
    .name = "vanilla",
    .summary = "train the Transformer of notebook 001 to convert dates to ISO 8601",
    .presets = presets,
    .addends = addends,
    .metrics = metrics,
    .size = sizeof(vanilla_task),
    .preset = preset,
    .settings = add_settings,
    .prepare = prepare,
    .loss = loss,
    .evaluate = evaluate,
    .show = show,
    .attend = attend,
    .destroy = destroy,
};
