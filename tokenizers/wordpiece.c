/* tokenizers/wordpiece.c - encodes text to WordPiece tokens: added tokens, normalization, words,
 * word pieces.
 *
 * A text is read once, code point by code point. Only the current run of combining marks and the
 * current word are buffered, so time and memory are linear for any input. */
#include "tokenizers/tokenizer_internal.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

/* The source of a normalized code point in the text. */
typedef struct origin {
    int64_t byte, index;
    int length;
} origin;

/* A combining mark in a run that is not yet in canonical order. */
typedef struct pending_mark {
    uint32_t c;
    unsigned kind;
    int class;
    bool added; /* a code point of a decomposition other than the first */
    int64_t order;
} pending_mark;

typedef struct reader {
    br_text_reader base;
    bool collects;       /* store the normalized text in `normal`, where late tokens are matched */
    br_char_list normal; /* of the text between added tokens */

    pending_mark *run; /* marks in the order of the text */
    origin *run_origins;
    int64_t n_run, run_capacity, n_origins;
    origin last; /* origin of the last decomposed code point */

    char *text;     /* the current word */
    int *starts;    /* where its code points start in `text`, and where the last one ends */
    origin *places; /* origins of its code points */
    int64_t chars;  /* number of its code points; max_word + 1 if there are too many */
    int64_t word_capacity;
    origin word_end;
} reader;

/* ---- Tokens ---------------------------------------------------------------------------------- */

static bool push_token(reader *r, int64_t id, const origin *first, const origin *last)
{
    return br__push_token(r->base.list, (br_token){
                                            .id = id,
                                            .word = r->base.words,
                                            .bytes = { first->byte, last->byte + last->length },
                                            .chars = { first->index, last->index + 1 },
                                        });
}

/* ---- Words ----------------------------------------------------------------------------------- */

/* Finds the longest piece in the vocabulary that starts at code point `begin` of the word. Returns
 * its end, or `begin` if there is none. */
static int64_t longest_piece(const reader *r, int64_t begin, int64_t *id)
{
    const br_word_ids *words = begin == 0 ? &r->base.t->all : &r->base.t->inner;
    const char *text = r->text + r->starts[begin];
    for (int64_t end = r->chars; end > begin; end--) {
        size_t length = (size_t)(r->starts[end] - r->starts[begin]);
        *id = length <= words->longest ? br__word_id(words, text, length) : -1;
        if (*id >= 0 && *id < r->base.t->model_size)
            return end;
    }
    return begin;
}

__attribute__((cold, noinline)) static bool fail_unknown(reader *r)
{
    r->text[r->starts[r->chars]] = 0; /* reserve_word() left room */
    char *what = br_format("the word '%s'", br_printable(r->text));
    if (what)
        br__tokenizer_fail_unknown(r->base.t, what);
    br_free(what);
    return false;
}

/* Ends the current word, if there is one. A word with an unknown part becomes one unknown token. */
static bool end_word(reader *r)
{
    if (r->chars == 0)
        return true;
    int64_t before = r->base.list->count, begin = 0;
    bool known = r->chars <= r->base.t->max_word, ok = true;
    while (known && ok && begin < r->chars) {
        int64_t id, end = longest_piece(r, begin, &id);
        known = end > begin;
        ok = !known || push_token(r, id, &r->places[begin], &r->places[end - 1]);
        begin = end;
    }
    if (!known && r->base.t->unknown < 0)
        return fail_unknown(r);
    if (!known) {
        r->base.list->count = before;
        ok = push_token(r, r->base.t->unknown, &r->places[0], &r->word_end);
    }
    r->chars = 0;
    r->base.words++;
    return ok;
}

static bool reserve_word(reader *r)
{
    if (r->chars + 1 < r->word_capacity)
        return true;
    size_t old = (size_t)r->word_capacity, capacity = old ? 2 * old : 128;
    char *text = br__realloc(r->text, 4 * old, 4 * capacity);
    r->text = text ? text : r->text;
    int *starts = br__realloc(r->starts, old * sizeof *starts, capacity * sizeof *starts);
    r->starts = starts ? starts : r->starts;
    origin *places = br__realloc(r->places, old * sizeof *places, capacity * sizeof *places);
    r->places = places ? places : r->places;
    if (!text || !starts || !places)
        return false;
    r->word_capacity = (int64_t)capacity;
    return true;
}

/* Appends a code point to the current word. If the word is too long, only updates its end. */
static bool push_char(reader *r, uint32_t c, origin from)
{
    r->word_end = from;
    if (r->chars > r->base.t->max_word)
        return true;
    if (!reserve_word(r))
        return false;
    int start = r->chars == 0 ? 0 : r->starts[r->chars];
    int length = br__char_write(c, r->text + start);
    r->places[r->chars] = from;
    r->starts[r->chars++] = start;
    r->starts[r->chars] = start + length;
    return true;
}

static bool split(reader *r, uint32_t c, unsigned kind, origin from)
{
    if (r->collects) {
        br_char normal = { c,
                           { from.byte, from.byte + from.length },
                           { from.index, from.index + 1 } };
        return br__push_char(&r->normal, normal);
    }
    if (r->base.t->undivided)
        return push_char(r, c, from);
    if (kind & BR_CHAR_SPACE)
        return end_word(r);
    if (kind & BR_CHAR_PUNCTUATION)
        return end_word(r) && push_char(r, c, from) && end_word(r);
    return push_char(r, c, from);
}

/* ---- Normalisation --------------------------------------------------------------------------- */

static bool lower(reader *r, uint32_t c, unsigned kind, origin from)
{
    if (!r->base.t->lowercase || !(kind & BR_CHAR_UPPER))
        return split(r, c, kind, from);
    uint32_t small[2];
    int n = br__char_lower(c, small);
    for (int i = 0; i < n; i++)
        if (!split(r, small[i], br__char_kind(small[i]), from))
            return false;
    return true;
}

static int by_class(const void *a, const void *b)
{
    const pending_mark *x = a, *y = b;
    if (x->class != y->class)
        return x->class - y->class;
    return x->order < y->order ? -1 : 1;
}

/* Passes the run of marks on in canonical order. As in Hugging Face's fast tokenizer, origins stay
 * in the order of the text: each mark gets the next one, not its own. */
static bool end_run(reader *r)
{
    if (r->n_run > 1)
        qsort(r->run, (size_t)r->n_run, sizeof *r->run, by_class);
    bool ok = true;
    for (int64_t i = 0, next = 0; ok && i < r->n_run; i++) {
        const pending_mark *w = &r->run[i];
        if (!w->added)
            r->last = r->run_origins[next++];
        ok = (w->kind & BR_CHAR_MARK) || lower(r, w->c, w->kind, r->last);
    }
    r->n_run = r->n_origins = 0;
    return ok;
}

static bool hold(reader *r, uint32_t c, unsigned kind, bool added, origin from)
{
    int64_t capacity = r->run_capacity;
    pending_mark *run = br__grow_tokens(r->run, &capacity, r->n_run, sizeof *run);
    if (!run)
        return false;
    r->run = run;
    if (capacity != r->run_capacity) {
        origin *origins = br__realloc(r->run_origins, (size_t)r->run_capacity * sizeof *origins,
                                      (size_t)capacity * sizeof *origins);
        if (!origins)
            return false;
        r->run_origins = origins;
        r->run_capacity = capacity;
    }
    int class = utf8proc_get_property((utf8proc_int32_t)c)->combining_class;
    run[r->n_run] =
        (pending_mark){ .c = c, .kind = kind, .class = class, .added = added, .order = r->n_run };
    r->n_run++;
    if (!added)
        r->run_origins[r->n_origins++] = from;
    return true;
}

/* Handles a code point of the canonical decomposition. */
static bool decomposed(reader *r, uint32_t c, unsigned kind, bool added, origin from)
{
    if (kind & BR_CHAR_REORDERS)
        return hold(r, c, kind, added, from);
    if (r->n_run && !end_run(r))
        return false;
    if (!added)
        r->last = from;
    return (kind & BR_CHAR_MARK) || lower(r, c, kind, r->last);
}

static bool strip(reader *r, uint32_t c, unsigned kind, origin from)
{
    if (!r->base.t->strip_accents)
        return lower(r, c, kind, from);
    if (!(kind & BR_CHAR_DECOMPOSES))
        return decomposed(r, c, kind, false, from);
    utf8proc_int32_t parts[8];
    int unused = 0;
    utf8proc_ssize_t n =
        utf8proc_decompose_char((utf8proc_int32_t)c, parts, 8, UTF8PROC_DECOMPOSE, &unused);
    for (utf8proc_ssize_t i = 0; i < n; i++) {
        uint32_t part = (uint32_t)parts[i];
        if (!decomposed(r, part, br__char_kind(part), i > 0, from))
            return false;
    }
    return true;
}

static bool normalise(reader *r, uint32_t c, origin from)
{
    unsigned kind = br__char_kind(c);
    if (r->base.t->clean && (kind & BR_CHAR_DROP))
        return true;
    if (r->base.t->clean && (kind & BR_CHAR_SPACE))
        c = ' ';
    if (!r->base.t->spread_chinese || !(kind & BR_CHAR_CHINESE))
        return strip(r, c, kind, from);
    unsigned space = br__char_kind(' ');
    return strip(r, ' ', space, from) && strip(r, c, kind, from) && strip(r, ' ', space, from);
}

/* ---- The text -------------------------------------------------------------------------------- */

static bool read_normal(br_text_reader *base, const br_char *chars, int64_t n)
{
    reader *r = (reader *)base;
    for (int64_t i = 0; i < n; i++) {
        const br_char *c = &chars[i];
        origin from = { c->bytes.begin, c->chars.begin, (int)(c->bytes.end - c->bytes.begin) };
        if (!split(r, c->c, br__char_kind(c->c), from))
            return false;
    }
    return end_word(r);
}

/* Reads the code point at *at, and advances *at past it. */
static bool read_char(reader *r, br_place *at, const char *end)
{
    br_place from = *at;
    uint32_t c;
    return br__read_char(&r->base, at, end, &c) &&
           normalise(r, c, (origin){ from.p - r->base.text, from.index, (int)(at->p - from.p) });
}

/* ---- Ids alone ------------------------------------------------------------------------------- */

/* What separates words: spaces, and code points that are words. They also end runs of combining
 * marks. So the ids of the text between two of them depend on its bytes alone. */
typedef struct splitter {
    const uint8_t *ascii; /* indices into br__bert_chars.kinds */
    unsigned separates;   /* kinds of code points */
} splitter;

static splitter splitter_of(const br_tokenizer *t)
{
    return (splitter){ .ascii = br__page_of_char(&br__bert_chars, 0),
                       .separates = BR_CHAR_SPACE | BR_CHAR_PUNCTUATION |
                                    (t->spread_chinese ? BR_CHAR_CHINESE : 0) };
}

/* Returns whether the code point at p separates words, and its length. */
static inline bool separates(const splitter *s, const char *p, const char *end, int *length)
{
    const unsigned removed = BR_CHAR_DROP | BR_CHAR_MARK | BR_CHAR_REORDERS; /* or moved */
    uint32_t c = (unsigned char)*p;
    unsigned kind;
    if (c < 128) { /* the usual case, without a call */
        *length = 1;
        kind = br__bert_chars.kinds[s->ascii[c]];
    } else {
        bool valid;
        *length = br__char_read(p, end, &c, &valid);
        kind = valid ? br__char_kind(c) : 0;
    }
    return (kind & s->separates) && !(kind & removed);
}

/* Returns the end of the word at p, or of the separator. */
static const char *end_of(const splitter *s, const char *p, const char *end)
{
    int length;
    if (separates(s, p, end, &length))
        return p + length;
    do {
        p += length;
    } while (p < end && !separates(s, p, end, &length));
    return p;
}

static bool read_word(br_text_reader *base, const char *word, size_t length)
{
    reader *r = (reader *)base;
    br_place at = { word, 0 };
    while (at.p < word + length)
        if (!read_char(r, &at, word + length))
            return false;
    return end_run(r) && end_word(r);
}

/* Reads text by words to ids alone. */
static bool read_ids(reader *r, br_place *at, const char *end)
{
    const splitter s = splitter_of(r->base.t);
    for (const char *over; at->p < end; at->p = over) {
        over = end_of(&s, at->p, end);
        if (*at->p != ' ' && /* the most frequent separator, which has no ids */
            !br__read_cached(&r->base, at->p, (size_t)(over - at->p), end, read_word))
            return false;
    }
    return true;
}

/* ---------------------------------------------------------------------------------------------- */

/* Reads text without added tokens, except late ones. */
static bool read_part(br_text_reader *base, br_place *at, const char *end)
{
    reader *r = (reader *)base;
    r->collects = base->t->has_late;
    r->normal.count = 0;
    if (base->list->cache && !r->collects && !base->t->undivided)
        return read_ids(r, at, end);
    while (at->p < end)
        if (!read_char(r, at, end))
            return false;
    if (!end_run(r))
        return false;
    if (!r->collects)
        return end_word(r);
    r->collects = false;
    return br__read_late(base, r->normal.items, r->normal.count, read_normal);
}

static void free_reader(reader *r)
{
    br_free(r->normal.items);
    br_free(r->run);
    br_free(r->run_origins);
    br_free(r->text);
    br_free(r->starts);
    br_free(r->places);
}

bool br__tokenize_words(const br_tokenizer *t, const br_text *text,
                        const br_encode_options *options, br_token_list *list)
{
    reader r = {
        .base = { .t = t, .options = options, .list = list, .normalizes = true, .read = read_part }
    };
    bool ok = br__read_parts(&r.base, text);
    free_reader(&r);
    return ok;
}

char *br__normalize_words(const br_tokenizer *t, const char *text, size_t *length)
{
    reader r = { .base = { .t = t }, .collects = true };
    bool ok = true;
    for (const char *p = text, *end = text + strlen(text); ok && p < end;) {
        uint32_t c;
        bool valid;
        p += br__char_read(p, end, &c, &valid);
        ok = normalise(&r, c, (origin){ 0 });
    }
    ok = ok && end_run(&r);
    char *utf8 = ok ? br__chars_to_utf8(r.normal.items, r.normal.count, length) : NULL;
    free_reader(&r);
    return utf8;
}

/* ---- Decoding -------------------------------------------------------------------------------- */

/* Returns true if clean-up removes the space before this token. */
static bool removes_space_before(const char *token)
{
    static const char *const marks[] = { ".", "?", "!", ",", "n't", "'m", "'s", "'ve", "'re" };
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++)
        if (strncmp(token, marks[i], strlen(marks[i])) == 0)
            return true;
    return false;
}

/* Writes the text to `out` unless that is NULL. Returns its length, or -1 and an error. */
static int64_t join(const br_tokenizer *t, int64_t n, const int64_t *ids, bool skip, char *out)
{
    size_t prefix = strlen(t->prefix);
    int64_t length = 0;
    for (int64_t i = 0, first = 1; i < n; i++) {
        const char *token = br_tokenizer_token(t, ids[i]);
        if (!token)
            return -1;
        if (skip && br__is_skipped(t, ids[i]))
            continue;
        bool inner = !first && !t->spaced && strncmp(token, t->prefix, prefix) == 0;
        bool cleaned = t->cleanup && !t->spaced && removes_space_before(token);
        bool space = !first && !inner && !cleaned;
        token += inner ? prefix : 0;
        if (out) {
            out[length] = ' ';
            strcpy(out + length + space, token);
        }
        length += space + (int64_t)strlen(token);
        first = 0;
    }
    return length;
}

char *br__decode_pieces(const br_tokenizer *t, int64_t n, const int64_t *ids, bool skip_special,
                        int64_t *length)
{
    *length = join(t, n, ids, skip_special, NULL);
    char *text = *length < 0 ? NULL : br_malloc((size_t)*length + 1);
    if (text) {
        text[0] = 0;
        join(t, n, ids, skip_special, text);
    }
    return text;
}

const br_tokenizer_kind br__word_pieces = { .name = "WordPiece",
                                            .tokenize = br__tokenize_words,
                                            .decode = br__decode_pieces,
                                            .normalize = br__normalize_words };
