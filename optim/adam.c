/* optim/adam.c - Adam, Kingma and Ba, 2015 (arXiv 1412.6980, algorithm 1), as PyTorch places eps
 * and weight decay: the decay is added to the gradient, eps to the corrected root. AdamW,
 * Loshchilov and Hutter, 2019 (arXiv 1711.05101), shrinks the parameter instead. amsgrad: Reddi,
 * Kale and Kumar, 2018. */
#include "optim/optim_internal.h"

#include <math.h>

enum { EXP_AVG, EXP_AVG_SQ, STEP, MAX_EXP_AVG_SQ };

static bool resolve_for(const char *op, br_optim_options *options, const void *given,
                        double default_decay)
{
    br_adam_options *o = &options->adam;
    *o = given ? *(const br_adam_options *)given
               : (br_adam_options){ .weight_decay = default_decay };
    o->lr = o->lr == 0 ? 1e-3 : o->lr;
    o->beta1 = o->beta1 == 0 ? 0.9 : o->beta1;
    o->beta2 = o->beta2 == 0 ? 0.999 : o->beta2;
    o->eps = o->eps == 0 ? 1e-8 : o->eps;
    return br__not_negative(op, "lr", o->lr) && br__in_unit(op, "beta1", o->beta1) &&
           br__in_unit(op, "beta2", o->beta2) && br__not_negative(op, "eps", o->eps) &&
           br__not_negative(op, "weight_decay", o->weight_decay);
}

static bool resolve_adam(br_optim_options *options, const void *given)
{
    return resolve_for("adam", options, given, 0);
}

static bool resolve_adamw(br_optim_options *options, const void *given)
{
    return resolve_for("adamw", options, given, 1e-2);
}

static bool has_state(const br_optim_options *options, int i)
{
    return i != MAX_EXP_AVG_SQ || options->adam.amsgrad;
}

static bool is_counter(int i)
{
    return i == STEP;
}

static double *momentum(br_optim_options *options)
{
    return &options->adam.beta1;
}

static int64_t *steps(const br_slot *slot)
{
    return br__element(slot->state[STEP], 0);
}

static bool prepare_adam(br_job *job, const br_optim_options *options)
{
    const br_adam_options *o = &options->adam;
    double t = (double)(*steps(job->slot) + 1);
    job->args.adam = (br_adam_args){ .beta1 = o->beta1,
                                     .beta2 = o->beta2,
                                     .eps = o->eps,
                                     .weight_decay = o->weight_decay,
                                     .keep = 1,
                                     .step_size = o->lr / (1 - pow(o->beta1, t)),
                                     .root = sqrt(1 - pow(o->beta2, t)),
                                     .maximize = o->maximize };
    return true;
}

static bool prepare_adamw(br_job *job, const br_optim_options *options)
{
    prepare_adam(job, options);
    job->args.adam.weight_decay = 0;
    job->args.adam.keep = 1 - options->adam.lr * options->adam.weight_decay;
    return true;
}

static void update(const br_job *job, int64_t from, int64_t count)
{
    br_tensor *const *state = job->slot->state;
    job->kernels->adam(count, br__element(job->param, from), br__element(job->grad, from),
                       br__element(state[EXP_AVG], from), br__element(state[EXP_AVG_SQ], from),
                       br__element(state[MAX_EXP_AVG_SQ], from), &job->args.adam);
}

static void finish(br_job *job)
{
    ++*steps(job->slot);
}

#define ADAM_STATE                                                                            \
    .n_states = 4, .state_names = { "exp_avg", "exp_avg_sq", "step", "max_exp_avg_sq" },      \
    .has_state = has_state, .is_counter = is_counter, .momentum = momentum, .update = update, \
    .finish = finish

static const br_optim_kind adam_kind = {
    .name = "adam", .resolve = resolve_adam, .prepare = prepare_adam, ADAM_STATE
};

static const br_optim_kind adamw_kind = {
    .name = "adamw", .resolve = resolve_adamw, .prepare = prepare_adamw, ADAM_STATE
};

br_optim *br_adam_new(const br_named_list *parameters, const br_adam_options *options)
{
    return br__optim_new(&adam_kind, parameters, options);
}

br_optim *br_adam(br_module *module, const br_adam_options *options)
{
    return br__optim_for(&adam_kind, module, options);
}

br_optim *br_adamw_new(const br_named_list *parameters, const br_adam_options *options)
{
    return br__optim_new(&adamw_kind, parameters, options);
}

br_optim *br_adamw(br_module *module, const br_adam_options *options)
{
    return br__optim_for(&adamw_kind, module, options);
}
