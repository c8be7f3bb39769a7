/* optim/rmsprop.c - RMSprop, Hinton's lecture 6e, 2012, as in PyTorch: eps is added to the square
 * root. The centered variant, Graves, 2013 (arXiv 1308.0850), divides by an estimate of the
 * standard deviation. */
#include "optim/optim_internal.h"

BR_DEFINE_DEFAULTS(br_rmsprop)

enum { SQUARE_AVG, GRAD_AVG, MOMENTUM_BUFFER };

static bool check(const void *options)
{
    const char *op = "rmsprop";
    const br_rmsprop_options *o = options;
    return br__not_negative(op, "alpha", o->alpha) && br__not_negative(op, "eps", o->eps) &&
           br__not_negative(op, "momentum", o->momentum) &&
           br__not_negative(op, "weight_decay", o->weight_decay);
}

static br_tensor *make_mean(br_tensor *param, const void *options)
{
    const br_rmsprop_options *o = options;
    return o->centered ? br_zeros_like(param) : NULL;
}

static br_tensor *make_buffer(br_tensor *param, const void *options)
{
    const br_rmsprop_options *o = options;
    return o->momentum > 0 ? br_zeros_like(param) : NULL;
}

static bool describe(br_optim_work *work, br_update *update)
{
    const br_rmsprop_options *o = work->options;
    br_tensor *const *state = work->state;
    update->rule = BR_UPDATE_RMSPROP;
    update->args.rmsprop = (br_rmsprop_args){ .lr = o->lr,
                                              .alpha = o->alpha,
                                              .eps = o->eps,
                                              .weight_decay = o->weight_decay,
                                              .momentum = o->momentum,
                                              .centered = o->centered,
                                              .maximize = o->maximize };
    update->state[0] = state[SQUARE_AVG];
    update->state[1] = o->centered ? state[GRAD_AVG] : NULL;
    update->state[2] = o->momentum > 0 ? state[MOMENTUM_BUFFER] : NULL;
    return true;
}

static const br_rmsprop_options defaults = { br_rmsprop_default_fields };

static const br_optim_option saved[] = {
    BR_OPTIM_OPTION(br_rmsprop_options, alpha, BR_F64),
    BR_OPTIM_OPTION(br_rmsprop_options, eps, BR_F64),
    BR_OPTIM_OPTION(br_rmsprop_options, weight_decay, BR_F64),
    BR_OPTIM_OPTION(br_rmsprop_options, momentum, BR_F64),
    BR_OPTIM_OPTION(br_rmsprop_options, centered, BR_BOOL),
    BR_OPTIM_OPTION(br_rmsprop_options, maximize, BR_BOOL),
    { 0 },
};

static const br_optim_kind rmsprop_kind = {
    .name = "rmsprop",
    .options_name = "br_rmsprop",
    .defaults = &defaults,
    .check = check,
    .momentum = offsetof(br_rmsprop_options, momentum),
    .options = saved,
    .states = { { "square_avg", NULL },
                { "grad_avg", make_mean },
                { "momentum_buffer", make_buffer } },
    .elementwise = true,
    .describe = describe,
};

br_optim *br_rmsprop_new(const br_named_list *parameters, const br_rmsprop_options *options)
{
    return br_optim_new(&rmsprop_kind, parameters, options);
}

br_optim *br_rmsprop(br_module *module, const br_rmsprop_options *options)
{
    return br_optim_for(&rmsprop_kind, module, options);
}
