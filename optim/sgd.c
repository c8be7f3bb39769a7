/* optim/sgd.c - stochastic gradient descent with momentum as PyTorch has it: the learning rate
 * multiplies the buffer, and the first gradient enters the buffer whole. */
#include "optim/optim_internal.h"

static bool resolve(br_optim_options *options, const void *given)
{
    br_sgd_options *o = &options->sgd;
    *o = given ? *(const br_sgd_options *)given : (br_sgd_options){ 0 };
    o->lr = o->lr == 0 ? 1e-3 : o->lr;
    if (!br__not_negative("sgd", "lr", o->lr) ||
        !br__not_negative("sgd", "momentum", o->momentum) ||
        !br__not_negative("sgd", "weight_decay", o->weight_decay))
        return false;
    if (o->nesterov && (o->momentum == 0 || o->dampening != 0))
        br__fail(BR_ERROR_ARGUMENT, "sgd",
                 "nesterov wants momentum, which is %g, and no dampening, which is %g", o->momentum,
                 o->dampening);
    return !br_failed();
}

static bool has_state(const br_optim_options *options, int i)
{
    (void)i;
    return options->sgd.momentum != 0;
}

static double *momentum(br_optim_options *options)
{
    return &options->sgd.momentum;
}

static bool prepare(br_job *job, const br_optim_options *options)
{
    const br_sgd_options *o = &options->sgd;
    job->args.sgd = (br_sgd_args){ .lr = o->lr,
                                   .momentum = o->momentum,
                                   .dampening = o->dampening,
                                   .weight_decay = o->weight_decay,
                                   .nesterov = o->nesterov,
                                   .maximize = o->maximize,
                                   .first = !job->slot->stepped };
    return true;
}

static void update(const br_job *job, int64_t from, int64_t count)
{
    job->kernels->sgd(count, br__element(job->param, from), br__element(job->grad, from),
                      br__element(job->slot->state[0], from), &job->args.sgd);
}

static const br_optim_kind sgd_kind = { .name = "sgd",
                                        .resolve = resolve,
                                        .n_states = 1,
                                        .state_names = { "momentum_buffer" },
                                        .has_state = has_state,
                                        .is_counter = br__no_counter,
                                        .momentum = momentum,
                                        .prepare = prepare,
                                        .update = update,
                                        .finish = br__nothing_to_finish };

br_optim *br_sgd_new(const br_named_list *parameters, const br_sgd_options *options)
{
    return br__optim_new(&sgd_kind, parameters, options);
}

br_optim *br_sgd(br_module *module, const br_sgd_options *options)
{
    return br__optim_for(&sgd_kind, module, options);
}
