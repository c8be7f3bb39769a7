/* nn/rope.c - tables of rotary positions: plain, and for texts that are longer than in training.
 *
 * The tables are computed for each call: for a token they need as many cosines as a head has
 * numbers, and a table of all positions of a model of today would take 30 MB and more. */
#include "nn/nn_internal.h"

#include <inttypes.h>
#include <math.h>

BR_DEFINE_DEFAULTS(br_rope)

static const char op[] = "rope";

/* What the rates of a text depend on. */
typedef struct turns {
    const br_rope_options *o;
    int64_t dim, pairs;
    int64_t length; /* number of the text's tokens */
    br_dtype dtype; /* of the rates and angles: f32, as in transformers, or f64 */
} turns;

/* ---- Rates ----------------------------------------------------------------------------------- */

/* Returns theta^(-2 i / dim). Each step is rounded, because a model was trained with the rounded
 * rates, and the position multiplies the difference. */
static double plain_rate(const turns *t, int64_t i, double theta)
{
    double exponent = br__rounded(t->dtype, 2.0 * (double)i / (double)t->dim);
    double period = br__rounded(t->dtype, pow(theta, exponent));
    return br__rounded(t->dtype, 1 / period);
}

/* Returns theta for a text of `length` tokens. */
static double stretched_theta(const turns *t)
{
    const br_rope_options *o = t->o;
    double trained = (double)o->original_max_position_embeddings;
    double length = fmax((double)t->length, trained), dim = (double)t->dim;
    return o->theta * pow(o->factor * length / trained - (o->factor - 1), dim / (dim - 2));
}

/* Returns the pair, which need not be a whole number, that turns n times in the trained length. */
static double pair_of_turns(const turns *t, double n)
{
    double trained = (double)t->o->original_max_position_embeddings;
    return (double)t->dim * log(trained / (n * 2 * M_PI)) / (2 * log(t->o->theta));
}

/* Returns which part of pair i's rate is divided by `factor`, 0 .. 1. */
static double yarn_part(const turns *t, int64_t i)
{
    const br_rope_options *o = t->o;
    double low = pair_of_turns(t, o->beta_fast), high = pair_of_turns(t, o->beta_slow);
    if (!o->no_truncate) {
        low = floor(low);
        high = ceil(high);
    }
    low = fmax(low, 0.0);
    high = fmin(high, (double)(t->dim - 1));
    if (low == high)
        high += 0.001;
    double part = ((double)i - low) / (high - low);
    return fmin(fmax(part, 0.0), 1.0);
}

static double llama3_rate(const turns *t, double rate)
{
    const br_rope_options *o = t->o;
    double n = (double)o->original_max_position_embeddings * rate / (2 * M_PI); /* turns */
    if (n > o->high_freq_factor)
        return rate;
    if (n < o->low_freq_factor)
        return rate / o->factor;
    double kept = (n - o->low_freq_factor) / (o->high_freq_factor - o->low_freq_factor);
    return (1 - kept) * rate / o->factor + kept * rate;
}

/* Returns the rate of a text that is short or long. The factor is rounded, and it multiplies the
 * period, as in transformers. */
static double longrope_rate(const turns *t, int64_t i, double rate)
{
    const br_rope_options *o = t->o;
    bool is_long = t->length > o->original_max_position_embeddings;
    double factor = br__rounded(t->dtype, (is_long ? o->long_factor : o->short_factor)[i]);
    return 1 / br__rounded(t->dtype, factor / rate);
}

static double rate_of(const turns *t, int64_t i)
{
    const br_rope_options *o = t->o;
    double rate = plain_rate(t, i, o->type == BR_ROPE_DYNAMIC ? stretched_theta(t) : o->theta);
    switch (o->type) {
    case BR_ROPE_LINEAR:
        return rate / o->factor;
    case BR_ROPE_YARN:
        return rate / o->factor * yarn_part(t, i) + rate * (1 - yarn_part(t, i));
    case BR_ROPE_LLAMA3:
        return llama3_rate(t, rate);
    case BR_ROPE_LONGROPE:
        return longrope_rate(t, i, rate);
    default:
        return rate;
    }
}

/* ---- The factor of cos and sin --------------------------------------------------------------- */

static double yarn_scale(double factor, double mscale)
{
    return 0.1 * mscale * log(fmax(factor, 1.0)) + 1;
}

static double attention_factor(const br_rope_options *o)
{
    bool scales = o->type == BR_ROPE_YARN || o->type == BR_ROPE_LONGROPE;
    if (!scales || !isnan(o->attention_factor))
        return scales ? o->attention_factor : 1;
    double factor = fmax(o->factor, 1.0);
    if (o->type == BR_ROPE_LONGROPE)
        return sqrt(1 + log(factor) / log((double)o->original_max_position_embeddings));
    if (o->mscale == 0 || o->mscale_all_dim == 0)
        return yarn_scale(factor, 1);
    return yarn_scale(factor, o->mscale) / yarn_scale(factor, o->mscale_all_dim);
}

/* ---- Checks ---------------------------------------------------------------------------------- */

static bool good_longrope(const br_rope_options *o, int64_t pairs)
{
    if (o->n_factors != pairs || pairs > BR_ROPE_MAX_FACTORS)
        return br_fail(BR_ERROR_ARGUMENT, op,
                       "n_factors is %" PRId64 ", must be dim / 2 = %" PRId64
                       " and at most %d: short_factor and long_factor have a number for each pair",
                       o->n_factors, pairs, BR_ROPE_MAX_FACTORS);
    for (int64_t i = 0; i < pairs; i++)
        if (!(o->short_factor[i] > 0 && o->long_factor[i] > 0))
            return br_fail(BR_ERROR_ARGUMENT, op,
                           "short_factor[%" PRId64 "] is %g and long_factor[%" PRId64
                           "] is %g: must be positive",
                           i, o->short_factor[i], i, o->long_factor[i]);
    return true;
}

/* Checks the options that only some types have. */
static bool good_type(const br_rope_options *o, int64_t dim)
{
    bool needs_length = o->type != BR_ROPE_DEFAULT && o->type != BR_ROPE_LINEAR;
    if (o->type < BR_ROPE_DEFAULT || o->type > BR_ROPE_LONGROPE)
        return br_fail(BR_ERROR_ARGUMENT, op, "type is %d, must be a br_rope_type", (int)o->type);
    if (o->type != BR_ROPE_DEFAULT && !(o->factor > 0 && o->factor < INFINITY))
        return br_fail(BR_ERROR_ARGUMENT, op, "factor is %g, must be positive", o->factor);
    if (needs_length && o->original_max_position_embeddings < 2)
        return br_fail(BR_ERROR_ARGUMENT, op,
                       "original_max_position_embeddings is %" PRId64
                       ": it is the number of tokens of the longest trained text, at least 2",
                       o->original_max_position_embeddings);
    if (o->type == BR_ROPE_DYNAMIC && dim < 4)
        return br_fail(BR_ERROR_ARGUMENT, op, "dim is %" PRId64 ", must be at least 4", dim);
    if (o->type == BR_ROPE_LLAMA3 &&
        !(o->low_freq_factor > 0 && o->low_freq_factor < o->high_freq_factor))
        return br_fail(BR_ERROR_ARGUMENT, op,
                       "low_freq_factor is %g and high_freq_factor is %g: the first must be "
                       "positive and less than the second",
                       o->low_freq_factor, o->high_freq_factor);
    if (o->type == BR_ROPE_YARN && !(o->beta_slow > 0 && o->beta_slow <= o->beta_fast))
        return br_fail(BR_ERROR_ARGUMENT, op,
                       "beta_slow is %g and beta_fast is %g: the first must be positive and at "
                       "most the second",
                       o->beta_slow, o->beta_fast);
    return o->type != BR_ROPE_LONGROPE || good_longrope(o, dim / 2);
}

static bool good_call(const br_tensor *positions, int64_t dim, br_dtype dtype,
                      const br_rope_options *o)
{
    if (!br__required(op, "positions", positions))
        return false;
    if (br_dtype_of(positions) != BR_I64)
        return br_fail(BR_ERROR_DTYPE, op, "positions are %s, must be i64",
                       br_dtype_name(br_dtype_of(positions)));
    if (!br__is_floating(dtype))
        return br_fail(BR_ERROR_DTYPE, op, "dtype is %s, must be a floating dtype",
                       br_dtype_name(dtype));
    if (dim < 2 || dim % 2 != 0 || dim > INT32_MAX)
        return br_fail(BR_ERROR_ARGUMENT, op, "dim is %" PRId64 ", must be even and at least 2",
                       dim);
    if (!(o->theta > 0 && o->theta < INFINITY))
        return br_fail(BR_ERROR_ARGUMENT, op, "theta is %g, must be positive", o->theta);
    return good_type(o, dim);
}

/* ---- Tables ---------------------------------------------------------------------------------- */

/* Returns the number of tokens of the text, if the rates depend on it. */
static int64_t length_of(const br_tensor *positions, const br_rope_options *o)
{
    bool matters = o->type == BR_ROPE_DYNAMIC || o->type == BR_ROPE_LONGROPE;
    if (!matters || br_numel(positions) == 0)
        return 0;
    return br_item_i64(br_max((br_tensor *)positions)) + 1;
}

/* Returns the rates, f32 or f64 [pairs]. */
static br_tensor *rates_of(const turns *t)
{
    double *rates = br_calloc((size_t)t->pairs, sizeof *rates);
    if (!rates)
        return NULL;
    for (int64_t i = 0; i < t->pairs; i++)
        rates[i] = rate_of(t, i);
    br_tensor *all = br_from_f64(BR_SHAPE(t->pairs), rates);
    br_free(rates);
    return br_to(all, t->dtype);
}

static br_tensor *table(br_tensor *values, double factor, br_dtype dtype)
{
    return br_to(factor == 1 ? values : br_mul_scalar(values, factor), dtype);
}

bool br_rope(br_tensor *positions, int64_t dim, br_dtype dtype, const br_rope_options *options,
             br_tensor **cos, br_tensor **sin)
{
    if (!br__required(op, "cos", cos) || !br__required(op, "sin", sin))
        return false;
    *cos = *sin = NULL;
    const br_rope_options *o = BR_OPTIONS_OF(op, br_rope, options);
    if (br_failed() || !good_call(positions, dim, dtype, o))
        return false;
    br_scope *scope = br_no_grad_begin();
    turns t = { o, dim, dim / 2, length_of(positions, o), br__computed(dtype) };
    br_tensor *rates = br_to_device(rates_of(&t), br_device_of(positions));
    br_tensor *angles = br_mul(br_unsqueeze(br_to(positions, t.dtype), -1), rates);
    double factor = attention_factor(o);
    *cos = br_scope_return(scope, table(br_cos(angles), factor, dtype));
    *sin = br_scope_return(scope, table(br_sin(angles), factor, dtype));
    br_scope_end(scope);
    return !br_failed();
}
