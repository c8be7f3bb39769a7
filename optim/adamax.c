/* optim/adamax.c - Adamax (Kingma and Ba, 2015) as in PyTorch. */
#include "optim/optim_internal.h"

#include <math.h>

BR_DEFINE_DEFAULTS(br_adamax)

enum { EXP_AVG, EXP_INF, STEP };

static bool check(const void *options)
{
    const char *op = "adamax";
    const br_adamax_options *o = options;
    return br__good_adam(op, o->beta1, o->beta2, o->eps, o->weight_decay);
}

static bool describe(br_optim_work *work, br_update *update)
{
    const br_adamax_options *o = work->options;
    const double t = (double)*br__host_counter(work->state[STEP]) + 1;
    update->rule = BR_UPDATE_ADAMAX;
    update->args.adamax = (br_adamax_args){ .beta1 = o->beta1,
                                            .beta2 = o->beta2,
                                            .eps = o->eps,
                                            .weight_decay = o->weight_decay,
                                            .step_size = o->lr / (1 - pow(o->beta1, t)),
                                            .maximize = o->maximize };
    update->state[0] = work->state[EXP_AVG];
    update->state[1] = work->state[EXP_INF];
    return true;
}

static void finish(br_optim_work *work)
{
    ++*br__host_counter(work->state[STEP]);
}

static const br_adamax_options defaults = { br_adamax_default_fields };

static const br_optim_option saved[] = {
    BR_OPTIM_OPTION(br_adamax_options, beta1, BR_F64),
    BR_OPTIM_OPTION(br_adamax_options, beta2, BR_F64),
    BR_OPTIM_OPTION(br_adamax_options, eps, BR_F64),
    BR_OPTIM_OPTION(br_adamax_options, weight_decay, BR_F64),
    BR_OPTIM_OPTION(br_adamax_options, maximize, BR_BOOL),
    { 0 },
};

static const br_optim_kind adamax_kind = {
    .name = "adamax",
    .options_name = "br_adamax",
    .defaults = &defaults,
    .check = check,
    .momentum = offsetof(br_adamax_options, beta1),
    .options = saved,
    .states = { { "exp_avg", NULL }, { "exp_inf", NULL }, { "step", br_optim_counter } },
    .finish = finish,
    .elementwise = true,
    .describe = describe,
};

br_optim *br_adamax_new(const br_named_list *parameters, const br_adamax_options *options)
{
    return br_optim_new(&adamax_kind, parameters, options);
}

br_optim *br_adamax(br_module *module, const br_adamax_options *options)
{
    return br_optim_for(&adamax_kind, module, options);
}
