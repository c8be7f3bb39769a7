/* common/text.h - texts: formatting, lists of names with suggestions, numbers, lines. */
#ifndef BRASA_COMMON_TEXT_H
#define BRASA_COMMON_TEXT_H

#include <brasa/brasa.h>
#include <string.h>

/* Formats like printf() into memory that the caller frees; returns NULL with an error on
 * failure. */
char *text_format(const char *format, ...) BR_PRINTF(1, 2);
/* Appends a name to a comma-separated list, which is truncated to `size` bytes. */
void names_add(char *names, size_t size, const char *name);
/* Returns "; did you mean 'NAME'?" with the name in the comma-separated list that is most similar
 * to `given`, or "" if no name is similar. Valid until the next call. */
const char *names_suggestion(const char *given, const char *names);
/* Converts the whole text to a number; returns false if it is not a number in low .. high. */
bool text_to_integer(const char *text, int64_t low, int64_t high, int64_t *value);
bool text_to_number(const char *text, double low, double high, double *value);
/* Returns the begin of the first line of text .. end-1, after a byte-order mark if there is one. */
static inline const char *text_first_line(const char *text, const char *end)
{
    return end - text >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0 ? text + 3 : text;
}
/* Gets the next line, from *at to the separator or the end, and moves *at past it. If the separator
 * is '\n', a '\r' before it does not belong to the line. Returns false at the end. */
static inline bool text_next_line(const char **at, const char *end, char separator, br_text *line)
{
    if (*at >= end)
        return false;
    const char *stop = memchr(*at, separator, (size_t)(end - *at));
    *line = (br_text){ *at, (stop ? stop : end) - *at };
    if (separator == '\n' && line->length > 0 && line->data[line->length - 1] == '\r')
        line->length--;
    *at = stop ? stop + 1 : end;
    return true;
}

#endif
