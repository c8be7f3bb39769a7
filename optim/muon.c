/* optim/muon.c - Muon, Jordan et al., 2024: the update is the momentum matrix, approximately
 * orthogonalized by a few Newton-Schulz iterations.
 *
 * Follows torch.optim.Muon of PyTorch 2.15, except that the iteration runs in the parameter's
 * precision; PyTorch rounds to bfloat16. */
#include "optim/optim_internal.h"

#include <inttypes.h>
#include <math.h>

BR_DEFINE_DEFAULTS(br_muon)

enum { MOMENTUM_BUFFER };

static bool in_range(const br_muon_options *o)
{
    enum { MAX_STEPS = 100 };
    if (o->ns_steps < 0 || o->ns_steps >= MAX_STEPS)
        br_fail(BR_ERROR_ARGUMENT, "muon", "ns_steps is %" PRId64 ", must be in 0 .. %d",
                o->ns_steps, MAX_STEPS - 1);
    else if ((unsigned)o->adjust_lr > BR_MUON_SPECTRAL_UNCLAMPED)
        br_fail(BR_ERROR_ARGUMENT, "muon", "adjust_lr is %d, must be one of br_muon_adjust",
                (int)o->adjust_lr);
    return !br_failed();
}

static bool check(const void *options)
{
    const br_muon_options *o = options;
    return br__not_negative("muon", "momentum", o->momentum) &&
           br__not_negative("muon", "weight_decay", o->weight_decay) &&
           br__not_negative("muon", "eps", o->eps) && in_range(o);
}

static bool supports(const br_named_tensor *parameter)
{
    if (parameter->tensor->ndim == 2)
        return true;
    br_fail(BR_ERROR_SHAPE, "muon", "%s %s is not a matrix: optimize it with another optimizer",
            parameter->name, br__shape(parameter->tensor));
    return false;
}

/* ---- The direction --------------------------------------------------------------------------- */

/* Returns a + weight (b - a). */
static br_tensor *lerp(br_tensor *a, br_tensor *b, double weight)
{
    return br_add(a, br_mul_scalar(br_sub(b, a), weight));
}

/* Returns a x + (b G + c G G) x with G = x x^T, which moves every singular value of x toward 1. */
static br_tensor *newton_schulz(br_tensor *x, br_muon_coefficients k)
{
    br_tensor *gram = br_mm(x, br_t(x));
    br_tensor *more = br_add_(br_mul_scalar(br_mm(gram, gram), k.c), br_mul_scalar(gram, k.b));
    return br_add_(br_mm(more, x), br_mul_scalar(x, k.a));
}

static br_tensor *orthogonalized(br_tensor *update, const br_muon_options *o)
{
    bool tall = update->sizes[0] > update->sizes[1];
    br_tensor *x = tall ? br_t(update) : update;
    double norm = sqrt(br_item(br_sum(br_mul(x, x))));
    x = br_div_scalar(x, fmax(norm, o->eps)); /* now no singular value exceeds 1 */
    for (int64_t i = 0; i < o->ns_steps && x; i++)
        x = newton_schulz(x, o->ns_coefficients);
    return br_contiguous(tall ? br_t(x) : x);
}

static br_tensor *direction(const br_optim_work *work, const br_muon_options *o)
{
    br_scope *scope = br_no_grad_begin();
    br_tensor *update = lerp(work->state[MOMENTUM_BUFFER], work->grad, 1 - o->momentum);
    if (o->nesterov)
        update = lerp(work->grad, update, o->momentum);
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

static bool describe(br_optim_work *work, br_update *update)
{
    const br_muon_options *o = work->options;
    update->rule = BR_UPDATE_MUON;
    update->args.muon = (br_muon_args){ .keep = 1 - o->lr * o->weight_decay,
                                        .step_size = adjusted_lr(o, work->param),
                                        .weight = 1 - o->momentum };
    update->state[0] = work->state[MOMENTUM_BUFFER];
    update->state[1] = direction(work, o); /* belongs to the step's scope */
    return update->state[1] != NULL;
}

static const br_muon_options defaults = { br_muon_default_fields };

static const br_optim_option saved[] = {
    BR_OPTIM_OPTION(br_muon_options, weight_decay, BR_F64),
    BR_OPTIM_OPTION(br_muon_options, momentum, BR_F64),
    BR_OPTIM_OPTION(br_muon_options, nesterov, BR_BOOL),
    BR_OPTIM_OPTION(br_muon_options, ns_coefficients, BR_F64),
    BR_OPTIM_OPTION(br_muon_options, eps, BR_F64),
    BR_OPTIM_OPTION(br_muon_options, ns_steps, BR_I64),
    BR_OPTIM_OPTION(br_muon_options, adjust_lr, BR_I64),
    { 0 },
};

static const br_optim_kind muon_kind = {
    .name = "muon",
    .options_name = "br_muon",
    .defaults = &defaults,
    .check = check,
    .supports = supports,
    .momentum = offsetof(br_muon_options, momentum),
    .options = saved,
    .states = { { "momentum_buffer", NULL } },
    .describe = describe,
};

br_optim *br_muon_new(const br_named_list *parameters, const br_muon_options *options)
{
    return br_optim_new(&muon_kind, parameters, options);
}

br_optim *br_muon(br_module *module, const br_muon_options *options)
{
    return br_optim_for(&muon_kind, module, options);
}
