/* optim/lion.c - Lion (Chen et al., 2023), which torch.optim lacks. */
#include "optim/optim_internal.h"

BR_DEFINE_DEFAULTS(br_lion)

static bool check(const void *options)
{
    const br_lion_options *o = options;
    return br__good_adam("lion", o->beta1, o->beta2, 0, o->weight_decay);
}

static bool describe(br_optim_work *work, br_update *update)
{
    const br_lion_options *o = work->options;
    update->rule = BR_UPDATE_LION;
    update->args.lion = (br_lion_args){ .lr = o->lr,
                                        .beta1 = o->beta1,
                                        .beta2 = o->beta2,
                                        .keep = 1 - o->lr * o->weight_decay,
                                        .maximize = o->maximize };
    update->state[0] = work->state[0];
    return true;
}

static const br_lion_options defaults = { br_lion_default_fields };

static const br_optim_option saved[] = {
    BR_OPTIM_OPTION(br_lion_options, beta1, BR_F64),
    BR_OPTIM_OPTION(br_lion_options, beta2, BR_F64),
    BR_OPTIM_OPTION(br_lion_options, weight_decay, BR_F64),
    BR_OPTIM_OPTION(br_lion_options, maximize, BR_BOOL),
    { 0 },
};

static const br_optim_kind lion_kind = {
    .name = "lion",
    .options_name = "br_lion",
    .defaults = &defaults,
    .check = check,
    .momentum = offsetof(br_lion_options, beta1),
    .options = saved,
    .states = { { "exp_avg", NULL } },
    .elementwise = true,
    .describe = describe,
};

br_optim *br_lion_new(const br_named_list *parameters, const br_lion_options *options)
{
    return br_optim_new(&lion_kind, parameters, options);
}

br_optim *br_lion(br_module *module, const br_lion_options *options)
{
    return br_optim_for(&lion_kind, module, options);
}
