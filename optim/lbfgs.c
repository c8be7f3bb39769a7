/* optim/lbfgs.c - L-BFGS (Liu and Nocedal, 1989) as torch.optim.LBFGS. A step computes the loss
 * several times.
 *
 * Gradients, directions and positions are vectors: all parameters, one after another. The state,
 * which is that of the first parameter, has vectors, too. */
#include "optim/lbfgs.h"

#include <math.h>

BR_DEFINE_DEFAULTS(br_lbfgs)

static bool check(const void *options)
{
    const char *op = "lbfgs";
    const br_lbfgs_options *o = options;
    if (o->history_size < 1)
        br_fail(BR_ERROR_ARGUMENT, op, "history_size is %lld, must be at least 1",
                (long long)o->history_size);
    else if (o->line_search_fn != BR_LINE_SEARCH_NONE &&
             o->line_search_fn != BR_LINE_SEARCH_STRONG_WOLFE)
        br_fail(BR_ERROR_ARGUMENT, op, "line_search_fn is %d, must be one of br_line_search",
                (int)o->line_search_fn);
    return !br_failed();
}

/* ---- State ----------------------------------------------------------------------------------- */

/* The state is created by the first step, when the number of elements is known. */
static br_tensor *make_later(br_tensor *param, const void *options)
{
    (void)param, (void)options;
    return NULL;
}

/* Creates state i with zeros, or checks the one that exists, which may have been loaded. */
static bool prepare(lbfgs *s, int i, int ndim, const int64_t *sizes, br_dtype dtype)
{
    br_tensor **state = &s->optim->slots[0].state[i], *like = s->grad;
    if (!*state)
        *state = br_retain(br_new_zeros(like, ndim, sizes, dtype));
    br_tensor *t = *state;
    if (!t || (t->dtype == dtype && t->ndim == ndim &&
               memcmp(t->sizes, sizes, (size_t)ndim * sizeof *sizes) == 0))
        return t != NULL;
    br_fail(BR_ERROR_SHAPE, "lbfgs",
            "the state %s is %s %s, but parameters and history_size need %s %s: create a new "
            "optimizer",
            s->optim->states[i].name, br__shape(t), br_dtype_name(t->dtype),
            br__shape_of(ndim, sizes), br_dtype_name(dtype));
    return false;
}

static bool prepare_state(lbfgs *s)
{
    const int64_t n = s->grad->numel, history = s->options->history_size;
    const br_dtype dtype = s->grad->dtype;
    br_tensor *const *state = s->optim->slots[0].state;
    const bool ok = prepare(s, D, BR_SHAPE(n), dtype) &&
                    prepare(s, PREV_GRAD, BR_SHAPE(n), dtype) &&
                    prepare(s, OLD_DIRS, BR_SHAPE(history, n), dtype) &&
                    prepare(s, OLD_STPS, BR_SHAPE(history, n), dtype) &&
                    prepare(s, SEARCH, BR_SHAPE(RO + history), BR_F64);
    s->numbers = ok ? br_malloc((size_t)(RO + 2 * history) * sizeof *s->numbers) : NULL;
    return s->numbers &&
           br_copy_out(state[SEARCH], s->numbers, (size_t)(RO + history) * sizeof *s->numbers);
}

static void store_numbers(const lbfgs *s)
{
    br_copy_(s->optim->slots[0].state[SEARCH],
             br_from_data(BR_SHAPE(RO + s->options->history_size), BR_F64, s->numbers));
}

/* ---- Directions ------------------------------------------------------------------------------ */

/* Returns the row of the history of the i-th oldest step. */
static int64_t row_of(const lbfgs *s, int64_t i)
{
    return ((int64_t)s->numbers[FIRST] + i) % s->options->history_size;
}

/* Adds the last change of the gradient and of the position to the history, in the place of the
 * oldest ones if it is full. */
static void remember(const lbfgs *s)
{
    br_tensor *const *state = s->optim->slots[0].state;
    double *numbers = s->numbers;
    br_tensor *y = br_sub(s->grad, state[PREV_GRAD]);
    br_tensor *step = br_mul_scalar(state[D], numbers[T]);
    const double product = br__lbfgs_dot(y, step);
    if (!(product > 1e-10))
        return;
    const bool full = numbers[COUNT] == (double)s->options->history_size;
    const int64_t row = row_of(s, full ? 0 : (int64_t)numbers[COUNT]);
    br_copy_(br_select(state[OLD_DIRS], 0, row), y);
    br_copy_(br_select(state[OLD_STPS], 0, row), step);
    numbers[RO + row] = 1 / product;
    numbers[H_DIAG] = product / br__lbfgs_dot(y, y);
    if (full)
        numbers[FIRST] = (double)row_of(s, 1);
    else
        numbers[COUNT]++;
}

/* Returns the negative gradient times the approximate inverse Hessian, by the two loops over the
 * history of Nocedal, 1980. */
static br_tensor *direction(const lbfgs *s)
{
    br_tensor *const *state = s->optim->slots[0].state;
    const double *ro = s->numbers + RO;
    double *al = s->numbers + RO + s->options->history_size;
    const int64_t count = (int64_t)s->numbers[COUNT];
    br_tensor *q = br_neg(s->grad);
    for (int64_t i = count - 1; i >= 0 && !br_failed(); i--) {
        const int64_t row = row_of(s, i);
        al[i] = br__lbfgs_dot(br_select(state[OLD_STPS], 0, row), q) * ro[row];
        br_sub_(q, br_mul_scalar(br_select(state[OLD_DIRS], 0, row), al[i]));
    }
    br_mul_scalar_(q, s->numbers[H_DIAG]);
    for (int64_t i = 0; i < count && !br_failed(); i++) {
        const int64_t row = row_of(s, i);
        const double be = br__lbfgs_dot(br_select(state[OLD_DIRS], 0, row), q) * ro[row];
        br_add_(q, br_mul_scalar(br_select(state[OLD_STPS], 0, row), al[i] - be));
    }
    return q;
}

/* ---- The step -------------------------------------------------------------------------------- */

static double largest(br_tensor *v)
{
    return br_item(br_max(br_abs(v)));
}

/* Moves along the direction of the state. Returns false if the gradient is not computed at the new
 * position, since it is the last of the step. */
static bool advance(lbfgs *s, double slope, bool is_last, int64_t most_evaluations)
{
    br_tensor *d = s->optim->slots[0].state[D], *from = br__lbfgs_gather(s, false), *grad = NULL;
    double *t = &s->numbers[T];
    if (s->options->line_search_fn == BR_LINE_SEARCH_STRONG_WOLFE) {
        const line_point start = { .loss = s->loss, .slope = slope, .grad = s->grad };
        const line_point end =
            br__strong_wolfe(s, from, d, &start, *t, most_evaluations - s->evaluations);
        *t = end.t;
        s->loss = end.loss;
        grad = end.grad;
        br__lbfgs_move(s, from, d, *t);
    } else {
        br__lbfgs_move(s, from, d, *t);
        if (is_last)
            return false;
        s->loss = br__lbfgs_evaluate(s, &grad);
    }
    br_copy_(s->grad, grad);
    return !br_failed();
}

/* One iteration. Returns false if it was the last one. */
static bool iterate(lbfgs *s, bool is_last, int64_t most_evaluations)
{
    const br_lbfgs_options *o = s->options;
    br_tensor *const *state = s->optim->slots[0].state;
    double *numbers = s->numbers;
    const double loss_before = s->loss;
    const bool is_first = ++numbers[N_ITER] == 1;
    if (is_first)
        numbers[H_DIAG] = 1;
    else
        remember(s);
    br_copy_(state[D], direction(s));
    br_copy_(state[PREV_GRAD], s->grad);
    numbers[T] = is_first ? fmin(1, 1 / br_item(br_sum(br_abs(s->grad)))) * o->lr : o->lr;
    const double slope = br__lbfgs_dot(s->grad, state[D]);
    if (br_failed() || slope > -o->tolerance_change)
        return false;
    if (!advance(s, slope, is_last, most_evaluations))
        return false;
    return !is_last && s->evaluations < most_evaluations && largest(s->grad) > o->tolerance_grad &&
           largest(state[D]) * fabs(numbers[T]) > o->tolerance_change &&
           !(fabs(s->loss - loss_before) < o->tolerance_change) && !br_failed();
}

static void run_iterations(lbfgs *s)
{
    const int64_t most = s->options->max_iter;
    const int64_t evaluations =
        s->options->max_eval == BR_NONE ? most * 5 / 4 : s->options->max_eval;
    bool goes_on = largest(s->grad) > s->options->tolerance_grad && prepare_state(s);
    for (int64_t i = 1; goes_on && i <= most; i++) {
        br_scope *scope = br_scope_begin();
        goes_on = iterate(s, i == most, evaluations) && scope;
        br_scope_end(scope);
    }
}

static double minimize(br_optim *optim, br_closure closure, void *context)
{
    br_scope *scope = br_no_grad_begin();
    lbfgs s = { .optim = optim,
                .options = optim->groups[0].options,
                .closure = closure,
                .context = context,
                .parts = br_malloc((size_t)optim->n_slots * sizeof *s.parts) };
    const double first_loss = s.parts ? br__lbfgs_evaluate(&s, &s.grad) : NAN;
    s.loss = first_loss;
    if (s.grad)
        run_iterations(&s);
    if (s.numbers && !br_failed()) {
        s.numbers[FUNC_EVALS] += (double)s.evaluations;
        store_numbers(&s);
        optim->slots[0].stepped = true;
    }
    for (int64_t i = 0; i < optim->n_slots; i++)
        optim->slots[i].version = br_tensor_version(optim->slots[i].param);
    br_free(s.numbers);
    br_free(s.parts);
    br_scope_end(scope);
    return s.options->maximize ? -first_loss : first_loss;
}

static const br_lbfgs_options defaults = { br_lbfgs_default_fields };

static const br_optim_option saved[] = {
    BR_OPTIM_OPTION(br_lbfgs_options, max_iter, BR_I64),
    BR_OPTIM_OPTION(br_lbfgs_options, max_eval, BR_I64),
    BR_OPTIM_OPTION(br_lbfgs_options, tolerance_grad, BR_F64),
    BR_OPTIM_OPTION(br_lbfgs_options, tolerance_change, BR_F64),
    BR_OPTIM_OPTION(br_lbfgs_options, history_size, BR_I64),
    BR_OPTIM_OPTION(br_lbfgs_options, line_search_fn, BR_I64),
    BR_OPTIM_OPTION(br_lbfgs_options, maximize, BR_BOOL),
    { 0 },
};

static const br_optim_kind lbfgs_kind = {
    .name = "lbfgs",
    .options_name = "br_lbfgs",
    .defaults = &defaults,
    .check = check,
    .options = saved,
    .states = { [D] = { "d", make_later },
                [PREV_GRAD] = { "prev_flat_grad", make_later },
                [OLD_DIRS] = { "old_dirs", make_later },
                [OLD_STPS] = { "old_stps", make_later },
                [SEARCH] = { "search", make_later } },
    .minimize = minimize,
};

br_optim *br_lbfgs_new(const br_named_list *parameters, const br_lbfgs_options *options)
{
    return br_optim_new(&lbfgs_kind, parameters, options);
}

br_optim *br_lbfgs(br_module *module, const br_lbfgs_options *options)
{
    return br_optim_for(&lbfgs_kind, module, options);
}
