/* tests/autograd/test_leaf.c - a tensor's side of the tape: detaching, grad mode, kept gradients,
 * hooks, and backward to chosen tensors. What is expected is what PyTorch 2.15 does. */
#include "tests/support.h"

#include <brasa/brasa.h>

TestSuite(leaf, .init = check_begin, .fini = check_end);

static br_tensor *leaf(int n, const double *values)
{
    return br_set_requires_grad(br_from_f64(BR_SHAPE(n), values), true);
}

static double grad_at(const br_tensor *t, int64_t i)
{
    return br_at(br_grad_of(t), BR_SHAPE(i));
}

/* ---- Leaves ---------------------------------------------------------------------------------- */

Test(leaf, what_is_one)
{
    br_scope *scope = br_scope_begin();
    br_tensor *plain = br_ones(BR_SHAPE(2), BR_F64), *x = leaf(2, (double[]){ 1, 2 });
    br_tensor *y = br_mul(x, plain);
    cr_assert(br_is_leaf(plain) && !br_requires_grad(plain));
    cr_assert(br_is_leaf(x) && br_requires_grad(x));
    cr_assert(!br_is_leaf(y) && br_requires_grad(y));
    cr_assert(br_is_leaf(br_mul(plain, plain))); /* nothing was recorded */
    check_fails(br_set_requires_grad(y, false), "only leaves can stop asking");
    check_fails(br_set_requires_grad(br_zeros(BR_SHAPE(2), BR_I64), true), "i64");
    cr_assert_eq(br_set_requires_grad(x, false), x);
    cr_assert_not(br_requires_grad(br_mul(x, plain)));
    br_scope_end(scope);
}

Test(leaf, detach_forgets_the_history)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x = leaf(2, (double[]){ 1, 2 }), *h = br_mul(x, x);
    cr_assert_eq(br_detach_(h), h);
    cr_assert(br_is_leaf(h) && !br_requires_grad(h));
    cr_assert(br_backward(br_sum(br_mul(x, h))));
    cr_assert_eq(grad_at(x, 1), 4);
    check_fails(br_detach_(br_reshape(br_mul(x, x), BR_SHAPE(1, 2))), "is a view");
    cr_assert_eq(br_detach_(x), x); /* a leaf stops asking and keeps its gradient */
    cr_assert_not(br_requires_grad(x));
    cr_assert_eq(grad_at(x, 1), 4);
    check_fails(br_detach_(NULL), "detach_: t is NULL");
    br_scope_end(scope);
}

/* As in training by truncated sequences: what came before is freed, not only cut off. */
Test(leaf, detach_frees_what_the_history_held)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x = br_set_requires_grad(br_ones(BR_SHAPE(1000), BR_F64), true);
    br_scope *inner = br_scope_begin();
    br_tensor *h = br_scope_return(inner, br_mul_scalar(br_exp(br_exp(x)), 2));
    br_scope_end(inner);
    int64_t held = br_live_bytes();
    br_detach_(h);
    cr_assert_eq(br_live_bytes(), held - 16000);
    br_scope_end(scope);
}

Test(leaf, detach_keeps_a_kept_gradient)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x = leaf(1, (double[]){ 3 }), *h = br_retain_grad(br_mul(x, x));
    cr_assert(br_backward(br_sum(br_mul_scalar(h, 5))));
    br_detach_(h);
    cr_assert_eq(grad_at(h, 0), 5);
    br_scope_end(scope);
}

Test(leaf, grad_mode_is_set_and_restored)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x = leaf(1, (double[]){ 3 });
    br_scope *inner = br_scope_begin();
    br_set_grad_enabled(false);
    cr_assert_not(br_grad_enabled());
    cr_assert_not(br_requires_grad(br_mul(x, x)));
    br_set_grad_enabled(true);
    cr_assert(br_requires_grad(br_mul(x, x)));
    br_set_grad_enabled(false);
    br_scope_end(inner);
    cr_assert(br_grad_enabled());
    br_scope_end(scope);
}

/* ---- Kept gradients and hooks ---------------------------------------------------------------- */

static br_tensor *times(br_tensor *grad, void *context)
{
    return br_mul_scalar(grad, *(const double *)context);
}

/* Whatever the order of the two calls, the hook comes first. */
Test(leaf, a_kept_gradient_is_what_hooks_left)
{
    br_scope *scope = br_scope_begin();
    double two = 2;
    br_tensor *x = leaf(1, (double[]){ 3 }), *a = br_mul_scalar(x, 1), *b = br_mul_scalar(x, 1);
    br_retain_grad(a);
    br_register_hook(a, times, &two);
    br_register_hook(b, times, &two);
    br_retain_grad(b);
    cr_assert(br_backward(br_sum(br_add(a, b))));
    cr_assert_eq(grad_at(a, 0), 2);
    cr_assert_eq(grad_at(b, 0), 2);
    cr_assert_eq(grad_at(x, 0), 4);
    br_scope_end(scope);
}

/* A hook stays with the operation whose result it was added to; a kept gradient is that of what the
 * tensor has become. */
Test(leaf, hooks_and_kept_gradients_of_what_changed_in_place)
{
    br_scope *scope = br_scope_begin();
    double two = 2, five = 5;
    br_tensor *x = leaf(1, (double[]){ 1 }), *h = br_mul_scalar(x, 1);
    br_retain_grad(h);
    br_register_hook(h, times, &two);
    br_mul_scalar_(h, 3);
    br_register_hook(h, times, &five);
    cr_assert(br_backward(br_sum(h)));
    cr_assert_eq(grad_at(x, 0), 30);
    cr_assert_eq(grad_at(h, 0), 5);
    br_scope_end(scope);
}

static void step(br_tensor *leaf, void *context)
{
    ++*(int *)context;
    br_scope *scope = br_no_grad_begin();
    br_add_(leaf, br_mul_scalar(br_grad_of(leaf), -0.5));
    br_scope_end(scope);
    br_set_grad(leaf, NULL);
}

/* An optimizer's step in backward. */
Test(leaf, post_accumulate_grad_hook)
{
    br_scope *scope = br_scope_begin();
    int calls = 0;
    br_tensor *x = leaf(1, (double[]){ 3 }), *g;
    uint64_t handle = br_register_post_accumulate_grad_hook(x, step, &calls);
    cr_assert_neq(handle, 0);
    br_tensor *y = br_mul_scalar(x, 2);
    cr_assert(br_grad(1, &y, 1, &x, &g, NULL));
    cr_assert_eq(calls, 0); /* nothing was added to x's gradient */
    cr_assert(br_backward(br_add(br_mul_scalar(x, 2), br_mul_scalar(x, 4))));
    cr_assert_eq(calls, 1);
    cr_assert_null(br_grad_of(x));
    cr_assert_eq(br_item(x), 0);
    br_backward_options to_x = { .n_inputs = 1, .inputs = &x };
    cr_assert(br_backward_with(br_mul_scalar(x, 2), &to_x));
    cr_assert_eq(calls, 2);
    br_remove_hook(x, handle);
    cr_assert(br_backward(br_mul_scalar(x, 2)));
    cr_assert_eq(calls, 2);
    check_fails(br_register_post_accumulate_grad_hook(br_mul(x, x), step, NULL), "was made by mul");
    check_fails(br_register_post_accumulate_grad_hook(x, NULL, NULL), "hook is NULL");
    br_scope_end(scope);
}

/* ---- Backward to chosen tensors -------------------------------------------------------------- */

Test(leaf, backward_to_inputs)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x = leaf(2, (double[]){ 1, 2 }), *w = leaf(2, (double[]){ 3, 4 });
    br_tensor *y = br_mul(x, w);
    br_backward_options o = { .n_inputs = 1, .inputs = &y, .retain_graph = true };
    cr_assert(br_backward_with(br_sum(br_mul(y, y)), &o));
    cr_assert_eq(grad_at(y, 1), 16);
    cr_assert_null(br_grad_of(x));
    cr_assert_null(br_grad_of(w));
    o.inputs = &x;
    for (int i = 1; i <= 2; i++) { /* it adds */
        cr_assert(br_backward_with(br_sum(br_mul(y, y)), &o));
        cr_assert_eq(grad_at(x, 0), 18 * i);
        cr_assert_eq(grad_at(x, 1), 64 * i);
    }
    cr_assert_null(br_grad_of(w));
    cr_assert(br_backward_with(br_sum(w), &o)); /* nothing leads to x: no error, as in PyTorch */
    cr_assert_eq(grad_at(x, 0), 36);
    br_tensor *constant = br_ones(BR_SHAPE(1), BR_F64);
    o.inputs = &constant;
    check_fails(br_backward_with(br_sum(x), &o), "backward: input 0 [1] does not require grad");
    check_fails(br_backward_with(br_sum(x), &(br_backward_options){ .n_inputs = -1 }),
                "backward: -1 inputs, must be at least one");
    br_scope_end(scope);
}

Test(leaf, backward_from_several_tensors)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x = leaf(2, (double[]){ 1, 2 });
    br_tensor *h = br_mul(x, x); /* shared: its node is walked once, without retain_graph */
    br_tensor *outputs[] = { br_mul_scalar(h, 2), br_sum(br_mul_scalar(h, 3)) };
    br_tensor *gradients[] = { br_ones(BR_SHAPE(2), BR_F64), NULL };
    cr_assert(br_backward_all(2, outputs, gradients, NULL));
    cr_assert_eq(grad_at(x, 0), 10);
    cr_assert_eq(grad_at(x, 1), 20);
    check_fails(br_backward_all(2, outputs, NULL, NULL), "2 elements: give a gradient");
    check_fails(br_backward_all(0, outputs, NULL, NULL), "0 tensors, must be at least one");
    br_scope_end(scope);
}

/* ---- br_grad --------------------------------------------------------------------------------- */

Test(leaf, grad_materializes_zeros)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x = leaf(2, (double[]){ 1, 2 }), *u = leaf(3, (double[]){ 1, 2, 3 }), *g;
    br_tensor *y = br_sum(x);
    cr_assert(br_grad(1, &y, 1, &u, &g, &(br_grad_options){ .materialize_grads = true }));
    cr_assert(br_same_shape(g, u));
    cr_assert_eq(br_item(br_sum(g)), 0);
    br_scope_end(scope);
}

/* An output that is itself a leaf gets no gradient when others are asked for. */
Test(leaf, grad_touches_no_leaf)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x = leaf(1, (double[]){ 1 }), *u = leaf(1, (double[]){ 2 }), *g[2];
    br_tensor *outputs[] = { x, br_mul_scalar(u, 3) };
    cr_assert(br_grad(2, outputs, 1, &u, g, NULL));
    cr_assert_eq(br_item(g[0]), 3);
    cr_assert_null(br_grad_of(x));
    br_scope_end(scope);
}

/* The gradient of x by x is what was given, and can be differentiated by it. */
Test(leaf, a_given_gradient_keeps_its_history)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x = leaf(1, (double[]){ 1 }), *u = leaf(1, (double[]){ 2 }), *g, *h;
    br_grad_options o = { .gradients = &u, .create_graph = true };
    cr_assert(br_grad(1, &x, 1, &x, &g, &o));
    cr_assert(br_requires_grad(g));
    br_tensor *square = br_mul(g, g);
    cr_assert(br_grad(1, &square, 1, &u, &h, NULL));
    cr_assert_eq(br_item(h), 4);
    br_scope_end(scope);
}
