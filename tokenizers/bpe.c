/* tokenizers/bpe.c - byte-level BPE: encoding and decoding.
 *
 * A text is split into words by a pattern (bpe_split.h), and the bytes of each word are merged in
 * pairs. A heap holds the candidates, so a word of n bytes takes O(n log n) time. */
#include "tokenizers/bpe_internal.h"
#include "tokenizers/bpe_split.h"
#include "tokenizers/compose.h"

#include <stdio.h>
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

/* ---- Merges ---------------------------------------------------------------------------------- */

/* A node in the linked list of a word's tokens. Merging removes the right one of two nodes. */
typedef struct symbol {
    int64_t id; /* -1 if removed */
    int64_t previous, next;
    br_span bytes, chars;
} symbol;

/* A possible merge of the symbol `at` with the next one to the token `id`. */
typedef struct candidate {
    int64_t rank, at, id;
} candidate;

typedef struct reader {
    br_text_reader base;
    symbol *symbols; /* of the current word */
    int64_t n_symbols, symbol_capacity;
    candidate *heap; /* binary heap; the first one is merged next */
    int64_t n_heap, heap_capacity;
    char *whole; /* room for the longest token */
} reader;

static bool before(const candidate *a, const candidate *b)
{
    return a->rank != b->rank ? a->rank < b->rank : a->at < b->at;
}

static bool push(reader *r, candidate c)
{
    candidate *heap = br__grow_tokens(r->heap, &r->heap_capacity, r->n_heap, sizeof *heap);
    if (!heap)
        return false;
    r->heap = heap;
    int64_t i = r->n_heap++;
    for (; i > 0 && before(&c, &heap[(i - 1) / 2]); i = (i - 1) / 2)
        heap[i] = heap[(i - 1) / 2];
    heap[i] = c;
    return true;
}

static candidate pop(reader *r)
{
    candidate *heap = r->heap, first = heap[0], c = heap[--r->n_heap];
    int64_t i = 0, n = r->n_heap;
    for (int64_t k; (k = 2 * i + 1) < n; i = k) {
        k += k + 1 < n && before(&heap[k + 1], &heap[k]);
        if (!before(&heap[k], &c))
            break;
        heap[i] = heap[k];
    }
    heap[i] = c;
    return first;
}

/* Returns the merge of two tokens, or NULL. */
static const br_merge *merge_of(const br_bpe *bpe, int64_t left, int64_t right)
{
    const br_merge *m = br__bpe_place(bpe, (int32_t)left, (int32_t)right);
    return m->left < 0 ? NULL : m;
}

/* Pushes the merge of symbol `at` with the next one, if it exists, to the heap. */
static bool consider(reader *r, int64_t at)
{
    int64_t next = at < 0 ? -1 : r->symbols[at].next;
    if (next < 0)
        return true;
    const br_merge *m = merge_of(br__bpe_of(r->base.t), r->symbols[at].id, r->symbols[next].id);
    return !m || push(r, (candidate){ m->rank, at, m->id });
}

/* Merges symbol c.at with the next one, unless a merge has changed one of them since c was pushed.
 */
static bool merge(reader *r, candidate c)
{
    symbol *left = &r->symbols[c.at];
    if (left->id < 0 || left->next < 0)
        return true;
    symbol *right = &r->symbols[left->next];
    const br_merge *m = merge_of(br__bpe_of(r->base.t), left->id, right->id);
    if (!m || m->id != c.id)
        return true;
    left->id = c.id;
    left->bytes.end = right->bytes.end;
    left->chars.end = right->chars.end;
    left->next = right->next;
    right->id = -1;
    if (left->next >= 0)
        r->symbols[left->next].previous = c.at;
    return consider(r, left->previous) && consider(r, c.at);
}

/* Returns the token of the whole word, or -1 if there is none. The tokens of the bytes, put
 * together, are its text. */
static int64_t whole_word(const reader *r)
{
    const br_tokenizer *t = r->base.t;
    char *text = r->whole;
    size_t n = 0;
    for (int64_t i = 0; i < r->n_symbols; i++) {
        const char *token = t->tokens[r->symbols[i].id];
        size_t length = strlen(token);
        if (length > t->all.longest - n)
            return -1;
        memcpy(text + n, token, length);
        n += length;
    }
    int64_t id = br__word_id(&t->all, text, n);
    return id < t->model_size ? id : -1;
}

/* Makes a word one symbol. */
static void join_symbols(reader *r, int64_t id)
{
    const symbol *last = &r->symbols[r->n_symbols - 1];
    r->symbols[0].id = id;
    r->symbols[0].next = -1;
    r->symbols[0].bytes.end = last->bytes.end;
    r->symbols[0].chars.end = last->chars.end;
    r->n_symbols = 1;
}

static bool end_word(reader *r)
{
    int64_t whole = br__bpe_of(r->base.t)->ignores_merges && r->n_symbols > 1 ? whole_word(r) : -1;
    if (whole >= 0)
        join_symbols(r, whole);
    for (int64_t i = 0; i < r->n_symbols; i++)
        if (!consider(r, i))
            return false;
    while (r->n_heap > 0)
        if (!merge(r, pop(r)))
            return false;
    for (int64_t i = 0; i >= 0 && i < r->n_symbols; i = r->symbols[i].next) {
        const symbol *s = &r->symbols[i];
        if (!br__push_token(r->base.list, (br_token){ .id = s->id,
                                                      .word = r->base.words,
                                                      .bytes = s->bytes,
                                                      .chars = s->chars }))
            return false;
    }
    r->n_symbols = 0;
    r->base.words++;
    return true;
}

/* ---- The text -------------------------------------------------------------------------------- */

__attribute__((cold, noinline)) static bool fail_unknown(const reader *r, unsigned char byte)
{
    char what[32];
    snprintf(what, sizeof what, "the byte 0x%02x", byte);
    return br__tokenizer_fail_unknown(r->base.t, what);
}

static bool push_byte(reader *r, unsigned char byte, br_span bytes, br_span chars)
{
    int64_t id = br__bpe_of(r->base.t)->byte_ids[byte];
    id = id < 0 ? r->base.t->unknown : id;
    if (id < 0)
        return fail_unknown(r, byte);
    symbol *symbols =
        br__grow_tokens(r->symbols, &r->symbol_capacity, r->n_symbols, sizeof *symbols);
    if (!symbols)
        return false;
    r->symbols = symbols;
    int64_t i = r->n_symbols++;
    symbols[i] =
        (symbol){ .id = id, .previous = i - 1, .next = -1, .bytes = bytes, .chars = chars };
    if (i > 0)
        symbols[i - 1].next = i;
    return true;
}

/* Pushes the bytes of a code point, or of U+FFFD if it is invalid. Each byte has the offsets of the
 * whole code point. */
static bool push_char(reader *r, br_place *at, const char *end)
{
    uint32_t c;
    char utf8[4];
    br_place from = *at;
    if (!br__read_char(&r->base, at, end, &c))
        return false;
    br_span bytes = { from.p - r->base.text, at->p - r->base.text };
    br_span chars = { from.index, at->index };
    int n = br__char_write(c, utf8);
    for (int i = 0; i < n; i++)
        if (!push_byte(r, (unsigned char)utf8[i], bytes, chars))
            return false;
    return true;
}

/* Pushes the prefix space. Its offsets are those of the text's first code point. */
static bool push_space(reader *r, br_place at, const char *end)
{
    uint32_t c;
    bool valid;
    int length = br__char_read(at.p, end, &c, &valid);
    int64_t begin = at.p - r->base.text;
    return push_byte(r, ' ', (br_span){ begin, begin + length },
                     (br_span){ at.index, at.index + 1 });
}

/* Tokenizes the word `at` .. `over`. */
static bool read_word(reader *r, br_place at, br_place over, const char *end, bool spaced)
{
    if (spaced && !push_space(r, at, end))
        return false;
    while (at.p < over.p)
        if (!push_char(r, &at, end))
            return false;
    return end_word(r);
}

/* Tokenizes bytes of a word to ids alone. */
static bool read_bytes(br_text_reader *base, const char *bytes, size_t n)
{
    reader *r = (reader *)base;
    const br_span none = { 0 };
    for (size_t i = 0; i < n; i++)
        if (!push_byte(r, (unsigned char)bytes[i], none, none))
            return false;
    return end_word(r);
}

/* Returns whether a merge may join the byte at the end of a token with that at the beginning of the
 * next one. */
static bool joins(const br_bpe *bpe, unsigned char last, unsigned char first)
{
    return bpe->joins[last][first / 8] >> first % 8 & 1;
}

/* Tokenizes a word of valid UTF-8 to ids alone, one after the other of the parts that no merge
 * joins. In Chinese, where a word may be a whole clause, most parts are single characters. */
static bool read_ids(reader *r, const char *p, const char *over, const char *end)
{
    const br_bpe *bpe = br__bpe_of(r->base.t);
    for (const char *from = p; from < over; from = p) {
        do {
            p++;
        } while (p < over &&
                 (bpe->ignores_merges || joins(bpe, (unsigned char)p[-1], (unsigned char)*p)));
        if (!br__read_cached(&r->base, from, (size_t)(p - from), end, read_bytes))
            return false;
    }
    return true;
}

static bool read_words(br_text_reader *base, br_place *at, const char *end)
{
    reader *r = (reader *)base;
    splitter s = { .bpe = br__bpe_of(base->t), .end = end };
    bool spaced = s.bpe->prefix_space && *at->p != ' ';
    for (br_place over; at->p < end; *at = over, spaced = false) {
        s.valid = true;
        over = word_end(&s, *at, spaced);
        bool ids_alone = base->list->cache && s.valid && !spaced;
        if (!(ids_alone ? read_ids(r, at->p, over.p, end) : read_word(r, *at, over, end, spaced)))
            return false;
    }
    return true;
}

/* ---- Composed texts -------------------------------------------------------------------------- */

/* Appends the code points of `at` .. `end` and advances *at. */
static bool read_chars(const reader *r, br_place *at, const char *end, br_char_list *list)
{
    while (at->p < end) {
        br_char c = { .bytes.begin = at->p - r->base.text, .chars.begin = at->index };
        if (!br__read_char(&r->base, at, end, &c.c))
            return false;
        c.bytes.end = at->p - r->base.text;
        c.chars.end = at->index;
        if (!br__push_char(list, c))
            return false;
    }
    return true;
}

/* Replaces offsets in composed code points by those in the text. */
static void place_tokens(br_token_list *list, int64_t first, const br_char *chars)
{
    if (list->cache)
        return; /* ids alone */
    for (int64_t i = first; i < list->count; i++) {
        br_token *token = &list->items[i];
        const br_char *begin = &chars[token->chars.begin], *last = &chars[token->chars.end - 1];
        token->bytes = (br_span){ begin->bytes.begin, last->bytes.end };
        token->chars = (br_span){ begin->chars.begin, last->chars.end };
    }
}

/* Tokenizes n code points. */
static bool read_composed(reader *r, const br_char *chars, int64_t n)
{
    size_t length;
    char *text = br__chars_to_utf8(chars, n, &length);
    const char *original = r->base.text;
    int64_t first = r->base.list->count;
    br_place at = { text, 0 };
    r->base.text = text;
    bool ok = text && read_words(&r->base, &at, text + length);
    r->base.text = original;
    if (ok)
        place_tokens(r->base.list, first, chars);
    br_free(text);
    return ok;
}

/* Reads text without added tokens, and composes it first if that may change it. */
static bool read_text(br_text_reader *base, br_place *at, const char *end)
{
    if (!br__bpe_of(base->t)->composes || br__is_composed(at->p, end))
        return read_words(base, at, end);
    br_char_list chars = { 0 }, composed = { 0 };
    bool ok = read_chars((reader *)base, at, end, &chars) && br__compose(&chars, &composed) &&
              read_composed((reader *)base, composed.items, composed.count);
    br_free(chars.items);
    br_free(composed.items);
    return ok;
}

static bool tokenize(const br_tokenizer *t, const br_text *text, const br_encode_options *options,
                     br_token_list *list)
{
    reader r = { .base = { .t = t, .options = options, .list = list, .read = read_text } };
    r.whole = br_malloc(t->all.longest + 1);
    bool ok = r.whole && br__read_parts(&r.base, text);
    br_free(r.whole);
    br_free(r.symbols);
    br_free(r.heap);
    return ok;
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
    size_t capacity = 1;
    for (int64_t i = 0; i < n; i++) {
        const char *token = br_tokenizer_token(t, ids[i]);
        if (!token)
            return NULL;
        capacity += strlen(token);
    }
    char *bytes = br_malloc(capacity);
    *length = 0;
    for (int64_t i = 0; bytes && i < n; i++)
        if (!skip || !br__is_special(t, ids[i]))
            *length += bytes_of(t->tokens[ids[i]], bytes + *length);
    return bytes;
}

static char *decode(const br_tokenizer *t, int64_t n, const int64_t *ids, bool skip_special,
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

/* ---- The kind -------------------------------------------------------------------------------- */

static void free_bpe(void *model)
{
    br_bpe *bpe = model;
    if (!bpe)
        return;
    br_free(bpe->merges);
    br_free(bpe);
}

const br_tokenizer_kind br__byte_level = {
    .name = "BPE", .tokenize = tokenize, .decode = decode, .free = free_bpe
};
