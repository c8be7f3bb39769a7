/* tests/nn/test_parametrize.c - parametrizations: names in the state dict, the value of the
 * module's field, tied originals, removal, and errors. test_recorded_layers.c compares values with
 * PyTorch's.
 */
#include "nn/parametrized.h"
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

static br_linear *symmetric_linear(int64_t n)
{
    br_linear *linear = br_linear_new(n, n, true);
    br_parametrize(linear, weight, symmetric_new(),
                   BR_OPTIONS(br_parametrization, .right_inverse = upper_part));
    return linear;
}

/* Returns all names of the state dict, joined by spaces. */
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

Test(parametrize, forward_uses_the_computed_weight)
{
    br_scope *scope = br_scope_begin();
    br_manual_seed(3);
    br_linear *linear = br_linear_new(3, 3, false);
    br_tensor *weight = linear->weight, *start = br_clone(br_detach(weight));
    br_parametrize(linear, weight, symmetric_new(),
                   BR_OPTIONS(br_parametrization, .right_inverse = upper_part));
    check_ok();
    cr_assert_null(linear->weight);
    cr_assert(br_is_parametrized(br_base(linear), NULL));
    cr_assert(br_is_parametrized(br_base(linear), "weight"));
    cr_assert(!br_is_parametrized(br_base(linear), "bias"));
    cr_assert_str_eq(names_of(br_base(linear)), "parametrizations.weight.original");
    br_tensor *original = br_module_get(br_base(linear), "parametrizations.weight.original");
    cr_assert_eq(original, weight); /* the same tensor, which an optimizer may hold */
    cr_assert(br_equal(original, br_triu(start, 0)));
    br_tensor *eye = br_eye(3, 3, BR_F32), *y = br_linear_forward(linear, eye);
    cr_assert(br_equal(y, br_transpose(y, 0, 1)));
    cr_assert(br_equal(y, br_parametrized_value(br_base(linear), "weight")));
    cr_assert_null(linear->weight);
    br_backward(br_sum(y));
    br_tensor *twice = br_sub_scalar(br_triu(br_full(BR_SHAPE(3, 3), 2, BR_F32), 0), 0);
    cr_assert(br_equal(br_grad_of(original), br_sub(twice, eye)));
    br_module_free(linear);
    br_scope_end(scope);
}

/* Two modules share an original W, the second through its transpose: encoder(x) = x W^T and
 * decoder(x) = x W. */
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

Test(parametrize, originals_can_be_tied)
{
    br_scope *scope = br_scope_begin();
    br_linear *encoder = br_linear_new(4, 2, false), *decoder = br_linear_new(2, 4, false);
    br_module *turn = br_module_create(sizeof(br_activation), "Turned");
    br_module_set_forward(turn, forward_turned);
    br_parametrize(decoder, weight, turn, BR_OPTIONS(br_parametrization, .right_inverse = turned));
    br_module *originals = br_module_find(br_base(decoder), "parametrizations.weight");
    br_module_replace_parameter(originals, "original", encoder->weight);
    br_sequential *model = br_sequential_new(BR_MODULES(encoder, decoder));
    check_ok();
    cr_assert_str_eq(names_of(br_base(model)), "0.weight 1.parametrizations.weight.original");
    cr_assert_eq(br_count_parameters(br_base(model), true), 8);
    br_tensor *x = br_ones(BR_SHAPE(1, 4), BR_F32);
    br_tensor *w = encoder->weight, *want = br_matmul(br_matmul(x, br_transpose(w, 0, 1)), w);
    cr_assert(br_allclose(br_forward(model, x), want, 1e-6, 1e-6));
    br_optim *sgd = br_sgd(br_base(model), BR_OPTIONS(br_sgd, .lr = 0.1));
    br_tensor *before = br_clone(br_detach(w)), *grads[1];
    br_grad(1, (br_tensor *[]){ br_sum(want) }, 1, &w, grads, NULL);
    br_backward(br_sum(br_forward(model, x)));
    cr_assert(br_allclose(br_grad_of(w), grads[0], 1e-6, 1e-6));
    br_optim_step(sgd); /* must update the shared tensor only once */
    br_tensor *moved = br_sub(before, br_mul_scalar(grads[0], 0.1));
    cr_assert(br_allclose(br_detach(w), moved, 1e-6, 1e-6));
    br_optim_free(sgd);
    br_module_free(model);
    br_scope_end(scope);
}

Test(parametrize, removal)
{
    br_scope *scope = br_scope_begin();
    br_linear *linear = br_linear_new(3, 2, true);
    br_tensor *before = br_clone(br_detach(linear->weight));
    br_weight_norm(br_base(linear), "weight", &linear->weight, 0);
    cr_assert_str_eq(names_of(br_base(linear)),
                     "bias parametrizations.weight.original0 parametrizations.weight.original1");
    check_fails(br_remove_parametrizations(br_base(linear), "weight", false), "2 originals");
    check_fails(br_remove_parametrizations(br_base(linear), "bias", true), "no parametrization of");
    cr_assert(br_remove_parametrizations(br_base(linear), "weight", true));
    cr_assert_str_eq(names_of(br_base(linear)), "bias weight");
    cr_assert(br_requires_grad(linear->weight) && br_is_leaf(linear->weight));
    cr_assert(br_allclose(br_detach(linear->weight), before, 1e-6, 1e-6));
    br_module_free(linear);

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
    br_module_free(linear);
    br_scope_end(scope);
}

static br_tensor *sum_of_parts(void *module, br_tensor *const *parts, const void *args)
{
    (void)module, (void)args;
    br_tensor *sum = parts[0];
    for (int i = 1; i < BR_MAX_ORIGINALS; i++)
        sum = br_add(sum, parts[i]);
    return sum;
}

static bool equal_parts(void *module, br_tensor *value, br_tensor **parts)
{
    for (int i = 0; i < BR_MAX_ORIGINALS; i++)
        parts[i] = br_div_scalar(value, BR_MAX_ORIGINALS);
    return module != NULL;
}

Test(parametrize, the_most_originals)
{
    br_scope *scope = br_scope_begin();
    br_linear *linear = br_linear_new(3, 2, false);
    br_tensor *before = br_clone(br_detach(linear->weight));
    br_parametrization_options o =
        *BR_OPTIONS(br_parametrization, .n_originals = BR_MAX_ORIGINALS + 1,
                    .forward = sum_of_parts, .right_inverse = equal_parts);
    check_fails(br_parametrize(linear, weight, symmetric_new(), &o), "n_originals is");
    o.n_originals--;
    br_parametrize(linear, weight, symmetric_new(), &o);
    br_tensor *value = br_parametrized_value(br_base(linear), "weight");
    cr_assert(value && br_allclose(br_detach(value), before, 1e-6, 1e-6), "%s", br_error_message());
    cr_assert_eq(br_count_parameters(br_base(linear), true), 6 * BR_MAX_ORIGINALS);
    br_module_free(linear);
    br_scope_end(scope);
}

/* The first dimension of a matrix is 0 or -2. For weight norm, -1 is the whole tensor. */
Test(parametrize, the_first_dimension_has_two_numbers)
{
    br_scope *scope = br_scope_begin();
    for (int64_t dim = -2; dim <= 0; dim += 2) {
        br_linear *linear = br_linear_new(3, 2, true);
        br_weight_norm(br_base(linear), "weight", &linear->weight, dim);
        br_tensor *norms = br_module_get(br_base(linear), "parametrizations.weight.original0");
        cr_assert(norms && br_size(norms, 0) == 2 && br_size(norms, 1) == 1, "dim %d: %s", (int)dim,
                  br_error_message());
        br_module_free(linear);
        linear = br_linear_new(3, 2, true);
        cr_assert(br_spectral_norm(br_base(linear), "weight", &linear->weight,
                                   BR_OPTIONS(br_spectral_norm, .dim = dim)),
                  "dim %d: %s", (int)dim, br_error_message());
        br_tensor *u = br_module_get(br_base(linear), "parametrizations.weight.0._u");
        cr_assert(u && br_numel(u) == 2, "dim %d: %s", (int)dim, br_error_message());
        br_module_free(linear);
    }
    br_scope_end(scope);
}

/* A frozen parameter stays frozen, conversion includes the originals, and the parametrization gets
 * the training mode of the module. */
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
    cr_assert(br_remove_parametrizations(br_base(linear), "weight", true));
    cr_assert(!br_requires_grad(linear->weight));
    br_module_free(linear);
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

Test(parametrize, errors)
{
    br_scope *scope = br_scope_begin();
    br_linear *linear = br_linear_new(2, 2, true);
    br_module *base = br_base(linear);
    br_tensor *other = br_zeros(BR_SHAPE(2, 2), BR_F32);
    check_fails(br_register_parametrization(base, "weigth", NULL, symmetric_new(), NULL),
                "no parameter or buffer 'weigth'");
    check_fails(br_register_parametrization(base, "weight", &other, symmetric_new(), NULL),
                "field does not point to the tensor 'weight'");
    check_fails(br_register_parametrization(base, NULL, NULL, symmetric_new(), NULL), "name");
    check_fails(br_register_parametrization(base, "weight", NULL, NULL, NULL), "module is NULL");
    check_fails(br_parametrize(linear, weight, shorter_new(), NULL), "Shorter returned shape [2]");
    check_fails(br_parametrize(linear, weight, symmetric_new(),
                               BR_OPTIONS(br_parametrization, .n_originals = 2)),
                "requires forward and right_inverse");
    check_fails(br_parametrize(linear, weight, symmetric_new(),
                               BR_OPTIONS(br_parametrization, .n_originals = 9)),
                "n_originals is 9");
    check_fails(br_weight_norm(base, "weight", &linear->weight, 2), "dim is 2");
    check_fails(br_weight_norm(base, "weight", &linear->weight, -3), "dim is -3");
    check_fails(br_spectral_norm(base, "weight", &linear->weight,
                                 BR_OPTIONS(br_spectral_norm, .n_power_iterations = -1)),
                "n_power_iterations");
    cr_assert_str_eq(names_of(base), "weight bias");
    cr_assert_not_null(linear->weight);
    br_parametrize(linear, weight, symmetric_new(), NULL);
    check_fails(br_parametrize(linear, weight, shorter_new(), NULL), "Shorter returned shape [2]");
    check_fails(br_parametrize(linear, weight, symmetric_new(),
                               BR_OPTIONS(br_parametrization, .right_inverse = upper_part)),
                "no options");
    cr_assert_not_null(br_linear_forward(linear, other));
    check_fails(br_parametrized_value(base, "bias"), "no parametrization of 'bias'");
    br_module_free(linear);
    br_scope_end(scope);
}

static bool fails;
static br_tensor *forward_failing(void *module, br_tensor *x)
{
    return module && !fails ? x : br_fail(BR_ERROR_STATE, NULL, "failed");
}

static void *failing_new(void)
{
    br_module *module = br_module_create(sizeof(br_activation), "Failing");
    br_module_set_forward(module, forward_failing);
    return module;
}

/* If a parameter cannot be computed, a forward leaves no value of any parameter. */
Test(parametrize, a_failed_forward_leaves_no_values)
{
    for (int which = 0; which < 2; which++) {
        br_scope *scope = br_scope_begin();
        br_linear *linear = br_linear_new(2, 2, true);
        br_parametrize(linear, weight, which == 0 ? failing_new() : symmetric_new(), NULL);
        br_parametrize(linear, bias, which == 1 ? failing_new() : br_identity_new(), NULL);
        check_ok();
        br_tensor *x = br_ones(BR_SHAPE(1, 2), BR_F32);
        cr_assert_not_null(br_linear_forward(linear, x));
        fails = true;
        check_fails(br_linear_forward(linear, x), "failed");
        cr_assert(!linear->weight && !linear->bias, "which %d", which);
        fails = false;
        cr_assert_not_null(br_linear_forward(linear, x));
        br_module_free(linear);
        br_scope_end(scope);
    }
}

/* Returns weight / (u . weight v). */
static br_tensor *over_sigma(br_tensor *weight, br_tensor *u, br_tensor *v)
{
    return br_div(weight, br_dot(u, br_mv(weight, v)));
}

/* In training mode each forward updates u and v, and the gradient of an earlier forward uses their
 * earlier values. In eval mode u, v and the result do not change. */
Test(parametrize, spectral_norm_in_training_and_eval_mode)
{
    br_scope *scope = br_scope_begin();
    br_manual_seed(4);
    br_linear *linear = br_linear_new(5, 4, false);
    br_module *base = br_base(linear);
    br_spectral_norm(base, "weight", &linear->weight, NULL);
    br_tensor *original = br_module_get(base, "parametrizations.weight.original");
    br_tensor *u = br_module_get(base, "parametrizations.weight.0._u");
    br_tensor *v = br_module_get(base, "parametrizations.weight.0._v"), *grad, *want;
    cr_assert(original && u && v);
    br_mul_scalar_(br_detach(original), 3); /* so that u and v must change */
    br_fill_(v, 0.4);
    br_tensor *x = br_randn(BR_SHAPE(2, 5), BR_F32), *dy = br_randn(BR_SHAPE(2, 4), BR_F32);
    br_tensor *first = br_linear_forward(linear, x);
    br_tensor *u_then = br_clone(u), *v_then = br_clone(v);
    br_tensor *second = br_linear_forward(linear, x);
    check_ok();
    cr_assert(!br_equal(v, v_then) && !br_equal(first, second));
    br_grad(1, &first, 1, &original, &grad, BR_OPTIONS(br_grad, .gradients = &dy));
    br_tensor *w = br_set_requires_grad(br_clone(br_detach(original)), true);
    br_tensor *y = br_f_linear(x, over_sigma(w, u_then, v_then), NULL);
    br_grad(1, &y, 1, &w, &want, BR_OPTIONS(br_grad, .gradients = &dy));
    check_ok();
    cr_assert(br_allclose(first, y, 1e-5, 1e-6));
    cr_assert(br_allclose(grad, want, 1e-5, 1e-6));
    br_eval(base);
    u_then = br_clone(u), v_then = br_clone(v);
    br_tensor *third = br_linear_forward(linear, x);
    cr_assert(br_equal(third, br_linear_forward(linear, x)));
    cr_assert(br_equal(u, u_then) && br_equal(v, v_then));
    cr_assert(br_allclose(third, br_f_linear(x, over_sigma(w, u, v), NULL), 1e-5, 1e-6));
    br_module_free(linear);
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
    br_module_free(linear);
    br_scope_end(scope);
    return !br_failed();
}

/* u has an element for each output channel, which is dimension 1 of a transposed convolution. */
Test(parametrize, spectral_norm_finds_the_output_channels)
{
    br_conv *convs[] = { br_conv1d_new(2, 3, 4, true, NULL),
                         br_conv_transpose1d_new(2, 3, 4, true, NULL) };
    for (int i = 0; i < 2; i++) {
        cr_assert(br_spectral_norm(br_base(convs[i]), "weight", &convs[i]->weight, NULL));
        br_tensor *u = br_module_get(br_base(convs[i]), "parametrizations.weight.0._u");
        br_tensor *v = br_module_get(br_base(convs[i]), "parametrizations.weight.0._v");
        cr_assert(br_numel(u) == 3 && br_numel(v) == 2 * 4);
        br_module_free(convs[i]);
    }
}

Test(parametrize, every_allocation_may_fail)
{
    fail_in_turn(use_all, "parametrize");
}
