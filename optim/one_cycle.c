/* optim/one_cycle.c - the one-cycle policy, Smith and Topin, 2018 (arXiv 1708.07120), like
 * PyTorch's OneCycleLR: rate and momentum go through two or three phases. */
#include "optim/scheduler_internal.h"

#include <inttypes.h>
#include <math.h>

BR_DEFINE_DEFAULTS(br_one_cycle)

/* The values between which a phase interpolates. */
enum { INITIAL_LR, MAX_LR, MIN_LR, BASE_MOMENTUM, MAX_MOMENTUM, POINTS };

static double point(const br_scheduler *s, int group, int which)
{
    const br_one_cycle_options *o = &s->args.one_cycle.options;
    double initial = s->base_lrs[group];
    const double points[POINTS] = { [INITIAL_LR] = initial,
                                    [MAX_LR] = s->owned[group],
                                    [MIN_LR] = initial / o->final_div_factor,
                                    [BASE_MOMENTUM] = o->base_momentum,
                                    [MAX_MOMENTUM] = o->max_momentum };
    return points[which];
}

static double anneal(bool linear, double start, double end, double part)
{
    if (linear)
        return (end - start) * part + start;
    return end + (start - end) / 2 * (cos(M_PI * part) + 1);
}

/* Returns the phase of the current epoch; *part is the fraction of the phase that has passed. */
static const br_phase *current_phase(const br_scheduler *s, double *part)
{
    const br_phase *phase = s->args.one_cycle.phases;
    const br_phase *last = phase + s->args.one_cycle.n_phases - 1;
    double epoch = (double)s->last_epoch, start = 0;
    while (phase < last && epoch > phase->end_step)
        start = phase++->end_step;
    if (phase->end_step == start)
        return br_fail(BR_ERROR_ARGUMENT, s->kind->name,
                       "pct_start %g with total_steps %" PRId64 " leaves a phase without steps",
                       s->args.one_cycle.options.pct_start, s->args.one_cycle.options.total_steps);
    *part = (epoch - start) / (phase->end_step - start);
    return phase;
}

static double rate(const br_scheduler *s, int group, double lr)
{
    (void)lr;
    const br_one_cycle_options *o = &s->args.one_cycle.options;
    if (s->last_epoch > o->total_steps) {
        br_fail(BR_ERROR_STATE, s->kind->name, "step %" PRId64 " exceeds total_steps %" PRId64,
                s->last_epoch, o->total_steps);
        return NAN;
    }
    double part = 0;
    const br_phase *phase = current_phase(s, &part);
    if (!phase)
        return NAN;
    return anneal(o->linear, point(s, group, phase->start), point(s, group, phase->end), part);
}

static void set_momentum(br_scheduler *s)
{
    const br_one_cycle_options *o = &s->args.one_cycle.options;
    double part = 0;
    const br_phase *phase = o->cycle_momentum ? current_phase(s, &part) : NULL;
    for (int g = 0; phase && g < s->n_groups; g++)
        *br__option(s->optim->groups[g].options, s->optim->kind->momentum) = anneal(
            o->linear, point(s, g, phase->start_momentum), point(s, g, phase->end_momentum), part);
}

static const br_scheduler_kind kind = { .name = "one_cycle_lr",
                                        .rate = rate,
                                        .apply = set_momentum };

/* ---- Construction ---------------------------------------------------------------------------- */

static void set_phases(br_scheduler *s)
{
    const br_one_cycle_options *o = &s->args.one_cycle.options;
    double total = (double)o->total_steps, up = o->pct_start * total;
    br_phase rise = { up - 1, INITIAL_LR, MAX_LR, MAX_MOMENTUM, BASE_MOMENTUM };
    br_phase fall = { total - 1, MAX_LR, MIN_LR, BASE_MOMENTUM, MAX_MOMENTUM };
    br_phase back = { 2 * o->pct_start * total - 2, MAX_LR, INITIAL_LR, BASE_MOMENTUM,
                      MAX_MOMENTUM };
    br_phase out = { total - 1, INITIAL_LR, MIN_LR, MAX_MOMENTUM, MAX_MOMENTUM };
    br_phase *phases = s->args.one_cycle.phases;
    phases[0] = rise;
    phases[1] = o->three_phase ? back : fall;
    phases[2] = out;
    s->args.one_cycle.n_phases = o->three_phase ? 3 : 2;
}

static void good_rate(double lr)
{
    if (!(lr >= 0 && lr < INFINITY))
        br_fail(BR_ERROR_ARGUMENT, kind.name, "max_lr is %g, must be finite and not negative", lr);
}

static bool good_options(const br_scheduler *s, const br_one_cycle_options *o)
{
    const char *op = kind.name;
    if (o->total_steps < 1)
        br_fail(BR_ERROR_ARGUMENT, op, "total_steps is %" PRId64 ", must be at least 1",
                o->total_steps);
    else if (!(o->pct_start >= 0 && o->pct_start <= 1))
        br_fail(BR_ERROR_ARGUMENT, op, "pct_start is %g, must be in 0 .. 1", o->pct_start);
    else if (!(o->div_factor > 0) || !(o->final_div_factor > 0))
        br_fail(BR_ERROR_ARGUMENT, op,
                "div_factor is %g, final_div_factor is %g: both must be positive", o->div_factor,
                o->final_div_factor);
    else if (o->cycle_momentum && !s->optim->kind->momentum)
        br_fail(BR_ERROR_ARGUMENT, op, "%s has no momentum to cycle: set cycle_momentum to false",
                s->optim->kind->name);
    for (int g = 0; !br_failed() && g < s->n_groups; g++)
        good_rate(o->max_lrs ? o->max_lrs[g] : o->max_lr);
    return !br_failed() && br__in_unit_interval(op, "base_momentum", o->base_momentum) &&
           br__in_unit_interval(op, "max_momentum", o->max_momentum);
}

/* The scheduler begins with the initial rates of the policy, not with the groups' rates. */
static bool set_rates(br_scheduler *s, const br_one_cycle_options *o)
{
    s->owned = br_calloc((size_t)s->n_groups, sizeof *s->owned);
    for (int g = 0; s->owned && g < s->n_groups; g++) {
        s->owned[g] = o->max_lrs ? o->max_lrs[g] : o->max_lr;
        s->base_lrs[g] = s->owned[g] / o->div_factor;
    }
    return s->owned != NULL;
}

br_scheduler *br_one_cycle_lr(br_optim *optim, const br_one_cycle_options *options)
{
    br_scheduler *s = br__scheduler_new(&kind, optim);
    if (!s)
        return NULL;
    const br_one_cycle_options *o = BR_OPTIONS_OF(kind.name, br_one_cycle, options);
    if (good_options(s, o) && set_rates(s, o)) {
        s->args.one_cycle.options = *o;
        set_phases(s);
    }
    return br__scheduler_begin(s);
}
