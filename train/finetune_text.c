/* train/finetune_text.c - the objective "text" of `brasa finetune`: trains a pretrained language
 * model on texts, prompts with completions, or conversations. */
#include "train/examples.h"
#include "train/finetune.h"
#include "train/packs.h"

#include <inttypes.h>
#include <string.h>

/* Fields of an item, i64 [n] each. An item is an example or, with `packing`, several that follow
 * each other; POSITIONS are those of the tokens in their example. */
enum { IDS, LABELS, FIELDS, POSITIONS = FIELDS, PACKED_FIELDS };
enum { SHOWN = 3, SHOWN_TOKENS = 48, SHOWN_PROMPT = 64 };

typedef struct text_task {
    finetune base;
    setting_choice format, loss_on;
    examples examples;
    bool packing;
    packs packs;
} text_task;

static const char *const formats[] = { "auto", "text", "jsonl", NULL };

enum { ON_COMPLETIONS, ON_ALL };
static const char *const loss_on[] = { "completions", "all", NULL };

/* ---- Settings -------------------------------------------------------------------------------- */

static void preset(void *context, const char *name, bool as_written, train_options *options)
{
    (void)as_written;
    text_task *self = context;
    bool lora = strcmp(name, "lora") == 0;
    finetune_preset(&self->base, options, lora, lora ? 2e-4 : 2e-5);
    self->format = (setting_choice){ .names = formats };
    self->loss_on = (setting_choice){ .names = loss_on };
}

static void add_settings(void *context, settings *s)
{
    text_task *self = context;
    finetune_add_settings(&self->base, s);
    settings_add(s, (setting){ "format", SETTING_CHOICE, &self->format, 0, 0, false,
                               "of the data: text, jsonl, or auto" });
    settings_add(s, (setting){ "loss_on", SETTING_CHOICE, &self->loss_on, 0, 0, false,
                               "completions and answers, or all tokens" });
    settings_add(s, (setting){ "packing", SETTING_BOOL, &self->packing, 0, 0, false,
                               "put short examples together into rows of up to `length` tokens, "
                               "without padding; none attends to another" });
}

/* ---- Data ------------------------------------------------------------------------------------ */

static bool get_example(void *context, int64_t i, br_tensor **fields)
{
    const examples *e = &((text_task *)context)->examples;
    int64_t n = examples_length(e, i);
    fields[IDS] = br_from_i64(BR_SHAPE(n), examples_ids(e, i));
    fields[LABELS] = br_from_i64(BR_SHAPE(n), examples_labels(e, i));
    return !br_failed();
}

static int64_t length_of(const void *context, int64_t i)
{
    return examples_length(&((const text_task *)context)->examples, i);
}

static int64_t length_of_pack(const void *context, int64_t i)
{
    const text_task *self = context;
    const int64_t *members;
    int64_t n = packs_members(&self->packs, i, &members), length = 0;
    for (int64_t k = 0; k < n; k++)
        length += examples_length(&self->examples, members[k]);
    return length;
}

/* Copies an example. Its first token is not predicted, least of all by another example. */
static void copy_example(const examples *e, int64_t i, int64_t *ids, int64_t *labels,
                         int64_t *positions)
{
    const int64_t n = examples_length(e, i);
    memcpy(ids, examples_ids(e, i), (size_t)n * sizeof *ids);
    memcpy(labels, examples_labels(e, i), (size_t)n * sizeof *labels);
    labels[0] = EXAMPLES_IGNORED;
    for (int64_t k = 0; k < n; k++)
        positions[k] = k;
}

static bool get_pack(void *context, int64_t i, br_tensor **fields)
{
    const text_task *self = context;
    const int64_t length = length_of_pack(self, i), *members;
    int64_t *at[PACKED_FIELDS];
    for (int field = 0; field < PACKED_FIELDS; field++) {
        fields[field] = br_empty(BR_SHAPE(length), BR_I64);
        at[field] = br_data_i64(fields[field]);
    }
    const int64_t n = br_failed() ? 0 : packs_members(&self->packs, i, &members);
    for (int64_t k = 0; k < n; k++) {
        copy_example(&self->examples, members[k], at[IDS], at[LABELS], at[POSITIONS]);
        for (int field = 0; field < PACKED_FIELDS; field++)
            at[field] += examples_length(&self->examples, members[k]);
    }
    return !br_failed();
}

static bool make_packs(text_task *self)
{
    const finetune *f = &self->base;
    int64_t n = self->examples.count, *lengths = br_calloc((size_t)n + 1, sizeof *lengths);
    if (!f->family->packs)
        br_raise(BR_ERROR_ARGUMENT, "packing=true: models of type '%s' cannot; use packing=false",
                 f->family->model_type);
    for (int64_t i = 0; lengths && i < n; i++)
        lengths[i] = length_of(self, i);
    if (!br_failed())
        packs_make(&self->packs, n, lengths, f->limit);
    br_free(lengths);
    return !br_failed();
}

static bool read_examples(text_task *self, const char *text, size_t length)
{
    const examples_source source = { .format = (examples_format)self->format.index,
                                     .tokenizer = self->base.tokenizer,
                                     .folder = self->base.model_dir.text,
                                     .length = self->base.limit,
                                     .all_tokens = self->loss_on.index == ON_ALL };
    return examples_read(&self->examples, &source, text, length);
}

/* Padding has no label, and follows the tokens that a label depends on, so that it needs no mask;
 * any id will do. */
static br_module *prepare(void *context, const train_options *options, const char *text,
                          size_t length)
{
    static const double padding[PACKED_FIELDS] = {
        [IDS] = 0, [LABELS] = EXAMPLES_IGNORED, [POSITIONS] = -1
    };
    text_task *self = context;
    finetune *f = &self->base;
    if (!finetune_begin(f, BR_TASK_CAUSAL_LM,
                        "no language model that predicts the next token; --objective classify "
                        "trains a classifier of texts") ||
        !finetune_load(f, train_dtype(options), NULL, false) ||
        !read_examples(self, text, length) || (self->packing && !make_packs(self)))
        return NULL;
    const finetune_data data = { .count = self->packing ? self->packs.count : self->examples.count,
                                 .n_fields = self->packing ? PACKED_FIELDS : FIELDS,
                                 .get = self->packing ? get_pack : get_example,
                                 .context = self,
                                 .length = self->packing ? length_of_pack : length_of,
                                 .padding = padding };
    return finetune_open(f, &data, options->workers) ? f->model : NULL;
}

/* ---- Training -------------------------------------------------------------------------------- */

/* Returns the elements of the tokens that are no padding, as one row. */
static br_tensor *one_row(br_tensor *x, br_tensor *real)
{
    return br_unsqueeze(br_masked_select(x, real), 0);
}

/* Replaces the rows of packs by one row without padding. Returns where its examples begin, and the
 * number of its tokens. */
static br_tensor *unpad(br_tensor **batch)
{
    br_tensor *real = br_ge_scalar(batch[POSITIONS], 0);
    br_tensor *positions = br_masked_select(batch[POSITIONS], real);
    batch[IDS] = one_row(batch[IDS], real);
    batch[LABELS] = one_row(batch[LABELS], real);
    br_tensor *starts = br_reshape(br_nonzero(br_eq_scalar(positions, 0)), BR_SHAPE(-1));
    br_tensor *end = br_full(BR_SHAPE(1), (double)br_numel(positions), BR_I64);
    return br_cat(2, (br_tensor *[]){ starts, end }, 0);
}

/* Returns the mean loss of a batch, which becomes one row with `packing`. */
static br_tensor *loss_of(const text_task *self, br_tensor **batch)
{
    br_model_input input = { .cu_seqlens = self->packing ? unpad(batch) : NULL };
    const br_model_class *class = self->base.class;
    input.batch.ids = batch[IDS];
    if (class->loss)
        return class->loss(self->base.model, &input, batch[LABELS]);
    return br_causal_lm_loss(class->forward(self->base.model, &input), batch[LABELS]);
}

static br_tensor *loss(void *context, int64_t step, br_tensor **addends)
{
    (void)addends;
    text_task *self = context;
    br_tensor *batch[PACKED_FIELDS];
    if (!batches_get(&self->base.batches, step, batch))
        return NULL;
    br_tensor *result = loss_of(self, batch);
    self->base.tokens += br_numel(batch[IDS]);
    return result;
}

static void add_held_out(void *context, br_tensor *const *batch, double *sums)
{
    const text_task *self = context;
    br_tensor *own[PACKED_FIELDS] = { batch[IDS], batch[LABELS],
                                      self->packing ? batch[POSITIONS] : NULL };
    const double loss = br_item(loss_of(self, own));
    br_tensor *counts = br_ne_scalar(br_slice(own[LABELS], 1, 1, BR_ALL, 1), EXAMPLES_IGNORED);
    double count = br_item(br_sum(br_to(counts, BR_F64)));
    sums[0] += loss * count;
    sums[1] += count;
}

/* The mean loss of all tokens that count in the held-out examples; NaN without such examples. */
static void evaluate(void *context, double *metrics)
{
    double sums[2] = { 0 }; /* of losses and of tokens */
    finetune_each_held_out(&((text_task *)context)->base, add_held_out, context, sums);
    metrics[0] = sums[0] / sums[1];
}

/* ---- Showing --------------------------------------------------------------------------------- */

/* Prints ids as text. */
static void print_ids(FILE *out, const text_task *self, const char *what, int64_t n,
                      const int64_t *ids)
{
    char *text = br_tokenizer_decode(self->base.tokenizer, n, ids, true);
    if (text)
        fprintf(out, "%s%s\n", what, br_printable(text));
    br_free(text);
}

/* Shows what the model generates for the prompt of an example, or for the beginning of a text. */
static void show_example(FILE *out, const text_task *self, int64_t i)
{
    const int64_t *ids = examples_ids(&self->examples, i);
    int64_t n = examples_length(&self->examples, i), prompt = examples_prompt(&self->examples, i);
    int64_t eos = br_tokenizer_special_id(self->base.tokenizer, BR_TOKEN_EOS);
    if (prompt == 0)
        prompt = n / 2 < SHOWN_PROMPT ? (n + 1) / 2 : SHOWN_PROMPT;
    br_scope *scope = br_scope_begin();
    br_model_source source = { .model = self->base.model };
    br_language_model lm = self->base.class->language_model(&source);
    br_tensor *generated =
        br_generate(&lm, br_from_i64(BR_SHAPE(1, prompt), ids),
                    BR_OPTIONS(br_generate, .max_new_tokens = SHOWN_TOKENS,
                               .n_eos = eos >= 0 ? 1 : 0, .eos_token_ids = &eos));
    if (generated) {
        int64_t shown = prompt < SHOWN_PROMPT ? prompt : SHOWN_PROMPT;
        fprintf(out, "\n");
        print_ids(out, self, "prompt:   ", shown, ids + prompt - shown);
        print_ids(out, self, "expected: ", n - prompt < SHOWN_TOKENS ? n - prompt : SHOWN_TOKENS,
                  ids + prompt);
        print_ids(out, self, "model:    ", br_size(generated, 1) - prompt,
                  br_data_i64(generated) + prompt);
    }
    br_scope_end(scope);
}

/* Returns the example of an item, the first of a pack. */
static int64_t example_of(const text_task *self, int64_t item)
{
    const int64_t *members;
    if (!self->packing)
        return item;
    packs_members(&self->packs, item, &members);
    return members[0];
}

static void show(void *context, FILE *out)
{
    const text_task *self = context;
    const examples *e = &self->examples;
    if (self->packing)
        fprintf(out,
                "%" PRId64 " examples in %" PRId64 " packs, %" PRId64 " of them held out, %" PRId64
                " tokens",
                e->count, self->packs.count, self->base.held_out, e->n_ids);
    else
        fprintf(out, "%" PRId64 " examples, %" PRId64 " of them held out, %" PRId64 " tokens",
                e->count, self->base.held_out, e->n_ids);
    if (e->cut > 0)
        fprintf(out, "; %" PRId64 " longer than %" PRId64 " tokens were cut", e->cut,
                self->base.limit);
    if (e->dropped > 0)
        fprintf(out, "; %" PRId64 " without a token to predict were left out", e->dropped);
    fprintf(out, "\n");
    const int64_t items = self->packing ? self->packs.count : e->count;
    for (int64_t i = 0; i < SHOWN && i < items && !br_failed(); i++)
        show_example(out, self, example_of(self, self->base.numbers[i]));
}

/* ---- The result ------------------------------------------------------------------------------ */

static bool finish(void *context, const char *folder, FILE *out)
{
    text_task *self = context;
    const finetune_result result = { .folder = folder,
                                     .command = "generate",
                                     .argument = "PROMPT",
                                     .task_type = "CAUSAL_LM",
                                     .out = out };
    return finetune_save(&self->base, &result);
}

static void destroy(void *context)
{
    text_task *self = context;
    finetune_end(&self->base);
    examples_free(&self->examples);
    packs_free(&self->packs);
}

const recipe recipe_finetune_text = {
    .name = "finetune",
    .summary = "train a pretrained language model on your texts",
    .needs_data = "a text, or lines of JSON with \"text\", \"prompt\" and \"completion\", or "
                  "\"messages\"",
    .presets = (const char *const[]){ "lora", "full", NULL },
    .metrics = (const char *const[]){ "eval_loss", NULL },
    .size = sizeof(text_task),
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
