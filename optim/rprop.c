/* optim/rprop.c - Rprop (Riedmiller and Braun, 1993) as in PyTorch. */
#include "optim/optim_internal.h"

BR_DEFINE_DEFAULTS(br_rprop)

enum { PREV, STEP_SIZE, STEP };

static bool check(const void *options)
{
    const char *op = "rprop";
    const br_rprop_options *o = options;
    if (!(o->eta_minus > 0 && o->eta_minus < 1 && o->eta_plus > 1))
        return br_fail(BR_ERROR_ARGUMENT, op,
                       "eta_minus is %g and eta_plus is %g, must be 0 < eta_minus < 1 < eta_plus",
                       o->eta_minus, o->eta_plus);
    return true;
}

static br_tensor *make_step_size(br_tensor *param, const void *options)
{
    const br_rprop_options *o = options;
    return br_new_full(param, param->ndim, param->sizes, o->lr, param->dtype);
}

static bool describe(br_optim_work *work, br_update *update)
{
    const br_rprop_options *o = work->options;
    update->rule = BR_UPDATE_RPROP;
    update->args.rprop = (br_rprop_args){ .eta_minus = o->eta_minus,
                                          .eta_plus = o->eta_plus,
                                          .step_size_min = o->step_size_min,
                                          .step_size_max = o->step_size_max,
                                          .maximize = o->maximize };
    update->state[0] = work->state[PREV];
    update->state[1] = work->state[STEP_SIZE];
    return true;
}

static void finish(br_optim_work *work)
{
    ++*br__host_counter(work->state[STEP]);
}

static const br_rprop_options defaults = { br_rprop_default_fields };

static const br_optim_option saved[] = {
    BR_OPTIM_OPTION(br_rprop_options, eta_minus, BR_F64),
    BR_OPTIM_OPTION(br_rprop_options, eta_plus, BR_F64),
    BR_OPTIM_OPTION(br_rprop_options, step_size_min, BR_F64),
    BR_OPTIM_OPTION(br_rprop_options, step_size_max, BR_F64),
    BR_OPTIM_OPTION(br_rprop_options, maximize, BR_BOOL),
    { 0 },
};

static const br_optim_kind rprop_kind = {
    .name = "rprop",
    .options_name = "br_rprop",
    .defaults = &defaults,
    .check = check,
    .options = saved,
    .states = { { "prev", NULL }, { "step_size", make_step_size }, { "step", br_optim_counter } },
    .finish = finish,
    .elementwise = true,
    .describe = describe,
};

br_optim *br_rprop_new(const br_named_list *parameters, const br_rprop_options *options)
{
    return br_optim_new(&rprop_kind, parameters, options);
}

br_optim *br_rprop(br_module *module, const br_rprop_options *options)
{
    return br_optim_for(&rprop_kind, module, options);
}
