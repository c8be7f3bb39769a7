/* tests/optim/test_lbfgs.c - br_optim_step_closure(), and steps of L-BFGS as torch.optim.LBFGS
 * makes them (record_lbfgs.py). */
#include "tests/memory.h"
#include "tests/optim/lbfgs_values.h"

#include <brasa/optim.h>

TestSuite(lbfgs, .init = check_begin, .fini = check_end);

typedef struct problem {
    br_module base;
    br_tensor *a, *b; /* [3], [2, 2] */
    bool rosenbrock;
    const double *waves; /* frequency, weights of squares and fourth powers; NULL: another loss */
    double sign;         /* of the loss */
    br_optim *optim;
    int calls, fail_at; /* fail_at: this call fails; 0: none */
} problem;

static problem *problem_new(br_dtype dtype)
{
    problem *self = br_module_new(problem);
    br_scope *scope = br_scope_begin();
    br_tensor *start = br_cos(br_arange(0, 7, 1, dtype));
    self->a = br_parameter(self, "a", br_clone(br_narrow(start, 0, 0, 3)));
    self->b =
        br_parameter(self, "b", br_reshape(br_clone(br_narrow(start, 0, 3, 4)), BR_SHAPE(2, 2)));
    self->sign = 1;
    br_scope_end(scope);
    return self;
}

static void problem_free(problem *self)
{
    br_optim_free(self->optim);
    br_module_free(self);
}

static br_tensor *position(problem *p)
{
    return br_cat(2, (br_tensor *[]){ p->a, br_reshape(p->b, BR_SHAPE(-1)) }, 0);
}

static br_tensor *loss_at(problem *p, br_tensor *x)
{
    if (p->rosenbrock) {
        br_tensor *now = br_narrow(x, 0, 0, 6), *next = br_narrow(x, 0, 1, 6);
        br_tensor *valley = br_square(br_sub(next, br_square(now)));
        br_tensor *slope = br_square(br_sub_scalar(now, 1));
        return br_sum(br_add(br_mul_scalar(valley, 100), slope));
    }
    if (p->waves) {
        br_tensor *square = br_square(x), *y = br_sin(br_mul_scalar(x, p->waves[0]));
        y = br_add(y, br_mul_scalar(square, p->waves[1]));
        y = br_sum(br_add(y, br_mul_scalar(br_square(square), p->waves[2])));
        return br_add(y, br_sin(br_mul(br_select(x, 0, 0), br_select(x, 0, 1))));
    }
    br_tensor *weights = br_arange(1, 8, 1, br_dtype_of(x));
    br_tensor *squares = br_mul(weights, br_square(br_sub_scalar(x, 0.5)));
    return br_mul_scalar(br_sum(br_add(squares, br_square(br_square(x)))), p->sign);
}

static double compute_loss(void *context)
{
    problem *p = context;
    br_optim_zero_grad(p->optim);
    br_tensor *loss = loss_at(p, position(p));
    br_backward(loss);
    if (++p->calls == p->fail_at)
        br_raise(BR_ERROR_STATE, "the program's own error");
    return br_item(loss);
}

static double step(problem *p)
{
    br_scope *scope = br_scope_begin();
    const double loss = br_optim_step_closure(p->optim, compute_loss, p);
    br_scope_end(scope);
    return loss;
}

/* The sum of -x, and a cliff at the seventh call. */
static double compute_cliff(void *context)
{
    problem *p = context;
    const double sum = br_item(br_sum(position(p)));
    br_set_grad(p->a, br_neg(br_ones_like(p->a)));
    br_set_grad(p->b, br_neg(br_ones_like(p->b)));
    return ++p->calls < 7 ? -sum : 1e300;
}

/* ---- PyTorch's numbers ----------------------------------------------------------------------- */

#define LBFGS(...) BR_OPTIONS(br_lbfgs, __VA_ARGS__)
#define WOLFE(...) LBFGS(.line_search_fn = BR_LINE_SEARCH_STRONG_WOLFE, __VA_ARGS__)

static void check_steps(problem *p, const br_lbfgs_options *options, double tolerance,
                        const double want[LBFGS_STEPS][9])
{
    p->optim = br_lbfgs(br_base(p), options);
    for (int i = 0; i < LBFGS_STEPS; i++) {
        br_scope *scope = br_scope_begin();
        check_close(step(p), want[i][0], tolerance * (1 + fabs(want[i][0])));
        check_ok();
        br_tensor *x = position(p);
        for (int k = 0; k < 7; k++)
            check_close(br_at(x, BR_DIMS(k)), want[i][1 + k], tolerance);
        cr_assert_eq(p->calls, (int)want[i][8], "%d calls after step %d", p->calls, i);
        br_scope_end(scope);
    }
    problem_free(p);
}

static problem *powers(double sign)
{
    problem *p = problem_new(BR_F64);
    p->sign = sign;
    return p;
}

static problem *rosenbrock(void)
{
    problem *p = problem_new(BR_F64);
    p->rosenbrock = true;
    return p;
}

Test(lbfgs, equals_pytorch)
{
    check_steps(powers(1), LBFGS(.lr = 0.5), 1e-12, lbfgs_plain);
    check_steps(
        powers(1),
        LBFGS(.lr = 0.2, .max_iter = 4, .max_eval = 6, .history_size = 3, .tolerance_change = 1e-6),
        1e-12, lbfgs_options);
    check_steps(powers(1), LBFGS(.lr = 0.5, .tolerance_grad = 1e-2), 1e-12, lbfgs_tolerant);
    check_steps(rosenbrock(), LBFGS(.lr = 1e-3, .max_iter = 5, .tolerance_change = 1e-3), 1e-9,
                lbfgs_small);
    check_steps(powers(-1), LBFGS(.lr = 0.3, .max_iter = 5, .maximize = true), 1e-12,
                lbfgs_maximize);
}

Test(lbfgs, line_search_equals_pytorch)
{
    check_steps(rosenbrock(), WOLFE(.max_iter = 8), 1e-9, lbfgs_wolfe);
    check_steps(rosenbrock(), WOLFE(.max_iter = 6, .max_eval = 9, .history_size = 2), 1e-9,
                lbfgs_wolfe_short);
    check_steps(rosenbrock(), WOLFE(.lr = 50, .max_iter = 5), 1e-9, lbfgs_wolfe_large);
    check_steps(rosenbrock(), WOLFE(.lr = 1e-3, .max_iter = 5), 1e-9, lbfgs_wolfe_small);
}

/* The last number is the factor of the first position. */
static problem *waves(const double *numbers)
{
    problem *p = problem_new(BR_F64);
    p->waves = numbers;
    br_scope *scope = br_no_grad_begin();
    br_mul_scalar_(p->a, numbers[3]);
    br_mul_scalar_(p->b, numbers[3]);
    br_scope_end(scope);
    return p;
}

/* The second trial rises; two trials are close to an end; the slope changes at the higher end. */
Test(lbfgs, line_search_among_waves_equals_pytorch)
{
    check_steps(waves((double[]){ 9, 0.1, 0.01, 3 }), WOLFE(.lr = 2, .max_iter = 3), 1e-9,
                lbfgs_waves_rise);
    check_steps(waves((double[]){ 2, 1, 0.01, 2 }), WOLFE(.lr = 5, .max_iter = 3), 1e-9,
                lbfgs_waves_close);
    check_steps(waves((double[]){ 2, 0.3, 0, 2 }), WOLFE(.lr = 5, .max_iter = 3), 1e-9,
                lbfgs_waves_slope);
}

/* PyTorch searches from the start with 6 calls, none of which rises, and returns to the start if
 * the last point is worse. */
Test(lbfgs, a_search_that_ends_on_a_cliff_changes_nothing)
{
    problem *p = problem_new(BR_F64);
    p->optim = br_lbfgs(br_base(p), WOLFE(.max_iter = 1, .max_eval = 6));
    br_scope *scope = br_scope_begin();
    br_tensor *before = br_clone(br_detach(position(p)));
    check_close(br_optim_step_closure(p->optim, compute_cliff, p), -0.7243518239705322, 1e-15);
    cr_expect_eq(p->calls, 7);
    cr_expect(br_equal(position(p), before));
    br_scope_end(scope);
    check_ok();
    problem_free(p);
}

Test(lbfgs, finds_the_minimum_in_f32)
{
    problem *p = problem_new(BR_F32);
    p->rosenbrock = true;
    p->optim = br_lbfgs(br_base(p), WOLFE(.max_iter = 100));
    for (int i = 0; i < 3; i++)
        step(p);
    br_scope *scope = br_scope_begin();
    cr_assert(br_allclose(position(p), br_ones(BR_SHAPE(7), BR_F32), 1e-3, 0));
    br_scope_end(scope);
    check_ok();
    problem_free(p);
}

static double loss_of_a(void *context)
{
    problem *p = context;
    br_optim_zero_grad(p->optim);
    br_tensor *loss = br_sum(br_square(br_sub_scalar(p->a, 2)));
    br_backward(loss);
    return br_item(loss);
}

/* A parameter that the loss does not use has the gradient 0. */
Test(lbfgs, parameters_without_gradients_stay)
{
    problem *p = powers(1);
    p->optim = br_lbfgs(br_base(p), NULL);
    br_scope *scope = br_scope_begin();
    br_tensor *b = br_clone(br_detach(p->b));
    br_optim_step_closure(p->optim, loss_of_a, p);
    check_ok();
    cr_assert(br_allclose(p->a, br_full(BR_SHAPE(3), 2, BR_F64), 0, 1e-12));
    cr_assert(br_equal(p->b, b));
    br_scope_end(scope);
    problem_free(p);
}

/* ---- State ----------------------------------------------------------------------------------- */

/* A new optimizer with the state goes on with the same bits. */
Test(lbfgs, state_is_saved)
{
    const br_lbfgs_options *options = WOLFE(.max_iter = 3, .history_size = 4);
    problem *p = rosenbrock(), *q = rosenbrock();
    p->optim = br_lbfgs(br_base(p), options);
    q->optim = br_lbfgs(br_base(q), NULL);
    br_scope *scope = br_scope_begin();
    for (int i = 0; i < 2; i++)
        step(p);
    br_named_list *state = br_optim_state_dict(p->optim);
    cr_assert_eq(br_size(br_named_list_get(state, "a.old_dirs"), 0), 4);
    cr_assert(br_optim_load_state_dict(q->optim, state), "%s", br_error_message());
    br_named_list_free(state);
    br_copy_(br_detach(q->a), p->a);
    br_copy_(br_detach(q->b), p->b);
    for (int i = 0; i < 3; i++)
        cr_assert_eq(step(p), step(q));
    cr_assert(br_equal(position(p), position(q)));
    br_scope_end(scope);
    check_ok();
    problem_free(p);
    problem_free(q);
}

Test(lbfgs, a_state_of_other_sizes_is_an_error)
{
    problem *p = rosenbrock();
    p->optim = br_lbfgs(br_base(p), LBFGS(.max_iter = 2, .history_size = 4));
    step(p);
    br_optim_set_group_options(p->optim, 0, LBFGS(.history_size = 5));
    check_ok();
    check_fails(isnan(step(p)) ? NULL : p,
                "lbfgs: the state old_dirs is [4, 7] f64, but parameters and history_size need "
                "[5, 7] f64: create a new optimizer");
    problem_free(p);
}

/* ---- Closures and errors --------------------------------------------------------------------- */

Test(lbfgs, other_optimizers_compute_the_loss_once)
{
    problem *p = powers(1), *q = powers(1);
    p->optim = br_sgd(br_base(p), NULL);
    q->optim = br_sgd(br_base(q), NULL);
    br_scope *scope = br_no_grad_begin(); /* the closure records nevertheless */
    const double loss = step(p);
    br_scope_end(scope);
    scope = br_scope_begin();
    cr_assert_eq(compute_loss(q), loss);
    br_optim_step(q->optim);
    cr_assert(br_equal(position(p), position(q)));
    cr_assert_eq(p->calls, 1);
    br_scope_end(scope);
    check_ok();
    problem_free(p);
    problem_free(q);
}

Test(lbfgs, errors_of_closures)
{
    problem *p = rosenbrock();
    p->optim = br_lbfgs(br_base(p), WOLFE(.max_iter = 5));
    for (p->fail_at = 1; p->fail_at <= 4; p->fail_at++) {
        p->calls = 0;
        const double loss = step(p);
        cr_assert(isnan(loss), "call %d", p->fail_at);
        cr_assert(strstr(br_error_message(), "the program's own error"));
        br_clear_error();
    }
    p->fail_at = 0;
    cr_assert(isfinite(step(p)), "%s", br_error_message());
    check_fails(isnan(br_optim_step_closure(p->optim, NULL, NULL)) ? NULL : p,
                "optim_step_closure: closure is NULL, but it is required");
    check_fails(isnan(br_optim_step_closure(NULL, compute_loss, p)) ? NULL : p, "optim is NULL");
    check_fails(br_optim_step(p->optim),
                "lbfgs computes the loss several times in a step: call br_optim_step_closure()");
    problem_free(p);
}

Test(lbfgs, options_and_groups_are_checked)
{
    check_fails(br_lbfgs_new(NULL, LBFGS(.history_size = 0)),
                "lbfgs: history_size is 0, must be at least 1");
    check_fails(br_lbfgs_new(NULL, LBFGS(.line_search_fn = (br_line_search)2)),
                "lbfgs: line_search_fn is 2, must be one of br_line_search");
    br_linear *linear = br_linear_new(2, 2, true);
    br_optim *optim = br_lbfgs(br_base(linear), NULL);
    br_named_list *none = br_parameters(br_base(linear));
    check_fails(br_optim_set_half_update(optim, BR_HALF_MASTER),
                "lbfgs rounds to the nearest only: use BR_HALF_NEAREST");
    cr_assert_eq(br_optim_add_group(optim, none, NULL), -1);
    cr_assert(strstr(br_error_message(), "lbfgs: the optimizer has a group already"));
    br_clear_error();
    br_named_list_free(none);
    br_optim_free(optim);
    br_module_free(linear);
}

static bool task(void)
{
    problem *p = rosenbrock();
    p->optim = br_lbfgs(br_base(p), WOLFE(.max_iter = 3, .history_size = 2));
    const bool ok = !br_failed() && isfinite(step(p));
    problem_free(p);
    return ok;
}

Test(lbfgs, allocations_fail)
{
    fail_in_turn(task, "optim_step_closure");
}
