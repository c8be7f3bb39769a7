/* optim/plateau.c - ReduceLROnPlateau: the rate falls when a metric makes no progress. */
#include "optim/scheduler_internal.h"

#include <inttypes.h>
#include <math.h>

enum { BEST, BAD_EPOCHS, COOLDOWN };

static bool is_better(const br_plateau_options *o, double metric, double best)
{
    double limit = o->absolute ? best + (o->max ? o->threshold : -o->threshold)
                               : best * (o->max ? o->threshold + 1 : 1 - o->threshold);
    return o->max ? metric > limit : metric < limit;
}

static void reduce(br_scheduler *s)
{
    const br_plateau_options *o = &s->args.plateau;
    for (int g = 0; g < s->n_groups; g++) {
        double *lr = &s->optim->groups[g].options.lr, next = fmax(*lr * o->factor, o->min_lr);
        if (*lr - next > o->eps)
            *lr = next;
    }
}

static bool wants_metric(br_scheduler *s)
{
    br__fail(BR_ERROR_ARGUMENT, s->kind->name,
             "a step wants a metric: call br_scheduler_step_metric()");
    return false;
}

static const br_scheduler_kind kind = {
    .name = "reduce_lr_on_plateau",
    .step = wants_metric,
    .value_names = { "best", "num_bad_epochs", "cooldown_counter" },
};

bool br_scheduler_step_metric(br_scheduler *scheduler, double metric)
{
    br_scheduler *s = scheduler;
    if (!br__scheduler_usable("scheduler_step_metric", s))
        return false;
    if (s->kind != &kind) {
        br__fail(BR_ERROR_ARGUMENT, "scheduler_step_metric", "a %s takes no metric", s->kind->name);
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
    br__scheduler_take_rates(s);
    return true;
}

static bool good_options(const br_plateau_options *o)
{
    if (!(o->factor >= 0 && o->factor < 1))
        br__fail(BR_ERROR_ARGUMENT, kind.name, "factor is %g, must be in 0 .. 1, without 1",
                 o->factor);
    else if (o->patience < 0 || o->cooldown < 0)
        br__fail(BR_ERROR_ARGUMENT, kind.name,
                 "patience is %" PRId64 ", cooldown %" PRId64 ": must not be negative", o->patience,
                 o->cooldown);
    return br__not_negative(kind.name, "threshold", o->threshold) &&
           br__not_negative(kind.name, "min_lr", o->min_lr) &&
           br__not_negative(kind.name, "eps", o->eps);
}

br_scheduler *br_reduce_lr_on_plateau(br_optim *optim, const br_plateau_options *options)
{
    br_scheduler *s = br__scheduler_new(&kind, optim);
    if (!s)
        return NULL;
    br_plateau_options *o = &s->args.plateau;
    *o = options ? *options : (br_plateau_options){ 0 };
    o->factor = o->factor == 0 ? 0.1 : o->factor;
    o->patience = o->patience == 0 ? 10 : o->patience == -1 ? 0 : o->patience;
    o->threshold = o->threshold == 0 ? 1e-4 : o->threshold;
    o->eps = o->eps == 0 ? 1e-8 : o->eps;
    s->values[BEST] = o->max ? -INFINITY : INFINITY;
    s->last_epoch = 0;
    if (good_options(o))
        return s;
    br_scheduler_free(s);
    return NULL;
}
