/* train/json_lines.c - see json_lines.h. */
#include "train/json_lines.h"
#include "common/text.h"
#include "io/json.h"

#include <inttypes.h>
#include <stdarg.h>

bool json_line_refuse(int64_t number, const char *format, ...)
{
    char text[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    br_raise(BR_ERROR_FORMAT, "line %" PRId64 " of the data %s", number, text);
    return false;
}

const json_t *json_line_string(int64_t number, const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    if (json_is_string(value))
        return value;
    json_line_refuse(number, "has %s \"%s\"%s", value ? "a" : "no", key,
                     value ? " that is no string" : "");
    return NULL;
}

/* Returns the line's object, which the caller frees with json_decref(); NULL with an error. */
static json_t *parse(int64_t number, br_text line, const char *hint)
{
    json_error_t error;
    json_t *json = br__json_parse("finetune", "the data", line.data, (size_t)line.length, &error);
    if (!json && !br_failed())
        json_line_refuse(number, "is not JSON: column %d: %s%s", error.column,
                         br_printable(error.text), hint);
    else if (json && !json_is_object(json))
        json_line_refuse(number, "is not a JSON object");
    if (!br_failed())
        return json;
    json_decref(json);
    return NULL;
}

static bool is_blank(br_text line)
{
    for (int64_t i = 0; i < line.length; i++)
        if (!strchr(" \t\r", line.data[i]) || !line.data[i])
            return false;
    return true;
}

bool json_lines_each(const char *data, const char *end, const char *hint, json_line_fn read,
                     void *context)
{
    br_text line;
    for (int64_t number = 1; text_next_line(&data, end, '\n', &line); number++) {
        if (is_blank(line))
            continue;
        json_t *json = parse(number, line, hint);
        bool ok = json && read(context, number, json);
        json_decref(json);
        if (!ok)
            return false;
    }
    return true;
}
