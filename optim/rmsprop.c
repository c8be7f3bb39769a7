/* optim/rmsprop.c - RMSprop, Hinton's lecture 6e, 2012, as PyTorch has it: eps is added to the
 * root; centered, Graves, 2013 (arXiv 1308.0850), divides by an estimate of the deviation. */
#include "optim/optim_internal.h"

enum { SQUARE_AVG, GRAD_AVG, MOMENTUM_BUFFER };

static bool resolve(br_optim_options *options, const void *given)
{
    const char *op = "rmsprop";
    br_rmsprop_options *o = &options->rmsprop;
    *o = given ? *(const br_rmsprop_options *)given : (br_rmsprop_options){ 0 };
    o->lr = o->lr == 0 ? 1e-2 : o->lr;
    o->alpha = o->alpha == 0 ? 0.99 : o->alpha;
    o->eps = o->eps == 0 ? 1e-8 : o->eps;
    return br__not_negative(op, "lr", o->lr) && br__not_negative(op, "alpha", o->alpha) &&
           br__not_negative(op, "eps", o->eps) && br__not_negative(op, "momentum", o->momentum) &&
           br__not_negative(op, "weight_decay", o->weight_decay);
}

static bool has_state(const br_optim_options *options, int i)
{
    const br_rmsprop_options *o = &options->rmsprop;
    return i == SQUARE_AVG || (i == GRAD_AVG ? o->centered : o->momentum > 0);
}

static double *momentum(br_optim_options *options)
{
    return &options->rmsprop.momentum;
}

static bool prepare(br_job *job, const br_optim_options *options)
{
    const br_rmsprop_options *o = &options->rmsprop;
    job->args.rmsprop = (br_rmsprop_args){ .lr = o->lr,
                                           .alpha = o->alpha,
                                           .eps = o->eps,
                                           .weight_decay = o->weight_decay,
                                           .momentum = o->momentum,
                                           .maximize = o->maximize };
    return true;
}

static void update(const br_job *job, int64_t from, int64_t count)
{
    br_tensor *const *state = job->slot->state;
    job->kernels->rmsprop(count, br__element(job->param, from), br__element(job->grad, from),
                          br__element(state[SQUARE_AVG], from), br__element(state[GRAD_AVG], from),
                          br__element(state[MOMENTUM_BUFFER], from), &job->args.rmsprop);
}

static const br_optim_kind rmsprop_kind = { .name = "rmsprop",
                                            .resolve = resolve,
                                            .n_states = 3,
                                            .state_names = { "square_avg", "grad_avg",
                                                             "momentum_buffer" },
                                            .has_state = has_state,
                                            .is_counter = br__no_counter,
                                            .momentum = momentum,
                                            .prepare = prepare,
                                            .update = update,
                                            .finish = br__nothing_to_finish };

br_optim *br_rmsprop_new(const br_named_list *parameters, const br_rmsprop_options *options)
{
    return br__optim_new(&rmsprop_kind, parameters, options);
}

br_optim *br_rmsprop(br_module *module, const br_rmsprop_options *options)
{
    return br__optim_for(&rmsprop_kind, module, options);
}
