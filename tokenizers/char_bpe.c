/* tokenizers/char_bpe.c - BPE over characters: encoding.
 *
 * Spaces become U+2581, and the code points of a text are merged in pairs (bpe_merge.c). A code
 * point without a token becomes its bytes, which have tokens of their own. Often a whole text is
 * one word. It is cut wherever no merge joins the two code points, which is before most U+2581, so
 * that only short parts are merged at a time. */
#include "tokenizers/char_bpe.h"

#include <stdio.h>
#include <string.h>

typedef struct reader {
    br_text_reader base;
    br_merger merger;
    br_char_list text, word;
    char *utf8;
    size_t room;
} reader;

/* ---- Characters ------------------------------------------------------------------------------ */

/* Returns the place in `joins` of a pair of code points. Several pairs may share one. */
static uint64_t join_place(uint32_t last, uint32_t first)
{
    const uint64_t odd = 0x9e3779b97f4a7c15;
    uint64_t hash = ((uint64_t)last << 32 | first) * odd;
    return (hash ^ hash >> 32) * odd >> (64 - BR_JOIN_BITS);
}

static bool joins(const br_char_bpe *m, uint32_t last, uint32_t first)
{
    uint64_t place = join_place(last, first);
    return m->joins[place / 8] >> place % 8 & 1;
}

/* Returns whether a word begins with the code point `first` after `last`. */
static bool begins_word(const br_char_bpe *m, uint32_t last, uint32_t first)
{
    return (m->split_at_spaces && last == ' ') || (m->split_at_meta && first == BR_META);
}

/* Pushes the token of a code point, or those of its bytes. */
static bool push_char(reader *r, uint32_t c, br_span bytes, br_span chars)
{
    const br_char_bpe *m = br__char_bpe_of(r->base.t);
    const int32_t *page = m->pages[c / BR_CHAR_PAGE];
    int32_t id = page ? page[c % BR_CHAR_PAGE] : -1;
    if (id >= 0)
        return br__merger_push(&r->merger, id, bytes, chars);
    char utf8[4];
    int n = br__char_write(c, utf8);
    for (int i = 0; i < n; i++)
        if (!br__merger_push(&r->merger, m->byte_ids[(unsigned char)utf8[i]], bytes, chars))
            return false;
    return true;
}

static bool end_part(reader *r)
{
    return br__merger_end_word(&r->merger, r->base.list, r->base.words);
}

/* ---- Text with offsets ----------------------------------------------------------------------- */

/* Appends a code point of a text to its normalized code points. */
static bool push_normal(const br_char_bpe *m, br_char_list *to, br_char c)
{
    br_char front = c;
    front.c = BR_META;
    if (m->prepends && to->count == 0 && !br__push_char(to, front))
        return false;
    c.c = m->replaces && c.c == ' ' ? BR_META : c.c;
    return br__push_char(to, c);
}

/* Returns whether Metaspace puts a U+2581 in front of a text. */
static bool has_front(const br_char_bpe *m, uint32_t c, bool at_beginning)
{
    bool wanted =
        m->prepend == BR_PREPEND_ALWAYS || (m->prepend == BR_PREPEND_FIRST && at_beginning);
    return m->metaspace && wanted && c != BR_META && c != ' ';
}

static bool read_words(reader *r, const br_char *chars, int64_t n)
{
    const br_char_bpe *m = br__char_bpe_of(r->base.t);
    for (int64_t i = 0; i < n; i++) {
        bool begins = i > 0 && begins_word(m, chars[i - 1].c, chars[i].c);
        bool cut = begins || (i > 0 && !joins(m, chars[i - 1].c, chars[i].c));
        if (cut && !end_part(r))
            return false;
        r->base.words += begins;
        if (!push_char(r, chars[i].c, chars[i].bytes, chars[i].chars))
            return false;
    }
    bool ok = end_part(r);
    r->base.words++;
    return ok;
}

/* Reads normalized text without added tokens. */
static bool read_normal(br_text_reader *base, const br_char *chars, int64_t n)
{
    reader *r = (reader *)base;
    const br_char_bpe *m = br__char_bpe_of(base->t);
    if (n == 0)
        return true;
    if (!m->metaspace)
        return read_words(r, chars, n);
    r->word.count = 0;
    for (int64_t i = has_front(m, chars[0].c, chars[0].bytes.begin == 0) ? -1 : 0; i < n; i++) {
        br_char c = chars[i < 0 ? 0 : i];
        c.c = i < 0 || c.c == ' ' ? BR_META : c.c;
        if (!br__push_char(&r->word, c))
            return false;
    }
    return read_words(r, r->word.items, r->word.count);
}

static bool read_text(br_text_reader *base, br_place *at, const char *end)
{
    reader *r = (reader *)base;
    r->text.count = 0;
    while (at->p < end) {
        br_place from = *at;
        br_char c;
        if (!br__read_char(base, at, end, &c.c))
            return false;
        c.bytes = (br_span){ from.p - base->text, at->p - base->text };
        c.chars = (br_span){ from.index, at->index };
        if (!push_normal(br__char_bpe_of(base->t), &r->text, c))
            return false;
    }
    return br__read_late(base, r->text.items, r->text.count, read_normal);
}

/* ---- Ids alone ------------------------------------------------------------------------------- */

static const char *next_char(const char *p, const char *end, uint32_t *c)
{
    bool valid;
    *c = (unsigned char)*p;
    return p + (*c < 128 ? 1 : br__char_read(p, end, c, &valid));
}

/* Tokenizes normalized text that no merge joins with its neighbours. */
static bool read_part(br_text_reader *base, const char *p, size_t length)
{
    reader *r = (reader *)base;
    const br_span none = { 0 };
    for (const char *end = p + length; p < end;) {
        uint32_t c;
        p = next_char(p, end, &c);
        if (!push_char(r, c, none, none))
            return false;
    }
    return end_part(r);
}

/* Tokenizes normalized text by the parts that no merge joins. */
static bool read_parts(reader *r, const char *p, const char *end)
{
    const br_char_bpe *m = br__char_bpe_of(r->base.t);
    for (const char *from = p; p < end; from = p) {
        uint32_t last, c;
        const char *next;
        for (p = next_char(p, end, &last); p < end; p = next, last = c) {
            next = next_char(p, end, &c);
            if (begins_word(m, last, c) || !joins(m, last, c))
                break;
        }
        if (!br__read_cached(&r->base, from, (size_t)(p - from), end, read_part))
            return false;
    }
    return true;
}

/* Makes room for the normalized form of `length` bytes: an invalid byte and a space become three.
 */
static bool make_room(reader *r, size_t length)
{
    size_t room = 3 * length + 3;
    if (r->room >= room)
        return true;
    br_free(r->utf8);
    r->utf8 = br_malloc(room);
    r->room = r->utf8 ? room : 0;
    return r->utf8;
}

/* Reads text to ids alone. No token is late, so the text is normalized at once. */
static bool read_ids(br_text_reader *base, br_place *at, const char *end)
{
    reader *r = (reader *)base;
    const br_char_bpe *m = br__char_bpe_of(base->t);
    uint32_t c;
    next_char(at->p, end, &c);
    if (!make_room(r, (size_t)(end - at->p)))
        return false;
    char *out = r->utf8;
    if (m->prepends || has_front(m, c, at->p == base->text))
        out += br__char_write(BR_META, out);
    while (at->p < end) {
        if (!br__read_char(base, at, end, &c))
            return false;
        out += br__char_write(c == ' ' && (m->replaces || m->metaspace) ? BR_META : c, out);
    }
    return read_parts(r, r->utf8, out);
}

/* ---- The model ------------------------------------------------------------------------------- */

/* Stores the ids of the tokens that are one code point. */
static bool set_chars(const br_tokenizer *t, br_char_bpe *m)
{
    for (int64_t word = 0; word < br_vocab_size(t->all.words); word++) {
        uint32_t c;
        const char *token = br_vocab_word(t->all.words, word), *end = token + strlen(token);
        if (token == end || next_char(token, end, &c) != end)
            continue;
        int32_t **page = &m->pages[c / BR_CHAR_PAGE];
        if (!*page) {
            *page = br_malloc(BR_CHAR_PAGE * sizeof **page);
            if (!*page)
                return false;
            memset(*page, 0xff, BR_CHAR_PAGE * sizeof **page); /* -1 */
        }
        (*page)[c % BR_CHAR_PAGE] = (int32_t)t->all.ids[word];
    }
    return true;
}

bool br__char_bpe_begin(br_tokenizer *t, int *missing)
{
    br_char_bpe *m = t->model = br_calloc(1, sizeof *m);
    t->kind = &br__char_bpe;
    t->model_size = t->size;
    t->model_words = br_vocab_size(t->all.words);
    *missing = -1;
    if (!m)
        return false;
    for (int byte = 255; byte >= 0; byte--) {
        char text[8];
        int n = snprintf(text, sizeof text, "<0x%02X>", (unsigned)byte);
        m->byte_ids[byte] = br__word_id(&t->all, text, (size_t)n);
        if (m->byte_ids[byte] < 0)
            *missing = byte;
    }
    return set_chars(t, m) && br__merges_begin(&m->merges);
}

/* Returns whether a token of a merge stands for a byte. Then its text does not tell what the merge
 * joins. */
static bool is_byte(const br_char_bpe *m, br_text text, int64_t id)
{
    if (text.length != (int64_t)strlen("<0x00>") || text.data[0] != '<')
        return false;
    for (int byte = 0; byte < 256; byte++)
        if (m->byte_ids[byte] == id)
            return true;
    return false;
}

/* Marks the code points that a merge joins. */
static void mark_join(br_char_bpe *m, br_text left, br_text right)
{
    uint32_t last, first;
    if (left.length == 0 || right.length == 0)
        return;
    br__char_before(left.data, left.data + left.length, &last);
    next_char(right.data, right.data + right.length, &first);
    uint64_t place = join_place(last, first);
    m->joins[place / 8] |= (uint8_t)(1 << place % 8);
}

bool br__char_bpe_add_merge(br_tokenizer *t, br_text left, br_text right, int64_t rank,
                            const char **what)
{
    br_merge merge;
    if (!br__merge_of_texts(t, left, right, rank, &merge, what))
        return false;
    return *what || br__char_bpe_set_merge(t, merge, left, right);
}

bool br__char_bpe_set_merge(br_tokenizer *t, br_merge merge, br_text left, br_text right)
{
    br_char_bpe *m = br__char_bpe_of(t);
    if (is_byte(m, left, merge.left) || is_byte(m, right, merge.right))
        memset(m->joins, 0xff, sizeof m->joins);
    mark_join(m, left, right);
    return br__merges_set(&m->merges, merge);
}

/* ---- The kind -------------------------------------------------------------------------------- */

/* Returns the normalized text of an added token. */
static char *normalize(const br_tokenizer *t, const char *text, size_t *length)
{
    br_char_list chars = { 0 };
    bool ok = true;
    for (const char *p = text, *end = text + strlen(text); ok && p < end;) {
        br_char c = { 0 };
        p = next_char(p, end, &c.c);
        ok = push_normal(br__char_bpe_of(t), &chars, c);
    }
    char *utf8 = ok ? br__chars_to_utf8(chars.items, chars.count, length) : NULL;
    br_free(chars.items);
    return utf8;
}

static bool tokenize(const br_tokenizer *t, const br_text *text, const br_encode_options *options,
                     br_token_list *list)
{
    bool ids_alone = list->cache && !t->has_late;
    reader r = { .base = { .t = t,
                           .options = options,
                           .list = list,
                           .normalizes = true,
                           .read = ids_alone ? read_ids : read_text },
                 .merger.table = &br__char_bpe_of(t)->merges };
    bool ok = br__read_parts(&r.base, text);
    br__merger_free(&r.merger);
    br_free(r.text.items);
    br_free(r.word.items);
    br_free(r.utf8);
    return ok;
}

static char *decode(const br_tokenizer *t, int64_t n, const int64_t *ids, bool skip_special,
                    int64_t *length)
{
    return br__decode_by(t, &br__char_bpe_of(t)->decoder, n, ids, skip_special, length);
}

static bool decodes_bytes(const br_tokenizer *t)
{
    return br__char_bpe_of(t)->decoder.bytes;
}

static void free_char_bpe(void *model)
{
    br_char_bpe *m = model;
    if (!m)
        return;
    for (int i = 0; i < BR_CHAR_PAGES; i++)
        br_free(m->pages[i]);
    br_free(m->merges.merges);
    br_free(m);
}

const br_tokenizer_kind br__char_bpe = { .name = "BPE",
                                         .tokenize = tokenize,
                                         .decode = decode,
                                         .normalize = normalize,
                                         .decodes_bytes = decodes_bytes,
                                         .free = free_char_bpe };
