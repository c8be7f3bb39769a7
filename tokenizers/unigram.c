/* tokenizers/unigram.c - Unigram: encoding and decoding.
 *
 * A word is segmented by the Viterbi algorithm: for each position, the best segmentation up to it
 * and its last piece are stored, and the segmentation of the word with the greatest sum of scores
 * wins. A code point that is not a piece is unknown; consecutive unknown ones become one token. */
#include "io/io_internal.h"
#include "tensor/min_max.h"
#include "tokenizers/grapheme.h"
#include "tokenizers/unigram_internal.h"

#include <stdio.h>
#include <string.h>

/* The best segmentation up to a position. */
typedef struct path {
    double score;
    int64_t from, to; /* the start of its last piece; on the best path, the end of the next piece */
    int64_t id;
} path;

typedef struct reader {
    br_text_reader base;
    br_char_list text, spare, word;
    path *paths;
    int64_t path_capacity;
    char *utf8;
    int64_t utf8_room;
} reader;

/* ---- The best segmentation ------------------------------------------------------------------- */

static int64_t bytes_of(const br_char *chars, int64_t n)
{
    char utf8[4];
    int64_t bytes = 0;
    for (int64_t i = 0; i < n; i++)
        bytes += br__char_write(chars[i].c, utf8);
    return bytes;
}

/* Stores a path to a position if it is the best so far. SentencePiece adds scores as floats. */
static void offer(const br_unigram *u, path *to, double sum, int64_t from, int64_t id)
{
    sum = u->sentencepiece ? (double)(float)sum : sum;
    if (to->from < 0 || sum > to->score)
        *to = (path){ sum, from, -1, id };
}

static double score_of(const br_unigram *u, int64_t id, const br_char *chars, int64_t n)
{
    if (u->kinds[id] != BR_PIECE_USER)
        return u->scores[id];
    return (double)((float)bytes_of(chars, n) * (float)u->max_score) - 0.1;
}

/* Extends the best path to `at` by every piece that begins there. Returns false if the code point
 * is unknown. */
static bool offer_pieces(const reader *r, const br_tokenizer *t, const br_char *chars, int64_t at,
                         int64_t n)
{
    const br_unigram *u = br__unigram_of(t);
    const br_piece_node *node = br__piece_trie_first(&u->trie, chars[at].c);
    double before = r->paths[at].score;
    bool single = false;
    for (int64_t end = at + 1; node; end++) {
        bool matches = node->id >= 0 && !(br__splits_special(t, r->base.options) &&
                                          u->kinds[node->id] == BR_PIECE_SPECIAL);
        if (matches) {
            offer(u, &r->paths[end], score_of(u, node->id, chars + at, end - at) + before, at,
                  node->id);
            single |= end == at + 1;
        }
        node = end < n ? br__piece_trie_next(&u->trie, node, chars[end].c) : NULL;
    }
    if (!single)
        offer(u, &r->paths[at + 1], u->unknown_score + before, at, t->unknown);
    return single;
}

__attribute__((cold, noinline)) static bool fail_unknown(const reader *r, uint32_t c)
{
    char utf8[5] = "", what[32];
    utf8[br__char_write(c, utf8)] = 0;
    snprintf(what, sizeof what, "'%s'", br_printable(utf8));
    return br__tokenizer_fail_unknown(r->base.t, what);
}

/* Finds the best segmentation of n code points. On its path, ways[i].to is the end of the piece
 * that begins at i, and ways[end].id is the id of the piece that ends at `end`. */
static bool find_best(reader *r, const br_char *chars, int64_t n)
{
    if (r->path_capacity < n + 1) {
        int64_t capacity = 2 * (n + 1);
        br_free(r->paths);
        r->paths = br_malloc((size_t)capacity * sizeof *r->paths);
        r->path_capacity = r->paths ? capacity : 0;
    }
    if (!r->paths)
        return false;
    for (int64_t i = 0; i <= n; i++)
        r->paths[i] = (path){ .from = -1 };
    for (int64_t i = 0; i < n; i++)
        if (!offer_pieces(r, r->base.t, chars, i, n) && r->base.t->unknown < 0)
            return fail_unknown(r, chars[i].c);
    for (int64_t end = n; end > 0; end = r->paths[end].from)
        r->paths[r->paths[end].from].to = end;
    return true;
}

/* ---- Tokens ---------------------------------------------------------------------------------- */

static bool push(reader *r, int64_t id, const br_char *first, const br_char *last)
{
    br_token token = { .id = id, .word = r->base.words };
    br__set_places(&token, first, last);
    return br__push_token(r->base.list, token);
}

/* Writes the UTF-8 of code points to r->utf8. Returns its length, or -1 if allocation fails. */
static int64_t write_utf8(reader *r, const br_char *chars, int64_t n)
{
    if (r->utf8_room < 4 * n) {
        br_free(r->utf8);
        r->utf8 = br_malloc((size_t)(8 * n));
        r->utf8_room = r->utf8 ? 8 * n : 0;
    }
    int64_t length = r->utf8 ? 0 : -1;
    for (int64_t i = 0; r->utf8 && i < n; i++)
        length += br__char_write(chars[i].c, r->utf8 + length);
    return length;
}

/* Pushes a token for each byte. In the fast tokenizer each has the offsets of the text; in
 * SentencePiece only the last one does, and those of the others are empty. */
static bool push_bytes(reader *r, const br_char *chars, int64_t n, int64_t length)
{
    const br_unigram *u = br__unigram_of(r->base.t);
    br_char first = chars[0], none = first;
    none.bytes.end = none.bytes.begin;
    none.chars.end = none.chars.begin;
    for (int64_t i = 0; i < length; i++) {
        bool whole = !u->sentencepiece || i == length - 1;
        if (!push(r, u->byte_ids[(unsigned char)r->utf8[i]], whole ? &first : &none,
                  whole ? &chars[n - 1] : &none))
            return false;
    }
    return true;
}

static bool has_bytes(const br_unigram *u, const char *text, int64_t length)
{
    for (int64_t i = 0; i < length; i++)
        if (u->byte_ids[(unsigned char)text[i]] < 0)
            return false;
    return u->byte_fallback;
}

/* Pushes unknown text: as a piece, if several unknown parts together are one (only the fast
 * tokenizer does this); else as bytes, if all of them have tokens; else as the unknown token. */
__attribute__((cold, noinline)) static bool push_unknown(reader *r, const br_char *chars, int64_t n)
{
    const br_tokenizer *t = r->base.t;
    const br_unigram *u = br__unigram_of(t);
    int64_t length = write_utf8(r, chars, n);
    if (length < 0)
        return false;
    int64_t id = u->sentencepiece ? -1 : br__word_id(&t->all, r->utf8, (size_t)length);
    if (id >= 0 && id < u->size)
        return push(r, id, &chars[0], &chars[n - 1]);
    if (has_bytes(u, r->utf8, length))
        return push_bytes(r, chars, n, length);
    return push(r, t->unknown, &chars[0], &chars[n - 1]);
}

/* Returns the end of the unknown text at `at`. Consecutive unknown parts are joined, except with
 * SentencePiece's byte_fallback, which encodes each code point separately. */
static int64_t unknown_end(const reader *r, int64_t at, int64_t n)
{
    const br_unigram *u = br__unigram_of(r->base.t);
    int64_t end = r->paths[at].to;
    while (end < n && !(u->sentencepiece && u->byte_fallback)) {
        int64_t next = r->paths[end].to;
        if (r->paths[next].id != r->base.t->unknown)
            break;
        end = next;
    }
    return end;
}

static bool tokenize_word(reader *r, const br_char *chars, int64_t n)
{
    const br_unigram *u = br__unigram_of(r->base.t);
    if (n == 0)
        return true;
    if (!find_best(r, chars, n))
        return false;
    for (int64_t at = 0; at < n;) {
        int64_t end = r->paths[at].to, id = r->paths[end].id;
        bool unknown = id == r->base.t->unknown;
        if (u->sentencepiece && at > 0 && chars[at].c == BR_META)
            r->base.words++;
        end = unknown ? unknown_end(r, at, n) : end;
        if (!(unknown ? push_unknown(r, chars + at, end - at)
                      : push(r, id, &chars[at], &chars[end - 1])))
            return false;
        at = end;
    }
    r->base.words++;
    return true;
}

/* ---- Words ----------------------------------------------------------------------------------- */

/* Copies text to r->word with U+2581 for each space, and puts one in front as the setting `prepend`
 * requires. */
static bool add_word(reader *r, const br_char *chars, int64_t n)
{
    const br_unigram *u = br__unigram_of(r->base.t);
    bool front = n > 0 && chars[0].c != BR_META && chars[0].c != ' ' &&
                 (u->prepend == BR_PREPEND_ALWAYS ||
                  (u->prepend == BR_PREPEND_FIRST && chars[0].bytes.begin == 0));
    r->word.count = 0;
    for (int64_t i = -front; i < n; i++) {
        br_char c = chars[br__max(i, 0)];
        c.c = i < 0 || c.c == ' ' ? BR_META : c.c;
        if (!br__push_char(&r->word, c))
            return false;
    }
    return true;
}

/* Tokenizes text. With split_at_meta, each U+2581 begins a word. */
static bool tokenize_words(reader *r, const br_char *chars, int64_t n)
{
    if (!add_word(r, chars, n))
        return false;
    const br_char *word = r->word.items;
    for (int64_t at = 0, end; at < r->word.count; at = end) {
        end = br__unigram_of(r->base.t)->split_at_meta ? at + 1 : r->word.count;
        while (end < r->word.count && word[end].c != BR_META)
            end++;
        if (!tokenize_word(r, word + at, end - at))
            return false;
    }
    return true;
}

static bool tokenize_normalized(br_text_reader *base, const br_char *chars, int64_t n)
{
    reader *r = (reader *)base;
    const br_unigram *u = br__unigram_of(base->t);
    if (base->t->undivided)
        return tokenize_word(r, chars, n);
    if (!u->split_at_spaces)
        return tokenize_words(r, chars, n);
    for (int64_t at = 0, end; at < n; at = end) {
        for (end = at; end < n && !br__is_white(chars[end].c);)
            end++;
        if (end > at && !tokenize_words(r, chars + at, end - at))
            return false;
        end += end == at;
    }
    return true;
}

/* ---- The text -------------------------------------------------------------------------------- */

/* Reads text, or a word that no other part of the text changes. */
static bool read_text(reader *r, br_place *at, const char *end)
{
    br_text_reader *base = &r->base;
    r->text.count = 0;
    while (at->p < end) {
        br_place from = *at;
        br_char c;
        if (!br__read_char(base, at, end, &c.c))
            return false;
        c.bytes = (br_span){ from.p - base->text, at->p - base->text };
        c.chars = (br_span){ from.index, at->index };
        if (!br__push_char(&r->text, c))
            return false;
    }
    const br_unigram *u = br__unigram_of(base->t);
    if (!u->sentencepiece)
        return br__unigram_normalize(u, &r->text, &r->spare) &&
               br__read_late(base, r->text.items, r->text.count, tokenize_normalized);
    return br__sentencepiece_normalize(u, &r->text, &r->spare) &&
           tokenize_word(r, r->spare.items, r->spare.count);
}

/* ---- Ids alone ------------------------------------------------------------------------------- */

/* Returns whether the ids of the text between two white spaces depend on its bytes alone. */
static bool words_are_independent(const reader *r)
{
    const br_tokenizer *t = r->base.t;
    const br_unigram *u = br__unigram_of(t);
    return u->split_at_spaces && !u->sentencepiece && u->prepend != BR_PREPEND_FIRST &&
           !t->has_late && !t->undivided && !br__splits_special(t, r->base.options) &&
           br__unigram_keeps_words(u);
}

static bool is_printable_ascii(char c)
{
    return c >= ' ' && c <= '~';
}

/* Returns whether a space at p, in the text begin .. end-1, is a grapheme cluster of its own. If it
 * is not, its neighbours and the space may be normalized together. */
static bool is_own_cluster(const char *begin, const char *p, const char *end)
{
    uint32_t c;
    bool valid;
    if (p > begin && !is_printable_ascii(p[-1])) {
        br__char_before(begin, p, &c);
        if (br__graphemes_join(c, (unsigned char)*p))
            return false;
    }
    if (p + 1 == end || is_printable_ascii(p[1]))
        return true;
    br__char_read(p + 1, end, &c, &valid);
    return !br__graphemes_join((unsigned char)*p, c);
}

static bool read_word(br_text_reader *base, const char *word, size_t length)
{
    br_place at = { word, 0 };
    return read_text((reader *)base, &at, word + length);
}

/* Reads text by words to ids alone. */
static bool read_ids(reader *r, br_place *at, const char *end)
{
    const br_unigram *u = br__unigram_of(r->base.t);
    const char *begin = at->p, *p = begin;
    for (; at->p < end; at->p = p + 1, p++) {
        while (p < end && !(u->spaces[(unsigned char)*p] && is_own_cluster(begin, p, end)))
            p++;
        if (p > at->p && !br__read_cached(&r->base, at->p, (size_t)(p - at->p), end, read_word))
            return false;
    }
    at->p = end;
    return true;
}

static bool read_part(br_text_reader *base, br_place *at, const char *end)
{
    reader *r = (reader *)base;
    bool by_words = base->list->cache && words_are_independent(r);
    return by_words ? read_ids(r, at, end) : read_text(r, at, end);
}

static bool tokenize(const br_tokenizer *t, const br_text *text, const br_encode_options *options,
                     br_token_list *list)
{
    reader r = {
        .base = { .t = t, .options = options, .list = list, .normalizes = true, .read = read_part }
    };
    bool ok = br__read_parts(&r.base, text);
    br_free(r.text.items);
    br_free(r.spare.items);
    br_free(r.word.items);
    br_free(r.paths);
    br_free(r.utf8);
    return ok;
}

/* SentencePiece's own variant has no late tokens. */
static char *normalize(const br_tokenizer *t, const char *text, size_t *length)
{
    br_char_list chars = { 0 }, spare = { 0 };
    bool ok = br__push_text(&chars, text, &(br_char){ 0 }) &&
              br__unigram_normalize(br__unigram_of(t), &chars, &spare);
    char *utf8 = ok ? br__chars_to_utf8(chars.items, chars.count, length) : NULL;
    br_free(chars.items);
    br_free(spare.items);
    return utf8;
}

/* ---- The kind -------------------------------------------------------------------------------- */

static char *decode(const br_tokenizer *t, int64_t n, const int64_t *ids, bool skip_special,
                    int64_t *length)
{
    const br_unigram *u = br__unigram_of(t);
    br_piece_decoder d = { .bytes = u->decode_bytes,
                           .drops_front = u->drop_front,
                           .sentencepiece = u->sentencepiece,
                           .keeps_spaces = u->keep_spaces };
    return br__decode_by(t, &d, n, ids, skip_special, length);
}

static bool decodes_bytes(const br_tokenizer *t)
{
    return br__unigram_of(t)->decode_bytes;
}

static void free_unigram(void *model)
{
    br_unigram *u = model;
    if (!u)
        return;
    br__charsmap_free(&u->charsmap);
    for (int i = 0; i < u->n_steps; i++) {
        br_free(u->steps[i].pattern);
        br_free(u->steps[i].content);
    }
    br__piece_trie_free(&u->trie);
    br__piece_trie_free(&u->user);
    br_free(u->scores);
    br_free(u->kinds);
    br_free(u->same);
    br_free(u);
}

const br_tokenizer_kind br__unigram = { .name = "Unigram",
                                        .tokenize = tokenize,
                                        .decode = decode,
                                        .normalize = normalize,
                                        .decodes_bytes = decodes_bytes,
                                        .free = free_unigram };
