/* tests/ops/pointwise/test_compare.c - comparisons, logic, selection by masks, conversion and
 * equality. */
#include "tests/ops/values.h"

TestSuite(compare, .init = check_begin, .fini = check_end);

static const br_dtype dtypes[] = { BR_F32, BR_F64, BR_I64, BR_BOOL };

/* ---- Comparisons ----------------------------------------------------------------------------- */

Test(compare, every_dtype)
{
    for (int i = 0; i < 4; i++) {
        br_scope *scope = br_scope_begin();
        br_tensor *a = br_to(br_from_i64(BR_SHAPE(4), (int64_t[]){ 0, 0, 1, 1 }), dtypes[i]);
        br_tensor *b = br_to(br_from_i64(BR_SHAPE(4), (int64_t[]){ 0, 1, 0, 1 }), dtypes[i]);
        cr_assert_eq(br_dtype_of(br_eq(a, b)), BR_BOOL);
        check_equals(br_eq(a, b), 1, 0, 0, 1);
        check_equals(br_ne(a, b), 0, 1, 1, 0);
        check_equals(br_lt(a, b), 0, 1, 0, 0);
        check_equals(br_le(a, b), 1, 1, 0, 1);
        check_equals(br_gt(a, b), 0, 0, 1, 0);
        check_equals(br_ge(a, b), 1, 0, 1, 1);
        check_equals(br_eq_scalar(a, 1), 0, 0, 1, 1);
        check_equals(br_ne_scalar(a, 1), 1, 1, 0, 0);
        check_equals(br_lt_scalar(a, 1), 1, 1, 0, 0);
        check_equals(br_le_scalar(a, 0), 1, 1, 0, 0);
        check_equals(br_gt_scalar(a, 0), 0, 0, 1, 1);
        check_equals(br_ge_scalar(a, 0), 1, 1, 1, 1);
        br_scope_end(scope);
    }
}

Test(compare, nan_and_signed_zero)
{
    br_scope *scope = br_scope_begin();
    br_tensor *a = br_from_f32(BR_SHAPE(3), (float[]){ NAN, -0.0f, INFINITY });
    br_tensor *b = br_from_f32(BR_SHAPE(3), (float[]){ NAN, 0.0f, INFINITY });
    check_equals(br_eq(a, b), 0, 1, 1);
    check_equals(br_ne(a, b), 1, 0, 0);
    check_equals(br_le(a, b), 0, 1, 1);
    check_equals(br_gt(a, b), 0, 0, 0);
    check_equals(br_ge_scalar(a, NAN), 0, 0, 0);
    br_scope_end(scope);
}

/* Integers are compared as integers: both of these round to the same double. */
Test(compare, large_integers)
{
    br_scope *scope = br_scope_begin();
    int64_t big = (int64_t)1 << 62;
    br_tensor *a = br_from_i64(BR_SHAPE(1), (int64_t[]){ big });
    br_tensor *b = br_from_i64(BR_SHAPE(1), (int64_t[]){ big + 1 });
    check_equals(br_eq(a, b), 0);
    check_equals(br_lt(a, b), 1);
    check_equals(br_eq_scalar(a, 0x1p62), 1);
    br_scope_end(scope);
}

/* A NaN is close only to a NaN, and that only with equal_nan. */
Test(compare, close_nans)
{
    br_scope *scope = br_scope_begin();
    br_tensor *a = br_from_f32(BR_SHAPE(4), (float[]){ NAN, NAN, 1, 1 });
    br_tensor *b = br_from_f32(BR_SHAPE(4), (float[]){ NAN, 1, NAN, 1 });
    check_equals(br_isclose(a, b, 1, 1, true), 1, 0, 0, 1);
    check_equals(br_isclose(b, a, 1, 1, true), 1, 0, 0, 1);
    check_equals(br_isclose(a, b, 1, 1, false), 0, 0, 0, 1);
    br_scope_end(scope);
}

/* With tolerances of 0, integers are close only if they are equal. */
Test(compare, close_large_integers)
{
    const int64_t big = INT64_C(1) << 53;
    br_scope *scope = br_scope_begin();
    br_tensor *a = br_from_i64(BR_SHAPE(4), (int64_t[]){ big, INT64_MIN, INT64_MAX, -big - 1 });
    br_tensor *b = br_from_i64(BR_SHAPE(4), (int64_t[]){ big + 1, INT64_MAX, INT64_MAX, -big });
    check_equals(br_isclose(a, b, 0, 0, false), 0, 0, 1, 0);
    check_equals(br_isclose(b, a, 0, 0.5, false), 0, 0, 1, 0);
    check_equals(br_isclose(a, b, 0, 1, false), 1, 0, 1, 1);
    check_equals(br_isclose(a, b, 2.1, 0, false), 1, 1, 1, 1);
    check_equals(br_isclose(a, b, 0, INFINITY, false), 1, 1, 1, 1);
    cr_assert_not(br_allclose(a, b, 0, 0));
    cr_assert_not(br_allclose(a, b, 0, 1));
    cr_assert(br_allclose(a, a, 0, 0) && br_allclose(b, b, 0, 0));
    br_tensor *zero = br_from_i64(BR_SHAPE(1), (int64_t[]){ 0 });
    check_equals(br_isclose(zero, zero, INFINITY, 0, false), 1);
    check_equals(br_isclose(br_narrow(a, 0, 0, 1), zero, INFINITY, 0, false), 0);
    br_scope_end(scope);
}

Test(compare, no_gradient)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x = leaf(iota(BR_SHAPE(3), BR_F32));
    cr_assert_not(br_requires_grad(br_lt_scalar(x, 1)));
    br_scope_end(scope);
}

Test(compare, logic)
{
    br_scope *scope = br_scope_begin();
    br_tensor *a = br_from_bool(BR_SHAPE(2, 1), (bool[]){ false, true });
    br_tensor *b = br_from_bool(BR_SHAPE(2), (bool[]){ false, true });
    check_equals(br_logical_and(a, b), 0, 0, 0, 1);
    check_equals(br_logical_or(a, b), 0, 1, 1, 1);
    check_equals(br_logical_not(a), 1, 0);
    br_tensor *x = br_from_f32(BR_SHAPE(3), (float[]){ 0, -2, NAN });
    check_equals(br_logical_not(x), 1, 0, 0);
    check_equals(br_logical_xor(x, br_flip(x, BR_DIMS(0))), 1, 0, 1);
    check_equals(br_logical_and(iota(BR_SHAPE(2), BR_I64), br_full(BR_SHAPE(2), 0.5, BR_F32)), 0,
                 1);
    br_scope_end(scope);
}

/* ---- Selection ------------------------------------------------------------------------------- */

Test(compare, where)
{
    for (int i = 0; i < 4; i++) {
        br_scope *scope = br_scope_begin();
        br_tensor *condition = br_from_bool(BR_SHAPE(2, 1), (bool[]){ true, false });
        br_tensor *a = br_to(br_from_i64(BR_SHAPE(3), (int64_t[]){ 1, 0, 1 }), dtypes[i]);
        br_tensor *b = br_scalar(0, dtypes[i]);
        check_shape(br_where(condition, a, b), BR_SHAPE(2, 3));
        check_equals(br_where(condition, a, b), 1, 0, 1, 0, 0, 0);
        check_equals(br_where(condition, b, a), 0, 0, 0, 1, 0, 1);
        br_tensor *dense = br_contiguous(br_expand(condition, BR_SHAPE(2, 3)));
        br_tensor *rows = br_contiguous(br_expand(a, BR_SHAPE(2, 3)));
        check_equals(br_where(dense, rows, br_where(dense, b, b)), 1, 0, 1, 0, 0, 0);
        br_scope_end(scope);
    }
}

Test(compare, where_ignores_nan_that_is_not_selected)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x = br_from_f32(BR_SHAPE(2), (float[]){ NAN, 1 });
    check_equals(br_where(br_eq(x, x), x, br_scalar(0, BR_F32)), 0, 1);
    br_scope_end(scope);
}

Test(compare, masked_fill)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x = iota(BR_SHAPE(2, 3), BR_F32);
    br_tensor *mask = br_from_bool(BR_SHAPE(3), (bool[]){ false, true, false });
    check_equals(br_masked_fill(x, mask, -INFINITY), 0, -INFINITY, 2, 3, -INFINITY, 5);
    check_equals(br_masked_fill(br_t(x), br_scalar(1, BR_BOOL), 9), 9, 9, 9, 9, 9, 9);
    check_equals(br_masked_fill(br_t(x), br_from_bool(BR_SHAPE(2), (bool[]){ true, false }), 9), 9,
                 3, 9, 4, 9, 5);
    check_equals(x, 0, 1, 2, 3, 4, 5);
    br_scope_end(scope);
}

/* x and the mask are broadcast to each other. */
Test(compare, masked_fill_broadcasts)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x = iota(BR_SHAPE(1, 3), BR_F32);
    br_tensor *mask = br_from_bool(BR_SHAPE(2, 1), (bool[]){ false, true });
    check_equals(br_masked_fill(x, mask, 9), 0, 1, 2, 9, 9, 9);
    br_tensor *three = br_masked_fill(x, br_unsqueeze(mask, 0), 9);
    cr_assert(br_ndim(three) == 3 && br_size(three, 0) == 1 && br_size(three, 1) == 2);
    check_equals(br_masked_fill(br_scalar(7, BR_I64), br_t(mask), 9), 7, 9);
    br_set_requires_grad(x, true);
    br_backward(br_sum(br_masked_fill(x, mask, 9)));
    check_equals(br_grad_of(x), 1, 1, 1);
    br_scope_end(scope);
}

static br_tensor *call_where(br_tensor *const *x, int n, void *context)
{
    (void)n;
    return br_where(context, x[0], x[1]);
}

static br_tensor *call_masked_fill(br_tensor *const *x, int n, void *context)
{
    (void)n;
    return br_masked_fill(br_mul(x[0], x[0]), context, 3);
}

Test(compare, gradients)
{
    br_scope *scope = br_scope_begin();
    br_tensor *mask = br_gt_scalar(values(BR_SHAPE(2, 1, 4), 3, BR_F64), 0);
    br_tensor *x[] = { leaf(values(BR_SHAPE(3, 1), 1, BR_F64)),
                       leaf(values(BR_SHAPE(2, 3, 4), 2, BR_F64)) };
    check_gradient(call_where, mask, 2, x);
    check_second_gradient(call_where, mask, 2, x);
    check_gradient(call_masked_fill, mask, 1, &x[1]);
    check_second_gradient(call_masked_fill, mask, 1, &x[1]);
    check_gradient(call_masked_fill, mask, 1, &x[0]);
    check_second_gradient(call_masked_fill, mask, 1, &x[0]);
    br_scope_end(scope);
}

Test(compare, errors)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x = iota(BR_SHAPE(2, 3), BR_F32), *mask = br_zeros(BR_SHAPE(2), BR_BOOL);
    check_fails(br_eq(x, iota(BR_SHAPE(2), BR_F32)), "eq: a [2, 3] and b [2] do not broadcast");
    check_fails(br_where(x, x, x), "where: condition [2, 3] is f32, must be bool");
    check_fails(br_where(mask, x, x), "where: condition [2] does not broadcast with [2, 3]");
    check_fails(br_where(mask, x, iota(BR_SHAPE(2), BR_F32)), "where: a [2, 3] and b [2]");
    check_fails(br_masked_fill(x, mask, 0), "masked_fill: x [2, 3] and mask [2] do not broadcast");
    check_fails(br_masked_fill(x, x, 0), "masked_fill: mask [2, 3] is f32, must be bool");
    check_fails(br_masked_fill(iota(BR_SHAPE(2), BR_I64), mask, INFINITY),
                "masked_fill: inf cannot be represented as i64");
    br_scope_end(scope);
}

/* ---- Conversion ------------------------------------------------------------------------------ */

Test(compare, conversion)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x = br_from_f64(BR_SHAPE(4), (double[]){ -1.75, 0, 0.25, 3 });
    check_equals(br_to(x, BR_I64), -1, 0, 0, 3);
    check_equals(br_to(x, BR_BOOL), 1, 0, 1, 1);
    check_equals(br_to(br_to(x, BR_BOOL), BR_F32), 1, 0, 1, 1);
    check_equals(br_to(br_to(x, BR_I64), BR_BOOL), 1, 0, 0, 1);
    check_equals(br_to(br_scalar(0.1, BR_F64), BR_F32), (double)0.1f);
    cr_assert_eq(br_to(x, BR_F64), x);
    check_fails(br_to(x, (br_dtype)9), "to: 9 is not a dtype");
    check_fails(br_to(NULL, BR_F32), "to: x is NULL");
    br_scope_end(scope);
}

Test(compare, conversion_gradient)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x = leaf(iota(BR_SHAPE(3), BR_F32)), *y = br_to(x, BR_F64);
    cr_assert(br_backward(br_sum(br_mul(y, y))));
    check_equals(br_grad_of(x), 0, 2, 4);
    cr_assert_eq(br_dtype_of(br_grad_of(x)), BR_F32);
    cr_assert_not(br_requires_grad(br_to(x, BR_I64)));
    br_scope_end(scope);
}

/* ---- Equality -------------------------------------------------------------------------------- */

Test(compare, equality)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x = iota(BR_SHAPE(2, 3), BR_F32), *y = br_clone(x);
    cr_assert(br_equal(x, y));
    cr_assert(br_equal(br_t(x), br_t(y)));
    cr_assert_not(br_equal(x, br_to(x, BR_F64)));
    cr_assert_not(br_equal(x, br_reshape(x, BR_SHAPE(6))));
    cr_assert(br_equal(br_zeros(BR_SHAPE(0, 3), BR_I64), br_zeros(BR_SHAPE(0, 3), BR_I64)));
    br_fill_(br_select(br_select(y, 0, 1), 0, 2), 5.0000005);
    cr_assert_not(br_equal(x, y));
    cr_assert(br_allclose(x, y, 1e-6, 0));
    cr_assert_not(br_allclose(x, y, 1e-8, 0));
    cr_assert(br_allclose(x, y, 0, 1e-6));
    br_fill_(y, NAN);
    cr_assert_not(br_equal(y, y));
    cr_assert_not(br_allclose(y, y, 1, 1));
    check_fails(br_allclose(x, y, -1, 0), "allclose: rtol -1 and atol 0");
    check_fails(br_equal(x, NULL), "equal: b is NULL");
    br_scope_end(scope);
}

Test(compare, allclose_of_infinities_and_integers)
{
    br_scope *scope = br_scope_begin();
    br_tensor *infinite = br_scalar(INFINITY, BR_F64), *one = br_scalar(1, BR_F64);
    cr_assert(br_allclose(infinite, infinite, 0, 0));
    cr_assert_not(br_allclose(one, infinite, 1, 1));
    cr_assert_not(br_allclose(br_neg(infinite), infinite, 1, 1));
    br_tensor *a = iota(BR_SHAPE(3), BR_I64), *b = br_add_scalar(a, 1);
    cr_assert(br_allclose(a, b, 0, 1));
    cr_assert_not(br_allclose(a, b, 0, 0.5));
    check_fails(br_allclose(br_to(a, BR_BOOL), br_to(b, BR_BOOL), 0, 0), "allclose: a [3] is bool");
    br_scope_end(scope);
}
