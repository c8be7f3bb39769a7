/* train/recipe_gpt.c - the recipe gpt: trains a small language model on any text, from nothing. A
 * byte-level BPE is learned from the text first. The model is a Llama, or a GPT-2.
 *
 * Tokens and model are those of a Hugging Face folder, which the run writes at its end: other
 * commands, and transformers, load it. */
#include "common/file.h"
#include "common/text.h"
#include "train/batches.h"
#include "train/learned_tokenizer.h"
#include "train/train.h"

#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PROMPT = 16, SHOWN_TOKENS = 100 };
static const char end_of_text[] = "<|endoftext|>";

typedef struct gpt_task {
    setting_choice model;
    int64_t vocab_size, hidden_size, layers, heads, length, batch;
    double held_out_part;
    char *tokenizer_json, *config_json;
    br_tokenizer *tokenizer;
    int64_t n_ids, *ids, bytes; /* of the whole text */
    int64_t windows, held_out;  /* parts of `length` tokens; the held-out ones are the last */
    br_dataset *train_set, *held_out_set;
    batches batches, held_out_batches;
    const br_model_class *class;
    br_module *module;
    int64_t tokens; /* of the batches that this rank has trained on */
} gpt_task;

enum { LLAMA, GPT2 };
static const char *const models[] = { [LLAMA] = "llama", [GPT2] = "gpt2", NULL };

/* ---- Settings -------------------------------------------------------------------------------- */

static void preset(void *context, const char *name, bool as_written, train_options *options)
{
    (void)as_written;
    gpt_task *self = context;
    *self = (gpt_task){ .model = { .names = models },
                        .vocab_size = 4096,
                        .hidden_size = 256,
                        .layers = 4,
                        .heads = 4,
                        .length = 128,
                        .batch = 16,
                        .held_out_part = 0.05 };
    *options = (train_options){ .steps = 1000,
                                .schedule = { .lr = 1e-3, .warmup = 100 },
                                .clip = 1,
                                .checkpoint_every = 250,
                                .eval_every = 100 };
    options->schedule.decay.index = SCHEDULE_COSINE;
    if (strcmp(name, "small") != 0)
        return;
    self->vocab_size = 512;
    self->hidden_size = 64;
    self->layers = 2;
    self->heads = 2;
    self->length = 64;
    self->batch = 8;
    options->steps = 200;
}

static void add_settings(void *context, settings *s)
{
    gpt_task *self = context;
    const setting items[] = {
        { "model", SETTING_CHOICE, &self->model, 0, 0, false, "llama or gpt2" },
        { "vocab_size", SETTING_INTEGER, &self->vocab_size, 257, 1 << 20, false,
          "most tokens to learn from the text" },
        { "hidden_size", SETTING_INTEGER, &self->hidden_size, 1, 1 << 20, false,
          "size of the embeddings" },
        { "layers", SETTING_INTEGER, &self->layers, 1, 1 << 8, false, "layers of the decoder" },
        { "heads", SETTING_INTEGER, &self->heads, 1, 1 << 20, false,
          "attention heads; must divide hidden_size" },
        { "length", SETTING_INTEGER, &self->length, 2, 1 << 14, false,
          "tokens of an example, and most that the model takes" },
        { "batch", SETTING_INTEGER, &self->batch, 1, 1 << 20, false, "examples per batch" },
        { "held_out", SETTING_NUMBER, &self->held_out_part, 0, 0.9, false,
          "fraction of the text, at its end, to hold out for evaluation" },
    };
    for (size_t i = 0; i < sizeof items / sizeof *items; i++)
        settings_add(s, items[i]);
}

/* ---- Data ------------------------------------------------------------------------------------ */

/* Learns the tokenizer, and encodes the text. */
static bool encode(gpt_task *self, const char *text, size_t length)
{
    static const char *const special[] = { end_of_text };
    self->tokenizer_json =
        tokenizer_learn(text, length,
                        BR_OPTIONS(br_bpe_train, .vocab_size = self->vocab_size,
                                   .n_special_tokens = 1, .special_tokens = special));
    self->tokenizer =
        self->tokenizer_json ? br_tokenizer_from_json_text(self->tokenizer_json, -1) : NULL;
    if (!self->tokenizer)
        return false;
    const char *end = text + length, *first = text_first_line(text, end);
    br_token_ids *ids =
        br_tokenizer_encode_ids(self->tokenizer, 1, &(br_text){ first, end - first }, NULL,
                                BR_OPTIONS(br_encode, .split_special_tokens = true));
    if (!ids)
        return false;
    self->bytes = end - first;
    self->n_ids = ids->starts[1];
    self->ids = malloc(((size_t)self->n_ids + 1) * sizeof *self->ids);
    if (self->ids && self->n_ids > 0)
        memcpy(self->ids, ids->ids, (size_t)self->n_ids * sizeof *self->ids);
    br_token_ids_free(ids);
    if (!self->ids)
        br_raise(BR_ERROR_MEMORY, "cannot allocate memory for %" PRId64 " tokens", self->n_ids);
    return self->ids != NULL;
}

/* Item i is `length` tokens. */
static bool get_window(void *context, int64_t i, br_tensor **fields)
{
    const gpt_task *self = context;
    fields[0] = br_from_i64(BR_SHAPE(self->length), self->ids + i * self->length);
    return !br_failed();
}

static bool get_held_out(void *context, int64_t i, br_tensor **fields)
{
    const gpt_task *self = context;
    return get_window(context, self->windows - self->held_out + i, fields);
}

static bool open_batches(gpt_task *self, int64_t workers)
{
    self->windows = self->n_ids / self->length;
    self->held_out = (int64_t)llround(self->held_out_part * (double)self->windows);
    int64_t others = self->windows - self->held_out;
    if (others < 1) {
        br_raise(BR_ERROR_ARGUMENT,
                 "the text has %" PRId64 " tokens, %" PRId64 " examples of length %" PRId64
                 ": it is too short, or length is too large",
                 self->n_ids, self->windows, self->length);
        return false;
    }
    self->train_set = br_dataset_new(others, 1, get_window, self, NULL);
    self->held_out_set = br_dataset_new(self->held_out, 1, get_held_out, self, NULL);
    int64_t batch = self->batch < others ? self->batch : others;
    return !br_failed() && batches_open(&self->batches, self->train_set, batch, true, workers) &&
           (self->held_out == 0 ||
            batches_open_whole(&self->held_out_batches, self->held_out_set, self->batch));
}

/* ---- The model ------------------------------------------------------------------------------- */

/* Returns the config.json of the model, with the names that its family has for sizes. */
static json_t *make_config(const gpt_task *self)
{
    json_int_t vocab = br_tokenizer_size(self->tokenizer), h = self->hidden_size;
    if (self->model.index == GPT2)
        return json_pack("{s:s, s:[s], s:I, s:I, s:I, s:I, s:I, s:i, s:i, s:i, s:i, s:i}",
                         "model_type", "gpt2", "architectures", "GPT2LMHeadModel", "vocab_size",
                         vocab, "n_embd", h, "n_layer", (json_int_t)self->layers, "n_head",
                         (json_int_t)self->heads, "n_positions", (json_int_t)self->length,
                         "resid_pdrop", 0, "embd_pdrop", 0, "attn_pdrop", 0, "bos_token_id", 0,
                         "eos_token_id", 0);
    /* As in Llama 2, the three matrices of the MLP have about as many weights as two of 4 h. */
    json_int_t intermediate = (8 * h / 3 + 31) / 32 * 32;
    return json_pack("{s:s, s:[s], s:I, s:I, s:I, s:I, s:I, s:I, s:b, s:i, s:i}", "model_type",
                     "llama", "architectures", "LlamaForCausalLM", "vocab_size", vocab,
                     "hidden_size", h, "intermediate_size", intermediate, "num_hidden_layers",
                     (json_int_t)self->layers, "num_attention_heads", (json_int_t)self->heads,
                     "max_position_embeddings", (json_int_t)self->length, "tie_word_embeddings", 1,
                     "bos_token_id", 0, "eos_token_id", 0);
}

static bool make_model(gpt_task *self)
{
    json_t *json = make_config(self);
    self->config_json = json ? json_dumps(json, JSON_INDENT(2)) : NULL;
    json_decref(json);
    if (!self->config_json)
        br_raise(BR_ERROR_MEMORY, "cannot allocate memory for config.json");
    br_auto_config *config = self->config_json ? br_auto_config_from_json(self->config_json) : NULL;
    const char *type = config ? br_auto_config_model_type(config) : NULL;
    self->class = type ? br_model_class_for(br_model_family_find(type), BR_TASK_CAUSAL_LM) : NULL;
    if (self->class)
        self->module = br_auto_model_new(config, self->class->name);
    br_auto_config_free(config);
    return !br_failed();
}

static br_module *prepare(void *context, const train_options *options, const char *text,
                          size_t length)
{
    gpt_task *self = context;
    if (!encode(self, text, length) || !open_batches(self, options->workers) || !make_model(self))
        return NULL;
    return self->module;
}

/* ---- Training -------------------------------------------------------------------------------- */

static br_tensor *loss_of(const gpt_task *self, br_tensor *ids)
{
    const br_model_input input = { .batch.ids = ids };
    if (self->class->loss)
        return self->class->loss(self->module, &input, ids);
    return br_causal_lm_loss(self->class->forward(self->module, &input), ids);
}

static br_tensor *loss(void *context, int64_t step, br_tensor **addends)
{
    (void)addends;
    gpt_task *self = context;
    br_tensor *ids;
    if (!batches_get(&self->batches, step, &ids))
        return NULL;
    self->tokens += br_numel(ids);
    return loss_of(self, ids);
}

static int64_t count_tokens(const void *context)
{
    return ((const gpt_task *)context)->tokens;
}

/* The mean loss of the held-out tokens. */
static void evaluate(void *context, double *metrics)
{
    gpt_task *self = context;
    double sum = 0;
    int64_t n = self->held_out > 0 ? batches_count(&self->held_out_batches) : 0;
    for (int64_t k = 0; k < n && !br_failed(); k++) {
        br_scope *scope = br_scope_begin();
        br_tensor *ids;
        if (batches_get(&self->held_out_batches, k, &ids))
            sum += br_item(loss_of(self, ids)) * (double)br_size(ids, 0);
        br_scope_end(scope);
    }
    metrics[0] = sum / (double)self->held_out; /* NaN without held-out text */
}

/* ---- Showing --------------------------------------------------------------------------------- */

static void print_ids(FILE *out, const gpt_task *self, const char *what, int64_t n,
                      const int64_t *ids)
{
    char *text = br_tokenizer_decode(self->tokenizer, n, ids, true);
    if (text)
        fprintf(out, "%s%s\n", what, br_printable(text));
    br_free(text);
}

/* Shows how the model continues the beginning of the held-out text. It samples with a seed of its
 * own, and the thread's generator is as before. */
static void show(void *context, FILE *out)
{
    gpt_task *self = context;
    int64_t prompt = self->length < 2 * PROMPT ? 1 : PROMPT;
    const int64_t *ids = self->ids + (self->windows - self->held_out) * self->length;
    if (self->held_out == 0)
        ids = self->ids;
    fprintf(out,
            "%" PRId64 " tokens in the vocabulary, %" PRId64
            " in the text (%.2f bytes each), the last %" PRId64 " held out\n",
            br_tokenizer_size(self->tokenizer), self->n_ids,
            (double)self->bytes / (double)self->n_ids, self->held_out * self->length);
    br_rng_state state;
    br_get_rng_state(&state);
    br_manual_seed(0);
    br_scope *scope = br_scope_begin();
    br_model_source source = { .model = self->module };
    br_language_model lm = self->class->language_model(&source);
    int64_t room = self->length - prompt;
    br_tensor *generated = br_generate(
        &lm, br_from_i64(BR_SHAPE(1, prompt), ids),
        BR_OPTIONS(br_generate, .max_new_tokens = room < SHOWN_TOKENS ? room : SHOWN_TOKENS,
                   .do_sample = true, .temperature = 0.8, .top_k = 40));
    if (generated) {
        print_ids(out, self, "prompt: ", prompt, ids);
        print_ids(out, self, "model:  ", br_size(generated, 1) - prompt,
                  br_data_i64(generated) + prompt);
    }
    br_scope_end(scope);
    br_set_rng_state(&state);
}

/* ---- The result ------------------------------------------------------------------------------ */

static bool finish(void *context, const char *directory, FILE *out)
{
    gpt_task *self = context;
    char *folder = text_format("%s/model", directory);
    bool ok = folder && tokenizer_write(folder, self->tokenizer_json, end_of_text) &&
              file_write(folder, "config.json", self->config_json) &&
              br_auto_model_save(folder, self->module, NULL);
    if (ok && out)
        fprintf(out, "Wrote %s. Try it: brasa generate --model %s -s 1 PROMPT\n", folder, folder);
    free(folder);
    return ok;
}

static void destroy(void *context)
{
    gpt_task *self = context;
    batches_close(&self->batches);
    batches_close(&self->held_out_batches);
    br_dataset_free(self->train_set);
    br_dataset_free(self->held_out_set);
    br_module_free(self->module);
    br_tokenizer_free(self->tokenizer);
    br_free(self->tokenizer_json);
    free(self->config_json);
    free(self->ids);
}

static const char *const presets[] = { "base", "small", NULL };
static const char *const addends[] = { NULL };
static const char *const metrics[] = { "eval_loss", NULL };

const recipe recipe_gpt = {
    .name = "gpt",
    .summary = "train a small Llama or GPT-2 on a text, with a tokenizer that is learned from it",
    .needs_data = "a text in UTF-8",
    .presets = presets,
    .addends = addends,
    .metrics = metrics,
    .size = sizeof(gpt_task),
    .preset = preset,
    .settings = add_settings,
    .prepare = prepare,
    .tokens = count_tokens,
    .loss = loss,
    .evaluate = evaluate,
    .show = show,
    .finish = finish,
    .destroy = destroy,
};
