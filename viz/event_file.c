/* viz/event_file.c - event files. A record consists of a length, its checksum, a message, and its
 * checksum. The message is an Event of TensorFlow's event.proto:
 *
 *     Event      1 double wall_time, 2 int64 step, and one of
 *                3 string file_version, 5 Summary summary, 7 SessionLog session_log */
#include "io/io_internal.h"
#include "viz/message.h"

#include <errno.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* ---- Checksums ------------------------------------------------------------------------------- */

uint32_t br__crc32c(const void *bytes, size_t n)
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
    uint32_t crc = br__crc32c(bytes, n);
    return (crc >> 15 | crc << 17) + UINT32_C(0xa282ead8);
}

/* ---- Records --------------------------------------------------------------------------------- */

static bool fail(const br_event_file *self, const char *what)
{
    br__fail_file(BR_ERROR_IO, self->op, self->path, "%s: %s", what, strerror(errno));
    return false;
}

static bool write_record(br_event_file *self, const br_message *m)
{
    uint64_t n = m->length;
    uint32_t length_sum = masked(&n, sizeof n), sum = masked(m->data, n);
    bool ok = fwrite(&n, sizeof n, 1, self->file) == 1 &&
              fwrite(&length_sum, sizeof length_sum, 1, self->file) == 1 &&
              fwrite(m->data, 1, n, self->file) == n &&
              fwrite(&sum, sizeof sum, 1, self->file) == 1 && fflush(self->file) == 0;
    return ok || fail(self, "cannot be written");
}

bool br__event_file_add(br_event_file *self, int64_t step, unsigned field, br_message *part)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    br_message event = { 0 };
    br__message_double(&event, 1, (double)t.tv_sec + 1e-9 * (double)t.tv_nsec);
    br__message_integer(&event, 2, step);
    br__message_part(&event, field, part);
    bool ok = !br_failed() && write_record(self, &event);
    br__message_free(&event);
    return ok;
}

/* ---- Files ----------------------------------------------------------------------------------- */

/* TensorBoard reads the files of a run in the order of their names, so the time is before the
 * host. */
bool br__event_file_open(br_event_file *self, const char *op, const char *folder,
                         const char *suffix)
{
    char host[64] = "host";
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    if (gethostname(host, sizeof host) != 0 || strchr(host, '/'))
        strcpy(host, "host");
    host[sizeof host - 1] = 0;
    self->op = op;
    self->path = br_format("%s/events.out.tfevents.%010lld.%09ld.%s%s", folder, (long long)t.tv_sec,
                           t.tv_nsec, host, suffix);
    if (!self->path)
        return false;
    self->file = fopen(self->path, "wbx");
    if (!self->file)
        return fail(self, "cannot be opened");
    br_message version = { 0 };
    br__text_append(&version, "brain.Event:2", 13);
    return br__event_file_add(self, 0, 3, &version);
}

void br__event_file_close(br_event_file *self)
{
    if (self->file)
        fclose(self->file);
    br_free(self->path);
    *self = (br_event_file){ 0 };
}
