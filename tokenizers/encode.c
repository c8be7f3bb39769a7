/* tokenizers/encode.c - builds model inputs from tokens: truncation to overlapping parts,
 * special tokens, padding, batches. */
#include "tokenizers/tokenizer_internal.h"

#include <inttypes.h>
#include <string.h>

BR_DEFINE_DEFAULTS(br_encode)

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
    br_free(s->tokens.items);
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
    int64_t count = s->tokens.count, stride = o->stride, step = capacity - stride;
    if (capacity < count && capacity > 0 && step < 1)
        return br_fail(BR_ERROR_ARGUMENT, op,
                       "stride is %" PRId64 ", must be less than the %" PRId64
                       " tokens that max_length leaves for a text",
                       stride, capacity);
    s->n_parts = capacity >= count || capacity == 0 ? 1 : 1 + (count - capacity + step - 1) / step;
    s->parts = br_malloc((size_t)s->n_parts * sizeof *s->parts);
    for (int64_t i = 0; s->parts && i < s->n_parts; i++)
        s->parts[i] = part_of(i, count, capacity, step, o->truncate_left);
    if (s->parts && capacity == 0)
        s->parts[0] = (part){ 0, 0 };
    return s->parts;
}

/* Truncates the lengths n[0] and n[1] by longest_first. The shorter text stays whole if possible;
 * otherwise each gets half, and the longer one (the second if they are equal) the odd token. */
static void share(int64_t capacity, int64_t n[2])
{
    int longer = n[0] > n[1] ? 0 : 1;
    int64_t less = n[1 - longer], more = capacity - less;
    if (more < less) {
        less = capacity / 2;
        more = capacity - less;
    }
    n[longer] = more;
    n[1 - longer] = less;
}

static bool too_short(const char *which, int64_t count, int64_t excess)
{
    br_fail(BR_ERROR_ARGUMENT, op,
            "cannot remove %" PRId64
            " tokens from the %s text, the only one that may be truncated: it has %" PRId64,
            excess, which, count);
    return false;
}

/* Reduces n[] to the numbers of tokens of each text that fit into `capacity`. */
static bool fit(const br_encode_options *o, int64_t capacity, bool pair, int64_t n[2])
{
    int64_t excess = n[0] + n[1] - capacity;
    if (excess <= 0)
        return true;
    if (capacity == 0) {
        n[0] = n[1] = 0;
        return true;
    }
    if (o->truncation == BR_LONGEST_FIRST && pair) {
        share(capacity, n);
        return true;
    }
    int which = o->truncation == BR_ONLY_SECOND;
    if (n[which] <= excess)
        return too_short(which ? "second" : "first", n[which], excess);
    n[which] -= excess;
    return true;
}

/* Returns the number of special tokens: one before the first text or both, one after each, and
 * possibly a separator before the second. */
static int64_t count_around(const br_tokenizer *t, bool around, bool pair)
{
    int64_t before = t->classify < 0 ? 0 : 1 + (pair && t->classify_both);
    int64_t separators = t->separator < 0 ? 0 : 1 + pair + (pair && t->separate_twice);
    return around ? before + separators : 0;
}

static bool truncate(const br_tokenizer *t, const br_encode_options *o, bool with_special,
                     bool pair, sequence s[2])
{
    int64_t n[2] = { s[0].tokens.count, s[1].tokens.count };
    int64_t around = count_around(t, with_special, pair);
    if (o->max_length > 0 && o->max_length < around)
        return br_fail(BR_ERROR_ARGUMENT, op,
                       "max_length is %" PRId64 ", but the special tokens alone need %" PRId64,
                       o->max_length, around);
    if (o->max_length > 0 && !fit(o, o->max_length - around, pair, n))
        return false;
    return cut(&s[0], n[0], o) && (!pair || cut(&s[1], n[1], o));
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
        put(e, &token, t->one_type ? 0 : k, k);
    }
}

/* Makes an encoding of part i[k] of each text k, with special tokens if `around` is set. */
static bool assemble(const br_tokenizer *t, bool around, const sequence s[2], const int64_t i[2],
                     br_encoding *e)
{
    bool pair = s[1].parts;
    int64_t length = count_around(t, around, pair);
    for (int k = 0; k <= pair; k++)
        length += s[k].parts[i[k]].end - s[k].parts[i[k]].begin;
    if (!allocate(e, length))
        return false;
    for (int k = 0; k <= pair; k++) {
        if (around && t->classify >= 0 && (k == 0 || t->classify_both))
            put_special(e, t->classify, t->one_type ? 0 : k);
        if (around && t->separator >= 0 && k == 1 && t->separate_twice)
            put_special(e, t->separator, t->one_type ? 0 : k);
        put_part(t, e, &s[k], s[k].parts[i[k]], k);
        if (around && t->separator >= 0)
            put_special(e, t->separator, t->one_type ? 0 : k);
    }
    return true;
}

/* Makes the encoding of the kept parts, and the overflow, which combines each part of the first
 * text with each part of the second. The order is that of Hugging Face's fast tokenizer: first the
 * other parts of the first text, then its first part with the other parts of the second. */
static bool assemble_all(const br_tokenizer *t, bool around, const sequence s[2], br_encoding *e)
{
    int64_t n = s[0].n_parts, m = s[1].parts ? s[1].n_parts : 1;
    if (!assemble(t, around, s, (int64_t[]){ 0, 0 }, e))
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
            if (!assemble(t, around, s, (int64_t[]){ i % n, j }, &e->overflow[e->n_overflow++]))
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

/* Returns the padded length of encodings that have at most `longest` tokens. pad() does not shorten
 * longer ones. */
static int64_t padded(const br_encode_options *o, int64_t longest)
{
    int64_t length = o->padding == BR_PAD_MAX_LENGTH ? o->max_length : longest;
    int64_t multiple = o->pad_to_multiple_of;
    return multiple > 0 && length % multiple ? length + multiple - length % multiple : length;
}

static bool pad(const br_tokenizer *t, bool left, int64_t length, br_encoding *e)
{
    for (int64_t i = 0; i < e->n_overflow; i++)
        if (!pad(t, left, length, &e->overflow[i]))
            return false;
    if (e->length >= length)
        return true;
    if (t->padding < 0)
        return br_fail(BR_ERROR_STATE, op, "cannot pad: the vocabulary has no padding token");
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

static bool check_text(const char *name, const br_text *text)
{
    if (text && (text->data || text->length == 0) && text->length >= -1)
        return true;
    br_fail(BR_ERROR_ARGUMENT, op,
            "%s %s: expected text with a length of at least 0, or -1 if it ends with a NUL", name,
            text && text->data ? "has a negative length" : "is NULL");
    return false;
}

static bool check_options(const br_encode_options *o)
{
    if (o->max_length < 0 || o->stride < 0 || o->pad_to_multiple_of < 0)
        return br_fail(BR_ERROR_ARGUMENT, op,
                       "max_length is %" PRId64 ", stride is %" PRId64
                       " and pad_to_multiple_of is %" PRId64 ", must all be at least 0",
                       o->max_length, o->stride, o->pad_to_multiple_of);
    if ((unsigned)o->truncation > BR_ONLY_SECOND)
        return br_fail(BR_ERROR_ARGUMENT, op, "truncation is %d, must be a br_truncation",
                       (int)o->truncation);
    if ((unsigned)o->padding > BR_PAD_MAX_LENGTH)
        return br_fail(BR_ERROR_ARGUMENT, op, "padding is %d, must be a br_pad_to",
                       (int)o->padding);
    if (o->padding == BR_PAD_MAX_LENGTH && o->max_length == 0)
        return br_fail(BR_ERROR_ARGUMENT, op, "padding is BR_PAD_MAX_LENGTH, but max_length is 0");
    if (o->padding == BR_PAD_MAX_LENGTH && o->max_length > INT32_MAX)
        return br_fail(BR_ERROR_ARGUMENT, op,
                       "max_length is %" PRId64 ", must be below 2^31 for padding", o->max_length);
    if (o->pad_to_multiple_of > INT32_MAX)
        return br_fail(BR_ERROR_ARGUMENT, op,
                       "pad_to_multiple_of is %" PRId64 ", must be below 2^31",
                       o->pad_to_multiple_of);
    return true;
}

static bool check_pair(const br_tokenizer *t, bool with_special)
{
    return t->pairs != BR_PAIR_UNSUPPORTED || !with_special ||
           br_fail(BR_ERROR_ARGUMENT, op,
                   "pairs are not supported by this tokenizer: the template for pairs in "
                   "tokenizer.json must be [CLS] A [SEP] B [SEP], optionally without [CLS] or "
                   "[SEP], or with [CLS] or [SEP] before B, too, with type id 0, and 0 or 1 after "
                   "the first text");
}

static br_encoding *encode(const br_tokenizer *t, const br_text *text, const br_text *pair,
                           const br_encode_options *o)
{
    sequence s[2] = { { .text = text->data }, { .text = pair ? pair->data : NULL } };
    bool with_special = o->add_special_tokens && !(pair && t->pairs == BR_PAIR_BARE);
    if (pair && !check_pair(t, with_special))
        return NULL;
    br_encoding *e = br_calloc(1, sizeof *e);
    bool ok = e && t->kind->tokenize(t, text, o, &s[0].tokens) &&
              (!pair || t->kind->tokenize(t, pair, o, &s[1].tokens)) &&
              truncate(t, o, with_special, pair, s) && assemble_all(t, with_special, s, e);
    free_sequence(&s[0]);
    free_sequence(&s[1]);
    if (ok)
        return e;
    br_encoding_free(e);
    return NULL;
}

static bool check_call(const br_tokenizer *t, const br_encode_options *o)
{
    return br__required(op, "tokenizer", t) && check_options(o);
}

br_encoding *br_tokenizer_encode(const br_tokenizer *t, const br_text *text, const br_text *pair,
                                 const br_encode_options *options)
{
    const br_encode_options *o = BR_OPTIONS_OF(op, br_encode, options);
    if (!check_call(t, o) || !check_text("text", text) || (pair && !check_text("pair", pair)))
        return NULL;
    br_encoding *e = encode(t, text, pair, o);
    bool padding = o->padding != BR_PAD_NONE || o->pad_to_multiple_of > 0;
    if (e && padding && !pad(t, o->pad_left, padded(o, e->length), e)) {
        br_encoding_free(e);
        return NULL;
    }
    return e;
}

/* ---- Batches --------------------------------------------------------------------------------- */

/* Writes the encodings, padded to `length`, to the rows of three tensors. */
static bool fill(const br_tokenizer *t, bool left, int64_t n, int64_t length, br_encoding **encoded,
                 br_token_batch *batch)
{
    int64_t sizes[] = { n, length };
    *batch = (br_token_batch){
        .ids = br__new_on_host("tokenizer_encode_batch", 2, sizes, BR_I64),
        .type_ids = br__new_on_host("tokenizer_encode_batch", 2, sizes, BR_I64),
        .attention_mask = br__new_on_host("tokenizer_encode_batch", 2, sizes, BR_I64),
    };
    if (br_failed())
        return false;
    size_t row = (size_t)length * sizeof(int64_t);
    for (int64_t i = 0; i < n; i++) {
        if (!pad(t, left, length, encoded[i]))
            return false;
        memcpy((int64_t *)br_data(batch->ids) + i * length, encoded[i]->ids, row);
        memcpy((int64_t *)br_data(batch->type_ids) + i * length, encoded[i]->type_ids, row);
        memcpy((int64_t *)br_data(batch->attention_mask) + i * length, encoded[i]->attention_mask,
               row);
    }
    return true;
}

/* Encodes every text and drops the overflow. Sets *longest to the greatest length. */
static bool encode_each(const br_tokenizer *t, int64_t n, const br_text *texts,
                        const br_text *pairs, const br_encode_options *o, br_encoding **encoded,
                        int64_t *longest)
{
    for (int64_t i = 0; i < n; i++) {
        if (!check_text("a text", &texts[i]) || (pairs && !check_text("a pair", &pairs[i])))
            return false;
        br_encoding *e = encoded[i] = encode(t, &texts[i], pairs ? &pairs[i] : NULL, o);
        if (!e)
            return false;
        for (int64_t k = 0; k < e->n_overflow; k++)
            release(&e->overflow[k]);
        e->n_overflow = 0;
        if (e->length > *longest)
            *longest = e->length;
    }
    return true;
}

bool br_tokenizer_encode_batch(const br_tokenizer *t, int64_t n, const br_text *texts,
                               const br_text *pairs, const br_encode_options *options,
                               br_token_batch *batch)
{
    const br_encode_options *o = BR_OPTIONS_OF(op, br_encode, options);
    if (!check_call(t, o))
        return false;
    if (n < 0 || (n > 0 && !texts) || !batch)
        return br_fail(BR_ERROR_ARGUMENT, "tokenizer_encode_batch",
                       "n is %" PRId64 ", must not be negative; texts and batch must not be NULL",
                       n);
    int64_t longest = 0;
    br_encoding **encoded = br_calloc((size_t)n, sizeof *encoded);
    br_scope *scope = encoded ? br_scope_begin() : NULL;
    bool ok = scope && encode_each(t, n, texts, pairs, o, encoded, &longest);
    ok = ok && fill(t, o->pad_left, n, padded(o, longest), encoded, batch);
    for (int64_t i = 0; encoded && i < n; i++)
        br_encoding_free(encoded[i]);
    br_free(encoded);
    if (ok) {
        br_scope_return(scope, batch->ids);
        br_scope_return(scope, batch->type_ids);
        br_scope_return(scope, batch->attention_mask);
    } else {
        *batch = (br_token_batch){ 0 };
    }
    br_scope_end(scope);
    return ok;
}
