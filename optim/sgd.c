/* optim/sgd.c - stochastic gradient descent with momentum as in PyTorch: the learning rate
 * multiplies the momentum buffer, and the first gradient is stored there without dampening. */
#include "optim/optim_internal.h"

BR_DEFINE_DEFAULTS(br_sgd)

static bool check(const void *options)
{
    const br_sgd_options *o = options;
    if (!br__not_negative("sgd", "momentum", o->momentum) ||
        !br__not_negative("sgd", "weight_decay", o->weight_decay))
        return false;
    if (o->nesterov && (o->momentum == 0 || o->dampening != 0))
        br_fail(BR_ERROR_ARGUMENT, "sgd",
                "nesterov requires momentum > 0 and dampening == 0 (got %g and %g)", o->momentum,
                o->dampening);
    return !br_failed();
}

static br_tensor *make_buffer(br_tensor *param, const void *options)
{
    const br_sgd_options *o = options;
    return o->momentum != 0 ? br_zeros_like(param) : NULL;
}

static bool describe(br_optim_work *work, br_update *update)
{
    const br_sgd_options *o = work->options;
    update->rule = BR_UPDATE_SGD;
    update->args.sgd = (br_sgd_args){ .lr = o->lr,
                                      .momentum = o->momentum,
                                      .dampening = o->dampening,
                                      .weight_decay = o->weight_decay,
                                      .nesterov = o->nesterov,
                                      .maximize = o->maximize,
                                      .first = work->fresh[0] };
    update->state[0] = o->momentum != 0 ? work->state[0] : NULL;
    return true;
}

static const br_sgd_options defaults = { br_sgd_default_fields };

static const br_optim_option saved[] = {
    BR_OPTIM_OPTION(br_sgd_options, momentum, BR_F64),
    BR_OPTIM_OPTION(br_sgd_options, dampening, BR_F64),
    BR_OPTIM_OPTION(br_sgd_options, weight_decay, BR_F64),
    BR_OPTIM_OPTION(br_sgd_options, nesterov, BR_BOOL),
    BR_OPTIM_OPTION(br_sgd_options, maximize, BR_BOOL),
    { 0 },
};

static const br_optim_kind sgd_kind = {
    .name = "sgd",
    .options_name = "br_sgd",
    .defaults = &defaults,
    .check = check,
    .momentum = offsetof(br_sgd_options, momentum),
    .options = saved,
    .states = { { "momentum_buffer", make_buffer } },
    .elementwise = true,
    .describe = describe,
};

br_optim *br_sgd_new(const br_named_list *parameters, const br_sgd_options *options)
{
    return br_optim_new(&sgd_kind, parameters, options);
}

br_optim *br_sgd(br_module *module, const br_sgd_options *options)
{
    return br_optim_for(&sgd_kind, module, options);
}
