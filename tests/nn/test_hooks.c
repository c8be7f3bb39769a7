/* tests/nn/test_hooks.c - forward and backward hooks of modules: what they see and replace, their
 * order, removal, and errors. */
#include "tensor/tensor_internal.h"
#include "tests/memory.h"

#include <brasa/nn.h>

TestSuite(module_hooks, .init = check_begin, .fini = check_end);

/* Log of hook calls in order. Each call appends the kind of hook and the context's letter: '<' is a
 * forward pre-hook ('-' if x is NULL), '>' a forward hook, 'i' a backward hook, and '*' a hook that
 * doubles. */
static char calls[64];

static void note(char kind, const void *context)
{
    size_t n = strlen(calls);
    snprintf(calls + n, sizeof calls - n, "%c%c", kind, *(const char *)context);
}

static br_tensor *look(br_module *module, br_tensor *x, void *context)
{
    note(x ? '<' : '-', context);
    return module ? NULL : x;
}

static br_tensor *look_behind(br_module *module, br_tensor *y, void *context)
{
    note('>', context);
    return module ? NULL : y;
}

static br_tensor *twice(br_module *module, br_tensor *x, void *context)
{
    (void)module;
    note('*', context);
    return br_mul_scalar(x, 2);
}

Test(module_hooks, see_and_replace)
{
    br_scope *scope = br_scope_begin();
    br_linear *linear = br_linear_new(2, 2, false);
    br_init_eye_(linear->weight);
    br_module *module = br_base(linear);
    calls[0] = '\0';
    br_module_register_forward_pre_hook(module, look, "a");
    uint64_t double_input = br_module_register_forward_pre_hook(module, twice, "b");
    br_module_register_forward_hook(module, twice, "c");
    br_module_register_forward_hook(module, look_behind, "d");
    br_tensor *x = br_full(BR_SHAPE(1, 2), 3, BR_F32);
    cr_assert_eq(br_at(br_linear_forward(linear, x), BR_DIMS(0, 1)), 12);
    cr_assert_str_eq(calls, "<a*b*c>d");
    br_module_remove_hook(module, double_input);
    br_module_remove_hook(module, 99);
    cr_assert_eq(br_at(br_forward(linear, x), BR_DIMS(0, 1)), 6);
    br_module_free(linear);
    br_scope_end(scope);
}

typedef struct own {
    br_module base;
} own;

static br_tensor *own_forward(own *self, br_tensor *x)
{
    br_enter(self);
    return br_leave(self, br_neg(x));
}

/* A custom module that calls br_enter() without its input, and a child of a Sequential. */
Test(module_hooks, custom_modules_and_children)
{
    br_scope *scope = br_scope_begin();
    own *mine = br_module_new(own);
    br_sequential *sequential = br_sequential_new(BR_MODULES(br_relu_new(), br_identity_new()));
    calls[0] = '\0';
    br_module_register_forward_pre_hook(br_base(mine), look, "m");
    br_module_register_forward_hook(br_base(mine), twice, "m");
    br_module_register_forward_pre_hook(br_base(sequential), look, "s");
    br_module_register_forward_hook(br_module_child_at(br_base(sequential), 1), twice, "1");
    br_tensor *x = br_full(BR_SHAPE(2), 3, BR_F32);
    cr_assert_eq(br_at(own_forward(mine, x), BR_DIMS(1)), -6);
    cr_assert_eq(br_at(br_forward(sequential, x), BR_DIMS(1)), 6);
    cr_assert_str_eq(calls, "-m*m<s*1");
    br_module_free(mine);
    br_module_free(sequential);
    br_scope_end(scope);
}

static br_tensor *fail(br_module *module, br_tensor *t, void *context)
{
    (void)module;
    (void)context;
    br_raise(BR_ERROR_STATE, "the hook failed");
    return t;
}

Test(module_hooks, failures)
{
    br_scope *scope = br_scope_begin();
    br_activation *before = br_relu_new(), *behind = br_relu_new();
    br_tensor *x = br_ones(BR_SHAPE(2), BR_F32);
    int64_t live = br_live_tensors();
    br_module_register_forward_pre_hook(br_base(before), fail, NULL);
    br_module_register_forward_hook(br_base(behind), fail, NULL);
    check_fails(br_activation_forward(before, x), "the hook failed");
    cr_assert_eq(br__thread.scope, scope, "a scope was left open");
    check_fails(br_activation_forward(behind, x), "the hook failed");
    cr_assert_eq(br_live_tensors(), live);
    check_fails(br_module_register_forward_hook(br_base(behind), NULL, NULL), "hook is NULL");
    check_fails(br_module_register_forward_hook(NULL, fail, NULL), "module is NULL");
    br_module_free(before);
    br_module_free(behind);
    br_scope_end(scope);
}

static bool hooked(void)
{
    br_scope *scope = br_scope_begin();
    br_sequential *model = br_sequential_new(
        BR_MODULES(br_conv2d_new(1, 2, 1, 1, true, NULL), br_batch_norm2d_new(2, NULL),
                   br_max_pool2d_new(BR_OPTIONS(br_pool, .kernel_size = BR_PAIR(2, 2))),
                   br_group_norm_new(1, 2, NULL), br_rms_norm_new(2, NULL)));
    uint64_t handle = br_module_register_forward_hook(br_base(model), look_behind, "x");
    cr_assert_eq(handle == 0, br_failed());
    calls[0] = '\0';
    br_forward(model, br_ones(BR_SHAPE(2, 1, 2, 4), BR_F32));
    br_module_free(model);
    br_scope_end(scope);
    return !br_failed();
}

Test(module_hooks, every_allocation_may_fail)
{
    fail_in_turn(hooked, "hooked");
}

/* ---- Errors of the layers' constructors ------------------------------------------------------ */

#define refuses(layer, message)                                                              \
    do {                                                                                     \
        void *check_layer = layer;                                                           \
        cr_assert(br_failed(), "%s did not fail", #layer);                                   \
        cr_assert(strstr(br_error_message(), message), "message: %s", br_error_message());   \
        br_clear_error();                                                                    \
        check_fails(br_forward(check_layer, NULL), "is incomplete: its constructor failed"); \
        br_module_free(check_layer);                                                         \
    } while (0)

Test(module_hooks, constructor_errors)
{
    refuses(br_conv2d_new(4, 6, 3, 3, true, BR_OPTIONS(br_conv, .groups = 3)),
            "in_channels 4 and out_channels 6 must be multiples of groups 3");
    refuses(br_conv1d_new(4, 6, 0, true, NULL), "kernel_size is 0, must be at least 1");
    refuses(br_group_norm_new(2, 3, NULL), "num_channels 3 must be a multiple of num_groups 2");
    refuses(br_batch_norm1d_new(-1, NULL), "num_features is -1");
    refuses(br_rms_norm_new(3, BR_OPTIONS(br_rms_norm, .eps = -1)), "eps is -1");
    br_batch_norm *norm = br_batch_norm1d_new(3, NULL);
    br_scope *scope = br_scope_begin();
    check_fails(br_batch_norm_forward(norm, br_ones(BR_SHAPE(1, 3, 2, 2), BR_F32)),
                "x [1, 3, 2, 2] must have 3 or 2 dimensions for BatchNorm1d");
    br_scope_end(scope);
    br_module_free(norm);
}

/* ---- Backward -------------------------------------------------------------------------------- */

/* The sums of the gradients that a backward hook last received; NaN for NULL. */
static double shown_input, shown_output;

static br_tensor *look_at_gradients(br_module *module, br_tensor *grad_input,
                                    br_tensor *grad_output, void *context)
{
    note('i', context);
    shown_input = grad_input ? br_item(br_sum(grad_input)) : NAN;
    shown_output = grad_output ? br_item(br_sum(grad_output)) : NAN;
    return module ? NULL : grad_input;
}

static br_tensor *twice_the_gradient(br_module *module, br_tensor *grad_input,
                                     br_tensor *grad_output, void *context)
{
    note('*', context);
    return module && grad_output && grad_input ? br_mul_scalar(grad_input, 2) : NULL;
}

static br_linear *threefold(void)
{
    br_linear *linear = br_linear_new(2, 2, false);
    br_scope *scope = br_no_grad_begin();
    br_mul_scalar_(br_init_eye_(linear->weight), 3);
    br_scope_end(scope);
    return linear;
}

Test(module_hooks, see_and_replace_gradients)
{
    br_scope *scope = br_scope_begin();
    br_linear *linear = threefold();
    br_module *module = br_base(linear);
    calls[0] = '\0';
    br_module_register_full_backward_pre_hook(module, twice, "a");
    br_module_register_full_backward_hook(module, look_at_gradients, "b");
    uint64_t second = br_module_register_full_backward_hook(module, twice_the_gradient, "c");
    br_tensor *x = br_set_requires_grad(br_ones(BR_SHAPE(1, 2), BR_F32), true);
    br_tensor *w = br_from_f32(BR_SHAPE(1, 2), (float[]){ 1, 2 });
    br_backward(br_sum(br_mul(br_forward(linear, x), w)));
    check_ok();
    cr_assert_str_eq(calls, "*aib*c");
    cr_assert_eq(shown_output, 6); /* 2 * (1 + 2) */
    cr_assert_eq(shown_input, 18);
    cr_assert_eq(br_at(br_grad_of(x), BR_DIMS(0, 1)), 24);
    cr_assert_eq(br_at(br_grad_of(linear->weight), BR_DIMS(1, 0)), 4);

    br_module_remove_hook(module, second);
    br_set_grad(x, NULL);
    calls[0] = '\0';
    br_tensor *y = br_forward(linear, br_forward(linear, x)); /* linear runs twice in one graph */
    br_backward_with(br_sum(y), BR_OPTIONS(br_backward, .create_graph = true));
    cr_assert_str_eq(calls, "*aib*aib");
    cr_assert_eq(shown_input, 72);
    cr_assert_eq(br_at(br_grad_of(x), BR_DIMS(0, 0)), 36);
    br_backward(br_sum(br_linear_forward(linear, br_detach(x)))); /* x does not require grad */
    cr_assert(isnan(shown_input) && shown_output == 4);
    br_zero_grad(module);
    br_set_grad(x, NULL);
    br_module_free(linear);
    br_scope_end(scope);
}

/* A pass that ends at the module's parameters does not reach its input, where the gradient of the
 * output is released. The next pass releases it. */
Test(module_hooks, passes_that_end_inside_of_the_module)
{
    const int64_t live = br_live_tensors();
    br_linear *linear = threefold();
    br_scope *scope = br_scope_begin();
    br_module_register_full_backward_hook(br_base(linear), look_at_gradients, "b");
    br_tensor *x = br_set_requires_grad(br_ones(BR_SHAPE(1, 2), BR_F32), true), *dw;
    br_tensor *y = br_sum(br_forward(linear, x));
    calls[0] = '\0';
    for (int i = 0; i < 3; i++)
        cr_assert(
            br_grad(1, &y, 1, &linear->weight, &dw, BR_OPTIONS(br_grad, .retain_graph = true)),
            "%s", br_error_message());
    cr_assert_str_eq(calls, "");
    br_backward(y);
    cr_assert(shown_output == 2 && shown_input == 6);
    br_module_free(linear);
    br_scope_end(scope);
    cr_assert_eq(br_live_tensors(), live, "a gradient leaks");
}

/* A forward pass that fails after its hooks were told leaves nothing to the next one. */
Test(module_hooks, a_pass_that_failed)
{
    br_scope *scope = br_scope_begin();
    own *mine = br_module_new(own);
    br_module *module = br_base(mine);
    br_tensor *x = br_set_requires_grad(br_ones(BR_SHAPE(2), BR_F32), true);
    br_module_register_forward_hook(module, look_behind, "a");
    uint64_t hook = br_module_register_full_backward_hook(module, look_at_gradients, "b");
    check_fails(own_forward(mine, NULL), "NULL");
    br_module_remove_hook(module, hook);
    br_tensor *y = own_forward(mine, x);
    check_ok();
    cr_assert_str_eq(br_op_name(y), "neg");
    calls[0] = '\0';
    br_backward(br_sum(y));
    cr_assert_str_eq(calls, "");
    cr_assert_eq(br_at(br_grad_of(x), BR_DIMS(1)), -1);
    br_module_free(mine);
    br_scope_end(scope);
}

/* The graph does not hold the module. Its hooks are skipped if the module was freed. */
Test(module_hooks, module_freed_before_backward)
{
    br_scope *scope = br_scope_begin();
    br_linear *linear = threefold();
    br_module_register_full_backward_hook(br_base(linear), look_at_gradients, "a");
    br_tensor *x = br_set_requires_grad(br_ones(BR_SHAPE(1, 2), BR_F32), true);
    br_tensor *y = br_linear_forward(linear, x);
    br_module_free(linear);
    calls[0] = '\0';
    br_backward(br_sum(y));
    cr_assert_str_eq(calls, "");
    cr_assert_eq(br_at(br_grad_of(x), BR_DIMS(0, 1)), 3);
    check_fails(br_module_register_full_backward_hook(NULL, look_at_gradients, NULL), "NULL");
    br_scope_end(scope);
}

static bool hook_backward(void)
{
    br_scope *scope = br_scope_begin();
    br_linear *linear = br_linear_new(2, 2, false);
    br_module_register_full_backward_pre_hook(br_base(linear), twice, "a");
    br_module_register_full_backward_hook(br_base(linear), twice_the_gradient, "b");
    calls[0] = '\0';
    br_tensor *x = br_set_requires_grad(br_ones(BR_SHAPE(1, 2), BR_F32), true);
    bool ok = br_backward(br_sum(br_forward(linear, x)));
    br_module_free(linear);
    br_scope_end(scope);
    return ok;
}

Test(module_hooks, every_allocation_of_backward_may_fail)
{
    fail_in_turn(hook_backward, "backward hooks");
}
