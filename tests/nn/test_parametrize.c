/* Parametrized parameters: which names the module has, what the field holds when, tied originals,
 * replacing and removing, and what is refused. What PyTorch computes is in test_recorded_layers.c.
 */
#include "tests/memory.h"

#include <brasa/brasa.h>

TestSuite(parametrize, .init = check_begin, .fini = check_end);

static br_tensor *forward_symmetric(void *module, br_tensor *x)
{
    br_enter_with((br_activation *)module, x);
    br_tensor *upper = br_triu(x, 1);
    return br_module_leave(module, br_add(br_triu(x, 0), br_transpose(upper, 0, 1)));
}

static bool upper_part(void *module, br_tensor *value, br_tensor **originals)
{
    originals[0] = br_triu(value, 0);
    return module != NULL;
}

static br_module *symmetric_new(void)
{
    br_module *module = br_module_create(sizeof(br_activation), "Symmetric");
    br_module_set_forward(module, forward_symmetric);
    return module;
}

static const br_parametrization_options symmetric = { .right_inverse = upper_part };

static br_linear *symmetric_linear(int64_t n)
{
    br_linear *linear = br_linear_new(n, n, true);
    br_parametrize(linear, weight, symmetric_new(), &symmetric);
    return linear;
}

/* All names of the state dict, joined by spaces. */
static const char *names_of(br_module *module)
{
    static char names[512];
    names[0] = '\0';
    br_named_list *list = br_state_dict(module);
    for (int64_t i = 0; i < list->count; i++) {
        size_t n = strlen(names);
        snprintf(names + n, sizeof names - n, "%s%s", n ? " " : "", list->items[i].name);
    }
    br_named_list_free(list);
    return names;
}

Test(parametrize, forward_finds_what_is_computed)
{
    br_scope *scope = br_scope_begin();
    br_manual_seed(3);
    br_linear *linear = br_linear_new(3, 3, false);
    br_tensor *weight = linear->weight, *start = br_clone(br_detach(weight));
    br_parametrize(linear, weight, symmetric_new(), &symmetric);
    check_ok();
    cr_assert_null(linear->weight);
    cr_assert(br_is_parametrized(br_base(linear), NULL));
    cr_assert(br_is_parametrized(br_base(linear), "weight"));
    cr_assert(!br_is_parametrized(br_base(linear), "bias"));
    cr_assert_str_eq(names_of(br_base(linear)), "parametrizations.weight.original");
    br_tensor *original = br_module_get(br_base(linear), "parametrizations.weight.original");
    cr_assert_eq(original, weight); /* the optimizer's */
    cr_assert(br_equal(original, br_triu(start, 0)));
    br_tensor *eye = br_eye(3, 3, BR_F32), *y = br_linear_forward(linear, eye);
    cr_assert(br_equal(y, br_transpose(y, 0, 1)));
    cr_assert(br_equal(y, br_parametrized_value(br_base(linear), "weight")));
    cr_assert_null(linear->weight);
    br_backward(br_sum(y));
    br_tensor *twice = br_sub_scalar(br_triu(br_full(BR_SHAPE(3, 3), 2, BR_F32), 0), 0);
    cr_assert(br_equal(br_grad_of(original), br_sub(twice, eye)));
    br_free_module(linear);
    br_scope_end(scope);
}

/* Two modules that share an original, one of them through its transpose: decoder(x) = x encoder. */
static br_tensor *forward_turned(void *module, br_tensor *x)
{
    br_enter_with((br_activation *)module, x);
    return br_module_leave(module, br_transpose(x, 0, 1));
}

static bool turned(void *module, br_tensor *value, br_tensor **originals)
{
    originals[0] = br_transpose(value, 0, 1);
    return module != NULL;
}

Test(parametrize, tied_through_a_function)
{
    br_scope *scope = br_scope_begin();
    br_linear *encoder = br_linear_new(4, 2, false), *decoder = br_linear_new(2, 4, false);
    br_module *turn = br_module_create(sizeof(br_activation), "Turned");
    br_module_set_forward(turn, forward_turned);
    br_parametrize(decoder, weight, turn, &(br_parametrization_options){ .right_inverse = turned });
    br_module *originals = br_module_find(br_base(decoder), "parametrizations.weight");
    br_module_replace_parameter(originals, "original", encoder->weight);
    br_sequential *model = br_sequential_new(BR_MODULES(encoder, decoder));
    check_ok();
    cr_assert_str_eq(names_of(br_base(model)), "0.weight 1.parametrizations.weight.original");
    cr_assert_eq(br_count_parameters(br_base(model), true), 8);
    br_tensor *x = br_ones(BR_SHAPE(1, 4), BR_F32);
    br_tensor *w = encoder->weight, *want = br_matmul(br_matmul(x, br_transpose(w, 0, 1)), w);
    cr_assert(br_allclose(br_forward(model, x), want, 1e-6, 1e-6));
    br_optim *sgd = br_sgd(br_base(model), &(br_sgd_options){ .lr = 0.1 });
    br_tensor *before = br_clone(br_detach(w)), *grads[1];
    br_grad(1, (br_tensor *[]){ br_sum(want) }, 1, &w, grads, NULL);
    br_backward(br_sum(br_forward(model, x)));
    cr_assert(br_allclose(br_grad_of(w), grads[0], 1e-6, 1e-6));
    br_optim_step(sgd); /* once */
    br_tensor *moved = br_sub(before, br_mul_scalar(grads[0], 0.1));
    cr_assert(br_allclose(br_detach(w), moved, 1e-6, 1e-6));
    br_optim_free(sgd);
    br_free_module(model);
    br_scope_end(scope);
}

Test(parametrize, removed)
{
    br_scope *scope = br_scope_begin();
    br_linear *linear = br_linear_new(3, 2, true);
    br_tensor *before = br_clone(br_detach(linear->weight));
    br_weight_norm(br_base(linear), "weight", &linear->weight, 0);
    cr_assert_str_eq(names_of(br_base(linear)),
                     "bias parametrizations.weight.original0 parametrizations.weight.original1");
    check_fails(br_remove_parametrizations(br_base(linear), "weight", false), "2 originals");
    check_fails(br_remove_parametrizations(br_base(linear), "bias", true), "no parametrized");
    cr_assert(br_remove_parametrizations(br_base(linear), "weight", true));
    cr_assert_str_eq(names_of(br_base(linear)), "bias weight");
    cr_assert(br_requires_grad(linear->weight) && br_is_leaf(linear->weight));
    cr_assert(br_allclose(br_detach(linear->weight), before, 1e-6, 1e-6));
    br_free_module(linear);

    linear = symmetric_linear(3);
    br_tensor *value = br_detach(br_parametrized_value(br_base(linear), "weight"));
    br_tensor *original = br_module_get(br_base(linear), "parametrizations.weight.original");
    cr_assert(br_remove_parametrizations(br_base(linear), "weight", true));
    cr_assert_eq(linear->weight, original);
    cr_assert(br_equal(br_detach(original), value));
    br_parametrize(linear, weight, symmetric_new(), NULL);
    cr_assert(br_remove_parametrizations(br_base(linear), "weight", false));
    cr_assert_eq(linear->weight, original);
    cr_assert_eq(br_module_num_children(br_base(linear)), 0);
    br_free_module(linear);
    br_scope_end(scope);
}

/* What was frozen stays so, conversion reaches the originals, and training mode what computes. */
Test(parametrize, follows_the_module)
{
    br_scope *scope = br_scope_begin();
    br_linear *linear = br_linear_new(3, 3, true);
    br_freeze(br_base(linear), "weight");
    br_eval(br_base(linear));
    br_weight_norm(br_base(linear), "weight", &linear->weight, -1);
    br_module *norm = br_module_find(br_base(linear), "parametrizations.weight.0");
    cr_assert(!br_is_training(norm));
    cr_assert_eq(br_count_parameters(br_base(linear), true), 3);
    cr_assert(br_module_to(br_base(linear), BR_F64));
    cr_assert_eq(br_dtype_of(br_linear_forward(linear, br_ones(BR_SHAPE(3), BR_F64))), BR_F64);
    br_free_module(linear);
    br_scope_end(scope);
}

static br_tensor *forward_shorter(void *module, br_tensor *x)
{
    return br_sum_dim(module ? x : NULL, BR_DIMS(0), false);
}

static void *shorter_new(void)
{
    br_module *module = br_module_create(sizeof(br_activation), "Shorter");
    br_module_set_forward(module, forward_shorter);
    return module;
}

Test(parametrize, refusals)
{
    br_scope *scope = br_scope_begin();
    br_linear *linear = br_linear_new(2, 2, true);
    br_module *base = br_base(linear);
    br_tensor *other = br_zeros(BR_SHAPE(2, 2), BR_F32);
    check_fails(br_register_parametrization(base, "weigth", NULL, symmetric_new(), NULL),
                "no parameter or buffer 'weigth'");
    check_fails(br_register_parametrization(base, "weight", &other, symmetric_new(), NULL),
                "not that of 'weight'");
    check_fails(br_register_parametrization(base, NULL, NULL, symmetric_new(), NULL), "name");
    check_fails(br_register_parametrization(base, "weight", NULL, NULL, NULL), "module is NULL");
    check_fails(br_parametrize(linear, weight, shorter_new(), NULL), "Shorter gives [2]");
    check_fails(br_parametrize(linear, weight, symmetric_new(),
                               &(br_parametrization_options){ .n_originals = 2 }),
                "need forward and right_inverse");
    check_fails(br_parametrize(linear, weight, symmetric_new(),
                               &(br_parametrization_options){ .n_originals = 9 }),
                "n_originals is 9");
    check_fails(br_weight_norm(base, "weight", &linear->weight, 2), "dim is 2");
    check_fails(br_spectral_norm(base, "weight", &linear->weight,
                                 &(br_spectral_norm_options){ .n_power_iterations = -1 }),
                "n_power_iterations");
    cr_assert_str_eq(names_of(base), "weight bias");
    cr_assert_not_null(linear->weight);
    br_parametrize(linear, weight, symmetric_new(), NULL);
    check_fails(br_parametrize(linear, weight, shorter_new(), NULL), "Shorter gives [2]");
    check_fails(br_parametrize(linear, weight, symmetric_new(), &symmetric), "no options");
    cr_assert_not_null(br_linear_forward(linear, other));
    check_fails(br_parametrized_value(base, "bias"), "no parametrized 'bias'");
    br_free_module(linear);
    br_scope_end(scope);
}

static bool use_all(void)
{
    br_scope *scope = br_scope_begin();
    br_linear *linear = symmetric_linear(2);
    br_spectral_norm(br_base(linear), "weight", &linear->weight, NULL);
    br_weight_norm(br_base(linear), "bias", &linear->bias, 0);
    br_linear_forward(linear, br_ones(BR_SHAPE(1, 2), BR_F32));
    br_remove_parametrizations(br_base(linear), "weight", true);
    br_remove_parametrizations(br_base(linear), "bias", true);
    br_free_module(linear);
    br_scope_end(scope);
    return !br_failed();
}

Test(parametrize, failing_memory)
{
    fail_in_turn(use_all, "parametrize");
}
