/* optim/adagrad.c - Adagrad (Duchi, Hazan and Singer, 2011) as in PyTorch: eps is added to the
 * square root, and the learning rate may decay with the number of steps. */
#include "optim/optim_internal.h"

BR_DEFINE_DEFAULTS(br_adagrad)

enum { SUM, STEP };

static bool check(const void *options)
{
    const char *op = "adagrad";
    const br_adagrad_options *o = options;
    return br__not_negative(op, "lr_decay", o->lr_decay) &&
           br__not_negative(op, "weight_decay", o->weight_decay) &&
           br__not_negative(op, "eps", o->eps) &&
           br__not_negative(op, "initial_accumulator_value", o->initial_accumulator_value);
}

static br_tensor *make_sum(br_tensor *param, const void *options)
{
    const br_adagrad_options *o = options;
    return br_new_full(param, param->ndim, param->sizes, o->initial_accumulator_value,
                       param->dtype);
}

static bool describe(br_optim_work *work, br_update *update)
{
    const br_adagrad_options *o = work->options;
    double before = (double)*br__host_counter(work->state[STEP]);
    update->rule = BR_UPDATE_ADAGRAD;
    update->args.adagrad = (br_adagrad_args){ .lr = o->lr / (1 + before * o->lr_decay),
                                              .eps = o->eps,
                                              .weight_decay = o->weight_decay,
                                              .maximize = o->maximize };
    update->state[0] = work->state[SUM];
    return true;
}

static void finish(br_optim_work *work)
{
    ++*br__host_counter(work->state[STEP]);
}

static const br_adagrad_options defaults = { br_adagrad_default_fields };

static const br_optim_option saved[] = {
    BR_OPTIM_OPTION(br_adagrad_options, lr_decay, BR_F64),
    BR_OPTIM_OPTION(br_adagrad_options, weight_decay, BR_F64),
    BR_OPTIM_OPTION(br_adagrad_options, initial_accumulator_value, BR_F64),
    BR_OPTIM_OPTION(br_adagrad_options, eps, BR_F64),
    BR_OPTIM_OPTION(br_adagrad_options, maximize, BR_BOOL),
    { 0 },
};

static const br_optim_kind adagrad_kind = {
    .name = "adagrad",
    .options_name = "br_adagrad",
    .defaults = &defaults,
    .check = check,
    .options = saved,
    .states = { { "sum", make_sum }, { "step", br_optim_counter } },
    .finish = finish,
    .elementwise = true,
    .describe = describe,
};

br_optim *br_adagrad_new(const br_named_list *parameters, const br_adagrad_options *options)
{
    return br_optim_new(&adagrad_kind, parameters, options);
}

br_optim *br_adagrad(br_module *module, const br_adagrad_options *options)
{
    return br_optim_for(&adagrad_kind, module, options);
}
