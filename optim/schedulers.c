/* optim/schedulers.c - schedulers whose rate is given by a formula: steps, lines, cosines, user
 * functions.
 *
 * `rate` is PyTorch's get_lr(), and `closed_rate` is its _get_closed_form_lr(), with the same order
 * of operations. */
#include "optim/scheduler_internal.h"
#include "tensor/min_max.h"

#include <inttypes.h>
#include <math.h>

static bool positive(const char *op, const char *name, int64_t n)
{
    if (n < 1)
        br_fail(BR_ERROR_ARGUMENT, op, "%s is %" PRId64 ", must be at least 1", name, n);
    return !br_failed();
}

static bool is_factor(const char *op, const char *name, double value)
{
    if (!(value >= 0 && value <= 1))
        br_fail(BR_ERROR_ARGUMENT, op, "%s is %g, must be in 0 .. 1", name, value);
    return !br_failed();
}

/* ---- StepLR ---------------------------------------------------------------------------------- */

static double step_rate(const br_scheduler *s, int group, double lr)
{
    (void)group;
    bool reduce = s->last_epoch != 0 && s->last_epoch % s->args.step.step_size == 0;
    return reduce ? lr * s->args.step.gamma : lr;
}

static double step_closed(const br_scheduler *s, int group)
{
    return s->base_lrs[group] *
           pow(s->args.step.gamma, (double)(s->last_epoch / s->args.step.step_size));
}

br_scheduler *br_step_lr(br_optim *optim, int64_t step_size, double gamma)
{
    static const br_scheduler_kind kind = { .name = "step_lr",
                                            .rate = step_rate,
                                            .closed_rate = step_closed };
    br_scheduler *s = br__scheduler_new(&kind, optim);
    if (s && positive(kind.name, "step_size", step_size) &&
        br__not_negative(kind.name, "gamma", gamma)) {
        s->args.step.step_size = step_size;
        s->args.step.gamma = gamma;
    }
    return br__scheduler_begin(s);
}

/* ---- MultiStepLR ----------------------------------------------------------------------------- */

static double multi_step_rate(const br_scheduler *s, int group, double lr)
{
    (void)group;
    int here = br__scheduler_passed(s, s->last_epoch) - br__scheduler_passed(s, s->last_epoch - 1);
    return here > 0 ? lr * pow(s->args.step.gamma, here) : lr;
}

static double multi_step_closed(const br_scheduler *s, int group)
{
    return s->base_lrs[group] * pow(s->args.step.gamma, br__scheduler_passed(s, s->last_epoch));
}

br_scheduler *br_multi_step_lr(br_optim *optim, int n, const int64_t *milestones, double gamma)
{
    static const br_scheduler_kind kind = { .name = "multi_step_lr",
                                            .rate = multi_step_rate,
                                            .closed_rate = multi_step_closed };
    br_scheduler *s = br__scheduler_new(&kind, optim);
    if (s && br__not_negative(kind.name, "gamma", gamma) &&
        br__scheduler_milestones(s, n, milestones))
        s->args.step.gamma = gamma;
    return br__scheduler_begin(s);
}

/* ---- ExponentialLR --------------------------------------------------------------------------- */

static double exponential_rate(const br_scheduler *s, int group, double lr)
{
    (void)group;
    return s->initial ? lr : lr * s->args.step.gamma;
}

static double exponential_closed(const br_scheduler *s, int group)
{
    return s->base_lrs[group] * pow(s->args.step.gamma, (double)s->last_epoch);
}

br_scheduler *br_exponential_lr(br_optim *optim, double gamma)
{
    static const br_scheduler_kind kind = { .name = "exponential_lr",
                                            .rate = exponential_rate,
                                            .closed_rate = exponential_closed };
    br_scheduler *s = br__scheduler_new(&kind, optim);
    if (s && br__not_negative(kind.name, "gamma", gamma))
        s->args.step.gamma = gamma;
    return br__scheduler_begin(s);
}

/* ---- ConstantLR ------------------------------------------------------------------------------ */

static double constant_rate(const br_scheduler *s, int group, double lr)
{
    (void)group;
    if (s->last_epoch == 0)
        return lr * s->args.linear.start;
    return s->last_epoch == s->args.linear.total_iters ? lr * (1 / s->args.linear.start) : lr;
}

static double constant_closed(const br_scheduler *s, int group)
{
    double factor = s->args.linear.start;
    double rest = s->last_epoch >= s->args.linear.total_iters ? 1 - factor : 0;
    return s->base_lrs[group] * (factor + rest);
}

br_scheduler *br_constant_lr(br_optim *optim, double factor, int64_t total_iters)
{
    static const br_scheduler_kind kind = { .name = "constant_lr",
                                            .rate = constant_rate,
                                            .closed_rate = constant_closed };
    br_scheduler *s = br__scheduler_new(&kind, optim);
    if (s && is_factor(kind.name, "factor", factor)) {
        s->args.linear.start = factor;
        s->args.linear.total_iters = total_iters;
    }
    return br__scheduler_begin(s);
}

/* ---- LinearLR -------------------------------------------------------------------------------- */

static double linear_rate(const br_scheduler *s, int group, double lr)
{
    (void)group;
    double start = s->args.linear.start, change = s->args.linear.end - start;
    int64_t total = s->args.linear.total_iters;
    if (s->last_epoch == 0)
        return lr * start;
    if (s->initial || s->last_epoch > total)
        return lr;
    return lr * (1 + change / ((double)total * start + (double)(s->last_epoch - 1) * change));
}

static double linear_closed(const br_scheduler *s, int group)
{
    double start = s->args.linear.start, change = s->args.linear.end - start;
    int64_t total = s->args.linear.total_iters;
    int64_t epoch = br__min(s->last_epoch, total);
    if (total == 0)
        return s->base_lrs[group] * start;
    return s->base_lrs[group] * (start + change * (double)epoch / (double)total);
}

br_scheduler *br_linear_lr(br_optim *optim, double start_factor, double end_factor,
                           int64_t total_iters)
{
    static const br_scheduler_kind kind = { .name = "linear_lr",
                                            .rate = linear_rate,
                                            .closed_rate = linear_closed };
    br_scheduler *s = br__scheduler_new(&kind, optim);
    if (s && start_factor == 0)
        br_fail(BR_ERROR_ARGUMENT, kind.name,
                "start_factor is 0, must be positive: each rate is computed from the previous one");
    if (s && is_factor(kind.name, "start_factor", start_factor) &&
        is_factor(kind.name, "end_factor", end_factor) &&
        br__not_negative(kind.name, "total_iters", (double)total_iters)) {
        s->args.linear.start = start_factor;
        s->args.linear.end = end_factor;
        s->args.linear.total_iters = total_iters;
    }
    return br__scheduler_begin(s);
}

/* ---- CosineAnnealingLR ----------------------------------------------------------------------- */

/* Returns the value at `step` of half a cosine wave over t steps, from base to min_lr. */
static double cosine(double base, double min_lr, double step, double t)
{
    return min_lr + (base - min_lr) * (1 + cos(M_PI * step / t)) / 2;
}

static double cosine_rate(const br_scheduler *s, int group, double lr)
{
    int64_t t = s->args.cosine.t_max, epoch = s->last_epoch;
    double min_lr = s->args.cosine.eta_min;
    if (s->initial)
        return lr;
    /* The last rate was eta_min, which no factor can change: add to it instead. */
    if ((epoch - 1 - t) % (2 * t) == 0)
        return lr + (s->base_lrs[group] - min_lr) * (1 - cos(M_PI / (double)t)) / 2;
    return (1 + cos(M_PI * (double)epoch / (double)t)) /
               (1 + cos(M_PI * (double)(epoch - 1) / (double)t)) * (lr - min_lr) +
           min_lr;
}

static double cosine_closed(const br_scheduler *s, int group)
{
    return cosine(s->base_lrs[group], s->args.cosine.eta_min, (double)s->last_epoch,
                  (double)s->args.cosine.t_max);
}

br_scheduler *br_cosine_annealing_lr(br_optim *optim, int64_t t_max, double eta_min)
{
    static const br_scheduler_kind kind = { .name = "cosine_annealing_lr",
                                            .rate = cosine_rate,
                                            .closed_rate = cosine_closed };
    br_scheduler *s = br__scheduler_new(&kind, optim);
    if (s && positive(kind.name, "t_max", t_max) &&
        br__not_negative(kind.name, "eta_min", eta_min)) {
        s->args.cosine.t_max = t_max;
        s->args.cosine.eta_min = eta_min;
    }
    return br__scheduler_begin(s);
}

/* ---- CosineAnnealingWarmRestarts ------------------------------------------------------------- */

enum { T_CUR, T_I }; /* steps since the last restart, and steps between this restart and the next */

static double restarts_rate(const br_scheduler *s, int group, double lr)
{
    (void)lr;
    return cosine(s->base_lrs[group], s->args.cosine.eta_min, s->values[T_CUR], s->values[T_I]);
}

static void restarts_advance(br_scheduler *s)
{
    s->values[T_CUR] += s->last_epoch > 0;
    if (s->values[T_CUR] < s->values[T_I])
        return;
    s->values[T_CUR] -= s->values[T_I];
    s->values[T_I] *= (double)s->args.cosine.t_mult;
}

br_scheduler *br_cosine_annealing_warm_restarts(br_optim *optim, int64_t t_0, int64_t t_mult,
                                                double eta_min)
{
    static const br_scheduler_kind kind = { .name = "cosine_annealing_warm_restarts",
                                            .rate = restarts_rate,
                                            .advance = restarts_advance,
                                            .value_names = { "T_cur", "T_i" } };
    br_scheduler *s = br__scheduler_new(&kind, optim);
    if (s && positive(kind.name, "t_0", t_0) && positive(kind.name, "t_mult", t_mult) &&
        br__not_negative(kind.name, "eta_min", eta_min)) {
        s->args.cosine.t_mult = t_mult;
        s->args.cosine.eta_min = eta_min;
        s->values[T_I] = (double)t_0;
    }
    return br__scheduler_begin(s);
}

/* ---- LambdaLR -------------------------------------------------------------------------------- */

static double lambda_rate(const br_scheduler *s, int group, double lr)
{
    (void)lr;
    return s->base_lrs[group] *
           s->args.lambda.function(s->last_epoch, group, s->args.lambda.context);
}

br_scheduler *br_lambda_lr(br_optim *optim, br_lr_lambda lambda, void *context)
{
    static const br_scheduler_kind kind = { .name = "lambda_lr", .rate = lambda_rate };
    br_scheduler *s = br__scheduler_new(&kind, optim);
    if (s && !lambda)
        br_fail(BR_ERROR_ARGUMENT, kind.name, "lambda is NULL, but it is required");
    if (s) {
        s->args.lambda.function = lambda;
        s->args.lambda.context = context;
    }
    return br__scheduler_begin(s);
}
