/* viz/message.c - writes messages of protocol buffers, in proto3's encoding. A field is a key,
 * which consists of its number and a wire type, and its value. */
#include "viz/message.h"

#include <string.h>

enum { VARINT = 0, FIXED64 = 1, BYTES = 2, FIXED32 = 5 }; /* wire types */

void br__message_free(br_message *m)
{
    br_free(m->data);
    *m = (br_message){ 0 };
}

static void add_varint(br_message *m, uint64_t value)
{
    unsigned char bytes[10];
    size_t n = 0;
    for (; value >= 0x80; value >>= 7)
        bytes[n++] = (unsigned char)(value | 0x80);
    bytes[n++] = (unsigned char)value;
    br__text_append(m, bytes, n);
}

static void add_key(br_message *m, unsigned field, unsigned kind)
{
    add_varint(m, field << 3 | kind);
}

void br__message_integer(br_message *m, unsigned field, int64_t value)
{
    if (value == 0)
        return;
    add_key(m, field, VARINT);
    add_varint(m, (uint64_t)value);
}

void br__message_double_of_one(br_message *m, unsigned field, double value)
{
    add_key(m, field, FIXED64);
    br__text_append(m, &value, sizeof value);
}

void br__message_double(br_message *m, unsigned field, double value)
{
    if (value != 0)
        br__message_double_of_one(m, field, value);
}

void br__message_float(br_message *m, unsigned field, double value)
{
    float single = (float)value;
    add_key(m, field, FIXED32);
    br__text_append(m, &single, sizeof single);
}

void br__message_begin_bytes(br_message *m, unsigned field, size_t n)
{
    add_key(m, field, BYTES);
    add_varint(m, n);
}

void br__message_bytes(br_message *m, unsigned field, const void *bytes, size_t n)
{
    br__message_begin_bytes(m, field, n);
    br__text_append(m, bytes, n);
}

void br__message_text(br_message *m, unsigned field, const char *text)
{
    br__message_bytes(m, field, text, strlen(text));
}

void br__message_doubles(br_message *m, unsigned field, const double *values, int64_t n)
{
    br__message_bytes(m, field, values, (size_t)n * sizeof *values);
}

void br__message_part(br_message *m, unsigned field, br_message *part)
{
    br__message_bytes(m, field, part->data, part->length);
    br__message_free(part);
}
