/* pretrained/auto_config.c - reads a config.json, or the metadata of a GGUF file, and looks up its
 * values.
 *
 * The file may be hostile. Its size is limited, which also limits the memory that jansson
 * allocates; jansson limits the nesting. Types and ranges are checked by the look-up functions. */
#include "pretrained/auto_config_internal.h"

#include "io/io_internal.h"
#include "io/json.h"
#include "nn/nn_internal.h"
#include "pretrained/family_internal.h"
#include "pretrained/gguf_config.h"

#include <inttypes.h>
#include <stdarg.h>
#include <string.h>
#include <sys/stat.h>

/* The config.json of a model with 22,000 labels has 2 MB. The densest text, "{},{},...", needs 80
 * bytes of memory per byte of the file. */
enum { MAX_BYTES = 4 << 20 };

static const char op[] = "auto_config";

/* Sets the error "PATH: ..." and returns false. */
static bool refuse(const br_auto_config *config, const char *format, ...) BR_PRINTF(2, 3);
static bool refuse(const br_auto_config *config, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    br__refuse_file(op, config->path, format, args);
    va_end(args);
    return false;
}

/* Returns a description of a value for a message, possibly in `text`. */
enum { DESCRIPTION = 300 };
static const char *describe(const json_t *value, char text[DESCRIPTION])
{
    static const char *const names[] = {
        [JSON_OBJECT] = "an object", [JSON_ARRAY] = "an array", [JSON_TRUE] = "true",
        [JSON_FALSE] = "false",      [JSON_NULL] = "null",
    };
    switch (json_typeof(value)) {
    case JSON_STRING:
        snprintf(text, DESCRIPTION, "the string \"%s\"", br_printable(json_string_value(value)));
        return text;
    case JSON_INTEGER:
        snprintf(text, DESCRIPTION, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
        return text;
    case JSON_REAL:
        snprintf(text, DESCRIPTION, "the number %.17g", json_real_value(value));
        return text;
    default:
        return names[json_typeof(value)];
    }
}

/* ---- Reading --------------------------------------------------------------------------------- */

/* Sets the path of the file: `path` itself, or config.json in it if it is a folder. */
static bool find_file(br_auto_config *config, const char *path)
{
    struct stat st;
    bool folder = stat(path, &st) == 0 && S_ISDIR(st.st_mode);
    config->path = folder ? br_format("%s/config.json", path) : br_strdup(path);
    return config->path != NULL;
}

/* Sets an error that tells why the text is not JSON, and returns false. */
static bool refuse_text(const br_auto_config *config, const json_error_t *error)
{
    enum json_error_code code = json_error_code(error);
    bool nul = code == json_error_null_character || code == json_error_null_byte_in_key;
    return refuse(config, "line %d, column %d: %s", error->line, error->column,
                  nul ? "\\u0000 in a string" : br_printable(error->text));
}

static bool parse(br_auto_config *config, const char *text, size_t length)
{
    if (strspn(text, " \t\r\n") == length)
        return refuse(config, "is empty, must contain a JSON object");
    if (strncmp(text, "\xef\xbb\xbf", 3) == 0)
        return refuse(config, "begins with a byte order mark, must begin with '{'");
    json_error_t error = { 0 };
    config->file = br__json_parse(op, config->path, text, length, &error);
    if (!config->file)
        return !br__failed() && refuse_text(config, &error);
    char found[DESCRIPTION];
    return json_is_object(config->file) ||
           refuse(config, "contains %s, must contain an object", describe(config->file, found));
}

/* Parses a value of our tables. Returns NULL and an error if allocation fails. */
static json_t *parse_own(const br_auto_config *config, const char *json)
{
    json_error_t error;
    return br__json_parse(op, config->path, json, strlen(json), &error);
}

static bool read_file(br_auto_config *config)
{
    size_t length;
    if (br_gguf_is_file(config->path))
        return (config->file = br__gguf_config(config->path)) != NULL;
    char *text = br__read_text(op, config->path, MAX_BYTES, &length);
    bool ok = text && parse(config, text, length);
    br_free(text);
    return ok;
}

/* ---- Look-up --------------------------------------------------------------------------------- */

/* Returns the value of a path "outer.key" of keys in nested objects, or NULL. */
static json_t *at_path(json_t *object, const char *path)
{
    const char *dot = strchr(path, '.');
    char outer[64];
    if (!dot || dot - path >= (ptrdiff_t)sizeof outer)
        return json_object_get(object, path);
    snprintf(outer, sizeof outer, "%.*s", (int)(dot - path), path);
    return at_path(json_object_get(object, outer), dot + 1);
}

/* Returns the file's value of a key, under its own name or any synonym, or NULL. */
static json_t *in_file(const br_auto_config *config, const char *own)
{
    json_t *value = at_path(config->file, own);
    for (const br_config_alias *s = br__config_keys_of(config)->aliases; s && s->name && !value;
         s++)
        if (strcmp(s->key, own) == 0)
            value = json_object_get(config->file, s->name);
    return value;
}

/* Sets an error if a value before the end of a path "outer.key" is neither an object nor null. */
static void check_path(const br_auto_config *config, const char *path)
{
    char outer[128], found[DESCRIPTION];
    for (const char *dot = strchr(path, '.'); dot; dot = strchr(dot + 1, '.')) {
        snprintf(outer, sizeof outer, "%.*s", (int)(dot - path), path);
        json_t *value = at_path(config->file, outer);
        if (value && !json_is_object(value) && !json_is_null(value)) {
            refuse(config, "%s is %s, must be an object", outer, describe(value, found));
            return;
        }
    }
}

/* Returns the value of a key, or NULL if there is none, with an error only as in check_path(). */
static json_t *find(const br_auto_config *config, const char *key)
{
    const char *own = br__config_own_name(config, key);
    json_t *value = json_object_get(config->defaults, own);
    if (!value)
        value = in_file(config, own);
    if (!value)
        check_path(config, key);
    return value;
}

/* ---- Defaults -------------------------------------------------------------------------------- */

static bool find_type(br_auto_config *config)
{
    json_t *type = json_object_get(config->file, "model_type");
    char found[DESCRIPTION];
    if (type && !json_is_string(type) && !json_is_null(type))
        return refuse(config, "model_type is %s, must be a string", describe(type, found));
    config->family = br__family_of_type(json_string_value(type));
    return true;
}

/* Checks that a key that appears under two names has equal values. */
static bool check_spellings(const br_auto_config *config)
{
    for (const br_config_alias *s = br__config_keys_of(config)->aliases; s && s->name; s++) {
        json_t *a = json_object_get(config->file, s->name),
               *b = json_object_get(config->file, s->key);
        char first[DESCRIPTION], second[DESCRIPTION];
        if (a && b && !json_equal(a, b))
            return refuse(config, "%s is %s, but its synonym %s is %s", s->name, describe(a, first),
                          s->key, describe(b, second));
    }
    return true;
}

/* Sets a default and takes ownership of `value`, which is NULL if its allocation failed. */
static bool set_default(br_auto_config *config, const char *key, json_t *value)
{
    if (json_object_set_new(config->defaults, key, value) == 0)
        return true;
    br__fail_file(BR_ERROR_MEMORY, op, config->path,
                  "cannot allocate memory for the default values");
    return false;
}

/* Settles num_labels and id2label: num_labels is the number of labels if the file lacks it. If the
 * two contradict each other, the labels of id2label do not count, as in transformers. */
static bool count_labels(br_auto_config *config)
{
    json_t *labels = in_file(config, "id2label"), *number = in_file(config, "num_labels");
    char found[DESCRIPTION];
    if (!labels || json_is_null(labels))
        return true;
    if (!json_is_object(labels))
        return refuse(config, "id2label is %s, must be an object", describe(labels, found));
    json_int_t n = (json_int_t)json_object_size(labels);
    if (!number)
        return set_default(config, "num_labels", json_integer(n));
    return json_integer_value(number) == n || set_default(config, "id2label", json_null());
}

static bool add_default(br_auto_config *config, const br_config_default *d)
{
    json_t *value = in_file(config, d->key);
    bool for_null = d->json[0] == '|';
    const char *json = d->json + for_null;
    if ((value && !(for_null && json_is_null(value))) || json_object_get(config->defaults, d->key))
        return true;
    return set_default(config, d->key,
                       *json == '=' ? json_incref(find(config, json + 1))
                                    : parse_own(config, json));
}

static bool add_defaults(br_auto_config *config)
{
    const br_config_default *lists[] = { br__config_keys_of(config)->defaults,
                                         br__common_keys.defaults };
    for (int i = 0; i < 2; i++)
        for (const br_config_default *d = lists[i]; d && d->key; d++)
            if (!add_default(config, d))
                return false;
    return true;
}

static bool settle(br_auto_config *config, const char *overrides)
{
    config->defaults = json_object();
    if (!config->defaults)
        return br_fail(BR_ERROR_MEMORY, op, "cannot allocate memory for the default values");
    return find_type(config) && br__config_override(config, overrides) && find_type(config) &&
           check_spellings(config) && count_labels(config) && add_defaults(config);
}

/* ---- Files ----------------------------------------------------------------------------------- */

/* Returns the configuration, with its overrides and defaults, if it was read. Otherwise frees it.
 */
static br_auto_config *settled(br_auto_config *config, bool was_read, const char *overrides)
{
    if (was_read && settle(config, overrides))
        return config;
    br_auto_config_free(config);
    return NULL;
}

br_auto_config *br_auto_config_load_with(const char *path, const char *overrides)
{
    if (!br__required(op, "path", path))
        return NULL;
    br_auto_config *config = BR_NEW(br_auto_config);
    return settled(config, config && find_file(config, path) && read_file(config), overrides);
}

br_auto_config *br_auto_config_load(const char *path)
{
    return br_auto_config_load_with(path, NULL);
}

br_auto_config *br_auto_config_from_json(const char *json)
{
    return br__required(op, "json", json) ? br__config_parse("config.json", json) : NULL;
}

br_auto_config *br__config_parse(const char *path, const char *text)
{
    br_auto_config *config = BR_NEW(br_auto_config);
    if (config)
        config->path = br_strdup(path);
    return settled(config, config && config->path && parse(config, text, strlen(text)), NULL);
}

void br_auto_config_free(br_auto_config *config)
{
    if (!BR_END("auto_config_free", config))
        return;
    json_decref(config->file);
    json_decref(config->defaults);
    br_free(config->path);
    BR_FREE(config);
}

const char *br_auto_config_path(const br_auto_config *config)
{
    return BR_LIVE("auto_config_path", config) ? config->path : NULL;
}

const char *br_auto_config_model_type(const br_auto_config *config)
{
    return BR_LIVE("auto_config_model_type", config)
               ? json_string_value(json_object_get(config->file, "model_type"))
               : NULL;
}

/* Checks that the configuration and the key are not NULL. */
static bool is_set(const br_auto_config *config, const void *key, const char *name)
{
    return br__required(op, "config", config) && br__required(op, name, key);
}

/* ---- Values ---------------------------------------------------------------------------------- */

/* The JSON types that a function accepts, as bits, and their name in messages. */
typedef struct kind {
    unsigned types;
    const char *name;
} kind;

static const kind INTEGER = { 1u << JSON_INTEGER, "an integer" },
                  NUMBER = { 1u << JSON_INTEGER | 1u << JSON_REAL, "a number" },
                  BOOLEAN = { 1u << JSON_TRUE | 1u << JSON_FALSE, "true or false" },
                  STRING = { 1u << JSON_STRING, "a string" },
                  OBJECT = { 1u << JSON_OBJECT, "an object" };

/* Returns a key for a message, followed by its own name if that differs. */
enum { NAME = 520 };
static const char *name_of(const br_auto_config *config, const char *key, char text[NAME])
{
    const char *own = br__config_own_name(config, key);
    if (own == key || json_object_get(config->file, key))
        snprintf(text, NAME, "%s", br_printable(key));
    else
        snprintf(text, NAME, "%s (%s)", br_printable(key), own);
    return text;
}

static json_t *missing(const br_auto_config *config, const char *key)
{
    char name[NAME];
    const char *type = br_auto_config_model_type(config);
    refuse(config, "%s is missing and has no default for %s%s", name_of(config, key, name),
           type ? "model_type " : "a file without model_type", type ? br_printable(type) : "");
    return NULL;
}

/* Returns the value of `key`, or NULL and an error if it is missing or of another type. */
static json_t *get(const br_auto_config *config, const char *key, kind expected)
{
    if (!is_set(config, key, "key"))
        return NULL;
    json_t *value = find(config, key);
    char name[NAME], found[DESCRIPTION];
    if (!value)
        return br_failed() ? NULL : missing(config, key);
    if (expected.types >> json_typeof(value) & 1)
        return value;
    refuse(config, "%s is %s, must be %s", name_of(config, key, name), describe(value, found),
           expected.name);
    return NULL;
}

bool br_auto_config_has(const br_auto_config *config, const char *key)
{
    json_t *value = is_set(config, key, "key") ? find(config, key) : NULL;
    return value && !json_is_null(value);
}

bool br_auto_config_has_object(const br_auto_config *config, const char *key)
{
    return br_auto_config_has(config, key) && get(config, key, OBJECT) != NULL;
}

bool br_auto_config_is_null(const br_auto_config *config, const char *key)
{
    return is_set(config, key, "key") &&
           json_is_null(in_file(config, br__config_own_name(config, key)));
}

int64_t br_auto_config_integer(const br_auto_config *config, const char *key)
{
    return json_integer_value(get(config, key, INTEGER));
}

int64_t br_auto_config_size(const br_auto_config *config, const char *key)
{
    json_t *value = get(config, key, INTEGER);
    int64_t size = json_integer_value(value);
    char name[NAME];
    if (!value || (size >= 1 && size <= INT32_MAX))
        return size;
    refuse(config, "%s is %" PRId64 ", must be 1 .. %d", name_of(config, key, name), size,
           INT32_MAX);
    return 0;
}

double br_auto_config_number(const br_auto_config *config, const char *key)
{
    return json_number_value(get(config, key, NUMBER));
}

double br_auto_config_probability(const br_auto_config *config, const char *key)
{
    double p = br_auto_config_number(config, key);
    char name[NAME];
    if (p >= 0 && p <= 1)
        return p;
    refuse(config, "%s is %.17g, must be 0 .. 1", name_of(config, key, name), p);
    return 0;
}

bool br_auto_config_bool(const br_auto_config *config, const char *key)
{
    return json_is_true(get(config, key, BOOLEAN));
}

const char *br_auto_config_string(const br_auto_config *config, const char *key)
{
    return json_string_value(get(config, key, STRING));
}

/* Sets an error: the value is not one of n choices. */
static void refuse_choice(const br_auto_config *config, const char *key, const char *value, int n,
                          const char *const *choices)
{
    char name[NAME], list[256] = "";
    for (int i = 0; i < n; i++) {
        size_t used = strlen(list);
        snprintf(list + used, sizeof list - used, "%s\"%s\"", i ? ", " : "", choices[i]);
    }
    refuse(config, "%s is \"%s\", must be one of %s", name_of(config, key, name),
           br_printable(value), list);
}

int br_auto_config_choice(const br_auto_config *config, const char *key, int n,
                          const char *const *choices)
{
    if (!is_set(config, n > 0 ? choices : NULL, "choices"))
        return -1;
    const char *value = br_auto_config_string(config, key);
    if (!value)
        return -1;
    for (int i = 0; i < n; i++)
        if (strcmp(value, choices[i]) == 0)
            return i;
    refuse_choice(config, key, value, n, choices);
    return -1;
}

/* ---- Lists and labels ------------------------------------------------------------------------ */

int64_t br_auto_config_list_size(const br_auto_config *config, const char *key)
{
    if (!is_set(config, key, "key"))
        return -1;
    json_t *value = find(config, key);
    if (!value) {
        missing(config, key);
        return -1;
    }
    if (json_is_null(value))
        return 0;
    return json_is_array(value) ? (int64_t)json_array_size(value) : 1;
}

/* Returns element i, or NULL and an error if it does not exist or is of another type. */
static json_t *get_element(const br_auto_config *config, const char *key, int64_t i, kind expected)
{
    int64_t n = br_auto_config_list_size(config, key);
    char name[NAME], found[DESCRIPTION];
    if (n < 0)
        return NULL;
    if (i < 0 || i >= n)
        return br__fail_file(BR_ERROR_INDEX, op, config->path,
                             "%s has no element %" PRId64 ", its length is %" PRId64,
                             name_of(config, key, name), i, n);
    json_t *list = find(config, key);
    if (!json_is_array(list))
        return get(config, key, expected);
    json_t *element = json_array_get(list, (size_t)i);
    if (expected.types >> json_typeof(element) & 1)
        return element;
    refuse(config, "%s[%" PRId64 "] is %s, must be %s", name_of(config, key, name), i,
           describe(element, found), expected.name);
    return NULL;
}

int64_t br_auto_config_list_integer(const br_auto_config *config, const char *key, int64_t i)
{
    return json_integer_value(get_element(config, key, i, INTEGER));
}

double br_auto_config_list_number(const br_auto_config *config, const char *key, int64_t i)
{
    return json_number_value(get_element(config, key, i, NUMBER));
}

const char *br_auto_config_list_string(const br_auto_config *config, const char *key, int64_t i)
{
    return json_string_value(get_element(config, key, i, STRING));
}

char *br_auto_config_label(const br_auto_config *config, int64_t id)
{
    int64_t n = br_auto_config_size(config, "num_labels");
    if (br_failed())
        return NULL;
    if (id < 0 || id >= n)
        return br__fail_file(BR_ERROR_INDEX, op, config->path,
                             "label %" PRId64 " is outside 0 .. %" PRId64, id, n - 1);
    json_t *labels = find(config, "id2label");
    if (json_is_null(labels))
        return br_format("LABEL_%" PRId64, id);
    char key[24], found[DESCRIPTION];
    snprintf(key, sizeof key, "%" PRId64, id);
    json_t *label = json_object_get(labels, key);
    if (json_is_string(label))
        return br_strdup(json_string_value(label));
    refuse(config, "id2label[\"%s\"] is %s, must be a string", key,
           label ? describe(label, found) : "missing");
    return NULL;
}

/* ---- Checks ---------------------------------------------------------------------------------- */

bool br_auto_config_multiple(const br_auto_config *config, const char *key, const char *by)
{
    int64_t size = br_auto_config_size(config, key), divisor = br_auto_config_size(config, by);
    char first[NAME], second[NAME];
    if (br_failed())
        return false;
    return size % divisor == 0 ||
           refuse(config, "%s %" PRId64 " is not divisible by %s %" PRId64,
                  name_of(config, key, first), size, name_of(config, by, second), divisor);
}

int64_t br_auto_config_padding(const br_auto_config *config)
{
    if (!br_auto_config_has(config, "pad_token_id"))
        return -1;
    int64_t id = br_auto_config_integer(config, "pad_token_id");
    int64_t n = br_auto_config_size(config, "vocab_size");
    if (br_failed())
        return -1;
    if (id >= -n && id < n)
        return id < 0 ? id + n : id;
    refuse(config,
           "pad_token_id is %" PRId64 ", but vocab_size is %" PRId64 ": must be null or %" PRId64
           " .. %" PRId64,
           id, n, -n, n - 1);
    return -1;
}

/* Checks one limit: the key must be absent or have the supported value. */
static bool within(const br_auto_config *config, const br_config_limit *limit)
{
    json_t *value = in_file(config, limit->key);
    if (!value || (json_is_null(value) && !limit->refuses_null))
        return true;
    json_t *supported = parse_own(config, limit->json);
    if (!supported)
        return false;
    bool same = json_equal(value, supported);
    json_decref(supported);
    char found[DESCRIPTION];
    return same ||
           refuse(config, "%s is %s, must be %s: no other value is supported for a %s", limit->key,
                  describe(value, found), limit->json, br_auto_config_model_type(config));
}

static bool has_type(const br_auto_config *config, const char *model_type)
{
    if (!is_set(config, model_type, "model_type"))
        return false;
    const char *is = br_auto_config_model_type(config);
    if (!is)
        return refuse(config, "model_type is missing, must be \"%s\"", br_printable(model_type));
    bool same = strcmp(is, model_type) == 0 ||
                (config->family && config->family == br__family_of_type(model_type));
    return same || refuse(config, "model_type is \"%s\", must be \"%s\"", br_printable(is),
                          br_printable(model_type));
}

bool br_auto_config_expect(const br_auto_config *config, const char *model_type)
{
    if (!has_type(config, model_type))
        return false;
    const br_config_limit *lists[] = { br__config_keys_of(config)->limits, br__common_keys.limits };
    for (int i = 0; i < 2; i++)
        for (const br_config_limit *limit = lists[i]; limit && limit->key; limit++)
            if (!within(config, limit))
                return false;
    return !br_failed();
}
