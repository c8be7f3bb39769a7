/* tests/autograd/test_backward.c - backward, br_grad, hooks, in-place changes and errors. */
#include "tests/memory.h"

#include <brasa/brasa.h>

#include <pthread.h>

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

/* A tensor that is used several times, even by one operation, gets the sum of all gradients. */
Test(backward, gradients_of_several_uses_are_summed)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x = leaf(2, (double[]){ 3, -2 });
    br_tensor *y = br_add(br_mul(x, x), br_add(x, x));
    cr_assert(br_backward(br_sum(y)));
    cr_assert_eq(grad_at(x, 0), 2 * 3 + 2.0);
    cr_assert_eq(grad_at(x, 1), 2 * -2 + 2.0);
    cr_assert(br_backward(br_sum(br_mul_scalar(x, 10)))); /* a second backward accumulates */
    cr_assert_eq(grad_at(x, 0), 2 * 3 + 2.0 + 10);
    br_scope_end(scope);
}

/* add passes the same gradient tensor to both inputs. Accumulating into one must not change the
 * other. */
Test(backward, shared_gradients_stay_independent)
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

Test(backward, gradients_of_broadcast_inputs_are_reduced)
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

/* If backward or freeing the graph were recursive, the stack would overflow here. */
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

    y = br_retain(br_add_scalar(x, 0)); /* this graph is freed without backward */
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

static br_tensor *count_visit(br_tensor *grad, void *visits)
{
    (void)grad;
    ++*(int *)visits;
    return NULL;
}

Test(backward, given_gradient)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x = leaf(2, (double[]){ 1, 2 });
    br_backward_options options =
        *BR_OPTIONS(br_backward, .gradient = br_from_f64(BR_SHAPE(2), (double[]){ 10, 20 }));
    cr_assert(br_backward_with(br_mul(x, x), &options));
    cr_assert_eq(grad_at(x, 0), 20);
    cr_assert_eq(grad_at(x, 1), 80);
    options.gradient = br_ones(BR_SHAPE(3), BR_F64);
    check_fails(br_backward_with(br_mul(x, x), &options),
                "backward: gradient is [3] f64, but t is [2] f64");
    options.gradient = br_ones(BR_SHAPE(2), BR_F32);
    check_fails(br_backward_with(br_mul(x, x), &options),
                "backward: gradient is [2] f32, but t is [2] f64");
    br_scope_end(scope);
}

/* Returns x^2 after a thousand operations, so that the sequence numbers of this thread's nodes are
 * large. */
static void *square_late(void *x)
{
    br_scope *scope = br_scope_begin();
    br_tensor *y = x;
    for (int i = 0; i < 1000; i++)
        y = br_mul_scalar(y, 1);
    y = br_retain(br_mul(y, y));
    br_scope_end(scope);
    br_thread_cleanup();
    return y;
}

/* Nodes that use y must have higher sequence numbers than y's node, although y's thread has created
 * more nodes. Otherwise backward would reach y before both of its uses. This thread has created a
 * node, too, so that its next number is not the first. */
Test(backward, a_graph_begun_in_another_thread)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x = leaf(1, (double[]){ 3 });
    cr_assert_not_null(br_mul_scalar(x, 5));
    pthread_t thread;
    void *y;
    cr_assert_eq(pthread_create(&thread, NULL, square_late, x), 0);
    cr_assert_eq(pthread_join(thread, &y), 0);
    int visits = 0;
    br_register_hook(y, count_visit, &visits);
    cr_assert(br_backward(br_sum(br_add(br_mul_scalar(y, 2), y))), "%s", br_error_message());
    cr_assert_eq(visits, 1);
    cr_assert_eq(grad_at(x, 0), 3 * 2 * 3);
    br_release(y);
    br_scope_end(scope);
}

/* The outputs of one node have separate gradients. */
Test(backward, gradients_with_respect_to_all_parts_of_a_split)
{
    enum { PARTS = 5 };
    br_scope *scope = br_scope_begin();
    br_tensor *x = leaf(PARTS, (double[]){ 1, 2, 3, 4, 5 }), *parts[PARTS], *grads[PARTS];
    cr_assert_eq(br_split(br_mul_scalar(x, 1), 1, 0, PARTS, parts), PARTS);
    br_tensor *y = br_scalar(0, BR_F64);
    for (int i = 0; i < PARTS; i++)
        y = br_add(y, br_mul_scalar(parts[i], i + 1));
    y = br_sum(y);
    cr_assert(br_grad(1, &y, PARTS, parts, grads, NULL), "%s", br_error_message());
    for (int i = 0; i < PARTS; i++)
        cr_assert_eq(br_item(grads[i]), i + 1);
    br_scope_end(scope);
}

Test(backward, retain_graph)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x = leaf(1, (double[]){ 3 });
    br_tensor *y = br_sum(br_mul(x, x));
    cr_assert(br_backward_with(y, BR_OPTIONS(br_backward, .retain_graph = true)));
    cr_assert(br_backward(y));
    cr_assert_eq(grad_at(x, 0), 12);
    check_fails(br_backward(y), "was freed by an earlier backward");
    cr_assert_eq(grad_at(x, 0), 12);
    br_scope_end(scope);
}

Test(backward, backward_frees_saved_values)
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
    cr_assert(br_live_bytes() >= before + 16000); /* held only by the graph */
    cr_assert(br_backward(y));
    cr_assert(br_live_bytes() <= before + 8000 + 64); /* only x's gradient remains */
    br_scope_end(scope);
}

Test(backward, errors)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x = leaf(2, (double[]){ 1, 2 });
    check_fails(br_backward(br_mul(x, x)), "backward: t [2] has 2 elements");
    check_fails(br_backward(br_ones(BR_SHAPE(1), BR_F64)), "does not require grad");
    br_tensor *y = br_sum(br_mul(x, x));
    cr_assert(br_backward(y));
    check_fails(br_backward(y), "the graph of sum was freed");
    br_tensor *e = br_exp(x), *z = br_sum(br_mul_scalar(e, 2));
    cr_assert_not_null(br_add_scalar_(e, 1));
    check_fails(br_backward(z),
                "exp: a value [2] needed for its gradient was changed in place by add_scalar_");
    check_fails(br_backward(NULL), "backward: t is NULL");
    br_scope_end(scope);
}

/* A number without a list, or a list without a number, does not mean "all leaves". */
Test(backward, chosen_inputs_need_a_list_and_a_number)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x = br_set_requires_grad(br_ones(BR_SHAPE(2), BR_F32), true), *grads[2];
    br_tensor *y = br_sum(x);
    br_backward_options none = *BR_OPTIONS(br_backward, .n_inputs = 2);
    check_fails(br_backward_with(y, &none), "backward: inputs is NULL, but n_inputs is 2");
    br_backward_options zero = *BR_OPTIONS(br_backward, .inputs = &x);
    check_fails(br_backward_with(y, &zero), "backward: got 0 inputs, expected at least one");
    check_fails(br_grad(1, &y, 2, NULL, grads, NULL), "grad: inputs is NULL, but n_inputs is 2");
    check_fails(br_grad(1, &y, 0, &x, grads, NULL), "grad: got 0 inputs, expected at least one");
    check_fails(br_backward_all(2, NULL, NULL, NULL), "backward: tensors is NULL, but n is 2");
    cr_assert_null(br_grad_of(x));
    br_scope_end(scope);
}

Test(backward, fails_while_an_error_is_pending)
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
    br_grad_options options = *BR_OPTIONS(br_grad, .allow_unused = true, .retain_graph = true);
    cr_assert(br_grad(2, outputs, 3, inputs, grads, &options));
    cr_assert_eq(br_item(grads[0]), 13);
    cr_assert_null(grads[1]);
    cr_assert_eq(br_item(grads[2]), 13);
    options.allow_unused = false;
    check_fails(br_grad(2, outputs, 2, inputs, grads, &options),
                "grad: no output depends on input 1 [1]");
    br_tensor *constant = br_ones(BR_SHAPE(1), BR_F64);
    check_fails(br_grad(2, outputs, 1, &constant, grads, &options), "does not require grad");
    br_scope_end(scope);
}

Test(backward, second_order)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x = leaf(1, (double[]){ 3 }), *g, *h;
    br_tensor *y = br_mul(br_mul(x, x), x); /* x^3: 3x^2, 6x */
    cr_assert(br_grad(1, &y, 1, &x, &g, BR_OPTIONS(br_grad, .create_graph = true)));
    cr_assert_eq(br_item(g), 27);
    cr_assert(br_requires_grad(g));
    cr_assert(br_grad(1, &g, 1, &x, &h, NULL));
    cr_assert_eq(br_item(h), 18);
    br_scope_end(scope);
}

/* ---- Hooks and retained gradients ------------------------------------------------------------ */

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

static br_tensor *add_one(br_tensor *grad, void *context)
{
    (void)context;
    return br_add_scalar(grad, 1);
}

/* Doubling and adding one do not commute, so the result shows the order of the hooks. br_grad()
 * returns the gradient that the hooks returned. */
Test(backward, hooks_run_in_order_of_registration_and_before_br_grad_captures)
{
    br_scope *scope = br_scope_begin();
    int calls = 0;
    br_tensor *x = leaf(1, (double[]){ 3 }), *h = br_mul_scalar(x, 5), *g[2];
    br_tensor *const hooked[] = { x, h };
    for (int i = 0; i < 2; i++) {
        br_register_hook(hooked[i], count_and_double, &calls);
        br_register_hook(hooked[i], add_one, NULL);
    }
    br_tensor *y = br_mul_scalar(h, 7);
    cr_assert(br_grad(1, &y, 2, hooked, g, BR_OPTIONS(br_grad, .retain_graph = true)));
    cr_assert_eq(br_item(g[1]), 7 * 2 + 1);
    cr_assert_eq(br_item(g[0]), 15 * 5 * 2 + 1);
    cr_assert(br_backward(y));
    cr_assert_eq(grad_at(x, 0), 15 * 5 * 2 + 1);
    cr_assert_eq(calls, 4);
    br_scope_end(scope);
}

/* A later backward must not accumulate into the existing gradient without calling the hook. */
Test(backward, hooks_of_a_leaf_run_in_every_backward)
{
    br_scope *scope = br_scope_begin();
    int calls = 0;
    br_tensor *x = leaf(3, (double[]){ 1, 2, 3 });
    br_register_hook(x, count_and_double, &calls);
    for (int i = 1; i <= 3; i++) {
        cr_assert(br_backward(br_select(x, 0, 1)));
        cr_assert_eq(calls, i);
        cr_assert_eq(grad_at(x, 0), 0);
        cr_assert_eq(grad_at(x, 1), 2 * i);
    }
    br_scope_end(scope);
}

static br_tensor *wrong_shape(br_tensor *grad, void *context)
{
    (void)context;
    return br_reshape(grad, BR_SHAPE(1, 1));
}

static br_tensor *wrong_dtype(br_tensor *grad, void *context)
{
    (void)context;
    return br_to(grad, BR_F32);
}

Test(backward, a_hook_may_not_change_the_shape_or_dtype)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x = leaf(1, (double[]){ 3 });
    uint64_t hook = br_register_hook(x, wrong_shape, NULL);
    check_fails(br_backward(br_sum(x)), "a hook returned a gradient of shape [1, 1]");
    br_remove_hook(x, hook);
    br_register_hook(x, wrong_dtype, NULL);
    check_fails(br_backward(br_sum(x)),
                "a hook returned a gradient of shape [1] and dtype f32, expected [1] and f64");
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

Test(backward, in_place_errors)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x = leaf(2, (double[]){ 1, 2 });
    check_fails(br_add_scalar_(x, 1), "add_scalar_: a [2] is a leaf that requires grad");
    check_fails(br_neg_(br_expand(br_ones(BR_SHAPE(1), BR_F64), BR_SHAPE(3))), "is expanded");
    br_scope *inner = br_no_grad_begin();
    cr_assert_not_null(br_add_scalar_(x, 1));
    br_scope_end(inner);
    cr_assert_eq(br_at(x, BR_SHAPE(0)), 2);
    br_scope_end(scope);
}

static br_tensor *identity(br_tensor *const *x, int n, void *context)
{
    (void)n;
    (void)context;
    return br_mul_scalar(x[0], 1);
}

/* In f32, x + eps is rounded: the difference is divided by the distance that x actually moved. */
Test(backward, gradcheck_divides_by_the_rounded_step)
{
    br_tensor *x = br_set_requires_grad(br_full(BR_SHAPE(1), 1000, BR_F32), true);
    const br_gradcheck_options *options =
        BR_OPTIONS(br_gradcheck, .eps = 1e-3, .rtol = 1e-3, .atol = 1e-3, .allow_f32 = true);
    cr_assert(br_gradcheck(identity, NULL, 1, &x, options), "%s", br_error_message());
}

/* More inputs than are sorted in place, in an order other than that of their addresses. */
Test(backward, br_grad_of_many_inputs)
{
    enum { N = 40 };
    br_scope *scope = br_scope_begin();
    br_tensor *x[N], *inputs[N], *grads[N], *sum = br_zeros(BR_SCALAR, BR_F64);
    for (int i = 0; i < N; i++) {
        x[i] = leaf(1, (double[]){ i });
        sum = br_add(sum, br_sum(br_mul(x[i], x[i])));
    }
    for (int i = 0; i < N; i++)
        inputs[i] = x[i * 7 % N];
    cr_assert(br_grad(1, &sum, N, inputs, grads, NULL), "%s", br_error_message());
    for (int i = 0; i < N; i++)
        cr_assert_eq(br_item(grads[i]), 2 * (i * 7 % N));
    br_scope_end(scope);
}

/* Builds a graph of more nodes than the list that br_grad() makes of them holds at first. */
static bool gradient_of_many_nodes(void)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x = br_set_requires_grad(br_ones(BR_SHAPE(1), BR_F64), true), *y = x, *dx = NULL;
    for (int i = 0; i < 70; i++)
        y = br_neg(y);
    bool ok = br_grad(1, &y, 1, &x, &dx, NULL) && br_item(dx) == 1;
    br_scope_end(scope);
    return ok;
}

Test(backward, failing_allocations)
{
    fail_in_turn(gradient_of_many_nodes, "gradient of many nodes");
}
