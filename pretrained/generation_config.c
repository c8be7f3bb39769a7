/* pretrained/generation_config.c - reads generation_config.json. Meanings are those of transformers
 * 5.24.
 *
 * The file may be hostile. Its size is limited, which also limits the memory that jansson
 * allocates; jansson limits the nesting. */
#include "io/io_internal.h"
#include "io/json.h"
#include "nn/nn_internal.h"
#include "pretrained/generate_internal.h"
#include "pretrained/gguf_config.h"

#include <brasa/pretrained/generation_config.h>
#include <inttypes.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

enum { MAX_BYTES = 4 << 20, DESCRIPTION = 300 };

static const char op[] = "generation_config";

/* ---- Keys ------------------------------------------------------------------------------------ */

typedef enum effect {
    READ,     /* honoured */
    HARMLESS, /* has no effect on the text */
    ONLY,     /* only one value, and null, are supported */
    SAMPLING, /* the same, but any value is fine without sampling */
    BEAMS,    /* the same, but any value is fine without beams */
    NEVER,    /* one value is not supported */
} effect;

/* Every key that transformers writes to a generation_config.json. */
static const struct {
    const char *name;
    effect effect;
    const char *value; /* as JSON, for the effects that follow ONLY, and for it */
} keys[] = {
    /* the length */
    { "max_length", READ, NULL },
    { "max_new_tokens", READ, NULL },
    { "min_length", READ, NULL },
    { "min_new_tokens", READ, NULL },
    { "max_time", ONLY, "null" },
    { "stop_strings", READ, NULL },
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
    /* beams, and other searches */
    { "num_beams", READ, NULL },
    { "num_return_sequences", READ, NULL },
    { "early_stopping", READ, NULL },
    { "length_penalty", READ, NULL },
    { "num_beam_groups", BEAMS, "1" },
    { "diversity_penalty", BEAMS, "0" },
    { "constraints", ONLY, "null" },
    { "force_words_ids", ONLY, "null" },
    { "penalty_alpha", ONLY, "0" },
    { "dola_layers", ONLY, "null" },
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

const char *br_generation_config_key(int i)
{
    return i >= 0 && i < N_KEYS ? keys[i].name : NULL;
}

static bool is_known(const char *key)
{
    for (int i = 0; i < N_KEYS; i++)
        if (strcmp(keys[i].name, key) == 0)
            return true;
    return false;
}

/* ---- Values ---------------------------------------------------------------------------------- */

struct br_generation_config {
    char *path;           /* of the file */
    json_t *file, *given; /* objects; `given` replaces values of `file`, and may be NULL */
    char *unknown;
    int64_t n_eos, n_suppress, *eos_token_ids, *suppress_tokens;
    int64_t n_stop_strings;
    const char **stop_strings;      /* the array is owned, the strings belong to the objects */
    int64_t decoder_start_token_id; /* -1: none */
};

/* The values that limit the length. -1 stands for a value that is not set. */
typedef struct limits {
    int64_t max_new_tokens, max_length, min_new_tokens, min_length;
} limits;

/* Returns the value of a key; NULL if it is missing or null. */
static json_t *get(const br_generation_config *c, const char *key)
{
    json_t *value = json_object_get(c->given, key);
    if (!value)
        value = json_object_get(c->file, key);
    return json_is_null(value) ? NULL : value;
}

/* Sets an error about the value of a key, and returns false. The message begins with "the given
 * KEY", or with the path and KEY. `instead` is the key whose value a caller can give. */
static bool refuse(const br_generation_config *c, const char *key, const char *instead,
                   const char *format, ...) BR_PRINTF(4, 5);
static bool refuse(const br_generation_config *c, const char *key, const char *instead,
                   const char *format, ...)
{
    char text[2 * DESCRIPTION];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (json_object_get(c->given, key))
        return br_fail(BR_ERROR_ARGUMENT, op, "the given %s is %s", key, text);
    return br__fail_file(BR_ERROR_FORMAT, op, c->path,
                         "%s is %s; give another value for %s (brasa generate: --set %s=VALUE)",
                         key, text, instead, instead);
}

/* Sets the error that a key has an invalid value, and returns false. `must` tells what is valid. */
static bool refuse_value(const br_generation_config *c, const char *key, const char *must, ...)
    BR_PRINTF(3, 4);
static bool refuse_value(const br_generation_config *c, const char *key, const char *must, ...)
{
    char text[DESCRIPTION];
    va_list args;
    va_start(args, must);
    vsnprintf(text, sizeof text, must, args);
    va_end(args);
    char *value = json_dumps(get(c, key), JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(15));
    refuse(c, key, key, "%s, must be %s", value ? br_printable(value) : "invalid", text);
    free(value);
    return false;
}

static bool read_bool(const br_generation_config *c, const char *key, bool *value)
{
    json_t *found = get(c, key);
    if (found && !json_is_boolean(found))
        return refuse_value(c, key, "true, false or null");
    *value = found ? json_is_true(found) : *value;
    return true;
}

static bool read_integer(const br_generation_config *c, const char *key, int64_t low,
                         int64_t *value)
{
    json_t *found = get(c, key);
    int64_t n = json_integer_value(found);
    if (found && (!json_is_integer(found) || n < low || n > INT32_MAX))
        return refuse_value(c, key, "null or an integer in %" PRId64 " .. %d", low, INT32_MAX);
    *value = found ? n : *value;
    return true;
}

/* Reads a number in low .. high, without `low` itself if that is `open`. */
static bool read_number(const br_generation_config *c, const char *key, double low, bool open,
                        double high, double *value)
{
    json_t *found = get(c, key);
    double x = json_number_value(found);
    if (found && (!json_is_number(found) || x < low || (open && x == low) || x > high))
        return refuse_value(c, key, "null or a number that is %s %g and at most %g",
                            open ? "greater than" : "at least", low, high);
    *value = found ? x : *value;
    return true;
}

/* Reads a list of ids, or one id if `single` allows that. The caller frees *ids. */
static bool read_ids(const br_generation_config *c, const char *key, bool single, int64_t *n,
                     int64_t **ids)
{
    json_t *found = get(c, key);
    bool one = single && json_is_integer(found);
    size_t size = one ? 1 : json_array_size(found);
    *n = (int64_t)size;
    if (size > 0 && !(*ids = br_calloc(size, sizeof **ids)))
        return false;
    bool ok = !found || one || (json_is_array(found) && (size > 0 || !single));
    for (size_t i = 0; ok && i < size; i++) {
        json_t *id = one ? found : json_array_get(found, i);
        ok = json_is_integer(id);
        (*ids)[i] = json_integer_value(id);
    }
    return ok || refuse_value(c, key, "null%s",
                              single ? ", an integer or a list of integers that is not empty"
                                     : " or a list of integers");
}

/* Reads a list of strings, or one string, which must not be empty. The caller frees *texts, but not
 * the strings. */
static bool read_texts(const br_generation_config *c, const char *key, int64_t *n,
                       const char ***texts)
{
    json_t *found = get(c, key);
    bool one = json_is_string(found), ok = !found || one || json_is_array(found);
    size_t size = one ? 1 : json_array_size(found);
    *n = (int64_t)size;
    if (size > 0 && !(*texts = br_calloc(size, sizeof **texts)))
        return false;
    for (size_t i = 0; ok && i < size; i++) {
        json_t *text = one ? found : json_array_get(found, i);
        (*texts)[i] = json_string_value(text);
        ok = (*texts)[i] && *(*texts)[i];
    }
    return ok || refuse_value(c, key, "null, a string or a list of strings, which are not empty");
}

/* Compares a value with one in the table of keys. Numbers are equal if their values are: 1 and 1.0.
 */
static bool is_value(const br_generation_config *c, const json_t *value, const char *json)
{
    json_error_t error;
    json_t *other = br__json_parse(op, c->path, json, strlen(json), &error);
    bool same = json_is_number(value) && json_is_number(other)
                    ? json_number_value(value) == json_number_value(other)
                    : json_equal(value, other);
    json_decref(other);
    return same;
}

/* Checks the keys that support only some values. */
static bool check_keys(const br_generation_config *c, const br_generate_options *o)
{
    for (int i = 0; i < N_KEYS; i++) {
        const char *name = keys[i].name, *json = keys[i].value;
        json_t *value = json ? get(c, name) : NULL;
        if (!value || (keys[i].effect == SAMPLING && !o->do_sample) ||
            (keys[i].effect == BEAMS && o->num_beams == 1))
            continue;
        if (keys[i].effect == NEVER && is_value(c, value, json))
            return refuse_value(c, name, "another value: this one is not supported");
        if (keys[i].effect != NEVER && !is_value(c, value, json))
            return refuse_value(c, name, "%s%s: other values are not supported", json,
                                strcmp(json, "null") == 0 ? "" : " or null");
    }
    return true;
}

/* Reads early_stopping, which is true, false, null or "never". */
static bool read_early_stopping(const br_generation_config *c, br_early_stopping *value)
{
    json_t *found = get(c, "early_stopping");
    const char *text = json_string_value(found);
    if (text && strcmp(text, "never") == 0)
        *value = BR_EARLY_STOPPING_NEVER;
    else if (found && !json_is_boolean(found))
        return refuse_value(c, "early_stopping", "true, false, null or \"never\"");
    else if (found)
        *value = json_is_true(found) ? BR_EARLY_STOPPING_ON : BR_EARLY_STOPPING_OFF;
    return true;
}

/* Reads the values of beam search. */
static bool read_search(const br_generation_config *c, br_generate_options *o)
{
    static const double most = 1e6;
    return read_integer(c, "num_beams", 1, &o->num_beams) &&
           read_integer(c, "num_return_sequences", 1, &o->num_return_sequences) &&
           read_number(c, "length_penalty", -most, false, most, &o->length_penalty) &&
           read_early_stopping(c, &o->early_stopping);
}

/* Reads the values that choose a token. Without sampling, the values of sampling may be anything.
 */
static bool read_choice(const br_generation_config *c, br_generate_options *o)
{
    if (!read_search(c, o) || !read_bool(c, "do_sample", &o->do_sample) ||
        !read_number(c, "repetition_penalty", 0, true, 1e6, &o->repetition_penalty) ||
        !read_integer(c, "no_repeat_ngram_size", 0, &o->no_repeat_ngram_size))
        return false;
    return !o->do_sample || (read_number(c, "temperature", 0, true, 1e6, &o->temperature) &&
                             read_integer(c, "top_k", 0, &o->top_k) &&
                             read_number(c, "top_p", 0, true, 1, &o->top_p) &&
                             read_number(c, "min_p", 0, false, 1, &o->min_p));
}

/* Reads the values that limit the length. */
static bool read_limits(const br_generation_config *c, limits *l)
{
    *l = (limits){ -1, -1, -1, -1 };
    return read_integer(c, "max_new_tokens", 1, &l->max_new_tokens) &&
           read_integer(c, "max_length", 1, &l->max_length) &&
           read_integer(c, "min_new_tokens", 0, &l->min_new_tokens) &&
           read_integer(c, "min_length", 0, &l->min_length);
}

/* Reads all values, so that an invalid one is found when the file is loaded. */
static bool read_values(br_generation_config *c)
{
    br_generate_options o = br_generate_defaults();
    limits l;
    c->decoder_start_token_id = -1;
    return read_choice(c, &o) && read_limits(c, &l) &&
           read_integer(c, "bos_token_id", 0, &c->decoder_start_token_id) &&
           read_integer(c, "decoder_start_token_id", 0, &c->decoder_start_token_id) &&
           read_ids(c, "eos_token_id", true, &c->n_eos, &c->eos_token_ids) &&
           read_ids(c, "suppress_tokens", false, &c->n_suppress, &c->suppress_tokens) &&
           read_texts(c, "stop_strings", &c->n_stop_strings, &c->stop_strings) && check_keys(c, &o);
}

/* ---- Reading --------------------------------------------------------------------------------- */

/* Reads `given`, whose keys must be known. */
static bool read_given(br_generation_config *c, const char *given)
{
    json_error_t error = { 0 };
    const char *key;
    json_t *value;
    c->given = br__json_parse(op, c->path, given, strlen(given), &error);
    if (!c->given && br_failed())
        return false;
    if (!c->given)
        return br_fail(BR_ERROR_ARGUMENT, op, "`given`, line %d, column %d: %s", error.line,
                       error.column, br_printable(error.text));
    if (!json_is_object(c->given))
        return br_fail(BR_ERROR_ARGUMENT, op, "`given` is %s, must be a JSON object",
                       br_printable(given));
    json_object_foreach(c->given, key, value)
    {
        if (!is_known(key))
            return br_fail(BR_ERROR_ARGUMENT, op,
                           "the given %s is not a key of generation_config.json; "
                           "br_generation_config_key() lists the keys",
                           br_printable(key));
    }
    return true;
}

/* Reads the file, and notes its unknown keys if it is a generation_config.json (`own`). A
 * config.json has many other keys. */
static bool read_file(br_generation_config *c, bool own)
{
    br__text unknown = { 0 };
    const char *key;
    json_t *value;
    c->file = br_gguf_is_file(c->path) ? br__gguf_config(c->path)
                                       : br__json_read_file(op, c->path, MAX_BYTES, false);
    if (!c->file)
        return false;
    if (!json_is_object(c->file))
        return br__fail_file(BR_ERROR_FORMAT, op, c->path, "is not a JSON object");
    json_object_foreach(c->file, key, value)
    {
        if (own && !json_is_null(value) && !is_known(key) &&
            !br__text_add(&unknown, "%s%s", unknown.length > 0 ? ", " : "", key))
            break;
    }
    c->unknown = br__text_take(&unknown);
    return c->unknown != NULL;
}

/* Sets the path; *own is set to whether it is that of a generation_config.json. A GGUF file has the
 * same keys as a config.json. */
static bool find_file(br_generation_config *c, const char *dir, bool *own)
{
    if (br_gguf_is_file(dir)) {
        *own = false;
        return (c->path = br_strdup(dir)) != NULL;
    }
    c->path = br_format("%s/generation_config.json", dir);
    *own = c->path && access(c->path, F_OK) == 0;
    if (c->path && !*own) {
        br_free(c->path);
        c->path = br_format("%s/config.json", dir);
    }
    return c->path != NULL;
}

br_generation_config *br_generation_config_load(const char *dir, const char *given)
{
    bool own;
    if (!br__required(op, "dir", dir))
        return NULL;
    br_generation_config *c = BR_NEW(br_generation_config);
    if (c && find_file(c, dir, &own) && read_file(c, own) && (!given || read_given(c, given)) &&
        read_values(c))
        return c;
    br_generation_config_free(c);
    return NULL;
}

void br_generation_config_free(br_generation_config *config)
{
    if (!BR_END("generation_config_free", config))
        return;
    json_decref(config->file);
    json_decref(config->given);
    br_free(config->eos_token_ids);
    br_free(config->suppress_tokens);
    br_free(config->stop_strings);
    br_free(config->unknown);
    br_free(config->path);
    BR_FREE(config);
}

/* ---- Use ------------------------------------------------------------------------------------- */

/* Sets the limits, which depend on the number of tokens before the first new one. */
static bool apply_limits(const br_generation_config *c, int64_t n_tokens, br_generate_options *o)
{
    limits l;
    if (!read_limits(c, &l))
        return false;
    if (l.max_new_tokens > 0)
        o->max_new_tokens = l.max_new_tokens;
    else if (l.max_length > n_tokens)
        o->max_new_tokens = l.max_length - n_tokens;
    else if (l.max_length > 0)
        return refuse(c, "max_length", "max_new_tokens",
                      "%" PRId64 ", but the prompt has %" PRId64
                      " tokens, which leaves no room for new ones",
                      l.max_length, n_tokens);
    if (l.min_new_tokens >= 0)
        o->min_new_tokens = l.min_new_tokens;
    else if (l.min_length >= 0)
        o->min_new_tokens = l.min_length > n_tokens ? l.min_length - n_tokens : 0;
    return true;
}

bool br_generation_config_apply(const br_generation_config *config, int64_t n_tokens,
                                br_generate_options *options)
{
    static const char apply[] = "generation_config_apply";
    if (!br__required(apply, "config", config) || !br__required(apply, "options", options))
        return false;
    if (n_tokens < 0)
        return br_fail(BR_ERROR_ARGUMENT, apply,
                       "n_tokens is %" PRId64 ", must be the number of tokens of the prompt",
                       n_tokens);
    br_generate_options o = *BR_OPTIONS_OF(apply, br_generate, options);
    /* With do_sample of the caller, the values of sampling were not checked before. */
    if (br_failed() || !read_choice(config, &o) || !check_keys(config, &o) ||
        !apply_limits(config, n_tokens, &o))
        return false;
    if (get(config, "eos_token_id")) {
        o.n_eos = config->n_eos;
        o.eos_token_ids = config->eos_token_ids;
    }
    if (get(config, "suppress_tokens")) {
        o.n_suppress = config->n_suppress;
        o.suppress_tokens = config->suppress_tokens;
    }
    if (get(config, "stop_strings")) {
        o.n_stop_strings = config->n_stop_strings;
        o.stop_strings = config->stop_strings;
    }
    if (!br__check_stop_strings(apply, &o))
        return false;
    *options = o;
    return true;
}

int64_t br_generation_config_decoder_start(const br_generation_config *config)
{
    return BR_LIVE("generation_config_decoder_start", config) ? config->decoder_start_token_id : -1;
}

const char *br_generation_config_path(const br_generation_config *config)
{
    return BR_LIVE("generation_config_path", config) ? config->path : NULL;
}

const char *br_generation_config_unknown(const br_generation_config *config)
{
    return BR_LIVE("generation_config_unknown", config) ? config->unknown : NULL;
}
