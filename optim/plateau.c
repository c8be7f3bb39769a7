/* optim/plateau.c - ReduceLROnPlateau: reduces the rate when a metric stops improving. */
#include "optim/scheduler_internal.h"

#include <inttypes.h>
#include <math.h>

BR_DEFINE_DEFAULTS(br_plateau)

enum { BEST, BAD_EPOCHS, COOLDOWN };

static bool is_better(const br_plateau_options *o, double metric, double best)
{
    const bool max = o->mode == BR_PLATEAU_MAX;
    double limit = o->threshold_mode == BR_THRESHOLD_ABS
                       ? best + (max ? o->threshold : -o->threshold)
                       : best * (max ? o->threshold + 1 : 1 - o->threshold);
    return max ? metric > limit : metric < limit;
}

static void reduce(br_scheduler *s)
{
    const br_plateau_options *o = &s->args.plateau;
    for (int g = 0; g < s->n_groups; g++) {
        double *lr = br__group_lr(s->optim, g), next = fmax(*lr * o->factor, o->min_lr);
        if (*lr - next > o->eps)
            *lr = next;
    }
}

static bool needs_metric(br_scheduler *s)
{
    br_fail(BR_ERROR_ARGUMENT, s->kind->name,
            "this scheduler needs a metric: call br_scheduler_step_metric()");
    return false;
}

static const br_scheduler_kind kind = {
    .name = "reduce_lr_on_plateau",
    .step = needs_metric,
    .value_names = { "best", "num_bad_epochs", "cooldown_counter" },
};

bool br_scheduler_step_metric(br_scheduler *scheduler, double metric)
{
    br_scheduler *s = scheduler;
    if (!br__scheduler_usable("scheduler_step_metric", s))
        return false;
    if (s->kind != &kind) {
        br_fail(BR_ERROR_ARGUMENT, "scheduler_step_metric",
                "a %s takes no metric: call br_scheduler_step()", s->kind->name);
        return false;
    }
    s->last_epoch++;
    bool better = is_better(&s->args.plateau, metric, s->values[BEST]);
    if (better)
        s->values[BEST] = metric;
    s->values[BAD_EPOCHS] = better ? 0 : s->values[BAD_EPOCHS] + 1;
    if (s->values[COOLDOWN] > 0) {
        s->values[COOLDOWN]--;
        s->values[BAD_EPOCHS] = 0;
    }
    if (s->values[BAD_EPOCHS] > (double)s->args.plateau.patience) {
        reduce(s);
        s->values[COOLDOWN] = (double)s->args.plateau.cooldown;
        s->values[BAD_EPOCHS] = 0;
    }
    br__scheduler_copy_rates(s);
    return true;
}

static bool good_options(const br_plateau_options *o)
{
    if ((unsigned)o->mode > BR_PLATEAU_MAX)
        br_fail(BR_ERROR_ARGUMENT, kind.name, "mode is %d, must be one of br_plateau_mode",
                (int)o->mode);
    else if ((unsigned)o->threshold_mode > BR_THRESHOLD_ABS)
        br_fail(BR_ERROR_ARGUMENT, kind.name,
                "threshold_mode is %d, must be one of br_threshold_mode", (int)o->threshold_mode);
    else if (!(o->factor >= 0 && o->factor < 1))
        br_fail(BR_ERROR_ARGUMENT, kind.name, "factor is %g, must be in [0, 1)", o->factor);
    else if (o->patience < 0 || o->cooldown < 0)
        br_fail(BR_ERROR_ARGUMENT, kind.name,
                "patience is %" PRId64 ", cooldown is %" PRId64 ": neither may be negative",
                o->patience, o->cooldown);
    else if (isnan(o->threshold))
        br_fail(BR_ERROR_ARGUMENT, kind.name, "threshold is nan, must be a number");
    return !br_failed() && br__not_negative(kind.name, "min_lr", o->min_lr) &&
           br__not_negative(kind.name, "eps", o->eps);
}

br_scheduler *br_reduce_lr_on_plateau(br_optim *optim, const br_plateau_options *options)
{
    br_scheduler *s = br__scheduler_new(&kind, optim);
    if (!s)
        return NULL;
    br_plateau_options *o = &s->args.plateau;
    *o = *BR_OPTIONS_OF(kind.name, br_plateau, options);
    s->values[BEST] = o->mode == BR_PLATEAU_MAX ? -INFINITY : INFINITY;
    s->last_epoch = 0;
    if (good_options(o))
        return s;
    br_scheduler_free(s);
    return NULL;
}
