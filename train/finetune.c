/* train/finetune.c - the recipe of `brasa finetune`: trains a pretrained language model on
 * texts, prompts with completions, or conversations. */
#include "common/text.h"
#include "train/batches.h"
#include "train/examples.h"
#include "train/train.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { IDS, LABELS, FIELDS }; /* fields of an item: i64 [n], i64 [n] */
enum { SHOWN = 3, SHOWN_TOKENS = 48, SHOWN_PROMPT = 64 };

typedef struct finetune_task {
    setting_text model_dir;
    setting_choice format, loss_on;
    int64_t length, batch, epochs;
    double held_out_part;
    bool checkpoint_layers;
    bool lora, use_dora, use_rslora, merge;
    int64_t r;
    double lora_alpha, lora_dropout;
    setting_text target_modules; /* names with commas between them */
    examples examples;
    br_tokenizer *tokenizer;
    const br_model_class *class;
    int64_t limit;              /* length, or what the model takes if that is less */
    int64_t held_out, *numbers; /* indices of all examples, the held-out ones first */
    br_dataset *all, *train_set, *held_out_set;
    batches batches, held_out_batches;
    br_module *model;
} finetune_task;

static const char *const formats[] = { "auto", "text", "jsonl", NULL };

enum { ON_COMPLETIONS, ON_ALL };
static const char *const loss_on[] = { "completions", "all", NULL };

/* ---- Settings -------------------------------------------------------------------------------- */

static void preset(void *context, const char *name, bool as_written, train_options *options)
{
    (void)as_written;
    finetune_task *self = context;
    bool lora = strcmp(name, "lora") == 0;
    *self = (finetune_task){ .format = { .names = formats },
                             .loss_on = { .names = loss_on },
                             .length = 512,
                             .batch = 8,
                             .epochs = 3,
                             .held_out_part = 0.1,
                             .lora = lora,
                             .r = 16,
                             .lora_alpha = 32,
                             .target_modules = { "all-linear" } };
    *options = (train_options){ .schedule = { .lr = lora ? 2e-4 : 2e-5 },
                                .clip = 1,
                                .checkpoint_every = 100,
                                .eval_every = 50 };
    options->schedule.decay.index = SCHEDULE_LINEAR;
}

static void add_settings(void *context, settings *s)
{
    finetune_task *self = context;
    const setting items[] = {
        { "model", SETTING_TEXT, &self->model_dir, 0, 0, false,
          "folder or GGUF file of the pretrained model" },
        { "epochs", SETTING_INTEGER, &self->epochs, 1, 1 << 20, false,
          "passes over the data if steps is 0" },
        { "batch", SETTING_INTEGER, &self->batch, 1, 1 << 20, false, "examples per batch" },
        { "length", SETTING_INTEGER, &self->length, 2, 1 << 20, false,
          "largest number of tokens of an example; longer ones are cut" },
        { "format", SETTING_CHOICE, &self->format, 0, 0, false,
          "of the data: text, jsonl, or auto" },
        { "loss_on", SETTING_CHOICE, &self->loss_on, 0, 0, false,
          "completions and answers, or all tokens" },
        { "held_out", SETTING_NUMBER, &self->held_out_part, 0, 0.9, false,
          "fraction of the examples to hold out for evaluation" },
        { "lora", SETTING_BOOL, &self->lora, 0, 0, false,
          "train a LoRA adapter; false: all parameters" },
        { "r", SETTING_INTEGER, &self->r, 1, 1 << 16, false, "rank of the adapter" },
        { "lora_alpha", SETTING_NUMBER, &self->lora_alpha, 0, 1e6, false,
          "the adapter's result is multiplied by lora_alpha / r" },
        { "lora_dropout", SETTING_NUMBER, &self->lora_dropout, 0, 0.99, false,
          "dropout probability of the adapter's input" },
        { "target_modules", SETTING_TEXT, &self->target_modules, 0, 0, false,
          "names of the layers with an adapter, such as q_proj,v_proj; all-linear: all but the "
          "head" },
        { "use_dora", SETTING_BOOL, &self->use_dora, 0, 0, false,
          "also train the norms of the weights (DoRA)" },
        { "use_rslora", SETTING_BOOL, &self->use_rslora, 0, 0, false,
          "multiply by lora_alpha / sqrt(r) (rsLoRA)" },
        { "merge", SETTING_BOOL, &self->merge, 0, 0, true,
          "at the end, also write a whole model that contains the adapter" },
        { "checkpoint_layers", SETTING_BOOL, &self->checkpoint_layers, 0, 0, true,
          "keep only the inputs of layers and compute their activations again: less memory" },
    };
    for (size_t i = 0; i < sizeof items / sizeof *items; i++)
        settings_add(s, items[i]);
}

/* ---- Data ------------------------------------------------------------------------------------ */

/* Shuffles the examples with the seed; the first ones are held out. At least one is trained on. */
static bool hold_out(finetune_task *self)
{
    int64_t n = self->examples.count;
    self->held_out = (int64_t)llround(self->held_out_part * (double)n);
    self->held_out = self->held_out < n ? self->held_out : n - 1;
    self->numbers = calloc((size_t)n, sizeof *self->numbers);
    if (!self->numbers) {
        br_raise(BR_ERROR_MEMORY, "cannot allocate memory for %" PRId64 " examples", n);
        return false;
    }
    for (int64_t i = 0; i < n; i++)
        self->numbers[i] = i;
    br_python_random *random = br_python_random_new(br_initial_seed());
    br_python_random_shuffle(random, n, self->numbers);
    br_python_random_free(random);
    return !br_failed();
}

static bool get_example(void *context, int64_t i, br_tensor **fields)
{
    const examples *e = &((finetune_task *)context)->examples;
    int64_t n = examples_length(e, i);
    fields[IDS] = br_from_i64(BR_SHAPE(n), examples_ids(e, i));
    fields[LABELS] = br_from_i64(BR_SHAPE(n), examples_labels(e, i));
    return !br_failed();
}

/* Returns the lengths of n examples, which the caller frees; NULL with an error. */
static int64_t *lengths_of(const finetune_task *self, int64_t n, const int64_t *numbers)
{
    int64_t *lengths = malloc((size_t)(n + 1) * sizeof *lengths);
    if (!lengths)
        br_raise(BR_ERROR_MEMORY, "cannot allocate memory for the lengths of %" PRId64 " examples",
                 n);
    for (int64_t i = 0; lengths && i < n; i++)
        lengths[i] = examples_length(&self->examples, numbers[i]);
    return lengths;
}

/* A batch has examples of similar length. Padding has no label, and follows the tokens that a label
 * depends on, so that it needs no mask; any id will do. */
static bool open_batches(finetune_task *self, int64_t workers)
{
    static const double padding[FIELDS] = { [IDS] = 0, [LABELS] = EXAMPLES_IGNORED };
    int64_t held_out = self->held_out, others = self->examples.count - held_out;
    const int64_t *train = self->numbers + held_out;
    self->all = br_dataset_new(self->examples.count, FIELDS, get_example, self, NULL);
    self->train_set = br_subset_new(self->all, others, train);
    self->held_out_set = br_subset_new(self->all, held_out, self->numbers);
    int64_t *lengths = lengths_of(self, others, train);
    int64_t *held_out_lengths = lengths_of(self, held_out, self->numbers);
    int64_t batch = self->batch < others ? self->batch : others;
    bool ok =
        !br_failed() &&
        batches_open_padded(&self->batches, self->train_set, batch, lengths, padding, workers,
                            true) &&
        (held_out == 0 || batches_open_padded(&self->held_out_batches, self->held_out_set,
                                              self->batch, held_out_lengths, padding, 0, false));
    free(lengths);
    free(held_out_lengths);
    return ok;
}

static bool read_examples(finetune_task *self, const char *text, size_t length)
{
    const examples_source source = { .format = (examples_format)self->format.index,
                                     .tokenizer = self->tokenizer,
                                     .folder = self->model_dir.text,
                                     .length = self->limit,
                                     .all_tokens = self->loss_on.index == ON_ALL };
    return examples_read(&self->examples, &source, text, length) && hold_out(self);
}

/* ---- The model ------------------------------------------------------------------------------- */

/* Sets the class of language models of the model's family, and the largest length. */
static bool find_class(finetune_task *self)
{
    br_auto_config *config = br_auto_config_load(self->model_dir.text);
    const char *type = config ? br_auto_config_model_type(config) : NULL;
    const br_model_family *family = type ? br_model_family_find(type) : NULL;
    self->class = family ? br_model_class_for(family, BR_TASK_CAUSAL_LM) : NULL;
    if (config && !self->class)
        br_raise(BR_ERROR_ARGUMENT,
                 "%s: model_type \"%s\" has no language model that predicts the next token",
                 self->model_dir.text, br_printable(type));
    int64_t most = self->class ? br_auto_config_max_tokens(config) : 0;
    self->limit = self->length < most ? self->length : most;
    br_auto_config_free(config);
    return self->class && !br_failed();
}

/* Adds the adapter to the layers of target_modules. */
static bool add_adapter(const finetune_task *self)
{
    enum { MOST = 64 };
    char *names = text_format("%s", self->target_modules.text), *rest = names;
    const char *list[MOST];
    int n = 0;
    while (rest && n < MOST)
        list[n++] = strsep(&rest, ",");
    if (rest)
        br_raise(BR_ERROR_ARGUMENT, "target_modules has more than %d names", MOST);
    bool ok = !br_failed() &&
              br_lora_add(self->model,
                          BR_OPTIONS(br_lora, .r = self->r, .lora_alpha = self->lora_alpha,
                                     .lora_dropout = self->lora_dropout, .use_dora = self->use_dora,
                                     .use_rslora = self->use_rslora, .n_target_modules = n,
                                     .target_modules = list));
    free(names);
    return ok;
}

static void checkpoint_layers(br_module *module, void *unused)
{
    (void)unused;
    if (strcmp(br_module_class(module), "ModuleList") == 0)
        br_module_checkpoint(module, true);
}

static bool load_model(finetune_task *self, br_dtype dtype)
{
    if (!*self->model_dir.text) {
        br_raise(BR_ERROR_ARGUMENT, "model is empty: name the folder of a pretrained model");
        return false;
    }
    if ((!self->lora || self->merge) && br_gguf_is_file(self->model_dir.text)) {
        br_raise(BR_ERROR_ARGUMENT,
                 "%s is a GGUF file, which does not have all that the folder of a trained model "
                 "has: only an adapter can be trained (lora=true, merge=false)",
                 self->model_dir.text);
        return false;
    }
    if (!find_class(self))
        return false;
    self->tokenizer = br_auto_tokenizer_load(self->model_dir.text, NULL);
    if (self->tokenizer)
        self->model = br_auto_model_load(
            self->model_dir.text,
            BR_OPTIONS(br_auto_model, .class_name = self->class->name, .dtype = dtype), NULL);
    if (!self->model || (self->lora && !add_adapter(self)))
        return false;
    br_train(self->model, true);
    if (self->checkpoint_layers)
        br_module_apply(self->model, checkpoint_layers, NULL);
    return !br_failed();
}

static br_module *prepare(void *context, const train_options *options, const char *text,
                          size_t length)
{
    finetune_task *self = context;
    if (!load_model(self, train_dtype(options)) || !read_examples(self, text, length) ||
        !open_batches(self, options->workers))
        return NULL;
    return self->model;
}

static int64_t default_batches(const void *context)
{
    const finetune_task *self = context;
    return self->epochs * batches_count(&self->batches);
}

/* ---- Training -------------------------------------------------------------------------------- */

static br_tensor *loss_of(const finetune_task *self, br_tensor *const *batch)
{
    br_model_input input = { .batch.ids = batch[IDS] };
    if (self->class->loss)
        return self->class->loss(self->model, &input, batch[LABELS]);
    return br_causal_lm_loss(self->class->forward(self->model, &input), batch[LABELS]);
}

static br_tensor *loss(void *context, int64_t step, br_tensor **addends)
{
    (void)addends;
    finetune_task *self = context;
    br_tensor *batch[FIELDS];
    return batches_get(&self->batches, step, batch) ? loss_of(self, batch) : NULL;
}

/* The mean loss of all tokens that count in the held-out examples. */
static void evaluate(void *context, double *metrics)
{
    finetune_task *self = context;
    double sum = 0, tokens = 0;
    int64_t n = self->held_out > 0 ? batches_count(&self->held_out_batches) : 0;
    for (int64_t k = 0; k < n && !br_failed(); k++) {
        br_scope *scope = br_scope_begin();
        br_tensor *batch[FIELDS];
        if (batches_get(&self->held_out_batches, k, batch)) {
            br_tensor *counts =
                br_ne_scalar(br_slice(batch[LABELS], 1, 1, BR_ALL, 1), EXAMPLES_IGNORED);
            double count = br_item(br_sum(br_to(counts, BR_F64)));
            sum += br_item(loss_of(self, batch)) * count;
            tokens += count;
        }
        br_scope_end(scope);
    }
    metrics[0] = sum / tokens; /* NaN without held-out examples */
}

/* ---- Showing --------------------------------------------------------------------------------- */

/* Prints ids as text. */
static void print_ids(FILE *out, const finetune_task *self, const char *what, int64_t n,
                      const int64_t *ids)
{
    char *text = br_tokenizer_decode(self->tokenizer, n, ids, true);
    if (text)
        fprintf(out, "%s%s\n", what, br_printable(text));
    br_free(text);
}

/* Shows what the model generates for the prompt of an example, or for the beginning of a text. */
static void show_example(FILE *out, const finetune_task *self, int64_t i)
{
    const int64_t *ids = examples_ids(&self->examples, i);
    int64_t n = examples_length(&self->examples, i), prompt = examples_prompt(&self->examples, i);
    int64_t eos = br_tokenizer_special_id(self->tokenizer, BR_TOKEN_EOS);
    if (prompt == 0)
        prompt = n / 2 < SHOWN_PROMPT ? (n + 1) / 2 : SHOWN_PROMPT;
    br_scope *scope = br_scope_begin();
    br_model_source source = { .model = self->model };
    br_language_model lm = self->class->language_model(&source);
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

static void show(void *context, FILE *out)
{
    const finetune_task *self = context;
    const examples *e = &self->examples;
    fprintf(out, "%" PRId64 " examples, %" PRId64 " of them held out, %" PRId64 " tokens", e->count,
            self->held_out, e->n_ids);
    if (e->cut > 0)
        fprintf(out, "; %" PRId64 " longer than %" PRId64 " tokens were cut", e->cut, self->limit);
    if (e->dropped > 0)
        fprintf(out, "; %" PRId64 " without a token to predict were left out", e->dropped);
    fprintf(out, "\n");
    for (int64_t i = 0; i < SHOWN && i < e->count && !br_failed(); i++)
        show_example(out, self, self->numbers[i]);
}

/* ---- The result ------------------------------------------------------------------------------ */

/* Writes the whole model. */
static bool save_model(const finetune_task *self, const char *folder, FILE *out)
{
    char *path = text_format("%s/model", folder);
    bool ok =
        path && br_auto_model_save(path, self->model,
                                   BR_OPTIONS(br_auto_model_save, .from = self->model_dir.text));
    if (ok && out)
        fprintf(out, "Wrote %s. Try it: brasa generate --model %s PROMPT\n", path, path);
    free(path);
    return ok;
}

static bool save_adapter(const finetune_task *self, const char *folder, FILE *out)
{
    const char *base = self->model_dir.text;
    char *path = text_format("%s/adapter", folder);
    bool ok = path && br_lora_save(path, self->model,
                                   BR_OPTIONS(br_lora_save, .base_model_name_or_path = base,
                                              .task_type = "CAUSAL_LM"));
    if (ok && out)
        fprintf(out, "Wrote %s. Try it: brasa generate --model %s --adapter %s PROMPT\n", path,
                base, path);
    free(path);
    return ok;
}

static bool finish(void *context, const char *folder, FILE *out)
{
    finetune_task *self = context;
    if (!self->lora)
        return save_model(self, folder, out);
    return save_adapter(self, folder, out) &&
           (!self->merge ||
            (br_lora_merge_and_unload(self->model) && save_model(self, folder, out)));
}

static void destroy(void *context)
{
    finetune_task *self = context;
    batches_close(&self->batches);
    batches_close(&self->held_out_batches);
    br_dataset_free(self->train_set);
    br_dataset_free(self->held_out_set);
    br_dataset_free(self->all);
    br_module_free(self->model);
    br_tokenizer_free(self->tokenizer);
    examples_free(&self->examples);
    free(self->numbers);
}

const recipe recipe_finetune = {
    .name = "finetune",
    .summary = "train a pretrained language model on your texts",
    .needs_data = "a text, or lines of JSON with \"text\", \"prompt\" and \"completion\", or "
                  "\"messages\"",
    .presets = (const char *const[]){ "lora", "full", NULL },
    .addends = (const char *const[]){ NULL },
    .metrics = (const char *const[]){ "eval_loss", NULL },
    .size = sizeof(finetune_task),
    .preset = preset,
    .settings = add_settings,
    .loads_dtype = true,
    .saves_trainable = true,
    .prepare = prepare,
    .default_batches = default_batches,
    .loss = loss,
    .evaluate = evaluate,
    .show = show,
    .finish = finish,
    .destroy = destroy,
};
