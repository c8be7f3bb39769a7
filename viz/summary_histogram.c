/* viz/summary_histogram.c - distributions for TensorBoard: HistogramProto of summary.proto has
 * 1 double min, 2 max, 3 num, 4 sum, 5 sum_squares, and 6 bucket_limit and 7 bucket, the upper
 * limits of the bins and the numbers of their values. */
#include "tensor/min_max.h"
#include "viz/summary.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

BR_DEFINE_DEFAULTS(br_summary_histogram)

enum { HISTO = 5 };           /* of a Value */
enum { MOST_BINS = 1 << 24 }; /* of equal width: 128 MB of limits */
enum { POSITIVE_BINS = 774 }; /* limits from 1e-12 to 1e20 */

/* `limits` has n + 1 entries, the first of which is the lower limit of the first bin. */
typedef struct bins {
    int64_t n;
    double *limits, *counts;
    bool equal; /* of equal width */
} bins;

static void free_bins(bins *b)
{
    br_free(b->limits);
    br_free(b->counts);
}

static bool make_bins(bins *b, int64_t n)
{
    b->n = n;
    b->limits = br_malloc((size_t)(n + 1) * sizeof *b->limits);
    b->counts = br_calloc((size_t)n, sizeof *b->counts);
    return b->limits && b->counts;
}

/* Makes the bins of TensorFlow's histograms: 0, and both signs of 1e-12 times powers of 1.1. */
static bool tensorflow_bins(bins *b)
{
    if (!make_bins(b, 2 * POSITIVE_BINS))
        return false;
    double limit = 1e-12;
    b->limits[POSITIVE_BINS] = 0;
    for (int i = 1; i <= POSITIVE_BINS; i++, limit *= 1.1) {
        b->limits[POSITIVE_BINS + i] = limit;
        b->limits[POSITIVE_BINS - i] = -limit;
    }
    return true;
}

/* Makes bins of equal width between two values, or around a single one. */
static bool equal_bins(bins *b, int64_t n, double min, double max)
{
    if (!make_bins(b, n))
        return false;
    b->equal = true;
    double low = min == max ? min - 0.5 : min, high = min == max ? max + 0.5 : max;
    for (int64_t i = 0; i <= n; i++)
        b->limits[i] = low + (double)i * ((high - low) / (double)n);
    b->limits[n] = high;
    return true;
}

/* Returns the bin of a value: the last whose lower limit is at most the value, or -1 if there is
 * none. The upper limit of the last bin belongs to it. */
static int64_t bin_of(const bins *b, double value)
{
    if (!(value >= b->limits[0] && value <= b->limits[b->n]))
        return -1;
    int64_t low = 0, high = b->n; /* limits[low] <= value; value < limits[high], or high is n */
    while (high - low > 1) {
        int64_t middle = low + (high - low) / 2;
        if (value >= b->limits[middle])
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* Joins adjacent bins so that about `most` are left, as PyTorch does. */
static void join_bins(bins *b, int64_t most)
{
    if (most == BR_NONE || b->n <= most)
        return;
    int64_t each = b->n / most, n = (b->n + each - 1) / each;
    for (int64_t i = 0; i < n; i++) {
        double count = 0;
        for (int64_t j = i * each; j < br__min((i + 1) * each, b->n); j++)
            count += b->counts[j];
        b->counts[i] = count;
        b->limits[i] = b->limits[i * each];
    }
    b->limits[n] = b->limits[b->n];
    b->n = n;
}

/* Adds the bins from the first to the last that has a value, after an empty bin whose upper limit
 * is their lower one. */
static void add_bins(br_message *histo, const bins *b)
{
    int64_t first = 0, end = b->n;
    while (b->counts[first] == 0)
        first++;
    while (b->counts[end - 1] == 0)
        end--;
    br__message_doubles(histo, 6, b->limits + first, end - first + 1);
    br__message_begin_bytes(histo, 7, (size_t)(end - first + 1) * sizeof(double));
    br__text_append(histo, &(double){ 0 }, sizeof(double));
    br__text_append(histo, b->counts + first, (size_t)(end - first) * sizeof(double));
}

typedef struct statistics {
    double min, max, sum, sum_squares;
} statistics;

/* If a value is NaN, so are all four. */
static statistics statistics_of(const double *values, int64_t n)
{
    statistics s = { values[0], values[0], 0, 0 };
    for (int64_t i = 0; i < n; i++) {
        s.min = !(values[i] >= s.min) ? values[i] : s.min;
        s.max = !(values[i] <= s.max) ? values[i] : s.max;
        s.sum += values[i];
        s.sum_squares += values[i] * values[i];
    }
    if (isnan(s.sum_squares))
        s.min = s.max = NAN;
    return s;
}

/* Counts the values in bins; fails if none is in a bin. */
static bool fill_bins(const char *op, bins *b, const double *values, int64_t n)
{
    int64_t counted = 0;
    for (int64_t i = 0; i < n; i++) {
        int64_t bin = bin_of(b, values[i]);
        if (bin >= 0)
            b->counts[bin]++;
        counted += bin >= 0;
    }
    if (counted == 0)
        br_fail(BR_ERROR_ARGUMENT, op,
                "values: all %" PRId64 " are NaN or beyond 1e20, so no bin has one", n);
    return !br_failed();
}

static bool good_options(const char *op, const br_summary_histogram_options *o)
{
    if (o->bins != BR_NONE && (o->bins < 1 || o->bins > MOST_BINS))
        br_fail(BR_ERROR_ARGUMENT, op, "bins is %" PRId64 ", must be 1 .. %d, or BR_NONE", o->bins,
                MOST_BINS);
    else if (o->max_bins != BR_NONE && o->max_bins < 1)
        br_fail(BR_ERROR_ARGUMENT, op, "max_bins is %" PRId64 ", must be at least 1, or BR_NONE",
                o->max_bins);
    return !br_failed();
}

/* Makes the message of the values; returns false and an error on failure. */
static bool describe(const char *op, br_message *histo, const double *values, int64_t n,
                     const br_summary_histogram_options *o)
{
    bins b = { 0 };
    statistics s = statistics_of(values, n);
    if (o->bins != BR_NONE && !isfinite(s.max - s.min))
        return br_fail(BR_ERROR_ARGUMENT, op,
                       "values must be finite if bins is set, their range is %g .. %g", s.min,
                       s.max);
    bool ok = (o->bins == BR_NONE ? tensorflow_bins(&b) : equal_bins(&b, o->bins, s.min, s.max)) &&
              fill_bins(op, &b, values, n);
    if (ok) {
        join_bins(&b, o->max_bins);
        br__message_double(histo, 1, s.min);
        br__message_double(histo, 2, s.max);
        br__message_double(histo, 3, (double)n);
        br__message_double(histo, 4, s.sum);
        br__message_double(histo, 5, s.sum_squares);
        add_bins(histo, &b);
    }
    free_bins(&b);
    return ok && !br_failed();
}

bool br_summary_writer_add_histogram(br_summary_writer *self, const char *tag, br_tensor *values,
                                     int64_t step, const br_summary_histogram_options *options)
{
    static const char op[] = "summary_writer_add_histogram";
    const br_summary_histogram_options *o = BR_OPTIONS_OF(op, br_summary_histogram, options);
    if (!br__good_summary(op, self, "tag", tag, step) || !br__required(op, "values", values) ||
        !good_options(op, o))
        return false;
    if (values->numel == 0)
        return br_fail(BR_ERROR_SHAPE, op, "values %s has no elements", br__shape(values));
    self->events.op = op;
    br_scope *scope = br_no_grad_begin();
    br_tensor *numbers =
        br_contiguous(br_to(br_to_device(values, (br_device){ BR_CPU, 0 }), BR_F64));
    br_message histo = { 0 };
    bool ok = numbers && describe(op, &histo, br_data_f64(numbers), values->numel, o) &&
              br__summary_add(self, tag, step, HISTO, &histo);
    br__message_free(&histo);
    br_scope_end(scope);
    return ok;
}
