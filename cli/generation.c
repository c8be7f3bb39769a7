/* cli/generation.c - see generation.h. Meanings are those of transformers 5.24. */
#include "cli/generation.h"

#include "cli/cli.h"
#include "io/io_internal.h"
#include "io/json.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>

enum { MAX_BYTES = 4 << 20, DESCRIPTION = 300 };

static const char op[] = "generate";

/* ---- Keys ------------------------------------------------------------------------------------ */

typedef enum effect {
    READ,     /* honoured */
    HARMLESS, /* has no effect on the text */
    ONLY,     /* only one value, and null, are supported */
    SAMPLING, /* the same, but any value is fine without sampling */
    NEVER,    /* one value is not supported */
} effect;

/* Every key that transformers writes to a generation_config.json. */
static const struct {
    const char *name;
    effect effect;
    const char *value; /* as JSON, for ONLY, SAMPLING and NEVER */
} keys[] = {
    /* the length */
    { "max_length", READ, NULL },
    { "max_new_tokens", READ, NULL },
    { "min_length", READ, NULL },
    { "min_new_tokens", READ, NULL },
    { "max_time", ONLY, "null" },
    { "stop_strings", ONLY, "null" },
    /* how tokens are chosen */
    { "do_sample", READ, NULL },
    { "temperature", READ, NULL },
    { "top_k", READ, NULL },
    { "top_p", READ, NULL },
    { "min_p", READ, NULL },
    { "repetition_penalty", READ, NULL },
    { "no_repeat_ngram_size", READ, NULL },
    { "suppress_tokens", READ, NULL },
    { "top_h", SAMPLING, "null" },
    { "typical_p", SAMPLING, "1" },
    { "epsilon_cutoff", SAMPLING, "0" },
    { "eta_cutoff", SAMPLING, "0" },
    { "encoder_repetition_penalty", ONLY, "1" },
    { "encoder_no_repeat_ngram_size", ONLY, "0" },
    { "bad_words_ids", ONLY, "null" },
    { "begin_suppress_tokens", ONLY, "[]" },
    { "forced_bos_token_id", ONLY, "null" },
    { "forced_eos_token_id", ONLY, "null" },
    { "exponential_decay_length_penalty", ONLY, "null" },
    { "sequence_bias", ONLY, "null" },
    { "token_healing", ONLY, "false" },
    { "guidance_scale", ONLY, "1" },
    { "watermarking_config", ONLY, "null" },
    { "remove_invalid_values", HARMLESS, NULL },
    { "renormalize_logits", HARMLESS, NULL },
    /* special tokens */
    { "eos_token_id", READ, NULL },
    { "decoder_start_token_id", READ, NULL },
    { "bos_token_id", READ, NULL },
    { "pad_token_id", HARMLESS, NULL }, /* one text needs no padding */
    /* beams, and other searches; the harmless ones apply only to several beams */
    { "num_beams", ONLY, "1" },
    { "num_return_sequences", ONLY, "1" },
    { "constraints", ONLY, "null" },
    { "force_words_ids", ONLY, "null" },
    { "penalty_alpha", ONLY, "0" },
    { "dola_layers", ONLY, "null" },
    { "num_beam_groups", HARMLESS, NULL },
    { "diversity_penalty", HARMLESS, NULL },
    { "early_stopping", HARMLESS, NULL },
    { "length_penalty", HARMLESS, NULL },
    /* a second model, or a part of the model, that proposes tokens; the harmless ones apply only to
     * these */
    { "use_mtp", ONLY, "false" },
    { "prompt_lookup_num_tokens", ONLY, "null" },
    { "assistant_early_exit", ONLY, "null" },
    { "is_assistant", ONLY, "false" },
    { "num_assistant_tokens", HARMLESS, NULL },
    { "num_assistant_tokens_schedule", HARMLESS, NULL },
    { "assistant_confidence_threshold", HARMLESS, NULL },
    { "assistant_ensemble_weight", HARMLESS, NULL },
    { "assistant_lookbehind", HARMLESS, NULL },
    { "target_lookbehind", HARMLESS, NULL },
    { "max_matching_ngram_size", HARMLESS, NULL },
    { "speculation_type", HARMLESS, NULL },
    /* how transformers computes, and what it returns */
    { "cache_implementation", NEVER, "\"quantized\"" },
    { "cache_config", HARMLESS, NULL },
    { "max_cache_len", HARMLESS, NULL },
    { "use_cache", HARMLESS, NULL },
    { "low_memory", HARMLESS, NULL },
    { "prefill_chunk_size", HARMLESS, NULL },
    { "compile_config", HARMLESS, NULL },
    { "disable_compile", HARMLESS, NULL },
    { "continuous_batching_config", HARMLESS, NULL },
    { "output_attentions", HARMLESS, NULL },
    { "output_hidden_states", HARMLESS, NULL },
    { "output_logits", HARMLESS, NULL },
    { "output_scores", HARMLESS, NULL },
    { "return_dict_in_generate", HARMLESS, NULL },
    /* the origin of the file */
    { "_commit_hash", HARMLESS, NULL },
    { "_from_model_config", HARMLESS, NULL },
    { "transformers_version", HARMLESS, NULL },
};
enum { N_KEYS = sizeof keys / sizeof *keys };

bool generation_has(const char *key)
{
    for (int i = 0; i < N_KEYS; i++)
        if (strcmp(keys[i].name, key) == 0)
            return true;
    return false;
}

void generation_keys(char *names, size_t size)
{
    for (int i = 0; i < N_KEYS; i++)
        names_add(names, size, keys[i].name);
}

/* ---- Values ---------------------------------------------------------------------------------- */

/* The values that are read, and where they come from. */
typedef struct source {
    const char *path;
    json_t *file, *given; /* objects; `given` replaces values of `file` */
} source;

/* Returns the value of a key; NULL if it is missing or null. */
static json_t *get(const source *s, const char *key)
{
    json_t *value = json_object_get(s->given, key);
    if (!value)
        value = json_object_get(s->file, key);
    return json_is_null(value) ? NULL : value;
}

/* Sets the error that a key has an invalid value, and returns false. `must` tells what is valid. */
static bool refuse(const source *s, const char *key, const char *must, ...) BR_PRINTF(3, 4);
static bool refuse(const source *s, const char *key, const char *must, ...)
{
    char text[DESCRIPTION];
    va_list args;
    va_start(args, must);
    vsnprintf(text, sizeof text, must, args);
    va_end(args);
    char *value = json_dumps(get(s, key), JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(15));
    const char *found = value ? br_printable(value) : "invalid";
    if (json_object_get(s->given, key))
        br_raise(BR_ERROR_ARGUMENT, "%s: --set %s: the value is %s, must be %s", op, key, found,
                 text);
    else
        br__fail_file(BR_ERROR_FORMAT, op, s->path,
                      "%s is %s, must be %s; --set %s=VALUE overrides it", key, found, text, key);
    free(value);
    return false;
}

static bool read_bool(const source *s, const char *key, bool *value)
{
    json_t *found = get(s, key);
    if (found && !json_is_boolean(found))
        return refuse(s, key, "true, false or null");
    *value = found ? json_is_true(found) : *value;
    return true;
}

static bool read_integer(const source *s, const char *key, int64_t low, int64_t *value)
{
    json_t *found = get(s, key);
    int64_t n = json_integer_value(found);
    if (found && (!json_is_integer(found) || n < low || n > INT32_MAX))
        return refuse(s, key, "null or an integer in %" PRId64 " .. %d", low, INT32_MAX);
    *value = found ? n : *value;
    return true;
}

/* Reads a number in low .. high, without `low` itself if that is `open`. */
static bool read_number(const source *s, const char *key, double low, bool open, double high,
                        double *value)
{
    json_t *found = get(s, key);
    double x = json_number_value(found);
    if (found && (!json_is_number(found) || x < low || (open && x == low) || x > high))
        return refuse(s, key, "null or a number that is %s %g and at most %g",
                      open ? "greater than" : "at least", low, high);
    *value = found ? x : *value;
    return true;
}

/* Reads a list of ids, or one id if `single` allows that. The caller frees *ids. */
static bool read_ids(const source *s, const char *key, bool single, int64_t *n, const int64_t **ids)
{
    json_t *found = get(s, key);
    bool one = single && json_is_integer(found);
    size_t size = one ? 1 : json_array_size(found);
    int64_t *list = size > 0 ? calloc(size, sizeof *list) : NULL;
    *ids = list;
    *n = (int64_t)size;
    if (size > 0 && !list)
        return br__fail_file(BR_ERROR_MEMORY, op, s->path, "cannot allocate memory for %s", key);
    bool ok = !found || one || (json_is_array(found) && (size > 0 || !single));
    for (size_t i = 0; ok && i < size; i++) {
        json_t *id = one ? found : json_array_get(found, i);
        ok = json_is_integer(id);
        list[i] = json_integer_value(id);
    }
    return ok || refuse(s, key, "null%s",
                        single ? ", an integer or a list of integers that is not empty"
                               : " or a list of integers");
}

/* Compares a value with one of our table. Numbers are equal if their values are: 1 and 1.0. */
static bool is_value(const source *s, const json_t *value, const char *json)
{
    json_error_t error;
    json_t *other = br__json_parse(op, s->path, json, strlen(json), &error);
    bool same = json_is_number(value) && json_is_number(other)
                    ? json_number_value(value) == json_number_value(other)
                    : json_equal(value, other);
    json_decref(other);
    return same;
}

/* Checks the keys that support only some values. */
static bool check_keys(const source *s, bool do_sample)
{
    for (int i = 0; i < N_KEYS; i++) {
        const char *name = keys[i].name, *json = keys[i].value;
        json_t *value = json ? get(s, name) : NULL;
        if (!value || (keys[i].effect == SAMPLING && !do_sample))
            continue;
        if (keys[i].effect == NEVER && is_value(s, value, json))
            return refuse(s, name, "another value: 'brasa generate' does not support this one");
        if (keys[i].effect != NEVER && !is_value(s, value, json))
            return refuse(s, name, "%s%s: 'brasa generate' supports no other value", json,
                          strcmp(json, "null") == 0 ? "" : " or null");
    }
    return true;
}

/* Reads the values that choose a token. Without sampling, those of sampling may be anything. */
static bool read_choice(const source *s, br_generate_options *o)
{
    if (!read_bool(s, "do_sample", &o->do_sample) ||
        !read_number(s, "repetition_penalty", 0, true, 1e6, &o->repetition_penalty) ||
        !read_integer(s, "no_repeat_ngram_size", 0, &o->no_repeat_ngram_size))
        return false;
    return !o->do_sample || (read_number(s, "temperature", 0, true, 1e6, &o->temperature) &&
                             read_integer(s, "top_k", 0, &o->top_k) &&
                             read_number(s, "top_p", 0, true, 1, &o->top_p) &&
                             read_number(s, "min_p", 0, false, 1, &o->min_p));
}

static bool read_values(generation *g, const source *s)
{
    br_generate_options *o = &g->options;
    return read_choice(s, o) && read_integer(s, "max_new_tokens", 1, &g->max_new_tokens) &&
           read_integer(s, "max_length", 1, &g->max_length) &&
           read_integer(s, "min_new_tokens", 0, &g->min_new_tokens) &&
           read_integer(s, "min_length", 0, &g->min_length) &&
           read_integer(s, "bos_token_id", 0, &g->decoder_start_token_id) &&
           read_integer(s, "decoder_start_token_id", 0, &g->decoder_start_token_id) &&
           read_ids(s, "eos_token_id", true, &o->n_eos, &o->eos_token_ids) &&
           read_ids(s, "suppress_tokens", false, &o->n_suppress, &o->suppress_tokens) &&
           check_keys(s, o->do_sample);
}

/* ---- The file -------------------------------------------------------------------------------- */

/* Returns the file's object, which the caller frees; NULL with an error on failure. */
static json_t *load(const char *path)
{
    json_t *object = br__json_read_file(op, path, MAX_BYTES, false);
    if (!object || json_is_object(object))
        return object;
    json_decref(object);
    return br__fail_file(BR_ERROR_FORMAT, op, path, "is not a JSON object");
}

static void warn(const source *s)
{
    char names[1024] = "";
    const char *key;
    json_t *value;
    json_object_foreach(s->file, key, value)
    {
        if (!json_is_null(value) && !generation_has(key))
            names_add(names, sizeof names, key);
    }
    if (*names)
        fprintf(stderr,
                "brasa: warning: %s: results may differ from those of transformers, because these "
                "keys are unknown: %s\n",
                s->path, br_printable(names));
}

bool generation_read(generation *g, const char *dir, json_t *given)
{
    *g = (generation){ .options = br_generate_defaults(),
                       .max_new_tokens = -1,
                       .max_length = -1,
                       .min_new_tokens = -1,
                       .min_length = -1,
                       .decoder_start_token_id = -1,
                       .path = text_format("%s/generation_config.json", dir) };
    bool own = g->path && access(g->path, F_OK) == 0;
    if (g->path && !own) {
        free(g->path);
        g->path = text_format("%s/config.json", dir);
    }
    source s = { .path = g->path, .given = given };
    s.file = s.path ? load(s.path) : NULL;
    bool ok = s.file && read_values(g, &s);
    if (ok && own)
        warn(&s);
    json_decref(s.file);
    return ok;
}

bool generation_limit(generation *g, int64_t n_tokens)
{
    br_generate_options *o = &g->options;
    o->max_new_tokens = g->max_new_tokens;
    if (g->max_new_tokens < 0)
        o->max_new_tokens =
            g->max_length < 0 ? GENERATION_MAX_NEW_TOKENS : g->max_length - n_tokens;
    if (o->max_new_tokens <= 0)
        return br__fail_file(BR_ERROR_FORMAT, op, g->path,
                             "max_length is %" PRId64 ", but the prompt has %" PRId64
                             " tokens, which leaves no room for new ones; --max-new-tokens N "
                             "overrides it",
                             g->max_length, n_tokens);
    o->min_new_tokens = g->min_new_tokens >= 0 ? g->min_new_tokens : g->min_length - n_tokens;
    if (o->min_new_tokens < 0)
        o->min_new_tokens = 0;
    return true;
}

void generation_free(generation *g)
{
    free((int64_t *)g->options.eos_token_ids);
    free((int64_t *)g->options.suppress_tokens);
    free(g->path);
}
