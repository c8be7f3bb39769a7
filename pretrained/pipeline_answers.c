/* pretrained/pipeline_answers.c - answers to questions, as in the pipeline "question-answering" of
 * transformers 4; transformers 5 has none. */
#include "pretrained/pipeline_internal.h"

#include "nn/nn_internal.h"
#include "tensor/memory.h"
#include "tensor/min_max.h"
#include "tokenizers/tokenizer_internal.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

BR_DEFINE_DEFAULTS(br_answer)

static const char op[] = "pipeline_answer";

enum { STANDARD_LENGTH = 384, STANDARD_STRIDE = 128 };

/* Tokens start .. end of a part. */
typedef struct candidate {
    int64_t start, end;
    double score;
} candidate;

/* A call of br_pipeline_answer(). */
typedef struct call {
    const br_pipeline *self;
    const br_answer_options *o;
    br_text context;
    br_answers *answers;
    int64_t capacity;
    double no_answer; /* the least probability of no answer in the parts so far */
    candidate *best;  /* of a part, from the best to the worst */
    int64_t n_best, max_best;
} call;

/* ---- Options --------------------------------------------------------------------------------- */

static bool check_at_least(const char *name, int64_t value, int64_t least)
{
    if (value < least)
        br_fail(BR_ERROR_ARGUMENT, op, "the option %s is %" PRId64 ", must be at least %" PRId64,
                name, value, least);
    return !br_failed();
}

static bool check_options(const br_answer_options *o)
{
    enum { MOST = 1 << 20 };
    if (!check_at_least("top_k", o->top_k, 1) ||
        !check_at_least("max_answer_len", o->max_answer_len, 1) ||
        !check_at_least("max_seq_len", o->max_seq_len, 0) ||
        !check_at_least("doc_stride", o->doc_stride, -1))
        return false;
    if (o->top_k > MOST)
        br_fail(BR_ERROR_ARGUMENT, op, "the option top_k is %" PRId64 ", must be at most %d",
                o->top_k, MOST);
    return !br_failed();
}

/* ---- The parts of a context ------------------------------------------------------------------ */

/* Encodes the question and all parts of the context. */
static br_encoding *encode(const br_pipeline *self, const br_text *question, const br_text *context,
                           const br_answer_options *o)
{
    int64_t limit = self->limits.max_tokens, most = o->max_seq_len;
    if (most == 0)
        most = br__min(limit, STANDARD_LENGTH);
    if (most > limit)
        return br_fail(BR_ERROR_ARGUMENT, op,
                       "the option max_seq_len is %" PRId64 ", must be at most the model's %" PRId64
                       " tokens",
                       most, limit);
    int64_t stride = o->doc_stride < 0 ? br__min(most / 2, STANDARD_STRIDE) : o->doc_stride;
    return br_tokenizer_encode(
        self->tokenizer, question, context,
        BR_OPTIONS(br_encode, .max_length = most, .stride = stride, .truncation = BR_ONLY_SECOND));
}

/* Returns a batch of one encoding. */
static br_token_batch batch_of(const br_pipeline *self, const br_encoding *e)
{
    br_token_batch batch = { br_from_i64(BR_SHAPE(1, e->length), e->ids),
                             br_from_i64(BR_SHAPE(1, e->length), e->type_ids),
                             br_from_i64(BR_SHAPE(1, e->length), e->attention_mask) };
    if (self->tokenizer->hides_types)
        batch.type_ids = br_new_zeros(batch.ids, BR_SHAPE(1, e->length), BR_I64);
    return batch;
}

/* Returns true if the logits of a token count: it is in the context, or is [CLS], which means that
 * there is no answer. */
static bool counts(const br_encoding *e, int64_t i, int64_t cls)
{
    return e->sequence_ids[i] == 1 || e->ids[i] == cls;
}

/* Writes the probabilities of the tokens that count. Column 0 of the logits is for the first token
 * of an answer, column 1 for the last token. */
static void softmax(const br_encoding *e, const float *logits, int column, int64_t cls, double *p)
{
    double most = -INFINITY, sum = 0;
    for (int64_t i = 0; i < e->length; i++)
        if (counts(e, i, cls))
            most = fmax(most, (double)logits[2 * i + column]);
    for (int64_t i = 0; i < e->length; i++) {
        p[i] = counts(e, i, cls) ? exp((double)logits[2 * i + column] - most) : 0;
        sum += p[i];
    }
    for (int64_t i = 0; i < e->length; i++)
        p[i] /= sum;
}

/* ---- The best spans of a part ---------------------------------------------------------------- */

/* Inserts a candidate into the best ones if it is one of them. Of equal scores, the first counts.
 */
static void offer(call *c, candidate new)
{
    if (c->n_best == c->max_best && new.score <= c->best[c->n_best - 1].score)
        return;
    int64_t i = c->n_best < c->max_best ? c->n_best++ : c->n_best - 1;
    for (; i > 0 && c->best[i - 1].score < new.score; i--)
        c->best[i] = c->best[i - 1];
    c->best[i] = new;
}

/* Finds the best spans of tokens of the context. */
static void find_best(call *c, const br_encoding *e, const double *start, const double *end)
{
    c->n_best = 0;
    for (int64_t i = 0; i < e->length; i++) {
        int64_t most = br__min(e->length, i + c->o->max_answer_len);
        for (int64_t k = i; e->sequence_ids[i] == 1 && k < most; k++)
            if (e->sequence_ids[k] == 1 && start[i] * end[k] > 0)
                offer(c, (candidate){ i, k, start[i] * end[k] });
    }
}

/* ---- Answers --------------------------------------------------------------------------------- */

/* Reads the code points of a text in lower case. */
typedef struct lower_reader {
    const char *p, *end;
    uint32_t next[2];
    int n, at;
} lower_reader;

/* Returns the next code point, or -1 at the end. */
static int64_t read_lower(lower_reader *r)
{
    uint32_t c;
    bool valid;
    if (r->at < r->n)
        return r->next[r->at++];
    if (r->p == r->end)
        return -1;
    r->p += br__char_read(r->p, r->end, &c, &valid);
    r->next[0] = c;
    r->n = br__char_kind(c) & BR_CHAR_UPPER ? br__char_lower(c, r->next) : 1;
    r->at = 1;
    return r->next[0];
}

static bool same_but_for_case(const char *text, br_span a, br_span b)
{
    lower_reader x = { .p = text + a.begin, .end = text + a.end };
    lower_reader y = { .p = text + b.begin, .end = text + b.end };
    for (;;) {
        int64_t c = read_lower(&x);
        if (c != read_lower(&y))
            return false;
        if (c < 0)
            return true;
    }
}

/* Extends *from and *to, which are tokens of the context, to the first and the last token of their
 * words. */
static void extend_to_words(const br_encoding *e, int64_t *from, int64_t *to)
{
    int64_t first = e->word_ids[*from], last = e->word_ids[*to];
    if (first < 0 || last < 0)
        return;
    while (*from > 0 && e->sequence_ids[*from - 1] == 1 && e->word_ids[*from - 1] == first)
        (*from)--;
    while (*to + 1 < e->length && e->sequence_ids[*to + 1] == 1 && e->word_ids[*to + 1] == last)
        (*to)++;
}

static bool push_answer(call *c, br_answer answer)
{
    br_answers *all = c->answers;
    br_answer *items = br__grow(all->items, &c->capacity, all->count, sizeof *items);
    if (!items)
        return false;
    all->items = items;
    items[all->count++] = answer;
    return true;
}

/* Adds a span to the answers, or its score to the answer with the same text. */
static bool add_answer(call *c, const br_encoding *e, candidate span)
{
    int64_t from = span.start, to = span.end;
    if (c->o->align_to_words)
        extend_to_words(e, &from, &to);
    br_answer answer = { .score = span.score,
                         .bytes = { e->bytes[from].begin, e->bytes[to].end },
                         .chars = { e->chars[from].begin, e->chars[to].end } };
    for (int64_t i = 0; i < c->answers->count; i++) {
        br_answer *other = &c->answers->items[i];
        if (same_but_for_case(c->context.data, other->bytes, answer.bytes)) {
            other->score += span.score;
            return true;
        }
    }
    return push_answer(c, answer);
}

static bool add_answers(call *c, const br_encoding *e, const float *logits)
{
    int64_t n = e->length, cls = br_tokenizer_special_id(c->self->tokenizer, BR_TOKEN_CLS);
    double *start = br_calloc((size_t)n * 2, sizeof *start), *end = start ? start + n : NULL;
    if (!start)
        return false;
    softmax(e, logits, 0, cls, start);
    softmax(e, logits, 1, cls, end);
    c->no_answer = fmin(c->no_answer, start[0] * end[0]);
    find_best(c, e, start, end);
    br_free(start);
    for (int64_t i = 0; i < c->n_best; i++)
        if (!add_answer(c, e, c->best[i]))
            return false;
    return true;
}

static bool read_part(call *c, const br_encoding *e)
{
    static const int64_t order[] = { 0 };
    br_scope *scope = br_scope_begin();
    br_token_batch batch = batch_of(c->self, e);
    bool ok = !br_failed() && br__check_tokens(op, &c->self->limits, order, &batch);
    br_tensor *logits = ok ? br_contiguous(br__pipeline_logits(op, c->self, &batch)) : NULL;
    ok = !br_failed() && add_answers(c, e, br_data_f32(logits));
    br_scope_end(scope);
    return ok;
}

/* Sorts the answers by their scores, the best first, and keeps top_k. Equal scores keep their
 * order. */
static void sort_answers(const call *c)
{
    br_answers *all = c->answers;
    for (int64_t i = 1; i < all->count; i++) {
        br_answer answer = all->items[i];
        int64_t k = i;
        for (; k > 0 && all->items[k - 1].score < answer.score; k--)
            all->items[k] = all->items[k - 1];
        all->items[k] = answer;
    }
    all->count = br__min(all->count, c->o->top_k);
}

static bool read_parts(call *c, const br_encoding *e)
{
    enum { MORE = 10 }; /* some spans become equal when they are extended to words */
    c->max_best = c->o->align_to_words ? 2 * c->o->top_k + MORE : c->o->top_k;
    c->best = br_calloc((size_t)c->max_best, sizeof *c->best);
    c->no_answer = INFINITY;
    bool ok = c->best && read_part(c, e);
    for (int64_t i = 0; ok && i < e->n_overflow; i++)
        ok = read_part(c, &e->overflow[i]);
    if (ok && c->o->handle_impossible_answer)
        ok = push_answer(c, (br_answer){ .score = c->no_answer });
    if (ok)
        sort_answers(c);
    br_free(c->best);
    return ok;
}

/* ---------------------------------------------------------------------------------------------- */

/* Copies a text, which must not be empty, with its length. */
static br_text *copy_text(const char *name, const br_text *text)
{
    br_text *copy = br__required(op, name, text) ? br__copy_texts(op, name, 1, text) : NULL;
    if (!copy || copy->length > 0)
        return copy;
    br_free(copy);
    return br_fail(BR_ERROR_ARGUMENT, op, "%s is empty, must be text", name);
}

br_answers *br_pipeline_answer(br_pipeline *self, const br_text *question, const br_text *context,
                               const br_answer_options *options)
{
    const br_answer_options *o = BR_OPTIONS_OF(op, br_answer, options);
    if (!br__pipeline_begin(op, self, BR_TASK_QUESTION_ANSWERING) || !check_options(o))
        return NULL;
    br_text *asked = copy_text("question", question);
    br_text *text = asked ? copy_text("context", context) : NULL;
    br_scope *scope = br_no_grad_begin();
    br_encoding *e = text ? encode(self, asked, text, o) : NULL;
    call c = { .self = self, .o = o, .answers = e ? br_calloc(1, sizeof *c.answers) : NULL };
    if (c.answers) {
        c.context = *text;
        if (!read_parts(&c, e)) {
            br_answers_free(c.answers);
            c.answers = NULL;
        }
    }
    br_encoding_free(e);
    br_free(asked);
    br_free(text);
    br_scope_end(scope);
    return c.answers;
}

void br_answers_free(br_answers *answers)
{
    if (answers)
        br_free(answers->items);
    br_free(answers);
}
