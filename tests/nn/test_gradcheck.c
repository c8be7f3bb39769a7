/* tests/nn/test_gradcheck.c - br_module_gradcheck(), which checks the gradients of inputs and, by
 * name, of parameters. */
#include "tests/memory.h"

#include <brasa/nn.h>

TestSuite(module_gradcheck, .init = check_begin, .fini = check_end);

/* Computes the gradient of x^3 as factor * x^2, which is correct for factor 3. */
static void cube_backward(br_node *node, br_tensor *dy, br_tensor **dx)
{
    br_tensor *x = br_saved(node, 0);
    dx[0] = br_mul(dy, br_mul_scalar(br_mul(x, x), *(const double *)br_params(node)));
}
static const br_op cube_op = { "cube", cube_backward, false };

static br_tensor *cube(br_tensor *x, double factor)
{
    br_scope *inner = br_no_grad_begin();
    br_tensor *y = br_scope_return(inner, br_mul(x, br_mul(x, x)));
    br_scope_end(inner);
    br_node *node = br_record(&cube_op, y, BR_INPUTS(x), &factor, sizeof factor);
    br_save(node, 0, x);
    return y;
}

typedef struct {
    br_module base;
    br_linear *inner;
    br_tensor *scale;
    double factor;
} scaled;

/* Returns scale^3 * inner(a) * b for the inputs a and b. */
static br_tensor *run(br_tensor *const *inputs, int n, void *context)
{
    scaled *self = context;
    cr_assert_eq(n, 2);
    br_tensor *y = br_mul(br_linear_forward(self->inner, inputs[0]), inputs[1]);
    return br_mul(y, cube(self->scale, self->factor));
}

static scaled *scaled_new(double factor)
{
    scaled *self = br_module_new(scaled);
    br_scope *scope = br_scope_begin();
    self->inner = br_child(self, "inner", br_linear_new(3, 2, true));
    self->scale = br_parameter(self, "scale", br_randn(BR_SHAPE(2), BR_F32));
    self->factor = factor;
    br_scope_end(scope);
    br_module_to(&self->base, BR_F64);
    return self;
}

Test(module_gradcheck, inputs_and_parameters)
{
    br_scope *scope = br_scope_begin();
    br_tensor *inputs[] = { br_set_requires_grad(br_randn(BR_SHAPE(4, 3), BR_F64), true),
                            br_randn(BR_SHAPE(4, 2), BR_F64) };
    scaled *good = scaled_new(3), *bad = scaled_new(3.01);
    cr_assert(br_module_gradcheck(&good->base, run, good, 2, inputs, NULL), "%s",
              br_error_message());
    check_fails(br_module_gradcheck(&bad->base, run, bad, 2, inputs, NULL),
                "gradcheck: scale, element [0]: gradient ");
    br_module_requires_grad(&bad->base, "scale", false); /* its gradient is not checked */
    cr_assert(br_module_gradcheck(&bad->base, run, bad, 2, inputs, NULL));
    br_module_free(good);
    br_module_free(bad);
    br_scope_end(scope);
}

Test(module_gradcheck, forward_with_one_input)
{
    br_scope *scope = br_scope_begin();
    br_sequential *self = br_sequential_new(BR_MODULES(
        br_linear_new(3, 4, true), br_tanh_new(), br_dropout_new(0.5), br_linear_new(4, 2, true)));
    br_tensor *x = br_randn(BR_SHAPE(5, 3), BR_F64);
    check_fails(br_module_gradcheck(br_base(self), NULL, NULL, 1, &x, NULL),
                "0.weight [4, 3] is f32, whose rounding hides wrong gradients");
    br_module_to(br_base(self), BR_F64);
    cr_assert(br_module_gradcheck(br_base(self), NULL, NULL, 1, &x, NULL), "%s",
              br_error_message());
    check_fails(br_module_gradcheck(br_base(self), NULL, NULL, 2, &x, NULL),
                "got 2 inputs, but br_forward() takes one: pass a function");
    check_fails(br_module_gradcheck(NULL, NULL, NULL, 1, &x, NULL), "module is NULL");
    check_fails(br_module_gradcheck(br_base(self), NULL, NULL, 1, NULL, NULL), "inputs is NULL");
    br_module_free(self);
    br_scope_end(scope);
}
