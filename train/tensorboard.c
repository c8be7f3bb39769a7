/* train/tensorboard.c - writes event files. A record consists of a length, its checksum, a protocol
 * buffer, and its checksum. The buffer is an Event of TensorFlow's event.proto:
 *
 *     Event      1 double wall_time, 2 int64 step, and one of
 *                3 string file_version, 5 Summary summary, 7 SessionLog session_log
 *     Summary    1 Value, repeated
 *     Value      1 string tag, 2 float simple_value
 *     SessionLog 1 enum status: 1 is START, which discards this and later steps of earlier files */
#include "train/tensorboard.h"

#include "common/file.h"
#include "common/text.h"

#include <errno.h>
#include <glob.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* ---- Checksums ------------------------------------------------------------------------------- */

uint32_t crc32c(const void *bytes, size_t n)
{
    const unsigned char *p = bytes;
    uint32_t crc = UINT32_MAX;
    for (size_t i = 0; i < n; i++) {
        crc ^= p[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? UINT32_C(0x82f63b78) : 0);
    }
    return ~crc;
}

/* Masks the checksum as the format requires, because the CRC of data that contains CRCs is weak. */
static uint32_t masked(const void *bytes, size_t n)
{
    uint32_t crc = crc32c(bytes, n);
    return (crc >> 15 | crc << 17) + UINT32_C(0xa282ead8);
}

/* ---- Protocol buffers ------------------------------------------------------------------------ */

enum { VARINT = 0, FIXED64 = 1, BYTES = 2, FIXED32 = 5 }; /* wire types */

typedef struct message {
    size_t n;
    char bytes[4096];
} message;

/* If the bytes do not fit, sets n to the size of the buffer, which write_record() reports as an
 * error. */
static void add_bytes(message *m, const void *bytes, size_t n)
{
    if (n <= sizeof m->bytes - m->n)
        memcpy(m->bytes + m->n, bytes, n);
    m->n = n <= sizeof m->bytes - m->n ? m->n + n : sizeof m->bytes;
}

static void add_varint(message *m, uint64_t value)
{
    for (; value >= 0x80; value >>= 7)
        add_bytes(m, &(char){ (char)(value | 0x80) }, 1);
    add_bytes(m, &(char){ (char)value }, 1);
}

static void add_key(message *m, unsigned field, unsigned kind)
{
    add_varint(m, field << 3 | kind);
}

static void add_part(message *m, unsigned field, const void *bytes, size_t n)
{
    add_key(m, field, BYTES);
    add_varint(m, n);
    add_bytes(m, bytes, n);
}

static void add_value(message *summary, const char *tag, double value)
{
    message m = { 0 };
    float simple = (float)value;
    add_part(&m, 1, tag, strlen(tag));
    add_key(&m, 2, FIXED32);
    add_bytes(&m, &simple, sizeof simple);
    add_part(summary, 1, m.bytes, m.n);
}

static void begin_event(message *event, int64_t step)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    double seconds = (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
    event->n = 0;
    add_key(event, 1, FIXED64);
    add_bytes(event, &seconds, sizeof seconds);
    add_key(event, 2, VARINT);
    add_varint(event, (uint64_t)step);
}

/* ---- Records --------------------------------------------------------------------------------- */

static bool fail(const event_file *self, const char *what)
{
    br_raise(BR_ERROR_IO, "%s: %s: %s", self->path, what, strerror(errno));
    return false;
}

static bool write_record(event_file *self, const message *m)
{
    uint64_t n = m->n;
    uint32_t length_sum = masked(&n, sizeof n), sum = masked(m->bytes, m->n);
    if (m->n == sizeof m->bytes) {
        br_raise(BR_ERROR_STATE, "%s: an event is too long", self->path);
        return false;
    }
    bool ok = fwrite(&n, sizeof n, 1, self->file) == 1 &&
              fwrite(&length_sum, sizeof length_sum, 1, self->file) == 1 &&
              fwrite(m->bytes, 1, m->n, self->file) == m->n &&
              fwrite(&sum, sizeof sum, 1, self->file) == 1 && fflush(self->file) == 0;
    return ok || fail(self, "cannot be written");
}

/* ---- Files ----------------------------------------------------------------------------------- */

static bool remove_earlier(const char *folder)
{
    glob_t found = { 0 };
    char *pattern = file_pattern(folder, "events.out.tfevents.*");
    if (!pattern)
        return false;
    glob(pattern, 0, NULL, &found);
    for (size_t i = 0; i < found.gl_pathc; i++)
        unlink(found.gl_pathv[i]);
    globfree(&found);
    free(pattern);
    return true;
}

static bool begin_file(event_file *self, int64_t done)
{
    static const char version[] = "brain.Event:2";
    static const char start[] = { 1 << 3 | VARINT, 1 };
    message event;
    begin_event(&event, done);
    add_part(&event, 3, version, sizeof version - 1);
    if (!write_record(self, &event) || done == 0)
        return !br_failed();
    begin_event(&event, done + 1);
    add_part(&event, 7, start, sizeof start);
    return write_record(self, &event);
}

/* File names contain the time before the host, because TensorBoard reads the files of a run in the
 * order of their names. */
bool event_file_open(event_file *self, const char *folder, int64_t done)
{
    char host[64] = "host";
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    if (gethostname(host, sizeof host) != 0 || strchr(host, '/'))
        strcpy(host, "host");
    host[sizeof host - 1] = 0;
    if (done == 0 && !remove_earlier(folder))
        return false;
    self->path = text_format("%s/events.out.tfevents.%010lld.%09ld.%s", folder, (long long)t.tv_sec,
                             t.tv_nsec, host);
    if (!self->path)
        return false;
    self->file = fopen(self->path, "wbx");
    return self->file ? begin_file(self, done) : fail(self, "cannot be opened");
}

bool event_file_add(event_file *self, int64_t step, int n, const char *const *tags,
                    const double *values)
{
    message event, summary = { 0 };
    for (int i = 0; i < n; i++)
        if (!isnan(values[i]))
            add_value(&summary, tags[i], values[i]);
    begin_event(&event, step);
    add_part(&event, 5, summary.bytes, summary.n);
    return write_record(self, &event);
}

void event_file_close(event_file *self)
{
    if (self->file)
        fclose(self->file);
    free(self->path);
    *self = (event_file){ 0 };
}
