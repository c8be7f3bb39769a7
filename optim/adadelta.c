/* optim/adadelta.c - Adadelta (Zeiler, 2012) as in PyTorch, which multiplies the step by lr. */
#include "optim/optim_internal.h"

BR_DEFINE_DEFAULTS(br_adadelta)

enum { SQUARE_AVG, ACC_DELTA, STEP };

static bool check(const void *options)
{
    const char *op = "adadelta";
    const br_adadelta_options *o = options;
    if (!(o->rho >= 0 && o->rho <= 1))
        return br_fail(BR_ERROR_ARGUMENT, op, "rho is %g, must be in 0 .. 1", o->rho);
    return br__not_negative(op, "eps", o->eps) &&
           br__not_negative(op, "weight_decay", o->weight_decay);
}

static bool describe(br_optim_work *work, br_update *update)
{
    const br_adadelta_options *o = work->options;
    update->rule = BR_UPDATE_ADADELTA;
    update->args.adadelta = (br_adadelta_args){ .lr = o->lr,
                                                .rho = o->rho,
                                                .eps = o->eps,
                                                .weight_decay = o->weight_decay,
                                                .maximize = o->maximize };
    update->state[0] = work->state[SQUARE_AVG];
    update->state[1] = work->state[ACC_DELTA];
    return true;
}

static void finish(br_optim_work *work)
{
    ++*br__host_counter(work->state[STEP]);
}

static const br_adadelta_options defaults = { br_adadelta_default_fields };

static const br_optim_option saved[] = {
    BR_OPTIM_OPTION(br_adadelta_options, rho, BR_F64),
    BR_OPTIM_OPTION(br_adadelta_options, eps, BR_F64),
    BR_OPTIM_OPTION(br_adadelta_options, weight_decay, BR_F64),
    BR_OPTIM_OPTION(br_adadelta_options, maximize, BR_BOOL),
    { 0 },
};

static const br_optim_kind adadelta_kind = {
    .name = "adadelta",
    .options_name = "br_adadelta",
    .defaults = &defaults,
    .check = check,
    .options = saved,
    .states = { { "square_avg", NULL }, { "acc_delta", NULL }, { "step", br_optim_counter } },
    .finish = finish,
    .elementwise = true,
    .describe = describe,
};

br_optim *br_adadelta_new(const br_named_list *parameters, const br_adadelta_options *options)
{
    return br_optim_new(&adadelta_kind, parameters, options);
}

br_optim *br_adadelta(br_module *module, const br_adadelta_options *options)
{
    return br_optim_for(&adadelta_kind, module, options);
}
