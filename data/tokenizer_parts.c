/* data/tokenizer_parts.c - shared by the kinds of tokenizers: lists of tokens, and added tokens,
 * which are split off from the text before anything else is done. */
#include "data/bpe_internal.h"

#include <inttypes.h>
#include <string.h>

/* ---- Tokens ---------------------------------------------------------------------------------- */

bool br__push_token(br_token_list *list, br_token token)
{
    br_token *items = br__grow_tokens(list->items, &list->capacity, list->count, sizeof *items);
    if (!items)
        return false;
    list->items = items;
    items[list->count++] = token;
    return true;
}

/* ---- Added tokens ---------------------------------------------------------------------------- */

const br_added_token *br__added_at(const br_tokenizer *t, const char *p, const char *end, bool late)
{
    const br_added_token *best = NULL;
    if (!t->added_begins[(unsigned char)*p])
        return NULL;
    for (const br_added_token *a = t->added; a < t->added + t->n_added; a++)
        if (a->late == late && (!best || a->length > best->length) &&
            a->length <= (size_t)(end - p) && memcmp(a->text, p, a->length) == 0)
            best = a;
    return best;
}

int64_t br__count_chars(const char *p, size_t length)
{
    int64_t n = 0;
    for (size_t i = 0; i < length; i++)
        n += ((unsigned char)p[i] & 0xc0) != 0x80;
    return n;
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

/* Pushes an added token, which is at->p .. to-1 with the white space that it includes. */
static bool read_added(br_text_reader *r, const br_added_token *a, br_place *at, const char *to)
{
    br_place next = { to, at->index + br__count_chars(at->p, (size_t)(to - at->p)) };
    br_token token = {
        a->id, r->words++, { at->p - r->text, to - r->text }, { at->index, next.index }
    };
    *at = next;
    return br__push_token(r->list, token);
}

static bool read_parts(br_text_reader *r, br_place *at, const char *end, bool late)
{
    while (at->p < end) {
        const br_added_token *a = NULL;
        const char *p = at->p;
        while (p < end && !(a = br__added_at(r->t, p, end, late)))
            p++;
        const char *from = a && a->lstrip ? back(p, at->p) : p;
        if (from > at->p && !(late ? r->read(r, at, from) : read_parts(r, at, from, true)))
            return false;
        const char *to = a ? p + a->length : NULL;
        if (a && !read_added(r, a, at, a->rstrip ? skip_white(to, end) : to))
            return false;
    }
    return true;
}

bool br__read_parts(br_text_reader *r, const br_text *text)
{
    const char *data = text->data ? text->data : "";
    const char *end = data + (text->length < 0 ? strlen(data) : (size_t)text->length);
    br_place at = { data, 0 };
    r->text = data;
    if (r->options->split_special_tokens)
        return at.p == end || r->read(r, &at, end);
    return read_parts(r, &at, end, false);
}

bool br__read_char(const br_text_reader *r, br_place *at, const char *end, uint32_t *c)
{
    bool valid;
    int length = br__char_read(at->p, end, c, &valid);
    if (!valid && r->options->strict_utf8)
        return br__fail(BR_ERROR_ARGUMENT, "tokenizer_encode",
                        "text is not valid UTF-8 at byte %" PRId64, (int64_t)(at->p - r->text));
    *at = (br_place){ at->p + length, at->index + 1 };
    return true;
}
