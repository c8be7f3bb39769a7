/* backends/cpu/optim/optim.h - updates of optimizers, and norms of gradients; part of variant.c.
 *
 * The updates are PyTorch's versions of Adam (Kingma and Ba, 2015) with AMSGrad (Reddi, Kale and
 * Kumar, 2018) and decoupled weight decay (AdamW; Loshchilov and Hutter, 2019), SGD with momentum,
 * RMSprop (Hinton, 2012), Adagrad (Duchi, Hazan and Singer, 2011), Muon (Jordan et al., 2024)
 * without its orthogonalization, Adadelta (Zeiler, 2012), Adamax (Kingma and Ba, 2015), NAdam
 * (Dozat, 2016), RAdam (Liu et al., 2019), Rprop (Riedmiller and Braun, 1993) and ASGD (Polyak and
 * Juditsky, 1992), and Lion (Chen et al., 2023). An update is split into short loops over pieces
 * that stay in the L1 cache. So the loops have no branches, and memory is read and written once.
 * Scalars are computed in double and rounded once. An element's update depends on no other element.
 * Sums of squares are added in the same order for all instruction sets. */
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

static void adam_update(int64_t n, void *param, const void *grad, void *const *state,
                        const br_update_args *all)
{
    const br_adam_args *args = &all->adam;
    real buffer[PIECE], *p = param, *m = state[0], *v = state[1], *max_v = state[2];
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
static void sgd_update(int64_t n, void *param, const void *grad, void *const *state,
                       const br_update_args *all)
{
    const br_sgd_args *args = &all->sgd;
    real buffer[PIECE], *p = param, *b = state[0];
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

static void rmsprop_update(int64_t n, void *param, const void *grad, void *const *state,
                           const br_update_args *all)
{
    const br_rmsprop_args *args = &all->rmsprop;
    real move[PIECE], *p = param, *v = state[0], *a = state[1], *b = state[2];
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

static void adagrad_update(int64_t n, void *param, const void *grad, void *const *state,
                           const br_update_args *all)
{
    const br_adagrad_args *args = &all->adagrad;
    real buffer[PIECE], *p = param, *s = state[0];
    for (int64_t i = 0; i < n; i += PIECE) {
        int64_t count = piece_at(i, n);
        const real *g = (const real *)grad + i;
        const real *d =
            descent_gradient(count, g, p + i, args->weight_decay, args->maximize, buffer);
        adagrad_piece(count, p + i, d, s + i, args);
    }
}

/* b += weight (g - b);  p = keep p - step_size direction */
static void muon_update(int64_t n, void *param, const void *grad, void *const *state,
                        const br_update_args *all)
{
    const br_muon_args *args = &all->muon;
    real *p = param, *b = state[0];
    const real *g = grad, *d = state[1];
    const real keep = (real)args->keep, step_size = (real)args->step_size;
    const real weight = (real)args->weight;
    FOR_EACH(real, i, n, {
        b[i] += weight * (g[i] - b[i]);
        p[i] = keep * p[i] - step_size * d[i];
    })
}

/* v = rho v + (1 - rho) d^2;  delta = sqrt(a + eps) / sqrt(v + eps) d;
 * a = rho a + (1 - rho) delta^2;  p -= lr delta */
static void adadelta_update(int64_t n, void *param, const void *grad, void *const *state,
                            const br_update_args *all)
{
    const br_adadelta_args *args = &all->adadelta;
    const real rho = (real)args->rho, rest = (real)(1 - args->rho), eps = (real)args->eps,
               lr = (real)args->lr;
    real buffer[PIECE];
    for (int64_t at = 0; at < n; at += PIECE) {
        const int64_t count = piece_at(at, n);
        real *p = (real *)param + at, *v = (real *)state[0] + at, *a = (real *)state[1] + at;
        const real *d = descent_gradient(count, (const real *)grad + at, p, args->weight_decay,
                                         args->maximize, buffer);
        FOR_EACH(real, i, count, {
            v[i] = rho * v[i] + rest * d[i] * d[i];
            const real delta = real_sqrt(a[i] + eps) / real_sqrt(v[i] + eps) * d[i];
            a[i] = rho * a[i] + rest * delta * delta;
            p[i] -= lr * delta;
        })
    }
}

/* m += (1 - beta1) (d - m);  u = max(beta2 u, |d| + eps);  p -= step_size m / u */
static void adamax_update(int64_t n, void *param, const void *grad, void *const *state,
                          const br_update_args *all)
{
    const br_adamax_args *args = &all->adamax;
    const real weight = (real)(1 - args->beta1), beta2 = (real)args->beta2, eps = (real)args->eps,
               step_size = (real)args->step_size;
    real buffer[PIECE];
    for (int64_t at = 0; at < n; at += PIECE) {
        const int64_t count = piece_at(at, n);
        real *p = (real *)param + at, *m = (real *)state[0] + at, *u = (real *)state[1] + at;
        const real *d = descent_gradient(count, (const real *)grad + at, p, args->weight_decay,
                                         args->maximize, buffer);
        FOR_EACH(real, i, count, {
            m[i] += weight * (d[i] - m[i]);
            const real size = (d[i] < 0 ? -d[i] : d[i]) + eps;
            u[i] = larger(beta2 * u[i], size);
            p[i] -= step_size * m[i] / u[i];
        })
    }
}

/* As Adam, but p -= (grad_size d + mean_size m) / (sqrt(v / bias_correction2) + eps) */
static void nadam_update(int64_t n, void *param, const void *grad, void *const *state,
                         const br_update_args *all)
{
    const br_nadam_args *args = &all->nadam;
    const real weight1 = (real)(1 - args->beta1), weight2 = (real)(1 - args->beta2),
               beta2 = (real)args->beta2, eps = (real)args->eps, keep = (real)args->keep,
               bias_correction2 = (real)args->bias_correction2, grad_size = (real)args->grad_size,
               mean_size = (real)args->mean_size;
    real buffer[PIECE];
    for (int64_t at = 0; at < n; at += PIECE) {
        const int64_t count = piece_at(at, n);
        real *p = (real *)param + at, *m = (real *)state[0] + at, *v = (real *)state[1] + at;
        const real *d = descent_gradient(count, (const real *)grad + at, p, args->weight_decay,
                                         args->maximize, buffer);
        FOR_EACH(real, i, count, {
            m[i] += weight1 * (d[i] - m[i]);
            v[i] = beta2 * v[i] + weight2 * d[i] * d[i];
            const real divisor = real_sqrt(v[i] / bias_correction2) + eps;
            p[i] = keep * p[i] - (grad_size * d[i] + mean_size * m[i]) / divisor;
        })
    }
}

/* As Adam, but p -= step_size m rectified / (sqrt(v) + eps), or p -= step_size m without the
 * variance if `rectified` is 0. */
static void radam_update(int64_t n, void *param, const void *grad, void *const *state,
                         const br_update_args *all)
{
    const br_radam_args *args = &all->radam;
    const real weight1 = (real)(1 - args->beta1), weight2 = (real)(1 - args->beta2),
               beta2 = (real)args->beta2, eps = (real)args->eps, keep = (real)args->keep,
               rectified = (real)args->rectified, step_size = (real)args->step_size;
    real buffer[PIECE];
    for (int64_t at = 0; at < n; at += PIECE) {
        const int64_t count = piece_at(at, n);
        real *p = (real *)param + at, *m = (real *)state[0] + at, *v = (real *)state[1] + at;
        const real *d = descent_gradient(count, (const real *)grad + at, p, args->weight_decay,
                                         args->maximize, buffer);
        FOR_EACH(real, i, count, {
            m[i] += weight1 * (d[i] - m[i]);
            v[i] = beta2 * v[i] + weight2 * d[i] * d[i];
            const real scale = rectified == 0 ? 1 : rectified / (real_sqrt(v[i]) + eps);
            p[i] = keep * p[i] - step_size * m[i] * scale;
        })
    }
}

/* The step size s of an element grows by eta_plus while d keeps its sign, and shrinks by eta_minus
 * when the sign changes, after which d counts as 0: p -= sign(d) s;  prev = d. */
static void rprop_update(int64_t n, void *param, const void *grad, void *const *state,
                         const br_update_args *all)
{
    const br_rprop_args *args = &all->rprop;
    const real minus = (real)args->eta_minus, plus = (real)args->eta_plus,
               least = (real)args->step_size_min, most = (real)args->step_size_max;
    const real sign = args->maximize ? -1 : 1;
    real *p = param, *prev = state[0], *s = state[1];
    const real *g = grad;
    FOR_EACH(real, i, n, {
        const real d = sign * g[i], product = d * prev[i];
        const real factor = product > 0 ? plus : product < 0 ? minus : 1;
        const real size = s[i] * factor;
        const real kept = product < 0 ? 0 : d;
        s[i] = size < least ? least : size > most ? most : size;
        p[i] -= (kept > 0 ? 1 : kept < 0 ? (real)-1 : 0) * s[i];
        prev[i] = kept;
    })
}

/* p = keep p - eta d;  a += mu (p - a), or a = p if mu is 1 */
static void asgd_update(int64_t n, void *param, const void *grad, void *const *state,
                        const br_update_args *all)
{
    const br_asgd_args *args = &all->asgd;
    const real eta = (real)args->eta, keep = (real)args->keep, mu = (real)args->mu;
    real buffer[PIECE];
    for (int64_t at = 0; at < n; at += PIECE) {
        const int64_t count = piece_at(at, n);
        real *p = (real *)param + at, *a = (real *)state[0] + at;
        const real *d = descent_gradient(count, (const real *)grad + at, p, args->weight_decay,
                                         args->maximize, buffer);
        FOR_EACH(real, i, count, {
            p[i] = keep * p[i] - eta * d[i];
            a[i] = mu == 1 ? p[i] : a[i] + mu * (p[i] - a[i]);
        })
    }
}

/* p = keep p - lr sign(m + (1 - beta1) (g - m));  m += (1 - beta2) (g - m) */
static void lion_update(int64_t n, void *param, const void *grad, void *const *state,
                        const br_update_args *all)
{
    const br_lion_args *args = &all->lion;
    const real weight1 = (real)(1 - args->beta1), weight2 = (real)(1 - args->beta2),
               keep = (real)args->keep, lr = (real)args->lr, sign = args->maximize ? -1 : 1;
    real *p = param, *m = state[0];
    const real *g = grad;
    FOR_EACH(real, i, n, {
        const real change = sign * g[i] - m[i], mean = m[i] + weight1 * change;
        p[i] = keep * p[i] - (mean > 0 ? lr : mean < 0 ? -lr : 0);
        m[i] += weight2 * change;
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
