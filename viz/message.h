/* viz/message.h - messages of protocol buffers, and event files of them, as TensorBoard reads. */
#ifndef BR_VIZ_MESSAGE_H
#define BR_VIZ_MESSAGE_H

#include "tensor/growing_text.h"
#include "tensor/tensor_internal.h"

#include <stdio.h>

/* ---- Protocol buffers ------------------------------------------------------------------------ */

/* The bytes of a message. A zeroed struct is an empty message; br__message_free() frees it, and
 * br__text_append() adds bytes. While an error is pending, further fields are ignored. */
typedef br__text br_message;

void br__message_free(br_message *m);
/* Add a field. The format omits integers and doubles that are 0, unless they are in a `oneof`,
 * which br__message_double_of_one() and br__message_float() are for. */
void br__message_integer(br_message *m, unsigned field, int64_t value);
void br__message_double(br_message *m, unsigned field, double value);
void br__message_double_of_one(br_message *m, unsigned field, double value);
void br__message_float(br_message *m, unsigned field, double value);
void br__message_bytes(br_message *m, unsigned field, const void *bytes, size_t n);
/* Begins a field of n bytes, which br__text_append() then adds. */
void br__message_begin_bytes(br_message *m, unsigned field, size_t n);
void br__message_text(br_message *m, unsigned field, const char *text);
void br__message_doubles(br_message *m, unsigned field, const double *values, int64_t n);
/* Adds `part` as a field and frees it. */
void br__message_part(br_message *m, unsigned field, br_message *part);

/* ---- Event files ----------------------------------------------------------------------------- */

typedef struct br_event_file {
    const char *op;
    FILE *file;
    char *path;
} br_event_file;

/* Creates a file events.out.tfevents.* in the folder, whose name ends with the suffix, and writes
 * its first event. Returns false with an error on failure. */
bool br__event_file_open(br_event_file *self, const char *op, const char *folder,
                         const char *suffix);
/* Writes an event of the present time and this step, with one field, and frees `part`. The file is
 * flushed. Returns false with an error on failure, or if one is pending. */
bool br__event_file_add(br_event_file *self, int64_t step, unsigned field, br_message *part);
void br__event_file_close(br_event_file *self);

/* Returns the CRC32C (Castagnoli) of n bytes, the checksum of the records. */
uint32_t br__crc32c(const void *bytes, size_t n);

#endif
