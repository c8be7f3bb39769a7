/* optim/muon.c - Muon, Jordan et al., 2024: the momentum of a matrix, brought near to the closest
 * orthogonal matrix by a few steps of Newton and Schulz's iteration, is its direction.
 *
 * As torch.optim.Muon of PyTorch 2.15, but that the iteration runs in the parameter's precision
 * where PyTorch rounds to bfloat16. */
#include "optim/optim_internal.h"

#include <inttypes.h>
#include <math.h>

enum { MOMENTUM_BUFFER };

static const double default_coefficients[3] = { 3.4445, -4.7750, 2.0315 };

static bool in_range(const br_muon_options *o)
{
    enum { MOST_STEPS = 100 };
    if (o->ns_steps < 1 || o->ns_steps >= MOST_STEPS)
        br__fail(BR_ERROR_ARGUMENT, "muon", "ns_steps is %" PRId64 ", must be in 1 .. %d",
                 o->ns_steps, MOST_STEPS - 1);
    else if ((unsigned)o->adjust_lr > BR_MUON_SPECTRAL_UNCLAMPED)
        br__fail(BR_ERROR_ARGUMENT, "muon", "adjust_lr is %d, must be one of br_muon_adjust",
                 (int)o->adjust_lr);
    return !br_failed();
}

static bool resolve(br_optim_options *options, const void *given)
{
    br_muon_options *o = &options->muon;
    *o = given ? *(const br_muon_options *)given : (br_muon_options){ .weight_decay = 0.1 };
    o->lr = o->lr == 0 ? 1e-3 : o->lr;
    o->momentum = o->momentum == 0 ? 0.95 : o->momentum;
    o->eps = o->eps == 0 ? 1e-7 : o->eps;
    o->ns_steps = o->ns_steps == 0 ? 5 : o->ns_steps;
    bool given_any = false;
    for (int i = 0; i < 3; i++)
        given_any |= o->ns_coefficients[i] != 0;
    for (int i = 0; i < 3 && !given_any; i++)
        o->ns_coefficients[i] = default_coefficients[i];
    return br__not_negative("muon", "lr", o->lr) &&
           br__not_negative("muon", "momentum", o->momentum) &&
           br__not_negative("muon", "weight_decay", o->weight_decay) &&
           br__not_negative("muon", "eps", o->eps) && in_range(o);
}

static bool has_state(const br_optim_options *options, int i)
{
    (void)options;
    (void)i;
    return true;
}

static double *momentum(br_optim_options *options)
{
    return &options->muon.momentum;
}

static bool takes(const br_named_tensor *parameter)
{
    if (parameter->tensor->ndim == 2)
        return true;
    br__fail(BR_ERROR_SHAPE, "muon", "%s %s is no matrix: optimize it with another optimizer",
             parameter->name, br__shape(parameter->tensor));
    return false;
}

/* ---- The direction --------------------------------------------------------------------------- */

/* a + weight (b - a) */
static br_tensor *lerp(br_tensor *a, br_tensor *b, double weight)
{
    return br_add(a, br_mul_scalar(br_sub(b, a), weight));
}

/* x' = a x + (b G + c G G) x with G = x x^T, which brings every singular value near to 1. */
static br_tensor *newton_schulz(br_tensor *x, const double *coefficients)
{
    br_tensor *gram = br_mm(x, br_t(x));
    br_tensor *more = br_add_(br_mul_scalar(br_mm(gram, gram), coefficients[2]),
                              br_mul_scalar(gram, coefficients[1]));
    return br_add_(br_mm(more, x), br_mul_scalar(x, coefficients[0]));
}

static br_tensor *orthogonalized(br_tensor *update, const br_muon_options *o)
{
    bool tall = update->sizes[0] > update->sizes[1];
    br_tensor *x = tall ? br_t(update) : update;
    double norm = sqrt(br_item(br_sum(br_mul(x, x))));
    x = br_div_scalar(x, fmax(norm, o->eps)); /* no singular value is above 1 */
    for (int64_t i = 0; i < o->ns_steps && x; i++)
        x = newton_schulz(x, o->ns_coefficients);
    return br_contiguous(tall ? br_t(x) : x);
}

static br_tensor *direction(const br_job *job, const br_muon_options *o)
{
    br_scope *scope = br_no_grad_begin();
    br_tensor *update = lerp(job->slot->state[MOMENTUM_BUFFER], job->grad, 1 - o->momentum);
    if (!o->no_nesterov)
        update = lerp(job->grad, update, o->momentum);
    br_tensor *result = update ? br_scope_return(scope, orthogonalized(update, o)) : NULL;
    br_scope_end(scope);
    return result;
}

/* ---- The step -------------------------------------------------------------------------------- */

static double adjusted_lr(const br_muon_options *o, const br_tensor *p)
{
    double rows = (double)p->sizes[0], columns = (double)p->sizes[1];
    if (p->numel == 0)
        return 0;
    if (o->adjust_lr == BR_MUON_MATCH_RMS_ADAMW)
        return o->lr * 0.2 * sqrt(fmax(rows, columns));
    double ratio = rows / columns;
    return o->lr * sqrt(o->adjust_lr == BR_MUON_ORIGINAL ? fmax(1, ratio) : ratio);
}

static bool prepare(br_job *job, const br_optim_options *options)
{
    const br_muon_options *o = &options->muon;
    job->direction = direction(job, o);
    job->args.muon = (br_muon_args){ .keep = 1 - o->lr * o->weight_decay,
                                     .step_size = adjusted_lr(o, job->param),
                                     .weight = 1 - o->momentum };
    return job->direction != NULL;
}

static void update(const br_job *job, int64_t from, int64_t count)
{
    job->kernels->muon(count, br__element(job->param, from), br__element(job->grad, from),
                       br__element(job->direction, from),
                       br__element(job->slot->state[MOMENTUM_BUFFER], from), &job->args.muon);
}

static const br_optim_kind muon_kind = { .name = "muon",
                                         .resolve = resolve,
                                         .n_states = 1,
                                         .state_names = { "momentum_buffer" },
                                         .has_state = has_state,
                                         .is_counter = br__no_counter,
                                         .momentum = momentum,
                                         .takes = takes,
                                         .prepare = prepare,
                                         .update = update,
                                         .finish = br__nothing_to_finish };

br_optim *br_muon_new(const br_named_list *parameters, const br_muon_options *options)
{
    return br__optim_new(&muon_kind, parameters, options);
}

br_optim *br_muon(br_module *module, const br_muon_options *options)
{
    return br__optim_for(&muon_kind, module, options);
}
