/* tests/autograd/test_leaf.c - autograd state of tensors: detaching, grad mode, retained gradients,
 * hooks, and backward with chosen inputs. The expected behaviour is that of PyTorch 2.15. */
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

Test(leaf, is_leaf)
{
    br_scope *scope = br_scope_begin();
    br_tensor *plain = br_ones(BR_SHAPE(2), BR_F64), *x = leaf(2, (double[]){ 1, 2 });
    br_tensor *y = br_mul(x, plain);
    cr_assert(br_is_leaf(plain) && !br_requires_grad(plain));
    cr_assert(br_is_leaf(x) && br_requires_grad(x));
    cr_assert(!br_is_leaf(y) && br_requires_grad(y));
    cr_assert(br_is_leaf(br_mul(plain, plain))); /* no input requires grad */
    check_fails(br_set_requires_grad(y, false), "requires_grad can be cleared only for leaves");
    check_fails(br_set_requires_grad(br_zeros(BR_SHAPE(2), BR_I64), true), "i64");
    cr_assert_eq(br_set_requires_grad(x, false), x);
    cr_assert_not(br_requires_grad(br_mul(x, plain)));
    br_scope_end(scope);
}

/* After a view has become a leaf, an in-place change of its base no longer gives it a history, and
 * it no longer holds the base. */
Test(leaf, a_view_that_becomes_a_leaf_releases_its_base)
{
    br_scope *scope = br_scope_begin(), *inner = br_scope_begin();
    br_tensor *w = leaf(3, (double[]){ 1, 2, 3 });
    br_tensor *base = br_zeros(BR_SHAPE(3), BR_F64), *view = br_narrow(base, 0, 0, 2);
    int64_t before = br_live_tensors();
    cr_assert_eq(br_set_requires_grad(view, true), view);
    br_scope_return(inner, w);
    br_scope_return(inner, view);
    br_add_(base, w);
    cr_assert(br_is_leaf(view) && br_requires_grad(view));
    br_scope_end(inner);
    cr_assert_lt(br_live_tensors(), before);
    cr_assert(br_backward(br_sum(br_mul(view, view))));
    cr_assert_null(br_grad_of(w));
    cr_assert_eq(grad_at(view, 1), 4);
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
    cr_assert_eq(br_detach_(x), x); /* a leaf no longer requires grad and keeps its gradient */
    cr_assert_not(br_requires_grad(x));
    cr_assert_eq(grad_at(x, 1), 4);
    check_fails(br_detach_(NULL), "detach_: t is NULL");
    br_scope_end(scope);
}

/* Truncated backpropagation through time relies on br_detach_() to free the values that the history
 * saved. */
Test(leaf, detach_frees_values_saved_by_the_history)
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

Test(leaf, a_gradient_has_the_shape_of_its_tensor)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x = leaf(2, (double[]){ 1, 2 });
    check_fails(br_set_grad(x, br_ones(BR_SHAPE(1, 2), BR_F64)),
                "set_grad: grad [1, 2] must have t's shape [2]");
    check_fails(br_set_grad(x, br_ones(BR_SHAPE(1), BR_F64)), "grad [1] must have t's shape [2]");
    cr_assert_null(br_grad_of(x));
    cr_assert(br_set_grad(x, br_ones(BR_SHAPE(2), BR_F64)));
    br_scope_end(scope);
}

Test(leaf, detach_keeps_a_retained_gradient)
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

/* ---- Retained gradients and hooks ------------------------------------------------------------ */

static br_tensor *times(br_tensor *grad, void *context)
{
    return br_mul_scalar(grad, *(const double *)context);
}

/* Hooks run before the gradient is retained, whether br_register_hook() or br_retain_grad() was
 * called first. */
Test(leaf, a_retained_gradient_includes_the_changes_of_hooks)
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

/* A hook applies to the gradient of the value that the tensor had when the hook was added. A
 * retained gradient is that of the tensor's last value. */
Test(leaf, hooks_and_retained_gradients_of_tensors_changed_in_place)
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

/* A view that was made without recording has no history, and gets none when its base, a leaf,
 * changes without recording. */
Test(leaf, a_view_without_history_keeps_none)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x = leaf(2, (double[]){ 1, 2 });
    br_scope *no_grad = br_no_grad_begin();
    br_tensor *view = br_scope_return(no_grad, br_select(x, 0, 1));
    br_mul_scalar_(x, 3);
    br_scope_end(no_grad);
    cr_assert(!br_requires_grad(view));
    cr_assert(br_is_leaf(view));
    cr_assert_eq(br_item(view), 6);
    cr_assert(!br_requires_grad(br_mul_scalar(view, 2)));
    x = br_from_f64(BR_SHAPE(2), (double[]){ 1, 2 }); /* becomes a leaf after the view was made */
    view = br_select(x, 0, 1);
    br_set_requires_grad(x, true);
    no_grad = br_no_grad_begin();
    br_mul_scalar_(x, 3);
    br_scope_end(no_grad);
    cr_assert(!br_requires_grad(view) && br_is_leaf(view));
    cr_assert_eq(br_item(view), 6);
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

/* The hook takes an optimizer step during backward. */
Test(leaf, post_accumulate_grad_hook)
{
    br_scope *scope = br_scope_begin();
    int calls = 0;
    br_tensor *x = leaf(1, (double[]){ 3 }), *g;
    uint64_t handle = br_register_post_accumulate_grad_hook(x, step, &calls);
    cr_assert_neq(handle, 0);
    br_tensor *y = br_mul_scalar(x, 2);
    cr_assert(br_grad(1, &y, 1, &x, &g, NULL));
    cr_assert_eq(calls, 0); /* br_grad() does not accumulate into x's gradient */
    cr_assert(br_backward(br_add(br_mul_scalar(x, 2), br_mul_scalar(x, 4))));
    cr_assert_eq(calls, 1);
    cr_assert_null(br_grad_of(x));
    cr_assert_eq(br_item(x), 0);
    br_backward_options to_x = *BR_OPTIONS(br_backward, .n_inputs = 1, .inputs = &x);
    cr_assert(br_backward_with(br_mul_scalar(x, 2), &to_x));
    cr_assert_eq(calls, 2);
    br_remove_hook(x, handle);
    cr_assert(br_backward(br_mul_scalar(x, 2)));
    cr_assert_eq(calls, 2);
    check_fails(br_register_post_accumulate_grad_hook(br_mul(x, x), step, NULL),
                "is not a leaf: it was computed by mul");
    check_fails(br_register_post_accumulate_grad_hook(x, NULL, NULL), "hook is NULL");
    br_scope_end(scope);
}

/* Appends a letter to the text at *context. */
static void append(void *context, char letter)
{
    char *text = context;
    size_t n = strlen(text);
    text[n] = letter;
    text[n + 1] = '\0';
}

static void leaf_is_done(br_tensor *leaf, void *context)
{
    cr_assert_not_null(br_grad_of(leaf));
    append(context, br_numel(leaf) == 1 ? '1' : '2');
}

static br_tensor *result_is_done(br_tensor *grad, void *context)
{
    (void)grad;
    append(context, 'r');
    return NULL;
}

static void pass_is_done(void *context)
{
    append(context, 'e');
}

static br_tensor *queue_end(br_tensor *grad, void *context)
{
    (void)grad;
    cr_assert(br_queue_callback(pass_is_done, context));
    return NULL;
}

/* A hook is called when the oldest operation that used the leaf has sent its gradient, not when the
 * pass ends; and only once, with the whole gradient. */
static void check_order(bool chosen_inputs)
{
    br_scope *scope = br_scope_begin();
    char calls[8] = "";
    br_tensor *one = leaf(1, (double[]){ 3 }), *two = leaf(2, (double[]){ 5, 7 });
    br_register_post_accumulate_grad_hook(one, leaf_is_done, calls);
    br_register_post_accumulate_grad_hook(two, leaf_is_done, calls);
    br_tensor *oldest = br_mul(two, two);
    br_tensor *middle = br_mul_scalar(oldest, 2);
    br_register_hook(middle, result_is_done, calls);
    br_tensor *newest = br_mul(br_mul(middle, one), two); /* uses the leaf `two` again */
    br_register_hook(newest, queue_end, calls);
    br_backward_options o =
        *BR_OPTIONS(br_backward, .n_inputs = 2, .inputs = (br_tensor *[]){ one, two });
    cr_assert(br_backward_with(br_sum(newest), chosen_inputs ? &o : NULL), "%s",
              br_error_message());
    cr_assert_str_eq(calls, chosen_inputs ? "re12" : "1r2e");
    check_close(grad_at(one, 0), 2 * (125 + 343), 1e-12); /* 2 two^3 one, summed */
    check_close(grad_at(two, 1), 6 * 49 * 3, 1e-12);
    br_scope_end(scope);
}

Test(leaf, hooks_run_as_soon_as_the_gradient_is_complete)
{
    check_order(false);
}

/* The hooks of chosen inputs run after the pass, which hands out their gradients. */
Test(leaf, hooks_of_chosen_inputs_run_after_the_pass)
{
    check_order(true);
}

static void second_is_done(void *context)
{
    append(context, 's');
}

static void queue_second(void *context)
{
    append(context, 'q');
    cr_assert(br_queue_callback(second_is_done, context));
}

static br_tensor *queue_both(br_tensor *grad, void *context)
{
    (void)grad;
    cr_assert(br_queue_callback(queue_second, context) && br_queue_callback(pass_is_done, context));
    return NULL;
}

/* A callback that another one queues runs last. */
Test(leaf, callbacks_run_in_the_order_of_their_queue)
{
    br_scope *scope = br_scope_begin();
    char calls[8] = "";
    br_tensor *x = leaf(1, (double[]){ 3 }), *y = br_mul(x, x);
    br_register_hook(y, queue_both, calls);
    cr_assert(br_backward(y));
    cr_assert_str_eq(calls, "qes");
    br_scope_end(scope);
}

Test(leaf, callbacks_run_after_an_error_and_only_in_a_pass)
{
    br_scope *scope = br_scope_begin();
    char calls[8] = "";
    br_tensor *x = leaf(1, (double[]){ 3 });
    br_tensor *y = br_mul(x, x);
    br_tensor *z = br_mul(y, y);
    br_register_hook(z, queue_end, calls);
    br_bump_version(y);
    check_fails(br_backward(z), "changed in place");
    cr_assert_str_eq(calls, "e");
    check_fails(br_queue_callback(pass_is_done, calls), "no backward pass is running");
    br_scope_end(scope);
}

/* ---- Backward with chosen inputs ------------------------------------------------------------- */

Test(leaf, backward_to_inputs)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x = leaf(2, (double[]){ 1, 2 }), *w = leaf(2, (double[]){ 3, 4 });
    br_tensor *y = br_mul(x, w);
    br_backward_options o =
        *BR_OPTIONS(br_backward, .n_inputs = 1, .inputs = &y, .retain_graph = true);
    cr_assert(br_backward_with(br_sum(br_mul(y, y)), &o));
    cr_assert_eq(grad_at(y, 1), 16);
    cr_assert_null(br_grad_of(x));
    cr_assert_null(br_grad_of(w));
    o.inputs = &x;
    for (int i = 1; i <= 2; i++) { /* gradients accumulate */
        cr_assert(br_backward_with(br_sum(br_mul(y, y)), &o));
        cr_assert_eq(grad_at(x, 0), 18 * i);
        cr_assert_eq(grad_at(x, 1), 64 * i);
    }
    cr_assert_null(br_grad_of(w));
    cr_assert(br_backward_with(br_sum(w), &o)); /* does not depend on x: no error, as in PyTorch */
    cr_assert_eq(grad_at(x, 0), 36);
    br_tensor *constant = br_ones(BR_SHAPE(1), BR_F64);
    o.inputs = &constant;
    check_fails(br_backward_with(br_sum(x), &o), "backward: input 0 [1] does not require grad");
    check_fails(br_backward_with(br_sum(x), BR_OPTIONS(br_backward, .n_inputs = -1)),
                "backward: got -1 inputs, expected at least one");
    check_fails(br_backward_with(br_sum(x), BR_OPTIONS(br_backward, .inputs = &x)),
                "backward: got 0 inputs, expected at least one");
    br_scope_end(scope);
}

Test(leaf, backward_from_several_tensors)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x = leaf(2, (double[]){ 1, 2 });
    br_tensor *h = br_mul(x, x); /* shared: its node runs once, so retain_graph is not needed */
    br_tensor *outputs[] = { br_mul_scalar(h, 2), br_sum(br_mul_scalar(h, 3)) };
    br_tensor *gradients[] = { br_ones(BR_SHAPE(2), BR_F64), NULL };
    cr_assert(br_backward_all(2, outputs, gradients, NULL));
    cr_assert_eq(grad_at(x, 0), 10);
    cr_assert_eq(grad_at(x, 1), 20);
    check_fails(br_backward_all(2, outputs, NULL, NULL), "2 elements: pass a gradient");
    check_fails(br_backward_all(0, outputs, NULL, NULL), "got 0 tensors, expected at least one");
    br_scope_end(scope);
}

/* With create_graph, accumulation creates a new tensor. A gradient that was retained before keeps
 * its value. */
Test(leaf, backward_with_create_graph_does_not_accumulate_in_place)
{
    br_scope *scope = br_scope_begin();
    br_backward_options recorded = *BR_OPTIONS(br_backward, .create_graph = true);
    br_tensor *x = leaf(2, (double[]){ 1, 2 });
    cr_assert(br_backward_with(br_sum(br_mul(x, x)), &recorded));
    br_tensor *first = br_retain(br_grad_of(x));
    cr_assert(br_backward_with(br_sum(br_mul(x, x)), &recorded));
    cr_assert_eq(br_at(first, 1, (int64_t[]){ 1 }), 4);
    cr_assert_eq(grad_at(x, 1), 8);
    br_release(first);
    br_set_grad(x, NULL);
    br_scope_end(scope);
}

/* The same is true if nothing else holds the first gradient: the graph records the addition. */
Test(leaf, accumulation_with_create_graph_is_recorded)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x = leaf(2, (double[]){ 0.5, 2 }), *g, *second;
    br_tensor *h = br_mul_scalar(x, 1);
    br_tensor *y = br_sum(br_add(br_exp(h), br_add(br_exp(br_mul_scalar(h, 2)), br_tanh(h))));
    cr_assert(br_grad(1, &y, 1, &x, &g, BR_OPTIONS(br_grad, .create_graph = true)));
    br_tensor *total = br_sum(g);
    cr_assert(br_grad(1, &total, 1, &x, &second, BR_OPTIONS(br_grad, .retain_graph = true)));
    cr_assert(br_backward_with(y, BR_OPTIONS(br_backward, .create_graph = true)));
    cr_assert(br_backward_with(y, BR_OPTIONS(br_backward, .create_graph = true)));
    cr_assert_str_eq(br_op_name(br_grad_of(x)), "add");
    br_set_grad(x, NULL);
    for (int64_t i = 0; i < 2; i++) {
        double v = br_at(x, 1, &i), t = tanh(v);
        cr_assert_float_eq(br_at(second, 1, &i), exp(v) + 4 * exp(2 * v) - 2 * t * (1 - t * t),
                           1e-12);
    }
    br_scope_end(scope);
}

/* ---- br_grad --------------------------------------------------------------------------------- */

Test(leaf, grad_materializes_zeros)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x = leaf(2, (double[]){ 1, 2 }), *u = leaf(3, (double[]){ 1, 2, 3 }), *g;
    br_tensor *y = br_sum(x);
    cr_assert(br_grad(1, &y, 1, &u, &g, BR_OPTIONS(br_grad, .materialize_grads = true)));
    cr_assert(br_same_shape(g, u));
    cr_assert_eq(br_item(br_sum(g)), 0);
    br_scope_end(scope);
}

/* br_grad() does not write to the gradient of an output that is a leaf. */
Test(leaf, grad_does_not_accumulate_into_leaves)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x = leaf(1, (double[]){ 1 }), *u = leaf(1, (double[]){ 2 }), *g[2];
    br_tensor *outputs[] = { x, br_mul_scalar(u, 3) };
    cr_assert(br_grad(2, outputs, 1, &u, g, NULL));
    cr_assert_eq(br_item(g[0]), 3);
    cr_assert_null(br_grad_of(x));
    br_scope_end(scope);
}

/* The gradient of x with respect to x is the given output gradient u, so it can be differentiated
 * with respect to u. */
Test(leaf, a_given_output_gradient_keeps_its_history)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x = leaf(1, (double[]){ 1 }), *u = leaf(1, (double[]){ 2 }), *g, *h;
    br_grad_options o = *BR_OPTIONS(br_grad, .gradients = &u, .create_graph = true);
    cr_assert(br_grad(1, &x, 1, &x, &g, &o));
    cr_assert(br_requires_grad(g));
    br_tensor *square = br_mul(g, g);
    cr_assert(br_grad(1, &square, 1, &u, &h, NULL));
    cr_assert_eq(br_item(h), 4);
    br_scope_end(scope);
}

/* A graph may still lead to a leaf whose requires_grad was cleared, even if it was cleared
 * twice. */
Test(leaf, requires_grad_switched_off_twice)
{
    br_scope *scope = br_scope_begin();
    br_tensor *w = leaf(2, (double[]){ 1, 2 }), *z = br_mul_scalar(w, 2);
    br_set_requires_grad(w, false);
    br_set_requires_grad(w, false);
    check_fails(br_mul_(w, z), "once required grad");
    br_scope_end(scope);
}

static br_tensor *twice_the_gradient(br_tensor *grad, void *context)
{
    (void)context;
    return br_mul_scalar(grad, 2);
}

/* The hooks of a leaf also run in br_grad() if it has a gradient of its own. */
Test(leaf, hooks_in_br_grad_beside_a_gradient)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x = br_set_requires_grad(br_full(BR_SHAPE(2), 3, BR_F64), true), *g;
    br_register_hook(x, twice_the_gradient, NULL);
    for (int i = 0; i < 3; i++) {
        br_tensor *y = br_sum(br_mul_scalar(x, 5));
        cr_assert(br_grad(1, &y, 1, &x, &g, NULL), "%s", br_error_message());
        cr_assert_eq(br_at(g, BR_DIMS(1)), 10);
        cr_assert(br_backward(br_sum(br_mul_scalar(x, 5))));
        cr_assert_eq(br_at(br_grad_of(x), BR_DIMS(1)), 10 * (i + 1));
    }
    br_scope_end(scope);
}
