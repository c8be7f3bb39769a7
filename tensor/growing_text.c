/* tensor/growing_text.c - a string that grows, see growing_text.h. */
#include "tensor/growing_text.h"
#include "tensor/tensor_internal.h"

#include <stdarg.h>

static bool reserve(br__text *text, size_t capacity)
{
    if (capacity <= text->capacity)
        return true;
    if (capacity < 2 * text->capacity)
        capacity = 2 * text->capacity;
    char *data = br__realloc(text->data, text->data ? text->length + 1 : 0, capacity);
    if (!data)
        return false;
    text->data = data;
    text->capacity = capacity;
    return true;
}

bool br__text_add(br__text *text, const char *format, ...)
{
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int n = vsnprintf(NULL, 0, format, args);
    va_end(args);
    bool ok = n >= 0 && reserve(text, text->length + (size_t)n + 1);
    if (ok) {
        vsnprintf(text->data + text->length, (size_t)n + 1, format, again);
        text->length += (size_t)n;
    }
    va_end(again);
    return ok;
}

bool br__text_append(br__text *text, const void *bytes, size_t n)
{
    if (br_failed() || !reserve(text, text->length + n + 1))
        return false;
    if (n > 0)
        memcpy(text->data + text->length, bytes, n);
    text->length += n;
    text->data[text->length] = '\0';
    return true;
}

void br__text_truncate(br__text *text, size_t length)
{
    if (length >= text->length)
        return;
    text->length = length;
    text->data[length] = '\0';
}

char *br__text_take(br__text *text)
{
    char *data = text->data ? text->data : br_strdup("");
    *text = (br__text){ 0 };
    return data;
}
