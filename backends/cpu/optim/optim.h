/* backends/cpu/optim/optim.h - updates of optimizers, and norms of gradients; part of variant.c.
 *
 * The updates are PyTorch's versions of Adam (Kingma and Ba, 2015) with AMSGrad (Reddi, Kale and
 * Kumar, 2018) and decoupled weight decay (AdamW; Loshchilov and Hutter, 2019), SGD with momentum,
 * RMSprop (Hinton, 2012), Adagrad (Duchi, Hazan and Singer, 2011) and Muon (Jordan et al., 2024),
 * without its orthogonalization. An update is split into short loops over pieces that stay in the
 * L1 cache. So the loops have no branches, and memory is read and written once. Scalars are
 * computed in double and rounded once. An element's update depends on no other element. Sums of
 * squares are added in the same order for all instruction sets. */
#ifndef BR_KERNELS_OPTIM_H
#define BR_KERNELS_OPTIM_H

#include "backends/cpu/math.h"
#include "backends/cpu/pointwise/loops.h"
#include "backends/cpu/reduce/reduce.h"

enum { PIECE = 512 }; /* elements; a piece of all arrays of Adam takes 10 KiB for f32 */

ALWAYS_INLINE int64_t piece_at(int64_t i, int64_t n)
{
    return n - i < PIECE ? n - i : PIECE;
}

/* Returns the gradient for a descent step: g, negated if `maximize`, plus weight_decay p. The
 * result is stored in `d`, unless it is g itself. */
static const real *descent_gradient(int64_t n, const real *g, const real *p, double weight_decay,
                                    bool maximize, real *restrict d)
{
    const real sign = maximize ? -1 : 1, decay = (real)weight_decay;
    if (!maximize && weight_decay == 0)
        return g;
    FOR_EACH(real, i, n, d[i] = sign * g[i];)
    if (weight_decay == 0)
        return d;
    FOR_EACH(real, i, n, d[i] += decay * p[i];)
    return d;
}

/* p *= keep; m += (1 - beta1) (d - m); v = beta2 v + (1 - beta2) d^2; p -= step_size m / (sqrt(v) /
 * bias_correction2_sqrt + eps). AMSGrad uses `max_v`, the largest v so far, instead of v; otherwise
 * `max_v` is NULL, which is known at compile time after inlining. */
ALWAYS_INLINE void adam_piece(int64_t n, real *p, const real *d, real *m, real *v, real *max_v,
                              const br_adam_args *args)
{
    const real weight1 = (real)(1 - args->beta1), weight2 = (real)(1 - args->beta2);
    const real beta2 = (real)args->beta2, eps = (real)args->eps,
               bias_correction2_sqrt = (real)args->bias_correction2_sqrt;
    const real step_size = (real)args->step_size, keep = (real)args->keep;
    FOR_EACH(real, i, n, {
        const real mean = m[i] + weight1 * (d[i] - m[i]);
        const real square = beta2 * v[i] + weight2 * d[i] * d[i];
        real scale = square;
        if (max_v)
            max_v[i] = scale = larger(max_v[i], square);
        m[i] = mean;
        v[i] = square;
        p[i] = keep * p[i] - step_size * mean / (real_sqrt(scale) / bias_correction2_sqrt + eps);
    })
}

static void adam_update(int64_t n, void *param, const void *grad, void *exp_avg, void *exp_avg_sq,
                        void *max_sq, const br_adam_args *args)
{
    real buffer[PIECE], *p = param, *m = exp_avg, *v = exp_avg_sq, *max_v = max_sq;
    for (int64_t i = 0; i < n; i += PIECE) {
        int64_t count = piece_at(i, n);
        const real *g = (const real *)grad + i;
        const real *d =
            descent_gradient(count, g, p + i, args->weight_decay, args->maximize, buffer);
        if (max_v)
            adam_piece(count, p + i, d, m + i, v + i, max_v + i, args);
        else
            adam_piece(count, p + i, d, m + i, v + i, NULL, args);
    }
}

/* p -= lr d */
static void step_down(int64_t n, real *p, const real *d, double lr)
{
    const real size = (real)lr;
    FOR_EACH(real, i, n, p[i] -= size * d[i];)
}

/* b = momentum b + (1 - dampening) d, or d in the first step. Returns b or, with Nesterov momentum,
 * to = d + momentum b. */
static const real *add_momentum(int64_t n, const real *d, real *b, const br_sgd_args *args,
                                real *to)
{
    const real momentum = (real)args->momentum, weight = (real)(1 - args->dampening);
    if (args->first) {
        memcpy(b, d, (size_t)n * sizeof *b);
    } else {
        FOR_EACH(real, i, n, b[i] = momentum * b[i] + weight * d[i];)
    }
    if (!args->nesterov)
        return b;
    FOR_EACH(real, i, n, to[i] = d[i] + momentum * b[i];)
    return to;
}

/* p -= lr d, where d is the gradient or, if there is a buffer, the direction of the momentum */
static void sgd_update(int64_t n, void *param, const void *grad, void *velocity,
                       const br_sgd_args *args)
{
    real buffer[PIECE], *p = param, *b = velocity;
    for (int64_t i = 0; i < n; i += PIECE) {
        int64_t count = piece_at(i, n);
        const real *g = (const real *)grad + i;
        const real *d =
            descent_gradient(count, g, p + i, args->weight_decay, args->maximize, buffer);
        if (b)
            d = add_momentum(count, d, b + i, args, buffer);
        step_down(count, p + i, d, args->lr);
    }
}

/* v = alpha v + (1 - alpha) d^2;  a += (1 - alpha) (d - a), if centered;
 * move = d / (sqrt(v - a^2) + eps) */
static void rmsprop_piece(int64_t n, const real *d, real *v, real *a, const br_rmsprop_args *args,
                          real *move)
{
    const real alpha = (real)args->alpha, weight = (real)(1 - args->alpha), eps = (real)args->eps;
    real centered[PIECE];
    const real *square = v;
    FOR_EACH(real, i, n, v[i] = alpha * v[i] + weight * d[i] * d[i];)
    if (a) {
        FOR_EACH(real, i, n, {
            a[i] += weight * (d[i] - a[i]);
            centered[i] = v[i] - a[i] * a[i];
        })
        square = centered;
    }
    FOR_EACH(real, i, n, move[i] = d[i] / (real_sqrt(square[i]) + eps);)
}

/* b = move += momentum b */
static void apply_momentum(int64_t n, real *move, real *b, double momentum)
{
    const real part = (real)momentum;
    FOR_EACH(real, i, n, b[i] = move[i] = part * b[i] + move[i];)
}

static void rmsprop_update(int64_t n, void *param, const void *grad, void *square_avg,
                           void *grad_avg, void *velocity, const br_rmsprop_args *args)
{
    real move[PIECE], *p = param, *v = square_avg, *a = grad_avg, *b = velocity;
    for (int64_t i = 0; i < n; i += PIECE) {
        int64_t count = piece_at(i, n);
        const real *g = (const real *)grad + i;
        const real *d = descent_gradient(count, g, p + i, args->weight_decay, args->maximize, move);
        rmsprop_piece(count, d, v + i, a ? a + i : NULL, args, move);
        if (b)
            apply_momentum(count, move, b + i, args->momentum);
        step_down(count, p + i, move, args->lr);
    }
}

/* s += d^2;  p -= lr d / (sqrt(s) + eps) */
static void adagrad_piece(int64_t n, real *p, const real *d, real *s, const br_adagrad_args *args)
{
    const real lr = (real)args->lr, eps = (real)args->eps;
    FOR_EACH(real, i, n, {
        s[i] += d[i] * d[i];
        p[i] -= lr * d[i] / (real_sqrt(s[i]) + eps);
    })
}

static void adagrad_update(int64_t n, void *param, const void *grad, void *sum,
                           const br_adagrad_args *args)
{
    real buffer[PIECE], *p = param, *s = sum;
    for (int64_t i = 0; i < n; i += PIECE) {
        int64_t count = piece_at(i, n);
        const real *g = (const real *)grad + i;
        const real *d =
            descent_gradient(count, g, p + i, args->weight_decay, args->maximize, buffer);
        adagrad_piece(count, p + i, d, s + i, args);
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
    FOR_EACH(real, i, n, {
        b[i] += weight * (g[i] - b[i]);
        p[i] = keep * p[i] - step_size * d[i];
    })
}

/* Accumulates LANES partial sums, so that the order of additions does not depend on the instruction
 * set. */
static double sum_squares(int64_t n, const void *values)
{
    const real *x = values;
    wide sums[WIDES];
    UNROLLED
    for (int k = 0; k < WIDES; k++)
        sums[k] = (wide){ 0 };
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        UNROLLED
        for (int k = 0; k < WIDES; k++) {
            const wide v = load_wide(x + i + k * WIDE);
            sums[k] += v * v;
        }
    }
    double sum = sum_of_wides(sums);
    for (; i < n; i++)
        sum += (double)x[i] * (double)x[i];
    return sum;
}

ALWAYS_INLINE real larger_abs(real max_v, real x)
{
    const real a = x < 0 ? -x : x;
    return a > max_v || a != a ? a : max_v;
}

/* Returns the largest absolute value, or NaN if any value is NaN. */
static double max_abs(int64_t n, const void *values)
{
    const real *x = values;
    real lane[LANES] = { 0 }, max_v = 0;
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        INDEPENDENT
        for (int k = 0; k < LANES; k++)
            lane[k] = larger_abs(lane[k], x[i + k]);
    }
    for (; i < n; i++)
        max_v = larger_abs(max_v, x[i]);
    for (int k = 0; k < LANES; k++)
        max_v = larger_abs(max_v, lane[k]);
    return (double)max_v;
}

#endif
