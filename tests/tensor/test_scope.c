/* tests/tensor/test_scope.c - ownership of tensors: scopes, br_scope_return() and br_retain(). */
#include "tensor/tensor_internal.h"
#include "tests/support.h"

#include <brasa/autograd.h>
#include <brasa/ops.h>
#include <pthread.h>
#include <stdlib.h>

TestSuite(scope, .init = check_begin, .fini = check_end);

static int64_t live_before; /* live tensors when the test began */

static int64_t live(void)
{
    return br_live_tensors() - live_before;
}

static br_tensor *number(double value)
{
    return br_scalar(value, BR_F64);
}

Test(scope, ending_a_scope_frees_the_tensors_created_in_it)
{
    live_before = br_live_tensors();
    br_scope *outer = br_scope_begin();
    br_tensor *a = number(1);
    br_scope *inner = br_scope_begin();
    number(2);
    number(3);
    cr_assert_eq(live(), 3);
    br_scope_end(inner);
    cr_assert_eq(live(), 1);
    cr_assert_eq(br_item(a), 1);
    br_scope_end(outer);
    cr_assert_eq(live(), 0);
    br_scope_end(NULL);
}

Test(scope, ending_an_outer_scope_ends_the_inner_ones)
{
    live_before = br_live_tensors();
    br_scope *outer = br_scope_begin();
    number(1);
    br_scope *inner = br_scope_begin();
    number(2);
    br_scope_begin();
    number(3);
    br_scope_end(outer);
    cr_assert_eq(live(), 0);
    br_scope_end(inner);
    check_fails(false, "scope_end: scope ");
    cr_assert_null(br__thread.scope);
}

Test(scope, return_moves_a_tensor_one_level_out)
{
    live_before = br_live_tensors();
    br_scope *outer = br_scope_begin();
    br_scope *inner = br_scope_begin();
    br_tensor *a = number(1), *b = number(2), *c = number(3);
    cr_assert_eq(br_scope_return(NULL, c), c); /* swaps places with `a` on the stack */
    cr_assert_eq(br_scope_return(inner, b), b);
    cr_assert_eq(br_scope_return(inner, b), b); /* already returned: no change */
    cr_assert_eq(br_item(a), 1);
    br_scope_end(inner);
    cr_assert_eq(live(), 2);
    cr_assert_eq(br_item(b) + br_item(c), 5);
    br_scope_end(outer);
    cr_assert_eq(live(), 0);
}

Test(scope, replace_releases_the_old_tensor)
{
    live_before = br_live_tensors();
    br_scope *outer = br_scope_begin();
    br_tensor *given = number(1);
    br_scope *inner = br_scope_begin();
    /* The inner scope does not own `given`. */
    br_tensor *x = br_scope_replace(given, br_neg(given));
    for (int i = 0; i < 10; i++)
        x = br_scope_replace(x, br_add_scalar(x, 1));
    cr_assert_eq(live(), 2);
    cr_assert_eq(br_item(x), 9);
    cr_assert_eq(br_scope_replace(x, x), x);
    cr_assert_eq(br_scope_replace(NULL, x), x);
    br_tensor *view = br_scope_replace(x, br_unsqueeze(x, 0)); /* holds x */
    cr_assert_eq(br_item(view), 9);
    br_retain(view);
    cr_assert_null(br_scope_replace(view, NULL));
    cr_assert_eq(live(), 3);
    br_scope_end(inner);
    cr_assert_eq(br_item(given) + br_item(view), 10);
    br_release(view);
    cr_assert_eq(live(), 1);
    br_scope_end(outer);
    cr_assert_eq(live(), 0);
}

/* After x = f(x), the graph keeps the old x alive for backward. */
Test(scope, a_graph_keeps_replaced_tensors)
{
    live_before = br_live_tensors();
    br_scope *scope = br_scope_begin();
    br_tensor *leaf = br_set_requires_grad(number(3), true), *x = br_mul_scalar(leaf, 1);
    for (int i = 0; i < 3; i++)
        x = br_scope_replace(x, br_mul(x, x)); /* x^8 */
    br_backward(x);
    cr_assert_eq(br_item(x), 6561);
    cr_assert_eq(br_item(br_grad_of(leaf)), 8 * 2187);
    br_scope_end(scope);
    cr_assert_eq(live(), 0);
}

/* br_may_overwrite() is true only if nothing else can observe the change. */
Test(scope, may_overwrite_only_tensors_that_nothing_else_holds)
{
    br_scope *outer = br_scope_begin();
    br_tensor *given = number(1), *leaf = br_set_requires_grad(number(2), true);
    br_tensor *saved = br_exp(leaf); /* saved by its node */
    cr_assert_not(br_may_overwrite(given), "grad mode is on");
    br_scope *inner = br_no_grad_begin();
    br_tensor *x = number(3), *inner_leaf = br_set_requires_grad(number(4), true);
    cr_assert(br_may_overwrite(x));
    cr_assert_not(br_may_overwrite(NULL));
    cr_assert_not(br_may_overwrite(given), "belongs to the outer scope");
    cr_assert_not(br_may_overwrite(saved));
    cr_assert_not(br_may_overwrite(inner_leaf));
    br_tensor *view = br_unsqueeze(x, 0);
    cr_assert_not(br_may_overwrite(view));
    cr_assert_not(br_may_overwrite(x), "has a view");
    br_release(br__take(view));
    cr_assert(br_may_overwrite(x));
    br_tensor *base = number(6), *repeated = br_expand(base, BR_SHAPE(4));
    cr_assert_not(br_may_overwrite(br_scope_replace(base, repeated)),
                  "is a view, although the last tensor with this storage");
    br_retain(x);
    cr_assert_not(br_may_overwrite(x), "is retained");
    br_release(x);
    cr_assert(br_may_overwrite(x));
    br_scope *innermost = br_scope_begin();
    cr_assert_not(br_may_overwrite(x), "belongs to an outer scope");
    br_scope_end(innermost);
    br_scope_return(inner, x);
    cr_assert_not(br_may_overwrite(x), "was returned to the outer scope");
    br_scope_end(inner);
    inner = br_no_grad_begin();
    br_tensor *taken = br__take(number(5));
    cr_assert_not(br_may_overwrite(taken), "belongs to no scope");
    br_release(taken);
    br_scope_end(inner);
    br_scope_end(outer);
    cr_assert_not(br_may_overwrite(NULL));
}

/* A graph node of the same scope still holds its saved tensors after grad mode has been turned
 * off. */
Test(scope, may_not_overwrite_tensors_saved_for_backward)
{
    br_scope *scope = br_scope_begin();
    br_tensor *leaf = br_set_requires_grad(br_full(BR_SHAPE(100), 2, BR_F32), true);
    br_tensor *factor = br_full(BR_SHAPE(100), 3, BR_F32);
    br_tensor *y = br_sum(br_mul(leaf, factor));
    br_set_grad_enabled(false);
    cr_assert_not(br_may_overwrite(factor));
    br_set_grad_enabled(true);
    br_backward(y);
    cr_assert_eq(br_at(br_grad_of(leaf), BR_DIMS(99)), 3);
    br_scope_end(scope);
}

Test(scope, return_moves_a_tensor_several_levels_out)
{
    live_before = br_live_tensors();
    br_scope *first = br_scope_begin();
    number(10);
    br_scope *second = br_scope_begin();
    number(20);
    number(21);
    br_scope *third = br_scope_begin();
    number(30);
    br_tensor *t = number(31);
    number(32);
    cr_assert_eq(br_scope_return(second, t), t);
    br_scope_end(third);
    cr_assert_eq(live(), 4);
    br_scope_end(second);
    cr_assert_eq(live(), 2);
    cr_assert_eq(br_item(t), 31);
    cr_assert_eq(br_scope_return(first, t), t); /* now belongs to no scope */
    br_scope_end(first);
    cr_assert_eq(live(), 1);
    cr_assert_eq(br_item(t), 31);
    br_thread_cleanup();
    cr_assert_eq(live(), 0);
}

Test(scope, returning_a_tensor_that_the_scope_does_not_own_changes_nothing)
{
    live_before = br_live_tensors();
    br_tensor *free_one = number(0);
    br_scope *outer = br_scope_begin();
    br_tensor *a = number(1);
    br_scope *inner = br_scope_begin();
    cr_assert_eq(br_scope_return(inner, a), a);
    cr_assert_eq(br_scope_return(NULL, free_one), free_one);
    cr_assert_null(br_scope_return(inner, NULL));
    br_scope_end(inner);
    cr_assert_eq(br_item(a), 1);
    check_fails(br_scope_return(inner, a), "scope_return: scope ");
    br_scope_end(outer);
    cr_assert_eq(live(), 1);
    cr_assert_eq(br_scope_return(NULL, free_one), free_one);
    cr_assert_eq(br_item(free_one), 0);
}

Test(scope, retained_tensors_outlive_the_scope)
{
    live_before = br_live_tensors();
    br_scope *scope = br_scope_begin();
    br_tensor *t = br_retain(number(7));
    cr_assert_eq(br_retain(t), t);
    br_scope_end(scope);
    cr_assert_eq(live(), 1);
    cr_assert_eq(br_item(t), 7);
    scope = br_scope_begin();
    cr_assert_eq(br_scope_return(scope, t), t); /* still belongs to no scope */
    br_scope_end(scope);
    br_release(t);
    cr_assert_eq(br_item(t), 7);
    br_release(t);
    cr_assert_eq(live(), 0);
    br_release(NULL);
    cr_assert_null(br_retain(NULL));
}

/* Checks how many tensors stay alive with a view. In grad mode a view also holds its base, because
 * an in-place change of the base gives the view a new history. */
static void check_view_holds(int64_t tensors)
{
    live_before = br_live_tensors();
    br_scope *scope = br_scope_begin();
    br_tensor *t = br_arange(0, 6, 1, BR_F64);
    br_tensor *view = br_retain(br__view_of(t, 1, (int64_t[]){ 3 }, (int64_t[]){ 2 }, 0));
    cr_assert(br_shares_storage(t, view));
    br_scope_end(scope);
    cr_assert_eq(live(), tensors);
    cr_assert_eq(br_at(view, BR_DIMS(2)), 4);
    br_release(view);
    cr_assert_eq(live(), 0);
}

Test(scope, views_hold_the_storage)
{
    check_view_holds(2);
    br_scope *scope = br_no_grad_begin();
    check_view_holds(1);
    br_scope_end(scope);
}

/* Randomly opens and ends scopes, creates tensors and returns them. Each tensor must live exactly
 * as long as a simple list predicts. */
Test(scope, random_use_agrees_with_a_simple_list)
{
    enum { DEPTH = 12, MANY = 20000 };
    static struct {
        br_tensor *t;
        int depth; /* of the scope that owns it; -1: freed */
    } all[MANY];
    br_scope *open[DEPTH + 1] = { NULL };
    int depth = 0, n = 0;
    int64_t expected = 0;
    live_before = br_live_tensors();
    for (int step = 0; n < MANY; step++) {
        uint32_t dice = br_random_u32() % 100;
        if (dice < 8 && depth < DEPTH) {
            open[++depth] = br_scope_begin();
        } else if (dice < 15 && depth > 0) {
            br_scope_end(open[depth]);
            depth--;
            for (int i = 0; i < n; i++) {
                expected -= all[i].depth > depth;
                all[i].depth = all[i].depth > depth ? -1 : all[i].depth;
            }
        } else if (dice < 40 && n > 0 && depth > 0) {
            int i = n - 1 - (int)(br_random_u32() % (uint32_t)(n < 30 ? n : 30));
            int from = 1 + (int)(br_random_u32() % (uint32_t)depth);
            if (all[i].depth >= 0) {
                br_scope_return(open[from], all[i].t);
                all[i].depth = all[i].depth >= from ? from - 1 : all[i].depth;
            }
        } else {
            all[n].t = number(n);
            all[n++].depth = depth;
            expected++;
        }
        cr_assert_eq(live(), expected, "step %d", step);
    }
    for (int i = 0; i < n; i++)
        cr_assert(all[i].depth < 0 || br_item(all[i].t) == i, "tensor %d", i);
}

Test(scope, many_tensors_and_levels)
{
    live_before = br_live_tensors();
    br_scope *outer = br_scope_begin();
    for (int i = 0; i < 100000; i++)
        number(i);
    for (int i = 0; i < 1000; i++)
        br_scope_begin();
    br_tensor *t = number(-1);
    cr_assert_eq(live(), 100001);
    cr_assert_eq(br_scope_return(outer, t), t);
    br_scope_end(outer);
    cr_assert_eq(live(), 1);
    cr_assert_eq(br_item(t), -1);
}

/* br__take_over() moves the reference of whichever scope owns the tensor to the caller. If no scope
 * owns it, the caller gets a new reference. */
Test(scope, take_over_moves_the_reference_of_any_scope)
{
    live_before = br_live_tensors();
    br_tensor *outside = number(1), *above = number(2);
    br_scope *outer = br_scope_begin();
    br_tensor *middle = number(3), *kept = number(4);
    br_scope *inner = br_scope_begin();
    br_tensor *last = number(5);
    br_tensor *taken[] = { outside, above, middle, last };
    for (int i = 0; i < 4; i++) {
        cr_assert_eq(br__take_over(taken[i]), taken[i]);
        cr_assert(br__is_exclusive(taken[i]));
    }
    cr_assert_eq(br__take_over(last), last); /* a second reference */
    cr_assert_not(br__is_exclusive(last));
    br_release(last);
    cr_assert_null(br__take_over(NULL));
    cr_assert_eq(br_item(kept), 4);
    br_scope_end(inner);
    br_scope_end(outer);
    cr_assert_eq(live(), 4);
    for (int i = 0; i < 4; i++)
        br_release(taken[i]);
    cr_assert_eq(live(), 0);
}

/* The place of a tensor that was taken from an outer scope stays below the inner scope's mark. */
Test(scope, take_over_from_an_outer_scope_leaves_the_inner_one_its_tensors)
{
    live_before = br_live_tensors();
    br_scope *outer = br_scope_begin();
    br_tensor *taken = number(1);
    br_scope *inner = br_scope_begin();
    cr_assert_eq(br__take_over(taken), taken);
    number(2);
    cr_assert_eq(live(), 2);
    br_scope_end(inner);
    cr_assert_eq(live(), 1);
    br_scope_end(outer);
    cr_assert_eq(live(), 1);
    br_release(taken);
    cr_assert_eq(live(), 0);
}

/* br__take_over() leaves no holes on the stack, which would otherwise grow without bound. */
Test(scope, take_over_leaves_no_holes_on_the_stack)
{
    for (int i = 0; i < 1000; i++)
        br_release(br__take_over(number(i)));
    cr_assert_leq(br__thread.top, 1);
}

/* br__take() moves the innermost scope's reference to the caller. If the tensor belongs elsewhere,
 * the caller gets a new reference. */
Test(scope, take_moves_the_reference_of_the_innermost_scope)
{
    live_before = br_live_tensors();
    br_scope *outer = br_scope_begin();
    br_tensor *elsewhere = number(1);
    br_scope *inner = br_scope_begin();
    br_tensor *first = number(2), *kept = number(3), *last = number(4);
    cr_assert_eq(br__take(first), first);
    cr_assert(br__is_exclusive(first));
    cr_assert_eq(br__take(last), last);
    cr_assert_eq(br__take(last), last); /* a second reference */
    cr_assert_not(br__is_exclusive(last));
    br_release(last);
    cr_assert_eq(br__take(elsewhere), elsewhere);
    cr_assert_null(br__take(NULL));
    br_scope_return(inner, kept); /* swaps places with an empty slot */
    br_scope_end(inner);
    cr_assert_eq(live(), 4);
    br_release(first);
    br_release(last);
    br_release(elsewhere);
    cr_assert_eq(live(), 2);
    cr_assert_eq(br_item(elsewhere) + br_item(kept), 4);
    br_scope_end(outer);
    cr_assert_eq(live(), 0);
}

static void *use_thread(void *shared)
{
    br_scope *scope = br_scope_begin();
    br_tensor *own = number(5), *t = shared;
    br_scope_return(scope, t); /* no effect: belongs to another thread */
    br_set_grad_enabled(false);
    if (br_may_overwrite(t) || !br_may_overwrite(own))
        return NULL;
    double sum = br_item(own) + br_item(t);
    br_retain(t);
    br_release(t);
    number(6);
    br_thread_cleanup(); /* ends the scope */
    return sum == 6 ? shared : NULL;
}

Test(scope, each_thread_has_its_own_scopes)
{
    live_before = br_live_tensors();
    br_scope *scope = br_scope_begin();
    br_tensor *shared = number(1);
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        cr_assert_eq(pthread_create(&threads[i], NULL, use_thread, shared), 0);
    for (int i = 0; i < 4; i++) {
        void *result;
        pthread_join(threads[i], &result);
        cr_assert_eq(result, shared);
    }
    cr_assert_eq(live(), 1);
    br_scope_end(scope);
    cr_assert_eq(live(), 0);
}
