/* tests/autograd/test_custom_operations.c - operations of a program's own: recording, several
 * outputs, gradients of the wrong shape or dtype, and gradients of second order. */
#include "tests/memory.h"

#include <brasa/brasa.h>

#include <math.h>

TestSuite(custom_operations, .init = check_begin, .fini = check_end);

static br_tensor *leaf(int n, const double *values)
{
    return br_set_requires_grad(br_from_f64(BR_SHAPE(n), values), true);
}

static double grad_at(const br_tensor *t, int64_t i)
{
    return br_at(br_grad_of(t), BR_SHAPE(i));
}

static void cube_backward(br_node *node, br_tensor *dy, br_tensor **dx)
{
    const double *factor = br_params(node);
    br_tensor *x = br_saved(node, 0);
    dx[0] = br_mul_scalar(br_mul(dy, br_mul(x, x)), *factor);
}

static const br_op cube_op = { "cube", cube_backward, false };

/* Returns x^3. Its backward function uses factor * x^2, which is correct for factor 3. */
static br_tensor *cube(br_tensor *x, double factor)
{
    br_scope *inner = br_no_grad_begin();
    br_tensor *y = br_scope_return(inner, br_mul(x, br_mul(x, x)));
    br_scope_end(inner);
    br_node *node = br_record(&cube_op, y, BR_INPUTS(x), &factor, sizeof factor);
    br_save(node, 0, x);
    return y;
}

static br_tensor *cube_of(br_tensor *const *inputs, int n, void *context)
{
    (void)n;
    return cube(inputs[0], *(double *)context);
}

Test(custom_operations, custom_operation)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x = leaf(3, (double[]){ 0.5, -1, 2 });
    double right = 3, wrong = 3.001;
    cr_assert(br_gradcheck(cube_of, &right, 1, &x, TIGHTLY), "%s", br_error_message());
    check_fails(br_gradcheck(cube_of, &wrong, 1, &x, TIGHTLY), "gradcheck: input 0, element [0]");
    cr_assert_str_eq(br_op_name(cube(x, 3)), "cube");
    br_scope_end(scope);
}

static void look_backward(br_node *node, br_tensor *dy, br_tensor **dx)
{
    int ndim = -1;
    for (int i = -1; i <= 2; i++) { /* the operation has inputs 0 and 1, and output 0 */
        const bool exists = i == 0 || i == 1;
        cr_expect_eq(br_input_sizes(node, i, &ndim) != NULL, exists, "input %d", i);
        cr_expect_eq(br_needs_input_grad(node, i), exists, "input %d", i);
        cr_expect_eq(br_output_grad(node, i) != NULL, i == 0, "output %d", i);
    }
    cr_expect_eq(ndim, 1);
    dx[0] = dx[1] = dy;
}

/* Numbers of inputs and outputs that the operation does not have get NULL or false. */
static void negated_backward(br_node *node, br_tensor *dy, br_tensor **dx)
{
    (void)node;
    dx[0] = br_neg(dy);
}
static const br_op negated_op = { "negated", negated_backward, false };

/* Returns -x as a view. `base` gets the tensor that is viewed, unless it is NULL. */
static br_tensor *negated(br_tensor *x, br_tensor **base)
{
    br_scope *scope = br_no_grad_begin();
    br_tensor *viewed = br_neg(x), *y = br_scope_return(scope, br_view(viewed, BR_SHAPE(2)));
    if (base)
        *base = br_retain(viewed);
    br_scope_end(scope);
    br_record(&negated_op, y, BR_INPUTS(x), NULL, 0);
    return y;
}

/* A result that is a view can be changed, unless the viewed tensor is still in use. */
Test(custom_operations, a_result_that_is_a_view)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x = br_set_requires_grad(br_ones(BR_SHAPE(2), BR_F64), true), *base;
    br_tensor *y = negated(x, NULL);
    cr_assert(br_mul_scalar_(y, 3), "%s", br_error_message());
    cr_assert(br_backward(br_sum(y)), "%s", br_error_message());
    cr_assert(br_equal(br_grad_of(x), br_full(BR_SHAPE(2), -3, BR_F64)));
    y = negated(x, &base);
    check_fails(br_mul_scalar_(y, 3), "mul_scalar_: ");
    br_release(base);
    br_scope_end(scope);
}

Test(custom_operations, inputs_and_outputs_that_do_not_exist)
{
    static const br_op look_op = { "look", look_backward, false };
    br_scope *scope = br_scope_begin();
    br_tensor *a = leaf(2, (double[]){ 1, 2 }), *b = leaf(2, (double[]){ 3, 4 });
    br_scope *inner = br_no_grad_begin();
    br_tensor *y = br_scope_return(inner, br_add(a, b));
    br_scope_end(inner);
    br_record(&look_op, y, BR_INPUTS(a, b), NULL, 0);
    cr_assert(br_backward(br_sum(y)), "%s", br_error_message());
    cr_assert(grad_at(a, 0) == 1 && grad_at(b, 1) == 1);
    br_scope_end(scope);
}

static br_tensor *slope;

static void sloped_backward(br_node *node, br_tensor *dy, br_tensor **dx)
{
    (void)node;
    (void)dy;
    dx[0] = dx[1] = slope;
}

/* If a backward function returns a tensor that it keeps, the leaves get copies and the tensor is
 * not changed. */
Test(custom_operations, gradients_kept_by_the_backward_function_are_copied)
{
    static const br_op op = { "sloped", sloped_backward, false };
    br_scope *scope = br_scope_begin();
    br_tensor *a = leaf(2, (double[]){ 1, 2 }), *b = leaf(2, (double[]){ 3, 4 });
    slope = br_from_f64(BR_SHAPE(2), (double[]){ 5, 6 });
    for (int round = 1; round <= 2; round++) {
        br_scope *inner = br_scope_begin();
        br_tensor *y = br_zeros(BR_SHAPE(2), BR_F64);
        br_record(&op, y, BR_INPUTS(a, b), NULL, 0);
        cr_assert(br_backward(br_sum(y)));
        br_scope_end(inner);
        cr_assert_eq(grad_at(a, 1), 6.0 * round);
        cr_assert_eq(grad_at(b, 0), 5.0 * round);
        cr_assert_eq(br_at(slope, BR_SHAPE(1)), 6);
    }
    br_scope_end(scope);
}

/* Leaves a scope open and grad mode changed. */
static void careless_backward(br_node *node, br_tensor *dy, br_tensor **dx)
{
    (void)node;
    br_scope_begin();
    dx[0] = br_mul_scalar(dy, 2);
    br_set_grad_enabled(true);
}

/* The engine ends scopes that a backward function left open, and restores grad mode. */
Test(custom_operations, careless_backward_function)
{
    static const br_op op = { "careless", careless_backward, false };
    br_scope *scope = br_scope_begin();
    br_tensor *x = leaf(2, (double[]){ 1, 2 });
    br_scope *inner = br_no_grad_begin();
    br_tensor *y = br_zeros(BR_SHAPE(2), BR_F64), *z = br_zeros(BR_SHAPE(2), BR_F64);
    br_set_grad_enabled(true);
    br_record(&op, y, BR_INPUTS(x), NULL, 0);
    br_record(&op, z, BR_INPUTS(y), NULL, 0);
    br_tensor *loss = br_sum(z);
    br_set_grad_enabled(false);
    int64_t live = br_live_tensors();
    cr_assert(br_backward(loss));
    cr_assert_eq(br_live_tensors(), live + 1);
    cr_assert(!br_grad_enabled());
    cr_assert_eq(grad_at(x, 1), 4);
    cr_assert(!br_requires_grad(br_grad_of(x)));
    br_scope_end(inner);
    br_scope_end(scope);
}

static void split_backward(br_node *node, br_tensor *dy, br_tensor **dx)
{
    br_tensor *second = br_output_grad(node, 1);
    br_tensor *a = dy ? br_mul_scalar(dy, 2) : NULL, *b = second ? br_mul_scalar(second, 3) : NULL;
    dx[0] = a && b ? br_add(a, b) : a ? a : b;
}

static const br_op split_op = { "split", split_backward, false };

/* Returns 2x and sets *second to 3x, as one operation with two outputs. */
static br_tensor *split(br_tensor *x, br_tensor **second)
{
    br_scope *inner = br_no_grad_begin();
    br_tensor *first = br_scope_return(inner, br_mul_scalar(x, 2));
    *second = br_scope_return(inner, br_mul_scalar(x, 3));
    br_scope_end(inner);
    br_node *node = br_record(&split_op, first, BR_INPUTS(x), NULL, 0);
    cr_assert_eq(br_record_output(node, *second), 1);
    return first;
}

Test(custom_operations, operation_with_two_outputs)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x = leaf(1, (double[]){ 1 }), *a, *b;
    a = split(x, &b);
    cr_assert(br_backward(br_sum(br_add(a, br_mul_scalar(b, 10)))));
    cr_assert_eq(grad_at(x, 0), 32);
    br_set_grad(x, NULL);
    split(x, &b);
    cr_assert(br_backward(br_sum(b)));
    cr_assert_eq(grad_at(x, 0), 3);
    br_scope_end(scope);
}

static void no_gradient(br_node *node, br_tensor *dy, br_tensor **dx)
{
    (void)node;
    dx[0] = br_ones_like(dy);
}

Test(custom_operations, create_graph_through_a_first_order_only_operation_is_an_error)
{
    static const br_op op = { "opaque", no_gradient, true };
    br_scope *scope = br_scope_begin();
    br_tensor *x = leaf(1, (double[]){ 1 }), *y = br_ones(BR_SHAPE(1), BR_F64), *g;
    br_record(&op, y, BR_INPUTS(x), NULL, 0);
    check_fails(br_grad(1, &y, 1, &x, &g, BR_OPTIONS(br_grad, .create_graph = true)),
                "the gradient of opaque cannot be differentiated again");
    cr_assert(br_backward(y));
    br_scope_end(scope);
}

static void narrow_backward(br_node *node, br_tensor *dy, br_tensor **dx)
{
    dx[0] = br_to(dy, *(const br_dtype *)br_params(node));
}

/* Gradients of another floating-point dtype are converted, as in PyTorch. */
Test(custom_operations, a_gradient_of_another_dtype)
{
    static const br_op op = { "narrow", narrow_backward, false };
    static const br_dtype dtypes[] = { BR_F32, BR_I64 };
    br_scope *scope = br_scope_begin();
    br_tensor *x = leaf(2, (double[]){ 1, 2 });
    for (int i = 0; i < 2; i++) {
        br_tensor *y = br_zeros(BR_SHAPE(2), BR_F64);
        br_record(&op, y, BR_INPUTS(x), &dtypes[i], sizeof *dtypes);
        br_tensor *loss = br_sum(y);
        if (dtypes[i] == BR_F32)
            cr_assert(br_backward(loss) && br_dtype_of(br_grad_of(x)) == BR_F64);
        else
            check_fails(
                br_backward(loss),
                "narrow: the gradient with respect to input 0 is i64, but the input is f64");
    }
    br_scope_end(scope);
}

static void tall_backward(br_node *node, br_tensor *dy, br_tensor **dx)
{
    (void)node;
    dx[0] = br_ones(BR_SHAPE(7), br_dtype_of(dy));
}

/* A gradient is summed to the input's shape if that broadcasts to it, and refused otherwise. */
Test(custom_operations, a_gradient_of_another_shape_is_an_error)
{
    static const br_op op = { "tall", tall_backward, false };
    br_scope *scope = br_scope_begin();
    br_tensor *x = leaf(2, (double[]){ 1, 2 }), *y = br_zeros(BR_SHAPE(2), BR_F64);
    br_record(&op, y, BR_INPUTS(x), NULL, 0);
    check_fails(br_backward(br_sum(y)),
                "tall: the gradient with respect to input 0 is [7], but the input is [2]");
    br_tensor *one = leaf(1, (double[]){ 1 }), *z = br_zeros(BR_SHAPE(1), BR_F64);
    br_record(&op, z, BR_INPUTS(one), NULL, 0);
    cr_assert(br_backward(br_sum(z)));
    cr_assert_eq(grad_at(one, 0), 7);
    br_scope_end(scope);
}

static void failing_backward(br_node *node, br_tensor *dy, br_tensor **dx)
{
    (void)node;
    dx[0] = br_mul(dy, br_ones(BR_SHAPE(5), BR_F64));
}

/* An error inside a gradient function names the operation that the function belongs to. */
Test(custom_operations, errors_in_gradients_name_the_operation)
{
    static const br_op op = { "wave", failing_backward, false };
    br_scope *scope = br_scope_begin();
    br_tensor *x = leaf(2, (double[]){ 1, 2 }), *y = br_zeros(BR_SHAPE(2), BR_F64);
    br_record(&op, y, BR_INPUTS(x), NULL, 0);
    br_tensor *loss = br_sum(y);
    check_fails(br_backward(loss), "gradient of wave: mul: ");
    check_fails(br_mul(x, br_ones(BR_SHAPE(5), BR_F64)), "mul: a [2] and b [5]");
    br_raise(BR_ERROR_ARGUMENT, "later");
    cr_assert_str_eq(br_error_message(), "later");
    br_clear_error();
    br_scope_end(scope);
}

static void identity_backward(br_node *node, br_tensor *dy, br_tensor **dx)
{
    (void)node;
    dx[0] = dy;
}

static const br_op identity_op = { "identity", identity_backward, false };

/* A slot is saved once: a second value would replace one that the gradient needs. */
Test(custom_operations, wrong_slots)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x = leaf(1, (double[]){ 1 }), *other = br_zeros_like(x);
    br_scope *inner = br_no_grad_begin();
    br_tensor *y = br_scope_return(inner, br_clone(x));
    br_scope_end(inner);
    br_node *node = br_record(&identity_op, y, BR_INPUTS(x), NULL, 0);
    br_save(node, 1, x);
    check_fails((br_save(node, 1, other), false), "cannot save in slot 1: it is already in use");
    check_fails((br_save(node, -1, other), false), "cannot save in slot -1: it is outside 0 .. 7");
    check_fails((br_save(node, 8, other), false), "cannot save in slot 8: it is outside 0 .. 7");
    cr_assert_eq(br_at(br_saved(node, 1), BR_DIMS(0)), 1);
    cr_assert_null(br_saved(node, 0));
    br_save(node, 0, other);
    cr_assert_not_null(br_saved(node, 0));
    br_scope_end(scope);
}
