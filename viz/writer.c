/* viz/writer.c - buffered writer of text files. */
#include "io/io_internal.h"
#include "tensor/min_max.h"
#include "viz/viz_internal.h"

#include <locale.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <utf8proc.h>

struct br_writer {
    br_replacement file;
    bool counts_only, failed;
    locale_t plain, before;
    int64_t written;
    size_t used;
    char buffer[1 << 14];
};

br_writer *br__writer_open(const char *op, const char *path)
{
    br_writer *w = br_calloc(1, sizeof *w);
    if (!w)
        return NULL;
    w->counts_only = !path;
    w->plain = newlocale(LC_NUMERIC_MASK, "C", NULL);
    if (!w->plain)
        br_fail(BR_ERROR_MEMORY, op, "cannot create the C locale");
    if (!w->plain || (path && !br__replace_begin(&w->file, op, path))) {
        if (w->plain)
            freelocale(w->plain);
        br_free(w);
        return NULL;
    }
    w->before = uselocale(w->plain);
    return w;
}

static void flush(br_writer *w)
{
    if (!w->counts_only)
        w->failed = w->failed || !br__replace_write(&w->file, w->buffer, w->used);
    w->written += (int64_t)w->used;
    w->used = 0;
}

void br__write_bytes(br_writer *w, const char *bytes, size_t n)
{
    while (n > 0) {
        if (w->used == sizeof w->buffer)
            flush(w);
        size_t free_bytes = sizeof w->buffer - w->used, some = br__min(n, free_bytes);
        memcpy(w->buffer + w->used, bytes, some);
        w->used += some;
        bytes += some;
        n -= some;
    }
}

void br__write(br_writer *w, const char *format, ...)
{
    char text[512];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    br__write_bytes(w, text, n < (int)sizeof text ? (size_t)n : sizeof text - 1);
}

int32_t br__xml_character(const char **text)
{
    utf8proc_int32_t c;
    utf8proc_ssize_t n = utf8proc_iterate((const utf8proc_uint8_t *)*text, -1, &c);
    *text += n > 0 ? n : 1;
    bool allowed = n > 0 && (c >= ' ' || c == '\t' || c == '\n') && c != 0xfffe && c != 0xffff;
    return allowed ? c : 0xfffd;
}

void br__write_xml(br_writer *w, const char *text)
{
    while (*text) {
        int32_t c = br__xml_character(&text);
        utf8proc_uint8_t bytes[4];
        if (c < 128 && strchr("&<>\"'", c))
            br__write(w, "&#%d;", c);
        else
            br__write_bytes(w, (const char *)bytes, (size_t)utf8proc_encode_char(c, bytes));
    }
}

int64_t br__writer_close(br_writer *w)
{
    flush(w);
    uselocale(w->before);
    freelocale(w->plain);
    if (br_failed() && !w->failed && !w->counts_only)
        br__replace_abandon(&w->file);
    else if (!w->failed && !w->counts_only)
        br__replace_commit(&w->file);
    int64_t written = br_failed() ? -1 : w->written;
    br_free(w);
    return written;
}
