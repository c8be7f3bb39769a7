/* optim/radam.c - RAdam (Liu et al., 2019) as in PyTorch. */
#include "optim/optim_internal.h"

#include <math.h>

BR_DEFINE_DEFAULTS(br_radam)

enum { EXP_AVG, EXP_AVG_SQ, STEP };

static bool check(const void *options)
{
    const char *op = "radam";
    const br_radam_options *o = options;
    return br__good_adam(op, o->beta1, o->beta2, o->eps, o->weight_decay);
}

/* Returns the rectification of the variance after t steps, times the bias correction of its square
 * root; 0 if the variance is not known well enough, with at most 5 degrees of freedom. */
static double rectification(double beta2, double t)
{
    const double power = pow(beta2, t), bias_correction2 = 1 - power;
    const double most = 2 / (1 - beta2) - 1, known = most - 2 * t * power / bias_correction2;
    if (!(known > 5))
        return 0;
    return sqrt((known - 4) * (known - 2) * most / ((most - 4) * (most - 2) * known)) *
           sqrt(bias_correction2);
}

static bool describe(br_optim_work *work, br_update *update)
{
    const br_radam_options *o = work->options;
    const double t = (double)*br__host_counter(work->state[STEP]) + 1;
    const bool decoupled = o->decoupled_weight_decay;
    update->rule = BR_UPDATE_RADAM;
    update->args.radam = (br_radam_args){ .beta1 = o->beta1,
                                          .beta2 = o->beta2,
                                          .eps = o->eps,
                                          .weight_decay = decoupled ? 0 : o->weight_decay,
                                          .keep = decoupled ? 1 - o->lr * o->weight_decay : 1,
                                          .step_size = o->lr / (1 - pow(o->beta1, t)),
                                          .rectified = rectification(o->beta2, t),
                                          .maximize = o->maximize };
    update->state[0] = work->state[EXP_AVG];
    update->state[1] = work->state[EXP_AVG_SQ];
    return true;
}

static void finish(br_optim_work *work)
{
    ++*br__host_counter(work->state[STEP]);
}

static const br_radam_options defaults = { br_radam_default_fields };

static const br_optim_option saved[] = {
    BR_OPTIM_OPTION(br_radam_options, beta1, BR_F64),
    BR_OPTIM_OPTION(br_radam_options, beta2, BR_F64),
    BR_OPTIM_OPTION(br_radam_options, eps, BR_F64),
    BR_OPTIM_OPTION(br_radam_options, weight_decay, BR_F64),
    BR_OPTIM_OPTION(br_radam_options, decoupled_weight_decay, BR_BOOL),
    BR_OPTIM_OPTION(br_radam_options, maximize, BR_BOOL),
    { 0 },
};

static const br_optim_kind radam_kind = {
    .name = "radam",
    .options_name = "br_radam",
    .defaults = &defaults,
    .check = check,
    .momentum = offsetof(br_radam_options, beta1),
    .options = saved,
    .states = { { "exp_avg", NULL }, { "exp_avg_sq", NULL }, { "step", br_optim_counter } },
    .finish = finish,
    .elementwise = true,
    .describe = describe,
};

br_optim *br_radam_new(const br_named_list *parameters, const br_radam_options *options)
{
    return br_optim_new(&radam_kind, parameters, options);
}

br_optim *br_radam(br_module *module, const br_radam_options *options)
{
    return br_optim_for(&radam_kind, module, options);
}
