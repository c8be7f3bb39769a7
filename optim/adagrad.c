/* optim/adagrad.c - Adagrad, Duchi, Hazan and Singer, 2011, as PyTorch has it: eps is added to the
 * root, and the rate may fall with the steps, too. */
#include "optim/optim_internal.h"

enum { SUM, STEP };

static bool resolve(br_optim_options *options, const void *given)
{
    const char *op = "adagrad";
    br_adagrad_options *o = &options->adagrad;
    *o = given ? *(const br_adagrad_options *)given : (br_adagrad_options){ 0 };
    o->lr = o->lr == 0 ? 1e-2 : o->lr;
    o->eps = o->eps == 0 ? 1e-10 : o->eps;
    return br__not_negative(op, "lr", o->lr) && br__not_negative(op, "lr_decay", o->lr_decay) &&
           br__not_negative(op, "weight_decay", o->weight_decay) &&
           br__not_negative(op, "eps", o->eps) &&
           br__not_negative(op, "initial_accumulator_value", o->initial_accumulator_value);
}

static bool has_state(const br_optim_options *options, int i)
{
    (void)options;
    (void)i;
    return true;
}

static bool is_counter(int i)
{
    return i == STEP;
}

static double initial(const br_optim_options *options, int i)
{
    (void)i;
    return options->adagrad.initial_accumulator_value;
}

static int64_t *steps(const br_slot *slot)
{
    return br__element(slot->state[STEP], 0);
}

static bool prepare(br_job *job, const br_optim_options *options)
{
    const br_adagrad_options *o = &options->adagrad;
    double before = (double)*steps(job->slot);
    job->args.adagrad = (br_adagrad_args){ .lr = o->lr / (1 + before * o->lr_decay),
                                           .eps = o->eps,
                                           .weight_decay = o->weight_decay,
                                           .maximize = o->maximize };
    return true;
}

static void update(const br_job *job, int64_t from, int64_t count)
{
    job->kernels->adagrad(count, br__element(job->param, from), br__element(job->grad, from),
                          br__element(job->slot->state[SUM], from), &job->args.adagrad);
}

static void finish(br_job *job)
{
    ++*steps(job->slot);
}

static const br_optim_kind adagrad_kind = { .name = "adagrad",
                                            .resolve = resolve,
                                            .n_states = 2,
                                            .state_names = { "sum", "step" },
                                            .has_state = has_state,
                                            .is_counter = is_counter,
                                            .initial = initial,
                                            .prepare = prepare,
                                            .update = update,
                                            .finish = finish };

br_optim *br_adagrad_new(const br_named_list *parameters, const br_adagrad_options *options)
{
    return br__optim_new(&adagrad_kind, parameters, options);
}

br_optim *br_adagrad(br_module *module, const br_adagrad_options *options)
{
    return br__optim_for(&adagrad_kind, module, options);
}
