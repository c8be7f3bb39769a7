/* tests/optim/test_devices.c - steps and clipping describe their work on all tensors to the
 * backends that have them. The second device of these tests is guarded, with a name and entries of
 * its own. */
#include "tensor/tensor_internal.h"
#include "tests/backends/guarded.h"
#include "tests/memory.h"

#include <brasa/optim.h>

TestSuite(optim_devices, .init = check_begin, .fini = check_end);

static br_backend elsewhere;
static void (*guarded_update)(int64_t n, const br_update *work, br_loop_span *spans);
static int calls, updates;

static void count_update(int64_t n, const br_update *work, br_loop_span *spans)
{
    calls++;
    updates += (int)n;
    guarded_update(n, work, spans);
}

/* Moves the layers first .. end - 1 to the second device. */
static void move(br_sequential *s, int first, int end)
{
    if (!elsewhere.name) {
        guarded_copy(&elsewhere, "elsewhere");
        guarded_update = elsewhere.update;
    }
    elsewhere.update = count_update;
    for (int i = first; i < end; i++)
        cr_assert(br_module_to_device(br_module_child_at(br_base(s), i), elsewhere.device));
    calls = updates = 0;
}

/* Returns t, or a copy on the processor. */
static br_tensor *here(br_tensor *t)
{
    return br_to_device(t, (br_device){ BR_CPU, 0 });
}

static br_sequential *model_new(void)
{
    br_manual_seed(1);
    return br_sequential_new(BR_MODULES(br_linear_new(30, 7, false), br_linear_new(31, 7, false),
                                        br_linear_new(32, 7, false), br_linear_new(33, 7, false),
                                        br_linear_new(34, 7, false)));
}

static void set_gradients(br_sequential *s)
{
    br_scope *scope = br_scope_begin();
    br_manual_seed(2);
    br_named_list *list = br_parameters(br_base(s));
    for (const br_named_tensor *p = NULL; (p = br_named_list_next(list, p));)
        br_set_grad(p->tensor,
                    br_to_device(br_randn(br_ndim(p->tensor), br_sizes(p->tensor), BR_F32),
                                 br_device_of(p->tensor)));
    br_named_list_free(list);
    br_scope_end(scope);
}

static br_optim *adamw(br_module *m)
{
    return br_adamw(m, BR_OPTIONS(br_adamw, .amsgrad = true));
}

static br_optim *sgd(br_module *m)
{
    return br_sgd(m, BR_OPTIONS(br_sgd, .momentum = 0.9));
}

static br_optim *rmsprop(br_module *m)
{
    return br_rmsprop(m, BR_OPTIONS(br_rmsprop, .centered = true, .momentum = 0.5));
}

static br_optim *adagrad(br_module *m)
{
    return br_adagrad(m, NULL);
}

static br_optim *muon(br_module *m)
{
    return br_muon(m, NULL);
}

static void check_equal(br_sequential *a, br_sequential *b)
{
    br_scope *scope = br_scope_begin();
    br_named_list *first = br_parameters(br_base(a)), *second = br_parameters(br_base(b));
    for (int64_t i = 0; i < first->count; i++)
        cr_assert(br_equal(here(first->items[i].tensor), here(second->items[i].tensor)), "%s",
                  first->items[i].name);
    br_scope_end(scope);
    br_named_list_free(first);
    br_named_list_free(second);
}

/* Layers 0 and 1 stay, 2 and 3 move, and 4 stays: the second backend gets one call with both. */
static void check_kind(br_optim *(*make)(br_module *m))
{
    br_sequential *a = model_new(), *b = model_new();
    br_optim *first = make(br_base(a)), *second = make(br_base(b));
    move(b, 2, 4);
    for (int t = 1; t <= 3; t++) {
        set_gradients(a);
        set_gradients(b);
        cr_assert(br_optim_step(first) && br_optim_step(second), "%s", br_error_message());
        cr_assert_eq(calls, t);
        cr_assert_eq(updates, 2 * t);
        check_equal(a, b);
    }
    br_optim_free(first);
    br_optim_free(second);
    br_module_free(a);
    br_module_free(b);
}

Test(optim_devices, each_backend_gets_its_updates_in_one_call)
{
    check_kind(adamw);
    check_kind(sgd);
    check_kind(rmsprop);
    check_kind(adagrad);
    check_kind(muon);
}

Test(optim_devices, averages_are_updates_too)
{
    br_sequential *model = model_new();
    move(model, 1, 2);
    br_averaged_model *averaged = br_averaged_model_new(br_base(model), 0);
    cr_assert(br_averaged_model_update(averaged)); /* copies */
    cr_assert_eq(calls, 0);
    cr_assert(br_averaged_model_update(averaged));
    cr_assert_eq(calls, 1);
    elsewhere.update = NULL;
    check_fails(br_averaged_model_update(averaged), "averaged_model: has no kernel on elsewhere");
    br_averaged_model_free(averaged);
    br_module_free(model);
}

/* ---- Clipping -------------------------------------------------------------------------------- */

/* Moves the layers 1 and 2 to the second device, and returns a list of all parameters. */
static br_named_list *with_moved_gradients(br_sequential *s)
{
    move(s, 1, 3);
    set_gradients(s);
    return br_parameters(br_base(s));
}

static void check_equal_gradients(const br_named_list *a, const br_named_list *b)
{
    for (int64_t i = 0; i < a->count; i++)
        cr_assert(
            br_equal(here(br_grad_of(a->items[i].tensor)), here(br_grad_of(b->items[i].tensor))),
            "%s", a->items[i].name);
}

Test(optim_devices, clipping_covers_all_backends)
{
    static const double orders[] = { 2, INFINITY, 1, -INFINITY, 0, 3 };
    br_sequential *model = model_new(), *moved = model_new();
    for (size_t i = 0; i < sizeof orders / sizeof *orders; i++) {
        br_scope *scope = br_scope_begin();
        set_gradients(model);
        br_named_list *one = br_parameters(br_base(model)), *two = with_moved_gradients(moved);
        cr_assert_eq(br_clip_grad_norm_(two, 0.001, orders[i], true),
                     br_clip_grad_norm_(one, 0.001, orders[i], true));
        check_equal_gradients(one, two);
        br_named_list_free(one);
        br_named_list_free(two);
        br_scope_end(scope);
    }
    br_module_free(model);
    br_module_free(moved);
}

Test(optim_devices, clipping_without_an_entry_changes_nothing)
{
    br_sequential *model = model_new(), *other = model_new();
    br_scope *scope = br_scope_begin();
    br_named_list *list = with_moved_gradients(model), *same = with_moved_gradients(other);
    __typeof__(elsewhere.norms) norms = elsewhere.norms;
    elsewhere.norms = NULL;
    check_fails(br_clip_grad_norm_(list, 1, 2, false) >= 0,
                "clip_grad_norm_: has no kernel on elsewhere");
    elsewhere.norms = norms;
    elsewhere.pointwise_each = NULL;
    check_fails(br_clip_grad_norm_(list, 1e-3, 2, false) >= 0,
                "clip_grad_norm_: has no kernel on elsewhere");
    check_fails(br_clip_grad_value_(list, 1e-3), "clip_grad_value_: has no kernel on elsewhere");
    check_equal_gradients(list, same);
    br_named_list_free(list);
    br_named_list_free(same);
    br_scope_end(scope);
    br_module_free(model);
    br_module_free(other);
}

/* ---- Errors ---------------------------------------------------------------------------------- */

static void set_to_zero(const br_optim_work *work, int64_t from, int64_t count)
{
    memset(br_data_f32(work->param) + from, 0, (size_t)count * sizeof(float));
}

Test(optim_devices, a_function_over_elements_needs_the_host)
{
    static const br_sgd_options defaults = { br_sgd_default_fields };
    const br_optim_kind kind = { .name = "own", .defaults = &defaults, .update = set_to_zero };
    br_sequential *model = model_new(), *same = model_new();
    br_optim *optim = br_optim_for(&kind, br_base(model), NULL);
    move(model, 3, 4);
    set_gradients(model);
    check_fails(br_optim_step(optim), "own: 3.weight is on elsewhere, but `update` works on "
                                      "elements in the host's memory: define `step` instead");
    check_equal(model, same);
    br_optim_free(optim);
    br_module_free(model);
    br_module_free(same);
}

Test(optim_devices, a_backend_without_updates_is_named)
{
    br_sequential *model = model_new(), *same = model_new();
    br_optim *optim = br_adam(br_base(model), NULL);
    move(model, 4, 5);
    set_gradients(model);
    elsewhere.update = NULL;
    check_fails(br_optim_step(optim), "adam: has no kernel on elsewhere");
    check_equal(model, same);
    br_optim_free(optim);
    br_module_free(model);
    br_module_free(same);
}

Test(optim_devices, a_parameter_moved_after_a_step_is_refused)
{
    br_sequential *model = model_new();
    br_optim *optim = br_adam(br_base(model), NULL);
    set_gradients(model);
    cr_assert(br_optim_step(optim), "%s", br_error_message());
    move(model, 3, 4);
    set_gradients(model);
    check_fails(br_optim_step(optim),
                "optim_step: 3.weight is on elsewhere, but its state was created when it was on "
                "cpu: create a new optimizer and load the state");
    br_optim_free(optim);
    br_module_free(model);
}
