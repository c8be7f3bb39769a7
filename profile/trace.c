/* profile/trace.c - writes a profile as a trace in Chrome's JSON format. Its complete events ("X")
 * are nested by their times. */
#include "io/io_internal.h"
#include "profile/profile_internal.h"

#include <inttypes.h>
#include <stdarg.h>
#include <string.h>
#include <utf8proc.h>

typedef struct writer {
    br_replacement file;
    bool failed;
    size_t used;
    char buffer[1 << 14];
} writer;

/* ---- JSON ------------------------------------------------------------------------------------ */

static void flush(writer *w)
{
    w->failed = w->failed || !br__replace_write(&w->file, w->buffer, w->used);
    w->used = 0;
}

/* Writes formatted text of at most 255 bytes. */
static void BR_PRINTF(2, 3) put(writer *w, const char *format, ...)
{
    enum { MAX_ENTRY = 256 };
    if (w->used + MAX_ENTRY > sizeof w->buffer)
        flush(w);
    va_list args;
    va_start(args, format);
    w->used += (size_t)vsnprintf(w->buffer + w->used, MAX_ENTRY, format, args);
    va_end(args);
}

/* Writes a JSON string; invalid UTF-8 becomes U+FFFD. */
static void put_string(writer *w, const char *text)
{
    put(w, "\"");
    while (*text) {
        utf8proc_int32_t c;
        utf8proc_uint8_t bytes[4];
        utf8proc_ssize_t n = utf8proc_iterate((const utf8proc_uint8_t *)text, -1, &c);
        text += n > 0 ? n : 1;
        if (n > 0 && (c < ' ' || c == '"' || c == '\\'))
            put(w, "\\u%04x", (unsigned)c);
        else
            put(w, "%.*s", (int)utf8proc_encode_char(n > 0 ? c : 0xfffd, bytes),
                (const char *)bytes);
    }
    put(w, "\"");
}

/* ---- Events ---------------------------------------------------------------------------------- */

enum { OWN_TRACK = 1 }; /* of the thread that recorded the profile */
static const char *const kinds[] = { "op", "module", "range" };
static const char *const phases[] = { "forward", "backward", "optimizer" };

static void put_shape(writer *w, const br_profile_event *e)
{
    put(w, ",\"shape\":[");
    for (int d = 0; d < e->ndim; d++)
        put(w, "%s%" PRId64, d ? "," : "", e->sizes[d]);
    put(w, "]");
}

/* Returns the last part of a module's path, which says more than its class, or an operation's
 * name. */
static const char *name_of(const br_profile_event *e)
{
    const char *dot = e->kind == BR_PROFILE_MODULE ? strrchr(e->module, '.') : NULL;
    return dot ? dot + 1 : e->name;
}

/* Writes times in microseconds. */
static void put_times(writer *w, int64_t start, int64_t duration)
{
    put(w, ",\"ts\":%" PRId64 ".%03d,\"dur\":%" PRId64 ".%03d", start / 1000, (int)(start % 1000),
        duration / 1000, (int)(duration % 1000));
}

/* Writes a span. The track's number is that of its label. */
static void put_span(writer *w, const br_profile *p, const br_span *s)
{
    const int64_t track = OWN_TRACK + 1 + s->track;
    put(w,
        ",\n{\"ph\":\"M\",\"pid\":1,\"tid\":%" PRId64
        ",\"name\":\"thread_name\",\"args\":{\"name\":",
        track);
    put_string(w, p->labels[s->track].text);
    put(w, "}},\n{\"ph\":\"X\",\"pid\":1,\"tid\":%" PRId64 ",\"name\":", track);
    put_string(w, p->labels[s->name].text);
    put_times(w, s->start, s->duration);
    put(w, "}");
}

/* Writes an event. */
static void put_event(writer *w, const br_profile_event *e)
{
    put(w, ",\n{\"ph\":\"X\",\"pid\":1,\"tid\":%d,\"name\":", OWN_TRACK);
    put_string(w, name_of(e));
    put(w, ",\"cat\":\"%s,%s\"", kinds[e->kind], phases[e->phase]);
    put_times(w, e->start, e->duration);
    put(w, ",\"args\":{\"module\":");
    put_string(w, e->module);
    if (e->kind == BR_PROFILE_MODULE) {
        put(w, ",\"class\":");
        put_string(w, e->name);
    }
    if (e->ndim >= 0)
        put_shape(w, e);
    if (e->flops > 0)
        put(w, ",\"flops\":%" PRId64, e->flops);
    if (e->bytes > 0)
        put(w, ",\"bytes\":%" PRId64, e->bytes);
    put(w, "}}");
}

bool br_profile_write_trace(const br_profile *profile, const char *path)
{
    static const char op[] = "profile_write_trace";
    if (!br__profile_readable(op, profile) || !br__required(op, "path", path))
        return false;
    writer *w = br_calloc(1, sizeof *w);
    if (!w)
        return false;
    bool ok = br__replace_begin(&w->file, op, path);
    if (ok) {
        put(w, "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n"
               "{\"ph\":\"M\",\"pid\":1,\"tid\":1,\"name\":\"process_name\","
               "\"args\":{\"name\":\"brasa\"}}");
        for (int64_t i = 0; i < profile->count; i++)
            put_event(w, &br__event_of(profile, i)->seen);
        for (int64_t i = 0; i < profile->n_spans; i++)
            put_span(w, profile, &profile->spans[i]);
        put(w, "\n]}\n");
        flush(w);
        ok = !w->failed && br__replace_commit(&w->file);
        if (!ok)
            br__replace_abandon(&w->file);
    }
    br_free(w);
    return ok;
}
