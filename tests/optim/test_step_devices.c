/* tests/optim/test_step_devices.c - a step describes all its updates to the backends that have the
 * parameters. The second backend of these tests is a copy of the processor's, with a name and
 * entries of its own. */
#include "tensor/tensor_internal.h"
#include "tests/memory.h"

#include <brasa/optim.h>

TestSuite(step_devices, .init = check_begin, .fini = check_end);

static br_backend elsewhere;
static int calls, updates;

static void count_update(int64_t n, const br_update *work, br_loop_span *spans)
{
    calls++;
    updates += (int)n;
    br__cpu_backend.update(n, work, spans);
}

static bool has_no_host_update(br_update_rule rule)
{
    return rule != BR_UPDATE_HOST;
}

/* Moves the weights of the layers first .. end - 1 to the second backend. */
static void move(br_sequential *s, int first, int end)
{
    br_named_list *list = br_parameters(br_base(s));
    elsewhere = br__cpu_backend;
    elsewhere.name = "elsewhere";
    elsewhere.update = count_update;
    elsewhere.has_update = has_no_host_update;
    for (int i = first; i < end; i++)
        list->items[i].tensor->storage->backend = &elsewhere;
    br_named_list_free(list);
    calls = updates = 0;
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
        br_set_grad(p->tensor, br_randn(br_ndim(p->tensor), br_sizes(p->tensor), BR_F32));
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
    br_named_list *first = br_parameters(br_base(a)), *second = br_parameters(br_base(b));
    for (int64_t i = 0; i < first->count; i++)
        cr_assert(br_equal(first->items[i].tensor, second->items[i].tensor), "%s",
                  first->items[i].name);
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

Test(step_devices, each_backend_gets_its_updates_in_one_call)
{
    check_kind(adamw);
    check_kind(sgd);
    check_kind(rmsprop);
    check_kind(adagrad);
    check_kind(muon);
}

Test(step_devices, averages_are_updates_too)
{
    br_sequential *model = model_new();
    br_averaged_model *averaged = br_averaged_model_new(br_base(model), 0);
    const br_named_list *averages = br_averaged_model_parameters(averaged);
    move(model, 0, 0);
    averages->items[1].tensor->storage->backend = &elsewhere;
    cr_assert(br_averaged_model_update(averaged)); /* copies */
    cr_assert_eq(calls, 0);
    cr_assert(br_averaged_model_update(averaged));
    cr_assert_eq(calls, 1);
    elsewhere.update = NULL;
    check_fails(br_averaged_model_update(averaged), "averaged_model: has no kernel on elsewhere");
    br_averaged_model_free(averaged);
    br_module_free(model);
}

/* ---- Errors ---------------------------------------------------------------------------------- */

static void set_to_zero(const br_optim_work *work, int64_t from, int64_t count)
{
    memset(br_data_f32(work->param) + from, 0, (size_t)count * sizeof(float));
}

Test(step_devices, a_function_over_elements_needs_the_host)
{
    static const br_sgd_options defaults = { br_sgd_default_fields };
    const br_optim_kind kind = { .name = "own", .defaults = &defaults, .update = set_to_zero };
    br_sequential *model = model_new(), *same = model_new();
    br_optim *optim = br_optim_for(&kind, br_base(model), NULL);
    set_gradients(model);
    move(model, 3, 4);
    check_fails(br_optim_step(optim), "own: 3.weight is on elsewhere, but `update` works on "
                                      "elements in the host's memory: define `step` instead");
    check_equal(model, same);
    br_optim_free(optim);
    br_module_free(model);
    br_module_free(same);
}

Test(step_devices, a_backend_without_updates_is_named)
{
    br_sequential *model = model_new(), *same = model_new();
    br_optim *optim = br_adam(br_base(model), NULL);
    set_gradients(model);
    move(model, 4, 5);
    elsewhere.update = NULL;
    check_fails(br_optim_step(optim), "adam: has no kernel on elsewhere");
    check_equal(model, same);
    br_optim_free(optim);
    br_module_free(model);
    br_module_free(same);
}
