/* tokenizers/tokenizer_config.c - reads the side files of a tokenizer as the AutoTokenizer of
 * transformers 5 does:
 *
 * - "added_tokens_decoder" of tokenizer_config.json hides special_tokens_map.json and
 *   added_tokens.json.
 * - Otherwise special_tokens_map.json overrides the special tokens of tokenizer_config.json.
 * - The class is that of tokenizer_config.json, else that of config.json, else that of its
 *   model_type. */
#include "tokenizers/tokenizer_config.h"

#include "io/io_internal.h"
#include "io/json.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char op[] = "auto_tokenizer";
static const char config_file[] = "tokenizer_config.json", map_file[] = "special_tokens_map.json",
                  added_file[] = "added_tokens.json", model_file[] = "config.json";

enum { MAX_BYTES = 1 << 24 };

static const char *const role_keys[] = { "bos_token", "eos_token", "unk_token", "sep_token",
                                         "pad_token", "cls_token", "mask_token" };

/* ---- Errors ---------------------------------------------------------------------------------- */

bool br__side_refuse(const br_side_files *s, const char *file, const char *format, ...)
{
    char *path = br_format("%s/%s", s->dir, file);
    va_list args;
    va_start(args, format);
    if (path)
        br__refuse_file(op, path, format, args);
    va_end(args);
    br_free(path);
    return false;
}

/* Returns the JSON of a value, shortened, in a buffer of br_printable(). */
static const char *shown(const json_t *value)
{
    char text[64];
    size_t n = json_dumpb(value, text, sizeof text - 1, JSON_ENCODE_ANY | JSON_COMPACT);
    n = n < sizeof text - 1 ? n : sizeof text - 1;
    text[n] = 0;
    return n ? br_printable(text) : "too long";
}

/* ---- Keys ------------------------------------------------------------------------------------ */

static void warn_of_unknown_keys(const br_side_files *s, const char *file, json_t *object)
{
    const char *key;
    json_t *value;
    json_object_foreach(object, key, value)
    {
        if (br__tokenizer_key_effect(key) == BR_KEY_UNKNOWN)
            br_raise(BR_WARNING, "%s: %s/%s: '%s' is not a known key, and has no effect", op,
                     br_printable(s->dir), file, br_printable(key));
    }
}

/* ---- Values ---------------------------------------------------------------------------------- */

/* Parses a file that must contain an object. Integers are read as reals, because model_max_length
 * may have 31 digits. *root stays NULL if there is no such file. */
static bool read_object(const br_side_files *s, const char *file, json_t **root)
{
    char *path = br_format("%s/%s", s->dir, file);
    if (!path || access(path, F_OK) != 0) {
        bool ok = path;
        br_free(path);
        return ok;
    }
    size_t n;
    json_error_t error;
    char *text = br__read_text(op, path, MAX_BYTES, &n);
    *root = text ? br__json_parse_reals(op, path, text, n, &error) : NULL;
    br_free(path);
    br_free(text);
    if (!*root)
        return br__failed()
                   ? false
                   : br__side_refuse(s, file, "line %d: %s", error.line, br_printable(error.text));
    return json_is_object(*root) || br__side_refuse(s, file, "is not an object");
}

/* Reads a boolean. If there is no such key, or its value is null, *setting is unchanged. */
static bool read_setting(const br_side_files *s, const char *key, br_setting *setting)
{
    json_t *value = json_object_get(s->config, key);
    if (json_is_null(value))
        return true;
    if (value)
        *setting = json_is_true(value) ? BR_SETTING_ON : BR_SETTING_OFF;
    return !value || json_is_boolean(value) ||
           br__side_refuse(s, config_file, "%s is %s, must be true or false", key, shown(value));
}

/* Returns a string without NULs, or NULL. */
static const char *string_of(const json_t *value)
{
    const char *text = json_string_value(value);
    return text && strlen(text) == json_string_length(value) ? text : NULL;
}

static bool integer_of(const json_t *value, int64_t most, int64_t *n)
{
    double x = json_is_number(value) ? json_number_value(value) : -1;
    bool ok = x >= 0 && x <= (double)most && x == floor(x);
    *n = ok ? (int64_t)x : -1;
    return ok;
}

/* ---- The class ------------------------------------------------------------------------------- */

/* Sets s->family to the family of the class s->class_name, which was read from the key s->class_key
 * of s->class_file. */
static bool set_class(br_side_files *s)
{
    s->family = BR_FAMILY_ANY;
    return br__tokenizer_class_family(s->class_name, &s->family) ||
           br__side_refuse(s, s->class_file,
                           "%s is '%s', which is not supported: must be BertTokenizer, "
                           "GPT2Tokenizer, T5Tokenizer, or a class that only follows "
                           "tokenizer.json; set the option tokenizer_class to override it",
                           s->class_key, br_printable(s->class_name));
}

static bool read_class_of(br_side_files *s, json_t *root, const char *file)
{
    json_t *value = json_object_get(root, "tokenizer_class");
    if (!value || json_is_null(value))
        return true;
    const char *name = string_of(value);
    if (!name)
        return br__side_refuse(s, file, "tokenizer_class is %s, must be a string", shown(value));
    if (s->class_name) {
        br_tokenizer_family other;
        if (!br__tokenizer_class_family(name, &other) || other != s->family)
            br_raise(BR_WARNING,
                     "%s: %s: tokenizer_class is '%s' in %s, but '%s' in %s; the former counts", op,
                     br_printable(s->dir), br_printable(s->class_name), s->class_file,
                     br_printable(name), file);
        return true;
    }
    s->class_name = name;
    s->class_file = file;
    s->class_key = "tokenizer_class";
    return set_class(s);
}

/* Without a class, the model_type of config.json determines it. */
static bool read_model_type(br_side_files *s)
{
    const char *type = string_of(json_object_get(s->model, "model_type"));
    if (s->class_name || !type)
        return true;
    s->class_name = type;
    s->class_file = model_file;
    s->class_key = "model_type";
    if (!br__tokenizer_model_family(type, &s->family))
        s->family = BR_FAMILY_FILE;
    return true;
}

static bool read_class(br_side_files *s, const br_auto_tokenizer_options *o)
{
    if (!o->tokenizer_class)
        return read_class_of(s, s->config, config_file) && read_class_of(s, s->model, model_file) &&
               read_model_type(s);
    s->class_name = o->tokenizer_class;
    s->class_file = "";
    s->class_key = "the option tokenizer_class";
    if (br__tokenizer_class_family(o->tokenizer_class, &s->family))
        return true;
    br_fail(BR_ERROR_ARGUMENT, op,
            "tokenizer_class is '%s', must be BertTokenizer, GPT2Tokenizer, T5Tokenizer or "
            "PreTrainedTokenizerFast",
            br_printable(o->tokenizer_class));
    return false;
}

/* ---- Settings -------------------------------------------------------------------------------- */

static bool read_accents(br_side_files *s)
{
    json_t *value = json_object_get(s->config, "strip_accents");
    s->auto_accents = json_is_null(value);
    return s->auto_accents || read_setting(s, "strip_accents", &s->strip_accents);
}

static bool read_clean_up(br_side_files *s)
{
    static const char key[] = "clean_up_tokenization_spaces";
    br_setting on = BR_SETTING_OFF;
    if (!read_setting(s, key, &on))
        return false;
    s->cleans_up = on == BR_SETTING_ON;
    return true;
}

static bool read_extra_ids(br_side_files *s)
{
    enum { MOST = 100000 };
    json_t *value = json_object_get(s->config, "extra_ids");
    bool ignored = json_is_null(value) && s->family != BR_FAMILY_PIECES;
    return !value || ignored || integer_of(value, MOST, &s->extra_ids) ||
           br__side_refuse(s, config_file, "extra_ids is %s, must be an integer in 0 .. %d",
                           shown(value), MOST);
}

/* Checks a string that would select a tokenizer which is not supported. */
static bool check_type(const br_side_files *s, const char *key, const char *expected)
{
    json_t *value = json_object_get(s->config, key);
    const char *text = string_of(value);
    return !value || json_is_null(value) || (text && strcmp(text, expected) == 0) ||
           br__side_refuse(s, config_file, "%s is %s, which is not supported: must be '%s'", key,
                           shown(value), expected);
}

static bool check_files(const br_side_files *s)
{
    json_t *list = json_object_get(s->config, "fast_tokenizer_files"), *file;
    size_t i;
    json_array_foreach(list, i, file)
    {
        const char *name = string_of(file);
        if (!name || strcmp(name, "tokenizer.json") != 0)
            return br__side_refuse(s, config_file,
                                   "fast_tokenizer_files names %s, but only tokenizer.json is "
                                   "supported",
                                   shown(file));
    }
    return true;
}

static bool check_values(const br_side_files *s, const br_auto_tokenizer_options *o)
{
    json_t *code = json_object_get(s->config, "auto_map");
    json_t *inputs = json_object_get(s->config, "init_inputs");
    if (!o->tokenizer_class && (json_is_array(code) || json_object_get(code, "AutoTokenizer")))
        return br__side_refuse(s, config_file,
                               "auto_map names a class of the folder's own code, which is not "
                               "supported; set the option tokenizer_class to override it");
    if (json_array_size(inputs) > 0)
        return br__side_refuse(s, config_file, "init_inputs is %s, must be empty", shown(inputs));
    return check_type(s, "word_tokenizer_type", "basic") &&
           check_type(s, "subword_tokenizer_type", "wordpiece") && check_files(s);
}

static bool read_settings(br_side_files *s)
{
    static const char splits_key[] = "split_special_tokens";
    br_setting splits = BR_SETTING_OFF;
    if (json_is_null(json_object_get(s->config, splits_key)))
        return br__side_refuse(s, config_file, "%s is null, must be true or false", splits_key);
    bool ok = read_setting(s, "do_lower_case", &s->do_lower_case) && read_accents(s) &&
              read_setting(s, "tokenize_chinese_chars", &s->tokenize_chinese_chars) &&
              read_setting(s, "add_prefix_space", &s->add_prefix_space) &&
              read_setting(s, "add_bos_token", &s->add_bos) &&
              read_setting(s, "add_eos_token", &s->add_eos) &&
              read_setting(s, splits_key, &splits) && read_clean_up(s) && read_extra_ids(s);
    s->splits_special = splits == BR_SETTING_ON;
    return ok;
}

/* ---- Tokens ---------------------------------------------------------------------------------- */

enum { ORDER_NAMED = BR_TOKEN_MASK + 1, ORDER_LISTED };

static bool push(br_side_tokens *list, const br_side_token *token)
{
    br_side_token *items =
        br__grow_tokens(list->items, &list->capacity, list->count, sizeof *items);
    if (!items)
        return false;
    list->items = items;
    items[list->count++] = *token;
    return true;
}

br_side_token *br__side_find(const br_side_tokens *list, const char *text)
{
    for (int64_t i = 0; i < list->count; i++)
        if (strcmp(list->items[i].text, text) == 0)
            return &list->items[i];
    return NULL;
}

/* Reads a flag of a token object. */
static bool read_flag(const br_side_files *s, const br_side_token *t, json_t *object,
                      const char *flag, bool standard, bool *value)
{
    json_t *member = json_object_get(object, flag);
    *value = member ? json_is_true(member) : standard;
    return !member || json_is_boolean(member) ||
           br__side_refuse(s, t->file, "%s: token '%s': %s is %s, must be true or false", t->key,
                           br_printable(t->text), flag, shown(member));
}

/* Reads a token, which is a string or an object with flags. t->file, t->key and t->special, the
 * standard of "special", must be set. */
static bool read_token(const br_side_files *s, const json_t *value, br_side_token *t)
{
    json_t *object = (json_t *)value;
    t->object = json_is_object(value);
    t->text = string_of(json_is_object(value) ? json_object_get(object, "content") : value);
    if (!t->text || !*t->text)
        return br__side_refuse(s, t->file,
                               "%s is %s, must be a token: a string that is not empty, or an "
                               "object with one as \"content\"",
                               t->key, shown(value));
    if (!json_is_object(value))
        return true;
    return read_flag(s, t, object, "special", t->special, &t->special) &&
           read_flag(s, t, object, "normalized", !t->special, &t->late) &&
           read_flag(s, t, object, "lstrip", false, &t->lstrip) &&
           read_flag(s, t, object, "rstrip", false, &t->rstrip) &&
           read_flag(s, t, object, "single_word", false, &t->single_word);
}

static bool check_count(const br_side_files *s, const char *file, const char *key, size_t n)
{
    return n <= BR_MAX_ADDED ||
           br__side_refuse(s, file, "%s has %zu tokens, the limit is %d", key, n, BR_MAX_ADDED);
}

/* Returns the index of a role's key, or -1. */
static int role_of(const char *key)
{
    for (int role = 0; role <= BR_TOKEN_MASK; role++)
        if (strcmp(role_keys[role], key) == 0)
            return role;
    return -1;
}

/* Returns true for null, and for a token object whose content is null: there is no token. */
static bool is_no_token(const json_t *value)
{
    return json_is_null(value) || json_is_null(json_object_get(value, "content"));
}

/* Reads a special token with a name, if there is one. */
static bool read_named(br_side_files *s, const char *file, const char *key, const json_t *value)
{
    int role = role_of(key);
    br_side_token t = { .file = file, .key = key, .id = -1, .role = role, .special = true };
    t.order = role >= 0 ? role : ORDER_NAMED;
    if (is_no_token(value))
        return true;
    if (!read_token(s, value, &t))
        return false;
    t.special = true;
    return push(&s->named, &t);
}

static bool is_named_key(const char *key, const json_t *value)
{
    return role_of(key) >= 0 ||
           (br__key_ends_with(key, "_token") && (json_is_string(value) || json_is_object(value)));
}

/* Returns the value of a role: that of special_tokens_map.json, if it counts, or that of
 * tokenizer_config.json. */
static json_t *role_value(const br_side_files *s, const char *key, const char **file)
{
    json_t *a = json_object_get(s->config, key);
    json_t *b = s->has_decoder ? NULL : json_object_get(s->map, key);
    *file = b ? map_file : config_file;
    return b ? b : a;
}

static const char *text_of(json_t *value)
{
    return string_of(json_is_object(value) ? json_object_get(value, "content") : value);
}

static void warn_of_role(const br_side_files *s, const char *key)
{
    json_t *a = json_object_get(s->config, key), *b = json_object_get(s->map, key);
    const char *x = text_of(a), *y = text_of(b);
    if (!s->has_decoder && x && y && strcmp(x, y) != 0)
        br_raise(BR_WARNING,
                 "%s: %s: %s is '%s' in tokenizer_config.json, but '%s' in "
                 "special_tokens_map.json; the latter counts",
                 op, br_printable(s->dir), key, br_printable(x), br_printable(y));
}

static bool read_roles(br_side_files *s)
{
    for (int role = 0; role <= BR_TOKEN_MASK; role++) {
        const char *file;
        json_t *value = role_value(s, role_keys[role], &file);
        s->stated[role] = value;
        if (role == BR_TOKEN_EOS && json_is_null(value) && s->family == BR_FAMILY_PIECES)
            return br__side_refuse(s, file, "%s is null, but %s needs this token", role_keys[role],
                                   br_printable(s->class_name));
        if (value && !read_named(s, file, role_keys[role], value))
            return false;
        warn_of_role(s, role_keys[role]);
    }
    return true;
}

/* Reads the other keys that end in "_token". */
static bool read_specific(br_side_files *s, json_t *object, const char *file, bool any_key)
{
    const char *key;
    json_t *value;
    json_object_foreach(object, key, value)
    {
        if (role_of(key) < 0 && (any_key || is_named_key(key, value)) &&
            !read_named(s, file, key, value))
            return false;
    }
    return true;
}

/* Reads a list of special tokens, or an object with a name for each. */
static bool read_extra(br_side_files *s, const char *file, const char *key, json_t *list)
{
    size_t i;
    json_t *value;
    if (json_is_object(list))
        return check_count(s, file, key, json_object_size(list)) &&
               read_specific(s, list, file, true);
    if (!json_is_array(list) && !json_is_null(list))
        return br__side_refuse(s, file, "%s is %s, must be a list of tokens", key, shown(list));
    if (!check_count(s, file, key, json_array_size(list)))
        return false;
    json_array_foreach(list, i, value)
    {
        br_side_token t = { .file = file, .key = key, .id = -1, .role = -1, .special = true };
        t.order = ORDER_LISTED;
        if (json_is_object(value) && is_no_token(value))
            continue;
        if (!read_token(s, value, &t) || !push(&s->named, &t))
            return false;
    }
    return true;
}

static bool is_true(const json_t *value)
{
    return json_array_size(value) > 0 || json_object_size(value) > 0;
}

static bool read_extras(br_side_files *s)
{
    static const char extra[] = "extra_special_tokens", old[] = "additional_special_tokens";
    json_t *list = json_object_get(s->config, extra), *other = json_object_get(s->config, old);
    const char *key = other && !is_true(list) ? old : extra;
    list = key == old ? other : list;
    json_t *map = s->has_decoder ? NULL : s->map;
    json_t *more = json_object_get(map, extra), *old_more = json_object_get(map, old);
    json_t *specific = json_object_get(s->config, "model_specific_special_tokens");
    s->has_extra = list || more || old_more;
    s->extra_in_map = old_more && !list && !more;
    return read_specific(s, map, map_file, false) &&
           read_specific(s, s->config, config_file, false) &&
           read_specific(s, specific, config_file, true) &&
           (!list || read_extra(s, config_file, key, list)) &&
           (!more || read_extra(s, map_file, extra, more)) &&
           (!s->extra_in_map || read_extra(s, map_file, old, old_more));
}

bool br__side_name(br_side_files *s, const char *text, int role, bool optional)
{
    br_side_token t = { .text = text,
                        .file = "",
                        .key = "",
                        .id = -1,
                        .role = role,
                        .special = true,
                        .optional = optional,
                        .order = role };
    return push(&s->named, &t);
}

/* ---- Added tokens ---------------------------------------------------------------------------- */

static int by_id(const void *a, const void *b)
{
    const br_side_token *x = a, *y = b;
    return (x->id > y->id) - (x->id < y->id);
}

static bool sort_added(br_side_files *s)
{
    br_side_token *t = s->added.items;
    if (s->added.count > 1)
        qsort(t, (size_t)s->added.count, sizeof *t, by_id);
    for (int64_t i = 1; i < s->added.count; i++)
        if (t[i].id == t[i - 1].id)
            return br__side_refuse(s, t[i].file, "%s: '%s' and '%s' have the same id, %" PRId64,
                                   t[i].key, br_printable(t[i - 1].text), br_printable(t[i].text),
                                   t[i].id);
    return true;
}

/* Reads the id that is the key of an object. */
static bool id_of_key(const char *key, int64_t *id)
{
    char *end;
    size_t n = strlen(key);
    *id = n > 0 && n < 10 && strspn(key, "0123456789") == n ? strtoll(key, &end, 10) : -1;
    return *id >= 0 && *id < BR_MAX_TOKEN_ID;
}

static bool read_decoder(br_side_files *s)
{
    static const char name[] = "added_tokens_decoder";
    json_t *decoder = json_object_get(s->config, name), *value;
    const char *key;
    if (!json_is_object(decoder))
        return br__side_refuse(s, config_file, "%s is %s, must be an object", name, shown(decoder));
    if (!check_count(s, config_file, name, json_object_size(decoder)))
        return false;
    json_object_foreach(decoder, key, value)
    {
        br_side_token t = { .file = config_file, .key = name, .role = -1 };
        if (!id_of_key(key, &t.id) || !json_is_object(value))
            return br__side_refuse(s, config_file,
                                   "%s: '%s' is %s, must be an id with a token object", name,
                                   br_printable(key), shown(value));
        if (!read_token(s, value, &t))
            return false;
        if (br__side_find(&s->added, t.text))
            return br__side_refuse(s, config_file, "%s: '%s' has two ids", name,
                                   br_printable(t.text));
        if (!push(&s->added, &t))
            return false;
    }
    return sort_added(s);
}

/* Reads added_tokens.json, which maps tokens to ids. A token is special if another key names it;
 * otherwise it is matched in the normalized text. */
static bool read_added(br_side_files *s)
{
    const char *text;
    json_t *value;
    if (!check_count(s, added_file, "the object", json_object_size(s->added_json)))
        return false;
    json_object_foreach(s->added_json, text, value)
    {
        br_side_token t = { .text = text, .file = added_file, .key = "the object", .role = -1 };
        if (!*text || !integer_of(value, BR_MAX_TOKEN_ID - 1, &t.id))
            return br__side_refuse(s, added_file, "'%s' is %s, must be a token with an id below %d",
                                   br_printable(text), shown(value), BR_MAX_TOKEN_ID);
        const br_side_token *named = br__side_find(&s->named, text);
        t.special = named;
        t.late = !t.special;
        if (!push(&s->added, &t))
            return false;
    }
    return sort_added(s);
}

/* ---------------------------------------------------------------------------------------------- */

static bool read_files(br_side_files *s)
{
    return read_object(s, config_file, &s->config) && read_object(s, map_file, &s->map) &&
           read_object(s, added_file, &s->added_json) && read_object(s, model_file, &s->model);
}

bool br__side_files_read(br_side_files *s, const char *dir, const br_auto_tokenizer_options *o)
{
    s->dir = dir;
    s->extra_ids = -1;
    if (!read_files(s) || !check_values(s, o) || !read_class(s, o) || !read_settings(s))
        return false;
    warn_of_unknown_keys(s, config_file, s->config);
    warn_of_unknown_keys(s, map_file, s->map);
    s->has_decoder = json_object_get(s->config, "added_tokens_decoder") && !o->ignore_added_tokens;
    if (!read_roles(s) || !read_extras(s))
        return false;
    if (o->ignore_added_tokens)
        return true;
    return s->has_decoder ? read_decoder(s) : read_added(s);
}

void br__side_files_free(br_side_files *s)
{
    json_decref(s->config);
    json_decref(s->map);
    json_decref(s->added_json);
    json_decref(s->model);
    br_free(s->added.items);
    br_free(s->named.items);
}
