/* tokenizers/bpe.c - byte-level BPE: encoding.
 *
 * A text is split into words by a pattern (bpe_split.h), and the bytes of each word are merged in
 * pairs (bpe_merge.c). */
#include "tokenizers/bpe_internal.h"
#include "tokenizers/bpe_split.h"

#include <stdio.h>
#include <string.h>

/* ---- Words ----------------------------------------------------------------------------------- */

typedef struct reader {
    br_text_reader base;
    br_merger merger;
    char *whole; /* with ignores_merges: room for the longest token */
} reader;

/* Returns the token of the whole word, or -1 if there is none. The tokens of the bytes, put
 * together, are its text. */
static int64_t whole_word(const reader *r)
{
    const br_tokenizer *t = r->base.t;
    char *text = r->whole;
    size_t n = 0;
    for (int64_t i = 0; i < r->merger.n_symbols; i++) {
        const char *token = t->tokens[r->merger.symbols[i].id];
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
static void join_symbols(br_merger *m, int64_t id)
{
    const br_symbol *last = &m->symbols[m->n_symbols - 1];
    m->symbols[0].id = id;
    m->symbols[0].next = -1;
    m->symbols[0].bytes.end = last->bytes.end;
    m->symbols[0].chars.end = last->chars.end;
    m->n_symbols = 1;
}

static bool end_word(reader *r)
{
    bool looks_up = br__bpe_of(r->base.t)->ignores_merges && r->merger.n_symbols > 1;
    int64_t whole = looks_up ? whole_word(r) : -1;
    if (whole >= 0)
        join_symbols(&r->merger, whole);
    return br__merger_end_word(&r->merger, r->base.list, r->base.words++);
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
    return id < 0 ? fail_unknown(r, byte) : br__merger_push(&r->merger, id, bytes, chars);
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

/* ---- Normalized text ------------------------------------------------------------------------- */

/* Pushes the bytes of a code point of the normalized text, each with its offsets. */
static bool push_normal(reader *r, uint32_t c, const br_char *from)
{
    char utf8[4];
    int n = br__char_write(c, utf8);
    for (int i = 0; i < n; i++)
        if (!push_byte(r, (unsigned char)utf8[i], from->bytes, from->chars))
            return false;
    return true;
}

/* Tokenizes a word of n code points. */
static bool read_normal_word(reader *r, const br_char *chars, int64_t n, bool spaced)
{
    if (spaced && !push_normal(r, ' ', chars))
        return false;
    for (int64_t i = 0; i < n; i++)
        if (!push_normal(r, chars[i].c, &chars[i]))
            return false;
    return end_word(r);
}

/* Tokenizes n code points, whose UTF-8 is `text`. */
static bool read_normal_words(reader *r, const br_char *chars, const char *text, size_t length)
{
    splitter s = { .bpe = br__bpe_of(r->base.t), .end = text + length };
    bool spaced = s.bpe->prefix_space && *text != ' ';
    for (br_place at = { text, 0 }, over; at.p < s.end; at = over, spaced = false) {
        over = word_end(&s, at, spaced);
        bool ids_alone = r->base.list->cache && !spaced;
        if (!(ids_alone ? read_ids(r, at.p, over.p, s.end)
                        : read_normal_word(r, chars + at.index, over.index - at.index, spaced)))
            return false;
    }
    return true;
}

static bool read_normal_chars(br_text_reader *base, const br_char *chars, int64_t n)
{
    size_t length;
    char *text = br__chars_to_utf8(chars, n, &length);
    bool ok = text && read_normal_words((reader *)base, chars, text, length);
    br_free(text);
    return ok;
}

/* Reads text that the normalizer may change. */
static bool read_changed(br_text_reader *base, br_place *at, const char *end)
{
    br_char_list text = { 0 }, normal = { 0 };
    bool ok = true;
    while (ok && at->p < end) {
        br_place from = *at;
        br_char c;
        ok = br__read_char(base, at, end, &c.c);
        c.bytes = (br_span){ from.p - base->text, at->p - base->text };
        c.chars = (br_span){ from.index, at->index };
        ok = ok && br__push_char(&text, c);
    }
    ok = ok && br__apply_form(br__bpe_of(base->t)->form, &text, &normal) &&
         br__read_late(base, normal.items, normal.count, read_normal_chars);
    br_free(text.items);
    br_free(normal.items);
    return ok;
}

/* Returns whether the normalizer keeps a text. */
static bool is_kept(br_form form, const br_text *text)
{
    if (form == BR_FORM_NONE)
        return true;
    const char *p = text->data ? text->data : "";
    const char *end = p + (text->length < 0 ? strlen(p) : (size_t)text->length);
    while (p < end) {
        uint32_t c = (unsigned char)*p;
        bool valid;
        p += c < 128 ? 1 : br__char_read(p, end, &c, &valid);
        if (!br__form_keeps(form, c))
            return false;
    }
    return true;
}

/* Returns the normalized text of an added token. */
static char *normalize(const br_tokenizer *t, const char *text, size_t *length)
{
    br_form form = br__bpe_of(t)->form;
    br_char_list chars = { 0 }, normal = { 0 };
    *length = strlen(text);
    if (!form)
        return br_strdup(text);
    bool ok = br__push_text(&chars, text, &(br_char){ 0 }) && br__apply_form(form, &chars, &normal);
    char *utf8 = ok ? br__chars_to_utf8(normal.items, normal.count, length) : NULL;
    br_free(chars.items);
    br_free(normal.items);
    return utf8;
}

static bool tokenize(const br_tokenizer *t, const br_text *text, const br_encode_options *options,
                     br_token_list *list)
{
    bool kept = is_kept(br__bpe_of(t)->form, text);
    reader r = { .base = { .t = t,
                           .options = options,
                           .list = list,
                           .normalizes = !kept,
                           .read = kept ? read_words : read_changed },
                 .merger.table = &br__bpe_of(t)->merges };
    bool looks_up = br__bpe_of(t)->ignores_merges;
    r.whole = looks_up ? br_malloc(t->all.longest + 1) : NULL;
    bool ok = (r.whole || !looks_up) && br__read_parts(&r.base, text);
    br_free(r.whole);
    br__merger_free(&r.merger);
    return ok;
}

/* ---- The kind -------------------------------------------------------------------------------- */

static void free_bpe(void *model)
{
    br_bpe *bpe = model;
    if (!bpe)
        return;
    br_free(bpe->merges.merges);
    br_free(bpe);
}

const br_tokenizer_kind br__byte_level = { .name = "BPE",
                                           .tokenize = tokenize,
                                           .decode = br__bpe_decode,
                                           .normalize = normalize,
                                           .free = free_bpe };
