/* tests/optim/test_averaged.c - compares averages of weights with PyTorch's; state dicts and
 * errors. */
#include "nn/nn_internal.h"
#include "tests/memory.h"
#include "tests/optim/averaged_values.h"

#include <brasa/optim.h>

TestSuite(averaged, .init = check_begin, .fini = check_end);

/* Sets element i of the weight [1, 3], in f64, to sin(i + t), its value in step t. */
static void set_weight(br_linear *model, int t)
{
    for (int64_t i = 0; i < 3; i++)
        br_data_f64(model->weight)[i] = sin((double)(i + t));
}

static br_linear *model_new(void)
{
    br_linear *model = br_linear_new(3, 1, false);
    br_module_to(br_base(model), BR_F64);
    return model;
}

static void check_averages(double decay, const double *want)
{
    br_linear *model = model_new();
    br_averaged_model *averaged = br_averaged_model_new(br_base(model), decay);
    for (int t = 1; t <= 20; t++) {
        set_weight(model, t);
        cr_assert(br_averaged_model_update(averaged), "%s", br_error_message());
        br_tensor *got = br_averaged_model_parameters(averaged)->items[0].tensor;
        for (int64_t i = 0; (t == 1 || t == 2 || t == 5 || t == 20) && i < 3; i++)
            check_close(br_at(got, BR_SHAPE(0, i)), *want++, 2e-15);
    }
    br_averaged_model_free(averaged);
    br_module_free(model);
}

Test(averaged, values_equal_pytorch)
{
    check_averages(0.9, ema_values);
    check_averages(0, mean_values);
}

Test(averaged, state_continues_and_loads_into_a_model)
{
    br_linear *model = model_new(), *other = model_new();
    br_averaged_model *a = br_averaged_model_new(br_base(model), 0.5);
    br_averaged_model *b = br_averaged_model_new(br_base(model), 0.5);
    set_weight(model, 1);
    br_averaged_model_update(a);
    br_named_list *state = br_averaged_model_state_dict(a);
    cr_assert_str_eq(state->items[0].name, "n_averaged");
    cr_assert_str_eq(state->items[1].name, "module.weight");
    cr_assert(br_averaged_model_load_state_dict(b, state), "%s", br_error_message());
    set_weight(model, 2);
    cr_assert(br_averaged_model_update(b));
    cr_assert(br_load_state_dict(br_base(other), br_averaged_model_parameters(b), true, NULL));
    check_close(br_at(other->weight, BR_SHAPE(0, 1)), (sin(2) + sin(3)) / 2, 1e-15);
    br_named_list_free(state);
    br_averaged_model_free(a);
    br_averaged_model_free(b);
    br_module_free(model);
    br_module_free(other);
}

Test(averaged, errors)
{
    br_linear *model = model_new();
    check_fails(br_averaged_model_new(NULL, 0.5), "averaged_model: module is NULL");
    check_fails(br_averaged_model_new(br_base(model), 1), "decay is 1");
    check_fails(br_averaged_model_update(NULL), "averaged is NULL");
    br_averaged_model_free(NULL);
    br_averaged_model *averaged = br_averaged_model_new(br_base(model), 0.5);
    br_named_list *state = br__named_list_new(false);
    check_fails(br_averaged_model_load_state_dict(averaged, state), "0 tensors, must have 2");
    check_fails(br_averaged_model_load_state_dict(averaged, NULL), "state is NULL");
    br_named_list_free(state);
    cr_assert(br_module_to(br_base(model), BR_F32));
    check_fails(br_averaged_model_update(averaged),
                "weight is f32, but its average is f64: create a new averaged model");
    br_averaged_model_free(averaged);
    br_module_free(model);
}

static bool run_everything(void)
{
    br_linear *model = br_linear_new(3, 2, true);
    br_averaged_model *averaged = br_averaged_model_new(br_base(model), 0.9);
    br_averaged_model_update(averaged);
    br_named_list *state = br_averaged_model_state_dict(averaged);
    br_averaged_model_load_state_dict(averaged, state);
    br_named_list_free(state);
    br_averaged_model_free(averaged);
    br_module_free(model);
    return !br_failed();
}

Test(averaged, every_allocation_may_fail)
{
    fail_in_turn(run_everything, "run everything");
}

/* Backward notices that an average that it needs was updated. */
Test(averaged, update_changes_saved_averages)
{
    br_linear *model = model_new();
    br_averaged_model *averaged = br_averaged_model_new(br_base(model), 0.5);
    cr_assert(br_averaged_model_update(averaged));
    br_tensor *average = br_averaged_model_parameters(averaged)->items[0].tensor;
    br_scope *scope = br_scope_begin();
    br_tensor *x = br_set_requires_grad(br_ones(BR_SHAPE(1, 3), BR_F64), true);
    br_tensor *loss = br_sum(br_mul(x, average));
    set_weight(model, 3);
    cr_assert(br_averaged_model_update(averaged));
    check_fails(br_backward(loss), "changed in place by averaged_model_update");
    br_scope_end(scope);
    br_averaged_model_free(averaged);
    br_module_free(model);
}

/* Backward notices that an average that it needs was replaced by a saved one. */
Test(averaged, load_changes_saved_averages)
{
    br_linear *model = model_new();
    br_averaged_model *averaged = br_averaged_model_new(br_base(model), 0.5);
    br_averaged_model *other = br_averaged_model_new(br_base(model), 0.5);
    br_named_list *state = br_averaged_model_state_dict(other);
    br_tensor *average = br_averaged_model_parameters(averaged)->items[0].tensor;
    br_scope *scope = br_scope_begin();
    br_tensor *x = br_set_requires_grad(br_ones(BR_SHAPE(1, 3), BR_F64), true);
    br_tensor *loss = br_sum(br_mul(x, average));
    cr_assert(br_averaged_model_load_state_dict(averaged, state), "%s", br_error_message());
    check_fails(br_backward(loss), "changed in place by averaged_model_load_state_dict");
    br_scope_end(scope);
    br_named_list_free(state);
    br_averaged_model_free(other);
    br_averaged_model_free(averaged);
    br_module_free(model);
}
