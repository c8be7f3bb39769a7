/* tokenizers/chars.c - code points: properties, lower case, and UTF-8. */
#include "tokenizers/tokenizer_internal.h"

#include <utf8proc.h>

unsigned br__char_kind(uint32_t c)
{
    return br__bits_of_char(&br__bert_chars, c);
}

int br__char_lower(uint32_t c, uint32_t lower[2])
{
    for (int i = 0; i < br__n_bert_lowers; i++) {
        const br_lowers *row = &br__bert_lowers[i];
        if (c >= row->first && c <= row->last) {
            lower[0] = row->lower + (c - row->first);
            lower[1] = row->second;
            return row->second ? 2 : 1;
        }
    }
    lower[0] = (uint32_t)utf8proc_tolower((utf8proc_int32_t)c);
    return 1;
}

/* Decodes the first byte of a UTF-8 sequence: returns the length, or 0 if it is invalid, with the
 * byte's bits and the valid range of the second byte. That range excludes overlong encodings,
 * surrogates, and code points above U+10FFFF. */
static int sequence(unsigned char first, uint32_t *bits, unsigned char *low, unsigned char *high)
{
    *low = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
    *high = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
    if (first >= 0xc2 && first < 0xe0) {
        *bits = first & 0x1f;
        return 2;
    }
    if (first >= 0xe0 && first < 0xf0) {
        *bits = first & 0x0f;
        return 3;
    }
    *bits = first & 0x07;
    return first >= 0xf0 && first < 0xf5 ? 4 : 0;
}

int br__char_read(const char *p, const char *end, uint32_t *c, bool *valid)
{
    const unsigned char *s = (const unsigned char *)p;
    *c = *s;
    *valid = true;
    if (*s < 0x80)
        return 1;
    unsigned char low, high;
    uint32_t bits;
    int length = sequence(*s, &bits, &low, &high), n = 1;
    while (n < length && p + n < end && s[n] >= low && s[n] <= high) {
        bits = bits << 6 | (s[n++] & 0x3f);
        low = 0x80;
        high = 0xbf;
    }
    *valid = n == length;
    *c = *valid ? bits : 0xfffd;
    return n;
}

int br__char_before(const char *begin, const char *p, uint32_t *c)
{
    const char *at = p - 1;
    bool valid;
    while (at > begin && ((unsigned char)*at & 0xc0) == 0x80)
        at--;
    br__char_read(at, p, c, &valid);
    return (int)(p - at);
}

int br__char_write(uint32_t c, char *out)
{
    return (int)utf8proc_encode_char((utf8proc_int32_t)c, (utf8proc_uint8_t *)out);
}
