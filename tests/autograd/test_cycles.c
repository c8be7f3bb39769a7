/* tests/autograd/test_cycles.c - situations that could create reference cycles. A cycle would leave
 * live tensors, which the fixture reports as leaks. */
#include "tests/support.h"

#include <brasa/brasa.h>

TestSuite(cycles, .init = check_begin, .fini = check_end);

static br_tensor *leaf(void)
{
    return br_set_requires_grad(br_full(BR_SHAPE(2), 3, BR_F64), true);
}

#define RECORDED BR_OPTIONS(br_backward, .create_graph = true)

/* ---- Gradients whose graph refers to their tensor -------------------------------------------- */

Test(cycles, a_tensor_is_not_its_own_gradient)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x = leaf(), *y = leaf(), *z = leaf(), *base = br_zeros(BR_SHAPE(3), BR_F64);
    check_fails(br_set_grad(x, x), "is t, a view of t, or has t as its own gradient");
    check_fails(br_set_grad(base, br_reshape(base, BR_SHAPE(3))), "is t, a view of t");
    cr_assert(br_set_grad(x, y));
    cr_assert(br_set_grad(y, z));
    check_fails(br_set_grad(z, x), "has t as its own gradient");
    check_fails(br_set_grad(y, x), "has t as its own gradient");
    cr_assert(br_set_grad(z, br_clone(z)));
    br_scope_end(scope);
}

Test(cycles, gradient_with_create_graph)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x = leaf();
    br_backward_with(br_sum(br_pow_scalar(x, 3)), RECORDED);
    br_tensor *total = br_sum(br_mul(br_grad_of(x), br_grad_of(x))), *g;
    cr_assert(br_grad(1, &total, 1, &x, &g, NULL), "%s", br_error_message());
    check_close(br_at(g, 1, (int64_t[]){ 1 }), 2 * 27 * 18, 1e-9); /* d (3 x^2)^2 */
    br_scope_end(scope);
}

/* The graph of each gradient refers to both leaves. */
Test(cycles, two_leaves)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x = leaf(), *y = leaf();
    for (int i = 0; i < 3; i++)
        cr_assert(br_backward_with(br_sum(br_mul(br_mul(x, y), y)), RECORDED));
    check_close(br_at(br_grad_of(x), 1, (int64_t[]){ 0 }), 27, 1e-12);
    br_scope_end(scope);
}

Test(cycles, without_a_scope)
{
    br_tensor *x = leaf();
    cr_assert(br_backward_with(br_sum(br_mul(x, x)), RECORDED));
    br_thread_cleanup();
}

Test(cycles, backward_with_chosen_inputs)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x = leaf(), *h = br_exp(x), *inputs[] = { x, h };
    cr_assert(br_backward_with(br_sum(br_mul(h, x)), BR_OPTIONS(br_backward, .create_graph = true,
                                                                .n_inputs = 2, .inputs = inputs)));
    br_scope_end(scope);
}

Test(cycles, set_grad_with_a_history)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x = leaf();
    cr_assert(br_set_grad(x, br_exp(x)));
    cr_assert(br_set_grad(x, br_exp(x)));
    br_scope_end(scope);
}

/* A leaf's gradient has a gradient whose history leads to the leaf: set before the leaf's, after
 * it, and after the history of the leaf's gradient has ended. */
Test(cycles, gradient_of_a_gradient_with_a_history)
{
    for (int order = 0; order < 3; order++) {
        br_scope *scope = br_scope_begin();
        br_tensor *x = leaf(), *inner, *y;
        br_scope *inside = br_scope_begin();
        y = br_scope_return(inside, br_exp(x));
        inner = br_scope_return(inside, br_tanh(x));
        cr_assert(order > 0 || br_set_grad(y, inner));
        cr_assert(br_set_grad(x, y));
        cr_assert(order != 1 || br_set_grad(y, inner));
        br_scope_end(inside);
        cr_assert(order != 2 || br_set_grad(y, inner));
        cr_assert_eq(br_grad_of(br_grad_of(x)), inner);
        br_scope_end(scope);
    }
    br_tensor *x = leaf(), *y = br_exp(x); /* outside every scope */
    cr_assert(br_set_grad(x, y) && br_set_grad(y, br_tanh(x)));
    br_thread_cleanup();
}

Test(cycles, set_grad_with_a_view)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x = leaf(), *y = leaf(), *z = br_zeros(BR_SHAPE(2, 2), BR_F64);
    cr_assert(br_set_grad(x, br_select(br_outer(x, x), 0, 1)));
    cr_assert(br_set_grad(y, br_select(z, 0, 0)));
    cr_assert(br_add_(z, br_exp(y)));
    br_scope_end(scope);
}

Test(cycles, gradient_changed_in_place)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x = leaf();
    cr_assert(br_backward(br_sum(br_mul(x, x))));
    cr_assert(br_mul_(br_grad_of(x), x));
    cr_assert(br_requires_grad(br_grad_of(x)));
    br_scope_end(scope);
}

/* Changing a view of a gradient gives the gradient a history. */
Test(cycles, view_of_a_gradient_changed_in_place)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x = leaf();
    cr_assert(br_backward(br_sum(br_mul(x, x))));
    cr_assert(br_mul_(br_reshape(br_grad_of(x), BR_SHAPE(2)), x));
    cr_assert(br_requires_grad(br_grad_of(x)));
    br_scope_end(scope);
}

/* ---- Histories that ended with a scope ------------------------------------------------------- */

Test(cycles, using_a_history_that_ended_is_an_error)
{
    br_scope *outer = br_scope_begin();
    br_tensor *x = leaf(), *g;
    br_scope *inner = br_scope_begin();
    cr_assert(br_backward_with(br_sum(br_mul(x, x)), RECORDED));
    br_scope_end(inner);
    cr_assert(br_requires_grad(br_grad_of(x)));
    check_close(br_at(br_grad_of(x), 1, (int64_t[]){ 1 }), 6, 0);
    br_tensor *penalty = br_sum(br_mul(br_grad_of(x), x));
    check_fails(br_backward(penalty), "the history of a leaf's gradient ended with the scope");
    penalty = br_sum(br_mul(br_grad_of(x), x));
    check_fails(br_grad(1, &penalty, 1, &x, &g, BR_OPTIONS(br_grad, .allow_unused = true)),
                "the history of a leaf's gradient ended with the scope");
    br_set_grad(x, NULL);
    cr_assert(br_backward(br_sum(br_mul(x, x))));
    check_close(br_at(br_grad_of(x), 1, (int64_t[]){ 1 }), 6, 0);
    br_scope_end(outer);
}

/* Gradients that are recorded in a step are freed at its end. */
Test(cycles, memory_does_not_grow_over_steps)
{
    br_scope *outer = br_scope_begin();
    br_tensor *x = leaf();
    int64_t tensors = 0;
    for (int i = 0; i < 4; i++) {
        br_scope *scope = br_scope_begin();
        cr_assert(br_backward_with(br_sum(br_exp(x)), RECORDED));
        cr_assert(br_backward_with(br_sum(br_mul(br_grad_of(x), br_grad_of(x))), NULL));
        br_scope_end(scope);
        br_set_grad(x, NULL);
        cr_assert(i == 0 || br_live_tensors() == tensors);
        tensors = br_live_tensors();
    }
    br_scope_end(outer);
}

/* ---- Tensors that no longer require grad ----------------------------------------------------- */

Test(cycles, view_of_a_former_leaf)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x = leaf(), *w = leaf(), *view = br_reshape(x, BR_SHAPE(2, 1));
    br_set_requires_grad(x, false);
    check_fails(br_mul_(view, br_reshape(w, BR_SHAPE(2, 1))),
                "once required grad and is a leaf of the graph");
    br_scope_end(scope);
}

Test(cycles, former_leaf)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x = leaf(), *y = br_exp(x), *w = leaf();
    br_set_requires_grad(x, false);
    check_fails(br_add_(x, y), "once required grad and is a leaf of the graph");
    cr_assert(br_add_(x, br_exp(w)), "%s", br_error_message());
    check_fails(br_add_(x, br_exp(y)), "once required grad and is a leaf of the graph");
    cr_assert(br_backward(br_sum(x)));
    br_scope_end(scope);
}

Test(cycles, detached_former_leaf)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x = leaf(), *y = br_exp(x);
    br_detach_(x);
    cr_assert_not(br_requires_grad(x));
    check_fails(br_add_(x, y), "once required grad and is a leaf of the graph");
    br_detach_(x); /* a second time */
    check_fails(br_add_(x, y), "once required grad and is a leaf of the graph");
    cr_assert(br_backward(br_sum(y)));
    br_scope_end(scope);
}

/* A graph delivers a gradient with a history to a former leaf that an in-place change has given a
 * history, too. */
Test(cycles, gradient_of_a_former_leaf)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x = leaf(), *y = br_exp(x), *w = leaf();
    br_set_requires_grad(x, false);
    cr_assert(br_copy_(x, br_exp(w)));
    cr_assert(br_backward_with(br_sum(br_tanh(y)), RECORDED));
    cr_assert_not_null(br_grad_of(x));
    br_scope_end(scope);
}

/* A tensor is an input of a checkpoint, and is then changed in place to depend on the checkpoint's
 * result. */
static br_tensor *product(br_tensor *const *inputs, int n, void *context)
{
    (void)n;
    (void)context;
    return br_mul(inputs[0], inputs[1]);
}

Test(cycles, checkpoint_whose_input_is_changed)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x = br_ones(BR_SHAPE(2), BR_F64), *inputs[] = { x, leaf() };
    cr_assert(br_add_(x, br_activation_checkpoint(product, NULL, 2, inputs, NULL)));
    br_scope_end(scope);
}

/* A leaf that lives longer than the scopes of its passes. */
Test(cycles, passes_in_several_scopes)
{
    br_scope *outer = br_scope_begin();
    br_tensor *x = leaf();
    for (int i = 0; i < 3; i++) {
        br_scope *scope = br_scope_begin();
        cr_assert(br_backward_with(br_sum(br_pow_scalar(x, 3)), RECORDED));
        cr_assert(br_requires_grad(br_grad_of(x)));
        br_scope_end(scope);
        cr_assert_str_eq(br_op_name(br_grad_of(x)), "ended_history", "scope %d", i);
    }
    br_scope_end(outer);
}
