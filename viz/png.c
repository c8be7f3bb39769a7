/* viz/png.c - writes PNG files (https://www.w3.org/TR/png-3/): a header, the rows in a zlib stream,
 * and an end. The stream is not compressed, which needs no library, and the images of a summary are
 * small. */
#include "tensor/min_max.h"
#include "viz/summary.h"

enum { MOST_STORED = 65535 }; /* bytes of a stored block of deflate (RFC 1951, 3.2.4) */

/* Returns the CRC-32 of the format's chunks, of n bytes after those of `crc`. */
static uint32_t crc32(uint32_t crc, const unsigned char *bytes, int64_t n)
{
    crc = ~crc;
    for (int64_t i = 0; i < n; i++) {
        crc ^= bytes[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? UINT32_C(0xedb88320) : 0);
    }
    return ~crc;
}

/* Returns the checksum of a zlib stream (RFC 1950). */
static uint32_t adler32(const unsigned char *bytes, int64_t n)
{
    uint32_t a = 1, b = 0;
    for (int64_t i = 0; i < n; i++) {
        a = (a + bytes[i]) % 65521;
        b = (b + a) % 65521;
    }
    return b << 16 | a;
}

static void append_u32(br_message *m, uint32_t value)
{
    unsigned char bytes[4] = { (unsigned char)(value >> 24), (unsigned char)(value >> 16),
                               (unsigned char)(value >> 8), (unsigned char)value };
    br__text_append(m, bytes, sizeof bytes);
}

static void append_chunk(br_message *m, const char *type, const br_message *data)
{
    append_u32(m, (uint32_t)data->length);
    br__text_append(m, type, 4);
    br__text_append(m, data->data, data->length);
    append_u32(m, crc32(crc32(0, (const unsigned char *)type, 4), (const unsigned char *)data->data,
                        (int64_t)data->length));
}

/* Appends the bytes as a zlib stream of stored blocks. */
static void append_stored(br_message *m, const unsigned char *bytes, int64_t n)
{
    br__text_append(m, "\x78\x01", 2);
    for (int64_t at = 0; at < n;) {
        unsigned some = (unsigned)br__min(n - at, MOST_STORED), rest = ~some;
        unsigned char header[5] = { at + some == n, (unsigned char)some, (unsigned char)(some >> 8),
                                    (unsigned char)rest, (unsigned char)(rest >> 8) };
        br__text_append(m, header, sizeof header);
        br__text_append(m, bytes + at, some);
        at += some;
    }
    append_u32(m, adler32(bytes, n));
}

void br__png_append(br_message *m, const br_image *image)
{
    br_message header = { 0 }, rows = { 0 }, data = { 0 };
    int64_t width = image->width * image->channels;
    append_u32(&header, (uint32_t)image->width);
    append_u32(&header, (uint32_t)image->height);
    /* 8 bits; colour type 2 is RGB, 6 RGB and alpha; the only methods; no interlacing. */
    br__text_append(&header, image->channels == 4 ? "\x08\x06\0\0\0" : "\x08\x02\0\0\0", 5);
    for (int64_t i = 0; i < image->height; i++) {
        br__text_append(&rows, "\0", 1); /* the row has no filter */
        br__text_append(&rows, image->pixels + i * width, (size_t)width);
    }
    append_stored(&data, (const unsigned char *)rows.data, (int64_t)rows.length);
    br__text_append(m, "\x89PNG\r\n\x1a\n", 8);
    append_chunk(m, "IHDR", &header);
    append_chunk(m, "IDAT", &data);
    append_chunk(m, "IEND", &(br_message){ 0 });
    br__message_free(&header);
    br__message_free(&rows);
    br__message_free(&data);
}
