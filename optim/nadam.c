/* optim/nadam.c - NAdam (Dozat, 2016) as in PyTorch: the product of the momentums is f32. */
#include "optim/optim_internal.h"

#include <math.h>

BR_DEFINE_DEFAULTS(br_nadam)

enum { EXP_AVG, EXP_AVG_SQ, STEP, MU_PRODUCT };

static bool check(const void *options)
{
    const char *op = "nadam";
    const br_nadam_options *o = options;
    return br__good_adam(op, o->beta1, o->beta2, o->eps, o->weight_decay) &&
           br__not_negative(op, "momentum_decay", o->momentum_decay);
}

/* Creates the product of the momentums of all steps so far, 1. */
static br_tensor *make_product(br_tensor *param, const void *options)
{
    (void)param, (void)options;
    br_tensor *one = br__zeros_on_host("nadam", BR_SCALAR, BR_F32);
    if (one)
        *br__host_f32(one) = 1;
    return one;
}

/* Returns the momentum of step t. */
static double momentum_at(const br_nadam_options *o, double t)
{
    return o->beta1 * (1 - 0.5 * pow(0.96, t * o->momentum_decay));
}

static double next_step(const br_optim_work *work)
{
    return (double)*br__host_counter(work->state[STEP]) + 1;
}

/* Returns the product after the next step. */
static float next_product(const br_optim_work *work)
{
    return *br__host_f32(work->state[MU_PRODUCT]) *
           (float)momentum_at(work->options, next_step(work));
}

static bool describe(br_optim_work *work, br_update *update)
{
    const br_nadam_options *o = work->options;
    const double t = next_step(work), product = (double)next_product(work);
    const double mu = momentum_at(o, t), mu_next = momentum_at(o, t + 1);
    const bool decoupled = o->decoupled_weight_decay;
    update->rule = BR_UPDATE_NADAM;
    update->args.nadam = (br_nadam_args){ .beta1 = o->beta1,
                                          .beta2 = o->beta2,
                                          .eps = o->eps,
                                          .weight_decay = decoupled ? 0 : o->weight_decay,
                                          .keep = decoupled ? 1 - o->lr * o->weight_decay : 1,
                                          .bias_correction2 = 1 - pow(o->beta2, t),
                                          .grad_size = o->lr * (1 - mu) / (1 - product),
                                          .mean_size = o->lr * mu_next / (1 - product * mu_next),
                                          .maximize = o->maximize };
    update->state[0] = work->state[EXP_AVG];
    update->state[1] = work->state[EXP_AVG_SQ];
    return true;
}

static void finish(br_optim_work *work)
{
    *br__host_f32(work->state[MU_PRODUCT]) = next_product(work);
    ++*br__host_counter(work->state[STEP]);
}

static const br_nadam_options defaults = { br_nadam_default_fields };

static const br_optim_option saved[] = {
    BR_OPTIM_OPTION(br_nadam_options, beta1, BR_F64),
    BR_OPTIM_OPTION(br_nadam_options, beta2, BR_F64),
    BR_OPTIM_OPTION(br_nadam_options, eps, BR_F64),
    BR_OPTIM_OPTION(br_nadam_options, weight_decay, BR_F64),
    BR_OPTIM_OPTION(br_nadam_options, momentum_decay, BR_F64),
    BR_OPTIM_OPTION(br_nadam_options, decoupled_weight_decay, BR_BOOL),
    BR_OPTIM_OPTION(br_nadam_options, maximize, BR_BOOL),
    { 0 },
};

static const br_optim_kind nadam_kind = {
    .name = "nadam",
    .options_name = "br_nadam",
    .defaults = &defaults,
    .check = check,
    .momentum = offsetof(br_nadam_options, beta1),
    .options = saved,
    .states = { { "exp_avg", NULL },
                { "exp_avg_sq", NULL },
                { "step", br_optim_counter },
                { "mu_product", make_product } },
    .finish = finish,
    .elementwise = true,
    .describe = describe,
};

br_optim *br_nadam_new(const br_named_list *parameters, const br_nadam_options *options)
{
    return br_optim_new(&nadam_kind, parameters, options);
}

br_optim *br_nadam(br_module *module, const br_nadam_options *options)
{
    return br_optim_for(&nadam_kind, module, options);
}
