/* data/unigram.c - Unigram: from text to tokens and back.
 *
 * Of all ways to cut a word into pieces the one whose scores have the greatest sum is taken: for
 * each place of the word the best way there is kept, and which piece it ends with. A code point
 * that is no piece is an unknown one; unknown ones in a row are one token. */
#include "data/unigram_internal.h"
#include "io/io_internal.h"

#include <stdio.h>
#include <string.h>

/* The best way to a place. */
typedef struct way {
    double score;
    int64_t from,
        to; /* where its last piece begins; then, on the best way, where the next one ends */
    int64_t id;
} way;

typedef struct reader {
    br_text_reader base;
    br_char_list text, spare, word;
    way *ways;
    int64_t way_room;
    char *utf8;
    int64_t utf8_room;
} reader;

/* ---- The best way ---------------------------------------------------------------------------- */

static int64_t bytes_of(const br_char *chars, int64_t n)
{
    char utf8[4];
    int64_t bytes = 0;
    for (int64_t i = 0; i < n; i++)
        bytes += br__char_write(chars[i].c, utf8);
    return bytes;
}

/* The sum of a score and those before it; SentencePiece adds floats. */
static void offer(const br_unigram *u, way *to, double sum, int64_t from, int64_t id)
{
    sum = u->sentencepiece ? (double)(float)sum : sum;
    if (to->from < 0 || sum > to->score)
        *to = (way){ sum, from, -1, id };
}

static double score_of(const br_unigram *u, int64_t id, const br_char *chars, int64_t n)
{
    if (u->kinds[id] != BR_PIECE_USER)
        return u->scores[id];
    return (double)((float)bytes_of(chars, n) * (float)u->most) - 0.1;
}

/* Every piece that begins at `at`, with what it leads to. */
static void offer_pieces(const reader *r, const br_tokenizer *t, const br_char *chars, int64_t at,
                         int64_t n)
{
    const br_unigram *u = br__unigram_of(t);
    const br_piece_node *node = u->trie.nodes;
    double before = r->ways[at].score;
    bool single = false;
    for (int64_t end = at + 1; end <= n; end++) {
        node = br__piece_trie_next(&u->trie, node, chars[end - 1].c);
        if (!node)
            break;
        bool taken = node->id >= 0 && !(r->base.options->split_special_tokens &&
                                        u->kinds[node->id] == BR_PIECE_SPECIAL);
        if (!taken)
            continue;
        offer(u, &r->ways[end], score_of(u, node->id, chars + at, end - at) + before, at, node->id);
        single |= end == at + 1;
    }
    if (!single)
        offer(u, &r->ways[at + 1], u->unknown_score + before, at, t->unknown);
}

/* Leaves in ways[] for each place of the best way where its piece ends, and in that its id. */
static bool find_best(reader *r, const br_char *chars, int64_t n)
{
    if (r->way_room < n + 1) {
        int64_t room = 2 * (n + 1);
        br_free(r->ways);
        r->ways = br__malloc((size_t)room * sizeof *r->ways);
        r->way_room = r->ways ? room : 0;
    }
    if (!r->ways)
        return false;
    for (int64_t i = 0; i <= n; i++)
        r->ways[i] = (way){ .from = -1 };
    for (int64_t i = 0; i < n; i++)
        offer_pieces(r, r->base.t, chars, i, n);
    for (int64_t end = n; end > 0; end = r->ways[end].from)
        r->ways[r->ways[end].from].to = end;
    return true;
}

/* ---- Tokens ---------------------------------------------------------------------------------- */

static bool push(reader *r, int64_t id, const br_char *first, const br_char *last)
{
    return br__push_token(r->base.list,
                          (br_token){ .id = id,
                                      .word = r->base.words,
                                      .bytes = { first->bytes.begin, last->bytes.end },
                                      .chars = { first->chars.begin, last->chars.end } });
}

/* The UTF-8 of code points in r->utf8; its length, -1 if memory fails. */
static int64_t write_utf8(reader *r, const br_char *chars, int64_t n)
{
    if (r->utf8_room < 4 * n) {
        br_free(r->utf8);
        r->utf8 = br__malloc((size_t)(8 * n));
        r->utf8_room = r->utf8 ? 8 * n : 0;
    }
    int64_t length = r->utf8 ? 0 : -1;
    for (int64_t i = 0; r->utf8 && i < n; i++)
        length += br__char_write(chars[i].c, r->utf8 + length);
    return length;
}

/* A token for each byte. In SentencePiece the last has all of the place, the others none. */
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

/* What is unknown: a piece after all, as the fast tokenizer takes it if several parts together are
 * one; bytes, if there are such; the unknown token. */
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

/* Unknown parts in a row are one; SentencePiece's bytes are those of each code point. */
static int64_t unknown_end(const reader *r, int64_t at, int64_t n)
{
    const br_unigram *u = br__unigram_of(r->base.t);
    int64_t end = r->ways[at].to;
    while (end < n && !(u->sentencepiece && u->byte_fallback)) {
        int64_t next = r->ways[end].to;
        if (r->ways[next].id != r->base.t->unknown)
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
        int64_t end = r->ways[at].to, id = r->ways[end].id;
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

/* Puts text without white space, or all of it, into r->word: with U+2581 for spaces and in front.
 */
static bool take_word(reader *r, const br_char *chars, int64_t n)
{
    const br_unigram *u = br__unigram_of(r->base.t);
    bool front = n > 0 && chars[0].c != BR_META && chars[0].c != ' ' &&
                 (u->prepend == BR_PREPEND_ALWAYS ||
                  (u->prepend == BR_PREPEND_FIRST && chars[0].bytes.begin == 0));
    r->word.count = 0;
    for (int64_t i = -front; i < n; i++) {
        br_char c = chars[i < 0 ? 0 : i];
        c.c = i < 0 || c.c == ' ' ? BR_META : c.c;
        if (!br__push_char(&r->word, c))
            return false;
    }
    return true;
}

/* Each U+2581 begins a word. */
static bool tokenize_words(reader *r, const br_char *chars, int64_t n)
{
    if (!take_word(r, chars, n))
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

static bool tokenize_fast(reader *r)
{
    const br_unigram *u = br__unigram_of(r->base.t);
    if (!br__unigram_normalize(u, &r->text, &r->spare))
        return false;
    const br_char *chars = r->text.items;
    int64_t n = r->text.count;
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

static bool read_part(br_text_reader *base, br_place *at, const char *end)
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
        if (!br__push_char(&r->text, c))
            return false;
    }
    const br_unigram *u = br__unigram_of(base->t);
    if (!u->sentencepiece)
        return tokenize_fast(r);
    return br__sentencepiece_normalize(u, &r->text, &r->spare) &&
           tokenize_word(r, r->spare.items, r->spare.count);
}

static bool tokenize(const br_tokenizer *t, const br_text *text, const br_encode_options *options,
                     br_token_list *list)
{
    reader r = { .base = { .t = t, .options = options, .list = list, .read = read_part } };
    bool ok = br__read_parts(&r.base, text);
    br_free(r.text.items);
    br_free(r.spare.items);
    br_free(r.word.items);
    br_free(r.ways);
    br_free(r.utf8);
    return ok;
}

/* ---- Decoding -------------------------------------------------------------------------------- */

/* The byte that "<0xE4>" stands for, or -1. */
static int byte_of(const char *token)
{
    unsigned byte;
    int end = 0;
    bool form = strlen(token) == 6 && strspn(token + 3, "0123456789ABCDEFabcdef") == 2 &&
                sscanf(token, "<0x%2x>%n", &byte, &end) == 1 && end == 6;
    return form ? (int)byte : -1;
}

/* Bytes that tokens stand for: a text if they are one, else U+FFFD for each. */
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

/* U+2581 is a space; at the beginning of the text it is the one that was put there. */
static size_t write_token(const char *token, bool drop, char *out)
{
    static const char meta[] = "\xe2\x96\x81";
    size_t n = 0;
    while (*token) {
        bool is_meta = strncmp(token, meta, strlen(meta)) == 0;
        if (!is_meta)
            out[n++] = *token;
        else if (!drop)
            out[n++] = ' ';
        token += is_meta ? strlen(meta) : 1;
    }
    return n;
}

/* The bytes are collected in `bytes`, which has room for those of all tokens. */
static void join(const br_tokenizer *t, int64_t n, const int64_t *ids, bool skip, char *bytes,
                 char *out)
{
    const br_unigram *u = br__unigram_of(t);
    size_t n_bytes = 0, length = 0;
    bool first = true;
    for (int64_t i = 0; i < n; i++) {
        if (skip && br__is_special(t, ids[i]))
            continue;
        int byte = u->decode_bytes ? byte_of(t->tokens[ids[i]]) : -1;
        if (byte >= 0) {
            bytes[n_bytes++] = (char)byte;
            continue;
        }
        length += write_bytes(bytes, n_bytes, out + length);
        length +=
            write_token(t->tokens[ids[i]], u->drop_front && first && n_bytes == 0, out + length);
        n_bytes = 0;
        first = false;
    }
    length += write_bytes(bytes, n_bytes, out + length);
    out[length] = 0;
}

static char *decode(const br_tokenizer *t, int64_t n, const int64_t *ids, bool skip_special)
{
    size_t room = 1;
    for (int64_t i = 0; i < n; i++) {
        const char *token = br_tokenizer_token(t, ids[i]);
        if (!token)
            return NULL;
        room += strlen(token);
    }
    char *out = br__malloc(room), *bytes = br__malloc((size_t)n + 1);
    if (out && bytes) {
        join(t, n, ids, skip_special, bytes, out);
    } else {
        br_free(out);
        out = NULL;
    }
    br_free(bytes);
    return out;
}

/* ---- The kind -------------------------------------------------------------------------------- */

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
    br_free(u->trie.nodes);
    br_free(u->user.nodes);
    br_free(u->scores);
    br_free(u->kinds);
    br_free(u);
}

const br_tokenizer_kind br__unigram = { tokenize, NULL, decode, free_unigram };
