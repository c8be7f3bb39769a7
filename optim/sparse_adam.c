/* optim/sparse_adam.c - Adam for the rows of an embedding that were looked up, as
 * torch.optim.SparseAdam. A gradient of PyTorch is sparse there, and lists the rows; here, the rows
 * are those whose gradient is not all zeros. */
#include "optim/optim_internal.h"

#include <math.h>

BR_DEFINE_DEFAULTS(br_sparse_adam)

enum { STEP, EXP_AVG, EXP_AVG_SQ };

static bool check(const void *options)
{
    const char *op = "sparse_adam";
    const br_sparse_adam_options *o = options;
    if (!(o->lr > 0))
        return br_fail(BR_ERROR_ARGUMENT, op, "lr is %g, must be above 0", o->lr);
    if (!(o->eps > 0))
        return br_fail(BR_ERROR_ARGUMENT, op, "eps is %g, must be above 0", o->eps);
    return br__good_adam(op, o->beta1, o->beta2, o->eps, 0);
}

/* Returns t [rows, ...], which is not empty, as [rows, elements of a row]; a scalar is one row. */
static br_tensor *as_rows(br_tensor *t)
{
    return br_reshape(t, BR_SHAPE(t->ndim == 0 ? 1 : t->sizes[0], -1));
}

/* Moves rows of an average [rows, n] towards those of the step, and returns the new rows. */
static br_tensor *move_average(br_tensor *average, br_tensor *rows, br_tensor *to, double beta)
{
    br_tensor *now = br_lerp_scalar(br_index_select(average, 0, rows), to, 1 - beta);
    br_index_copy_(average, 0, rows, now);
    return now;
}

/* Changes the rows in place, since a copy of a whole embedding would cost more than the rest. */
static bool step(br_optim_work *work)
{
    const br_sparse_adam_options *o = work->options;
    const double t = (double)*br__host_counter(work->state[STEP]) + 1;
    const double step_size = o->lr * sqrt(1 - pow(o->beta2, t)) / (1 - pow(o->beta1, t));
    if (work->grad->numel == 0)
        return true;
    br_tensor *grad = as_rows(work->grad), *param = as_rows(work->param);
    br_tensor *found = br_nonzero(br_any_dim(grad, BR_DIMS(1), false));
    if (!found || found->numel == 0)
        return !br_failed();
    br_tensor *rows = br_squeeze(found, 1), *g = br_index_select(grad, 0, rows);
    if (o->maximize)
        g = br_neg(g);
    br_tensor *mean = move_average(as_rows(work->state[EXP_AVG]), rows, g, o->beta1);
    br_tensor *square =
        move_average(as_rows(work->state[EXP_AVG_SQ]), rows, br_mul(g, g), o->beta2);
    br_tensor *change = br_div(mean, br_add_scalar(br_sqrt(square), o->eps));
    br_index_add_(param, 0, rows, change, -step_size);
    return !br_failed();
}

static void finish(br_optim_work *work)
{
    ++*br__host_counter(work->state[STEP]);
}

static const br_sparse_adam_options defaults = { br_sparse_adam_default_fields };

static const br_optim_option saved[] = {
    BR_OPTIM_OPTION(br_sparse_adam_options, beta1, BR_F64),
    BR_OPTIM_OPTION(br_sparse_adam_options, beta2, BR_F64),
    BR_OPTIM_OPTION(br_sparse_adam_options, eps, BR_F64),
    BR_OPTIM_OPTION(br_sparse_adam_options, maximize, BR_BOOL),
    { 0 },
};

static const br_optim_kind sparse_adam_kind = {
    .name = "sparse_adam",
    .options_name = "br_sparse_adam",
    .defaults = &defaults,
    .check = check,
    .momentum = offsetof(br_sparse_adam_options, beta1),
    .options = saved,
    .states = { { "step", br_optim_counter }, { "exp_avg", NULL }, { "exp_avg_sq", NULL } },
    .step = step,
    .finish = finish,
};

br_optim *br_sparse_adam_new(const br_named_list *parameters, const br_sparse_adam_options *options)
{
    return br_optim_new(&sparse_adam_kind, parameters, options);
}

br_optim *br_sparse_adam(br_module *module, const br_sparse_adam_options *options)
{
    return br_optim_for(&sparse_adam_kind, module, options);
}
