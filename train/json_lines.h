/* train/json_lines.h - reads lines of JSON objects. */
#ifndef BRASA_TRAIN_JSON_LINES_H
#define BRASA_TRAIN_JSON_LINES_H

#include <brasa/brasa.h>
#include <jansson.h>

typedef bool (*json_line_fn)(void *context, int64_t number, const json_t *object);
/* Calls `read` with each line's object and the line's number, counted from 1. Skips blank lines.
 * Returns false with an error if a line is no JSON object, which ends with `hint`, or if `read`
 * returns false. */
bool json_lines_each(const char *data, const char *end, const char *hint, json_line_fn read,
                     void *context);
/* Sets the error that line `number` of the data ..., and returns false. */
bool json_line_refuse(int64_t number, const char *format, ...) BR_PRINTF(2, 3);
/* Returns the string of a key, or NULL with an error if it is missing or no string. */
const json_t *json_line_string(int64_t number, const json_t *object, const char *key);
/* Returns the text of a string. */
static inline br_text json_line_text(const json_t *string)
{
    return (br_text){ json_string_value(string), (int64_t)json_string_length(string) };
}

#endif
