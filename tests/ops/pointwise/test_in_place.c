/* tests/ops/pointwise/test_in_place.c - in-place operations: values, operands that overlap the
 * target, gradients, and errors. */
#include "tests/ops/values.h"

TestSuite(in_place, .init = check_begin, .fini = check_end);

Test(in_place, values)
{
    static const br_dtype dtypes[] = { BR_F32, BR_F64, BR_I64 };
    for (int i = 0; i < 3; i++) {
        br_scope *scope = br_scope_begin();
        br_tensor *a = iota(BR_SHAPE(2, 3), dtypes[i]), *row = iota(BR_SHAPE(3), dtypes[i]);
        cr_assert_eq(br_add_(a, row), a);
        check_equals(a, 0, 2, 4, 3, 5, 7);
        check_equals(br_mul_(a, row), 0, 2, 8, 0, 5, 14);
        check_equals(br_add_scalar_(a, 1), 1, 3, 9, 1, 6, 15);
        check_equals(br_mul_scalar_(a, 2), 2, 6, 18, 2, 12, 30);
        check_equals(br_masked_fill_(a, br_eq_scalar(row, 1), -1), 2, -1, 18, 2, -1, 30);
        check_equals(br_copy_(a, row), 0, 1, 2, 0, 1, 2);
        check_equals(br_fill_(a, 7), 7, 7, 7, 7, 7, 7);
        check_equals(br_zero_(a), 0, 0, 0, 0, 0, 0);
        br_scope_end(scope);
    }
}

Test(in_place, bool_values)
{
    br_scope *scope = br_scope_begin();
    br_tensor *a = br_zeros(BR_SHAPE(4), BR_BOOL);
    check_equals(br_fill_(a, 1), 1, 1, 1, 1);
    check_equals(br_copy_(a, iota(BR_SHAPE(4), BR_F32)), 0, 1, 1, 1);
    check_equals(br_masked_fill_(a, a, 0), 0, 0, 0, 0); /* the mask itself is changed */
    br_scope_end(scope);
}

/* A mask that is another view of the changed memory is read before it changes. */
Test(in_place, a_mask_that_overlaps)
{
    enum { N = 300 };
    for (int shift = 0; shift < 2; shift++) {
        br_scope *scope = br_scope_begin();
        br_tensor *all = br_zeros(BR_SHAPE(N), BR_BOOL);
        for (int i = 2; i < N; i += 7)
            br_data_bool(all)[i] = true;
        br_tensor *a = br_narrow(all, 0, shift, N - 1), *mask = br_narrow(all, 0, 1 - shift, N - 1);
        br_tensor *expected = br_masked_fill(br_clone(a), br_clone(mask), 1);
        cr_assert(br_equal(br_masked_fill_(a, mask, 1), expected), "shift %d: %s", shift,
                  br_error_message());
        br_scope_end(scope);
    }
}

Test(in_place, copies_convert)
{
    br_scope *scope = br_scope_begin();
    br_tensor *integer = br_zeros(BR_SHAPE(3), BR_I64);
    br_tensor *x = br_from_f32(BR_SHAPE(3), (float[]){ 1.75f, -1.75f, 3 });
    check_equals(br_copy_(integer, x), 1, -1, 3);
    check_equals(br_copy_(x, integer), 1, -1, 3);
    br_scope_end(scope);
}

/* Changing a view does not change the elements between its own. */
Test(in_place, views)
{
    br_scope *scope = br_scope_begin();
    br_tensor *a = iota(BR_SHAPE(3, 4), BR_F32);
    uint64_t before = br_tensor_version(a);
    br_mul_scalar_(br_slice(a, 1, 0, BR_ALL, 2), 10);
    check_equals(a, 0, 1, 20, 3, 40, 5, 60, 7, 80, 9, 100, 11);
    br_add_(br_t(a), iota(BR_SHAPE(3), BR_F32));
    check_equals(br_select(a, 0, 2), 82, 11, 102, 13);
    cr_assert_gt(br_tensor_version(a), before + 1);
    br_scope_end(scope);
}

/* If an operand overlaps the target, its values from before the change are used. */
Test(in_place, overlap)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x = iota(BR_SHAPE(9), BR_F32);
    br_add_(br_slice(x, 0, 1, BR_ALL, 1), br_slice(x, 0, 0, 8, 1));
    check_equals(x, 0, 1, 3, 5, 7, 9, 11, 13, 15);
    br_copy_(br_slice(x, 0, 1, BR_ALL, 1), br_slice(x, 0, 0, 8, 1));
    check_equals(x, 0, 0, 1, 3, 5, 7, 9, 11, 13);
    br_tensor *m = iota(BR_SHAPE(2, 2), BR_F64);
    check_equals(br_add_(m, br_t(m)), 0, 3, 3, 6);
    check_equals(br_mul_(m, m), 0, 9, 9, 36);
    check_equals(br_add_(m, br_select(m, 0, 1)), 9, 45, 18, 72);
    br_scope_end(scope);
}

/* One copy of an expanded tensor shares no elements. Its dimension of size 1 has the stride 0. */
Test(in_place, one_copy_of_an_expanded_tensor)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x = iota(BR_SHAPE(2, 3), BR_F32);
    br_tensor *copies = br_expand(x, BR_SHAPE(4, 2, 3));
    br_tensor *one = br_transpose(br_slice(copies, 0, 0, 1, 1), 1, 2);
    cr_assert_eq(br_stride(one, 0), 0);
    cr_assert(br_add_scalar_(one, 10), "%s", br_error_message());
    check_equals(x, 10, 11, 12, 13, 14, 15);
    check_fails(br_add_scalar_(br_slice(copies, 0, 0, 2, 1), 1), "");
    br_scope_end(scope);
}

/* ---- Gradients ------------------------------------------------------------------------------- */

static br_tensor *change_everything(br_tensor *const *x, int n, void *context)
{
    (void)n, (void)context;
    br_tensor *y = br_mul_scalar(x[0], 2);
    br_add_(y, x[1]);
    br_mul_(y, x[1]);
    br_mul_(y, y);
    br_add_scalar_(y, 0.5);
    br_mul_scalar_(y, -0.25);
    return br_masked_fill_(y, br_gt_scalar(x[1], 0), 3);
}

static br_tensor *replace(br_tensor *const *x, int n, void *context)
{
    (void)n, (void)context;
    br_tensor *y = br_exp(x[0]);
    br_tensor *z = br_mul_scalar(y, 3);
    br_fill_(z, 2);
    br_add_(z, x[0]);
    br_tensor *w = br_neg(x[0]);
    br_copy_(w, x[1]);
    return br_add(br_mul(w, w), br_mul(z, y));
}

Test(in_place, gradients)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x[] = { leaf(br_mul_scalar(values(BR_SHAPE(3, 2), 1, BR_F64), 0.3)),
                       leaf(br_mul_scalar(values(BR_SHAPE(2), 4, BR_F64), 0.3)) };
    check_gradient(change_everything, NULL, 2, x);
    check_second_gradient(change_everything, NULL, 2, x);
    check_gradient(replace, NULL, 2, x);
    check_second_gradient(replace, NULL, 2, x);
    br_scope_end(scope);
}

/* The gradient of a converting copy has the source's dtype. */
Test(in_place, copy_between_dtypes)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x = leaf(iota(BR_SHAPE(3), BR_F32)), *y = br_zeros(BR_SHAPE(3), BR_F64);
    br_copy_(y, x);
    br_backward(br_sum(br_mul(y, y)));
    check_equals(br_grad_of(x), 0, 2, 4);
    cr_assert_eq(br_dtype_of(br_grad_of(x)), BR_F32);
    br_scope_end(scope);
}

/* exp's gradient needs the result of exp. If the result was changed, the error names the operation
 * that changed it. */
Test(in_place, change_of_a_saved_value)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x = leaf(iota(BR_SHAPE(3), BR_F32));
    br_tensor *y = br_exp(x), *loss = br_sum(y);
    br_add_scalar_(y, 1);
    br_tensor *wrong = br_sum(y);
    check_fails(br_backward(wrong),
                "exp: a value [3] needed for its gradient was changed in place by add_scalar_");
    (void)loss;
    br_scope_end(scope);
}

/* ---- Errors ---------------------------------------------------------------------------------- */

Test(in_place, errors)
{
    br_scope *scope = br_scope_begin();
    br_tensor *a = br_ones(BR_SHAPE(2, 3), BR_F32), *wide = br_ones(BR_SHAPE(2, 2, 3), BR_F32);
    br_tensor *integer = br_ones(BR_SHAPE(3), BR_I64), *mask = br_ones(BR_SHAPE(2), BR_BOOL);
    check_fails(br_add_(a, wide), "add_: b [2, 2, 3] does not broadcast to [2, 3]");
    check_fails(br_mul_(br_ones(BR_SHAPE(3), BR_F32), a),
                "mul_: b [2, 3] does not broadcast to [3]");
    check_fails(br_add_scalar_(integer, 0.5), "add_scalar_: 0.5 cannot be represented as i64");
    check_fails(br_sub_(mask, mask), "sub_: a [2] is bool");
    check_fails(br_masked_fill_(a, mask, 0), "masked_fill_: mask [2] does not broadcast to [2, 3]");
    check_fails(br_masked_fill_(a, integer, 0), "masked_fill_: mask [3] is i64, must be bool");
    check_fails(br_copy_(a, wide), "copy_: b [2, 2, 3] does not broadcast");
    check_fails(br_copy_(NULL, a), "copy_: a is NULL");
    check_fails(br_add_scalar_(br_expand(br_ones(BR_SHAPE(1), BR_F32), BR_SHAPE(4)), 1),
                "add_scalar_: a [4] is expanded");
    check_fails(br_gelu_(a, (br_gelu_approximate)7),
                "gelu_: approximate is 7, must be BR_GELU_ERF");
    check_fails(br_fill_(leaf(a), 0), "fill_: a [2, 3] is a leaf that requires grad");
    check_equals(a, 1, 1, 1, 1, 1, 1);
    br_scope *no_grad = br_no_grad_begin();
    check_equals(br_fill_(a, 2), 2, 2, 2, 2, 2, 2);
    br_scope_end(no_grad);
    br_scope_end(scope);
}

/* In-place functions give the same values and gradients as their out-of-place counterparts, on
 * views and with autograd. */
Test(in_place, functions)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x = leaf(values(BR_SHAPE(3, 4), 1, BR_F64)),
              *other = leaf(values(BR_SHAPE(4), 2, BR_F64));
    br_tensor *plain[2], *changed[2], *inputs[] = { x, other };
    br_tensor *a = br_mul_scalar(x, 1);
    br_grad(1, (br_tensor *[]){ br_sum(br_atan2(br_sin(x), other)) }, 2, inputs, plain, NULL);
    br_grad(1, (br_tensor *[]){ br_sum(br_atan2_(br_sin_(a), other)) }, 2, inputs, changed, NULL);
    check_ok();
    check_same_bits(plain[0], changed[0]);
    check_same_bits(plain[1], changed[1]);
    br_tensor *free = br_detach(br_clone(x));
    check_same_bits(br_contiguous(br_t(br_exp_(br_t(free)))), br_detach(br_exp(x)));
    check_same_bits(br_div_(free, free), br_ones(BR_SHAPE(3, 4), BR_F64));
    uint64_t before = br_tensor_version(free);
    br_div_(free, br_ones(BR_SHAPE(4), BR_F64));
    cr_assert_gt(br_tensor_version(free), before);
    check_fails(
        br_div_(br_expand(br_ones(BR_SHAPE(1), BR_F64), BR_SHAPE(4)), br_ones(BR_SHAPE(4), BR_F64)),
        "div_: a [4] is expanded");
    check_fails(br_exp_(x), "exp_: a [3, 4] is a leaf that requires grad");
    check_fails(br_sub_(other, x), "sub_: b [3, 4] does not broadcast to [4]");
    br_scope_end(scope);
}

/* ---- Tensors whose elements share memory ----------------------------------------------------- */

/* PyTorch accepts only zero_() and fill_() with a number. */
Test(in_place, expanded_tensors_can_be_filled)
{
    br_scope *scope = br_scope_begin();
    for (br_dtype dtype = BR_F32; dtype <= BR_BOOL; dtype++) {
        br_tensor *x = br_zeros(BR_SHAPE(3, 1), dtype), *wide = br_expand(x, BR_SHAPE(3, 4));
        cr_assert_eq(br_fill_(wide, 1), wide, "%s", br_error_message());
        cr_assert(br_equal(x, br_ones(BR_SHAPE(3, 1), dtype)));
        cr_assert(br_fill_(br_select(wide, 0, 1), 0), "%s", br_error_message());
        cr_assert(br_zero_(br_narrow(wide, 1, 1, 2)), "%s", br_error_message());
        cr_assert(br_equal(x, br_zeros(BR_SHAPE(3, 1), dtype)));
        check_fails(br_copy_(wide, br_ones(BR_SHAPE(3, 4), dtype)), "copy_: a [3, 4] is expanded");
        check_fails(br_masked_fill_(wide, br_ones(BR_SHAPE(3, 4), BR_BOOL), 1),
                    "masked_fill_: a [3, 4] is expanded");
    }
    br_tensor *line = br_arange(0, 6, 1, BR_F32), *windows = br_unfold(line, 0, 3, 1);
    cr_assert(br_fill_(br_narrow(windows, 0, 0, 2), 7), "%s", br_error_message());
    check_equals(line, 7, 7, 7, 7, 4, 5);
    br_tensor *large = br_expand(br_ones(BR_SHAPE(1, 3), BR_F32), BR_SHAPE(300000, 3));
    cr_assert(br_fill_(large, 2), "%s", br_error_message());
    cr_assert_eq(br_item(br_sum(br_narrow(large, 0, 0, 1))), 6);
    br_scope_end(scope);
}

/* The squares of a transposed matrix, for which PyTorch's strides leave the memory; expanded
 * tensors, as in PyTorch; and other dtypes. */
Test(in_place, diagonals_can_be_filled)
{
    br_scope *scope = br_scope_begin();
    br_tensor *wide = br_zeros(BR_SHAPE(2, 8), BR_F32), *tall = br_t(wide);
    cr_assert_eq(br_fill_diagonal_(tall, 1, true), tall, "%s", br_error_message());
    check_equals(wide, 1, 0, 0, 1, 0, 0, 1, 0, 0, 1, 0, 0, 1, 0, 0, 1);
    br_tensor *row = br_zeros(BR_SHAPE(1, 3), BR_I8);
    cr_assert(br_fill_diagonal_(br_expand(row, BR_SHAPE(2, 3)), 5, false));
    check_equals(row, 5, 5, 0);
    br_tensor *leaf_ = leaf(br_zeros(BR_SHAPE(2, 2), BR_F32));
    check_fails(br_fill_diagonal_(leaf_, 1, false), "fill_diagonal_: a [2, 2] is a leaf");
    check_fails(br_fill_diagonal_(br_zeros(BR_SHAPE(2, 2), BR_F16), 1e5, false),
                "fill_diagonal_: 100000 cannot be represented as f16");
    check_fails(br_fill_diagonal_(br_zeros(BR_SHAPE(2), BR_F32), 1, false),
                "fill_diagonal_: a [2] must have at least two dimensions");
    check_fails(br_fill_diagonal_(br_zeros(BR_SHAPE(2, 3, 3), BR_F32), 1, false),
                "fill_diagonal_: a [2, 3, 3] has more than two dimensions, which must be equal");
    br_scope_end(scope);
}

/* The gradient of the elements that are filled is 0, and others keep theirs. */
Test(in_place, gradients_of_filled_expanded_tensors)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x = leaf(br_ones(BR_SHAPE(3, 1), BR_F32));
    br_tensor *y = br_mul_scalar(x, 2), *wide = br_expand(y, BR_SHAPE(3, 4));
    cr_assert(br_fill_(br_narrow(wide, 0, 0, 1), 5), "%s", br_error_message());
    cr_assert_eq(br_item(br_sum(wide)), 4 * (5 + 2 + 2));
    cr_assert(br_backward(br_sum(wide)), "%s", br_error_message());
    check_equals(br_grad_of(x), 0, 8, 8);
    check_fails(br_zero_(br_expand(x, BR_SHAPE(3, 4))), "is a view of a leaf that requires grad");
    br_scope_end(scope);
}
