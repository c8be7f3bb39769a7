/* tensor/printable.c - text that may hold anything made fit for messages. */
#include "tensor/tensor_internal.h"

#include <string.h>
#include <utf8proc.h>

/* False for what could change how a terminal shows the rest: controls, bidirectional marks, line
 * separators, and code points that mean nothing. */
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

const char *br__printable(const char *text)
{
    enum {
        ROOM = BR_TEXT_SIZE,
        LONGEST = 16
    }; /* LONGEST: "\U0010ffff" and the "..." behind a cut */
    br_rare *rare = br__rare();
    char *out = rare->texts[rare->text++ % BR_TEXTS];
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
