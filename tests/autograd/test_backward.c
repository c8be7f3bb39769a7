/* tests/autograd/test_backward.c - the tape: backward, br_grad, hooks, in-place changes, errors. */
#include "tests/support.h"

#include <brasa/brasa.h>

#include <math.h>

TestSuite(backward, .init = check_begin, .fini = check_end);

static br_tensor *leaf(int n, const double *values)
{
    return br_set_requires_grad(br_from_f64(BR_SHAPE(n), values), true);
}

static double grad_at(const br_tensor *t, int64_t i)
{
    return br_at(br_grad_of(t), BR_SHAPE(i));
}

Test(backward, product_and_sum)
{
    br_scope *scope = br_scope_begin();
    br_tensor *a = leaf(3, (double[]){ 1, 2, 3 }), *b = leaf(3, (double[]){ 4, 5, 6 });
    cr_assert(br_backward(br_sum(br_mul(a, b))));
    for (int64_t i = 0; i < 3; i++) {
        cr_assert_eq(grad_at(a, i), (double)(4 + i));
        cr_assert_eq(grad_at(b, i), (double)(1 + i));
    }
    br_scope_end(scope);
}

/* A value used twice, and twice as the same argument, collects every contribution. */
Test(backward, contributions_add_up)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x = leaf(2, (double[]){ 3, -2 });
    br_tensor *y = br_add(br_mul(x, x), br_add(x, x));
    cr_assert(br_backward(br_sum(y)));
    cr_assert_eq(grad_at(x, 0), 2 * 3 + 2.0);
    cr_assert_eq(grad_at(x, 1), 2 * -2 + 2.0);
    cr_assert(br_backward(br_sum(br_mul_scalar(x, 10)))); /* a second backward adds */
    cr_assert_eq(grad_at(x, 0), 2 * 3 + 2.0 + 10);
    br_scope_end(scope);
}

/* The gradient that add hands to both inputs is one tensor: accumulating into one must not reach
 * the other. */
Test(backward, shared_gradients_stay_apart)
{
    br_scope *scope = br_scope_begin();
    br_tensor *a = leaf(1, (double[]){ 1 }), *b = leaf(1, (double[]){ 1 });
    br_tensor *s = br_add(a, b);
    cr_assert(br_backward(br_sum(br_add(s, br_mul_scalar(a, 5)))));
    cr_assert_eq(grad_at(a, 0), 6);
    cr_assert_eq(grad_at(b, 0), 1);
    br_mul_scalar_(br_grad_of(a), 100);
    cr_assert_eq(grad_at(b, 0), 1);
    br_scope_end(scope);
}

Test(backward, broadcast_is_undone_by_the_engine)
{
    br_scope *scope = br_scope_begin();
    br_tensor *a = br_set_requires_grad(br_ones(BR_SHAPE(4, 1, 3), BR_F64), true);
    br_tensor *b = br_set_requires_grad(br_ones(BR_SHAPE(2, 1), BR_F64), true);
    br_tensor *c = br_set_requires_grad(br_scalar(2, BR_F64), true);
    cr_assert(br_backward(br_sum(br_mul(br_add(a, b), c))));
    cr_assert(br_same_shape(br_grad_of(a), a));
    cr_assert(br_same_shape(br_grad_of(b), b));
    cr_assert(br_same_shape(br_grad_of(c), c));
    cr_assert_eq(br_at(br_grad_of(a), BR_SHAPE(1, 0, 2)), 2 * 2);
    cr_assert_eq(br_at(br_grad_of(b), BR_SHAPE(1, 0)), 2 * 12);
    cr_assert_eq(br_item(br_grad_of(c)), 2 * 24);
    br_scope_end(scope);
}

/* Recursion over the graph, in backward or in freeing it, would overflow the stack here. */
Test(backward, a_million_operations)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x = br_set_requires_grad(br_scalar(1, BR_F64), true);
    br_tensor *y = br_retain(br_add_scalar(x, 0));
    for (int i = 0; i < 1000000; i++) {
        br_scope *inner = br_scope_begin();
        br_tensor *next = br_retain(br_add_scalar(y, 1));
        br_release(y);
        y = next;
        br_scope_end(inner);
    }
    cr_assert_eq(br_item(y), 1000001);
    cr_assert(br_backward(y));
    cr_assert_eq(br_item(br_grad_of(x)), 1);
    br_release(y);

    y = br_retain(br_add_scalar(x, 0)); /* and freed without backward */
    for (int i = 0; i < 1000000; i++) {
        br_scope *inner = br_scope_begin();
        br_tensor *next = br_retain(br_mul_scalar(y, 1));
        br_release(y);
        y = next;
        br_scope_end(inner);
    }
    br_release(y);
    br_scope_end(scope);
}

Test(backward, given_gradient)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x = leaf(2, (double[]){ 1, 2 });
    br_backward_options options = { .gradient = br_from_f64(BR_SHAPE(2), (double[]){ 10, 20 }) };
    cr_assert(br_backward_with(br_mul(x, x), &options));
    cr_assert_eq(grad_at(x, 0), 20);
    cr_assert_eq(grad_at(x, 1), 80);
    options.gradient = br_ones(BR_SHAPE(3), BR_F64);
    check_fails(br_backward_with(br_mul(x, x), &options),
                "backward: gradient [3] of f64 must have t's shape [2] and dtype f64");
    br_scope_end(scope);
}

Test(backward, retain_graph)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x = leaf(1, (double[]){ 3 });
    br_tensor *y = br_sum(br_mul(x, x));
    cr_assert(br_backward_with(y, &(br_backward_options){ .retain_graph = true }));
    cr_assert(br_backward(y));
    cr_assert_eq(grad_at(x, 0), 12);
    check_fails(br_backward(y), "was freed by an earlier backward");
    cr_assert_eq(grad_at(x, 0), 12);
    br_scope_end(scope);
}

Test(backward, saved_values_go_as_backward_passes)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x = br_set_requires_grad(br_ones(BR_SHAPE(1000), BR_F64), true);
    int64_t before = br_live_bytes();
    br_tensor *y;
    {
        br_scope *inner = br_scope_begin();
        y = br_sum(br_exp(br_exp(x)));
        br_scope_return(inner, y);
        br_scope_end(inner);
    }
    cr_assert(br_live_bytes() >= before + 16000); /* held by the graph alone */
    cr_assert(br_backward(y));
    cr_assert(br_live_bytes() <= before + 8000 + 64); /* x's gradient is left */
    br_scope_end(scope);
}

Test(backward, the_four_errors)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x = leaf(2, (double[]){ 1, 2 });
    check_fails(br_backward(br_mul(x, x)), "backward: t [2] has 2 elements");
    check_fails(br_backward(br_ones(BR_SHAPE(1), BR_F64)), "does not require grad");
    br_tensor *y = br_sum(br_mul(x, x));
    cr_assert(br_backward(y));
    check_fails(br_backward(y), "the graph under sum was freed");
    br_tensor *e = br_exp(x), *z = br_sum(br_mul_scalar(e, 2));
    cr_assert_not_null(br_add_scalar_(e, 1));
    check_fails(br_backward(z), "exp: its gradient needs a value [2] that was changed in place by "
                                "add_scalar_ since");
    check_fails(br_backward(NULL), "backward: t is NULL");
    br_scope_end(scope);
}

Test(backward, refuses_while_an_error_is_pending)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x = leaf(2, (double[]){ 1, 2 });
    br_tensor *y = br_sum(br_mul(x, x));
    br_raise(BR_ERROR_ARGUMENT, "something before");
    cr_assert_not(br_backward(y));
    cr_assert_null(br_mul(x, x));
    cr_assert_str_eq(br_error_message(), "something before");
    br_clear_error();
    cr_assert_null(br_grad_of(x));
    cr_assert(br_backward(y));
    br_scope_end(scope);
}

Test(backward, no_grad_and_detach)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x = leaf(2, (double[]){ 1, 2 });
    br_scope *inner = br_no_grad_begin();
    br_tensor *y = br_scope_return(inner, br_mul(x, x));
    cr_assert_not(br_grad_enabled());
    br_scope *again = br_enable_grad_begin();
    cr_assert(br_requires_grad(br_mul(x, x)));
    br_scope_end(again);
    cr_assert_not(br_grad_enabled());
    br_scope_end(inner);
    cr_assert(br_grad_enabled());
    cr_assert_not(br_requires_grad(y));
    br_tensor *z = br_mul(x, x), *d = br_detach(z);
    cr_assert(br_requires_grad(z) && !br_is_leaf(z));
    cr_assert(!br_requires_grad(d) && br_is_leaf(d) && br_shares_storage(d, z));
    cr_assert(br_backward(br_sum(br_mul(x, d))));
    cr_assert_eq(grad_at(x, 1), 4);
    br_scope_end(scope);
}

/* ---- br_grad --------------------------------------------------------------------------------- */

Test(backward, grad_of_chosen_inputs)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x = leaf(2, (double[]){ 1, 2 }), *w = leaf(2, (double[]){ 3, 4 });
    br_tensor *h = br_mul(x, w), *y = br_sum(br_mul(h, h));
    br_tensor *grads[2];
    cr_assert(br_grad(1, &y, 2, (br_tensor *[]){ h, x }, grads, NULL));
    cr_assert_eq(br_at(grads[0], BR_SHAPE(1)), 2 * 8);
    cr_assert_eq(br_at(grads[1], BR_SHAPE(1)), 2 * 8 * 4);
    cr_assert_null(br_grad_of(x));
    cr_assert_null(br_grad_of(w));
    br_scope_end(scope);
}

Test(backward, grad_of_several_outputs_and_an_unused_input)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x = leaf(1, (double[]){ 3 }), *u = leaf(1, (double[]){ 3 });
    br_tensor *outputs[2] = { br_mul(x, x), br_mul_scalar(x, 7) }, *grads[3];
    br_tensor *inputs[3] = { x, u, x };
    br_grad_options options = { .allow_unused = true, .retain_graph = true };
    cr_assert(br_grad(2, outputs, 3, inputs, grads, &options));
    cr_assert_eq(br_item(grads[0]), 13);
    cr_assert_null(grads[1]);
    cr_assert_eq(br_item(grads[2]), 13);
    options.allow_unused = false;
    check_fails(br_grad(2, outputs, 2, inputs, grads, &options),
                "grad: input 1 [1]: no output depends on it");
    br_tensor *constant = br_ones(BR_SHAPE(1), BR_F64);
    check_fails(br_grad(2, outputs, 1, &constant, grads, &options), "does not require grad");
    br_scope_end(scope);
}

Test(backward, second_order)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x = leaf(1, (double[]){ 3 }), *g, *h;
    br_tensor *y = br_mul(br_mul(x, x), x); /* x^3: 3x^2, 6x */
    cr_assert(br_grad(1, &y, 1, &x, &g, &(br_grad_options){ .create_graph = true }));
    cr_assert_eq(br_item(g), 27);
    cr_assert(br_requires_grad(g));
    cr_assert(br_grad(1, &g, 1, &x, &h, NULL));
    cr_assert_eq(br_item(h), 18);
    br_scope_end(scope);
}

/* ---- Hooks and kept gradients ---------------------------------------------------------------- */

static br_tensor *count_and_double(br_tensor *grad, void *context)
{
    ++*(int *)context;
    return br_mul_scalar(grad, 2);
}

Test(backward, hooks_see_the_whole_gradient_once)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x = leaf(1, (double[]){ 3 });
    int leaf_calls = 0, inner_calls = 0;
    uint64_t handle = br_register_hook(x, count_and_double, &leaf_calls);
    br_tensor *h = br_mul_scalar(x, 1);
    cr_assert_neq(br_register_hook(h, count_and_double, &inner_calls), 0);
    br_retain_grad(h);
    cr_assert(br_backward(br_sum(br_add(br_mul(h, h), h))));
    cr_assert_eq(leaf_calls, 1);
    cr_assert_eq(inner_calls, 1);
    cr_assert_eq(br_item(br_grad_of(h)), 14); /* 2 * (2x + 1) */
    cr_assert_eq(grad_at(x, 0), 28);
    br_remove_hook(x, handle);
    br_set_grad(x, NULL);
    cr_assert(br_backward(br_sum(br_mul(x, x))));
    cr_assert_eq(leaf_calls, 1);
    cr_assert_eq(grad_at(x, 0), 6);
    br_scope_end(scope);
}

static br_tensor *wrong_shape(br_tensor *grad, void *context)
{
    (void)context;
    return br_reshape(grad, BR_SHAPE(1, 1));
}

Test(backward, a_hook_may_not_change_the_shape)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x = leaf(1, (double[]){ 3 });
    br_register_hook(x, wrong_shape, NULL);
    check_fails(br_backward(br_sum(x)), "a hook returned a gradient [1, 1]");
    br_scope_end(scope);
}

/* ---- Operations of one's own ----------------------------------------------------------------- */

static void cube_backward(br_node *node, br_tensor *dy, br_tensor **dx)
{
    const double *factor = br_params(node);
    br_tensor *x = br_saved(node, 0);
    dx[0] = br_mul_scalar(br_mul(dy, br_mul(x, x)), *factor);
}

static const br_op cube_op = { "cube", cube_backward, false };

/* x^3 with a gradient of factor x^2: right for 3. */
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

Test(backward, custom_operation)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x = leaf(3, (double[]){ 0.5, -1, 2 });
    double right = 3, wrong = 3.001;
    cr_assert(br_gradcheck(cube_of, &right, 1, &x, NULL), "%s", br_error_message());
    check_fails(br_gradcheck(cube_of, &wrong, 1, &x, NULL), "gradcheck: input 0, element [0]");
    cr_assert_str_eq(br_op_name(cube(x, 3)), "cube");
    br_scope_end(scope);
}

static br_tensor *slope;

static void sloped_backward(br_node *node, br_tensor *dy, br_tensor **dx)
{
    (void)node;
    (void)dy;
    dx[0] = dx[1] = slope;
}

/* A gradient that belongs to its maker is copied for the leaves, and stays the maker's. */
Test(backward, gradients_may_belong_elsewhere)
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

/* It leaves a scope open, and grad mode changed. */
static void careless_backward(br_node *node, br_tensor *dy, br_tensor **dx)
{
    (void)node;
    br_scope_begin();
    dx[0] = br_mul_scalar(dy, 2);
    br_set_grad_enabled(true);
}

/* What a gradient leaves behind goes with it. */
Test(backward, careless_operation)
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

/* 2x and 3x, as one operation of two outputs. */
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

Test(backward, operation_with_two_outputs)
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

Test(backward, first_order_only_is_an_error_that_names_the_operation)
{
    static const br_op op = { "opaque", no_gradient, true };
    br_scope *scope = br_scope_begin();
    br_tensor *x = leaf(1, (double[]){ 1 }), *y = br_ones(BR_SHAPE(1), BR_F64), *g;
    br_record(&op, y, BR_INPUTS(x), NULL, 0);
    check_fails(br_grad(1, &y, 1, &x, &g, &(br_grad_options){ .create_graph = true }),
                "the gradient of opaque cannot be differentiated again");
    cr_assert(br_backward(y));
    br_scope_end(scope);
}

/* ---- In place -------------------------------------------------------------------------------- */

Test(backward, recorded_in_place_change)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x = leaf(2, (double[]){ 1, 2 });
    br_tensor *y = br_mul_scalar(x, 2);
    cr_assert_eq(br_mul_(y, x), y); /* 2x^2 */
    cr_assert(br_backward(br_sum(y)), "%s", br_error_message());
    cr_assert_eq(grad_at(x, 0), 4);
    cr_assert_eq(grad_at(x, 1), 8);
    br_scope_end(scope);
}

Test(backward, in_place_refusals)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x = leaf(2, (double[]){ 1, 2 });
    check_fails(br_add_scalar_(x, 1), "add_scalar_: a [2] is a leaf that requires grad");
    check_fails(br_zero_(br_expand(br_ones(BR_SHAPE(1), BR_F64), BR_SHAPE(3))), "is expanded");
    br_scope *inner = br_no_grad_begin();
    cr_assert_not_null(br_add_scalar_(x, 1));
    br_scope_end(inner);
    cr_assert_eq(br_at(x, BR_SHAPE(0)), 2);
    br_scope_end(scope);
}
