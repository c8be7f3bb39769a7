/* tests/optim/test_optim.c - parameter groups, options, errors and state of optimizers, and the
 * warning about training loops without a scope. */
#include "nn/nn_internal.h"
#include "tests/memory.h"

#include <brasa/optim.h>

TestSuite(optim, .init = check_begin, .fini = check_end);

/* Options in a state dict of one group, with the learning rate. */
enum { ADAM_OPTIONS = 7, SGD_OPTIONS = 6 };

/* Returns a model in which "0" is a Linear [2, 3] with bias and "1" a LayerNorm [2]; all gradients
 * are 1. */
static br_sequential *model_new(void)
{
    br_sequential *s =
        br_sequential_new(BR_MODULES(br_linear_new(3, 2, true), br_layer_norm_new(2, NULL)));
    br_named_list *list = br_parameters(br_base(s));
    br_scope *scope = br_scope_begin();
    for (int64_t i = 0; list && i < list->count; i++)
        br_set_grad(list->items[i].tensor, br_ones_like(list->items[i].tensor));
    br_scope_end(scope);
    br_named_list_free(list);
    return s;
}

static double value(br_sequential *s, const char *name)
{
    br_tensor *t = br_module_get(br_base(s), name);
    return br_at(t, br_ndim(t), (int64_t[]){ 0, 0 });
}

Test(optim, options_are_checked)
{
    check_fails(br_adam_new(NULL, BR_OPTIONS(br_adam, .lr = -1)), "adam: lr is -1");
    check_fails(br_adam_new(NULL, BR_OPTIONS(br_adam, .lr = NAN)), "adam: lr is nan");
    check_fails(br_adam_new(NULL, BR_OPTIONS(br_adam, .beta1 = 1)),
                "beta1 is 1, must be in [0, 1)");
    check_fails(br_adam_new(NULL, BR_OPTIONS(br_adam, .beta2 = -0.5)), "beta2 is -0.5");
    check_fails(br_adam_new(NULL, BR_OPTIONS(br_adam, .eps = -1e-8)), "eps is -1e-08");
    check_fails(br_adamw_new(NULL, BR_OPTIONS(br_adamw, .eps = -1)), "adamw: eps is -1");
    check_fails(br_rmsprop_new(NULL, BR_OPTIONS(br_rmsprop, .eps = -1)), "rmsprop: eps is -1");
    check_fails(br_rmsprop_new(NULL, BR_OPTIONS(br_rmsprop, .alpha = -1)), "alpha is -1");
    check_fails(br_adagrad_new(NULL, BR_OPTIONS(br_adagrad, .eps = -1)), "adagrad: eps is -1");
    check_fails(br_adam_new(NULL, BR_OPTIONS(br_adam, .weight_decay = -2)), "weight_decay is -2");
    check_fails(br_sgd_new(NULL, BR_OPTIONS(br_sgd, .lr = -1)), "sgd: lr is -1");
    check_fails(br_sgd_new(NULL, BR_OPTIONS(br_sgd, .momentum = -1)), "momentum is -1");
    check_fails(br_sgd_new(NULL, BR_OPTIONS(br_sgd, .weight_decay = -1)), "weight_decay is -1");
    check_fails(br_sgd_new(NULL, BR_OPTIONS(br_sgd, .nesterov = true)),
                "nesterov requires momentum > 0");
    check_fails(
        br_sgd_new(NULL, BR_OPTIONS(br_sgd, .nesterov = true, .momentum = 0.9, .dampening = 0.1)),
        "dampening == 0 (got 0.9 and 0.1)");
    check_fails(br_adam(NULL, NULL), "adam: module is NULL");
    check_fails(br_optim_step(NULL), "optim is NULL");
    br_optim_free(NULL);
}

Test(optim, groups_have_their_own_options)
{
    br_sequential *s = model_new();
    br_named_list *all = br_parameters(br_base(s));
    const char *globs[] = { "*.bias", "1.*" };
    br_named_list *plain = br_named_list_filter(all, 2, globs, false);
    br_named_list *decayed = br_named_list_filter(all, 2, globs, true);
    cr_assert_eq(plain->count, 3);
    cr_assert_eq(decayed->count, 1);
    br_optim *optim = br_sgd_new(plain, BR_OPTIONS(br_sgd, .lr = 0.5));
    cr_assert_eq(
        br_optim_add_group(optim, decayed, BR_OPTIONS(br_sgd, .lr = 0.25, .weight_decay = 1)), 1);
    cr_assert_eq(br_optim_num_groups(optim), 2);
    double weight = value(s, "0.weight"), bias = value(s, "0.bias");
    cr_assert(br_optim_step(optim));
    check_close(value(s, "0.bias"), bias - 0.5, 1e-7);
    check_close(value(s, "0.weight"), weight - 0.25 * (1 + weight), 1e-7);
    cr_assert_eq(br_optim_get_lr(optim, 1), 0.25);
    br_optim_set_lr(optim, 1, 0.125);
    cr_assert_eq(br_optim_get_lr(optim, 1), 0.125);
    cr_assert_eq(br_optim_get_lr(optim, -1), 0.5);
    br_optim_set_lr(optim, -1, 0);
    cr_assert_eq(br_optim_get_lr(optim, 1), 0);
    weight = value(s, "0.weight");
    cr_assert(br_optim_step(optim));
    cr_assert_eq(value(s, "0.weight"), weight);
    br_named_list *none = br_named_list_new();
    cr_assert_eq(br_optim_add_group(optim, none, NULL), 2); /* with the rate set for all groups */
    cr_assert_eq(br_optim_get_lr(optim, 2), 0);
    br_named_list_free(none);
    br_optim_set_lr(optim, 0, -1);
    check_fails(NULL, "optim_set_lr: lr is -1");
    check_fails(br_optim_get_lr(optim, 3) >= 0, "group 3 is out of range for 3 groups");
    br_optim_free(optim);
    br_named_list_free(plain);
    br_named_list_free(decayed);
    br_named_list_free(all);
    br_module_free(s);
}

/* As in PyTorch, an optimizer must be made with parameters, but a group may be empty. */
Test(optim, an_optimizer_without_parameters_is_an_error)
{
    br_named_list *none = br_named_list_new();
    br_sequential *empty = br_sequential_new(0, NULL);
    check_fails(br_adam_new(none, NULL), "adam: the list of parameters is empty: pass parameters");
    check_fails(br_sgd_new(none, NULL), "sgd: the list of parameters is empty");
    check_fails(br_sgd(br_base(empty), NULL), "sgd: module Sequential has no parameters: its");
    check_fails(br_muon(br_base(empty), NULL), "muon: module Sequential has no parameters");
    br_scope *scope = br_scope_begin();
    br_named_tensor item = { NULL, br_ones(BR_SHAPE(2), BR_F32) };
    check_fails(br_sgd_new(&(br_named_list){ 1, &item }, NULL),
                "sgd: a parameter in the list has no name");
    item = (br_named_tensor){ "w", NULL };
    check_fails(br_sgd_new(&(br_named_list){ 1, &item }, NULL),
                "sgd: a parameter in the list has no tensor");
    br_scope_end(scope);
    br_optim *optim = br_adam_new(NULL, NULL);
    check_fails(br_optim_step(optim), "optim_step: the adam optimizer has no parameters: add");
    cr_assert_eq(br_optim_add_group(optim, none, NULL), 0);
    cr_assert(br_optim_step(optim), "%s", br_error_message());
    br_optim_free(optim);
    br_module_free(empty);
    br_named_list_free(none);
}

/* The first parameter of a refused group can be added later. */
Test(optim, a_refused_group_changes_nothing)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x[3];
    br_named_list *list = br__named_list_new(true), *next = br__named_list_new(true);
    for (int i = 0; i < 3; i++)
        x[i] = br_set_requires_grad(br_ones(BR_SHAPE(2), BR_F64), true);
    br__named_list_add(list, "a", x[0]);
    br_optim *optim = br_sgd_new(list, NULL);
    br__named_list_add(next, "b", x[1]);
    br__named_list_add(next, "c", x[2]);
    br__named_list_add(next, "again", x[0]);
    cr_assert_eq(br_optim_add_group(optim, next, NULL), -1);
    cr_assert(strstr(br_error_message(), "again is already in the optimizer, as a of group 0"));
    br_clear_error();
    br_named_list_free(next);
    next = br__named_list_new(true);
    br__named_list_add(next, "b", x[1]);
    cr_assert_eq(br_optim_add_group(optim, next, BR_OPTIONS(br_sgd, .lr = 0.5)), 1);
    for (int i = 0; i < 3; i++)
        br_set_grad(x[i], br_ones(BR_SHAPE(2), BR_F64));
    cr_assert(br_optim_step(optim), "%s", br_error_message());
    cr_assert_eq(br_at(x[1], 1, (int64_t[]){ 0 }), 0.5);
    cr_assert_eq(br_at(x[2], 1, (int64_t[]){ 0 }), 1);
    br_optim_free(optim);
    br_named_list_free(list);
    br_named_list_free(next);
    br_scope_end(scope);
}

Test(optim, a_parameter_can_be_in_only_one_group)
{
    br_sequential *s = model_new();
    br_named_list *all = br_parameters(br_base(s));
    br_optim *optim = br_adam_new(NULL, NULL);
    cr_assert_eq(br_optim_num_groups(optim), 0);
    cr_assert_eq(br_optim_get_lr(optim, -1), 1e-3);
    cr_assert_eq(br_optim_add_group(optim, all, NULL), 0);
    cr_assert_eq(br_optim_add_group(optim, all, NULL), -1);
    cr_assert_str_eq(br_error_message(),
                     "adam: 0.weight is already in the optimizer, as 0.weight of group 0");
    br_clear_error();
    cr_assert_eq(br_optim_num_groups(optim), 1);
    cr_assert_eq(br_optim_add_group(optim, NULL, NULL), -1);
    br_clear_error();
    br_optim_free(optim);

    br_scope *scope = br_scope_begin();
    br_named_list *bad = br__named_list_new(true);
    br_tensor *x = br_set_requires_grad(br_ones(BR_SHAPE(2), BR_F32), true);
    br__named_list_add(bad, "x", x);
    br__named_list_add(bad, "x", x);
    check_fails(br_adam_new(bad, NULL), "x is already in the optimizer");
    br_named_list_free(bad);
    bad = br__named_list_new(true);
    br__named_list_add(bad, "y", br_mul_scalar(x, 2));
    check_fails(br_sgd_new(bad, NULL), "sgd: y [2] was computed by mul_scalar: only leaves");
    br_named_list_free(bad);
    br_scope_end(scope);
    br_named_list_free(all);
    br_module_free(s);
}

Test(optim, a_failed_step_changes_nothing)
{
    br_sequential *s = model_new();
    br_optim *optim = br_adam(br_base(s), NULL);
    double weight = value(s, "0.weight");
    br_raise(BR_ERROR_ARGUMENT, "an earlier error");
    check_fails(br_optim_step(optim), "an earlier error");
    cr_assert_eq(value(s, "0.weight"), weight);

    /* The module is converted after the state was created, so the state's dtype no longer matches.
     */
    cr_assert(br_optim_step(optim));
    weight = value(s, "0.weight");
    cr_assert(br_module_to(br_base(s), BR_F64));
    br_scope *scope = br_scope_begin();
    br_tensor *bias = br_module_get(br_base(s), "1.bias");
    br_set_grad(bias, br_ones_like(bias));
    br_tensor *w = br_module_get(br_base(s), "0.weight");
    br_set_grad(w, br_ones_like(w));
    check_fails(br_optim_step(optim), "0.weight is f64, but its state was created when it was f32");
    cr_assert_eq(value(s, "0.weight"), weight);
    br_scope_end(scope);
    br_optim_free(optim);
    br_module_free(s);
}

Test(optim, parameters_without_gradients_are_skipped)
{
    br_sequential *s = model_new();
    br_optim *optim = br_adam(br_base(s), NULL);
    br_optim_zero_grad(optim);
    cr_assert_null(br_grad_of(br_module_get(br_base(s), "0.weight")));
    cr_assert(br_optim_step(optim));
    br_named_list *state = br_optim_state_dict(optim);
    cr_assert_eq(state->count, ADAM_OPTIONS, "parameters without gradients have no state");
    br_named_list_free(state);
    br_optim_free(optim);
    br_module_free(s);
}

Test(optim, steady_steps_allocate_nothing)
{
    if (br__debug)
        cr_skip_test("the debug mode makes a new scope each time");
    counted.left = INT64_MAX;
    cr_assert(br_set_allocator(&(br_allocator){ counted_allocate, counted_deallocate, NULL }), "%s",
              br_error_message());
    br_sequential *s = model_new();
    br_optim *optim = br_adam(br_base(s), NULL);
    cr_assert(br_optim_step(optim));
    counted.left = 0;
    cr_assert(br_optim_step(optim), "%s", br_error_message());
    counted.left = INT64_MAX;
    br_optim_free(optim);
    br_module_free(s);
    cr_assert(br_set_allocator(NULL));
}

/* ---- State ----------------------------------------------------------------------------------- */

Test(optim, state_continues_a_run)
{
    br_sequential *a = model_new(), *b = model_new();
    br_optim *first = br_adam(br_base(a), NULL), *second = br_adam(br_base(b), NULL);
    br_optim_step(first);
    br_optim_step(first);
    br_named_list *weights = br_state_dict(br_base(a)), *state = br_optim_state_dict(first);
    const char *names[] = { "0.weight.exp_avg", "0.weight.exp_avg_sq", "0.weight.step",
                            "0.bias.exp_avg" };
    cr_assert_eq(state->count, 12 + ADAM_OPTIONS);
    for (int i = 0; i < 4; i++)
        cr_assert_str_eq(state->items[i].name, names[i]);
    cr_assert_eq(br_item_i64(state->items[2].tensor), 2);
    cr_assert(br_load_state_dict(br_base(b), weights, true, NULL));
    cr_assert(br_optim_load_state_dict(second, state), "%s", br_error_message());
    br_optim_step(first);
    br_optim_step(second);
    cr_assert_eq(value(a, "0.weight"), value(b, "0.weight"));
    cr_assert_eq(value(a, "1.bias"), value(b, "1.bias"));
    br_named_list_free(weights);
    br_named_list_free(state);
    br_optim_free(first);
    br_optim_free(second);
    br_module_free(a);
    br_module_free(b);
}

Test(optim, a_loaded_momentum_is_not_initialized_again)
{
    br_sequential *a = model_new(), *b = model_new();
    br_sgd_options options = *BR_OPTIONS(br_sgd, .lr = 1, .momentum = 0.5, .dampening = 0.5);
    br_optim *first = br_sgd(br_base(a), &options), *second = br_sgd(br_base(b), &options);
    br_optim_step(first);
    br_named_list *state = br_optim_state_dict(first);
    cr_assert_eq(state->count, 4 + SGD_OPTIONS);
    cr_assert_str_eq(state->items[0].name, "0.weight.momentum_buffer");
    cr_assert(br_optim_load_state_dict(second, state));
    double before = value(b, "0.weight");
    br_optim_step(second); /* 0.5 * 1 + 0.5 * 1 */
    check_close(value(b, "0.weight"), before - 1, 1e-6);
    br_named_list_free(state);
    br_named_list *empty = br__named_list_new(false);
    cr_assert(br_optim_load_state_dict(second, empty));
    state = br_optim_state_dict(second);
    cr_assert_eq(state->count, SGD_OPTIONS);
    br_named_list_free(state);
    br_named_list_free(empty);
    cr_assert(br_optim_set_half_update(second, BR_HALF_MASTER), "%s", br_error_message());
    cr_assert(br_optim_set_half_update(second, BR_HALF_NEAREST), "%s", br_error_message());
    /* As in a new optimizer: the first step does not dampen the gradient. */
    before = value(b, "0.weight");
    br_optim_step(second);
    check_close(value(b, "0.weight"), before - 1, 1e-6);
    br_optim_free(first);
    br_optim_free(second);
    br_module_free(a);
    br_module_free(b);
}

static void check_load_fails(br_optim *optim, const char *name, br_tensor *t, const char *part)
{
    br_named_list *state = br_optim_state_dict(optim), *changed = br__named_list_new(false);
    bool replaced = false;
    for (int64_t i = 0; i < state->count; i++) {
        bool same = strcmp(state->items[i].name, name) == 0;
        replaced |= same;
        if (!same || t)
            br__named_list_add(changed, state->items[i].name, same ? t : state->items[i].tensor);
    }
    if (!replaced)
        br__named_list_add(changed, name, t);
    check_fails(br_optim_load_state_dict(optim, changed), part);
    br_named_list_free(changed);
    br_named_list_free(state);
}

static const struct {
    size_t struct_size;
    double lr;
} no_options = { sizeof no_options, 1 };

/* Adds 1 to the parameter in the first step, 10 in later ones. */
static bool step_that_knows_the_first(br_optim_work *work)
{
    work->new_param = br_add_scalar(work->param, work->first ? 1 : 10);
    work->new_state[0] = work->state[0];
    return !br_failed();
}

Test(optim, the_first_step_is_known_unless_a_state_is_loaded)
{
    const br_optim_kind kind = { .name = "counting",
                                 .defaults = &no_options,
                                 .states = { { .name = "state" } },
                                 .step = step_that_knows_the_first };
    br_linear *self = br_linear_new(1, 1, false);
    br_scope *scope = br_no_grad_begin();
    br_fill_(self->weight, 0);
    br_set_grad(self->weight, br_ones(BR_SHAPE(1, 1), BR_F32));
    br_optim *optim = br_optim_for(&kind, br_base(self), NULL);
    const double want[] = { 1, 11, 21 };
    for (int t = 0; t < 3; t++) {
        cr_assert(br_optim_step(optim), "%s", br_error_message());
        cr_assert_eq(br_item(self->weight), want[t]);
    }
    br_named_list *state = br_optim_state_dict(optim);
    br_optim *second = br_optim_for(&kind, br_base(self), NULL);
    cr_assert(br_optim_load_state_dict(second, state) && br_optim_step(second), "%s",
              br_error_message());
    cr_assert_eq(br_item(self->weight), 31);
    br_named_list_free(state);
    br_optim_free(second);
    br_optim_free(optim);
    br_scope_end(scope);
    br_module_free(self);
}

static void check_load_as(br_optim *optim, const char *name, br_tensor *t)
{
    br_named_list *state = br_optim_state_dict(optim);
    for (int64_t i = 0; i < state->count; i++)
        if (strcmp(state->items[i].name, name) == 0)
            br_copy_(state->items[i].tensor, t);
    cr_assert(br_optim_load_state_dict(optim, state), "%s", br_error_message());
    br_named_list_free(state);
    state = br_optim_state_dict(optim);
    br_tensor *loaded = br_named_list_get(state, name);
    cr_assert(br_equal(br_to_device(loaded, br_device_of(t)), t));
    br_named_list_free(state);
}

Test(optim, a_state_before_the_first_step_is_loaded)
{
    br_sequential *s = model_new();
    br_optim *optim = br_adam(br_base(s), NULL);
    br_optim_step(optim);
    br_scope *scope = br_scope_begin();
    check_load_as(optim, "0.bias.step", br_zeros(BR_SCALAR, BR_I64));
    br_scope_end(scope);
    br_optim_free(optim);
    br_module_free(s);
}

Test(optim, mismatched_state_is_refused_as_a_whole)
{
    br_sequential *s = model_new();
    br_optim *optim = br_adam(br_base(s), NULL);
    br_optim_step(optim);
    br_scope *scope = br_scope_begin();
    br_tensor *one = br_ones(BR_SCALAR, BR_I64), *line = br_ones(BR_SHAPE(3), BR_F32);
    check_load_fails(optim, "0.weight.exp_avg", line,
                     "0.weight.exp_avg is [3] f32, must be [2, 3] f32");
    check_load_fails(optim, "0.bias.exp_avg", br_ones(BR_SHAPE(2), BR_F64),
                     "exp_avg is [2] f64, must be [2] f32");
    check_load_fails(optim, "0.bias.step", br_full(BR_SCALAR, -1, BR_I64),
                     "0.bias.step is [] i64, must be [] i64 and not negative");
    check_load_fails(optim, "0.bias.step", NULL, "0.bias.step is missing");
    check_load_fails(optim, "0.bias.momentum_buffer", line, "adam has no state named 0.bias.mom");
    check_load_fails(optim, "2.bias.step", one, "has no state named 2.bias.step");
    check_load_fails(optim, "step", one, "has no state named step");
    check_load_fails(optim, "\x1b[2J\xff", one, "has no state named \\u001b[2J\\xff");
    check_fails(br_optim_load_state_dict(optim, NULL), "state is NULL");
    br_named_list *state = br_optim_state_dict(optim);
    cr_assert_eq(br_item_i64(br_named_list_get(state, "0.bias.step")), 1);
    br_named_list_free(state);
    br_scope_end(scope);
    br_optim_free(optim);
    br_module_free(s);
}

Test(optim, equal_parameter_names_get_different_state_names)
{
    br_linear *a = br_linear_new(2, 2, false), *b = br_linear_new(2, 2, false);
    br_optim *optim = br_sgd(br_base(a), BR_OPTIONS(br_sgd, .momentum = 0.9));
    br_named_list *list = br_parameters(br_base(b));
    cr_assert_eq(br_optim_add_group(optim, list, NULL), 1);
    br_scope *scope = br_scope_begin();
    br_set_grad(b->weight, br_ones_like(b->weight));
    br_optim_step(optim);
    br_scope_end(scope);
    br_named_list *state = br_optim_state_dict(optim);
    cr_assert_eq(state->count, 1 + 2 * SGD_OPTIONS);
    cr_assert_str_eq(state->items[0].name, "weight#1.momentum_buffer");
    br_named_list_free(state);
    br_named_list_free(list);
    br_optim_free(optim);
    br_module_free(a);
    br_module_free(b);
}

static bool run_everything(void)
{
    br_sequential *s = model_new();
    br_optim *optim = br_adam(br_base(s), NULL);
    double before = br_failed() ? 0 : value(s, "0.weight");
    bool stepped = br_optim_step(optim);
    bool failed = br_failed();
    cr_assert_eq(stepped, !failed);
    br_named_list *state = br_optim_state_dict(optim), *list = br_parameters(br_base(s));
    br_optim_load_state_dict(optim, state);
    br_clip_grad_norm_(list, 1, 2, true);
    if (optim && failed) { /* a failed step changes no parameter */
        br_clear_error();
        cr_assert_eq(value(s, "0.weight"), before);
        br_raise(BR_ERROR_MEMORY, "the step failed");
    }
    br_named_list_free(state);
    br_named_list_free(list);
    br_optim_free(optim);
    br_module_free(s);
    return !br_failed();
}

/* A new optimizer gets its states while it loads them. */
static bool load_into_new(void)
{
    br_sequential *s = model_new();
    br_optim *first = br_adam(br_base(s), BR_OPTIONS(br_adam, .lr = 0.5, .amsgrad = true));
    br_optim_step(first);
    br_named_list *state = br_optim_state_dict(first);
    br_optim *second = br_adam(br_base(s), NULL);
    const bool begun = !br_failed(), loaded = br_optim_load_state_dict(second, state);
    if (begun) {
        cr_assert_eq(loaded, !br_failed());
        br_clear_error();
        cr_assert_eq(br_optim_get_lr(second, 0), loaded ? 0.5 : 1e-3);
        const br_adam_options *options = br_optim_group_options(second, 0);
        cr_assert_eq(options->amsgrad, loaded);
        if (!loaded)
            br_raise(BR_ERROR_MEMORY, "the state is not loaded");
    }
    br_named_list_free(state);
    br_optim_free(first);
    br_optim_free(second);
    br_module_free(s);
    return !br_failed();
}

Test(optim, every_allocation_may_fail)
{
    fail_in_turn(run_everything, "run everything");
    fail_in_turn(load_into_new, "load into a new optimizer");
}

/* ---- Loops without a scope ------------------------------------------------------------------- */

static void count_warning(br_error code, const char *message, void *context)
{
    int *warnings = context;
    cr_assert_eq(code, BR_WARNING, "%s", message);
    cr_assert(strstr(message, "open a scope with br_scope_begin() before each step"), "%s",
              message);
    ++*warnings;
}

/* Trains for `steps` steps, each in its own scope if `each` is set. Each step makes two tensors and
 * `more`, and keeps `kept` of them in the outer scope. Returns the number of warnings. */
static int warnings_of(int steps, int more, bool each, int kept)
{
    int warnings = 0;
    br_set_error_callback(count_warning, &warnings);
    br_scope *outer = br_scope_begin();
    br_linear *model = br_linear_new(2, 1, true);
    br_named_list *list = br_parameters(br_base(model));
    br_optim *optim = br_sgd_new(list, NULL);
    br_named_list_free(list);
    br_tensor *x = br_ones(BR_SHAPE(1, 2), BR_F32);
    for (int i = 0; i < steps; i++) {
        br_scope *scope = each ? br_scope_begin() : NULL;
        br_optim_zero_grad(optim);
        for (int j = 0; j < more; j++) {
            br_tensor *t = br_zeros(BR_SCALAR, BR_F32);
            if (j < kept)
                br_scope_return(scope, t);
        }
        br_backward(br_sum(br_linear_forward(model, x)));
        cr_assert(br_optim_step(optim), "%s", br_error_message());
        br_scope_end(scope);
    }
    br_optim_free(optim);
    br_module_free(model);
    br_scope_end(outer);
    br_set_error_callback(NULL, NULL);
    return warnings;
}

Test(optim, a_loop_without_a_scope_causes_one_warning)
{
    cr_assert_eq(warnings_of(20, 100, false, 0), 0);
    cr_assert_eq(warnings_of(30, 0, false, 0), 1); /* a linear layer and a loss */
    cr_assert_eq(warnings_of(500, 4, false, 0), 0);
}

/* A program may keep the loss of every step, and a few more tensors of some steps. */
Test(optim, a_loop_that_keeps_tensors_causes_no_warning)
{
    cr_assert_eq(warnings_of(500, 0, true, 0), 0);
    cr_assert_eq(warnings_of(3000, 1, true, 1), 0);
    cr_assert_eq(warnings_of(300, 3, true, 3), 0);
    cr_assert_eq(warnings_of(600, 3, true, 3), 1);
}

/* Steps that create different numbers of tensors, each in its own scope, do not count as growth. */
Test(optim, steps_that_free_their_tensors_cause_no_warning)
{
    int warnings = 0;
    br_set_error_callback(count_warning, &warnings);
    br_linear *model = br_linear_new(2, 1, true);
    br_named_list *list = br_parameters(br_base(model));
    br_optim *optim = br_sgd_new(list, NULL);
    br_named_list_free(list);
    for (int i = 0; i < 1000; i++) {
        br_scope *scope = br_scope_begin();
        for (int j = 0; j < 100 * (i % 90); j++)
            br_zeros(BR_SCALAR, BR_F32);
        cr_assert(br_optim_step(optim));
        br_scope_end(scope);
    }
    cr_assert_eq(warnings, 0);
    br_set_error_callback(NULL, NULL);
    br_optim_free(optim);
    br_module_free(model);
}
