/* cli/info.h - what the parts of `brasa info` share. */
#ifndef BRASA_CLI_INFO_H
#define BRASA_CLI_INFO_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

/* Shows the config.json at `path` or in that folder; an error stays pending. */
void info_config(const char *path, bool json);

/* "1.5 KiB", in `text`. */
const char *info_size(double bytes, char *text, size_t size);
/* Prints the text and spaces up to `width` columns. */
void info_padded(const char *text, int width);
/* A column's width when it has the text, too; a few long ones do not widen it. */
int info_widen(int width, const char *text);
/* Prints a value's first bytes, and how many there are if that is not all. */
void info_value(const char *value);
/* Escaped if it is not UTF-8, as a path may be, or a message that was cut. */
json_t *info_text_object(const char *text);

#endif
