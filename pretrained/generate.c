/* pretrained/generate.c - generate(): generates tokens from a model's logits.
 *
 * All buffers are allocated at their final size before the first step. A step's temporaries are
 * freed at its end. */
#include "pretrained/generate_internal.h"
#include "tensor/device.h"
#include "tensor/host.h"

#include <inttypes.h>
#include <math.h>

BR_DEFINE_DEFAULTS(br_generate)

static const char op[] = "generate";

/* ---- The next token -------------------------------------------------------------------------- */

/* Chooses the next tokens [B, 1] by the logits [B, V]. */
static br_tensor *choose(br_generation *g, br_tensor *logits, br_tensor *fresh)
{
    if (br_error_pending())
        return NULL;
    if (g->o.repetition_penalty != 1)
        logits = br__penalize(g, fresh, logits);
    logits = br__exclude(g, logits);
    if (g->o.do_sample && g->o.temperature != 1)
        logits = br_div_scalar(logits, g->o.temperature);
    if (!br__can_choose(g, logits))
        return NULL;
    if (!g->o.do_sample)
        return br_argmax(logits, -1, true);
    return br__sample_tokens(br__truncate_scores(g, logits, 1), 1);
}

/* ---- Steps ----------------------------------------------------------------------------------- */

/* Returns whether rows can end before the others. */
static bool rows_end(const br_generation *g)
{
    return g->eos || g->o.n_stop_strings > 0;
}

/* Returns bool [B, 1], true for the rows whose last token completes a stop string. */
static br_tensor *stopped_rows(const br_generation *g)
{
    int64_t reach = br__stop_string_reach(&g->o), n = reach < g->length ? reach : g->length;
    const int64_t *ids = br__host_i64(br_narrow(g->ids, 1, g->length - n, n));
    br_tensor *stopped = br__zeros_on_host(op, BR_SHAPE(g->batch, 1), BR_BOOL);
    bool *values = br_data_bool(stopped);
    for (int64_t row = 0; ids && values && row < g->batch; row++)
        values[row] = br__ends_in_stop_string(&g->o, n, ids + row * n);
    return br__placed(op, br__backend_of(g->ids), stopped);
}

/* Notes which rows end with the tokens that were appended. */
static void end_rows(br_generation *g, br_tensor *next)
{
    if (g->eos && !br_error_pending()) {
        br_tensor *ended = br_any_dim(br_eq(next, g->eos), BR_DIMS(1), true);
        br_copy_(g->running, br_logical_and(g->running, br_logical_not(ended)));
    }
    if (g->o.n_stop_strings > 0 && !br_error_pending())
        br_copy_(g->running, br_logical_and(g->running, br_logical_not(stopped_rows(g))));
}

/* Appends a token to each row, or padding if the row has ended. */
static void append(br_generation *g, br_tensor *next)
{
    br_tensor *column = br_narrow(g->ids, 1, g->length, 1), *shown = next;
    if (rows_end(g))
        shown = br_where(g->running, next, br__ids_beside(next, 1, &g->o.pad_token_id));
    br_copy_(column, shown);
    if (br_error_pending())
        return;
    g->length++;
    end_rows(g, next);
}

static bool step(br_generation *g)
{
    br_scope *scope = br_scope_begin();
    br_tensor *fresh = br__fresh_tokens(g); /* before the model appends them to the cache */
    br_tensor *logits = br__generation_logits(g);
    bool unfinished = logits != NULL;
    if (unfinished) {
        append(g, choose(g, logits, fresh));
        unfinished = !br_error_pending() && (!rows_end(g) || br_item_i64(br_any(g->running)));
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
    return !br_error_pending() && br__check_stop_strings(op, o);
}

/* Checks the options of beam search. */
static bool good_search(const br_generate_options *o)
{
    if (br_error_pending())
        return false;
    if (o->num_beams < 1 || o->num_beams > INT16_MAX || o->num_return_sequences < 1 ||
        o->num_return_sequences > INT16_MAX)
        br_fail(BR_ERROR_ARGUMENT, op,
                "num_beams %" PRId64 " and num_return_sequences %" PRId64 " must be in 1 .. %d",
                o->num_beams, o->num_return_sequences, INT16_MAX);
    else if (o->num_beams > 1 && o->num_return_sequences > o->num_beams)
        br_fail(BR_ERROR_ARGUMENT, op,
                "num_return_sequences is %" PRId64 ", must be at most num_beams = %" PRId64,
                o->num_return_sequences, o->num_beams);
    else if (o->num_beams == 1 && o->num_return_sequences > 1 && !o->do_sample)
        br_fail(BR_ERROR_ARGUMENT, op,
                "num_return_sequences is %" PRId64
                ", but there is one likeliest sequence: set do_sample, or more num_beams",
                o->num_return_sequences);
    else if (o->num_beams > 1 && o->on_tokens)
        br_fail(BR_ERROR_ARGUMENT, op,
                "on_tokens with num_beams = %" PRId64 ": the tokens of beams are known at the end",
                o->num_beams);
    else if (!isfinite(o->length_penalty))
        br_fail(BR_ERROR_ARGUMENT, op, "length_penalty is %g, must be finite", o->length_penalty);
    else if (o->early_stopping < BR_EARLY_STOPPING_OFF ||
             o->early_stopping > BR_EARLY_STOPPING_NEVER)
        br_fail(BR_ERROR_ARGUMENT, op, "early_stopping is %d, must be a br_early_stopping",
                (int)o->early_stopping);
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

/* Prepares several rows for each row of the input. */
static bool begin(br_generation *g, br_tensor *input_ids, int64_t copies)
{
    int64_t given = br_size(input_ids, 1), limit = g->lm->max_length;
    br_tensor *mask = g->o.attention_mask;
    if (copies > 1) {
        input_ids = br_repeat_interleave_scalar(input_ids, copies, 0);
        mask = mask ? br_repeat_interleave_scalar(mask, copies, 0) : NULL;
    }
    if (br_error_pending())
        return false;
    g->batch = br_size(input_ids, 0);
    g->length = g->first = given;
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
    if (mask) {
        g->mask = br_new_ones(input_ids, BR_SHAPE(g->batch, g->capacity), BR_I64);
        br_copy_(br_narrow(g->mask, 1, 0, given), mask);
    }
    if (g->o.n_eos > 0)
        g->eos = br__ids_beside(input_ids, g->o.n_eos, g->o.eos_token_ids);
    if (g->o.n_suppress > 0)
        g->suppressed = br__ids_beside(input_ids, g->o.n_suppress, g->o.suppress_tokens);
    g->running = br_new_ones(input_ids, BR_SHAPE(g->batch, 1), BR_BOOL);
    if (!g->lm->no_cache)
        g->cache = br_cache_new();
    return !br_error_pending();
}

/* Generates a token for each row at a time. */
static br_tensor *run_steps(br_generation *g)
{
    bool unfinished = true;
    while (unfinished && g->length < g->capacity)
        unfinished = step(g);
    return br_error_pending() ? NULL : br_contiguous(br_narrow(g->ids, 1, 0, g->length));
}

br_tensor *br_generate(const br_language_model *lm, br_tensor *input_ids,
                       const br_generate_options *options)
{
    br_generation g = { .lm = lm, .o = *BR_OPTIONS_OF(op, br_generate, options) };
    if (!good_call(lm, input_ids, g.o.attention_mask) || !good_options(&g.o) || !good_search(&g.o))
        return NULL;
    if (g.o.pad_token_id == BR_NONE)
        g.o.pad_token_id = g.o.n_eos > 0 ? g.o.eos_token_ids[0] : 0;
    bool has_beams = g.o.num_beams > 1;
    br_tensor *ids = NULL;
    br_scope *scope = br_no_grad_begin();
    if (begin(&g, input_ids, has_beams ? g.o.num_beams : g.o.num_return_sequences))
        ids = has_beams ? br__beam_search(&g) : run_steps(&g);
    br_cache_free(g.cache);
    br_scope_return(scope, ids);
    br_scope_end(scope);
    return ids;
}
