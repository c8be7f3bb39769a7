/* tokenizers/bpe_decode.c - byte-level BPE: the code points that represent bytes, and decoding. */
#include "tokenizers/bpe_internal.h"

#include <string.h>

/* ---- Code points ----------------------------------------------------------------------------- */

/* In tokens, a code point represents each byte. Printable bytes are represented by themselves; the
 * others, 0 .. 32, 127 .. 160 and 173, by 256 and up, in their order. */
enum { LOW = '!', MIDDLE = 127, MIDDLE_END = 0xa1, HIGH = 0xad, N_LOW = LOW };
enum { N_MIDDLE = MIDDLE_END - MIDDLE };

static bool prints(int byte)
{
    return byte >= LOW && byte != HIGH && (byte < MIDDLE || byte >= MIDDLE_END);
}

uint32_t br__bpe_char(unsigned char byte)
{
    if (prints(byte))
        return byte;
    uint32_t n = byte < LOW ? byte : byte < MIDDLE_END ? N_LOW + byte - MIDDLE : N_LOW + N_MIDDLE;
    return 256 + n;
}

int br__bpe_byte(uint32_t c)
{
    if (c < 256)
        return prints((int)c) ? (int)c : -1;
    int n = c < 512 ? (int)c - 256 : 256;
    if (n < N_LOW)
        return n;
    if (n < N_LOW + N_MIDDLE)
        return n - N_LOW + MIDDLE;
    return n == N_LOW + N_MIDDLE ? HIGH : -1;
}

/* ---- Decoding -------------------------------------------------------------------------------- */

/* Writes the token's bytes to `out` and returns their number. If one of its code points represents
 * no byte, writes the token's own UTF-8. */
static size_t bytes_of(const char *token, char *out)
{
    size_t length = strlen(token), n = 0;
    for (size_t i = 0; i < length;) {
        uint32_t c;
        bool valid;
        i += (size_t)br__char_read(token + i, token + length, &c, &valid);
        int byte = br__bpe_byte(c);
        if (byte < 0) {
            memcpy(out, token, length);
            return length;
        }
        out[n++] = (char)byte;
    }
    return n;
}

/* Copies text to `out`, replacing each invalid part by U+FFFD, and returns the end. `out` has room
 * for 3 * length + 1 bytes. */
static char *write_valid(const char *bytes, size_t length, char *out)
{
    for (size_t i = 0; i < length;) {
        uint32_t c;
        bool valid;
        i += (size_t)br__char_read(bytes + i, bytes + length, &c, &valid);
        out += br__char_write(c, out);
    }
    *out = 0;
    return out;
}

/* Concatenates the tokens' bytes. Returns *length bytes that the caller frees with br_free(), or
 * NULL and an error. */
static char *join(const br_tokenizer *t, int64_t n, const int64_t *ids, bool skip, size_t *length)
{
    size_t room;
    if (!br__tokens_length(t, n, ids, &room))
        return NULL;
    char *bytes = br_malloc(room + 1);
    *length = 0;
    for (int64_t i = 0; bytes && i < n; i++)
        if (!skip || !br__is_skipped(t, ids[i]))
            *length += bytes_of(t->tokens[ids[i]], bytes + *length);
    return bytes;
}

char *br__bpe_decode(const br_tokenizer *t, int64_t n, const int64_t *ids, bool skip_special,
                     int64_t *length)
{
    size_t n_bytes;
    char *bytes = join(t, n, ids, skip_special, &n_bytes);
    char *text = bytes ? br_malloc(3 * n_bytes + 1) : NULL;
    if (text)
        *length = write_valid(bytes, n_bytes, text) - text;
    br_free(bytes);
    return text;
}
