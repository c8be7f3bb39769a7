/* tokenizers/tokenizer_parts.c - shared by the kinds of tokenizers: lists of tokens, and added
 * tokens, which are split off from the text before anything else is done. */
#include "tensor/min_max.h"
#include "tokenizers/bpe_internal.h"

#include <inttypes.h>
#include <string.h>

/* ---- Tokens ---------------------------------------------------------------------------------- */

bool br__reserve_ids(br_token_list *list, int64_t n)
{
    while (list->capacity - list->count < n) {
        int64_t *ids = br__grow_tokens(list->ids, &list->capacity, list->capacity, sizeof *ids);
        if (!ids)
            return false;
        list->ids = ids;
    }
    return true;
}

void br__free_tokens(br_token_list *list)
{
    br_free(list->items);
    br_free(list->ids);
}

bool br__push_token(br_token_list *list, br_token token)
{
    if (list->cache) {
        if (!br__reserve_ids(list, 1))
            return false;
        list->ids[list->count++] = token.id;
        return true;
    }
    br_token *items = br__grow_tokens(list->items, &list->capacity, list->count, sizeof *items);
    if (!items)
        return false;
    list->items = items;
    items[list->count++] = token;
    return true;
}

bool br__read_new(br_text_reader *r, const char *word, size_t length, const br_word_key *key,
                  br_read_word *read)
{
    br_token_list *list = r->list;
    int64_t before = list->count;
    if (!read(r, word, length))
        return false;
    int64_t n = list->count - before;
    if (!key || n > BR_CACHED_IDS)
        return true;
    br_cached_word *slot = br__word_slot(list->cache, key);
    *slot = (br_cached_word){ .length = key->length, .n = (uint16_t)n };
    memcpy(slot->parts, key->parts, sizeof slot->parts);
    for (int64_t i = 0; i < n; i++)
        slot->ids[i] = (int32_t)list->ids[before + i];
    return true;
}

bool br__push_char(br_char_list *list, br_char c)
{
    br_char *items = br__grow_tokens(list->items, &list->capacity, list->count, sizeof *items);
    if (!items)
        return false;
    list->items = items;
    items[list->count++] = c;
    return true;
}

bool br__push_text(br_char_list *list, const char *text, const br_char *from)
{
    for (const char *p = text, *end = text + strlen(text); p < end;) {
        br_char c = *from;
        bool valid;
        p += br__char_read(p, end, &c.c, &valid);
        if (!br__push_char(list, c))
            return false;
    }
    return true;
}

char *br__chars_to_utf8(const br_char *chars, int64_t n, size_t *length)
{
    char *text = br_malloc(4 * (size_t)n + 1), *p = text;
    for (int64_t i = 0; text && i < n; i++)
        p += br__char_write(chars[i].c, p);
    if (text)
        *p = 0;
    *length = (size_t)(p - text);
    return text;
}

int64_t br__count_chars(const char *p, size_t length)
{
    int64_t n = 0;
    for (size_t i = 0; i < length; i++)
        n += ((unsigned char)p[i] & 0xc0) != 0x80;
    return n;
}

/* ---- Offsets --------------------------------------------------------------------------------- */

/* White space and U+0120, which represents a space in byte-level tokens. */
static bool is_space(uint32_t c)
{
    return c == 0x120 || br__is_white(c);
}

void br__set_places(br_token *token, const br_char *first, const br_char *last)
{
    token->bytes = (br_span){ first->bytes.begin, last->bytes.end };
    token->chars = (br_span){ first->chars.begin, last->chars.end };
    token->counted = true;
    for (const br_char *c = first; c <= last && is_space(c->c); c++)
        token->before++;
    for (const br_char *c = last; c >= first && is_space(c->c); c--)
        token->after++;
}

/* Counts the spaces at the beginning or end of begin .. end-1. */
static int64_t count_spaces(const char *begin, const char *end, bool at_end)
{
    int64_t n = 0;
    for (; begin < end; n++) {
        uint32_t c;
        bool valid;
        int length =
            at_end ? br__char_before(begin, end, &c) : br__char_read(begin, end, &c, &valid);
        if (!is_space(c))
            break;
        begin += at_end ? 0 : length;
        end -= at_end ? length : 0;
    }
    return n;
}

/* Excludes spaces from the offsets in code points. */
static br_span trim(br_span span, int64_t leading, int64_t trailing)
{
    span.begin = br__min(span.begin + leading, span.end);
    if (span.end >= trailing)
        span.end = br__max(span.end - trailing, span.begin);
    return span;
}

/* Excludes code points of the original text from the offsets in bytes: `leading` from the beginning
 * and `trailing` from the end. */
static br_span trim_bytes(const char *text, br_span span, int64_t leading, int64_t trailing)
{
    uint32_t c;
    bool valid;
    for (; leading > 0 && span.begin < span.end; leading--)
        span.begin += br__char_read(text + span.begin, text + span.end, &c, &valid);
    for (; trailing > 0 && span.begin < span.end; trailing--)
        span.end -= br__char_before(text + span.begin, text + span.end, &c);
    return span;
}

/* Returns the text of a token that the model made. Where an added token has the same id, tokens[]
 * has its normalized form, which may have spaces around it. */
static const char *model_text(const br_tokenizer *t, int64_t id)
{
    const br_added_token *added = t->kind->normalize ? br__tokenizer_added(t, id) : NULL;
    return added && added->late ? added->text : t->tokens[id];
}

/* The spaces are counted in the token's normalized text, as `tokenizers` does, and excluded from
 * its offsets in code points. The offsets in bytes follow those. */
void br__trim_token(const br_tokenizer *t, const char *text, br_token *token, bool first)
{
    if (!t->trim_offsets)
        return;
    int64_t leading = token->before, trailing = token->after;
    if (!token->counted) {
        const char *piece = model_text(t, token->id), *end = piece + strlen(piece);
        leading = count_spaces(piece, end, false);
        trailing = count_spaces(piece, end, true);
    }
    if (leading == 1 && !t->trim_first && (first || token->chars.begin == 0))
        leading = 0;
    br_span chars = trim(token->chars, leading, trailing);
    token->bytes = trim_bytes(text, token->bytes, chars.begin - token->chars.begin,
                              token->chars.end - chars.end);
    token->chars = chars;
}

/* ---- Added tokens ---------------------------------------------------------------------------- */

static bool set_pattern(br_tokenizer *t, br_added_token *a)
{
    br_free(a->pattern);
    a->length = strlen(a->text);
    a->pattern = a->late && t->kind->normalize ? t->kind->normalize(t, a->text, &a->length)
                                               : br_strdup(a->text);
    if (!a->pattern)
        return false;
    t->tokens[a->id] = a->pattern; /* decoding writes the normalized form, as `tokenizers` does */
    if (a->length > 0)
        t->added_begins[(unsigned char)*a->pattern] = true;
    t->has_late |= a->late;
    return true;
}

bool br__tokenizer_finish_added(br_tokenizer *t)
{
    memset(t->added_begins, 0, sizeof t->added_begins);
    t->has_late = false;
    for (int64_t i = 0; i < t->n_added; i++)
        if (!set_pattern(t, &t->added[i]))
            return false;
    return br__added_index_build(t);
}

/* Unicode's White_Space, which is the same in all recent versions. */
bool br__is_white(uint32_t c)
{
    return br__bits_of_char(&br__bpe_chars, c) == BR_BPE_SPACE;
}

/* Returns the beginning of the white space before p, but not less than `begin`. */
static const char *back(const char *p, const char *begin)
{
    for (int last; p > begin; p -= last) {
        uint32_t c;
        last = br__char_before(begin, p, &c);
        if (!br__is_white(c))
            break;
    }
    return p;
}

/* Returns the end of the white space at p. */
static const char *skip_white(const char *p, const char *end)
{
    while (p < end) {
        uint32_t c;
        bool valid;
        int n = br__char_read(p, end, &c, &valid);
        if (!br__is_white(c))
            break;
        p += n;
    }
    return p;
}

static bool is_word(uint32_t c)
{
    return br__bits_of_char(&br__word_chars, c);
}

/* Returns true if no word character precedes `from` or follows `to`. */
static bool is_whole_word(const char *begin, const char *from, const char *to, const char *end)
{
    uint32_t c;
    bool valid;
    if (from > begin) {
        br__char_before(begin, from, &c);
        if (is_word(c))
            return false;
    }
    if (to == end)
        return true;
    br__char_read(to, end, &c, &valid);
    return !is_word(c);
}

/* An added token in a text, which is from .. to-1 with the white space that it includes. */
typedef struct match {
    const br_added_token *token;
    const char *from, *to;
    const char *next; /* end without that white space, where the search goes on */
} match;

/* Finds the next added token at or after m->next in the text begin .. end-1. Returns false if there
 * is none. The text before `done` belongs to tokens already, so a token does not include white
 * space there; but where its own text begins with some, the two overlap. As in the fast tokenizer,
 * the search goes on after a match that is rejected. */
static bool find(const br_text_reader *r, const char *begin, const char *done, const char *end,
                 bool late, match *m)
{
    for (const char *p = m->next; p < end;) {
        const br_added_token *a = br__added_at(r->t, p, end, late);
        if (!a) {
            p++;
            continue;
        }
        const char *to = p + a->length;
        if ((a->special && br__splits_special(r->t, r->options)) ||
            (a->single_word && !is_whole_word(begin, p, to, end))) {
            p = to;
            continue;
        }
        *m = (match){ a, p, a->rstrip ? skip_white(to, end) : to, to };
        if (a->lstrip)
            m->from = p < done ? done : back(p, done);
        if (m->from < m->to)
            return true;
        p = to; /* nothing of it is left */
    }
    return false;
}

/* Returns the number of code points from `from` to `to`; negative if `to` comes first. */
static int64_t distance(const char *from, const char *to)
{
    return from <= to ? br__count_chars(from, (size_t)(to - from))
                      : -br__count_chars(to, (size_t)(from - to));
}

/* Pushes an added token of the original text, and sets *at to its end. */
static bool read_added(br_text_reader *r, const match *m, br_place *at)
{
    int64_t begin = at->index + distance(at->p, m->from);
    br_place next = { m->to, begin + distance(m->from, m->to) };
    br_token token = { .id = m->token->id,
                       .word = r->words++,
                       .bytes = { m->from - r->text, m->to - r->text },
                       .chars = { begin, next.index },
                       .counted = true,
                       .before = count_spaces(m->from, m->to, false),
                       .after = count_spaces(m->from, m->to, true) };
    *at = next;
    return br__push_token(r->list, token);
}

static bool read_parts(br_text_reader *r, br_place *at, const char *end, bool late);

/* Reads the text up to `end`, which has no added tokens, or, if `late` is false, no early ones. */
static bool read_rest(br_text_reader *r, br_place *at, const char *end, bool late)
{
    if (at->p >= end)
        return true;
    bool whole = late || !r->t->has_late || r->normalizes;
    return whole ? r->read(r, at, end) : read_parts(r, at, end, true);
}

static bool read_parts(br_text_reader *r, br_place *at, const char *end, bool late)
{
    const char *begin = at->p;
    match m = { .next = begin };
    while (find(r, begin, at->p, end, late, &m))
        if (!read_rest(r, at, m.from, late) || !read_added(r, &m, at))
            return false;
    return read_rest(r, at, end, late);
}

bool br__read_parts(br_text_reader *r, const br_text *text)
{
    const char *data = text->data ? text->data : "";
    const char *end = data + (text->length < 0 ? strlen(data) : (size_t)text->length);
    br_place at = { data, 0 };
    r->text = data;
    return read_parts(r, &at, end, false);
}

/* Pushes a late token, whose code points begin at `chars`. Returns their end, or NULL if allocation
 * fails. */
static const br_char *push_late(br_text_reader *r, const match *m, const br_char *chars)
{
    const br_char *end = chars + br__count_chars(m->from, (size_t)(m->to - m->from));
    br_token token = { .id = m->token->id, .word = r->words++ };
    br__set_places(&token, chars, end - 1);
    return br__push_token(r->list, token) ? end : NULL;
}

static bool read_late(br_text_reader *r, const char *text, size_t length, const br_char *chars,
                      br_read_chars *read)
{
    const char *at = text, *end = text + length;
    match m = { .next = text };
    while (find(r, text, at, end, true, &m)) {
        int64_t n = distance(at, m.from);
        if (n > 0 && !read(r, chars, n))
            return false;
        chars = push_late(r, &m, chars + n);
        if (!chars)
            return false;
        at = m.to;
    }
    return at >= end || read(r, chars, distance(at, end));
}

bool br__read_late(br_text_reader *r, const br_char *chars, int64_t n, br_read_chars *read)
{
    if (!r->t->has_late)
        return read(r, chars, n);
    size_t length;
    char *text = br__chars_to_utf8(chars, n, &length);
    bool ok = text && read_late(r, text, length, chars, read);
    br_free(text);
    return ok;
}

bool br__read_char(const br_text_reader *r, br_place *at, const char *end, uint32_t *c)
{
    bool valid;
    int length = br__char_read(at->p, end, c, &valid);
    if (!valid && r->options->strict_utf8)
        return br_fail(BR_ERROR_ARGUMENT, "tokenizer_encode",
                       "text is not valid UTF-8 at byte %" PRId64, (int64_t)(at->p - r->text));
    *at = (br_place){ at->p + length, at->index + 1 };
    return true;
}
