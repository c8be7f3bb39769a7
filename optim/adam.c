/* optim/adam.c - Adam, Kingma and Ba, 2015 (arXiv 1412.6980, algorithm 1), as PyTorch places eps
 * and weight decay: the decay is added to the gradient, eps to the corrected root. */
#include "optim/optim_internal.h"

#include <math.h>

enum { EXP_AVG, EXP_AVG_SQ, STEP };

static bool in_unit(const char *name, double beta)
{
    if (!(beta >= 0 && beta < 1))
        br__fail(BR_ERROR_ARGUMENT, "adam", "%s is %g, must be in 0 .. 1, without 1", name, beta);
    return !br_failed();
}

static bool resolve(br_optim_options *options, const void *given)
{
    br_adam_options *o = &options->adam;
    *o = given ? *(const br_adam_options *)given : (br_adam_options){ 0 };
    o->lr = o->lr == 0 ? 1e-3 : o->lr;
    o->beta1 = o->beta1 == 0 ? 0.9 : o->beta1;
    o->beta2 = o->beta2 == 0 ? 0.999 : o->beta2;
    o->eps = o->eps == 0 ? 1e-8 : o->eps;
    return br__not_negative("adam", "lr", o->lr) && in_unit("beta1", o->beta1) &&
           in_unit("beta2", o->beta2) && br__not_negative("adam", "eps", o->eps) &&
           br__not_negative("adam", "weight_decay", o->weight_decay);
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

static int64_t *steps(const br_slot *slot)
{
    return br__element(slot->state[STEP], 0);
}

static void prepare(br_job *job, const br_optim_options *options)
{
    const br_adam_options *o = &options->adam;
    double t = (double)(*steps(job->slot) + 1);
    job->args.adam = (br_adam_args){ .beta1 = o->beta1,
                                     .beta2 = o->beta2,
                                     .eps = o->eps,
                                     .weight_decay = o->weight_decay,
                                     .step_size = o->lr / (1 - pow(o->beta1, t)),
                                     .root = sqrt(1 - pow(o->beta2, t)) };
}

static void update(const br_job *job, int64_t from, int64_t count)
{
    job->kernels->adam(count, br__element(job->param, from), br__element(job->grad, from),
                       br__element(job->slot->state[EXP_AVG], from),
                       br__element(job->slot->state[EXP_AVG_SQ], from), &job->args.adam);
}

static void finish(br_job *job)
{
    ++*steps(job->slot);
}

const br_optim_kind br__adam_kind = { .name = "adam",
                                      .resolve = resolve,
                                      .n_states = 3,
                                      .state_names = { "exp_avg", "exp_avg_sq", "step" },
                                      .has_state = has_state,
                                      .is_counter = is_counter,
                                      .prepare = prepare,
                                      .update = update,
                                      .finish = finish };

br_optim *br_adam_new(const br_named_list *parameters, const br_adam_options *options)
{
    return br__optim_new(&br__adam_kind, parameters, options);
}

br_optim *br_adam(br_module *module, const br_adam_options *options)
{
    return br__optim_for(&br__adam_kind, module, options);
}
