/* train/finetune.c - what the objectives of `brasa finetune` share (finetune.h). */
#include "train/finetune.h"
#include "common/text.h"
#include "train/loading.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- Settings -------------------------------------------------------------------------------- */

void finetune_preset(finetune *f, train_options *options, bool lora, double lr)
{
    *f = (finetune){ .length = 512,
                     .batch = 8,
                     .epochs = 3,
                     .held_out_part = 0.1,
                     .lora = lora,
                     .r = 16,
                     .lora_alpha = 32,
                     .target_modules = { "all-linear" } };
    *options = (train_options){
        .schedule = { .lr = lr }, .clip = 1, .checkpoint_every = 100, .eval_every = 50
    };
    options->schedule.decay.index = SCHEDULE_LINEAR;
}

void finetune_add_settings(finetune *f, settings *s)
{
    const setting items[] = {
        { "model", SETTING_TEXT, &f->model_dir, 0, 0, false,
          "folder or GGUF file of the pretrained model" },
        { "epochs", SETTING_INTEGER, &f->epochs, 1, 1 << 20, false,
          "passes over the data if steps is 0" },
        { "batch", SETTING_INTEGER, &f->batch, 1, 1 << 20, false, "examples per batch" },
        { "length", SETTING_INTEGER, &f->length, 2, 1 << 20, false,
          "largest number of tokens of an example; longer ones are cut" },
        { "held_out", SETTING_NUMBER, &f->held_out_part, 0, 0.9, false,
          "fraction of the examples to hold out for evaluation" },
        { "lora", SETTING_BOOL, &f->lora, 0, 0, false,
          "train a LoRA adapter; false: all parameters" },
        { "r", SETTING_INTEGER, &f->r, 1, 1 << 16, false, "rank of the adapter" },
        { "lora_alpha", SETTING_NUMBER, &f->lora_alpha, 0, 1e6, false,
          "the adapter's result is multiplied by lora_alpha / r" },
        { "lora_dropout", SETTING_NUMBER, &f->lora_dropout, 0, 0.99, false,
          "dropout probability of the adapter's input" },
        { "target_modules", SETTING_TEXT, &f->target_modules, 0, 0, false,
          "names of the layers with an adapter, such as q_proj,v_proj; all-linear: all but the "
          "head" },
        { "use_dora", SETTING_BOOL, &f->use_dora, 0, 0, false,
          "also train the norms of the weights (DoRA)" },
        { "use_rslora", SETTING_BOOL, &f->use_rslora, 0, 0, false,
          "multiply by lora_alpha / sqrt(r) (rsLoRA)" },
        { "merge", SETTING_BOOL, &f->merge, 0, 0, true,
          "at the end, also write a whole model that contains the adapter" },
        { "checkpoint_layers", SETTING_BOOL, &f->checkpoint_layers, 0, 0, true,
          "keep only the inputs of layers and compute their activations again: less memory" },
    };
    for (size_t i = 0; i < sizeof items / sizeof *items; i++)
        settings_add(s, items[i]);
}

/* ---- The model ------------------------------------------------------------------------------- */

static bool find_class(finetune *f, br_model_task task, const char *what)
{
    br_auto_config *config = br_auto_config_load(f->model_dir.text);
    const char *type = config ? br_auto_config_model_type(config) : NULL;
    f->family = type ? br_model_family_find(type) : NULL;
    f->class = f->family ? br_model_class_for(f->family, task) : NULL;
    if (config && !f->class)
        br_raise(BR_ERROR_ARGUMENT, "%s: model_type \"%s\" has %s", f->model_dir.text,
                 type ? br_printable(type) : "", what);
    int64_t most = f->class ? br_auto_config_max_tokens(config) : 0;
    f->limit = f->length < most ? f->length : most;
    br_auto_config_free(config);
    return f->class && !br_failed();
}

bool finetune_begin(finetune *f, br_model_task task, const char *what)
{
    if (!*f->model_dir.text) {
        br_raise(BR_ERROR_ARGUMENT, "model is empty: name the folder of a pretrained model");
        return false;
    }
    if ((!f->lora || f->merge) && br_gguf_is_file(f->model_dir.text)) {
        br_raise(BR_ERROR_ARGUMENT,
                 "%s is a GGUF file, which does not have all that the folder of a trained model "
                 "has: only an adapter can be trained (lora=true, merge=false)",
                 f->model_dir.text);
        return false;
    }
    if (find_class(f, task, what))
        f->tokenizer = br_auto_tokenizer_load(f->model_dir.text, NULL);
    return f->tokenizer && !br_failed();
}

enum { MOST_NAMES = 64, MOST_HEADS = 8 };

/* Returns whether the model itself has a child of that name. */
static bool has_child(const br_module *model, const char *name)
{
    char path[64];
    for (int64_t i = 0; i < br_module_num_children(model); i++)
        if (strcmp(br_module_path(br_module_child_at(model, i), path, sizeof path), name) == 0)
            return true;
    return false;
}

/* The names of a model's heads, and patterns for the layers in them. */
typedef struct heads {
    char names[MOST_HEADS][64], patterns[MOST_HEADS][66];
    const char *modules[MOST_HEADS], *all[2 * MOST_HEADS];
    int64_t n;
} heads;

static void find_heads(const finetune *f, heads *h)
{
    for (const char *const *prefix = f->family->heads; prefix && *prefix && h->n < MOST_HEADS;
         prefix++) {
        char *name = h->names[h->n], *pattern = h->patterns[h->n];
        snprintf(name, sizeof *h->names, "%.*s", (int)strlen(*prefix) - 1, *prefix);
        if (!has_child(f->model, name))
            continue;
        snprintf(pattern, sizeof *h->patterns, "%s*", *prefix);
        h->modules[h->n] = name;
        h->all[2 * h->n] = name;
        h->all[2 * h->n + 1] = pattern;
        h->n++;
    }
}

/* Adds the adapter to the layers of target_modules. */
static bool add_adapter(const finetune *f, bool new_head)
{
    char *names = text_format("%s", f->target_modules.text), *rest = names;
    const char *list[MOST_NAMES];
    int n = 0;
    heads h = { .n = 0 };
    while (rest && n < MOST_NAMES)
        list[n++] = strsep(&rest, ",");
    if (rest)
        br_raise(BR_ERROR_ARGUMENT, "target_modules has more than %d names", MOST_NAMES);
    if (new_head)
        find_heads(f, &h);
    bool ok =
        !br_failed() &&
        br_lora_add(f->model, BR_OPTIONS(br_lora, .r = f->r, .lora_alpha = f->lora_alpha,
                                         .lora_dropout = f->lora_dropout, .use_dora = f->use_dora,
                                         .use_rslora = f->use_rslora, .n_target_modules = n,
                                         .target_modules = list, .n_exclude_modules = 2 * h.n,
                                         .exclude_modules = h.all, .n_modules_to_save = h.n,
                                         .modules_to_save = h.modules));
    free(names);
    return ok;
}

static void checkpoint_layers(br_module *module, void *unused)
{
    (void)unused;
    if (strcmp(br_module_class(module), "ModuleList") == 0)
        br_module_checkpoint(module, true);
}

bool finetune_adapt(finetune *f, br_module *model, bool new_head)
{
    f->model = model;
    if (f->lora && !add_adapter(f, new_head))
        return false;
    br_train(model, true);
    if (f->checkpoint_layers)
        br_module_apply(model, checkpoint_layers, NULL);
    return !br_failed();
}

bool finetune_load(finetune *f, br_dtype dtype, const char *overrides, bool new_head)
{
    br_module *model =
        br_auto_model_load(f->model_dir.text,
                           BR_OPTIONS(br_auto_model, .class_name = f->class->name, .dtype = dtype,
                                      .overrides = overrides, .ignore_mismatched_sizes = new_head),
                           &f->report);
    f->owns_model = model != NULL;
    return model && finetune_adapt(f, model, new_head);
}

void finetune_describe(void *self, FILE *out)
{
    const finetune *f = self;
    loading_warn(out, f->model_dir.text, &f->report);
}

/* ---- Tokens ---------------------------------------------------------------------------------- */

bool finetune_encodings_begin(finetune_encodings *e, int64_t n)
{
    *e = (finetune_encodings){ .n = n, .items = calloc((size_t)n + 1, sizeof *e->items) };
    if (!e->items)
        br_raise(BR_ERROR_MEMORY, "cannot allocate memory for the tokens");
    return e->items != NULL;
}

bool finetune_encode(const finetune *f, finetune_encodings *e, int64_t i, const br_text *text,
                     const br_text *pair)
{
    br_encoding *encoding =
        br_tokenizer_encode(f->tokenizer, text, pair,
                            BR_OPTIONS(br_encode, .max_length = f->limit, .strict_utf8 = true));
    if (!encoding)
        return false;
    e->items[i] = encoding;
    e->n_tokens += encoding->length;
    e->cut += encoding->n_overflow > 0;
    return true;
}

void finetune_encodings_end(finetune_encodings *e)
{
    for (int64_t i = 0; e->items && i < e->n; i++)
        br_encoding_free(e->items[i]);
    free(e->items);
}

void finetune_fields(const finetune_encodings *e, int64_t i, br_tensor **fields)
{
    const br_encoding *encoding = e->items[i];
    fields[FINETUNE_IDS] = br_from_i64(BR_SHAPE(encoding->length), encoding->ids);
    fields[FINETUNE_TYPE_IDS] = br_from_i64(BR_SHAPE(encoding->length), encoding->type_ids);
    fields[FINETUNE_MASK] = br_from_i64(BR_SHAPE(encoding->length), encoding->attention_mask);
}

br_token_batch finetune_batch(br_tensor *const *fields)
{
    return (br_token_batch){ .ids = fields[FINETUNE_IDS],
                             .type_ids = fields[FINETUNE_TYPE_IDS],
                             .attention_mask = fields[FINETUNE_MASK] };
}

double finetune_padding(const finetune *f)
{
    int64_t id = br_tokenizer_special_id(f->tokenizer, BR_TOKEN_PAD);
    return id < 0 ? 0 : (double)id;
}

/* ---- Data ------------------------------------------------------------------------------------ */

/* Chooses the held-out examples. At least one is trained on. */
static bool hold_out(finetune *f, int64_t n)
{
    f->held_out = (int64_t)llround(f->held_out_part * (double)n);
    f->held_out = f->held_out < n ? f->held_out : n - 1;
    f->numbers = batches_shuffled(n);
    return f->numbers != NULL;
}

/* Returns the lengths of n examples, which the caller frees; NULL if batches are drawn at random,
 * or with an error. */
static int64_t *lengths_of(const finetune_data *data, int64_t n, const int64_t *numbers)
{
    if (!data->length)
        return NULL;
    int64_t *lengths = malloc((size_t)(n + 1) * sizeof *lengths);
    if (!lengths)
        br_raise(BR_ERROR_MEMORY, "cannot allocate memory for the lengths of %" PRId64 " examples",
                 n);
    for (int64_t i = 0; lengths && i < n; i++)
        lengths[i] = data->length(data->context, numbers[i]);
    return lengths;
}

bool finetune_open(finetune *f, const finetune_data *data, int64_t workers)
{
    if (!hold_out(f, data->count))
        return false;
    int64_t held_out = f->held_out, others = data->count - held_out;
    const int64_t *train = f->numbers + held_out;
    f->all = br_dataset_new(data->count, data->n_fields, data->get, data->context, NULL);
    f->train_set = br_subset_new(f->all, others, train);
    f->held_out_set = br_subset_new(f->all, held_out, f->numbers);
    int64_t *lengths = lengths_of(data, others, train);
    int64_t *held_out_lengths = lengths_of(data, held_out, f->numbers);
    int64_t batch = f->batch < others ? f->batch : others;
    bool ok = !br_failed() &&
              batches_open_padded(&f->batches, f->train_set, batch, lengths, data->padding, workers,
                                  true) &&
              (held_out == 0 || batches_open_padded(&f->held_out_batches, f->held_out_set, f->batch,
                                                    held_out_lengths, data->padding, 0, false));
    free(lengths);
    free(held_out_lengths);
    return ok;
}

void finetune_each_held_out(finetune *f,
                            void (*add)(void *context, br_tensor *const *batch, double *sums),
                            void *context, double *sums)
{
    int64_t n = f->held_out > 0 ? batches_count(&f->held_out_batches) : 0;
    for (int64_t k = 0; k < n && !br_failed(); k++) {
        br_scope *scope = br_scope_begin();
        br_tensor *batch[BR_MAX_FIELDS];
        if (batches_get(&f->held_out_batches, k, batch))
            add(context, batch, sums);
        br_scope_end(scope);
    }
}

int64_t finetune_default_batches(const void *self)
{
    const finetune *f = self;
    return f->epochs * batches_count(&f->batches);
}

int64_t finetune_tokens(const void *self)
{
    return ((const finetune *)self)->tokens;
}

/* ---- The result ------------------------------------------------------------------------------ */

static bool save_model(const finetune *f, const finetune_result *result)
{
    char *path = text_format("%s/model", result->folder);
    bool ok = path && br_auto_model_save(path, f->model,
                                         BR_OPTIONS(br_auto_model_save, .from = f->model_dir.text,
                                                    .overrides = result->overrides));
    if (ok && result->out)
        fprintf(result->out, "Wrote %s. Try it: brasa %s --model %s %s\n", path, result->command,
                path, result->argument);
    free(path);
    return ok;
}

static bool save_adapter(const finetune *f, const finetune_result *result)
{
    const char *base = f->model_dir.text;
    char *path = text_format("%s/adapter", result->folder);
    bool ok = path && br_lora_save(path, f->model,
                                   BR_OPTIONS(br_lora_save, .base_model_name_or_path = base,
                                              .task_type = result->task_type));
    if (ok && result->out && result->overrides)
        fprintf(result->out, "Wrote %s.\n", path);
    else if (ok && result->out)
        fprintf(result->out, "Wrote %s. Try it: brasa %s --model %s --adapter %s %s\n", path,
                result->command, base, path, result->argument);
    free(path);
    return ok;
}

bool finetune_save(const finetune *f, const finetune_result *result)
{
    if (!f->lora)
        return save_model(f, result);
    return save_adapter(f, result) &&
           (!f->merge || (br_lora_merge_and_unload(f->model) && save_model(f, result)));
}

void finetune_end(finetune *f)
{
    batches_close(&f->batches);
    batches_close(&f->held_out_batches);
    br_dataset_free(f->train_set);
    br_dataset_free(f->held_out_set);
    br_dataset_free(f->all);
    if (f->owns_model)
        br_module_free(f->model);
    br_auto_model_report_clear(&f->report);
    br_tokenizer_free(f->tokenizer);
    free(f->numbers);
}
