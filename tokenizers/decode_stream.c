/* tokenizers/decode_stream.c - decodes ids one after the other.
 *
 * A token's text depends on the tokens before it, and later tokens can change the end of the text.
 * So each step decodes all ids together, and returns the part of the text that is new and final.
 * Most of the old ids are dropped from time to time, because decoding all ids in each step would
 * take time proportional to the square of their number. */
#include "tokenizers/pieces.h"
#include "tokenizers/tokenizer_internal.h"

#include <inttypes.h>
#include <string.h>

/* When a stream has MOST ids, it keeps only the last KEPT, if their text has at least ENOUGH bytes:
 * the text of an id depends on fewer bytes before it. */
enum { MOST = 256, KEPT = 64, ENOUGH = 32 };

struct br_decode_stream {
    const br_tokenizer *tokenizer;
    bool skip_special;
    int64_t n, capacity, *ids; /* ids with a token */
    size_t done;               /* bytes of the decoded text that were returned */
    char *before;              /* text of the ids given to br_decode_stream_new(); NULL: passed */
    size_t before_length;
    char *text; /* the decoded text, which contains the text that was returned last */
    size_t length;
};

static bool append(br_decode_stream *s, int64_t id)
{
    if (!br_tokenizer_has_id(s->tokenizer, id))
        return true;
    int64_t *ids = br__grow_tokens(s->ids, &s->capacity, s->n, sizeof *ids);
    if (!ids)
        return false;
    s->ids = ids;
    ids[s->n++] = id;
    return true;
}

static char *decode(const br_decode_stream *s, int64_t n, const int64_t *ids, size_t *length)
{
    int64_t found;
    char *text = br_tokenizer_decode_text(s->tokenizer, n, ids, s->skip_special, &found);
    *length = (size_t)found;
    return text;
}

/* ---- Final text ------------------------------------------------------------------------------ */

/* Returns the length of the text without any U+FFFD at its end, which represents a code point whose
 * bytes are not complete yet. */
static size_t whole(const char *text, size_t n)
{
    static const char bad[] = "\xef\xbf\xbd";
    size_t m = strlen(bad);
    while (n >= m && memcmp(text + n - m, bad, m) == 0)
        n -= m;
    return n;
}

/* Returns the length of the text whose spaces later tokens cannot remove. If the tokenizer cleans
 * decoded text up, a token can complete a pattern such as " n't" or " ' ve", which begins up to
 * five bytes before it. */
static size_t settled(const br_decode_stream *s, const char *text, size_t n)
{
    enum { BEFORE = 5 };
    for (size_t i = n > BEFORE ? n - BEFORE : 0; i < n && s->tokenizer->cleans_up; i++)
        if (text[i] == ' ')
            return i;
    return n;
}

/* Returns whether the last id with a text is a byte token. Unigram and BPE over characters decode
 * consecutive byte tokens together: if they are not valid UTF-8, each of them is a U+FFFD. So a
 * later byte can change the text of all of them. */
static bool ends_with_byte(const br_decode_stream *s)
{
    const br_tokenizer *t = s->tokenizer;
    int64_t n = s->n;
    while (n > 0 && s->skip_special && br__is_skipped(t, s->ids[n - 1]))
        n--;
    return n > 0 && br__decodes_byte(t, s->ids[n - 1]);
}

/* ---- New text -------------------------------------------------------------------------------- */

/* Notes that the text before the first n bytes was returned, or was before the stream's first step.
 */
static void pass(br_decode_stream *s, size_t n)
{
    s->done = n;
    br_free(s->before);
    s->before = NULL;
}

/* Passes the text of the ids that came before the first step, if the n final bytes of the text
 * contain it. New tokens can change its end; then the text after the common part is new. */
static void pass_before(br_decode_stream *s, const char *text, size_t n)
{
    size_t i = 0;
    while (i < n && i < s->before_length && text[i] == s->before[i])
        i++;
    if (i == n && n < s->before_length)
        return;
    while (i < s->before_length && i > 0 && ((unsigned char)text[i] & 0xc0) == 0x80)
        i--;
    pass(s, i);
}

/* Keeps only the last ids if the text of all was returned and theirs ends in the same way. The text
 * of byte tokens at the end was not even decoded. Returns false, with nothing changed, if an
 * allocation fails. */
static bool drop_old(br_decode_stream *s)
{
    size_t kept;
    if (s->n < MOST || s->done != s->length || ends_with_byte(s))
        return true;
    char *text = decode(s, KEPT, s->ids + s->n - KEPT, &kept);
    if (!text)
        return false;
    if (kept >= ENOUGH && s->length >= ENOUGH &&
        memcmp(text + kept - ENOUGH, s->text + s->length - ENOUGH, ENOUGH) == 0) {
        memmove(s->ids, s->ids + s->n - KEPT, KEPT * sizeof *s->ids);
        s->n = KEPT;
        s->done = kept;
    }
    br_free(text);
    return true;
}

/* Returns the new text, and stores its length. `end`: no more ids follow. If it fails, it changes
 * nothing. */
static const char *take(br_decode_stream *s, bool end, int64_t *length)
{
    size_t all, n, from;
    char *text = decode(s, s->n, s->ids, &all);
    if (!text)
        return NULL;
    br_free(s->text);
    s->text = text;
    s->length = all;
    n = end ? all : settled(s, text, whole(text, all));
    if (s->before)
        pass_before(s, text, n);
    from = !s->before && s->done < n ? s->done : n;
    if (from < n)
        s->done = n;
    text[n] = '\0';
    if (length)
        *length = (int64_t)(n - from);
    return text + from;
}

/* ---- The interface --------------------------------------------------------------------------- */

br_decode_stream *br_decode_stream_new(const br_tokenizer *tokenizer, bool skip_special, int64_t n,
                                       const int64_t *ids)
{
    static const char op[] = "decode_stream_new";
    if (!br__required(op, "tokenizer", tokenizer))
        return NULL;
    if (n < 0 || (n > 0 && !ids))
        return br_fail(BR_ERROR_ARGUMENT, op,
                       "n is %" PRId64 ", ids is %s: n must not be negative, and ids must not be "
                       "NULL unless n is 0",
                       n, ids ? "not NULL" : "NULL");
    br_decode_stream *s = BR_NEW(br_decode_stream);
    if (!s)
        return NULL;
    s->tokenizer = tokenizer;
    s->skip_special = skip_special;
    bool ok = true;
    for (int64_t i = 0; ok && i < n; i++)
        ok = append(s, ids[i]);
    if (ok && s->n > 0)
        s->before = decode(s, s->n, s->ids, &s->before_length);
    if (ok && !br_failed())
        return s;
    br_decode_stream_free(s);
    return NULL;
}

void br_decode_stream_free(br_decode_stream *stream)
{
    if (!BR_END("decode_stream_free", stream))
        return;
    br_free(stream->ids);
    br_free(stream->before);
    br_free(stream->text);
    BR_FREE(stream);
}

/* Sets *length, which may be NULL, to 0, and checks the stream. */
static bool begin(const char *op, br_decode_stream *stream, int64_t *length)
{
    if (length)
        *length = 0;
    return br__required(op, "stream", stream);
}

const char *br_decode_stream_step(br_decode_stream *stream, int64_t id, int64_t *length)
{
    if (!begin("decode_stream_step", stream, length) || !drop_old(stream))
        return NULL;
    int64_t before = stream->n;
    if (!append(stream, id))
        return NULL;
    const char *text = ends_with_byte(stream) ? "" : take(stream, false, length);
    if (!text)
        stream->n = before; /* so that the step can be repeated */
    return text;
}

const char *br_decode_stream_end(br_decode_stream *stream, int64_t *length)
{
    if (!begin("decode_stream_end", stream, length))
        return NULL;
    const char *text = take(stream, true, length);
    if (text) {
        pass(stream, 0);
        stream->n = 0;
    }
    return text;
}
