/* tests/optim/test_changed_options.c - options of groups that change between steps, and that state
 * dicts and checkpoints hold. */
#include "tests/optim/resumed_values.h"
#include "tests/support.h"

#include <brasa/io.h>
#include <brasa/optim.h>
#include <unistd.h>

TestSuite(changed_options, .init = check_begin, .fini = check_end);

/* ---- Trajectories ---------------------------------------------------------------------------- */

enum { STEPS = 6 };

typedef struct {
    br_module base;
    br_tensor *p;
} single;

/* Returns the parameter of record_resumed.py. */
static single *single_new(void)
{
    single *self = br_module_new(single);
    br_scope *scope = br_scope_begin();
    self->p = br_parameter(self, "p", br_from_f64(BR_SHAPE(2), (double[]){ 1, 2 }));
    br_scope_end(scope);
    return self;
}

static void give_gradient(single *s, int t)
{
    br_set_grad(s->p, br_from_f64(BR_SHAPE(2), (double[]){ 0.1 * t, 0.1 * t - 0.4 }));
}

/* Options that a group gets before step `step`; the first are those of the optimizer. */
typedef struct change {
    int step;
    const void *options;
} change;

static const change *change_at(const change *changes, int t)
{
    for (; changes->step; changes++)
        if (changes->step == t)
            return changes;
    return NULL;
}

/* Continues in a new optimizer if `reload` is true, which gets the options from the state dict. */
static br_optim *reloaded(br_optim *optim, single *s)
{
    const br_optim_kind *kind = br_optim_kind_of(optim);
    br_optim *next = br_optim_for(kind, br_base(s), NULL);
    br_named_list *state = br_optim_state_dict(optim);
    cr_assert(br_optim_load_state_dict(next, state), "%s", br_error_message());
    br_named_list_free(state);
    br_optim_free(optim);
    return next;
}

static void check_changes(const char *name, br_optim *(*make)(br_module *, const void *),
                          const change *changes, const double *want, bool reload)
{
    single *s = single_new();
    br_optim *optim = make(br_base(s), changes->options);
    for (int t = 1; t <= STEPS; t++) {
        br_scope *scope = br_scope_begin();
        const change *now = change_at(changes + 1, t);
        if (now)
            cr_assert(br_optim_set_group_options(optim, 0, now->options), "%s", br_error_message());
        give_gradient(s, t);
        cr_assert(br_optim_step(optim), "%s", br_error_message());
        for (int64_t i = 0; i < 2; i++)
            cr_assert_float_eq(br_at(s->p, 1, &i), want[2 * (t - 1) + i], 1e-14,
                               "%s, step %d, element %d: %.17g, expected %.17g", name, t, (int)i,
                               br_at(s->p, 1, &i), want[2 * (t - 1) + i]);
        if (reload)
            optim = reloaded(optim, s);
        br_scope_end(scope);
    }
    br_optim_free(optim);
    br_module_free(s);
}

static br_optim *sgd(br_module *module, const void *options)
{
    return br_sgd(module, options);
}

static br_optim *adam(br_module *module, const void *options)
{
    return br_adam(module, options);
}

static br_optim *adamw(br_module *module, const void *options)
{
    return br_adamw(module, options);
}

static br_optim *rmsprop(br_module *module, const void *options)
{
    return br_rmsprop(module, options);
}

static br_optim *adagrad(br_module *module, const void *options)
{
    return br_adagrad(module, options);
}

#define SGD(...)     BR_OPTIONS(br_sgd, .lr = 0.1, __VA_ARGS__)
#define ADAM(...)    BR_OPTIONS(br_adam, .lr = 0.1, __VA_ARGS__)
#define ADAMW(...)   BR_OPTIONS(br_adamw, .lr = 0.1, __VA_ARGS__)
#define RMSPROP(...) BR_OPTIONS(br_rmsprop, .lr = 0.1, __VA_ARGS__)
#define ADAGRAD(...) BR_OPTIONS(br_adagrad, .lr = 0.1, __VA_ARGS__)

/* Checks one case of record_resumed.py. */
#define CHECK(name, make, ...) \
    check_changes(#name, make, (const change[]){ __VA_ARGS__, { 0, NULL } }, name, reload)

static void check_all(bool reload)
{
    CHECK(sgd_momentum_on, sgd, { 0, SGD(.dampening = 0.5) },
          { 2, SGD(.dampening = 0.5, .momentum = 0.9) });
    CHECK(sgd_momentum_off_on, sgd, { 0, SGD(.dampening = 0.5, .momentum = 0.9) },
          { 3, SGD(.dampening = 0.5) }, { 5, SGD(.dampening = 0.5, .momentum = 0.9) });
    CHECK(sgd_nesterov_on, sgd, { 0, SGD(.momentum = 0) },
          { 3, SGD(.momentum = 0.9, .nesterov = true) });
    CHECK(sgd_decay_maximize_on, sgd, { 0, SGD(.momentum = 0) }, { 2, SGD(.weight_decay = 0.1) },
          { 4, SGD(.weight_decay = 0.1, .maximize = true) });
    CHECK(adam_amsgrad_off_on, adam, { 0, ADAM(.amsgrad = true) }, { 3, ADAM(.amsgrad = false) },
          { 5, ADAM(.amsgrad = true) });
    CHECK(adamw_amsgrad_off_on, adamw, { 0, ADAMW(.amsgrad = true) },
          { 3, ADAMW(.amsgrad = false) }, { 5, ADAMW(.amsgrad = true) });
    CHECK(adam_decay_maximize_on, adam, { 0, ADAM(.maximize = false) },
          { 2, ADAM(.weight_decay = 0.1) }, { 4, ADAM(.weight_decay = 0.1, .maximize = true) });
    CHECK(adamw_betas_change, adamw, { 0, ADAMW(.maximize = false) },
          { 2, BR_OPTIONS(br_adamw, .lr = 0.2, .beta1 = 0.8, .beta2 = 0.9) },
          { 4, BR_OPTIONS(br_adamw, .lr = 0.2, .beta1 = 0.8, .beta2 = 0.9, .maximize = true) });
    CHECK(rmsprop_centered_off_on, rmsprop, { 0, RMSPROP(.centered = true) },
          { 3, RMSPROP(.centered = false) }, { 5, RMSPROP(.centered = true) });
    CHECK(rmsprop_momentum_off_on, rmsprop, { 0, RMSPROP(.momentum = 0.9) },
          { 3, RMSPROP(.momentum = 0) }, { 5, RMSPROP(.momentum = 0.9) });
    CHECK(adagrad_decays_on, adagrad, { 0, ADAGRAD(.maximize = false) },
          { 2, ADAGRAD(.lr_decay = 0.5) },
          { 4, ADAGRAD(.lr_decay = 0.5, .weight_decay = 0.1, .maximize = true) });
}

Test(changed_options, steps_equal_pytorch)
{
    check_all(false);
}

/* A program that saves and loads after each step takes the same steps. */
Test(changed_options, steps_equal_pytorch_after_loading)
{
    check_all(true);
}

/* ---- State dicts ----------------------------------------------------------------------------- */

/* Two modules, each in a group of its own. */
typedef struct groups {
    single *a, *b;
    br_optim *optim;
    br_scheduler *scheduler;
} groups;

static groups groups_new(const br_optim_kind *kind, const void *first, const void *second)
{
    groups g = { .a = single_new(), .b = single_new() };
    br_named_list *list = br_parameters(br_base(g.b));
    g.optim = br_optim_for(kind, br_base(g.a), first);
    br_optim_add_group(g.optim, list, second);
    br_named_list_free(list);
    check_ok();
    return g;
}

static void groups_free(groups *g)
{
    br_scheduler_free(g->scheduler);
    br_optim_free(g->optim);
    br_module_free(g->a);
    br_module_free(g->b);
}

static const br_optim_kind *kind_of(br_optim *optim)
{
    const br_optim_kind *kind = br_optim_kind_of(optim);
    br_optim_free(optim);
    return kind;
}

static void check_same_state(const groups *a, const groups *b)
{
    br_named_list *x = br_optim_state_dict(a->optim), *y = br_optim_state_dict(b->optim);
    cr_assert_eq(x->count, y->count);
    for (int64_t i = 0; i < x->count; i++) {
        cr_assert_str_eq(x->items[i].name, y->items[i].name);
        cr_assert(br_equal(x->items[i].tensor, y->items[i].tensor), "%s", x->items[i].name);
    }
    br_named_list_free(x);
    br_named_list_free(y);
}

static void check_comes_back(const br_optim_kind *kind, const void *first, const void *second)
{
    char path[] = "/tmp/brasa_options_XXXXXX";
    close(mkstemp(path));
    groups a = groups_new(kind, first, second), b = groups_new(kind, NULL, NULL);
    a.scheduler = br_exponential_lr(a.optim, 0.5);
    br_scheduler_step(a.scheduler);
    br_checkpoint c = { .optim = a.optim };
    cr_assert(br_checkpoint_save(path, &c), "%s", br_error_message());
    c.optim = b.optim;
    cr_assert(br_checkpoint_load(path, &c), "%s", br_error_message());
    check_same_state(&a, &b);
    unlink(path);
    groups_free(&a);
    groups_free(&b);
}

/* No option has its default, and the numbers have no exact f32. */
Test(changed_options, a_checkpoint_holds_all_options)
{
    check_comes_back(
        kind_of(br_adam_new(NULL, NULL)),
        BR_OPTIONS(br_adam, .lr = 0.3, .beta1 = 0.1, .beta2 = 0.2, .eps = 0.1, .amsgrad = true),
        BR_OPTIONS(br_adam, .lr = 0.7, .weight_decay = 0.6, .maximize = true));
    check_comes_back(
        kind_of(br_adamw_new(NULL, NULL)),
        BR_OPTIONS(br_adamw, .lr = 0.3, .beta1 = 0.1, .beta2 = 0.2, .eps = 0.1, .amsgrad = true),
        BR_OPTIONS(br_adamw, .lr = 0.7, .weight_decay = 0.6, .maximize = true));
    check_comes_back(
        kind_of(br_sgd_new(NULL, NULL)),
        BR_OPTIONS(br_sgd, .lr = 0.3, .momentum = 0.7, .dampening = 0.1, .weight_decay = 0.2),
        BR_OPTIONS(br_sgd, .lr = 0.7, .momentum = 0.1, .nesterov = true, .maximize = true));
    check_comes_back(
        kind_of(br_rmsprop_new(NULL, NULL)),
        BR_OPTIONS(br_rmsprop, .lr = 0.3, .alpha = 0.7, .eps = 0.1, .centered = true),
        BR_OPTIONS(br_rmsprop, .weight_decay = 0.1, .momentum = 0.1, .maximize = true));
    check_comes_back(
        kind_of(br_adagrad_new(NULL, NULL)),
        BR_OPTIONS(br_adagrad, .lr = 0.3, .lr_decay = 0.7, .weight_decay = 0.1),
        BR_OPTIONS(br_adagrad, .initial_accumulator_value = 0.1, .eps = 0.2, .maximize = true));
}

Test(changed_options, a_checkpoint_holds_the_options_of_muon)
{
    br_optim *muon = br_muon_new(NULL, NULL), *next = br_muon_new(NULL, NULL);
    br_named_list *none = br_named_list_new();
    br_optim_add_group(muon, none,
                       BR_OPTIONS(br_muon, .lr = 0.3, .weight_decay = 0.7, .momentum = 0.1,
                                  .nesterov = false, .ns_coefficients = { 0.1, 0.2, 0.3 },
                                  .eps = 0.6, .ns_steps = 3,
                                  .adjust_lr = BR_MUON_SPECTRAL_UNCLAMPED));
    br_optim_add_group(next, none, NULL);
    br_named_list *state = br_optim_state_dict(muon);
    cr_assert(br_optim_load_state_dict(next, state), "%s", br_error_message());
    const br_muon_options *o = br_optim_group_options(next, 0);
    cr_assert_eq(o->lr, 0.3);
    cr_assert_eq(o->ns_coefficients.a, 0.1);
    cr_assert_eq(o->ns_coefficients.c, 0.3);
    cr_assert_eq(o->ns_steps, 3);
    cr_assert_eq(o->adjust_lr, BR_MUON_SPECTRAL_UNCLAMPED);
    cr_assert_not(o->nesterov);
    br_named_list_free(state);
    br_named_list_free(none);
    br_optim_free(muon);
    br_optim_free(next);
}

/* As in PyTorch, a scheduler that is created after loading uses the initial rate of the first. */
Test(changed_options, the_initial_rate_comes_back)
{
    const br_optim_kind *kind = kind_of(br_sgd_new(NULL, NULL));
    groups a = groups_new(kind, BR_OPTIONS(br_sgd, .lr = 0.8), BR_OPTIONS(br_sgd, .lr = 0.4));
    groups b = groups_new(kind, NULL, NULL);
    a.scheduler = br_exponential_lr(a.optim, 0.5);
    br_scheduler_step(a.scheduler);
    br_named_list *state = br_optim_state_dict(a.optim);
    cr_assert_eq(br_item(br_named_list_get(state, "param_groups.1.lr")), 0.2);
    cr_assert_eq(br_item(br_named_list_get(state, "param_groups.1.initial_lr")), 0.4);
    cr_assert(br_optim_load_state_dict(b.optim, state), "%s", br_error_message());
    cr_assert_eq(br_optim_get_lr(b.optim, 1), 0.2);
    b.scheduler = br_cosine_annealing_warm_restarts(b.optim, 5, 1, 0);
    cr_assert_eq(br_optim_get_lr(b.optim, 1), 0.4);
    br_named_list_free(state);
    groups_free(&a);
    groups_free(&b);
}

/* The state of a parameter is no option, although its name begins like one. */
Test(changed_options, a_parameter_named_like_an_option)
{
    br_scope *scope = br_scope_begin();
    br_tensor *p = br_set_requires_grad(br_ones(BR_SHAPE(2), BR_F64), true);
    br_named_list *list = br_named_list_new();
    cr_assert(br_named_list_add(list, "param_groups.0.weight", p));
    br_optim *from = br_adam_new(list, NULL), *to = br_adam_new(list, NULL);
    br_set_grad(p, br_full(BR_SHAPE(2), 3, BR_F64));
    cr_assert(br_optim_step(from));
    br_named_list *state = br_optim_state_dict(from);
    cr_assert(br_optim_load_state_dict(to, state), "%s", br_error_message());
    br_named_list *loaded = br_optim_state_dict(to);
    const char *name = "param_groups.0.weight.exp_avg";
    cr_assert_gt(br_at(br_named_list_get(state, name), BR_SHAPE(1)), 0);
    cr_assert(br_equal(br_named_list_get(loaded, name), br_named_list_get(state, name)));
    br_named_list_free(loaded);
    br_named_list_free(state);
    br_optim_free(to);
    br_optim_free(from);
    br_named_list_free(list);
    br_scope_end(scope);
}

/* Loads the state of `from` with one tensor replaced, or left out if t is NULL. */
static void check_refused(const groups *from, br_optim *to, const char *name, br_tensor *t,
                          const char *part)
{
    br_named_list *state = br_optim_state_dict(from->optim), *changed = br_named_list_new();
    for (int64_t i = 0; i < state->count; i++)
        if (strcmp(state->items[i].name, name) != 0)
            br_named_list_add(changed, state->items[i].name, state->items[i].tensor);
    if (t)
        br_named_list_add(changed, name, t);
    check_fails(br_optim_load_state_dict(to, changed), part);
    cr_assert_eq(br_optim_get_lr(to, 0), 0.5);
    br_named_list_free(changed);
    br_named_list_free(state);
}

Test(changed_options, options_that_do_not_match_are_refused)
{
    const br_optim_kind *kind = kind_of(br_sgd_new(NULL, NULL));
    groups a = groups_new(kind, BR_OPTIONS(br_sgd, .lr = 0.8), BR_OPTIONS(br_sgd, .lr = 0.4));
    groups b = groups_new(kind, BR_OPTIONS(br_sgd, .lr = 0.5), NULL);
    br_optim *one = br_sgd(br_base(b.a), BR_OPTIONS(br_sgd, .lr = 0.5));
    br_scope *scope = br_scope_begin();
    br_tensor *nan = br_full(BR_SCALAR, NAN, BR_F64);
    check_refused(&a, b.optim, "param_groups.1.momentum", NULL,
                  "param_groups.1.momentum is missing, but sgd has this option");
    check_refused(&a, b.optim, "param_groups.0.lr", br_ones(BR_SHAPE(1), BR_F64),
                  "param_groups.0.lr is [1] f64, must be [] f64");
    check_refused(&a, b.optim, "param_groups.0.nesterov", nan,
                  "nesterov is [] f64, must be [] bool");
    check_refused(&a, b.optim, "param_groups.1.lr", nan, "the learning rate of group 1 is NaN");
    check_refused(&a, b.optim, "param_groups.1.momentum", br_full(BR_SCALAR, -1, BR_F64),
                  "momentum is -1, must not be negative");
    check_refused(&a, b.optim, "param_groups.1.amsgrad", nan,
                  "the state has 13 options \"param_groups.*\", but this sgd with 2 groups has 12");
    check_refused(&a, one, "", NULL, "but this sgd with 1 groups has 6");
    check_refused(&a, b.optim, "p.momentum", nan, "sgd has no state named p.momentum");
    br_scope_end(scope);
    br_optim_free(one);
    groups_free(&a);
    groups_free(&b);
}

/* Files of older versions have the state alone, and their scheduler holds the rates. */
Test(changed_options, a_state_without_options_keeps_the_options)
{
    const br_optim_kind *kind = kind_of(br_sgd_new(NULL, NULL));
    groups a = groups_new(kind, BR_OPTIONS(br_sgd, .lr = 0.8, .momentum = 0.5), NULL);
    groups b = groups_new(kind, BR_OPTIONS(br_sgd, .lr = 0.5, .momentum = 0.5), NULL);
    br_scope *scope = br_scope_begin();
    give_gradient(a.a, 1);
    br_optim_step(a.optim);
    br_named_list *all = br_optim_state_dict(a.optim);
    br_named_list *state = br_named_list_filter(all, 1, (const char *[]){ "param_groups.*" }, true);
    cr_assert_eq(state->count, 1);
    cr_assert(br_optim_load_state_dict(b.optim, state), "%s", br_error_message());
    cr_assert_eq(br_optim_get_lr(b.optim, 0), 0.5);
    br_named_list_free(state);
    br_named_list_free(all);
    br_scope_end(scope);
    groups_free(&a);
    groups_free(&b);
}

Test(changed_options, a_checkpoint_without_options_gets_its_rates_from_the_scheduler)
{
    char path[] = "/tmp/brasa_options_XXXXXX";
    close(mkstemp(path));
    const br_optim_kind *kind = kind_of(br_sgd_new(NULL, NULL));
    groups a = groups_new(kind, BR_OPTIONS(br_sgd, .lr = 0.8), NULL);
    groups b = groups_new(kind, NULL, NULL);
    a.scheduler = br_exponential_lr(a.optim, 0.5);
    br_scheduler_step(a.scheduler);
    b.scheduler = br_exponential_lr(b.optim, 0.5);
    br_checkpoint c = { .scheduler = a.scheduler };
    cr_assert(br_checkpoint_save(path, &c), "%s", br_error_message());
    c.scheduler = b.scheduler;
    cr_assert(br_checkpoint_load(path, &c), "%s", br_error_message());
    cr_assert_eq(br_optim_get_lr(b.optim, 0), 0.4);
    unlink(path);
    groups_free(&a);
    groups_free(&b);
}

/* The momentum of a cycle, which is a part of a sequence, too. */
Test(changed_options, a_checkpoint_without_options_gets_its_momentum_from_the_scheduler)
{
    char path[] = "/tmp/brasa_options_XXXXXX";
    close(mkstemp(path));
    groups runs[2];
    for (int i = 0; i < 2; i++) {
        runs[i] =
            groups_new(kind_of(br_sgd_new(NULL, NULL)), BR_OPTIONS(br_sgd, .momentum = 0.9), NULL);
        br_optim *o = runs[i].optim;
        br_scheduler *parts[] = {
            br_step_lr(o, 2, 0.5),
            br_one_cycle_lr(o, BR_OPTIONS(br_one_cycle, .max_lr = 1, .total_steps = 9)),
        };
        runs[i].scheduler = br_sequential_lr(o, 2, parts, (int64_t[]){ 1 });
        cr_assert_not_null(runs[i].scheduler, "%s", br_error_message());
    }
    for (int i = 0; i < 3; i++)
        br_scheduler_step(runs[0].scheduler);
    const br_sgd_options *saved = br_optim_group_options(runs[0].optim, 0);
    const br_sgd_options *loaded = br_optim_group_options(runs[1].optim, 0);
    cr_assert(saved->momentum != loaded->momentum);
    br_checkpoint c = { .scheduler = runs[0].scheduler };
    cr_assert(br_checkpoint_save(path, &c), "%s", br_error_message());
    c.scheduler = runs[1].scheduler;
    cr_assert(br_checkpoint_load(path, &c), "%s", br_error_message());
    cr_expect_eq(saved->lr, loaded->lr);
    cr_expect_eq(saved->momentum, loaded->momentum);
    unlink(path);
    groups_free(&runs[0]);
    groups_free(&runs[1]);
}

/* The loaded options need no state for amsgrad: it ends, and is not saved again. */
Test(changed_options, a_state_that_loaded_options_do_not_need_ends)
{
    br_scope *scope = br_scope_begin();
    br_linear *linear = br_linear_new(2, 1, false);
    br_optim *with = br_adam(br_base(linear), BR_OPTIONS(br_adam, .amsgrad = true));
    br_optim *without = br_adam(br_base(linear), NULL);
    br_backward(br_sum(br_linear_forward(linear, br_ones(BR_SHAPE(1, 2), BR_F32))));
    cr_assert(br_optim_step(with) && br_optim_step(without));
    br_named_list *state = br_optim_state_dict(without);
    cr_assert(br_optim_load_state_dict(with, state), "%s", br_error_message());
    br_named_list *loaded = br_optim_state_dict(with);
    cr_assert_eq(loaded->count, state->count);
    cr_assert_null(br_named_list_get(loaded, "weight.max_exp_avg_sq"));
    br_named_list_free(loaded);
    br_named_list_free(state);
    br_optim_free(with);
    br_optim_free(without);
    br_module_free(linear);
    br_scope_end(scope);
}
