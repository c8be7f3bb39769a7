/* tensor/window_functions.c - logarithmic ranges, and the windows of signal processing. */
#include "tensor/tensor_internal.h"

#include <inttypes.h>
#include <math.h>

/* A function of an index, and its numbers. */
typedef struct series {
    double (*value)(const struct series *s, double i);
    br_dtype dtype;       /* in which PyTorch rounds the terms */
    double last;          /* of a window: the index at which it ends */
    double first, second; /* arguments of the function */
    double start, step;   /* of a range */
} series;

static double rounded(const series *s, double value)
{
    return br__rounded(s->dtype, value);
}

/* Returns a new tensor of n numbers. */
static br_tensor *filled(const char *op, int64_t n, br_dtype dtype, const series *s)
{
    br_tensor *t = br__new_on_host(op, BR_SHAPE(n), dtype);
    for (int64_t i = 0; t && i < n; i++)
        br__put(dtype, br__element(t, i), s->value(s, (double)i));
    return t ? br__placed(op, br__default_backend(), t) : NULL;
}

/* ---- Ranges ---------------------------------------------------------------------------------- */

/* The second half is computed from the end. */
static double power(const series *s, double i)
{
    const bool front = i < floor((s->last + 1) / 2) || s->last == 0;
    const double steps = rounded(s, s->step * (front ? i : s->last - i));
    return pow(s->first, rounded(s, front ? s->start + steps : s->second - steps));
}

br_tensor *br_logspace(double start, double end, int64_t steps, double base, br_dtype dtype)
{
    static const char op[] = "logspace";
    if (br_failed())
        return NULL;
    const bool floats = br__is_floating(dtype);
    if (!floats && !br__is_kind(dtype, BR_KIND_INTEGER))
        return br_fail(BR_ERROR_DTYPE, op,
                       "dtype is %s, must be an integer or floating-point dtype",
                       br_dtype_name(dtype));
    series s = { .value = power,
                 .dtype = floats ? br__computed(dtype) : br__default_dtype(BR_KIND_FLOATING),
                 .last = (double)steps - 1 };
    s.first = floats ? rounded(&s, base) : base;
    s.start = !floats ? trunc(start) : steps == 1 ? start : br__rounded(dtype, start);
    s.second = floats ? br__rounded(dtype, end) : trunc(end);
    s.step = steps > 1 ? rounded(&s, rounded(&s, s.second - s.start) / s.last) : 0;
    return filled(op, steps, dtype, &s);
}

/* ---- Windows --------------------------------------------------------------------------------- */

/* A window of one element is 1. */
static br_tensor *window(const char *op, int64_t n, bool periodic, br_dtype dtype, series s)
{
    if (br_failed())
        return NULL;
    if (!br__is_floating(dtype))
        return br_fail(BR_ERROR_DTYPE, op, "dtype is %s, must be a floating-point dtype",
                       br_dtype_name(dtype));
    s.dtype = dtype;
    s.last = fmax((double)(periodic ? n : n - 1), 1);
    return n == 1 ? br_ones(BR_SHAPE(1), dtype) : filled(op, n, dtype, &s);
}

/* Returns the modified Bessel function of the first kind of order 0, the sum of (x/2)^2k / k!^2. */
static double bessel_i0(double x)
{
    double sum = 1, term = 1;
    for (int k = 1; term > sum * 1e-17; k++) {
        term *= x / (2 * k) * (x / (2 * k));
        sum += term;
    }
    return sum;
}

static double triangle(const series *s, double i)
{
    return 1 - fabs(2 * i / s->last - 1);
}

/* a - b cos(2 pi i / last). */
static double raised_cosine(const series *s, double i)
{
    return s->first - s->second * cos(2 * M_PI * i / s->last);
}

static double blackman(const series *s, double i)
{
    const double turn = 2 * M_PI * i / s->last;
    const double wave = rounded(s, rounded(s, 0.42) - rounded(s, 0.5 * cos(turn)));
    return wave + rounded(s, 0.08 * cos(2 * turn));
}

static double kaiser(const series *s, double i)
{
    const double x = 2 * i / s->last - 1;
    return bessel_i0(s->first * sqrt(fmax(0, 1 - x * x))) / bessel_i0(s->first);
}

br_tensor *br_bartlett_window(int64_t n, bool periodic, br_dtype dtype)
{
    return window("bartlett_window", n, periodic, dtype, (series){ .value = triangle });
}

br_tensor *br_hann_window(int64_t n, bool periodic, br_dtype dtype)
{
    return window("hann_window", n, periodic, dtype,
                  (series){ .value = raised_cosine, .first = 0.5, .second = 0.5 });
}

br_tensor *br_hamming_window(int64_t n, bool periodic, double alpha, double beta, br_dtype dtype)
{
    return window("hamming_window", n, periodic, dtype,
                  (series){ .value = raised_cosine, .first = alpha, .second = beta });
}

br_tensor *br_blackman_window(int64_t n, bool periodic, br_dtype dtype)
{
    return window("blackman_window", n, periodic, dtype, (series){ .value = blackman });
}

br_tensor *br_kaiser_window(int64_t n, bool periodic, double beta, br_dtype dtype)
{
    if (!(beta >= 0 && beta <= 700))
        return br_fail(BR_ERROR_ARGUMENT, "kaiser_window", "beta is %g, must be in 0 .. 700", beta);
    return window("kaiser_window", n, periodic, dtype, (series){ .value = kaiser, .first = beta });
}
