/* tests/ops/shape/test_as_strided.c - memory of br_as_strided(), br_empty_strided() and
 * br_resize_(); values and gradients of views are in torch_cases.def. */
#include "tests/ops/values.h"
#include "tests/support.h"

TestSuite(as_strided, .init = check_begin, .fini = check_end);

/* A change of a view outside of its base in grad mode has no history to join. */
Test(as_strided, views_beyond_their_base)
{
    br_scope *scope = br_scope_begin();
    br_tensor *all = br_arange(0, 10, 1, BR_F64);
    br_tensor *part = br_set_requires_grad(br_detach(br_narrow(all, 0, 4, 3)), true);
    br_tensor *doubled = br_mul_scalar(part, 2);
    br_tensor *view = br_as_strided(part, BR_SHAPE(5), (int64_t[]){ 1 }, 2);
    cr_assert(br_equal(view, br_narrow(all, 0, 2, 5)));
    check_fails(br_mul_scalar_(view, 3), "view");
    check_fails(br_mul_scalar_(br_as_strided(part, BR_SHAPE(2), (int64_t[]){ 1 }, 2), 3), "view");
    br_backward(br_add(br_sum(br_mul(view, view)), br_sum(doubled)));
    cr_assert(br_equal(br_grad_of(part), br_add_scalar(br_mul_scalar(part, 2), 2)));
    br_scope *quiet = br_no_grad_begin();
    br_zero_(br_as_strided(part, BR_SHAPE(2), (int64_t[]){ 1 }, 8));
    br_scope_end(quiet);
    cr_assert_eq(br_at(all, BR_DIMS(9)), 0);
    cr_assert_eq(br_at(all, BR_DIMS(7)), 7);
    br_scope_end(scope);
    check_ok();
}

Test(as_strided, large_numbers_are_refused)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x = br_zeros(BR_SHAPE(4), BR_F32);
    const int64_t huge = INT64_MAX / 3;
    check_fails(br_as_strided(x, BR_SHAPE(3, 2), (int64_t[]){ huge, huge }, 0),
                "as_strided: sizes [3, 2] with strides");
    check_fails(br_as_strided(x, BR_SHAPE(2), (int64_t[]){ 1 }, INT64_MAX),
                "reach 1 elements beyond element 9223372036854775807");
    check_fails(br_as_strided(x, BR_SHAPE(2, 3), (int64_t[]){ 2, 1 }, 0),
                "as_strided: sizes [2, 3] with strides [2, 1] reach 4 elements beyond element "
                "0, but the storage of x [4] has 4");
    check_fails(br_as_strided(x, 1, (int64_t[]){ 2 }, NULL, 0), "strides is NULL");
    check_fails(br_as_strided(NULL, BR_SHAPE(2), (int64_t[]){ 1 }, 0), "x is NULL");
    check_fails(br_empty_strided(BR_SHAPE(3), (int64_t[]){ huge }, BR_F64),
                "empty_strided: sizes [3] with strides");
    br_scope_end(scope);
}

Test(as_strided, empty_strided)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x = br_empty_strided(BR_SHAPE(2, 3), (int64_t[]){ 1, 4 }, BR_F64);
    check_shape(x, BR_SHAPE(2, 3));
    cr_assert_eq(br_strides(x)[1], 4);
    br_copy_(x, br_reshape(br_arange(0, 6, 1, BR_F64), BR_SHAPE(2, 3)));
    cr_assert_eq(br_item(br_as_strided(x, BR_SCALAR, NULL, 9)), 5);
    br_set_requires_grad(x, true);
    br_backward(br_sum(br_square(x)));
    cr_assert(br_equal(br_grad_of(x), br_mul_scalar(x, 2)));
    cr_assert_eq(br_numel(br_empty_strided(BR_SHAPE(0, 3), (int64_t[]){ 5, 1 }, BR_I64)), 0);
    cr_assert_eq(br_numel(br_empty_strided(BR_SCALAR, NULL, BR_F32)), 1);
    br_scope_end(scope);
    check_ok();
}

static br_tensor *threes(int64_t n)
{
    return br_set_requires_grad(br_full(BR_SHAPE(n), 3, BR_F64), true);
}

/* A resized view is a view of its base, as in PyTorch, unless it reaches beyond the base. */
Test(as_strided, resized_views)
{
    br_scope *scope = br_scope_begin();
    br_tensor *base = br_arange(0, 6, 1, BR_F64), *view = br_narrow(base, 0, 1, 4);
    br_resize_(view, BR_SHAPE(2));
    br_tensor *w = threes(2);
    br_mul_(view, w);
    cr_assert(br_equal(base, br_from_f64(BR_SHAPE(6), (double[]){ 0, 3, 6, 3, 4, 5 })));
    br_backward(br_sum(base));
    cr_assert(br_equal(br_grad_of(w), br_from_f64(BR_SHAPE(2), (double[]){ 1, 2 })), "%s",
              br_error_message());
    br_tensor *all = br_arange(0, 9, 1, BR_F64), *part = br_detach(br_narrow(all, 0, 2, 3));
    view = br_narrow(part, 0, 1, 2);
    br_resize_(view, BR_SHAPE(6)); /* beyond `part`, but not beyond the memory */
    cr_assert(br_equal(view, br_narrow(all, 0, 3, 6)));
    check_fails(br_mul_(view, threes(6)), "a [6] is a view with elements outside of its base");
    check_fails(br_resize_(view, BR_SHAPE(7)), "needs memory for 7 elements");
    view = br_as_strided(part, BR_SHAPE(2), (int64_t[]){ 1 }, 0); /* before `part` */
    check_fails(br_mul_(view, threes(2)), "is a view");
    br_scope_end(scope);
    check_ok();
}

/* The base no longer has the elements of its view. */
Test(as_strided, views_of_a_resized_base)
{
    br_scope *scope = br_scope_begin();
    br_tensor *base = br_arange(0, 6, 1, BR_F64), *behind = br_narrow(base, 0, 3, 3);
    br_tensor *first = br_narrow(base, 0, 0, 2);
    br_resize_(base, BR_SHAPE(2));
    check_fails(br_mul_(behind, threes(3)),
                "a [3] is a view with elements outside of its base, which is [2] now");
    br_tensor *w = threes(2);
    br_mul_(base, w);
    br_backward(br_sum(first));
    cr_assert(br_equal(br_grad_of(w), br_from_f64(BR_SHAPE(2), (double[]){ 0, 1 })), "%s",
              br_error_message());
    br_mul_scalar(behind, 2);
    check_fails(br_neg(behind),
                "x [3] is a view with elements outside of its base, which is [2] now");
    br_scope_end(scope);
    check_ok();
}

Test(as_strided, resize)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x = br_reshape(br_arange(0, 6, 1, BR_F32), BR_SHAPE(2, 3)), *view = br_t(x);
    const uint64_t version = br_tensor_version(x);
    cr_assert_eq(br_resize_(x, BR_SHAPE(2, 2)), x);
    check_shape(x, BR_SHAPE(2, 2));
    cr_assert_eq(br_at(x, BR_DIMS(1, 1)), 3);
    cr_assert_gt(br_tensor_version(x), version);
    br_resize_(x, BR_SHAPE(6)); /* the storage has kept its elements */
    cr_assert_eq(br_at(x, BR_DIMS(5)), 5);
    br_resize_(view, BR_SHAPE(3, 2)); /* contiguous now, over the same elements */
    cr_assert_eq(br_at(view, BR_DIMS(0, 1)), 1);
    check_fails(br_resize_(x, BR_SHAPE(7)),
                "resize_: x [6] needs memory for 7 elements, but another tensor shares its memory");
    br_tensor *own = br_arange(0, 3, 1, BR_I64);
    br_resize_(own, BR_SHAPE(2, 4));
    check_shape(own, BR_SHAPE(2, 4));
    cr_assert_eq(br_at(own, BR_DIMS(0, 2)), 2);
    br_fill_(own, 7);
    cr_assert_eq(br_item(br_sum(own)), 56);
    br_resize_(own, BR_SCALAR);
    cr_assert_eq(br_item(own), 7);
    br_resize_(own, BR_SHAPE(0, 4));
    cr_assert_eq(br_numel(own), 0);
    float memory[3] = { 1, 2, 3 };
    br_tensor *borrowed = br_borrow(BR_SHAPE(3), BR_F32, memory, NULL, NULL);
    br_resize_(borrowed, BR_SHAPE(1, 2));
    check_fails(br_resize_(borrowed, BR_SHAPE(2, 2)), "but its memory is borrowed");
    br_tensor *leaf = br_set_requires_grad(br_ones(BR_SHAPE(2), BR_F32), true);
    check_fails(br_resize_(leaf, BR_SHAPE(1)), "resize_: x [2] requires grad");
    check_fails(br_resize_(x, BR_SHAPE(-1)), "resize_");
    check_fails(br_resize_(NULL, BR_SHAPE(1)), "x is NULL");
    br_scope_end(scope);
}
