/* ops/kernels/optim.h - the updates of optimizers and the norms of gradients; part of variant.c.
 *
 * An update reads and writes each array once: it is as fast as memory. Scalars are worked out in
 * double and rounded once. */
#ifndef BR_KERNELS_OPTIM_H
#define BR_KERNELS_OPTIM_H

#include "ops/kernels/loops.h"
#include "ops/kernels/math.h"
#include "ops/kernels/reduce.h"

/* What is gone down by: the gradient, or its opposite where the loss is to grow. */
static inline real downhill(real g, bool maximize)
{
    return maximize ? -g : g;
}

/* p *= keep;  g += decay p;  m += (1 - beta1) (g - m);  v = beta2 v + (1 - beta2) g^2;
 * p -= step_size m / (sqrt(v) / root + eps), or with amsgrad by the largest v so far */
static inline void adam_loop(int64_t n, real *p, const real *g, real *m, real *v, real *most,
                             const br_adam_args *args)
{
    const real weight1 = (real)(1 - args->beta1), weight2 = (real)(1 - args->beta2);
    const real beta2 = (real)args->beta2, eps = (real)args->eps, root = (real)args->root;
    const real step_size = (real)args->step_size, decay = (real)args->weight_decay;
    const real keep = (real)args->keep;
    const bool maximize = args->maximize;
    FOR_EACH_ELEMENT
    {
        const real down = downhill(g[i], maximize);
        const real d = decay != 0 ? down + decay * p[i] : down;
        const real mean = m[i] + weight1 * (d - m[i]);
        const real square = beta2 * v[i] + weight2 * d * d;
        real scale = square;
        if (most)
            most[i] = scale = larger(most[i], square);
        m[i] = mean;
        v[i] = square;
        p[i] = keep * p[i] - step_size * mean / (real_sqrt(scale) / root + eps);
    }
}

/* The loop without amsgrad has no branch. */
static void adam_update(int64_t n, void *param, const void *grad, void *exp_avg, void *exp_avg_sq,
                        void *max_sq, const br_adam_args *args)
{
    if (max_sq)
        adam_loop(n, param, grad, exp_avg, exp_avg_sq, max_sq, args);
    else
        adam_loop(n, param, grad, exp_avg, exp_avg_sq, NULL, args);
}

/* g += decay p;  p -= lr g */
static void sgd_plain(int64_t n, real *p, const real *g, real lr, real decay, bool maximize)
{
    FOR_EACH_ELEMENT
    {
        const real down = downhill(g[i], maximize);
        p[i] -= lr * (decay != 0 ? down + decay * p[i] : down);
    }
}

/* g += decay p;  b = momentum b + (1 - dampening) g, or g at first;  p -= lr b or, as Nesterov has
 * it, lr (g + momentum b) */
static void sgd_update(int64_t n, void *param, const void *grad, void *buffer,
                       const br_sgd_args *args)
{
    real *p = param, *b = buffer;
    const real *g = grad;
    const real lr = (real)args->lr, decay = (real)args->weight_decay;
    const real momentum = (real)args->momentum, weight = (real)(1 - args->dampening);
    const bool first = args->first, nesterov = args->nesterov, maximize = args->maximize;
    if (!b) {
        sgd_plain(n, p, g, lr, decay, maximize);
        return;
    }
    FOR_EACH_ELEMENT
    {
        const real down = downhill(g[i], maximize);
        const real d = decay != 0 ? down + decay * p[i] : down;
        const real moved = first ? d : momentum * b[i] + weight * d;
        b[i] = moved;
        p[i] -= lr * (nesterov ? d + momentum * moved : moved);
    }
}

/* g += decay p;  v = alpha v + (1 - alpha) g^2;  a += (1 - alpha) (g - a), if centered;
 * d = g / (sqrt(v - a^2) + eps);  b = momentum b + d, if there is momentum;  p -= lr b or lr d */
static void rmsprop_update(int64_t n, void *param, const void *grad, void *square_avg,
                           void *grad_avg, void *buffer, const br_rmsprop_args *args)
{
    real *p = param, *v = square_avg, *a = grad_avg, *b = buffer;
    const real *g = grad;
    const real lr = (real)args->lr, alpha = (real)args->alpha, weight = (real)(1 - args->alpha);
    const real eps = (real)args->eps, decay = (real)args->weight_decay;
    const real momentum = (real)args->momentum;
    const bool maximize = args->maximize;
    FOR_EACH_ELEMENT
    {
        const real down = downhill(g[i], maximize);
        const real d = decay != 0 ? down + decay * p[i] : down;
        real square = v[i] = alpha * v[i] + weight * d * d;
        if (a) {
            a[i] += weight * (d - a[i]);
            square -= a[i] * a[i];
        }
        real move = d / (real_sqrt(square) + eps);
        if (b)
            b[i] = move = momentum * b[i] + move;
        p[i] -= lr * move;
    }
}

/* g += decay p;  s += g^2;  p -= lr g / (sqrt(s) + eps) */
static void adagrad_update(int64_t n, void *param, const void *grad, void *sum,
                           const br_adagrad_args *args)
{
    real *p = param, *s = sum;
    const real *g = grad;
    const real lr = (real)args->lr, eps = (real)args->eps, decay = (real)args->weight_decay;
    const bool maximize = args->maximize;
    FOR_EACH_ELEMENT
    {
        const real down = downhill(g[i], maximize);
        const real d = decay != 0 ? down + decay * p[i] : down;
        s[i] += d * d;
        p[i] -= lr * d / (real_sqrt(s[i]) + eps);
    }
}

/* b += weight (g - b);  p = keep p - step_size direction */
static void muon_update(int64_t n, void *param, const void *grad, const void *direction,
                        void *buffer, const br_muon_args *args)
{
    real *p = param, *b = buffer;
    const real *g = grad, *d = direction;
    const real keep = (real)args->keep, step_size = (real)args->step_size;
    const real weight = (real)args->weight;
    FOR_EACH_ELEMENT
    {
        b[i] += weight * (g[i] - b[i]);
        p[i] = keep * p[i] - step_size * d[i];
    }
}

/* Lanes that are summed apart, so that the order does not depend on the instruction set. */
enum { NORM_LANES = 16 };

static double sum_squares(int64_t n, const void *values)
{
    const real *x = values;
    double lane[NORM_LANES] = { 0 }, sum = 0;
    int64_t i = 0;
    for (; i + NORM_LANES <= n; i += NORM_LANES)
        for (int k = 0; k < NORM_LANES; k++)
            lane[k] += (double)x[i + k] * (double)x[i + k];
    for (int k = 0; i < n; i++, k++)
        lane[k] += (double)x[i] * (double)x[i];
    for (int k = 0; k < NORM_LANES; k++)
        sum += lane[k];
    return sum;
}

static inline real larger_abs(real most, real x)
{
    const real a = x < 0 ? -x : x;
    return a > most || a != a ? a : most;
}

/* The largest absolute value; NaN if there is one. */
static double max_abs(int64_t n, const void *values)
{
    const real *x = values;
    real lane[NORM_LANES] = { 0 }, most = 0;
    int64_t i = 0;
    for (; i + NORM_LANES <= n; i += NORM_LANES)
        for (int k = 0; k < NORM_LANES; k++)
            lane[k] = larger_abs(lane[k], x[i + k]);
    for (; i < n; i++)
        most = larger_abs(most, x[i]);
    for (int k = 0; k < NORM_LANES; k++)
        most = larger_abs(most, lane[k]);
    return (double)most;
}

#endif
