/* tensor/printable.c - makes arbitrary text safe for messages. */
#include "tensor/tensor_internal.h"

#include <string.h>
#include <utf8proc.h>

/* Returns false for characters that could change how a terminal shows the rest: control characters,
 * bidirectional marks, line separators, and unassigned code points. */
static bool is_harmless(utf8proc_int32_t c)
{
    switch (utf8proc_category(c)) {
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
        return false;
    default:
        return true;
    }
}

const char *br_printable(const char *text)
{
    enum {
        ROOM = BR_TEXT_SIZE,
        LONGEST = 16
    }; /* LONGEST: space for an escape such as "\U0010ffff", or for "..." after truncated text */
    if (!text)
        return "NULL";
    br_thread_cold *cold_data = br__thread_cold();
    char *out = cold_data->texts[cold_data->text++ % BR_TEXTS];
    size_t n = 0;
    const utf8proc_uint8_t *p = (const utf8proc_uint8_t *)text;
    while (*p && n < ROOM - LONGEST) {
        utf8proc_int32_t c;
        utf8proc_ssize_t length = utf8proc_iterate(p, -1, &c);
        if (length < 1) {
            n += (size_t)snprintf(out + n, LONGEST, "\\x%02x", (unsigned)*p++);
            continue;
        }
        if (is_harmless(c)) {
            memcpy(out + n, p, (size_t)length);
            n += (size_t)length;
        } else {
            n +=
                (size_t)snprintf(out + n, LONGEST, c > 0xffff ? "\\U%08x" : "\\u%04x", (unsigned)c);
        }
        p += length;
    }
    strcpy(out + n, *p ? "..." : "");
    return out;
}
