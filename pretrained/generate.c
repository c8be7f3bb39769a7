/* pretrained/generate.c - generate(): generates tokens from a model's logits.
 *
 * All buffers are allocated at their final size before the first step. A step's temporaries are
 * freed at its end. */
#include "tensor/device.h"
#include "tensor/host.h"

#include <brasa/pretrained/generate.h>

#include <inttypes.h>
#include <math.h>
#include <string.h>

BR_DEFINE_DEFAULTS(br_generate)

static const char op[] = "generate";

/* The state of a generation. */
typedef struct generation {
    const br_language_model *lm;
    br_generate_options o;           /* with pad_token_id set */
    br_cache *cache;                 /* NULL if the model has none */
    int64_t batch, length, capacity; /* tokens of a row so far, and their maximum */
    br_tensor *ids;                  /* i64 [B, capacity] */
    br_tensor *mask;                 /* i64 [B, capacity], or NULL */
    br_tensor *eos;                  /* i64 [1, n_eos], or NULL */
    br_tensor *suppressed;           /* i64 [1, n_suppress], or NULL */
    br_tensor *running;              /* bool [B, 1]: rows that have not ended */
    br_tensor *seen;                 /* bool [B, V]: tokens in the row; NULL without a penalty */
} generation;

/* Returns i64 [1, n] on t's device. */
static br_tensor *ids_beside(const br_tensor *t, int64_t n, const int64_t *ids)
{
    return br_to_device(br_from_i64(BR_SHAPE(1, n), ids), br_device_of(t));
}

/* ---- The next token -------------------------------------------------------------------------- */

/* Returns bool [*, V], true at the ids [*, n] of each row. */
static br_tensor *marks(br_tensor *ids, int64_t vocab)
{
    br_tensor *all = br_new_arange(ids, 0, (double)vocab, 1, BR_I64);
    return br_any_dim(br_eq(br_unsqueeze(ids, -1), all), BR_DIMS(1), false);
}

/* Applies the repetition penalty. `fresh` are the tokens that were just passed to the model. */
static br_tensor *penalize(generation *g, br_tensor *logits, br_tensor *fresh)
{
    if (g->mask) { /* padding does not count as a token */
        br_tensor *mask = br_narrow(g->mask, 1, g->length - br_size(fresh, 1), br_size(fresh, 1));
        fresh = br_masked_fill(fresh, br_eq_scalar(mask, 0), -1);
    }
    br_tensor *marked = marks(fresh, br_size(logits, 1));
    if (!g->seen)
        g->seen = br_scope_return(NULL, marked);
    else
        br_copy_(g->seen, br_logical_or(g->seen, marked));
    double penalty = g->o.repetition_penalty;
    br_tensor *less = br_where(br_lt_scalar(logits, 0), br_mul_scalar(logits, penalty),
                               br_div_scalar(logits, penalty));
    return br_where(g->seen, less, logits);
}

/* Returns bool [B, V], true at the tokens that would complete an n-gram that is already in the
 * row. */
static br_tensor *completions(const generation *g, int64_t n, int64_t vocab)
{
    br_tensor *banned = br__zeros_on_host(op, BR_SHAPE(g->batch, vocab), BR_BOOL);
    bool *b = br_data_bool(banned);
    const int64_t *ids = br__host_i64(br_narrow(g->ids, 1, 0, g->length));
    for (int64_t row = 0; b && ids && row < g->batch; row++) {
        const int64_t *first = ids + row * g->length, *last = first + g->length - (n - 1);
        for (const int64_t *p = first; p < last; p++)
            if (memcmp(p, last, (size_t)(n - 1) * sizeof *p) == 0 && p[n - 1] >= 0 &&
                p[n - 1] < vocab)
                b[row * vocab + p[n - 1]] = true;
    }
    return br__placed(op, br__backend_of(g->ids), banned);
}

/* Returns the logits with -infinity for the tokens that the options exclude. */
static br_tensor *exclude(const generation *g, br_tensor *logits, int64_t n_generated)
{
    int64_t vocab = br_size(logits, 1), n = g->o.no_repeat_ngram_size;
    if (n > 0 && g->length >= n)
        logits = br_masked_fill(logits, completions(g, n, vocab), -INFINITY);
    if (g->eos && n_generated < g->o.min_new_tokens)
        logits = br_masked_fill(logits, marks(g->eos, vocab), -INFINITY);
    if (g->suppressed)
        logits = br_masked_fill(logits, marks(g->suppressed, vocab), -INFINITY);
    return logits;
}

/* Returns the logits with -infinity for the tokens that are less than min_p times as likely as the
 * likeliest. */
static br_tensor *drop_unlikely(br_tensor *logits, double min_p)
{
    br_tensor *p = br_softmax(logits, -1);
    br_tensor *threshold = br_mul_scalar(br_topk(p, 1, -1, true, NULL), min_p);
    return br_masked_fill(logits, br_lt(p, threshold), -INFINITY);
}

/* Returns the logits with -infinity for the tokens that top_k excludes. Tokens as likely as the
 * last of the top_k stay. *n_kept is the number of tokens of a row that stay, or the largest of
 * them. */
static br_tensor *keep_top_k(br_tensor *logits, int64_t k, int64_t *n_kept)
{
    br_tensor *last = br_narrow(br_topk(logits, k, -1, true, NULL), 1, k - 1, 1);
    br_tensor *excluded = br_lt(logits, last);
    br_tensor *counts = br_sum_dim(br_logical_not(excluded), BR_DIMS(-1), false);
    *n_kept = br_item_i64(br_max(counts));
    return br_masked_fill(logits, excluded, -INFINITY);
}

/* Returns the logits with -infinity for the tokens outside of the nucleus, that is the fewest
 * likeliest tokens whose probabilities sum to top_p. As in transformers, the least likely tokens
 * are dropped as long as their sum is at most 1 - top_p. Of equally likely tokens, the first are
 * dropped. Only the n likeliest tokens of a row are not -infinity. */
static br_tensor *keep_nucleus(br_tensor *logits, int64_t n, double top_p)
{
    br_tensor *likeliest, *order;
    br_topk(logits, n, -1, true, &likeliest);
    br_tensor *ids = br_sort(likeliest, -1, false, NULL);
    br_tensor *ascending = br_sort(br_gather(logits, 1, ids), -1, false, &order);
    br_tensor *dropped = br_le_scalar(br_cumsum(br_softmax(ascending, -1), -1), 1 - top_p);
    br_fill_(br_narrow(dropped, 1, n - 1, 1), 0); /* the likeliest always stays */
    br_tensor *none = br_new_zeros(logits, br_ndim(logits), br_sizes(logits), BR_BOOL);
    br_tensor *places = br_gather(ids, 1, order);
    return br_masked_fill(logits, br_scatter(none, 1, places, dropped), -INFINITY);
}

/* Returns the logits with -infinity for the tokens that top_k and top_p exclude. */
static br_tensor *truncate(const generation *g, br_tensor *logits)
{
    int64_t n = br_size(logits, 1);
    if (g->o.top_k > 0 && g->o.top_k < n)
        logits = keep_top_k(logits, g->o.top_k, &n);
    return g->o.top_p < 1 && !br_error_pending() ? keep_nucleus(logits, n, g->o.top_p) : logits;
}

/* Samples a token for each row, [B, 1], like torch.multinomial(): divides the probabilities by
 * exponentially distributed numbers and takes the largest. */
static br_tensor *sample(br_tensor *logits)
{
    br_tensor *u = br_rand(br_ndim(logits), br_sizes(logits), BR_F64);
    br_tensor *exponential = br_neg(br_log(br_rsub_scalar(u, 1)));
    br_tensor *q = br_to_device(br_to(exponential, br_dtype_of(logits)), br_device_of(logits));
    return br_argmax(br_div(br_softmax(logits, -1), q), -1, true);
}

/* Sets an error if no token can be chosen by a row whose largest logit is `largest`. */
static void check_row(const generation *g, int64_t row, double largest)
{
    const br_generate_options *o = &g->o;
    if (isnan(largest))
        br_fail(BR_ERROR_STATE, op,
                "row %" PRId64 " of the logits contains NaN: check the model's weights and inputs",
                row);
    else if (largest == -INFINITY)
        br_fail(BR_ERROR_STATE, op,
                "row %" PRId64 ": no token is left, all logits are -inf: suppress_tokens, "
                "min_new_tokens and no_repeat_ngram_size must leave at least one",
                row);
    else if (largest == INFINITY && o->do_sample)
        br_fail(BR_ERROR_STATE, op,
                "row %" PRId64 ": a logit divided by temperature %g is inf, so the tokens have no "
                "probabilities: take a larger temperature, or do_sample = false for the likeliest "
                "token",
                row, o->temperature);
}

/* Checks that a token can be chosen in each row that has not ended. */
static bool can_choose(const generation *g, br_tensor *logits)
{
    br_tensor *largest = br_to(br_max_dim(logits, -1, false, NULL), BR_F64);
    const double *values = br_data_f64(br__on_host(op, largest));
    const bool *running = br_data_bool(br__on_host(op, g->running));
    for (int64_t row = 0; values && running && row < g->batch && !br_error_pending(); row++)
        if (running[row])
            check_row(g, row, values[row]);
    return !br_error_pending();
}

/* Chooses the next tokens [B, 1] by the logits [B, V]. `n_generated` is the number of new tokens so
 * far. */
static br_tensor *choose(generation *g, br_tensor *logits, br_tensor *fresh, int64_t n_generated)
{
    if (br_error_pending())
        return NULL;
    if (g->o.repetition_penalty != 1)
        logits = penalize(g, logits, fresh);
    logits = exclude(g, logits, n_generated);
    if (g->o.do_sample && g->o.temperature != 1)
        logits = br_div_scalar(logits, g->o.temperature);
    if (!can_choose(g, logits))
        return NULL;
    if (!g->o.do_sample)
        return br_argmax(logits, -1, true);
    logits = truncate(g, logits);
    return sample(g->o.min_p > 0 ? drop_unlikely(logits, g->o.min_p) : logits);
}

/* ---- Steps ----------------------------------------------------------------------------------- */

static bool check_logits(const generation *g, const br_tensor *logits)
{
    if (!br_require_tensor(op, "logits", logits))
        return false;
    if (br_ndim(logits) != 2 || br_size(logits, 0) != g->batch || br_size(logits, 1) == 0 ||
        !br_is_floating(logits))
        br_fail(BR_ERROR_SHAPE, op,
                "the model's logits %s %s must be floats of shape [%" PRId64 ", V]",
                br_dtype_name(br_dtype_of(logits)), br_shape_text(logits), g->batch);
    return !br_error_pending();
}

/* Appends a token to each row, or padding if the row has ended. */
static void append(generation *g, br_tensor *next)
{
    br_tensor *column = br_narrow(g->ids, 1, g->length, 1);
    if (!g->eos) {
        br_copy_(column, next);
    } else {
        br_tensor *pad = ids_beside(next, 1, &g->o.pad_token_id);
        br_copy_(column, br_where(g->running, next, pad));
        br_tensor *ended = br_any_dim(br_eq(next, g->eos), BR_DIMS(1), true);
        br_copy_(g->running, br_logical_and(g->running, br_logical_not(ended)));
    }
    if (!br_error_pending())
        g->length++;
}

static bool step(generation *g, int64_t first)
{
    br_scope *scope = br_scope_begin();
    int64_t seen = br_cache_length(g->cache), n = g->length - seen;
    br_tensor *fresh = br_narrow(g->ids, 1, seen, n);
    br_tensor *mask = g->mask ? br_narrow(g->mask, 1, 0, g->length) : NULL;
    br_tensor *logits = g->lm->next(g->lm->model, fresh, mask, g->cache);
    bool unfinished = check_logits(g, logits);
    if (unfinished) {
        logits = br_to(logits, br__computed(br_dtype_of(logits))); /* as transformers does */
        append(g, choose(g, logits, fresh, g->length - first));
        unfinished = !br_error_pending() && (!g->eos || br_item_i64(br_any(g->running)));
        if (!br_error_pending() && g->o.on_tokens)
            unfinished &= g->o.on_tokens(g->o.context, br_narrow(g->ids, 1, g->length - 1, 1));
    }
    br_scope_end(scope);
    return unfinished && !br_error_pending();
}

/* ---- Setup ----------------------------------------------------------------------------------- */

static bool good_options(const br_generate_options *o)
{
    if (o->max_new_tokens < 0 || o->min_new_tokens < 0 || o->top_k < 0 ||
        o->no_repeat_ngram_size < 0)
        br_fail(BR_ERROR_ARGUMENT, op,
                "max_new_tokens %" PRId64 ", min_new_tokens %" PRId64 ", top_k %" PRId64
                " and no_repeat_ngram_size %" PRId64 " must be at least 0",
                o->max_new_tokens, o->min_new_tokens, o->top_k, o->no_repeat_ngram_size);
    else if (!(o->temperature > 0 && o->temperature < INFINITY))
        br_fail(BR_ERROR_ARGUMENT, op, "temperature is %g, must be positive and finite",
                o->temperature);
    else if (!(o->top_p > 0 && o->top_p <= 1))
        br_fail(BR_ERROR_ARGUMENT, op, "top_p is %g, must be larger than 0 and at most 1",
                o->top_p);
    else if (!(o->min_p >= 0 && o->min_p <= 1))
        br_fail(BR_ERROR_ARGUMENT, op, "min_p is %g, must be 0 .. 1", o->min_p);
    else if (!(o->repetition_penalty > 0 && o->repetition_penalty < INFINITY))
        br_fail(BR_ERROR_ARGUMENT, op, "repetition_penalty is %g, must be positive and finite",
                o->repetition_penalty);
    else if (o->n_eos < 0 || (o->n_eos > 0 && !o->eos_token_ids))
        br_fail(
            BR_ERROR_ARGUMENT, op,
            "n_eos is %" PRId64
            " and eos_token_ids is %s: n_eos must be at least 0, and 0 if eos_token_ids is NULL",
            o->n_eos, o->eos_token_ids ? "not NULL" : "NULL");
    else if (o->n_suppress < 0 || (o->n_suppress > 0 && !o->suppress_tokens))
        br_fail(BR_ERROR_ARGUMENT, op,
                "n_suppress is %" PRId64 " and suppress_tokens is %s: n_suppress must be at least "
                "0, and 0 if suppress_tokens is NULL",
                o->n_suppress, o->suppress_tokens ? "not NULL" : "NULL");
    return !br_error_pending();
}

static bool good_call(const br_language_model *lm, const br_tensor *ids, const br_tensor *mask)
{
    if (br_error_pending())
        return false;
    if (!lm || !lm->next)
        return br_fail(BR_ERROR_ARGUMENT, op, "lm and lm->next are required");
    if (!br_require_tensor(op, "input_ids", ids))
        return false;
    if (br_dtype_of(ids) != BR_I64 || br_ndim(ids) != 2 || br_size(ids, 1) == 0)
        return br_fail(BR_ERROR_SHAPE, op, "input_ids %s %s must be i64 [B, S] with S at least 1",
                       br_dtype_name(br_dtype_of(ids)), br_shape_text(ids));
    if (mask && !br_same_shape(mask, ids))
        return br_fail(BR_ERROR_SHAPE, op, "attention_mask %s must have input_ids' shape %s",
                       br_shape_text(mask), br_shape_text(ids));
    if (lm->max_length > 0 && br_size(ids, 1) >= lm->max_length)
        return br_fail(BR_ERROR_SHAPE, op,
                       "input_ids %s leave no room for new tokens: the model's limit is %" PRId64
                       " tokens",
                       br_shape_text(ids), lm->max_length);
    return true;
}

static bool begin(generation *g, br_tensor *input_ids)
{
    int64_t given = br_size(input_ids, 1), limit = g->lm->max_length;
    g->batch = br_size(input_ids, 0);
    g->length = given;
    if (g->o.max_new_tokens > INT32_MAX - given)
        return br_fail(BR_ERROR_ARGUMENT, op,
                       "%" PRId64 " input tokens and %" PRId64
                       " new tokens exceed the limit of 2147483647",
                       given, g->o.max_new_tokens);
    g->capacity = given + g->o.max_new_tokens;
    if (limit > 0 && g->capacity > limit)
        g->capacity = limit;
    g->ids = br_new_empty(input_ids, BR_SHAPE(g->batch, g->capacity), BR_I64);
    br_copy_(br_narrow(g->ids, 1, 0, given), input_ids);
    if (g->o.attention_mask) {
        g->mask = br_new_ones(input_ids, BR_SHAPE(g->batch, g->capacity), BR_I64);
        br_copy_(br_narrow(g->mask, 1, 0, given), g->o.attention_mask);
    }
    if (g->o.n_eos > 0)
        g->eos = ids_beside(input_ids, g->o.n_eos, g->o.eos_token_ids);
    if (g->o.n_suppress > 0)
        g->suppressed = ids_beside(input_ids, g->o.n_suppress, g->o.suppress_tokens);
    g->running = br_new_ones(input_ids, BR_SHAPE(g->batch, 1), BR_BOOL);
    if (!g->lm->no_cache)
        g->cache = br_cache_new();
    return !br_error_pending();
}

br_tensor *br_generate(const br_language_model *lm, br_tensor *input_ids,
                       const br_generate_options *options)
{
    generation g = { .lm = lm, .o = *BR_OPTIONS_OF(op, br_generate, options) };
    if (!good_call(lm, input_ids, g.o.attention_mask) || !good_options(&g.o))
        return NULL;
    if (g.o.pad_token_id == BR_NONE)
        g.o.pad_token_id = g.o.n_eos > 0 ? g.o.eos_token_ids[0] : 0;
    br_scope *scope = br_no_grad_begin();
    bool unfinished = begin(&g, input_ids);
    while (unfinished && g.length < g.capacity)
        unfinished = step(&g, br_size(input_ids, 1));
    br_cache_free(g.cache);
    br_tensor *ids = br_error_pending() ? NULL : br_contiguous(br_narrow(g.ids, 1, 0, g.length));
    br_scope_return(scope, ids);
    br_scope_end(scope);
    return ids;
}
