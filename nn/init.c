/* nn/init.c - initial values as in torch.nn.init, generated as PyTorch does and not recorded. */
#include "autograd/in_place.h"
#include "nn/nn_internal.h"
#include "tensor/random_internal.h"

#include <math.h>
#include <string.h>

/* ---- Constants ------------------------------------------------------------------------------- */

static br_tensor *fill(const char *op, br_tensor *t, double value)
{
    if (!br__required(op, "t", t))
        return NULL;
    br_scope *scope = br_no_grad_begin();
    br_tensor *filled = br_fill_(t, value);
    br_scope_end(scope);
    return filled;
}

br_tensor *br_init_constant_(br_tensor *t, double value)
{
    return fill("init_constant_", t, value);
}

br_tensor *br_init_zeros_(br_tensor *t)
{
    return fill("init_zeros_", t, 0);
}

br_tensor *br_init_ones_(br_tensor *t)
{
    return fill("init_ones_", t, 1);
}

br_tensor *br_init_eye_(br_tensor *t)
{
    if (!br__required("init_eye_", "t", t))
        return NULL;
    if (t->ndim != 2)
        return br_fail(BR_ERROR_SHAPE, "init_eye_", "t %s must have 2 dimensions", br__shape(t));
    br_scope *scope = br_no_grad_begin();
    br_tensor *filled = br_copy_(t, br_eye(t->sizes[0], t->sizes[1], t->dtype));
    br_scope_end(scope);
    return filled;
}

/* ---- Uniform and normal values --------------------------------------------------------------- */

/* Initialization changes parameters in grad mode, too, as torch.nn.init does. */
static br_tensor *uniform_values(br_tensor *t, double low, double high)
{
    if (!br__uniform_(t, low, high))
        return NULL;
    br_bump_version(t);
    return t;
}

static br_tensor *normal_values(br_tensor *t, double mean, double std)
{
    if (!br__normal_(t, mean, std))
        return NULL;
    br_bump_version(t);
    return t;
}

br_tensor *br_init_uniform_(br_tensor *t, double a, double b)
{
    return br__floating("init_uniform_", "t", t) ? uniform_values(t, a, b) : NULL;
}

br_tensor *br_init_normal_(br_tensor *t, double mean, double std)
{
    return br__floating("init_normal_", "t", t) ? normal_values(t, mean, std) : NULL;
}

/* Computes fan_in and fan_out: size 1 and size 0, each times the product of sizes 2 and later. */
static bool fans(const char *op, const br_tensor *t, double *fan_in, double *fan_out)
{
    if (!br__floating(op, "t", t))
        return false;
    if (t->ndim < 2) {
        br_fail(BR_ERROR_SHAPE, op, "t %s must have at least 2 dimensions (outputs, inputs)",
                br__shape(t));
        return false;
    }
    double field = 1;
    for (int i = 2; i < t->ndim; i++)
        field *= (double)t->sizes[i];
    *fan_in = (double)t->sizes[1] * field;
    *fan_out = (double)t->sizes[0] * field;
    return true;
}

static double xavier_deviation(double gain, double fan_in, double fan_out)
{
    return fan_in + fan_out > 0 ? gain * sqrt(2 / (fan_in + fan_out)) : 0;
}

br_tensor *br_init_xavier_uniform_(br_tensor *t, double gain)
{
    double fan_in, fan_out;
    if (!fans("init_xavier_uniform_", t, &fan_in, &fan_out))
        return NULL;
    double bound = sqrt(3) * xavier_deviation(gain, fan_in, fan_out);
    return uniform_values(t, -bound, bound);
}

br_tensor *br_init_xavier_normal_(br_tensor *t, double gain)
{
    double fan_in, fan_out;
    if (!fans("init_xavier_normal_", t, &fan_in, &fan_out))
        return NULL;
    return normal_values(t, 0, xavier_deviation(gain, fan_in, fan_out));
}

/* Computes the standard deviation that preserves the variance of a layer's activations or, for
 * BR_FAN_OUT, of its gradients. Returns false after an error, or if t is empty. */
static bool kaiming_deviation(const char *op, const br_tensor *t, double a, br_fan_mode mode,
                              const char *nonlinearity, double *deviation)
{
    double fan_in, fan_out;
    if (!fans(op, t, &fan_in, &fan_out) || t->numel == 0)
        return false;
    double gain = br_init_calculate_gain(nonlinearity, a);
    *deviation = gain / sqrt(mode == BR_FAN_OUT ? fan_out : fan_in);
    return !br_failed();
}

br_tensor *br_init_kaiming_uniform_for_(br_tensor *t, double a, br_fan_mode mode,
                                        const char *nonlinearity)
{
    double deviation;
    if (!kaiming_deviation("init_kaiming_uniform_", t, a, mode, nonlinearity, &deviation))
        return br_failed() ? NULL : t;
    return uniform_values(t, -sqrt(3) * deviation, sqrt(3) * deviation);
}

br_tensor *br_init_kaiming_normal_for_(br_tensor *t, double a, br_fan_mode mode,
                                       const char *nonlinearity)
{
    double deviation;
    if (!kaiming_deviation("init_kaiming_normal_", t, a, mode, nonlinearity, &deviation))
        return br_failed() ? NULL : t;
    return normal_values(t, 0, deviation);
}

br_tensor *br_init_kaiming_uniform_(br_tensor *t, double a)
{
    return br_init_kaiming_uniform_for_(t, a, BR_FAN_IN, "leaky_relu");
}

br_tensor *br_init_kaiming_normal_(br_tensor *t, double a)
{
    return br_init_kaiming_normal_for_(t, a, BR_FAN_IN, "leaky_relu");
}

/* ---- Truncated normal values ----------------------------------------------------------------- */

/* A normal distribution truncated to [low, high]. Candidates are generated as a tensor and accepted
 * in the host's memory, in which the arrays have the tensor's dtype. */
typedef struct truncated {
    double mean, std, low, high;
    br_tensor *numbers; /* random numbers */
    char *values, *candidates;
    char *accept;  /* uniform numbers that decide about the candidates */
    bool *pending; /* elements that still need a value */
} truncated;

/* Returns element i of an array. */
static double get(const truncated *d, const char *array, int64_t i)
{
    return br__get(d->numbers->dtype, array + i * (int64_t)br__dtype_size(d->numbers->dtype));
}

/* Returns x rounded to the tensor's dtype. */
static double rounded(const truncated *d, double x)
{
    return br__rounded(d->numbers->dtype, x);
}

static size_t bytes_of(const truncated *d)
{
    return (size_t)d->numbers->numel * br__dtype_size(d->numbers->dtype);
}

/* Copies the random numbers to an array. */
static bool take_numbers(const truncated *d, char *array)
{
    return br_copy_out(d->numbers, array, bytes_of(d));
}

/* Gives each pending element its candidate. If the candidate is refused, the element stays pending.
 * Returns true if no element is pending any more. */
static bool accept_candidates(const truncated *d, bool (*refused)(const truncated *d, int64_t i))
{
    size_t size = br__dtype_size(d->numbers->dtype);
    bool all = true;
    for (int64_t i = 0; i < d->numbers->numel; i++) {
        if (!d->pending[i])
            continue;
        memcpy(d->values + (size_t)i * size, d->candidates + (size_t)i * size, size);
        d->pending[i] = refused(d, i);
        all &= !d->pending[i];
    }
    return all;
}

static bool is_outside(const truncated *d, int64_t i)
{
    double x = get(d, d->candidates, i);
    return x < rounded(d, d->low) || x > rounded(d, d->high);
}

/* Generates normal values for the pending elements. Used if much of the distribution lies in the
 * interval. */
static bool sample_normal(const truncated *d)
{
    return !br__normal_(d->numbers, d->mean, d->std) || !take_numbers(d, d->candidates) ||
           accept_candidates(d, is_outside);
}

/* Returns the logarithm of the density at candidate i, relative to its maximum. Every step is
 * rounded as in PyTorch, since each acceptance affects all following random numbers. */
static double log_density(const truncated *d, int64_t i)
{
    double mode = fmax(d->low, fmin(d->mean, d->high));
    double peak = -0.5 * ((mode - d->mean) / d->std) * ((mode - d->mean) / d->std);
    double x = rounded(d, get(d, d->candidates, i) - rounded(d, d->mean));
    x = rounded(d, x / rounded(d, d->std));
    return rounded(d, rounded(d, -0.5 * rounded(d, x * x)) - rounded(d, peak));
}

static bool is_above(const truncated *d, int64_t i)
{
    return rounded(d, log(get(d, d->accept, i))) > log_density(d, i);
}

/* Generates uniform values for the pending elements, and accepts them with a probability
 * proportional to the density. Used if little of the distribution lies in the interval. */
static bool sample_uniform(const truncated *d)
{
    return !br__uniform_(d->numbers, d->low, d->high) || !take_numbers(d, d->candidates) ||
           !br__uniform_(d->numbers, 0, 1) || !take_numbers(d, d->accept) ||
           accept_candidates(d, is_above);
}

static double normal_distribution(double x)
{
    return (1 + erf(x / sqrt(2))) / 2;
}

/* Returns the probability of the interval before truncation. */
static double inside(const truncated *d)
{
    return normal_distribution((d->high - d->mean) / d->std) -
           normal_distribution((d->low - d->mean) / d->std);
}

/* Returns false if rejection sampling would hardly ever accept a uniform value, because the
 * interval is much wider than the peak of the density. The peak is about std wide or, if the
 * interval is in a tail, std^2 / (distance of the mode from the mean). */
static bool within_reach(const truncated *d)
{
    double mode = fmax(d->low, fmin(d->mean, d->high));
    double width = d->std / fmax(1, fabs(mode - d->mean) / d->std);
    return (d->high - d->low) * 1e-5 <= width;
}

static bool good_truncation(const truncated *d, const br_tensor *t)
{
    const char *op = "init_trunc_normal_";
    if (!br__floating(op, "t", t))
        return false;
    if (!isfinite(d->mean) || !isfinite(d->std) || !(d->std > 0) || !(d->low <= d->high))
        br_fail(BR_ERROR_ARGUMENT, op,
                "mean %g, std %g, low %g, high %g: std must be positive and low at most high",
                d->mean, d->std, d->low, d->high);
    else if (!(inside(d) > 0.3) && !within_reach(d))
        br_fail(BR_ERROR_ARGUMENT, op,
                "mean %g, std %g: the interval %g .. %g has almost no probability", d->mean, d->std,
                d->low, d->high);
    return !br_failed();
}

/* Makes the arrays. Returns false with an error if memory runs out. */
static bool make_arrays(truncated *d, const br_tensor *t)
{
    d->numbers = br_empty_like(t);
    if (!d->numbers)
        return false;
    d->values = br_malloc(bytes_of(d));
    d->candidates = br_malloc(bytes_of(d));
    d->accept = br_malloc(bytes_of(d));
    d->pending = br_malloc((size_t)t->numel);
    if (d->pending)
        memset(d->pending, true, (size_t)t->numel);
    return !br_failed();
}

static void free_arrays(const truncated *d)
{
    br_free(d->values);
    br_free(d->candidates);
    br_free(d->accept);
    br_free(d->pending);
}

br_tensor *br_init_trunc_normal_(br_tensor *t, double mean, double std, double low, double high)
{
    truncated d = { .mean = mean, .std = std, .low = low, .high = high };
    if (!good_truncation(&d, t))
        return NULL;
    br_scope *scope = br_no_grad_begin();
    if (make_arrays(&d, t)) {
        bool (*sample_candidates)(const truncated *d) =
            inside(&d) > 0.3 ? sample_normal : sample_uniform;
        while (!sample_candidates(&d))
            ;
    }
    br_tensor *values = br_failed() ? NULL : br_from_data(t->ndim, t->sizes, t->dtype, d.values);
    if (values && br__before_change("init_trunc_normal_", "t", t, BR_INPUTS(t)))
        br__transfer("init_trunc_normal_", t, values);
    free_arrays(&d);
    br_scope_end(scope);
    return br_failed() ? NULL : t;
}
