/* tests/optim/test_scheduler.c - compares a hundred learning rates of each scheduler with
 * PyTorch's; state dicts, checkpoints and errors. */
#include "tests/memory.h"
#include "tests/optim/resumed_values.h"
#include "tests/optim/scheduler_values.h"

#include <brasa/io.h>
#include <brasa/optim.h>
#include <unistd.h>

TestSuite(scheduler, .init = check_begin, .fini = check_end);

enum { STEPS = 100, MOST = 2 };

/* An optimizer with two groups, and one or two schedulers for it. */
typedef struct {
    br_linear *first, *second;
    br_optim *optim;
    br_scheduler *schedulers[MOST];
} run;

static double momentum_of(const run *r, int group)
{
    const br_sgd_options *options = br_optim_group_options(r->optim, group);
    return options->momentum;
}

typedef void (*maker)(br_optim *optim, br_scheduler **out);

static double shrink(int64_t epoch, int group, void *context)
{
    (void)context;
    return group == 0 ? pow(0.95, (double)epoch) : 1 / sqrt(1 + (double)epoch);
}

static void make_step(br_optim *o, br_scheduler **out)
{
    out[0] = br_step_lr(o, 9, 0.7);
}

static void make_multi_step(br_optim *o, br_scheduler **out)
{
    out[0] = br_multi_step_lr(o, 4, (int64_t[]){ 3, 20, 20, 61 }, 0.3);
}

static void make_exponential(br_optim *o, br_scheduler **out)
{
    out[0] = br_exponential_lr(o, 0.93);
}

static void make_constant(br_optim *o, br_scheduler **out)
{
    out[0] = br_constant_lr(o, 1.0 / 3, 12);
}

static void make_linear(br_optim *o, br_scheduler **out)
{
    out[0] = br_linear_lr(o, 0.05, 0.9, 37);
}

static void make_cosine(br_optim *o, br_scheduler **out)
{
    out[0] = br_cosine_annealing_lr(o, 33, 2e-3);
}

static void make_restarts(br_optim *o, br_scheduler **out)
{
    out[0] = br_cosine_annealing_warm_restarts(o, 7, 2, 1e-3);
}

static void make_restarts_even(br_optim *o, br_scheduler **out)
{
    out[0] = br_cosine_annealing_warm_restarts(o, 11, 1, 0);
}

static void make_lambda(br_optim *o, br_scheduler **out)
{
    out[0] = br_lambda_lr(o, shrink, NULL);
}

static void make_one_cycle(br_optim *o, br_scheduler **out)
{
    out[0] = br_one_cycle_lr(o, BR_OPTIONS(br_one_cycle, .max_lr = 0.5, .total_steps = 100));
}

static void make_one_cycle_options(br_optim *o, br_scheduler **out)
{
    out[0] = br_one_cycle_lr(
        o, BR_OPTIONS(br_one_cycle, .max_lrs = (double[]){ 0.5, 0.2 }, .total_steps = 110,
                      .pct_start = 0.25, .linear = true, .base_momentum = 0.6, .max_momentum = 0.9,
                      .div_factor = 10, .final_div_factor = 1e3, .three_phase = true));
}

static void make_plateau(br_optim *o, br_scheduler **out)
{
    out[0] = br_reduce_lr_on_plateau(o, BR_OPTIONS(br_plateau, .patience = 4));
}

static void make_plateau_options(br_optim *o, br_scheduler **out)
{
    out[0] = br_reduce_lr_on_plateau(o, BR_OPTIONS(br_plateau, .mode = BR_PLATEAU_MAX,
                                                   .factor = 0.5, .patience = 2, .threshold = 0.05,
                                                   .threshold_mode = BR_THRESHOLD_ABS,
                                                   .cooldown = 3, .min_lr = 4e-3));
}

static void make_sequential(br_optim *o, br_scheduler **out)
{
    br_scheduler *parts[] = { br_linear_lr(o, 0.1, 1, 10), br_cosine_annealing_lr(o, 40, 1e-3),
                              br_step_lr(o, 7, 0.5),
                              br_cosine_annealing_warm_restarts(o, 9, 1, 0) };
    out[0] = br_sequential_lr(o, 4, parts, (int64_t[]){ 10, 50, 71 });
}

static void make_sequential_one_cycle(br_optim *o, br_scheduler **out)
{
    br_scheduler *parts[2] = { br_constant_lr(o, 0.5, 30) };
    parts[1] = br_one_cycle_lr(o, BR_OPTIONS(br_one_cycle, .max_lr = 0.2, .total_steps = 90));
    out[0] = br_sequential_lr(o, 2, parts, (int64_t[]){ 20 });
}

static void make_chained(br_optim *o, br_scheduler **out)
{
    out[0] = br_constant_lr(o, 0.25, 6);
    out[1] = br_exponential_lr(o, 0.97);
}

static const struct {
    const char *name;
    maker make;
    const double *rates, *momenta, *resumed;
} cases[] = {
    { "step_lr", make_step, step_lr_rates, NULL, step_lr_resumed },
    { "multi_step", make_multi_step, multi_step_rates, NULL, multi_step_resumed },
    { "exponential", make_exponential, exponential_rates, NULL, exponential_resumed },
    { "constant", make_constant, constant_rates, NULL, constant_resumed },
    { "linear", make_linear, linear_rates, NULL, linear_resumed },
    { "cosine", make_cosine, cosine_rates, NULL, cosine_resumed },
    { "restarts", make_restarts, restarts_rates, NULL, restarts_resumed },
    { "restarts_even", make_restarts_even, restarts_even_rates, NULL, restarts_even_resumed },
    { "lambda", make_lambda, lambda_rates, NULL, lambda_resumed },
    { "one_cycle", make_one_cycle, one_cycle_rates, one_cycle_momentum_rates, one_cycle_resumed },
    { "one_cycle_options", make_one_cycle_options, one_cycle_options_rates,
      one_cycle_options_momentum_rates, one_cycle_options_resumed },
    { "plateau", make_plateau, plateau_rates, NULL, plateau_resumed },
    { "plateau_options", make_plateau_options, plateau_options_rates, NULL,
      plateau_options_resumed },
    { "sequential", make_sequential, sequential_rates, NULL, sequential_resumed },
    { "sequential_one_cycle", make_sequential_one_cycle, sequential_one_cycle_rates, NULL,
      sequential_one_cycle_resumed },
    { "chained", make_chained, chained_rates, NULL, chained_resumed },
};
enum { CASES = sizeof cases / sizeof *cases };

static run run_new(maker make)
{
    run r = { .first = br_linear_new(1, 1, false), .second = br_linear_new(1, 1, false) };
    br_named_list *list = br_parameters(br_base(r.second));
    r.optim = br_sgd(br_base(r.first), BR_OPTIONS(br_sgd, .lr = 0.1));
    br_optim_add_group(r.optim, list, BR_OPTIONS(br_sgd, .lr = 0.03));
    br_named_list_free(list);
    if (make)
        make(r.optim, r.schedulers);
    return r;
}

static void run_free(run *r)
{
    for (int i = 0; i < MOST; i++)
        br_scheduler_free(r->schedulers[i]);
    br_optim_free(r->optim);
    br_module_free(r->first);
    br_module_free(r->second);
}

static double metric(int t)
{
    return t < 24 ? 1.0 / (1 + t / 3) : 0.11 + 0.01 * (t % 5);
}

static void step(run *r, maker make, int t)
{
    bool plateau = make == make_plateau || make == make_plateau_options;
    for (int i = 0; i < MOST && r->schedulers[i]; i++)
        cr_assert(plateau ? br_scheduler_step_metric(r->schedulers[i], metric(t))
                          : br_scheduler_step(r->schedulers[i]),
                  "%s", br_error_message());
}

/* The tolerance allows for the rounding errors of a hundred steps, where each rate is computed from
 * the previous one, and for cancellation near the end of a cosine. */
static void check_rate(int c, int t, int group, double got, double want)
{
    cr_assert(fabs(got - want) <= 4e-15 * fabs(want) + 1e-17,
              "%s, epoch %d, group %d: %.17g, expected %.17g", cases[c].name, t, group, got, want);
}

Test(scheduler, rates_equal_pytorch)
{
    for (int c = 0; c < CASES; c++) {
        run r = run_new(cases[c].make);
        check_ok();
        for (int t = 0; t <= STEPS; t++) {
            check_rate(c, t, 0, br_optim_get_lr(r.optim, 0), cases[c].rates[t]);
            if (t % 5 == 0)
                check_rate(c, t, 1, br_optim_get_lr(r.optim, 1), cases[c].rates[STEPS + 1 + t / 5]);
            if (cases[c].momenta)
                check_rate(c, t, 0, momentum_of(&r, 0), cases[c].momenta[t]);
            if (t < STEPS)
                step(&r, cases[c].make, t);
        }
        cr_assert_eq(br_scheduler_last_epoch(r.schedulers[0]), STEPS);
        run_free(&r);
    }
}

/* ---- State ----------------------------------------------------------------------------------- */

static void check_same_options(const run *a, const run *b, int group, const char *name)
{
    int64_t epoch = br_scheduler_last_epoch(a->schedulers[0]);
    cr_assert_eq(br_optim_get_lr(a->optim, group), br_optim_get_lr(b->optim, group), "%s, epoch %d",
                 name, (int)epoch);
    cr_assert_eq(momentum_of(a, group), momentum_of(b, group), "%s, epoch %d", name, (int)epoch);
}

static void load_optim(run *to, const run *from)
{
    br_named_list *state = br_optim_state_dict(from->optim);
    cr_assert(br_optim_load_state_dict(to->optim, state), "%s", br_error_message());
    br_named_list_free(state);
}

static void load_schedulers(run *to, const run *from)
{
    for (int i = 0; i < MOST && from->schedulers[i]; i++) {
        br_named_list *state = br_scheduler_state_dict(from->schedulers[i]);
        cr_assert(br_scheduler_load_state_dict(to->schedulers[i], state), "%s", br_error_message());
        br_named_list_free(state);
    }
}

Test(scheduler, state_continues_a_run)
{
    for (int c = 0; c < CASES; c++) {
        for (int stop = 0; stop < STEPS; stop += 33) {
            run a = run_new(cases[c].make), b = run_new(cases[c].make);
            for (int t = 0; t < stop; t++)
                step(&a, cases[c].make, t);
            load_schedulers(&b, &a);
            load_optim(&b, &a);
            for (int g = 0; g < 2; g++) /* immediately, not only after the next step */
                check_same_options(&a, &b, g, cases[c].name);
            for (int t = stop; t < STEPS; t++) {
                step(&a, cases[c].make, t);
                step(&b, cases[c].make, t);
                for (int g = 0; g < 2; g++)
                    check_same_options(&a, &b, g, cases[c].name);
            }
            run_free(&a);
            run_free(&b);
        }
    }
}

/* Counters are scalars; the rates have one for each group. */
Test(scheduler, states_have_the_shapes_of_pytorch)
{
    for (int c = 0; c < CASES; c++) {
        run r = run_new(cases[c].make);
        br_named_list *state = br_scheduler_state_dict(r.schedulers[0]);
        for (int64_t i = 0; i < state->count; i++) {
            const br_tensor *t = state->items[i].tensor;
            const bool is_rates = strstr(state->items[i].name, "lr") != NULL;
            cr_expect_eq(br_ndim(t), is_rates, "%s %s", cases[c].name, state->items[i].name);
            cr_expect_eq(br_numel(t), is_rates ? 2 : 1);
        }
        br_named_list_free(state);
        run_free(&r);
    }
}

/* ---- Loading in every order ------------------------------------------------------------------ */

enum { SAVED = 4, MORE = 6, ORDERS = 4 };

/* Loads in one of the ORDERS of record_resumed.py. */
static run resume(const run *from, maker make, int order)
{
    run r = run_new(order == 2 ? NULL : make);
    if (order == 0 || order == 2)
        load_optim(&r, from);
    if (order == 2)
        make(r.optim, r.schedulers);
    load_schedulers(&r, from);
    if (order == 1)
        load_optim(&r, from);
    return r;
}

static void check_resumed(int c, int order)
{
    const double *want = cases[c].resumed + 9 * order;
    run a = run_new(cases[c].make);
    for (int t = 0; t < SAVED; t++)
        step(&a, cases[c].make, t);
    run b = resume(&a, cases[c].make, order);
    for (int t = 0; t <= MORE; t++) {
        if (t == 0 || t == 1 || t == MORE) {
            check_rate(c, SAVED + t, 0, br_optim_get_lr(b.optim, 0), want[0]);
            check_rate(c, SAVED + t, 1, br_optim_get_lr(b.optim, 1), want[1]);
            cr_assert_float_eq(momentum_of(&b, 0), want[2], 1e-15, "%s, order %d, step %d: %g",
                               cases[c].name, order, t, momentum_of(&b, 0));
            want += 3;
        }
        step(&b, cases[c].make, SAVED + t);
    }
    run_free(&a);
    run_free(&b);
}

Test(scheduler, loads_like_pytorch_in_every_order)
{
    for (int c = 0; c < CASES; c++)
        for (int order = 0; order < ORDERS; order++)
            check_resumed(c, order);
}

Test(scheduler, mismatched_state_is_refused)
{
    run a = run_new(make_sequential), b = run_new(make_step);
    br_named_list *state = br_scheduler_state_dict(b.schedulers[0]);
    cr_assert_eq(state->count, 3);
    cr_assert_str_eq(state->items[0].name, "last_epoch");
    check_fails(br_scheduler_load_state_dict(a.schedulers[0], state), "0.last_epoch is missing");
    check_fails(br_scheduler_load_state_dict(a.schedulers[0], NULL), "state is NULL");
    br_named_list *whole = br_scheduler_state_dict(a.schedulers[0]);
    check_fails(br_scheduler_load_state_dict(b.schedulers[0], whole),
                "the state has 17 tensors, but this step_lr");
    br_scope *scope = br_scope_begin();
    br_tensor *kept = state->items[1].tensor;
    state->items[1].tensor = br_zeros(BR_SHAPE(3), BR_F64);
    check_fails(br_scheduler_load_state_dict(b.schedulers[0], state),
                "base_lrs is f64 [3], must have 2 elements of f64");
    state->items[1].tensor = kept;
    br_scope_end(scope);
    br_named_list_free(whole);
    br_named_list_free(state);
    run_free(&a);
    run_free(&b);
}

/* The name of a child's value begins with the child's number. */
Test(scheduler, states_of_children_have_their_numbers)
{
    run r = run_new(make_sequential);
    br_named_list *state = br_scheduler_state_dict(r.schedulers[0]);
    static const char *const values[] = { "last_epoch", "base_lrs", "last_lrs" };
    int found[5] = { 0 };
    for (int64_t i = 0; i < state->count; i++) {
        const char *name = state->items[i].name;
        int child = name[1] == '.' ? name[0] - '0' : 4;
        cr_assert(child >= 0 && child <= 4, "%s", name);
        cr_expect_null(strchr(child < 4 ? name + 2 : name, '.'), "%s", name);
        for (int k = 0; k < 3; k++)
            found[child] += strcmp(child < 4 ? name + 2 : name, values[k]) == 0;
    }
    for (int child = 0; child < 5; child++)
        cr_expect_eq(found[child], 3, "child %d", child);
    br_named_list_free(state);
    run_free(&r);
}

Test(scheduler, is_restored_from_a_checkpoint)
{
    char path[] = "/tmp/brasa_scheduler_XXXXXX";
    close(mkstemp(path));
    run a = run_new(make_sequential), b = run_new(make_sequential);
    for (int t = 0; t < 60; t++)
        step(&a, make_sequential, t);
    br_checkpoint c = { .optim = a.optim, .scheduler = a.schedulers[0] };
    cr_assert(br_checkpoint_save(path, &c), "%s", br_error_message());
    c = (br_checkpoint){ .optim = b.optim, .scheduler = b.schedulers[0] };
    cr_assert(br_checkpoint_load(path, &c), "%s", br_error_message());
    cr_assert_eq(br_optim_get_lr(b.optim, 0), br_optim_get_lr(a.optim, 0));
    cr_assert_eq(br_scheduler_last_epoch(b.schedulers[0]), 60);
    run other = run_new(make_step);
    c = (br_checkpoint){ .scheduler = other.schedulers[0] };
    check_fails(br_checkpoint_load(path, &c), "this step_lr");
    cr_assert_eq(br_scheduler_last_epoch(other.schedulers[0]), 0);
    c = (br_checkpoint){ .optim = a.optim };
    cr_assert(br_checkpoint_save(path, &c));
    c = (br_checkpoint){ .scheduler = other.schedulers[0] };
    check_fails(br_checkpoint_load(path, &c), "saved without scheduler");
    unlink(path);
    run_free(&a);
    run_free(&b);
    run_free(&other);
}

/* Checks the rate of the first group over n epochs, and frees the scheduler. */
static void check_rates(br_optim *o, br_scheduler *s, int n, const double *rates)
{
    check_ok();
    for (int i = 0; i < n; i++) {
        check_close(br_optim_get_lr(o, 0), rates[i], 1e-12);
        cr_assert(br_scheduler_step(s), "%s", br_error_message());
    }
    br_scheduler_free(s);
}

/* PyTorch's rates: milestones in any order, no iterations, and the rate after the last step of a
 * linear cycle, which is negative. */
Test(scheduler, special_arguments)
{
    run r = run_new(NULL);
    br_optim *o = r.optim;
    br_optim_set_lr(o, 0, 1);
    check_rates(o, br_multi_step_lr(o, 3, (int64_t[]){ 5, 2, 2 }, 0.1), 7,
                (double[]){ 1, 1, 0.01, 0.01, 0.01, 0.001, 0.001 });
    br_optim_set_lr(o, 0, 1);
    check_rates(o, br_multi_step_lr(o, 2, (int64_t[]){ 2, 0 }, 0.1), 4,
                (double[]){ 0.1, 0.1, 0.01, 0.01 });
    br_optim_set_lr(o, 0, 1);
    check_rates(o, br_linear_lr(o, 0.5, 1, 0), 4, (double[]){ 0.5, 0.5, 0.5, 0.5 });
    br_optim_set_lr(o, 0, 1);
    br_scheduler *s = br_one_cycle_lr(
        o, BR_OPTIONS(br_one_cycle, .max_lr = 1, .total_steps = 10, .linear = true));
    check_rates(o, s, 10,
                (double[]){ 0.04, 0.52, 1, 0.8571434285714286, 0.7142868571428571,
                            0.5714302857142857, 0.42857371428571434, 0.2857171428571429,
                            0.14286057142857145, 4.000000000004e-06 });
    check_close(br_optim_get_lr(o, 0), -0.14285257142857133, 1e-12);
    run_free(&r);
}

/* ---- Errors ---------------------------------------------------------------------------------- */

Test(scheduler, arguments_are_checked)
{
    run r = run_new(NULL);
    br_optim *o = r.optim;
    check_fails(br_step_lr(NULL, 1, 0.5), "step_lr: optim is NULL");
    check_fails(br_step_lr(o, 0, 0.5), "step_size is 0, must be at least 1");
    check_fails(br_exponential_lr(o, NAN), "gamma is nan");
    check_fails(br_multi_step_lr(o, 2, (int64_t[]){ 5, -3 }, 0.5),
                "milestone 1 is -3, must be at least 0");
    check_fails(br_step_lr(o, 1, NAN), "gamma is nan");
    check_fails(br_multi_step_lr(o, 1, (int64_t[]){ 5 }, NAN), "gamma is nan");
    check_fails(br_constant_lr(o, NAN, 3), "factor is nan, must be in 0 .. 1");
    check_fails(br_linear_lr(o, NAN, 1, 3), "start_factor is nan");
    check_fails(br_linear_lr(o, 0.5, NAN, 3), "end_factor is nan");
    check_fails(br_constant_lr(o, 2, 3), "factor is 2, must be in 0 .. 1");
    check_fails(br_constant_lr(o, -0.1, 3), "factor is -0.1, must be in 0 .. 1");
    check_fails(br_linear_lr(o, 0, 1, 3), "start_factor is 0");
    check_fails(br_linear_lr(o, 1, 1, -1), "total_iters is -1");
    check_fails(br_cosine_annealing_lr(o, 0, 0), "t_max is 0");
    check_fails(br_cosine_annealing_warm_restarts(o, 3, 0, 0), "t_mult is 0");
    check_fails(br_lambda_lr(o, NULL, NULL), "lambda is NULL");
    check_fails(br_one_cycle_lr(o, NULL), "total_steps is 0");
    check_fails(br_one_cycle_lr(o, BR_OPTIONS(br_one_cycle, .total_steps = 3, .pct_start = 2)),
                "pct_start is 2");
    check_fails(br_reduce_lr_on_plateau(o, BR_OPTIONS(br_plateau, .factor = 1)), "factor is 1");
    check_fails(br_reduce_lr_on_plateau(o, BR_OPTIONS(br_plateau, .mode = (br_plateau_mode)2)),
                "mode is 2");
    check_fails(
        br_reduce_lr_on_plateau(o, BR_OPTIONS(br_plateau, .threshold_mode = (br_threshold_mode)2)),
        "threshold_mode is 2");
    check_fails(br_sequential_lr(o, 0, NULL, NULL), "n is 0 and the list of schedulers is NULL");
    check_fails(br_scheduler_step(NULL), "scheduler is NULL");
    br_scheduler_free(NULL);
    br_optim *adagrad = br_adagrad(br_base(r.first), NULL);
    br_one_cycle_options options = *BR_OPTIONS(br_one_cycle, .max_lr = 1, .total_steps = 9);
    check_fails(br_one_cycle_lr(adagrad, &options), "adagrad has no momentum");
    br_optim_free(adagrad);
    run_free(&r);
}

/* The cycle begins with max_momentum, which PyTorch sets as `momentum` or as the first beta. */
#define CHECK_MOMENTUM(kind, field)                                                               \
    do {                                                                                          \
        br_optim *optim = br_##kind(br_base(layer), NULL);                                        \
        br_scheduler *cycle = br_one_cycle_lr(                                                    \
            optim, BR_OPTIONS(br_one_cycle, .max_lr = 1, .total_steps = 9, .max_momentum = 0.7)); \
        cr_assert_not_null(cycle, #kind ": %s", br_error_message());                              \
        const br_##kind##_options *options = br_optim_group_options(optim, 0);                    \
        cr_expect_eq(options->field, 0.7, #kind ": %g", options->field);                          \
        br_scheduler_free(cycle);                                                                 \
        br_optim_free(optim);                                                                     \
    } while (0)
#define CHECK_NO_MOMENTUM(kind)                                                              \
    do {                                                                                     \
        br_optim *optim = br_##kind(br_base(layer), NULL);                                   \
        check_fails(                                                                         \
            br_one_cycle_lr(optim, BR_OPTIONS(br_one_cycle, .max_lr = 1, .total_steps = 9)), \
            #kind " has no momentum to cycle");                                              \
        br_optim_free(optim);                                                                \
    } while (0)

Test(scheduler, one_cycle_changes_the_momentum_of_each_kind)
{
    br_linear *layer = br_linear_new(3, 2, false);
    CHECK_MOMENTUM(sgd, momentum);
    CHECK_MOMENTUM(rmsprop, momentum);
    CHECK_MOMENTUM(muon, momentum);
    CHECK_MOMENTUM(adam, beta1);
    CHECK_MOMENTUM(adamw, beta1);
    CHECK_MOMENTUM(adamax, beta1);
    CHECK_MOMENTUM(nadam, beta1);
    CHECK_MOMENTUM(radam, beta1);
    CHECK_MOMENTUM(lion, beta1);
    CHECK_MOMENTUM(sparse_adam, beta1);
    CHECK_NO_MOMENTUM(adagrad);
    CHECK_NO_MOMENTUM(adadelta);
    CHECK_NO_MOMENTUM(rprop);
    CHECK_NO_MOMENTUM(asgd);
    CHECK_NO_MOMENTUM(adafactor);
    CHECK_NO_MOMENTUM(lbfgs);
    br_module_free(layer);
}

Test(scheduler, one_cycle_checks_each_rate)
{
    run r = run_new(NULL);
    check_fails(br_one_cycle_lr(r.optim, BR_OPTIONS(br_one_cycle, .total_steps = 9,
                                                    .max_lrs = (double[]){ 0.5, -1 })),
                "max_lr is -1");
    check_fails(br_one_cycle_lr(r.optim, BR_OPTIONS(br_one_cycle, .total_steps = 9,
                                                    .max_lrs = (double[]){ 0.5, INFINITY })),
                "max_lr is inf");
    run_free(&r);
}

Test(scheduler, sequential_checks_its_parts)
{
    run r = run_new(NULL), other = run_new(NULL);
    br_optim *o = r.optim;
    br_scheduler *parts[2] = { br_step_lr(o, 1, 0.5), br_reduce_lr_on_plateau(o, NULL) };
    check_fails(br_sequential_lr(o, 2, parts, (int64_t[]){ 4 }), "cannot be part of a sequence");
    parts[0] = parts[1] = br_step_lr(o, 1, 0.5);
    check_fails(br_sequential_lr(o, 2, parts, (int64_t[]){ 4 }),
                "scheduler 1 is in the list twice");
    parts[0] = br_step_lr(other.optim, 1, 0.5);
    parts[1] = NULL;
    check_fails(br_sequential_lr(o, 2, parts, (int64_t[]){ 4 }), "belongs to another optimizer");
    parts[0] = br_step_lr(o, 1, 0.5);
    check_fails(br_sequential_lr(o, 2, parts, (int64_t[]){ 4 }), "scheduler 1 is NULL");
    run_free(&r);
    run_free(&other);
}

Test(scheduler, a_failed_step_changes_nothing)
{
    run r = run_new(make_one_cycle);
    for (int t = 0; t < 100; t++)
        step(&r, make_one_cycle, t);
    double rate = br_optim_get_lr(r.optim, 0);
    check_fails(br_scheduler_step(r.schedulers[0]),
                "one_cycle_lr: step 101 exceeds total_steps 100");
    check_fails(br_scheduler_step_metric(r.schedulers[0], 1), "a one_cycle_lr takes no metric");
    cr_assert_eq(br_scheduler_last_epoch(r.schedulers[0]), 100);
    cr_assert_eq(br_optim_get_lr(r.optim, 0), rate);
    check_fails(br_scheduler_last_lr(r.schedulers[0], 2) >= 0,
                "group 2 is out of range for 2 groups");
    r.schedulers[1] = br_reduce_lr_on_plateau(r.optim, NULL);
    check_fails(br_scheduler_step(r.schedulers[1]), "needs a metric");
    br_linear *third = br_linear_new(1, 1, false);
    br_named_list *list = br_parameters(br_base(third));
    br_optim_add_group(r.optim, list, NULL);
    check_fails(br_scheduler_step(r.schedulers[0]), "the optimizer has 3 groups");
    br_named_list_free(list);
    br_module_free(third);
    run_free(&r);
}

static bool make_all(void)
{
    for (int c = 0; c < CASES && !br_failed(); c++) {
        run r = run_new(cases[c].make);
        br_named_list *state = br_scheduler_state_dict(r.schedulers[0]);
        br_scheduler_load_state_dict(r.schedulers[0], state);
        br_named_list_free(state);
        run_free(&r);
    }
    return !br_failed();
}

Test(scheduler, every_allocation_may_fail)
{
    fail_in_turn(make_all, "make all");
}
