/* tensor/growing_text.h - a string that grows. */
#ifndef BR_GROWING_TEXT_H
#define BR_GROWING_TEXT_H

#include <brasa/tensor.h>

typedef struct br__text {
    char *data; /* NUL-terminated; NULL until something is added */
    size_t length, capacity;
} br__text;

/* Appends formatted text. On failure, returns false, sets an error and leaves the text unchanged.
 */
bool br__text_add(br__text *text, const char *format, ...) BR_PRINTF(2, 3);
/* Appends n bytes, which may contain NULs. Does nothing and returns false while an error is
 * pending; on failure also sets one. */
bool br__text_append(br__text *text, const void *bytes, size_t n);
/* Shortens the text to `length`. */
void br__text_truncate(br__text *text, size_t length);
/* Returns the text, which the caller frees with br_free(). Returns "" if nothing was added, or NULL
 * on error. */
char *br__text_take(br__text *text);

#endif
