/* tokenizers/encode.c - builds encodings with offsets from tokens: truncation to overlapping parts,
 * special tokens, padding. */
#include "tokenizers/encode_internal.h"

#include <inttypes.h>
#include <string.h>

static const char op[] = "tokenizer_encode";

/* Tokens begin .. end-1 of a text. */
typedef struct part {
    int64_t begin, end;
} part;

/* A text's tokens, and the parts into which truncation splits them. The first part is kept, the
 * others are the overflow. */
typedef struct sequence {
    const char *text;
    br_token_list tokens;
    part *parts;
    int64_t n_parts;
} sequence;

static void free_sequence(sequence *s)
{
    br__free_tokens(&s->tokens);
    br_free(s->parts);
}

/* ---- Truncation ------------------------------------------------------------------------------ */

/* Returns part i of `count` tokens, counted from the beginning or from the end. */
static part part_of(int64_t i, int64_t count, int64_t capacity, int64_t step, bool from_end)
{
    int64_t begin = i * step, end = count - begin < capacity ? count : begin + capacity;
    return from_end ? (part){ count - end, count - begin } : (part){ begin, end };
}

/* Splits a sequence into parts of at most `capacity` tokens. If `capacity` is 0, keeps one empty
 * part and no overflow. */
static bool cut(sequence *s, int64_t capacity, const br_encode_options *o)
{
    int64_t count = s->tokens.count, step = capacity - o->stride;
    if (!br__check_stride(o, count, capacity))
        return false;
    s->n_parts = capacity >= count || capacity == 0 ? 1 : 1 + (count - capacity + step - 1) / step;
    s->parts = br_malloc((size_t)s->n_parts * sizeof *s->parts);
    for (int64_t i = 0; s->parts && i < s->n_parts; i++)
        s->parts[i] = part_of(i, count, capacity, step, o->truncate_left);
    if (s->parts && capacity == 0)
        s->parts[0] = (part){ 0, 0 };
    return s->parts;
}

/* Splits the texts into parts. */
static bool cut_all(const br_encode_options *o, const br_layout *l, sequence s[2])
{
    int64_t n[2] = { s[0].tokens.count, s[1].tokens.count };
    return br__fit_texts(o, l, n) && cut(&s[0], n[0], o) && (!l->pair || cut(&s[1], n[1], o));
}

/* ---- Encodings ------------------------------------------------------------------------------- */

enum { N_COLUMNS = 6 }; /* arrays of int64_t; then two of spans */

static bool allocate(br_encoding *e, int64_t length)
{
    int64_t *block = br_malloc((size_t)length * (N_COLUMNS * sizeof *block + 2 * sizeof(br_span)));
    if (!block)
        return false;
    int64_t **columns[N_COLUMNS] = { &e->ids,          &e->type_ids, &e->attention_mask,
                                     &e->special_mask, &e->word_ids, &e->sequence_ids };
    for (int i = 0; i < N_COLUMNS; i++)
        *columns[i] = block + i * length;
    e->bytes = (br_span *)(block + N_COLUMNS * length);
    e->chars = e->bytes + length;
    return true;
}

static void put(br_encoding *e, const br_token *token, int64_t type, int64_t sequence_id)
{
    int64_t i = e->length++;
    e->ids[i] = token->id;
    e->type_ids[i] = type;
    e->attention_mask[i] = 1;
    e->special_mask[i] = sequence_id < 0;
    e->word_ids[i] = token->word;
    e->sequence_ids[i] = sequence_id;
    e->bytes[i] = token->bytes;
    e->chars[i] = token->chars;
}

static void put_special(br_encoding *e, int64_t id, int64_t type)
{
    put(e, &(br_token){ .id = id, .word = -1 }, type, -1);
}

static void put_part(const br_tokenizer *t, br_encoding *e, const sequence *s, part p, int k)
{
    for (int64_t j = p.begin; j < p.end; j++) {
        br_token token = s->tokens.items[j];
        br__trim_token(t, s->text, &token, j == p.begin);
        put(e, &token, br__type_of(t, k), k);
    }
}

/* Makes an encoding of part i[k] of each text k. */
static bool assemble(const br_tokenizer *t, const br_layout *l, const sequence s[2],
                     const int64_t i[2], br_encoding *e)
{
    int64_t length = br__count_special(l);
    for (int k = 0; k <= l->pair; k++)
        length += s[k].parts[i[k]].end - s[k].parts[i[k]].begin;
    if (!allocate(e, length))
        return false;
    for (const br_segment *g = l->segments; g < l->segments + l->n; g++)
        if (g->special >= 0)
            put_special(e, g->special, br__type_of(t, g->text));
        else
            put_part(t, e, &s[g->text], s[g->text].parts[i[g->text]], g->text);
    return true;
}

/* Makes the encoding of the kept parts, and the overflow, which combines each part of the first
 * text with each part of the second. The order is that of Hugging Face's fast tokenizer: first the
 * other parts of the first text, then its first part with the other parts of the second. */
static bool assemble_all(const br_tokenizer *t, const br_layout *l, const sequence s[2],
                         br_encoding *e)
{
    int64_t n = s[0].n_parts, m = l->pair ? s[1].n_parts : 1;
    if (!assemble(t, l, s, (int64_t[]){ 0, 0 }, e))
        return false;
    if (n * m == 1)
        return true;
    if (n > INT32_MAX || m > INT32_MAX || n * m > INT32_MAX)
        return br_fail(BR_ERROR_ARGUMENT, op,
                       "truncation makes %" PRId64 " x %" PRId64 " parts, must be less than 2^31",
                       n, m);
    e->overflow = br_calloc((size_t)(n * m - 1), sizeof *e->overflow);
    if (!e->overflow)
        return false;
    for (int64_t i = 1; i <= n; i++)
        for (int64_t j = i == n; j < m; j++)
            if (!assemble(t, l, s, (int64_t[]){ i % n, j }, &e->overflow[e->n_overflow++]))
                return false;
    return true;
}

static void release(br_encoding *e)
{
    br_free(e->ids);
    for (int64_t i = 0; i < e->n_overflow; i++)
        release(&e->overflow[i]);
    br_free(e->overflow);
}

void br_encoding_free(br_encoding *e)
{
    if (e)
        release(e);
    br_free(e);
}

/* ---- Padding --------------------------------------------------------------------------------- */

static bool pad(const br_tokenizer *t, bool left, int64_t length, br_encoding *e)
{
    for (int64_t i = 0; i < e->n_overflow; i++)
        if (!pad(t, left, length, &e->overflow[i]))
            return false;
    if (e->length >= length)
        return true;
    if (!br__check_padding(t))
        return false;
    br_encoding old = *e;
    if (!allocate(e, length))
        return false;
    int64_t n = length - old.length;
    e->length = 0;
    for (int64_t i = 0; i < length; i++) {
        int64_t from = left ? i - n : i;
        if (from < 0 || from >= old.length) {
            put_special(e, t->padding, 0);
            e->attention_mask[i] = 0;
            continue;
        }
        put(e,
            &(br_token){ .id = old.ids[from],
                         .word = old.word_ids[from],
                         .bytes = old.bytes[from],
                         .chars = old.chars[from] },
            old.type_ids[from], old.sequence_ids[from]);
    }
    br_free(old.ids);
    return true;
}

/* ---- One text or pair ------------------------------------------------------------------------ */

static br_encoding *encode(const br_tokenizer *t, const br_text *text, const br_text *pair,
                           const br_encode_options *o)
{
    sequence s[2] = { { .text = text->data }, { .text = pair ? pair->data : NULL } };
    br_layout l;
    if (!br__set_layout(t, o, pair, &l))
        return NULL;
    br_encoding *e = br_calloc(1, sizeof *e);
    bool ok = e && t->kind->tokenize(t, text, o, &s[0].tokens) &&
              (!pair || t->kind->tokenize(t, pair, o, &s[1].tokens)) && cut_all(o, &l, s) &&
              assemble_all(t, &l, s, e);
    free_sequence(&s[0]);
    free_sequence(&s[1]);
    if (ok)
        return e;
    br_encoding_free(e);
    return NULL;
}

br_encoding *br_tokenizer_encode(const br_tokenizer *t, const br_text *text, const br_text *pair,
                                 const br_encode_options *options)
{
    const br_encode_options *o = BR_OPTIONS_OF(op, br_encode, options);
    if (!br__check_encoding(t, o) || !br__check_text("text", text) ||
        (pair && !br__check_text("pair", pair)))
        return NULL;
    br_encoding *e = encode(t, text, pair, o);
    bool padding = o->padding != BR_PAD_NONE || o->pad_to_multiple_of > 0;
    if (e && padding && !pad(t, o->pad_left, br__padded_length(o, e->length), e)) {
        br_encoding_free(e);
        return NULL;
    }
    return e;
}
