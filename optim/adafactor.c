/* optim/adafactor.c - Adafactor (Shazeer and Stern, 2018) as torch.optim.Adafactor: the squares of
 * a matrix's gradients are estimated by the means of its rows and columns, so that the state of a
 * matrix is two vectors. */
#include "optim/optim_internal.h"

#include <math.h>

BR_DEFINE_DEFAULTS(br_adafactor)

enum { STEP, ROW_VAR, COL_VAR, VARIANCE };

static bool check(const void *options)
{
    const char *op = "adafactor";
    const br_adafactor_options *o = options;
    if (!(o->beta2_decay <= 0))
        br_fail(BR_ERROR_ARGUMENT, op, "beta2_decay is %g, must be at most 0", o->beta2_decay);
    else if (!(o->d >= 1))
        br_fail(BR_ERROR_ARGUMENT, op, "d is %g, must be at least 1", o->d);
    return !br_failed() && (isnan(o->eps1) || br__not_negative(op, "eps1", o->eps1)) &&
           br__not_negative(op, "eps2", o->eps2) &&
           br__not_negative(op, "weight_decay", o->weight_decay);
}

/* ---- State ----------------------------------------------------------------------------------- */

/* Returns zeros of the parameter's shape, in which the dimension `dim` from the end has size 1. */
static br_tensor *make_mean(br_tensor *param, int dim)
{
    int64_t sizes[BR_MAX_DIMS];
    if (param->ndim < 2)
        return NULL;
    memcpy(sizes, param->sizes, (size_t)param->ndim * sizeof *sizes);
    sizes[param->ndim - dim] = 1;
    return br_new_zeros(param, param->ndim, sizes, param->dtype);
}

static br_tensor *make_row_var(br_tensor *param, const void *options)
{
    (void)options;
    return make_mean(param, 1);
}

static br_tensor *make_col_var(br_tensor *param, const void *options)
{
    (void)options;
    return make_mean(param, 2);
}

static br_tensor *make_variance(br_tensor *param, const void *options)
{
    (void)options;
    return param->ndim < 2 ? br_zeros_like(param) : NULL;
}

/* ---- The step -------------------------------------------------------------------------------- */

/* Returns the root of the mean of the squares of all elements. */
static double root_mean_square(br_tensor *x)
{
    return br_item(br_norm(x, 2)) / sqrt((double)br_numel(x));
}

static br_tensor *mean_of(br_tensor *x, int64_t dim)
{
    return br_mean_dim(x, BR_DIMS(dim), true);
}

/* Returns the new estimate of the squares, and stores the new state. `weight` is that of the
 * squares of this step, and `eps` the least mean of the rows. */
static br_tensor *estimate(br_optim_work *work, br_tensor *squares, double weight, double eps)
{
    if (work->param->ndim < 2)
        return work->new_state[VARIANCE] = br_lerp_scalar(work->state[VARIANCE], squares, weight);
    br_tensor *rows = br_lerp_scalar(work->state[ROW_VAR], mean_of(squares, -1), weight);
    br_tensor *columns = br_lerp_scalar(work->state[COL_VAR], mean_of(squares, -2), weight);
    work->new_state[ROW_VAR] = rows;
    work->new_state[COL_VAR] = columns;
    return br_div(br_mul(rows, columns), br_clamp(mean_of(rows, -2), eps, INFINITY));
}

static bool step(br_optim_work *work)
{
    const br_adafactor_options *o = work->options;
    const double t = (double)*br__host_counter(work->state[STEP]) + 1;
    const double eps1 =
        isnan(o->eps1) ? ldexp(1, 1 - br__dtypes[work->param->dtype].digits) : o->eps1;
    const double size = fmax(o->eps2, root_mean_square(work->param)) * fmin(o->lr, 1 / sqrt(t));
    br_tensor *g = o->maximize ? br_neg(work->grad) : work->grad;
    br_tensor *squares = estimate(work, br_mul(g, g), pow(t, o->beta2_decay), eps1);
    br_tensor *update = br_mul(g, br_rsqrt(br_clamp(squares, eps1 * eps1, INFINITY)));
    const double clipped = size / fmax(1, root_mean_square(update) / o->d);
    br_tensor *kept = br_mul_scalar(work->param, 1 - o->lr * o->weight_decay);
    work->new_param = br_sub(kept, br_mul_scalar(update, clipped));
    return !br_failed();
}

static void finish(br_optim_work *work)
{
    ++*br__host_counter(work->state[STEP]);
}

static const br_adafactor_options defaults = { br_adafactor_default_fields };

static const br_optim_option saved[] = {
    BR_OPTIM_OPTION(br_adafactor_options, beta2_decay, BR_F64),
    BR_OPTIM_OPTION(br_adafactor_options, eps1, BR_F64),
    BR_OPTIM_OPTION(br_adafactor_options, eps2, BR_F64),
    BR_OPTIM_OPTION(br_adafactor_options, d, BR_F64),
    BR_OPTIM_OPTION(br_adafactor_options, weight_decay, BR_F64),
    BR_OPTIM_OPTION(br_adafactor_options, maximize, BR_BOOL),
    { 0 },
};

static const br_optim_kind adafactor_kind = {
    .name = "adafactor",
    .options_name = "br_adafactor",
    .defaults = &defaults,
    .check = check,
    .options = saved,
    .states = { { "step", br_optim_counter },
                { "row_var", make_row_var },
                { "col_var", make_col_var },
                { "variance", make_variance } },
    .step = step,
    .finish = finish,
};

br_optim *br_adafactor_new(const br_named_list *parameters, const br_adafactor_options *options)
{
    return br_optim_new(&adafactor_kind, parameters, options);
}

br_optim *br_adafactor(br_module *module, const br_adafactor_options *options)
{
    return br_optim_for(&adafactor_kind, module, options);
}
