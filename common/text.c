/* common/text.c - texts: formatting, lists of names with suggestions, numbers. */
#include "common/text.h"
#include "nn/names.h"
#include "tensor/min_max.h"

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdlib.h>

char *text_format(const char *format, ...)
{
    char *text = NULL;
    va_list args;
    va_start(args, format);
    if (vasprintf(&text, format, args) < 0) {
        text = NULL;
        br_raise(BR_ERROR_MEMORY, "cannot allocate memory for a text");
    }
    va_end(args);
    return text;
}

/* ---- Names ----------------------------------------------------------------------------------- */

void names_add(char *names, size_t size, const char *name)
{
    strncat(names, *names ? ", " : "", size - strlen(names) - 1);
    strncat(names, name, size - strlen(names) - 1);
}

/* A name is similar if the distance is at most a third of its letters, or at most 1. */
const char *names_suggestion(const char *given, const char *names)
{
    static char text[BR_LONGEST_NAME + 32];
    int nearest = INT_MAX;
    *text = 0;
    for (const char *name = names; *name;) {
        size_t n = strcspn(name, ",");
        int off = br__edit_distance(given, strlen(given), name, n), most = (int)n / 3;
        if (off <= br__max(most, 1) && off < nearest && n > 1) {
            nearest = off;
            snprintf(text, sizeof text, "; did you mean '%.*s'?", (int)n, name);
        }
        name += n + strspn(name + n, ", ");
    }
    return text;
}

/* ---- Numbers --------------------------------------------------------------------------------- */

bool text_to_integer(const char *text, int64_t low, int64_t high, int64_t *value)
{
    char *end;
    errno = 0;
    long long n = strtoll(text, &end, 10);
    if (end == text || *end || errno || n < low || n > high)
        return false;
    *value = n;
    return true;
}

bool text_to_number(const char *text, double low, double high, double *value)
{
    char *end;
    double x = strtod(text, &end);
    if (end == text || *end || !(x >= low && x <= high))
        return false;
    *value = x;
    return true;
}
