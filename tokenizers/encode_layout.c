/* tokenizers/encode_layout.c - what texts and pairs become: special tokens around them, and the
 * numbers of tokens that truncation and padding leave. Checks options. */
#include "tokenizers/encode_internal.h"

#include <inttypes.h>

BR_DEFINE_DEFAULTS(br_encode)

static const char op[] = "tokenizer_encode";

/* ---- Special tokens -------------------------------------------------------------------------- */

static void add_segment(br_layout *l, int64_t special, int text)
{
    l->segments[l->n++] = (br_segment){ special, text };
}

/* Returns the order of texts and special tokens: one before the first text or both, one after each,
 * and possibly a separator before the second. */
static br_layout layout_of(const br_tokenizer *t, bool with_special, bool pair)
{
    bool classifies = with_special && t->classify >= 0;
    bool separates = with_special && t->separator >= 0;
    br_layout l = { .pair = pair };
    for (int k = 0; k <= pair; k++) {
        if (classifies && (k == 0 || t->classify_both))
            add_segment(&l, t->classify, k);
        if (separates && k == 1 && t->separate_twice)
            add_segment(&l, t->separator, k);
        add_segment(&l, -1, k);
        if (separates)
            add_segment(&l, t->separator, k);
    }
    return l;
}

/* ---- Truncation and padding ------------------------------------------------------------------ */

bool br__check_stride(const br_encode_options *o, int64_t count, int64_t capacity)
{
    return capacity >= count || capacity == 0 || o->stride < capacity ||
           br_fail(BR_ERROR_ARGUMENT, op,
                   "stride is %" PRId64 ", must be less than the %" PRId64
                   " tokens that max_length leaves for a text",
                   o->stride, capacity);
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

bool br__fit_texts(const br_encode_options *o, const br_layout *l, int64_t n[2])
{
    int64_t special = br__count_special(l);
    if (o->max_length == 0)
        return true;
    if (o->max_length < special)
        return br_fail(BR_ERROR_ARGUMENT, op,
                       "max_length is %" PRId64 ", but the special tokens alone need %" PRId64,
                       o->max_length, special);
    return fit(o, o->max_length - special, l->pair, n);
}

int64_t br__padded_length(const br_encode_options *o, int64_t longest)
{
    int64_t length = o->padding == BR_PAD_MAX_LENGTH ? o->max_length : longest;
    int64_t multiple = o->pad_to_multiple_of;
    return multiple > 0 && length % multiple ? length + multiple - length % multiple : length;
}

bool br__check_padding(const br_tokenizer *t)
{
    return t->padding >= 0 ||
           br_fail(BR_ERROR_STATE, op, "cannot pad: the vocabulary has no padding token");
}

/* ---- Checks ---------------------------------------------------------------------------------- */

bool br__check_text(const char *name, const br_text *text)
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

bool br__set_layout(const br_tokenizer *t, const br_encode_options *o, bool pair, br_layout *l)
{
    bool with_special = o->add_special_tokens && !(pair && t->pairs == BR_PAIR_BARE);
    *l = layout_of(t, with_special, pair);
    return !pair || check_pair(t, with_special);
}

bool br__check_encoding(const br_tokenizer *t, const br_encode_options *o)
{
    return br__required(op, "tokenizer", t) && check_options(o);
}
