/* train/scratch_bert.c - see scratch_bert.h. The checkpoint's metadata contains the model's sizes,
 * as part of the settings, and its vocabulary in the order of the ids. */
#include "train/scratch_bert.h"

#include "io/json.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { CLS = 1, SEP, MASK, N_SPECIAL };
static const char *const special_words[N_SPECIAL] = { "[PAD]", "[CLS]", "[SEP]", "[MASK]" };

/* ---- Opening --------------------------------------------------------------------------------- */

/* Reads the sizes, as_written and the parameters' dtype from the saved settings. */
static bool read_config(br_bert_config *config, br_dtype *dtype, const char *settings)
{
    json_t *json =
        settings ? br__json_parse("bert", "settings", settings, strlen(settings), NULL) : NULL;
    bool ok = json != NULL;
    for (int i = 0; ok && br_bert_config_field_name(i); i++) {
        const char *name = br_bert_config_field_name(i);
        json_t *value = json_object_get(json, name);
        if (strcmp(name, "vocab_size") == 0)
            continue;
        ok = json_is_integer(value);
        *br_bert_config_field(config, name) = json_integer_value(value);
    }
    const char *name = json_string_value(json_object_get(json, "dtype"));
    *dtype = BR_F32; /* runs in f32 do not store it */
    ok = ok && (!name || br_dtype_named(name, dtype));
    config->as_written = json_is_true(json_object_get(json, "as_written"));
    json_decref(json);
    return ok;
}

/* Reads one word per line; the first words must be the special tokens. */
static bool read_words(br_vocab *vocab, const char *words)
{
    for (const char *p = words; p && *p && !br_failed();) {
        size_t n = strcspn(p, "\n");
        br_vocab_add(vocab, p, n);
        p += n + (p[n] == '\n');
    }
    for (int i = 0; i < N_SPECIAL && !br_failed(); i++)
        if (br_vocab_find(vocab, special_words[i], strlen(special_words[i])) != i)
            return false;
    return !br_failed();
}

bool scratch_bert_open(scratch_bert *s, const char *checkpoint, br_dtype dtype)
{
    *s = (scratch_bert){ .vocab = br_vocab_new() };
    br_safetensors *file = br_safetensors_open(checkpoint, NULL);
    const char *recipe = file ? br_safetensors_metadata(file, "recipe") : NULL;
    br_bert_config config = { 0 };
    br_dtype stored;
    bool ok = recipe && strcmp(recipe, "bert-scratch") == 0 &&
              read_config(&config, &stored, br_safetensors_metadata(file, "settings")) &&
              read_words(s->vocab, br_safetensors_metadata(file, "words"));
    br_safetensors_close(file);
    if (!ok && !br_failed())
        br_raise(BR_ERROR_FORMAT,
                 "%s: not a checkpoint written by 'brasa train bert-scratch' with a vocabulary",
                 checkpoint);
    if (!ok)
        return false;
    config.vocab_size = br_vocab_size(s->vocab);
    s->model = br_bert_new(&config);
    br_checkpoint c = { .model = br_base(s->model) };
    if (br_failed() || !br_module_to(c.model, stored) || !br_checkpoint_load(checkpoint, &c) ||
        (dtype != BR_DTYPE_AUTO && !br_module_to(c.model, dtype)))
        return false;
    br_eval(br_base(s->model));
    return true;
}

void scratch_bert_close(scratch_bert *s)
{
    br_module_free(s->model);
    br_vocab_free(s->vocab);
}

/* ---- A text ---------------------------------------------------------------------------------- */

/* The model's input; `capacity` is its number of positions. */
typedef struct input {
    int64_t n, capacity, segment, n_masks;
    int64_t *ids, *segments, *masks;
} input;

static bool push(input *in, int64_t id)
{
    if (in->n == in->capacity) {
        br_raise(BR_ERROR_ARGUMENT,
                 "fill-mask: the text has more tokens than the model's limit of %" PRId64,
                 in->capacity);
        return false;
    }
    if (id == MASK)
        in->masks[in->n_masks++] = in->n;
    in->segments[in->n] = in->segment;
    in->ids[in->n++] = id;
    if (id == SEP)
        in->segment = 1;
    return true;
}

/* Appends the words of a text between special tokens, split in the same way as the training
 * text. */
static bool push_words(input *in, const br_vocab *vocab, const char *text, size_t length)
{
    int64_t n = br_vocab_size(vocab) - N_SPECIAL;
    const char **words = calloc((size_t)n + 1, sizeof *words);
    for (int64_t i = 0; words && i < n; i++)
        words[i] = br_vocab_word(vocab, N_SPECIAL + i);
    br_bert_corpus *corpus = words ? br_bert_corpus_new_with_words(text, length, n, words) : NULL;
    for (int64_t k = 0; corpus && k < corpus->n_sentences; k++)
        for (int64_t i = 0; i < corpus->lengths[k] && !br_failed(); i++)
            push(in, corpus->tokens[k][i]);
    if (!words)
        br_raise(BR_ERROR_MEMORY, "fill-mask: cannot allocate memory for the words");
    br_bert_corpus_free(corpus);
    free(words);
    return !br_failed();
}

/* Returns the next [MASK] or [SEP] of the text and sets *id; returns the end, with *id 0, if there
 * is none. */
static const char *next_special(const char *text, int64_t *id)
{
    const char *mask = strstr(text, special_words[MASK]), *sep = strstr(text, special_words[SEP]);
    *id = mask && (!sep || mask < sep) ? MASK : sep ? SEP : 0;
    return *id == MASK ? mask : *id == SEP ? sep : text + strlen(text);
}

static bool read_text(input *in, const br_vocab *vocab, const char *text)
{
    bool ok = push(in, CLS);
    for (int64_t id = -1; ok && id != 0;) {
        const char *at = next_special(text, &id);
        size_t before = (size_t)(at - text);
        ok = (strspn(text, " \t\n") >= before || push_words(in, vocab, text, before)) &&
             (id == 0 || push(in, id));
        text = at + (id ? strlen(special_words[id]) : 0);
    }
    return ok && (in->ids[in->n - 1] == SEP || push(in, SEP));
}

br_tensor *scratch_bert_fill(const scratch_bert *s, const char *text)
{
    int64_t capacity = s->model->config.maxlen;
    br_tensor *all = br_zeros(BR_SHAPE(3, capacity), BR_I64), *logits = NULL, *follows;
    int64_t *ids = br_data_i64(all);
    if (!ids)
        return NULL;
    input in = {
        .capacity = capacity, .ids = ids, .segments = ids + capacity, .masks = ids + 2 * capacity
    };
    if (!read_text(&in, s->vocab, text))
        return NULL;
    if (in.n_masks == 0)
        br_raise(BR_ERROR_ARGUMENT, "fill-mask: the text has no [MASK]");
    else
        logits = br_bert_forward(s->model, br_slice(br_narrow(all, 0, 0, 1), 1, 0, in.n, 1),
                                 br_slice(br_narrow(all, 0, 1, 1), 1, 0, in.n, 1),
                                 br_slice(br_narrow(all, 0, 2, 1), 1, 0, in.n_masks, 1), &follows);
    return br_select(logits, 0, 0);
}
