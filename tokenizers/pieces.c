/* tokenizers/pieces.c - decoding of tokens that have U+2581 for spaces, and bytes such as "<0xE4>",
 * and the "Metaspace" of tokenizer.json. */
#include "tokenizers/pieces.h"

#include "io/io_internal.h"

#include <stdio.h>
#include <string.h>

const char br__meta[] = "\xe2\x96\x81";

enum { META_LENGTH = 3 }; /* of br__meta, in bytes */

/* ---- Bytes ----------------------------------------------------------------------------------- */

int br__piece_byte(const char *token)
{
    unsigned byte;
    int end = 0;
    bool form = strlen(token) == 6 && strspn(token + 3, "0123456789ABCDEFabcdef") == 2 &&
                sscanf(token, "<0x%2x>%n", &byte, &end) == 1 && end == 6;
    return form ? (int)byte : -1;
}

bool br__decodes_byte(const br_tokenizer *t, int64_t id)
{
    bool decodes = t->kind->decodes_bytes && t->kind->decodes_bytes(t) && !t->spaced;
    return decodes && br__piece_byte(t->tokens[id]) >= 0;
}

/* Writes the bytes of byte tokens: as they are if they are valid UTF-8, else as U+FFFD for each. */
static size_t write_bytes(const char *bytes, size_t n, char *out)
{
    if (br__is_utf8(bytes, n)) {
        memcpy(out, bytes, n);
        return n;
    }
    size_t length = 0;
    for (size_t i = 0; i < n; i++)
        length += (size_t)br__char_write(0xfffd, out + length);
    return length;
}

/* ---- Tokens ---------------------------------------------------------------------------------- */

/* Writes a token with a space for each U+2581. `drop` omits them, because the one at the beginning
 * of a text was added by encoding. */
static size_t write_token(const char *token, bool drop, char *out)
{
    size_t n = 0;
    while (*token) {
        bool is_meta = strncmp(token, br__meta, META_LENGTH) == 0;
        if (!is_meta)
            out[n++] = *token;
        else if (!drop)
            out[n++] = ' ';
        token += is_meta ? META_LENGTH : 1;
    }
    return n;
}

/* Writes a token as SentencePiece does: without a U+2581 at its beginning while nothing else is
 * written. If extra spaces are kept, only one is left out. Updates *front, which is true at the
 * beginning of a text. */
static size_t write_piece(const br_piece_decoder *d, const char *token, bool *front, char *out)
{
    bool drop = *front && d->drops_front && strncmp(token, br__meta, META_LENGTH) == 0;
    size_t n = write_token(token + (drop ? META_LENGTH : 0), false, out);
    *front = *front && n == 0 && !(drop && d->keeps_spaces);
    return n;
}

/* Writes the text to `out` and returns its length. `bytes` is a buffer with room for one byte per
 * token. */
static size_t join(const br_tokenizer *t, const br_piece_decoder *d, int64_t n, const int64_t *ids,
                   bool skip, char *bytes, char *out)
{
    size_t n_bytes = 0, length = 0;
    bool first = true; /* no token was written, or only one without text */
    for (int64_t i = 0; i < n; i++) {
        if (skip && br__is_skipped(t, ids[i]))
            continue;
        int byte = d->bytes ? br__piece_byte(t->tokens[ids[i]]) : -1;
        if (byte >= 0) {
            bytes[n_bytes++] = (char)byte;
            continue;
        }
        length += write_bytes(bytes, n_bytes, out + length);
        first = first && n_bytes == 0;
        n_bytes = 0;
        if (d->sentencepiece) {
            length += write_piece(d, t->tokens[ids[i]], &first, out + length);
            continue;
        }
        length += write_token(t->tokens[ids[i]], d->drops_front && first, out + length);
        first = false;
    }
    length += write_bytes(bytes, n_bytes, out + length);
    if (d->strips && length > 0 && *out == ' ')
        memmove(out, out + 1, --length);
    out[length] = 0;
    return length;
}

char *br__decode_by(const br_tokenizer *t, const br_piece_decoder *d, int64_t n, const int64_t *ids,
                    bool skip_special, int64_t *length)
{
    size_t room;
    if (!br__tokens_length(t, n, ids, &room))
        return NULL;
    char *out = br_malloc(room + 1), *bytes = br_malloc((size_t)n + 1);
    if (out && bytes) {
        *length = (int64_t)join(t, d, n, ids, skip_special, bytes, out);
    } else {
        br_free(out);
        out = NULL;
    }
    br_free(bytes);
    return out;
}

/* ---- Metaspace ------------------------------------------------------------------------------- */

bool br__metaspace_json_bool(const char *path, json_t *part, const char *key, bool *value)
{
    *value = true;
    return json_is_null(json_object_get(part, key)) ||
           br__tokenizer_json_bool(path, part, key, true, value);
}

bool br__metaspace_json(const char *path, json_t *part, br_prepend *prepend)
{
    static const char *const schemes[] = { "always", "first", "never" };
    bool prefix;
    const char *sign = br__tokenizer_json_string(path, part, "replacement", NULL);
    const char *scheme = br__tokenizer_json_string(path, part, "prepend_scheme", "");
    if (!sign || !scheme || !br__metaspace_json_bool(path, part, "add_prefix_space", &prefix))
        return false;
    if (strcmp(sign, br__meta) != 0)
        return br__tokenizer_refuse(path, "Metaspace: replacement is '%s', must be U+2581",
                                    br_printable(sign));
    int found = prefix ? BR_PREPEND_ALWAYS : BR_PREPEND_NEVER;
    for (int i = BR_PREPEND_NEVER; *scheme && i >= -1; i--)
        if (i < 0)
            return br__tokenizer_refuse(path, "Metaspace: unknown prepend_scheme '%s'",
                                        br_printable(scheme));
        else if (strcmp(schemes[i], scheme) == 0) {
            found = i;
            break;
        }
    *prepend = (br_prepend)found;
    return true;
}
