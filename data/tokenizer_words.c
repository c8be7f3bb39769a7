/* data/tokenizer_words.c - encodes text to WordPiece tokens: added tokens, normalization, words,
 * word pieces.
 *
 * A text is read once, code point by code point. Only the current run of combining marks and the
 * current word are buffered, so time and memory are linear for any input. */
#include "data/tokenizer_internal.h"

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
    const br_tokenizer *t;
    bool strict;
    br_token_list *list;
    int64_t index, words; /* code points and words before this place */

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
    return br__push_token(r->list, (br_token){
                                       .id = id,
                                       .word = r->words,
                                       .bytes = { first->byte, last->byte + last->length },
                                       .chars = { first->index, last->index + 1 },
                                   });
}

/* ---- Words ----------------------------------------------------------------------------------- */

/* Finds the longest piece in the vocabulary that starts at code point `begin` of the word. Returns
 * its end, or `begin` if there is none. */
static int64_t longest_piece(const reader *r, int64_t begin, int64_t *id)
{
    const br_word_ids *words = begin == 0 ? &r->t->all : &r->t->inner;
    const char *text = r->text + r->starts[begin];
    for (int64_t end = r->chars; end > begin; end--) {
        size_t length = (size_t)(r->starts[end] - r->starts[begin]);
        *id = length <= words->longest ? br__word_id(words, text, length) : -1;
        if (*id >= 0)
            return end;
    }
    return begin;
}

/* Ends the current word, if there is one. A word with an unknown part becomes one unknown token. */
static bool end_word(reader *r)
{
    if (r->chars == 0)
        return true;
    int64_t before = r->list->count, begin = 0;
    bool known = r->chars <= r->t->max_word, ok = true;
    while (known && ok && begin < r->chars) {
        int64_t id, end = longest_piece(r, begin, &id);
        known = end > begin;
        ok = !known || push_token(r, id, &r->places[begin], &r->places[end - 1]);
        begin = end;
    }
    if (!known) {
        r->list->count = before;
        ok = push_token(r, r->t->unknown, &r->places[0], &r->word_end);
    }
    r->chars = 0;
    r->words++;
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
    if (r->chars > r->t->max_word)
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
    if (kind & BR_CHAR_SPACE)
        return end_word(r);
    if (kind & BR_CHAR_PUNCTUATION)
        return end_word(r) && push_char(r, c, from) && end_word(r);
    return push_char(r, c, from);
}

/* ---- Normalisation --------------------------------------------------------------------------- */

static bool lower(reader *r, uint32_t c, unsigned kind, origin from)
{
    if (!r->t->lowercase || !(kind & BR_CHAR_UPPER))
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
    if (!r->t->strip_accents)
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
    if (r->t->clean && (kind & BR_CHAR_DROP))
        return true;
    if (!r->t->spread_chinese || !(kind & BR_CHAR_CHINESE))
        return strip(r, c, kind, from);
    unsigned space = br__char_kind(' ');
    return strip(r, ' ', space, from) && strip(r, c, kind, from) && strip(r, ' ', space, from);
}

/* ---- The text -------------------------------------------------------------------------------- */

/* Ends the text before an added token, which is normalized separately. */
static bool end_segment(reader *r)
{
    return end_run(r) && end_word(r);
}

static bool read_added(reader *r, const br_added_token *a, int64_t byte)
{
    if (!end_segment(r))
        return false;
    int64_t chars = br__count_chars(a->text, a->length);
    origin first = { byte, r->index, 0 };
    origin last = { byte, r->index + chars - 1, (int)a->length };
    if (!push_token(r, a->id, &first, &last))
        return false;
    r->words++;
    r->index += chars;
    return true;
}

static bool read_text(reader *r, const char *text, const char *end, bool look_for_added)
{
    for (const char *p = text; p < end;) {
        const br_added_token *a = look_for_added ? br__added_at(r->t, p, end, false) : NULL;
        if (a) {
            if (!read_added(r, a, p - text))
                return false;
            p += a->length;
            continue;
        }
        uint32_t c;
        bool valid;
        int length = br__char_read(p, end, &c, &valid);
        if (!valid && r->strict)
            return br__fail(BR_ERROR_ARGUMENT, "tokenizer_encode",
                            "text is not valid UTF-8 at byte %lld", (long long)(p - text));
        if (!normalise(r, c, (origin){ p - text, r->index++, length }))
            return false;
        p += length;
    }
    return end_segment(r);
}

bool br__tokenize_words(const br_tokenizer *t, const br_text *text,
                        const br_encode_options *options, br_token_list *list)
{
    reader r = { .t = t, .strict = options->strict_utf8, .list = list };
    const char *data = text->data ? text->data : "";
    size_t length = text->length < 0 ? strlen(data) : (size_t)text->length;
    bool ok = read_text(&r, data, data + length, !options->split_special_tokens);
    br_free(r.run);
    br_free(r.run_origins);
    br_free(r.text);
    br_free(r.starts);
    br_free(r.places);
    return ok;
}
