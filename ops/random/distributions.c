/* ops/random/distributions.c - random tensors of distributions that tensors describe.
 *
 * The host generates the numbers for every device, one after another, in f64: PyTorch computes them
 * in the same way, and rounds them to the dtype. Each comment names the words of the generator that
 * a number takes. */
#include "autograd/in_place.h"
#include "ops/ops_internal.h"
#include "ops/random/random_ops.h"
#include "tensor/device.h"
#include "tensor/host.h"
#include "tensor/random_internal.h"

#include <inttypes.h>
#include <math.h>

/* The gradient with respect to an argument of a distribution. */
static void zero_backward(br_node *node, br_tensor *dy, br_tensor **dx)
{
    for (int i = 0; i < 2; i++)
        if (br_needs_input_grad(node, i))
            dx[i] = br_zeros_like(dy);
}

/* ---- Elements -------------------------------------------------------------------------------- */

/* A distribution of one parameter. */
typedef struct distribution {
    double (*draw)(double parameter);
    bool (*valid)(double parameter);
    const char *name, *valid_range; /* of the parameter, for messages */
} distribution;

static bool valid(const char *op, const distribution *d, double parameter)
{
    if (d->valid(parameter))
        return true;
    br_fail(BR_ERROR_ARGUMENT, op, "%s is %g, must be %s", d->name, parameter, d->valid_range);
    return false;
}

/* Replaces the n numbers, which are parameters, by random numbers. Generates none if one of the
 * parameters is not valid. */
static bool draw_all(const char *op, const distribution *d, double *numbers, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if (!valid(op, d, numbers[i]))
            return false;
    for (int64_t i = 0; i < n; i++)
        numbers[i] = d->draw(numbers[i]);
    return true;
}

/* Returns random numbers in the shape and order of the header, f64 on the host. `parameters` has
 * the same shape; NULL: all elements have the given parameter. */
static br_tensor *draw_dense(const char *op, const br_tensor *ordered, const distribution *d,
                             const br_tensor *parameters, double parameter)
{
    double *numbers;
    br_tensor *dense = br__new_host_f64(op, ordered->ndim, ordered->sizes, &numbers);
    if (!dense || (parameters && !br__transfer(op, dense, parameters)))
        return NULL;
    for (int64_t i = 0; !parameters && i < dense->numel; i++)
        numbers[i] = parameter;
    return draw_all(op, d, numbers, dense->numel) ? dense : NULL;
}

/* Returns a header of t whose dimensions are in memory order, and random numbers for its elements.
 * `parameters` broadcasts to t's shape. */
static br_tensor *draw_for(const char *op, const br_tensor *t, const distribution *d,
                           br_tensor *parameters, double parameter, br_tensor *ordered)
{
    int order[BR_MAX_DIMS];
    br__memory_order(t, order);
    *ordered = br__reordered(t, order);
    br_scope *scope = br_no_grad_begin();
    br_tensor *wide = parameters ? br_expand(parameters, t->ndim, t->sizes) : NULL, from;
    if (wide)
        from = br__reordered(wide, order);
    br_tensor *dense =
        br_failed() ? NULL : draw_dense(op, ordered, d, wide ? &from : NULL, parameter);
    dense = br_scope_return(scope, dense);
    br_scope_end(scope);
    return dense;
}

/* Sets the elements of a new tensor. */
static bool fill(const char *op, br_tensor *t, const distribution *d, br_tensor *parameters,
                 double parameter)
{
    br_tensor ordered;
    br_scope *scope = br_scope_begin();
    const br_tensor *dense = draw_for(op, t, d, parameters, parameter, &ordered);
    const bool ok = dense && br__transfer(op, &ordered, dense);
    br_scope_end(scope);
    BR_TRAFFIC(t);
    return ok;
}

/* Fills t in place, and records that its old elements and the parameters have no gradient. All
 * that can fail comes before the change. */
static br_tensor *fill_in_place(const br_op *op, br_tensor *t, const distribution *d,
                                br_tensor *parameters, double parameter)
{
    br_tensor ordered;
    if (!br__can_change(op->name, "t", t, BR_INPUTS(t)))
        return NULL;
    br_scope *scope = br_scope_begin();
    const br_tensor *dense = draw_for(op->name, t, d, parameters, parameter, &ordered);
    const bool ok = dense && br__before_change(op->name, "t", t, BR_INPUTS(t)) &&
                    br__transfer(op->name, &ordered, dense);
    br_scope_end(scope);
    BR_TRAFFIC(t);
    if (ok)
        br_record_in_place(op, t, BR_INPUTS(t, parameters), NULL, 0);
    return ok && !br__failed() ? t : NULL;
}

/* ---- Like another tensor --------------------------------------------------------------------- */

/* Returns a tensor with x's sizes, dtype, device and memory order, whose elements are not set. */
static br_tensor *new_in_order_of(const char *op, const br_tensor *x)
{
    int order[BR_MAX_DIMS];
    br__memory_order(x, order);
    return br__new_reordered(op, x, x->ndim, x->sizes, x->dtype, order);
}

/* Returns a floating-point tensor like x, which `generate` fills with two parameters. */
static br_tensor *generated_like(const char *op, const br_tensor *x,
                                 br_tensor *(*generate)(br_tensor *t, double, double), double a,
                                 double b)
{
    br_tensor *t = br__floating(op, "x", x) ? new_in_order_of(op, x) : NULL;
    if (!t || !generate(t, a, b))
        return NULL;
    BR_TRAFFIC(t);
    return t;
}

br_tensor *br_rand_like(const br_tensor *x)
{
    BR_OP("rand_like");
    return generated_like("rand_like", x, br__uniform_, 0, 1);
}

br_tensor *br_randn_like(const br_tensor *x)
{
    BR_OP("randn_like");
    return generated_like("randn_like", x, br__normal_, 0, 1);
}

/* Fails unless a tensor of that dtype can hold every integer from low to high - 1. */
#define STORED_RANGE(NAME, dtype, torch, min, max) [BR_##NAME] = { min, max },
static bool holds_range(br_dtype dtype, int64_t low, int64_t high)
{
    static const struct range {
        int64_t min, max;
    } integers[BR_DTYPES] = {
        [BR_I64] = { INT64_MIN, INT64_MAX }, [BR_BOOL] = { 0, 1 }, BR_STORED_INTEGERS(STORED_RANGE)
    };
    struct range held = integers[dtype];
    if (br__is_floating(dtype)) {
        held.max = INT64_C(1) << br__dtypes[dtype].digits;
        held.min = -held.max;
    }
    if (low >= high)
        br_fail(BR_ERROR_ARGUMENT, "randint_like",
                "low is %" PRId64 " and high is %" PRId64 ": low must be less than high", low,
                high);
    else if (low < held.min || high - 1 > held.max)
        br_fail(BR_ERROR_ARGUMENT, "randint_like",
                "low is %" PRId64 " and high is %" PRId64 ", but %s holds all integers only from "
                "%" PRId64 " to %" PRId64,
                low, high, br_dtype_name(dtype), held.min, held.max);
    return !br_failed();
}

br_tensor *br_randint_like(const br_tensor *x, int64_t low, int64_t high)
{
    BR_OP("randint_like");
    if (!br__required("randint_like", "x", x) || !holds_range(x->dtype, low, high))
        return NULL;
    br_tensor *t = new_in_order_of("randint_like", x);
    if (!t || t->numel == 0)
        return t;
    int order[BR_MAX_DIMS];
    br__memory_order(t, order);
    const br_tensor ordered = br__reordered(t, order);
    br_scope *scope = br_scope_begin();
    int64_t *numbers;
    br_tensor *dense = br__new_host_i64("randint_like", ordered.ndim, ordered.sizes, &numbers);
    if (dense)
        br__fill_randint(numbers, t->numel, low, high);
    const bool ok = dense && br__transfer("randint_like", &ordered, dense);
    br_scope_end(scope);
    BR_TRAFFIC(t);
    return ok ? t : NULL;
}

/* ---- Bernoulli ------------------------------------------------------------------------------- */

static bool is_probability(double p)
{
    return p >= 0 && p <= 1;
}

/* Two words: 53 bits. */
static double draw_bernoulli(double p)
{
    return br_random_double() < p;
}

/* One word: 24 bits. */
static double draw_bernoulli_f32(double p)
{
    return (br__random_u32() & 0xffffff) * 0x1p-24 < p;
}

static const distribution bernoulli = { draw_bernoulli, is_probability, "p", "in 0 .. 1" };
static const distribution bernoulli_f32 = { draw_bernoulli_f32, is_probability, "p", "in 0 .. 1" };

static const distribution *bernoulli_of(const br_tensor *p)
{
    return br__dtype_size(p->dtype) == sizeof(double) ? &bernoulli : &bernoulli_f32;
}

static const br_op bernoulli_op = { "bernoulli", zero_backward, false };
static const br_op bernoulli_in_place_op = { "bernoulli_", zero_backward, false };
static const br_op bernoulli_tensor_op = { "bernoulli_tensor_", zero_backward, false };

br_tensor *br_bernoulli(br_tensor *p)
{
    BR_OP("bernoulli");
    br_tensor *t = br__floating("bernoulli", "p", p)
                       ? br__new_on("bernoulli", p, p->ndim, p->sizes, p->dtype)
                       : NULL;
    if (!t || !fill("bernoulli", t, bernoulli_of(p), p, 0))
        return NULL;
    br_record(&bernoulli_op, t, BR_INPUTS(p), NULL, 0);
    return br__failed() ? NULL : t;
}

br_tensor *br_bernoulli_(br_tensor *t, double p)
{
    BR_OP("bernoulli_");
    if (!br__required("bernoulli_", "t", t) || !valid("bernoulli_", &bernoulli, p))
        return NULL;
    return fill_in_place(&bernoulli_in_place_op, t, &bernoulli, NULL, p);
}

br_tensor *br_bernoulli_tensor_(br_tensor *t, br_tensor *p)
{
    BR_OP("bernoulli_tensor_");
    if (!br__required("bernoulli_tensor_", "t", t) || !br__floating("bernoulli_tensor_", "p", p) ||
        !br__broadcasts_to("bernoulli_tensor_", "p", p, t))
        return NULL;
    return fill_in_place(&bernoulli_tensor_op, t, bernoulli_of(p), p, 0);
}

/* ---- Exponential ----------------------------------------------------------------------------- */

static bool is_rate(double lambd)
{
    return lambd > 0;
}

/* Two words. If u is uniform on [0, 1), -log(1 - u) / lambd has the exponential distribution. */
static double draw_exponential(double lambd)
{
    return -1 / lambd * log1p(-br_random_double());
}

static const distribution exponential = { draw_exponential, is_rate, "lambd", "greater than 0" };
static const br_op exponential_op = { "exponential_", zero_backward, false };

br_tensor *br_exponential_(br_tensor *t, double lambd)
{
    BR_OP("exponential_");
    if (!br__floating("exponential_", "t", t) || !valid("exponential_", &exponential, lambd))
        return NULL;
    return fill_in_place(&exponential_op, t, &exponential, NULL, lambd);
}

/* ---- Normal ---------------------------------------------------------------------------------- */

static const br_op normal_op = { "normal", zero_backward, false };
static const br_op normal_mean_op = { "normal_mean", zero_backward, false };
static const br_op normal_std_op = { "normal_std", zero_backward, false };

/* Fails if an element of std is negative or NaN. */
static bool deviations(const char *op, br_tensor *std)
{
    const double least = std->numel > 0 ? br_item(br_min(std)) : 0;
    if (br_failed() || least >= 0)
        return !br_failed();
    br_fail(BR_ERROR_ARGUMENT, op, "an element of std is %g, must be at least 0", least);
    return false;
}

/* Returns z * std + mean with normal numbers z of the shape and dtype of `like`. A number replaces
 * a tensor that is NULL. */
static br_tensor *scaled_normal(const char *op, br_tensor *like, br_tensor *mean,
                                double mean_number, br_tensor *std, double std_number)
{
    br_tensor *z = like ? br__new_on(op, like, like->ndim, like->sizes, like->dtype) : NULL;
    if (!z || !br__normal_possible(z, std_number) || !br__normal_(z, 0, std_number))
        return NULL;
    z = std ? br_mul(z, std) : z;
    return mean ? br_add(z, mean) : br_add_scalar(z, mean_number);
}

br_tensor *br_normal(br_tensor *mean, br_tensor *std)
{
    BR_OP("normal");
    if (!br__floating("normal", "mean", mean) || !br__floating("normal", "std", std))
        return NULL;
    if (mean->dtype != std->dtype)
        return br_fail(BR_ERROR_DTYPE, "normal",
                       "mean %s is %s and std %s is %s, must have the same dtype", br__shape(mean),
                       br_dtype_name(mean->dtype), br__shape(std), br_dtype_name(std->dtype));
    int ndim;
    int64_t sizes[BR_MAX_DIMS];
    if (!br__broadcast_named("normal", "mean", mean, "std", std, &ndim, sizes) ||
        !deviations("normal", std))
        return NULL;
    br_scope *scope = br_no_grad_begin();
    br_tensor *like = br_expand(mean, ndim, sizes);
    br_tensor *y = br_scope_return(scope, scaled_normal("normal", like, mean, 0, std, 1));
    br_scope_end(scope);
    br_record(&normal_op, y, BR_INPUTS(mean, std), NULL, 0);
    return br__failed() ? NULL : y;
}

br_tensor *br_normal_mean(br_tensor *mean, double std)
{
    BR_OP("normal_mean");
    if (!br__floating("normal_mean", "mean", mean))
        return NULL;
    br_scope *scope = br_no_grad_begin();
    br_tensor *y = br_scope_return(scope, scaled_normal("normal_mean", mean, mean, 0, NULL, std));
    br_scope_end(scope);
    br_record(&normal_mean_op, y, BR_INPUTS(mean), NULL, 0);
    return br__failed() ? NULL : y;
}

br_tensor *br_normal_std(double mean, br_tensor *std)
{
    BR_OP("normal_std");
    if (!br__floating("normal_std", "std", std))
        return NULL;
    br_scope *scope = br_no_grad_begin();
    br_tensor *y = br_scope_return(scope, deviations("normal_std", std)
                                              ? scaled_normal("normal_std", std, NULL, mean, std, 1)
                                              : NULL);
    br_scope_end(scope);
    br_record(&normal_std_op, y, BR_INPUTS(std), NULL, 0);
    return br__failed() ? NULL : y;
}

/* ---- Poisson --------------------------------------------------------------------------------- */

static bool is_finite_rate(double rate)
{
    return rate >= 0 && isfinite(rate);
}

/* Multiplies uniform numbers until the product is at most exp(-rate): Knuth, The Art of Computer
 * Programming, volume 2, 3.4.1. Two words for each factor. */
static double draw_small_poisson(double rate)
{
    const double limit = exp(-rate);
    double count = 0, product = br_random_double();
    for (; product > limit; count++)
        product *= br_random_double();
    return count;
}

/* Transformed rejection, algorithm PTRS of Hörmann, 1993, "The transformed rejection method for
 * generating Poisson random variables". Two words for each uniform number, four for each try. */
static double draw_large_poisson(double rate)
{
    const double b = 0.931 + 2.53 * sqrt(rate), a = -0.059 + 0.02483 * b;
    const double inverse_alpha = 1.1239 + 1.1328 / (b - 3.4), v_r = 0.9277 - 3.6224 / (b - 2);
    const double log_rate = log(rate);
    while (!br_failed()) {
        const double u = br_random_double() - 0.5, v = br_random_double();
        const double us = 0.5 - fabs(u), k = floor((2 * a / us + b) * u + rate + 0.43);
        if (us >= 0.07 && v <= v_r)
            return k;
        if (k < 0 || (us < 0.013 && v > us))
            continue;
        if (log(v) + log(inverse_alpha) - log(a / (us * us) + b) <=
            -rate + k * log_rate - lgamma(k + 1))
            return k;
    }
    return 0;
}

static double draw_poisson(double rate)
{
    if (rate == 0)
        return 0;
    return rate < 10 ? draw_small_poisson(rate) : draw_large_poisson(rate);
}

static const distribution poisson = { draw_poisson, is_finite_rate, "rate",
                                      "at least 0 and finite" };
static const br_op poisson_op = { "poisson", zero_backward, false };

br_tensor *br_poisson(br_tensor *rate)
{
    BR_OP("poisson");
    br_tensor *t = br__floating("poisson", "rate", rate)
                       ? br__new_on("poisson", rate, rate->ndim, rate->sizes, rate->dtype)
                       : NULL;
    if (!t || !fill("poisson", t, &poisson, rate, 0))
        return NULL;
    br_record(&poisson_op, t, BR_INPUTS(rate), NULL, 0);
    return br__failed() ? NULL : t;
}

/* ---- Noise for other operations -------------------------------------------------------------- */

br_tensor *br__new_exponential(const char *op, const br_tensor *x, bool in_order)
{
    br_tensor *t =
        in_order ? new_in_order_of(op, x) : br__new_on(op, x, x->ndim, x->sizes, x->dtype);
    return t && fill(op, t, &exponential, NULL, 1) ? t : NULL;
}
