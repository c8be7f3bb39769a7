/* optim/asgd.c - averaged stochastic gradient descent (Polyak and Juditsky, 1992) as in PyTorch:
 * eta and mu are f32. */
#include "optim/optim_internal.h"

#include <math.h>

BR_DEFINE_DEFAULTS(br_asgd)

enum { STEP, ETA, MU, AX };

static bool check(const void *options)
{
    const br_asgd_options *o = options;
    return br__not_negative("asgd", "lambd", o->lambd) &&
           br__not_negative("asgd", "alpha", o->alpha) &&
           br__not_negative("asgd", "weight_decay", o->weight_decay);
}

static br_tensor *make_number(double value)
{
    br_tensor *t = br__zeros_on_host("asgd", BR_SCALAR, BR_F32);
    if (t)
        *br__host_f32(t) = (float)value;
    return t;
}

static br_tensor *make_eta(br_tensor *param, const void *options)
{
    (void)param;
    return make_number(((const br_asgd_options *)options)->lr);
}

static br_tensor *make_mu(br_tensor *param, const void *options)
{
    (void)param, (void)options;
    return make_number(1);
}

static bool describe(br_optim_work *work, br_update *update)
{
    const br_asgd_options *o = work->options;
    const double eta = (double)*br__host_f32(work->state[ETA]);
    update->rule = BR_UPDATE_ASGD;
    update->args.asgd = (br_asgd_args){ .eta = eta,
                                        .keep = 1 - o->lambd * eta,
                                        .mu = (double)*br__host_f32(work->state[MU]),
                                        .weight_decay = o->weight_decay,
                                        .maximize = o->maximize };
    update->state[0] = work->state[AX];
    return true;
}

/* Sets the rate and the weight of the average for the next step. */
static void finish(br_optim_work *work)
{
    const br_asgd_options *o = work->options;
    const double t = (double)++*br__host_counter(work->state[STEP]);
    *br__host_f32(work->state[ETA]) = (float)(o->lr / pow(1 + o->lambd * o->lr * t, o->alpha));
    *br__host_f32(work->state[MU]) = (float)(1 / fmax(1, t - o->t0));
}

static const br_asgd_options defaults = { br_asgd_default_fields };

static const br_optim_option saved[] = {
    BR_OPTIM_OPTION(br_asgd_options, lambd, BR_F64),
    BR_OPTIM_OPTION(br_asgd_options, alpha, BR_F64),
    BR_OPTIM_OPTION(br_asgd_options, t0, BR_F64),
    BR_OPTIM_OPTION(br_asgd_options, weight_decay, BR_F64),
    BR_OPTIM_OPTION(br_asgd_options, maximize, BR_BOOL),
    { 0 },
};

static const br_optim_kind asgd_kind = {
    .name = "asgd",
    .options_name = "br_asgd",
    .defaults = &defaults,
    .check = check,
    .options = saved,
    .states = { { "step", br_optim_counter },
                { "eta", make_eta },
                { "mu", make_mu },
                { "ax", NULL } },
    .finish = finish,
    .elementwise = true,
    .describe = describe,
};

br_optim *br_asgd_new(const br_named_list *parameters, const br_asgd_options *options)
{
    return br_optim_new(&asgd_kind, parameters, options);
}

br_optim *br_asgd(br_module *module, const br_asgd_options *options)
{
    return br_optim_for(&asgd_kind, module, options);
}
