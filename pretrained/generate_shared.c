/* pretrained/generate_shared.c - what the ways to generate tokens share: running the model, and the
 * tokens that the options make less likely or exclude. */
#include "pretrained/generate_internal.h"
#include "tensor/device.h"
#include "tensor/host.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

static const char op[] = "generate";

/* ---- Running the model ----------------------------------------------------------------------- */

br_tensor *br__ids_beside(const br_tensor *t, int64_t n, const int64_t *ids)
{
    return br_to_device(br_from_i64(BR_SHAPE(1, n), ids), br_device_of(t));
}

static bool check_logits(const br_generation *g, const br_tensor *logits)
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

br_tensor *br__fresh_tokens(const br_generation *g)
{
    int64_t seen = br_cache_length(g->cache);
    return br_narrow(g->ids, 1, seen, g->length - seen);
}

/* Empties the cache if the keys and values of all tokens change with the next one. */
static void renew_cache(br_generation *g)
{
    const int64_t last = g->lm->recomputed_after, seen = br_cache_length(g->cache);
    if (last <= 0 || g->length <= last || seen == 0 || seen > last)
        return;
    br_cache_free(g->cache);
    g->cache = br_cache_new();
}

br_tensor *br__generation_logits(br_generation *g)
{
    renew_cache(g);
    br_tensor *mask = g->mask ? br_narrow(g->mask, 1, 0, g->length) : NULL;
    br_tensor *logits = g->lm->next(g->lm->model, br__fresh_tokens(g), mask, g->cache);
    return check_logits(g, logits) ? br_to(logits, br__computed(br_dtype_of(logits))) : NULL;
}

/* ---- Rules for tokens ------------------------------------------------------------------------ */

/* Returns bool [*, V], true at the ids [*, n] of each row. */
static br_tensor *marks(br_tensor *ids, int64_t vocab)
{
    br_tensor *all = br_new_arange(ids, 0, (double)vocab, 1, BR_I64);
    return br_any_dim(br_eq(br_unsqueeze(ids, -1), all), BR_DIMS(1), false);
}

br_tensor *br__penalize(br_generation *g, br_tensor *fresh, br_tensor *scores)
{
    if (g->mask) { /* padding does not count as a token */
        br_tensor *mask = br_narrow(g->mask, 1, g->length - br_size(fresh, 1), br_size(fresh, 1));
        fresh = br_masked_fill(fresh, br_eq_scalar(mask, 0), -1);
    }
    br_tensor *marked = marks(fresh, br_size(scores, 1));
    if (!g->seen)
        g->seen = br_scope_return(NULL, marked);
    else
        br_copy_(g->seen, br_logical_or(g->seen, marked));
    double penalty = g->o.repetition_penalty;
    br_tensor *less = br_where(br_lt_scalar(scores, 0), br_mul_scalar(scores, penalty),
                               br_div_scalar(scores, penalty));
    return br_where(g->seen, less, scores);
}

/* Returns bool [B, V], true at the tokens that would complete an n-gram that is already in the
 * row. */
static br_tensor *completions(const br_generation *g, int64_t n, int64_t vocab)
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

br_tensor *br__exclude(const br_generation *g, br_tensor *scores)
{
    int64_t vocab = br_size(scores, 1), n = g->o.no_repeat_ngram_size;
    if (n > 0 && g->length >= n)
        scores = br_masked_fill(scores, completions(g, n, vocab), -INFINITY);
    if (g->eos && g->length - g->first < g->o.min_new_tokens)
        scores = br_masked_fill(scores, marks(g->eos, vocab), -INFINITY);
    if (g->suppressed)
        scores = br_masked_fill(scores, marks(g->suppressed, vocab), -INFINITY);
    return scores;
}

/* Sets an error if no token can be chosen by a row whose largest logit is `largest`. */
static void check_row(const br_generation *g, int64_t row, double largest)
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

bool br__can_choose(const br_generation *g, br_tensor *scores)
{
    br_tensor *largest = br_to(br_max_dim(scores, -1, false, NULL), BR_F64);
    const double *values = br_data_f64(br__on_host(op, largest));
    const bool *running = br_data_bool(br__on_host(op, g->running));
    for (int64_t row = 0; values && running && row < g->batch && !br_error_pending(); row++)
        if (running[row])
            check_row(g, row, values[row]);
    return !br_error_pending();
}
