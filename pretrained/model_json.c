/* pretrained/model_json.c - see model_json.h. */
#include "pretrained/model_json.h"

#include "io/io_internal.h"
#include "io/json.h"

#include <stdarg.h>
#include <string.h>
#include <unistd.h>

enum { MAX_BYTES = 4 << 20 };

bool br__model_json_refuse(const br_model_json *f, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    br__refuse_file(f->op, f->path, format, args);
    va_end(args);
    return false;
}

bool br__model_json_refuse_value(const br_model_json *f, const char *key, const json_t *value,
                                 const char *must)
{
    char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(15));
    br__model_json_refuse(f, "%s is %s, must be %s", key, text ? br_printable(text) : "invalid",
                          must);
    free(text); /* by jansson */
    return false;
}

bool br__model_json_open_any(const char *op, br_model_json *f, const char *dir, const char *name,
                             bool required)
{
    *f = (br_model_json){ .op = op, .path = br_format("%s/%s", dir, name) };
    if (!f->path)
        return false;
    if (!required && access(f->path, F_OK) != 0)
        return true;
    /* tokenizer_config.json may contain integers of 31 digits. */
    bool reals = strcmp(name, "tokenizer_config.json") == 0;
    f->value = br__json_read_file(f->op, f->path, MAX_BYTES, reals);
    return f->value;
}

bool br__model_json_check_type(const br_model_json *f, json_type type)
{
    return !f->value || json_typeof(f->value) == type ||
           br__model_json_refuse_value(f, "the file's value", f->value,
                                       type == JSON_ARRAY ? "a list" : "an object");
}

bool br__model_json_open(const char *op, br_model_json *f, const char *dir, const char *name,
                         json_type type, bool required)
{
    return br__model_json_open_any(op, f, dir, name, required) &&
           br__model_json_check_type(f, type);
}

void br__model_json_close(br_model_json *f)
{
    json_decref(f->value);
    br_free(f->path);
}

json_t *br__model_json_get(const br_model_json *f, const char *key)
{
    json_t *value = json_object_get(f->value, key);
    return json_is_null(value) ? NULL : value;
}

bool br__model_json_flag(const br_model_json *f, const char *key, bool *flag)
{
    json_t *value = br__model_json_get(f, key);
    if (value && !json_is_boolean(value))
        return br__model_json_refuse_value(f, key, value, "true or false");
    *flag = value ? json_is_true(value) : *flag;
    return true;
}
