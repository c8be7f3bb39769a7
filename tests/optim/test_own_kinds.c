/* tests/optim/test_own_kinds.c - custom optimizers: they give the same values as the library's, and
 * work with groups, schedulers, clipping, state dicts and checkpoints. */
#include "tests/memory.h"

#include <brasa/io.h>
#include <brasa/optim.h>
#include <stddef.h>
#include <unistd.h>

TestSuite(own_kinds, .init = check_begin, .fini = check_end);

/* ---- Lion (Chen et al., 2023), with step() and with update() --------------------------------- */

typedef struct lion_options {
    size_t struct_size;
    double lr;
    double beta1, beta2, weight_decay;
} lion_options;
#define lion_default_fields \
    .struct_size = sizeof(lion_options), .lr = 1e-4, .beta1 = 0.9, .beta2 = 0.99
static const lion_options lion_defaults = { lion_default_fields };

static bool lion_check(const void *options)
{
    const lion_options *o = options;
    if (!(o->beta1 >= 0 && o->beta1 < 1))
        br_raise(BR_ERROR_ARGUMENT, "lion: beta1 is %g, must be in 0 .. 1", o->beta1);
    return !br_failed();
}

static bool lion_step(br_optim_work *work)
{
    const lion_options *o = work->options;
    br_tensor *p = work->param, *g = work->grad, *m = work->state[0];
    br_tensor *direction = br_sign(br_lerp_scalar(g, m, o->beta1));
    p = br_mul_scalar(p, 1 - o->lr * o->weight_decay);
    work->new_param = br_sub(p, br_mul_scalar(direction, o->lr));
    work->new_state[0] = br_lerp_scalar(g, m, o->beta2);
    return !br_failed();
}

static const br_optim_kind lion = { .name = "lion",
                                    .defaults = &lion_defaults,
                                    .check = lion_check,
                                    .momentum = offsetof(lion_options, beta1),
                                    .states = { { .name = "exp_avg" } },
                                    .step = lion_step };

static bool lion_prepare(br_optim_work *work)
{
    const lion_options *o = work->options;
    *(double *)work->args = 1 - o->lr * o->weight_decay;
    return true;
}

static void lion_update(const br_optim_work *work, int64_t from, int64_t count)
{
    const lion_options *o = work->options;
    double keep = *(const double *)work->args;
    double *p = br_data_f64(work->param), *m = br_data_f64(work->state[0]);
    const double *g = br_data_f64(work->grad);
    for (int64_t i = from; i < from + count; i++) {
        double c = g[i] + o->beta1 * (m[i] - g[i]);
        p[i] = keep * p[i] - o->lr * ((c > 0) - (c < 0));
        m[i] = g[i] + o->beta2 * (m[i] - g[i]);
    }
}

static void lion_finish(br_optim_work *work)
{
    br_data_i64(work->state[1])[0]++;
}

static const br_optim_kind lion_by_elements = {
    .name = "lion",
    .defaults = &lion_defaults,
    .check = lion_check,
    .momentum = offsetof(lion_options, beta1),
    .states = { { .name = "exp_avg" }, { .name = "step", .make = br_optim_counter } },
    .args_size = sizeof(double),
    .prepare = lion_prepare,
    .update = lion_update,
    .finish = lion_finish,
};

/* ---- Adam as a custom optimizer -------------------------------------------------------------- */

static bool adam_step(br_optim_work *work)
{
    const br_adam_options *o = work->options;
    br_tensor *g = work->grad, *const *state = work->state;
    double t = (double)br_item_i64(state[2]) + 1;
    br_tensor *m = br_lerp_scalar(state[0], g, 1 - o->beta1);
    br_tensor *v = br_lerp_scalar(state[1], br_mul(g, g), 1 - o->beta2);
    br_tensor *root = br_div_scalar(br_sqrt(v), sqrt(1 - pow(o->beta2, t)));
    br_tensor *change = br_div(m, br_add_scalar(root, o->eps));
    change = br_mul_scalar(change, o->lr / (1 - pow(o->beta1, t)));
    work->new_param = br_sub(work->param, change);
    work->new_state[0] = m;
    work->new_state[1] = v;
    work->new_state[2] = br_add_scalar(state[2], 1);
    return !br_failed();
}

static const br_adam_options adam_defaults = { br_adam_default_fields };

static const br_optim_kind own_adam = {
    .name = "own_adam",
    .options_name = "br_adam",
    .defaults = &adam_defaults,
    .states = { { .name = "exp_avg" }, { .name = "exp_avg_sq" }, { "step", br_optim_counter } },
    .step = adam_step
};

/* ---- A model, and steps ---------------------------------------------------------------------- */

/* Returns a model of two f64 matrices with 70,000 and 6 elements. The first is large enough to be
 * updated in several tasks. */
static br_sequential *model_new(void)
{
    br_manual_seed(4);
    br_sequential *s =
        br_sequential_new(BR_MODULES(br_linear_new(700, 100, false), br_linear_new(2, 3, false)));
    br_module_to(br_base(s), BR_F64);
    return s;
}

static void set_gradients(br_sequential *s, int step)
{
    br_scope *scope = br_scope_begin();
    br_manual_seed(100 + (uint64_t)step);
    br_named_list *list = br_parameters(br_base(s));
    for (const br_named_tensor *p = NULL; (p = br_named_list_next(list, p));)
        br_set_grad(p->tensor, br_randn(br_ndim(p->tensor), br_sizes(p->tensor), BR_F64));
    br_named_list_free(list);
    br_scope_end(scope);
}

static void check_same(br_sequential *a, br_sequential *b, double tolerance)
{
    br_scope *scope = br_no_grad_begin();
    br_named_list *first = br_parameters(br_base(a)), *second = br_parameters(br_base(b));
    for (int64_t i = 0; i < first->count; i++)
        cr_assert(br_allclose(first->items[i].tensor, second->items[i].tensor, 0, tolerance), "%s",
                  first->items[i].name);
    br_named_list_free(first);
    br_named_list_free(second);
    br_scope_end(scope);
}

static void step(br_sequential *s, br_optim *optim, int t)
{
    set_gradients(s, t);
    cr_assert(br_optim_step(optim), "%s", br_error_message());
}

static void compare(br_optim *(*make_first)(br_module *), br_optim *(*make_second)(br_module *),
                    double tolerance)
{
    br_sequential *a = model_new(), *b = model_new();
    br_optim *first = make_first(br_base(a)), *second = make_second(br_base(b));
    cr_assert(first && second, "%s", br_error_message());
    for (int t = 0; t < 6; t++) {
        step(a, first, t);
        step(b, second, t);
        check_same(a, b, tolerance);
    }
    br_optim_free(first);
    br_optim_free(second);
    br_module_free(a);
    br_module_free(b);
}

static const lion_options *some_options(void)
{
    static lion_options options = { lion_default_fields };
    options.lr = 0.01;
    options.weight_decay = 0.1;
    return &options;
}

static br_optim *make_lion(br_module *m)
{
    return br_optim_for(&lion, m, some_options());
}

static br_optim *make_lion_by_elements(br_module *m)
{
    return br_optim_for(&lion_by_elements, m, some_options());
}

static br_optim *make_adam(br_module *m)
{
    return br_adam(m, BR_OPTIONS(br_adam, .lr = 0.1));
}

static br_optim *make_own_adam(br_module *m)
{
    return br_optim_for(&own_adam, m, BR_OPTIONS(br_adam, .lr = 0.1));
}

Test(own_kinds, step_and_update_give_the_same_values)
{
    compare(make_lion, make_lion_by_elements, 1e-15);
}

Test(own_kinds, custom_adam_equals_adam)
{
    compare(make_adam, make_own_adam, 1e-13);
}

/* ---- Groups, schedulers, clipping, checkpoints ----------------------------------------------- */

typedef struct {
    br_sequential *model;
    br_optim *optim;
    br_scheduler *scheduler;
} run;

/* Returns a model with one group per matrix, with rates 0.01 and 0.02, and a scheduler. */
static run run_new(const br_optim_kind *kind)
{
    run r = { .model = model_new() };
    br_named_list *all = br_parameters(br_base(r.model));
    br_named_list *first = br_named_list_new(), *second = br_named_list_new();
    br_named_list_add(first, all->items[0].name, all->items[0].tensor);
    br_named_list_add(second, all->items[1].name, all->items[1].tensor);
    r.optim = br_optim_new(kind, first, BR_OPTIONS(lion, .lr = 0.01));
    cr_assert_eq(br_optim_add_group(r.optim, second, BR_OPTIONS(lion, .lr = 0.02)), 1);
    br_one_cycle_options cycle = *BR_OPTIONS(br_one_cycle, .total_steps = 20);
    cycle.max_lrs = (double[]){ 0.1, 0.2 };
    r.scheduler = br_one_cycle_lr(r.optim, &cycle);
    check_ok();
    br_named_list_free(all);
    br_named_list_free(first);
    br_named_list_free(second);
    return r;
}

static void run_free(run *r)
{
    br_scheduler_free(r->scheduler);
    br_optim_free(r->optim);
    br_module_free(r->model);
}

static void run_steps(run *r, int from, int to)
{
    for (int t = from; t < to; t++) {
        set_gradients(r->model, t);
        cr_assert_gt(br_module_clip_grad_norm_(br_base(r->model), 1, 2, true), 1);
        cr_assert(br_optim_step(r->optim) && br_scheduler_step(r->scheduler), "%s",
                  br_error_message());
    }
}

static double beta1_of(const run *r, int group)
{
    const lion_options *o = br_optim_group_options(r->optim, group);
    return o->beta1;
}

static void continue_from_checkpoint(const br_optim_kind *kind)
{
    char path[] = "/tmp/brasa_own_kind_XXXXXX";
    close(mkstemp(path));
    run a = run_new(kind), b = run_new(kind);
    cr_assert_float_eq(br_optim_get_lr(a.optim, 1), 0.2 / 25, 1e-15);
    cr_assert_eq(beta1_of(&a, 0), 0.95);
    run_steps(&a, 0, 7);
    br_checkpoint c = { .model = br_base(a.model), .optim = a.optim, .scheduler = a.scheduler };
    cr_assert(br_checkpoint_save(path, &c), "%s", br_error_message());
    c = (br_checkpoint){ .model = br_base(b.model), .optim = b.optim, .scheduler = b.scheduler };
    cr_assert(br_checkpoint_load(path, &c), "%s", br_error_message());
    cr_assert_eq(br_optim_get_lr(b.optim, 1), br_optim_get_lr(a.optim, 1));
    cr_assert_lt(beta1_of(&b, 0), 0.9); /* the scheduler's momentum was restored */
    cr_assert_eq(beta1_of(&b, 0), beta1_of(&a, 0));
    run_steps(&a, 7, 12);
    run_steps(&b, 7, 12);
    check_same(a.model, b.model, 0);
    run_free(&a);
    run_free(&b);
    unlink(path);
}

Test(own_kinds, continue_from_a_checkpoint)
{
    continue_from_checkpoint(&lion);
    continue_from_checkpoint(&lion_by_elements);
}

/* ---- Master weights -------------------------------------------------------------------------- */

/* The state is an f64 copy of the parameter. Each step updates the copy, and rounds it to give the
 * parameter. */
static br_tensor *make_master(br_tensor *param, const void *options)
{
    (void)options;
    return br_to(param, BR_F64);
}

static bool master_step(br_optim_work *work)
{
    const br_sgd_options *o = work->options;
    br_tensor *change = br_mul_scalar(br_to(work->grad, BR_F64), o->lr);
    work->new_state[0] = br_sub(work->state[0], change);
    work->new_param = br_to(work->new_state[0], br_dtype_of(work->param));
    return !br_failed();
}

static const br_sgd_options sgd_defaults = { br_sgd_default_fields };
static const br_optim_kind master = { .name = "master",
                                      .options_name = "br_sgd",
                                      .defaults = &sgd_defaults,
                                      .states = { { "master", make_master } },
                                      .step = master_step };

/* In f32, steps of 1e-9 from 1 have no effect. The result is correct only if the state stays in
 * f64, even when it is loaded. */
Test(own_kinds, master_weights)
{
    br_linear *self = br_linear_new(1, 1, false), *other = br_linear_new(1, 1, false);
    br_scope *scope = br_no_grad_begin();
    br_fill_(self->weight, 1);
    br_set_grad(self->weight, br_ones(BR_SHAPE(1, 1), BR_F32));
    br_set_grad(other->weight, br_ones(BR_SHAPE(1, 1), BR_F32));
    br_optim *first = br_optim_for(&master, br_base(self), BR_OPTIONS(br_sgd, .lr = 1e-9));
    br_optim *second = br_optim_for(&master, br_base(other), BR_OPTIONS(br_sgd, .lr = 1e-9));
    for (int t = 0; t < 500; t++)
        cr_assert(br_optim_step(first));
    br_named_list *state = br_optim_state_dict(first);
    cr_assert_eq(state->count, 2);
    cr_assert_str_eq(state->items[0].name, "weight.master");
    cr_assert_str_eq(state->items[1].name, "param_groups.0.lr");
    cr_assert(br_optim_load_state_dict(second, state), "%s", br_error_message());
    for (int t = 0; t < 500; t++)
        cr_assert(br_optim_step(second));
    cr_assert_eq(br_item(other->weight), (double)(float)(1 - 1e-6));
    br_named_list_free(state);
    br_optim_free(first);
    br_optim_free(second);
    br_scope_end(scope);
    br_module_free(self);
    br_module_free(other);
}

/* ---- Failing and unusual steps --------------------------------------------------------------- */

/* Fails for the second matrix. */
static bool failing_step(br_optim_work *work)
{
    if (br_size(work->param, 0) == 3)
        return false;
    work->new_param = br_zeros_like(work->param);
    return true;
}

static bool misfit_step(br_optim_work *work)
{
    work->new_param = br_zeros(BR_SHAPE(1), BR_F64);
    return true;
}

static bool misfit_state_step(br_optim_work *work)
{
    work->new_state[0] = br_zeros_like(work->param);
    return true;
}

/* Swaps the parameter with the first state, and increments the second state in place. */
static bool remembering_step(br_optim_work *work)
{
    work->new_state[0] = work->param;
    work->new_param = work->state[0];
    br_add_scalar_(work->state[1], 1);
    return true;
}

Test(own_kinds, a_failed_step_changes_nothing)
{
    br_optim_kind kind = { .name = "odd", .defaults = &lion_defaults, .step = failing_step };
    br_sequential *a = model_new(), *b = model_new();
    br_optim *optim = br_optim_for(&kind, br_base(a), NULL);
    set_gradients(a, 0);
    check_fails(br_optim_step(optim),
                "odd: step for 1.weight returned false without setting an error");
    check_same(a, b, 0);
    kind.step = misfit_step;
    check_fails(br_optim_step(optim),
                "odd: the new value of 0.weight is [1] f64, must be [100, 700] f64");
    br_optim_free(optim);
    kind.states[0].name = "left_out";
    kind.states[0].make = make_master; /* returns the f64 parameter itself, which must be copied */
    kind.step = misfit_state_step;
    optim = br_optim_for(&kind, br_base(a), NULL);
    cr_assert(br_optim_step(optim), "%s", br_error_message());
    check_same(a, b, 0);
    br_optim_free(optim);
    br_module_free(a);
    br_module_free(b);
}

/* Sets a state to a value with another shape. */
static int misfit;
static bool misfit_later_step(br_optim_work *work)
{
    work->new_state[misfit] = br_zeros(BR_SHAPE(1), br_dtype_of(work->param));
    return true;
}

Test(own_kinds, messages_name_the_state)
{
    static const br_optim_kind kind = { .name = "odd",
                                        .defaults = &lion_defaults,
                                        .states = { { "first" }, { "second" }, { "third" } },
                                        .step = misfit_later_step };
    br_sequential *a = model_new(), *b = model_new();
    br_optim *optim = br_optim_for(&kind, br_base(a), NULL);
    set_gradients(a, 0);
    for (misfit = 0; misfit < 3; misfit++) {
        char expected[100];
        snprintf(expected, sizeof expected, "the new %s of 0.weight is [1] f64, must be",
                 kind.states[misfit].name);
        check_fails(br_optim_step(optim), expected);
        check_same(a, b, 0);
    }
    br_optim_free(optim);
    br_module_free(a);
    br_module_free(b);
}

static bool refuse_silently(br_optim_work *work)
{
    (void)work;
    return false;
}

Test(own_kinds, a_function_that_fails_silently_is_named)
{
    const struct {
        br_optim_kind kind;
        const char *message;
    } cases[] = {
        { { .name = "odd", .defaults = &lion_defaults, .step = refuse_silently },
          "odd: step for 0.weight returned false without setting an error" },
        { { .name = "odd",
            .defaults = &lion_defaults,
            .states = { { .name = "exp_avg" }, { .name = "step", .make = br_optim_counter } },
            .prepare = refuse_silently,
            .update = lion_update },
          "odd: prepare for 0.weight returned false without setting an error" },
    };
    br_sequential *a = model_new();
    set_gradients(a, 0);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        br_optim *optim = br_optim_for(&cases[i].kind, br_base(a), NULL);
        check_fails(br_optim_step(optim), cases[i].message);
        br_optim_free(optim);
    }
    br_module_free(a);
}

Test(own_kinds, new_values_may_be_existing_tensors)
{
    const br_optim_kind kind = { .name = "odd",
                                 .defaults = &lion_defaults,
                                 .states = { { .name = "before" }, { .name = "count" } },
                                 .step = remembering_step };
    br_linear *self = br_linear_new(2, 3, false);
    br_scope *scope = br_no_grad_begin();
    br_fill_(self->weight, 5);
    br_set_grad(self->weight, br_ones(BR_SHAPE(3, 2), BR_F32));
    br_optim *optim = br_optim_for(&kind, br_base(self), NULL);
    for (int t = 0; t < 3; t++) {
        cr_assert(br_optim_step(optim), "%s", br_error_message());
        br_named_list *state = br_optim_state_dict(optim);
        cr_assert_eq(br_item(br_mean(self->weight)), t % 2 ? 5 : 0);
        cr_assert_eq(br_item(br_mean(br_named_list_get(state, "weight.before"))), t % 2 ? 0 : 5);
        cr_assert_eq(br_item(br_mean(br_named_list_get(state, "weight.count"))), t + 1);
        br_named_list_free(state);
    }
    br_optim_free(optim);
    br_scope_end(scope);
    br_module_free(self);
}

Test(own_kinds, bad_kinds_and_options_are_refused)
{
    br_optim_kind kind = lion;
    check_fails(br_optim_new(NULL, NULL, NULL), "optim_new: kind is NULL");
    kind.step = NULL;
    check_fails(br_optim_new(&kind, NULL, NULL), "lion: the kind has neither step nor update");
    kind.step = lion_step;
    kind.update = lion_update;
    check_fails(br_optim_new(&kind, NULL, NULL), "lion: the kind has both step and update");
    const lion_options empty = { 0 };
    kind.defaults = &empty;
    check_fails(br_optim_new(&kind, NULL, NULL), "lion: the defaults have struct_size 0");
    check_fails(br_optim_new(&lion, NULL, &empty), "BR_OPTIONS(lion, .field = value)");
    check_fails(br_optim_new(&lion, NULL, BR_OPTIONS(lion, .lr = -1)), "lion: lr is -1");
    check_fails(br_optim_new(&lion, NULL, BR_OPTIONS(lion, .beta1 = 1)), "lion: beta1 is 1");
    br_optim *optim = br_optim_new(&lion, NULL, BR_OPTIONS(lion, .beta2 = 0.5));
    const lion_options *o = br_optim_group_options(optim, -1);
    cr_assert_eq(o->beta2, 0.5);
    check_fails(br_optim_group_options(optim, 0), "group 0 is out of range for 0 groups");
    br_optim_free(optim);
}

Test(own_kinds, kind_groups_and_options_can_be_read)
{
    br_linear *self = br_linear_new(2, 3, true);
    br_named_list *list = br_parameters(br_base(self));
    br_optim *optim = br_optim_new(&lion, NULL, NULL);
    br_named_list *weight = br_named_list_filter(list, 1, (const char *[]){ "weight" }, false);
    br_named_list *bias = br_named_list_filter(list, 1, (const char *[]){ "weight" }, true);
    br_optim_add_group(optim, weight, NULL);
    br_optim_add_group(optim, bias, BR_OPTIONS(lion, .beta1 = 0.5));
    cr_assert_eq(br_optim_kind_of(optim), &lion);
    br_named_list *all = br_optim_group_parameters(optim, -1);
    br_named_list *second = br_optim_group_parameters(optim, 1);
    cr_assert_eq(all->count, 2);
    cr_assert_eq(second->count, 1);
    cr_assert_eq(br_named_list_get(all, "weight"), self->weight);
    cr_assert_eq(br_named_list_get(second, "bias"), self->bias);
    cr_assert(br_optim_set_group_options(optim, 1, BR_OPTIONS(lion, .lr = 7, .beta1 = 0.25)));
    cr_assert(br_optim_set_group_options(optim, -1, BR_OPTIONS(lion, .lr = 9)));
    cr_assert_eq(br_optim_get_lr(optim, 1), 7);
    cr_assert_eq(((const lion_options *)br_optim_group_options(optim, 1))->beta1, 0.25);
    cr_assert_eq(((const lion_options *)br_optim_group_options(optim, 0))->lr, lion_defaults.lr);
    cr_assert_eq(((const lion_options *)br_optim_group_options(optim, -1))->lr, 9);
    check_fails(br_optim_set_group_options(optim, 1, BR_OPTIONS(lion, .lr = -1)), "lr is -1");
    check_fails(br_optim_set_group_options(optim, 1, BR_OPTIONS(br_sgd, .lr = 1)),
                "struct_size of the options is 48, must be 40: they are not lion_options");
    check_fails(br_optim_set_group_options(optim, 1, NULL), "options is NULL");
    check_fails(br_optim_set_group_options(optim, 2, BR_OPTIONS(lion, .lr = 1)), "group 2");
    cr_assert_eq(br_optim_get_lr(optim, 1), 7);
    check_fails(br_optim_group_parameters(optim, 2), "group 2 is out of range");
    check_fails(br_optim_group_parameters(NULL, 0), "optim is NULL");
    check_fails(br_optim_kind_of(NULL), "optim is NULL");
    br_named_list_free(second);
    br_named_list_free(all);
    br_named_list_free(bias);
    br_named_list_free(weight);
    br_named_list_free(list);
    br_optim_free(optim);
    br_module_free(self);
}

static bool run_both(void)
{
    const br_optim_kind *kinds[] = { &lion, &lion_by_elements, &own_adam };
    bool ok = true;
    for (int i = 0; i < 3 && ok; i++) {
        br_linear *self = br_linear_new(2, 3, false);
        br_module_to(br_base(self), BR_F64);
        br_scope *scope = br_scope_begin();
        br_set_grad(self->weight, br_ones(BR_SHAPE(3, 2), BR_F64));
        br_scope_end(scope);
        br_optim *optim = br_optim_for(kinds[i], br_base(self), NULL);
        br_named_list *state = br_optim_step(optim) ? br_optim_state_dict(optim) : NULL;
        ok = state && br_optim_load_state_dict(optim, state);
        cr_assert_eq(ok, !br_failed());
        br_named_list_free(state);
        br_optim_free(optim);
        br_module_free(self);
    }
    return ok;
}

Test(own_kinds, every_allocation_may_fail)
{
    fail_in_turn(run_both, "run both");
}
