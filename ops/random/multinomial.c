/* ops/random/multinomial.c - indices that are drawn with given probabilities.
 *
 * Without replacement: weights divided by exponential random numbers, of which the largest are
 * taken. This is the Gumbel-max trick (Efraimidis and Spirakis, 2006, "Weighted random sampling
 * with a reservoir"), as in PyTorch. With replacement: a search in the cumulative weights. */
#include "ops/ops_internal.h"
#include "ops/random/random_ops.h"
#include "tensor/device.h"
#include "tensor/host.h"

#include <inttypes.h>
#include <math.h>

enum { MOST_CATEGORIES = 1 << 24 };

static bool possible(br_tensor *weights, int64_t num_samples, bool replacement)
{
    if (!br__floating("multinomial", "weights", weights))
        return false;
    const int64_t n = weights->ndim > 0 ? weights->sizes[weights->ndim - 1] : 0;
    if (weights->ndim < 1 || weights->ndim > 2)
        br_fail(BR_ERROR_SHAPE, "multinomial",
                "weights %s must have 1 or 2 dimensions, [categories] or [rows, categories]",
                br__shape(weights));
    else if (n > MOST_CATEGORIES)
        br_fail(BR_ERROR_SHAPE, "multinomial", "weights %s must have at most %d categories",
                br__shape(weights), MOST_CATEGORIES);
    else if (num_samples < 1)
        br_fail(BR_ERROR_ARGUMENT, "multinomial", "num_samples is %" PRId64 ", must be at least 1",
                num_samples);
    else if (!replacement && num_samples > n)
        br_fail(BR_ERROR_ARGUMENT, "multinomial",
                "num_samples is %" PRId64 ", but weights %s has only %" PRId64
                " categories: more samples need replacement",
                num_samples, br__shape(weights), n);
    return !br_failed();
}

/* Returns the sum of a row of n weights, after each of which the sum so far is stored. Fails and
 * returns 0 if a weight is negative, infinite or NaN, or if the sum is not positive. As in
 * PyTorch, the numbers are f64 only if the weights are; otherwise each sum is rounded to f32. */
static double cumulate(const double *weights, int64_t n, bool wide, double *sums)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++) {
        if (!(weights[i] >= 0 && isfinite(weights[i]))) {
            br_fail(BR_ERROR_ARGUMENT, "multinomial",
                    "weight %" PRId64 " of a row is %g, must be at least 0 and finite", i,
                    weights[i]);
            return 0;
        }
        sum = wide ? sum + weights[i] : (double)(float)(sum + weights[i]);
        sums[i] = sum;
    }
    if (!(sum > 0))
        br_fail(BR_ERROR_ARGUMENT, "multinomial",
                "the weights of a row sum to 0, at least one must be greater than 0");
    return sum;
}

/* Returns the first index whose share of the sum is at least u. The last share counts as 1. */
static int64_t find(const double *shares, int64_t n, double u)
{
    int64_t left = 0, right = n - 1;
    while (left < right) {
        const int64_t middle = left + (right - left) / 2;
        if (shares[middle] < u)
            left = middle + 1;
        else
            right = middle;
    }
    return left;
}

/* Calls cumulate() for all rows, and divides the sums so far by the row's sum. */
static bool make_shares(const double *weights, int64_t rows, int64_t n, bool wide, double *shares)
{
    for (int64_t r = 0; r < rows; r++) {
        double *row = shares + r * n;
        const double sum = cumulate(weights + r * n, n, wide, row);
        if (br_failed())
            return false;
        for (int64_t i = 0; i < n; i++)
            row[i] = wide ? row[i] / sum : (double)(float)(row[i] / sum);
    }
    return true;
}

/* Sets samples [rows, count]; each takes two words of the generator. */
static void search(const double *shares, int64_t rows, int64_t n, int64_t count, int64_t *samples)
{
    for (int64_t r = 0; r < rows; r++)
        for (int64_t i = 0; i < count; i++)
            samples[r * count + i] = find(shares + r * n, n, br_random_double());
}

/* Returns the positions of the `count` largest quotients of weights and exponential numbers. */
static br_tensor *without_replacement(br_tensor *weights, int64_t count)
{
    br_tensor *q = br__new_exponential("multinomial", weights, true), *samples = NULL;
    if (!q)
        return NULL;
    q = br_div(weights, q);
    if (count == 1)
        return br_argmax(q, -1, true);
    return br_topk(q, count, -1, true, &samples) ? samples : NULL;
}

br_tensor *br_multinomial(br_tensor *weights, int64_t num_samples, bool replacement)
{
    BR_OP("multinomial");
    if (!possible(weights, num_samples, replacement))
        return NULL;
    const int64_t rows = weights->ndim == 2 ? weights->sizes[0] : 1;
    const int64_t sizes[] = { rows, num_samples };
    const int64_t *result_sizes = weights->ndim == 2 ? sizes : sizes + 1;
    const bool wide = br__dtype_size(weights->dtype) == sizeof(double);
    double *weight, *share;
    int64_t *sample;
    br_scope *scope = br_no_grad_begin();
    br_tensor *dense = br__new_host_f64("multinomial", weights->ndim, weights->sizes, &weight);
    br_tensor *shares = br__new_host_f64("multinomial", weights->ndim, weights->sizes, &share);
    br_tensor *y = br__new_host_i64("multinomial", weights->ndim, result_sizes, &sample);
    const int64_t n = weights->sizes[weights->ndim - 1];
    if (!dense || !shares || !y || !br__transfer("multinomial", dense, weights))
        y = NULL;
    else if (y->numel > 0 && !make_shares(weight, rows, n, wide, share))
        y = NULL;
    else if (!replacement || num_samples == 1)
        y = y->numel > 0 ? without_replacement(weights, num_samples) : y;
    else
        search(share, rows, n, num_samples, sample);
    y = br_scope_return(scope, y ? br__placed("multinomial", br__backend_of(weights), y) : NULL);
    br_scope_end(scope);
    if (y && BR_PROFILING)
        br__thread.events->result(y);
    return y;
}
