/* tests/ops/pointwise/test_promotion.c - operands of different dtypes: the dtypes of results, which
 * are PyTorch's, values and gradients, and changes in place. */
#include "tensor/dtype.h"
#include "tests/ops/torch_promotion.h"
#include "tests/ops/values.h"

#include <math.h>

TestSuite(promotion, .init = check_begin, .fini = check_end);

static br_tensor *ones(int dims, br_dtype dtype)
{
    return dims > 0 ? br_ones(BR_SHAPE(3), dtype) : br_ones(BR_SCALAR, dtype);
}

Test(promotion, result_types_are_those_of_pytorch)
{
    for (size_t i = 0; i < sizeof promotions / sizeof *promotions; i++) {
        br_scope *scope = br_scope_begin();
        br_tensor *a = ones(promotions[i].a_dims, (br_dtype)promotions[i].a);
        br_tensor *b = ones(promotions[i].b_dims, (br_dtype)promotions[i].b);
        const br_dtype want = (br_dtype)promotions[i].result;
        cr_expect_eq(br_result_type(2, (br_tensor *[]){ a, b }), want, "%s %s and %s %s: %s",
                     br_dtype_name(br_dtype_of(a)), promotions[i].a_dims ? "[3]" : "[]",
                     br_dtype_name(br_dtype_of(b)), promotions[i].b_dims ? "[3]" : "[]",
                     br_dtype_name(br_result_type(2, (br_tensor *[]){ a, b })));
        cr_expect_eq(br_dtype_of(br_mul(a, b)), want);
        cr_expect_eq(br_dtype_of(br_where(br_ones(BR_SHAPE(3), BR_BOOL), a, b)), want);
        if (promotions[i].a_dims == promotions[i].b_dims) {
            cr_expect_eq(br_promote_types(br_dtype_of(a), br_dtype_of(b)), want);
            cr_expect_eq(br_dtype_of(br_stack(2, (br_tensor *[]){ a, b }, 0)), want);
        }
        br_scope_end(scope);
    }
}

Test(promotion, numbers)
{
    for (size_t i = 0; i < sizeof scalars / sizeof *scalars; i++) {
        br_tensor *t = ones(1, (br_dtype)scalars[i].dtype);
        const br_dtype want = (br_dtype)scalars[i].result;
        cr_expect_eq(br_result_type_scalar(t, scalars[i].number), want, "%s and %g: %s",
                     br_dtype_name(br_dtype_of(t)), scalars[i].number,
                     br_dtype_name(br_result_type_scalar(t, scalars[i].number)));
        cr_expect_eq(br_dtype_of(br_mul_scalar(t, scalars[i].number)), want);
        cr_expect(br_item(br_all(br_lt_scalar(t, scalars[i].number))) == (scalars[i].number > 1));
    }
}

Test(promotion, casts)
{
    for (br_dtype from = 0; from < BR_DTYPES; from++)
        for (br_dtype to = 0; to < BR_DTYPES; to++)
            cr_expect_eq(br_can_cast(from, to), castable[from][to] == '1', "%s to %s",
                         br_dtype_name(from), br_dtype_name(to));
    cr_expect_not(br_can_cast((br_dtype)99, BR_F64));
}

/* The results are those of operands that have the result's dtype. */
Test(promotion, values_of_all_functions)
{
    static br_tensor *(*const functions[])(br_tensor *, br_tensor *) = {
        br_add,  br_sub,       br_mul,          br_div,   br_pow,   br_maximum,   br_minimum,
        br_fmod, br_remainder, br_floor_divide, br_atan2, br_hypot, br_logaddexp, br_xlogy,
        br_eq,   br_ne,        br_lt,           br_le,    br_gt,    br_ge
    };
    static const br_dtype pairs[][2] = {
        { BR_F32, BR_F64 }, { BR_BF16, BR_F32 }, { BR_F16, BR_BF16 }, { BR_I64, BR_F32 },
        { BR_F64, BR_I8 },  { BR_U8, BR_F16 },   { BR_BOOL, BR_F32 },
    };
    for (size_t f = 0; f < sizeof functions / sizeof *functions; f++)
        for (size_t p = 0; p < sizeof pairs / sizeof *pairs; p++) {
            br_scope *scope = br_scope_begin();
            br_tensor *a =
                br_to(br_from_f64(BR_SHAPE(2, 3), (double[]){ 1, 2, 3, 5, 7, 11 }), pairs[p][0]);
            br_tensor *b = br_to(br_from_f64(BR_SHAPE(3), (double[]){ 1, 2, 3 }), pairs[p][1]);
            const br_dtype dtype = br_promote_types(pairs[p][0], pairs[p][1]);
            br_tensor *got = functions[f](a, b);
            cr_expect(br_equal(got, functions[f](br_to(a, dtype), br_to(b, dtype))),
                      "function %zu of %s and %s: %s", f, br_dtype_name(pairs[p][0]),
                      br_dtype_name(pairs[p][1]), br_error_message());
            br_scope_end(scope);
        }
}

/* A gradient has the dtype of its operand. */
Test(promotion, gradients)
{
    br_tensor *a = br_set_requires_grad(br_full(BR_SHAPE(2), 1.5, BR_BF16), true);
    br_tensor *b = br_set_requires_grad(br_full(BR_SHAPE(2, 2), 0.1, BR_F32), true);
    br_tensor *n = br_full(BR_SHAPE(2), 3, BR_I64);
    br_tensor *parts[] = { br_mul(br_mul(a, b), n), br_where(br_gt(b, a), b, a), br_div(b, a) };
    br_backward(br_sum(br_cat(3, parts, 0)));
    check_ok();
    cr_assert_eq(br_dtype_of(br_grad_of(a)), BR_BF16);
    cr_assert_eq(br_dtype_of(br_grad_of(b)), BR_F32);
    const double by_b = 3 * 1.5 + 1 / 1.5, by_a = 2 * (3 * 0.1 + 1 - 0.1 / 2.25);
    for (int64_t i = 0; i < 2; i++) {
        cr_expect_float_eq(br_at(br_grad_of(a), BR_DIMS(i)), by_a, 0.01);
        cr_expect_float_eq(br_at(br_grad_of(b), BR_DIMS(i, 1)), by_b, 1e-5);
    }
}

/* The sum is computed in f32 and rounded once: with 1 + 2^-8 rounded first, it would be 2. */
Test(promotion, a_change_in_place_is_rounded_once)
{
    br_tensor *a = br_ones(BR_SHAPE(3), BR_BF16), *b = br_full(BR_SHAPE(3), 1 + 0x1.8p-7, BR_F32);
    br_add_(a, b);
    check_ok();
    cr_assert_eq(br_dtype_of(a), BR_BF16);
    cr_assert_eq(br_at(a, BR_DIMS(1)), 2 + 0x1p-6);
    br_tensor *i = br_full(BR_SHAPE(3), 300, BR_I64), *u = br_full(BR_SHAPE(3), 5, BR_U8);
    br_mul_(u, i);
    cr_assert_eq(br_at(u, BR_DIMS(0)), 1500 % 256);
    br_sub_(i, u);
    cr_assert_eq(br_at(i, BR_DIMS(0)), 300 - 1500 % 256);
    br_tensor *leaf = br_set_requires_grad(br_full(BR_SHAPE(3), 2, BR_F64), true);
    br_tensor *y = br_mul_(br_clone(leaf), br_full(BR_SHAPE(3), 3, BR_I64));
    br_tensor *z = br_pow_(br_mul_scalar(y, 1), br_full(BR_SHAPE(3), 2, BR_F32));
    br_backward(br_sum(z));
    cr_assert_eq(br_at(br_grad_of(leaf), BR_DIMS(2)), 2 * 3 * 3 * 2);
}

Test(promotion, refusals)
{
    br_tensor *i = br_ones(BR_SHAPE(3), BR_I64), *x = br_ones(BR_SHAPE(3), BR_F32);
    br_tensor *mask = br_ones(BR_SHAPE(3), BR_BOOL), *y = br_ones(BR_SHAPE(3), BR_F64);
    check_fails(br_add_(i, x), "add_: a [3] is i64 and b [3] is f32: the result is f32, to which a "
                               "cannot be changed in place (convert a with br_to())");
    check_fails(br_mul_(mask, i), "mul_: a [3] is bool");
    check_fails(br_pow_(i, x), "pow_: a [3] is i64");
    check_fails(br_addcmul_(i, x, x, 1), "addcmul_: a [3] is i64");
    check_fails(br_add_scalar_(i, 0.5), "add_scalar_: 0.5 cannot be represented as i64");
    check_fails(br_dot(x, y), "dtypes must be equal");
    check_fails(br_sub(mask, mask), "sub: a [3] is bool");
    check_fails(br_result_type(0, NULL) != BR_F32, "result_type: got 0 tensors");
    check_fails(br_result_type(2, (br_tensor *[]){ x, NULL }) != BR_F32, "result_type: tensor 1");
    check_fails(br_promote_types(BR_F32, (br_dtype)9) != BR_F32, "promote_types: 9 is not a dtype");
    cr_assert_eq(br_at(i, BR_DIMS(0)), 1, "a refused change leaves the tensor as it was");
}
