/* optim/adam.c - Adam, Kingma and Ba, 2015 (arXiv 1412.6980, algorithm 1). As in PyTorch, weight
 * decay is added to the gradient, and eps to the bias-corrected square root. AdamW, Loshchilov and
 * Hutter, 2019 (arXiv 1711.05101), applies weight decay to the parameter instead. amsgrad: Reddi,
 * Kale and Kumar, 2018. */
#include "optim/optim_internal.h"

#include <math.h>

BR_DEFINE_DEFAULTS(br_adam)
BR_DEFINE_DEFAULTS(br_adamw)

enum { EXP_AVG, EXP_AVG_SQ, STEP, MAX_EXP_AVG_SQ };

static bool check_adam(const void *options)
{
    const br_adam_options *o = options;
    return br__good_adam("adam", o->beta1, o->beta2, o->eps, o->weight_decay);
}

static bool check_adamw(const void *options)
{
    const br_adamw_options *o = options;
    return br__good_adam("adamw", o->beta1, o->beta2, o->eps, o->weight_decay);
}

/* Creates the maximum of the second-moment estimates, which only amsgrad needs. */
static br_tensor *make_max(br_tensor *param, const void *options)
{
    const br_adam_options *o = options;
    return o->amsgrad ? br_zeros_like(param) : NULL;
}

static br_tensor *make_max_of_adamw(br_tensor *param, const void *options)
{
    const br_adamw_options *o = options;
    return o->amsgrad ? br_zeros_like(param) : NULL;
}

/* Completes the description of a step with the arguments that depend on the number of steps. */
static bool describe(br_optim_work *work, br_update *update, double lr, br_adam_args args)
{
    br_tensor *const *state = work->state;
    double t = (double)*br__host_counter(state[STEP]) + 1;
    args.step_size = lr / (1 - pow(args.beta1, t));
    args.bias_correction2_sqrt = sqrt(1 - pow(args.beta2, t));
    update->rule = BR_UPDATE_ADAM;
    update->args.adam = args;
    update->state[0] = state[EXP_AVG];
    update->state[1] = state[EXP_AVG_SQ];
    update->state[2] = args.amsgrad ? state[MAX_EXP_AVG_SQ] : NULL;
    return true;
}

static bool describe_adam(br_optim_work *work, br_update *update)
{
    const br_adam_options *o = work->options;
    return describe(work, update, o->lr,
                    (br_adam_args){ .beta1 = o->beta1,
                                    .beta2 = o->beta2,
                                    .eps = o->eps,
                                    .weight_decay = o->weight_decay,
                                    .keep = 1,
                                    .amsgrad = o->amsgrad,
                                    .maximize = o->maximize });
}

static bool describe_adamw(br_optim_work *work, br_update *update)
{
    const br_adamw_options *o = work->options;
    return describe(work, update, o->lr,
                    (br_adam_args){ .beta1 = o->beta1,
                                    .beta2 = o->beta2,
                                    .eps = o->eps,
                                    .keep = 1 - o->lr * o->weight_decay,
                                    .amsgrad = o->amsgrad,
                                    .maximize = o->maximize });
}

static void finish(br_optim_work *work)
{
    ++*br__host_counter(work->state[STEP]);
}

static const br_adam_options adam_defaults = { br_adam_default_fields };

static const br_optim_option adam_saved[] = {
    BR_OPTIM_OPTION(br_adam_options, beta1, BR_F64),
    BR_OPTIM_OPTION(br_adam_options, beta2, BR_F64),
    BR_OPTIM_OPTION(br_adam_options, eps, BR_F64),
    BR_OPTIM_OPTION(br_adam_options, weight_decay, BR_F64),
    BR_OPTIM_OPTION(br_adam_options, amsgrad, BR_BOOL),
    BR_OPTIM_OPTION(br_adam_options, maximize, BR_BOOL),
    { 0 },
};

static const br_optim_kind adam_kind = {
    .name = "adam",
    .options_name = "br_adam",
    .defaults = &adam_defaults,
    .check = check_adam,
    .momentum = offsetof(br_adam_options, beta1),
    .options = adam_saved,
    .states = { { "exp_avg", NULL },
                { "exp_avg_sq", NULL },
                { "step", br_optim_counter },
                { "max_exp_avg_sq", make_max } },
    .finish = finish,
    .elementwise = true,
    .describe = describe_adam,
};

static const br_adamw_options adamw_defaults = { br_adamw_default_fields };

static const br_optim_option adamw_saved[] = {
    BR_OPTIM_OPTION(br_adamw_options, beta1, BR_F64),
    BR_OPTIM_OPTION(br_adamw_options, beta2, BR_F64),
    BR_OPTIM_OPTION(br_adamw_options, eps, BR_F64),
    BR_OPTIM_OPTION(br_adamw_options, weight_decay, BR_F64),
    BR_OPTIM_OPTION(br_adamw_options, amsgrad, BR_BOOL),
    BR_OPTIM_OPTION(br_adamw_options, maximize, BR_BOOL),
    { 0 },
};

static const br_optim_kind adamw_kind = {
    .name = "adamw",
    .options_name = "br_adamw",
    .defaults = &adamw_defaults,
    .check = check_adamw,
    .momentum = offsetof(br_adamw_options, beta1),
    .options = adamw_saved,
    .states = { { "exp_avg", NULL },
                { "exp_avg_sq", NULL },
                { "step", br_optim_counter },
                { "max_exp_avg_sq", make_max_of_adamw } },
    .finish = finish,
    .elementwise = true,
    .describe = describe_adamw,
};

br_optim *br_adam_new(const br_named_list *parameters, const br_adam_options *options)
{
    return br_optim_new(&adam_kind, parameters, options);
}

br_optim *br_adam(br_module *module, const br_adam_options *options)
{
    return br_optim_for(&adam_kind, module, options);
}

br_optim *br_adamw_new(const br_named_list *parameters, const br_adamw_options *options)
{
    return br_optim_new(&adamw_kind, parameters, options);
}

br_optim *br_adamw(br_module *module, const br_adamw_options *options)
{
    return br_optim_for(&adamw_kind, module, options);
}
