/* tests/ops/pointwise/test_arithmetic.c - sums, products, quotients and powers: values,
 * broadcasting, special cases, gradients, and errors. */
#include "tests/ops/values.h"

#include <stdio.h>
#include <stdlib.h>

TestSuite(arithmetic, .init = check_begin, .fini = check_end);

static const br_dtype numbers[] = { BR_F32, BR_F64, BR_I64 };

/* ---- Values ---------------------------------------------------------------------------------- */

static br_tensor *from(br_dtype dtype, int64_t n, const double *x)
{
    return br_to(br_from_f64(BR_SHAPE(n), x), dtype);
}

Test(arithmetic, values)
{
    for (int i = 0; i < 3; i++) {
        br_scope *scope = br_scope_begin();
        br_tensor *a = from(numbers[i], 4, (double[]){ 6, -3, 0, 7 });
        br_tensor *b = from(numbers[i], 4, (double[]){ 2, 5, -4, 7 });
        check_equals(br_add(a, b), 8, 2, -4, 14);
        check_equals(br_sub(a, b), 4, -8, 4, 0);
        check_equals(br_mul(a, b), 12, -15, 0, 49);
        check_equals(br_neg(a), -6, 3, 0, -7);
        check_equals(br_add_scalar(a, 3), 9, 0, 3, 10);
        check_equals(br_sub_scalar(a, 3), 3, -6, -3, 4);
        check_equals(br_rsub_scalar(a, 3), -3, 6, 3, -4);
        check_equals(br_mul_scalar(a, -2), -12, 6, 0, -14);
        cr_assert_eq(br_dtype_of(br_mul_scalar(a, -2)), numbers[i]);
        br_scope_end(scope);
    }
}

Test(arithmetic, quotients)
{
    for (int i = 0; i < 2; i++) {
        br_scope *scope = br_scope_begin();
        br_tensor *a = from(numbers[i], 5, (double[]){ 6, -3, 0, 0, INFINITY });
        br_tensor *b = from(numbers[i], 5, (double[]){ 4, 0, 8, 0, 2 });
        check_equals(br_div(a, b), 1.5, -INFINITY, 0, NAN, INFINITY);
        check_equals(br_div_scalar(a, 4), 1.5, -0.75, 0, 0, INFINITY);
        check_equals(br_rdiv_scalar(a, 3), 0.5, -1, INFINITY, INFINITY, 0);
        br_scope_end(scope);
    }
}

/* A scalar is rounded to the tensor's dtype before it is used, as in PyTorch. */
Test(arithmetic, scalars_are_rounded_to_the_dtype)
{
    br_scope *scope = br_scope_begin();
    br_tensor *one = br_scalar(1, BR_F32);
    cr_assert_eq(br_item(br_add_scalar(one, 0.1)), (double)(1 + 0.1f));
    cr_assert_eq(br_item(br_div_scalar(one, 3)), (double)(1 / 3.0f));
    cr_assert_eq(br_item(br_mul_scalar(br_scalar(1, BR_F64), 0.1)), 0.1);
    br_scope_end(scope);
}

Test(arithmetic, integers_wrap)
{
    br_scope *scope = br_scope_begin();
    br_tensor *a = br_from_i64(BR_SHAPE(2), (int64_t[]){ INT64_MAX, INT64_MIN });
    int64_t got[2];
    br_copy_out(br_add_scalar(a, 1), got, sizeof got);
    cr_assert(got[0] == INT64_MIN && got[1] == INT64_MIN + 1);
    br_copy_out(br_neg(a), got, sizeof got);
    cr_assert(got[0] == -INT64_MAX && got[1] == INT64_MIN);
    br_copy_out(br_mul(a, a), got, sizeof got);
    cr_assert(got[0] == 1 && got[1] == 0);
    br_tensor *minus_one = br_full(BR_SHAPE(2), -1, BR_I64); /* the quotient of INT64_MIN wraps */
    br_copy_out(br_floor_divide(a, minus_one), got, sizeof got);
    cr_assert(got[0] == -INT64_MAX && got[1] == INT64_MIN);
    br_copy_out(br_remainder(a, minus_one), got, sizeof got);
    cr_assert(got[0] == 0 && got[1] == 0);
    br_scope_end(scope);
}

/* ---- Broadcasting ---------------------------------------------------------------------------- */

/* Returns element i, in row-major order, of t broadcast to the sizes. */
static double broadcast_at(const br_tensor *t, int ndim, const int64_t *sizes, int64_t i)
{
    int64_t index[BR_MAX_DIMS];
    int own = br_ndim(t);
    for (int d = ndim - 1; d >= 0; d--) {
        int k = d - (ndim - own);
        if (k >= 0)
            index[k] = br_sizes(t)[k] == 1 ? 0 : i % sizes[d];
        i /= sizes[d];
    }
    return br_at(t, own, index);
}

static void check_broadcast(br_tensor *a, br_tensor *b, int ndim, const int64_t *sizes)
{
    br_tensor *got = br_contiguous(br_sub(a, b));
    check_shape(got, ndim, sizes);
    for (int64_t i = 0; i < br_numel(got); i++)
        cr_assert_eq(br_data_f64(got)[i],
                     broadcast_at(a, ndim, sizes, i) - broadcast_at(b, ndim, sizes, i),
                     "element %lld", (long long)i);
}

Test(arithmetic, broadcasting)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x = values(BR_SHAPE(4, 3, 5), 1, BR_F64);
    check_broadcast(x, values(BR_SHAPE(5), 2, BR_F64), BR_SHAPE(4, 3, 5));
    check_broadcast(x, values(BR_SHAPE(3, 1), 2, BR_F64), BR_SHAPE(4, 3, 5));
    check_broadcast(values(BR_SHAPE(1, 3, 1), 2, BR_F64), x, BR_SHAPE(4, 3, 5));
    check_broadcast(values(BR_SHAPE(4, 1), 1, BR_F64), values(BR_SHAPE(1, 6), 2, BR_F64),
                    BR_SHAPE(4, 6));
    check_broadcast(br_scalar(2, BR_F64), x, BR_SHAPE(4, 3, 5));
    check_broadcast(x, values(BR_SHAPE(2, 1, 1, 1), 2, BR_F64), BR_SHAPE(2, 4, 3, 5));
    check_broadcast(values(BR_SHAPE(0, 1), 1, BR_F64), values(BR_SHAPE(3), 2, BR_F64),
                    BR_SHAPE(0, 3));
    check_broadcast(br_transpose(x, 0, 2), values(BR_SHAPE(4), 2, BR_F64), BR_SHAPE(5, 3, 4));
    check_broadcast(br_slice(x, 2, 1, BR_ALL, 2), br_slice(x, 2, 0, 4, 2), BR_SHAPE(4, 3, 2));
    br_scope_end(scope);
}

/* ---- Powers ---------------------------------------------------------------------------------- */

static bool near(double got, double want)
{
    return got == want || (isnan(got) && isnan(want)) || fabs(got - want) <= 1e-14 * fabs(want);
}

static void check_power(double a, double b, const double *want)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x[] = { leaf(br_scalar(a, BR_F64)), leaf(br_scalar(b, BR_F64)), NULL };
    x[2] = leaf(br_scalar(a, BR_F64));
    br_tensor *y = br_pow(x[0], x[1]), *with_scalar = br_pow_scalar(x[2], b);
    br_backward(y);
    br_backward(with_scalar);
    check_ok();
    cr_expect(near(br_item(y), want[0]), "%g ^ %g is %g, expected %g", a, b, br_item(y), want[0]);
    /* pow_scalar computes square roots here, as PyTorch does: see powers_by_square_roots. */
    bool root = (a == 0 || isinf(a)) && fabs(b) == 0.5;
    cr_expect(root || near(br_item(with_scalar), want[0]), "%g ^ %g is %g, expected %g (scalar)", a,
              b, br_item(with_scalar), want[0]);
    for (int i = 0; i < 2; i++)
        cr_expect(near(br_item(br_grad_of(x[i])), want[1 + i]),
                  "%g ^ %g: gradient %d is %g, expected %g", a, b, i, br_item(br_grad_of(x[i])),
                  want[1 + i]);
    cr_expect(root || near(br_item(br_grad_of(x[2])), want[1]),
              "%g ^ %g: gradient %g, expected %g (scalar)", a, b, br_item(br_grad_of(x[2])),
              want[1]);
    br_scope_end(scope);
}

/* PyTorch's values of x ** 0.5 and x ** -0.5, which are sqrt(x) and 1 / sqrt(x), and of their
 * derivatives. */
Test(arithmetic, powers_by_square_roots)
{
    const double x[] = { -0.0, 0.0, -INFINITY, INFINITY, 4 };
    const double root[] = { -0.0, 0, NAN, INFINITY, 2 },
                 inverse[] = { -INFINITY, INFINITY, NAN, 0, 0.5 };
    const double slope[] = { -INFINITY, INFINITY, NAN, 0, 0.25 };
    const double inverse_slope[] = { -INFINITY, -INFINITY, -0.0, -0.0, -0.0625 };
    for (int i = 0; i < 5; i++) {
        br_scope *scope = br_scope_begin();
        br_tensor *a = leaf(br_scalar(x[i], BR_F64)), *b = leaf(br_scalar(x[i], BR_F64));
        br_tensor *y = br_pow_scalar(a, 0.5), *z = br_pow_scalar(b, -0.5);
        br_backward(y);
        br_backward(z);
        check_ok();
        cr_expect(near(br_item(y), root[i]), "%g ^ 0.5 is %g", x[i], br_item(y));
        cr_expect(near(br_item(z), inverse[i]), "%g ^ -0.5 is %g", x[i], br_item(z));
        cr_expect(near(br_item(br_grad_of(a)), slope[i]), "slope of %g ^ 0.5 is %g", x[i],
                  br_item(br_grad_of(a)));
        cr_expect(near(br_item(br_grad_of(b)), inverse_slope[i]), "slope of %g ^ -0.5 is %g", x[i],
                  br_item(br_grad_of(b)));
        br_scope_end(scope);
    }
}

Test(arithmetic, powers_equal_pytorch)
{
    FILE *cases = fopen(BRASA_TEST_DIR "/ops/pointwise_cases.txt", "r");
    cr_assert_not_null(cases);
    char line[512], text[5][64];
    int n = 0;
    while (fgets(line, sizeof line, cases)) {
        if (sscanf(line, "pow %63s %63s %63s %63s %63s", text[0], text[1], text[2], text[3],
                   text[4]) != 5)
            continue;
        check_power(atof(text[0]), atof(text[1]),
                    (double[]){ atof(text[2]), atof(text[3]), atof(text[4]) });
        n++;
    }
    fclose(cases);
    cr_assert_gt(n, 100);
}

/* ---- Gradients ------------------------------------------------------------------------------- */

typedef br_tensor *(*binary_fn)(br_tensor *a, br_tensor *b);

static br_tensor *call_binary(br_tensor *const *x, int n, void *context)
{
    (void)n;
    return (*(const binary_fn *)context)(x[0], x[1]);
}

static br_tensor *call_scalars(br_tensor *const *x, int n, void *context)
{
    (void)n, (void)context;
    br_tensor *y = br_rsub_scalar(br_add_scalar(br_sub_scalar(x[0], 0.25), 3), 0.5);
    y = br_rdiv_scalar(br_add_scalar(br_div_scalar(br_mul_scalar(y, 1.5), -7), 3), 2);
    return br_pow_scalar(br_pow_scalar(y, 2), 1.25);
}

Test(arithmetic, gradients)
{
    static const binary_fn operations[] = { br_add, br_sub, br_mul, br_div, br_pow };
    static const int64_t sizes[][2] = { { 2, 3 }, { 1, 3 }, { 2, 1 } };
    for (int i = 0; i < 5; i++) {
        for (int j = 0; j < 3; j++) {
            br_scope *scope = br_scope_begin();
            br_tensor *a = values(2, sizes[j], 1, BR_F64), *b = values(2, sizes[2 - j], 4, BR_F64);
            a = leaf(br_add_scalar(br_mul_scalar(br_mul(a, a), 0.2), 0.5));
            b = leaf(br_add_scalar(br_mul_scalar(br_mul(b, b), 0.2), 0.5));
            br_tensor *x[] = { a, b };
            check_gradient(call_binary, (void *)&operations[i], 2, x);
            check_second_gradient(call_binary, (void *)&operations[i], 2, x);
            check_gradient(call_binary, (void *)&operations[i], 2, (br_tensor *[]){ a, a });
            br_scope_end(scope);
        }
    }
    br_scope *scope = br_scope_begin();
    br_tensor *x = leaf(values(BR_SHAPE(2, 3), 5, BR_F64));
    check_gradient(call_scalars, NULL, 1, &x);
    check_second_gradient(call_scalars, NULL, 1, &x);
    br_scope_end(scope);
}

/* mul saves an operand only if the other one requires grad. */
Test(arithmetic, saves_only_what_is_needed)
{
    br_scope *scope = br_scope_begin();
    br_tensor *a = leaf(iota(BR_SHAPE(3), BR_F32)), *b = iota(BR_SHAPE(3), BR_F32);
    br_tensor *c = br_neg(a); /* not a leaf, so it can be changed in place */
    br_tensor *y = br_sum(br_mul(c, b));
    br_fill_(c, 100);
    cr_assert(br_backward(y), "%s", br_error_message());
    check_equals(br_grad_of(a), 0, -1, -2);
    br_scope_end(scope);
}

/* ---- Errors ---------------------------------------------------------------------------------- */

Test(arithmetic, errors)
{
    br_scope *scope = br_scope_begin();
    br_tensor *a = br_zeros(BR_SHAPE(2, 3), BR_F32), *b = br_zeros(BR_SHAPE(2, 4), BR_F32);
    br_tensor *integer = br_zeros(BR_SHAPE(3), BR_I64), *truth = br_zeros(BR_SHAPE(3), BR_BOOL);
    check_fails(br_add(a, b), "add: a [2, 3] and b [2, 4] do not broadcast");
    check_fails(br_sub(truth, truth), "sub: a [3] is bool, must be one of: f32, f64, i64, bf16");
    check_fails(br_div_(integer, integer), "div_: a [3] is i64, must be one of: f32, f64");
    check_fails(br_pow(truth, truth), "pow: a [3] is bool, must be one of: f32, f64, i64");
    check_fails(br_pow_scalar(integer, -2), "pow_scalar: s is -2, must be at least 0 for i64");
    check_fails(br_sub(a, NULL), "sub: b is NULL");
    check_fails(br_sub(NULL, a), "sub: a is NULL");
    check_fails(br_div_scalar_(integer, 2), "div_scalar_: a [3] is i64");
    br_raise(BR_ERROR_STATE, "pending");
    cr_assert_null(br_add(a, a));
    cr_assert_null(br_add_scalar(a, 1));
    cr_assert_str_eq(br_error_message(), "pending");
    br_clear_error();
    br_scope_end(scope);
}

/* As in PyTorch, integers are divided as f32. */
/* No element is divided. */
Test(arithmetic, empty_tensors_may_be_divided_by_an_integer_0)
{
    br_scope *scope = br_scope_begin();
    br_tensor *none = br_zeros(BR_SHAPE(0), BR_I64), *zero = br_zeros(BR_SHAPE(1), BR_I64);
    br_tensor *results[] = { br_fmod(none, zero), br_remainder(none, zero),
                             br_floor_divide(none, zero),
                             br_div_mode(none, zero, BR_ROUNDING_TRUNC) };
    check_ok();
    for (int i = 0; i < 4; i++)
        cr_expect_eq(br_numel(results[i]), 0);
    check_fails(br_fmod(zero, zero), "0");
    br_scope_end(scope);
}

Test(arithmetic, true_division_of_integers)
{
    br_scope *scope = br_scope_begin();
    br_tensor *a = br_from_i64(BR_SHAPE(2), (int64_t[]){ 1, -2 });
    br_tensor *b = br_from_i64(BR_SHAPE(2), (int64_t[]){ 4, 0 });
    br_tensor *results[] = { br_div(a, b), br_div_mode(a, b, BR_ROUNDING_NONE), br_div_scalar(a, 4),
                             br_rdiv_scalar(a, 3), br_div(br_ne(a, a), br_eq(b, b)) };
    const double values[][2] = {
        { 0.25, -INFINITY }, { 0.25, -INFINITY }, { 0.25, -0.5 }, { 3, -1.5 }, { 0, 0 }
    };
    for (int i = 0; i < 5; i++) {
        check_ok();
        cr_assert_eq(br_dtype_of(results[i]), BR_F32);
        for (int64_t k = 0; k < 2; k++)
            cr_assert_eq(br_at(results[i], 1, &k), values[i][k], "result %d", i);
    }
    br_scope_end(scope);
}
