/* tests/ops/reduce/test_var_norm_logsumexp.c - minima and maxima, products, cumulative sums,
 * variance, norms, sorting: compared with PyTorch for four elements with ties, zeros, infinities
 * and NaN; long inputs; shapes; errors. */
#include "tests/ops/values.h"

#include <stdio.h>
#include <stdlib.h>

TestSuite(statistics, .init = check_begin, .fini = check_end);

/* ---- Comparison with PyTorch ----------------------------------------------------------------- */

static br_tensor *call_function(const char *name, br_tensor *x)
{
#define FUNCTION(label, expression) \
    if (strcmp(name, label) == 0)   \
        return expression;
    FUNCTION("min", br_min(x))
    FUNCTION("max", br_max(x))
    FUNCTION("min_dim", br_min_dim(x, 0, false, NULL))
    FUNCTION("max_dim", br_max_dim(x, 0, false, NULL))
    FUNCTION("prod", br_prod(x))
    FUNCTION("prod_dim", br_prod_dim(x, 0, false))
    FUNCTION("cumsum", br_cumsum(x, 0))
    FUNCTION("cumprod", br_cumprod(x, 0))
    FUNCTION("var", br_var(x, 1))
    FUNCTION("var_0", br_var(x, 0))
    FUNCTION("var_half", br_var(x, 2.5))
    FUNCTION("std", br_std(x, 1))
    FUNCTION("logsumexp", br_logsumexp(x, BR_DIMS(0), false))
    FUNCTION("norm_1", br_norm(x, 1))
    FUNCTION("norm_2", br_norm(x, 2))
    FUNCTION("norm_3", br_norm(x, 3))
    FUNCTION("norm_1.5", br_norm(x, 1.5))
    FUNCTION("norm_half", br_norm(x, 0.5))
    FUNCTION("norm_-1", br_norm(x, -1))
    FUNCTION("norm_inf", br_norm(x, INFINITY))
    FUNCTION("norm_-inf", br_norm(x, -INFINITY))
    FUNCTION("median", br_median(x))
    FUNCTION("median_dim", br_median_dim(x, 0, false, NULL))
    FUNCTION("sort", br_sort(x, 0, false, NULL))
    FUNCTION("sort_down", br_sort(x, 0, true, NULL))
    FUNCTION("argsort", br_argsort(x, 0, false))
    FUNCTION("argsort_down", br_argsort(x, 0, true))
    FUNCTION("argmin", br_argmin(x, BR_ALL, false))
    FUNCTION("argmax", br_argmax(x, BR_ALL, false))
#undef FUNCTION
    cr_assert(false, "no function %s", name);
    return NULL;
}

static bool agrees(double got, double want)
{
    return got == want || (isnan(got) && isnan(want)) || fabs(got - want) <= 1e-14 * fabs(want);
}

/* Returns true if a gradient of a product may differ from PyTorch's. PyTorch divides by x, which
 * gives NaN for infinities, or multiplies by unrelated elements. Brasa multiplies the other
 * elements. */
static bool may_differ(const char *name, const double *x, double got, double want)
{
    bool finite = true, squares_fit = true;
    for (int i = 0; i < 4; i++) {
        finite &= isfinite(x[i]);
        squares_fit &= !isfinite(x[i]) || x[i] == 0 || (fabs(x[i]) > 1e-150 && fabs(x[i]) < 1e150);
    }
    if (strstr(name, "std") || strstr(name, "var") || strstr(name, "norm"))
        return !squares_fit; /* PyTorch's squares overflow or underflow; see test_extremes.c */
    return strstr(name, "prod") && !finite && (isnan(got) || isnan(want));
}

static void check_case(const char *name, const double *x, int count, const double *y,
                       const double *dx)
{
    br_scope *scope = br_scope_begin();
    br_tensor *input = leaf(br_from_f64(BR_SHAPE(4), x)), *grad = NULL;
    br_tensor *got = call_function(name, input);
    check_ok();
    cr_assert_eq(br_numel(got), count);
    if (br_requires_grad(got)) {
        br_tensor *dy = br_reshape(br_arange(1, count + 1, 1, BR_F64), br_ndim(got), br_sizes(got));
        br_grad(1, &got, 1, &input, &grad, BR_OPTIONS(br_grad, .gradients = &dy));
    }
    check_ok();
    got = br_to(br_flatten(got, 0, -1), BR_F64);
    for (int i = 0; i < count; i++)
        cr_expect(agrees(br_at(got, 1, (int64_t[]){ i }), y[i]),
                  "%s of %g %g %g %g: %g, expected %g", name, x[0], x[1], x[2], x[3],
                  br_at(got, 1, (int64_t[]){ i }), y[i]);
    for (int i = 0; grad && i < 4; i++)
        cr_expect(agrees(br_at(grad, 1, (int64_t[]){ i }), dx[i]) ||
                      may_differ(name, x, br_at(grad, 1, (int64_t[]){ i }), dx[i]),
                  "gradient %d of %s of %g %g %g %g: %g, expected %g", i, name, x[0], x[1], x[2],
                  x[3], br_at(grad, 1, (int64_t[]){ i }), dx[i]);
    br_scope_end(scope);
}

Test(statistics, equal_pytorch)
{
    FILE *cases = fopen(BRASA_TEST_DIR "/ops/reduction_cases.txt", "r");
    cr_assert_not_null(cases);
    char line[1024], name[32];
    int count, at, seen = 0;
    while (fgets(line, sizeof line, cases)) {
        double v[12];
        cr_assert_eq(sscanf(line, "%31s %d%n", name, &count, &at), 2);
        char *rest = line + at;
        for (int i = 0; i < 8 + count; i++)
            v[i] = strtod(rest, &rest);
        check_case(name, v, count, v + 4, v + 4 + count);
        seen++;
    }
    fclose(cases);
    cr_assert_gt(seen, 400, "%d cases", seen);
}

/* ---- Gradients of gradients ------------------------------------------------------------------ */

static br_tensor *running_product(br_tensor *const *x, int n, void *context)
{
    (void)n;
    (void)context;
    return br_cumprod(x[0], 1);
}

static br_tensor *product(br_tensor *const *x, int n, void *context)
{
    (void)n;
    (void)context;
    return br_prod_dim(x[0], 1, true);
}

static br_tensor *deviation(br_tensor *const *x, int n, void *context)
{
    (void)n;
    (void)context;
    return br_std_dim(x[0], BR_DIMS(0), 1, false);
}

static br_tensor *norm_of_3(br_tensor *const *x, int n, void *context)
{
    (void)n;
    (void)context;
    return br_norm_dim(x[0], 3, BR_DIMS(-1), false);
}

static br_tensor *log_of_sum(br_tensor *const *x, int n, void *context)
{
    (void)n;
    (void)context;
    return br_logsumexp(x[0], BR_DIMS(0), true);
}

static br_tensor *two_largest(br_tensor *const *x, int n, void *context)
{
    (void)n;
    (void)context;
    return br_topk(x[0], 2, 1, true, NULL);
}

/* For the products, the third column of x is 0. */
Test(statistics, gradients_of_gradients)
{
    const br_function all[] = { running_product, product,    deviation,
                                norm_of_3,       log_of_sum, two_largest };
    for (int i = 0; i < 6; i++) {
        br_scope *scope = br_scope_begin();
        br_tensor *x = values(BR_SHAPE(3, 4), 5, BR_F64);
        if (i < 2)
            br_zero_(br_narrow(x, 1, 2, 1));
        leaf(x);
        check_gradient(all[i], NULL, 1, &x);
        check_second_gradient(all[i], NULL, 1, &x);
        br_scope_end(scope);
    }
}

/* ---- Long inputs ----------------------------------------------------------------------------- */

/* Checks that the result is sorted, that indices match elements, and that the sort is stable. */
static void check_sorted(br_tensor *x, bool descending)
{
    br_tensor *places, *sorted = br_sort(x, 0, descending, &places);
    check_same_bits(sorted, br_index_select(x, 0, places));
    check_same_bits(br_argsort(x, 0, descending), places);
    br_tensor *values = br_to(sorted, BR_F64);
    const double *v = br_data_f64(values);
    const int64_t *p = br_data_i64(places);
    for (int64_t i = 1; i < br_numel(x); i++) {
        bool ordered = v[i] == v[i - 1] ? p[i] > p[i - 1]
                       : descending     ? v[i] < v[i - 1]
                                        : v[i] > v[i - 1];
        cr_assert(ordered, "element %d", (int)i);
    }
    br_tensor *some, *best = br_topk(x, 100, 0, descending, &some);
    check_same_bits(best, br_clone(br_narrow(sorted, 0, 0, 100)));
    check_same_bits(some, br_clone(br_narrow(places, 0, 0, 100)));
}

Test(statistics, sort_of_long_inputs)
{
    for (br_dtype dtype = BR_F32; dtype <= BR_BOOL; dtype++) {
        br_scope *scope = br_scope_begin();
        br_manual_seed(3);
        br_tensor *x = br_mul_scalar(br_randn(BR_SHAPE(5000), BR_F64), 1000);
        x = dtype == BR_BOOL ? br_gt_scalar(x, 0) : br_to(x, dtype);
        check_sorted(x, false);
        check_sorted(x, true);
        br_scope_end(scope);
    }
}

/* 0 and -0 are equal, so they keep their order. */
Test(statistics, sort_of_zeros_of_both_signs)
{
    for (br_dtype dtype = BR_F32; dtype <= BR_F64; dtype++) {
        br_scope *scope = br_scope_begin();
        static const double zeros[] = { 0, -0.0, 1, -0.0, 0, -1 };
        br_tensor *x = br_to(br_from_f64(BR_SHAPE(6), zeros), dtype);
        check_equals(br_argsort(x, 0, false), 5, 0, 1, 3, 4, 2);
        check_equals(br_argsort(x, 0, true), 2, 0, 1, 3, 4, 5);
        br_scope_end(scope);
    }
}

static void check_extremes(void)
{
    for (br_dtype dtype = BR_F32; dtype <= BR_F64; dtype++) {
        br_scope *scope = br_scope_begin();
        br_tensor *x = values(BR_SHAPE(301, 5, 257), 4, dtype), *places;
        br_tensor *opposite = br_neg(x);
        for (int64_t dim = 0; dim < 3; dim++) {
            br_tensor *least = br_min_dim(x, dim, false, &places);
            check_same_bits(least, br_neg(br_max_dim(opposite, dim, false, NULL)));
            check_same_bits(places, br_argmax(opposite, dim, false));
            check_same_bits(br_argmin(x, dim, false), places);
        }
        check_close(br_item(br_min(x)), -br_item(br_max(opposite)), 0);
        cr_assert_eq(br_item_i64(br_argmin(x, BR_ALL, false)),
                     br_item_i64(br_argmax(opposite, BR_ALL, false)));
        br_scope_end(scope);
    }
}

Test(statistics, minima_are_negated_maxima_of_the_negated_input)
{
    with_every_variant(check_extremes);
}

/* Sums are accumulated in f64, so the sum of a million tenths does not drift. */
Test(statistics, cumsum_is_accurate)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x = br_full(BR_SHAPE(1000000), 0.1, BR_F32), *y = br_cumsum(x, 0);
    check_close(br_at(y, 1, (int64_t[]){ 999999 }), 1e6 * (double)0.1f, 0.004);
    br_tensor *many = values(BR_SHAPE(3, 70, 201), 2, BR_F64);
    br_tensor *sums = br_cumsum(many, 1);
    check_same_bits(br_clone(br_narrow(sums, 1, 0, 1)), br_clone(br_narrow(many, 1, 0, 1)));
    cr_assert(
        br_allclose(br_select(sums, 1, -1), br_sum_dim(many, BR_DIMS(1), false), 1e-13, 1e-13));
    br_scope_end(scope);
}

/* ---- Shapes, dtypes, errors ------------------------------------------------------------------ */

Test(statistics, empty_tensors_and_scalars)
{
    br_scope *scope = br_scope_begin();
    br_tensor *none = br_zeros(BR_SHAPE(0), BR_F64), *rows = br_zeros(BR_SHAPE(2, 0), BR_F64);
    check_equals(br_prod(none), 1);
    check_equals(br_all(none), 1);
    check_equals(br_any(none), 0);
    check_equals(br_norm(none, 2), 0);
    check_equals(br_var(none, 1), NAN);
    check_equals(br_median(none), NAN);
    check_equals(br_logsumexp(rows, BR_DIMS(1), false), -INFINITY, -INFINITY);
    check_shape(br_cumsum(rows, 0), BR_SHAPE(2, 0));
    check_shape(br_sort(rows, 1, false, NULL), BR_SHAPE(2, 0));
    br_tensor *one = br_scalar(3, BR_F64), *place;
    check_equals(br_sort(one, 0, true, &place), 3);
    check_shape(place, BR_SCALAR);
    check_equals(br_topk(one, 1, -1, true, NULL), 3);
    check_equals(br_median_dim(one, 0, true, &place), 3);
    check_shape(place, BR_SCALAR);
    check_equals(br_cumprod(one, 0), 3);
    check_equals(br_var(one, 0), 0);
    br_scope_end(scope);
}

Test(statistics, integers_and_bools)
{
    br_scope *scope = br_scope_begin();
    br_tensor *i = br_from_i64(BR_SHAPE(2, 3), (int64_t[]){ 3, INT64_MIN, 2, -1, 4, INT64_MAX });
    br_tensor *b = br_from_bool(BR_SHAPE(3), (bool[]){ true, false, true });
    check_equals(br_min(i), (double)INT64_MIN);
    check_equals(br_min_dim(i, 0, false, NULL), -1, (double)INT64_MIN, 2);
    check_equals(br_argmin(i, 1, false), 1, 0);
    check_equals(br_sort(i, 1, false, NULL), (double)INT64_MIN, 2, 3, -1, 4, (double)INT64_MAX);
    check_equals(br_cumsum(b, 0), 1, 1, 2);
    check_equals(br_prod(b), 0);
    cr_assert_eq(br_dtype_of(br_prod(b)), BR_I64);
    check_equals(br_all(b), 0);
    check_equals(br_any_dim(i, BR_DIMS(0), false), 1, 1, 1);
    check_equals(br_min(b), 0);
    check_fails(br_var(i, 1), "var: x [2, 3] is i64, must be a floating-point dtype");
    check_fails(br_norm(b, 2), "norm: x [3] is bool");
    br_scope_end(scope);
}

Test(statistics, errors)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x = br_zeros(BR_SHAPE(2, 3), BR_F64), *none = br_zeros(BR_SHAPE(2, 0), BR_F64);
    check_fails(br_topk(x, 4, 1, true, NULL), "topk: k is 4, must be in 0 .. 3");
    check_fails(br_topk(x, -1, 1, true, NULL), "topk: k is -1");
    check_fails(br_sort(x, 2, false, NULL), "sort: dim is 2");
    check_fails(br_cumsum(x, -3), "cumsum: dim is -3");
    check_fails(br_min_dim(none, 1, false, NULL), "min: x [2, 0] has no elements");
    check_fails(br_median_dim(none, 1, false, NULL), "median: x [2, 0] has no elements");
    check_fails(br_norm(none, INFINITY), "norm: x [2, 0] has no elements");
    check_fails(br_norm(x, NAN), "norm: p is nan");
    check_fails(br_var_dim(x, BR_DIMS(0, 0), 1, false),
                "var: dimension 0 of x [2, 3] is given twice");
    br_scope_end(scope);
}

static br_tensor *product_of_all(br_tensor *const *x, int n, void *context)
{
    (void)n;
    (void)context;
    return br_prod(x[0]);
}

/* The second gradient also needs the products from the end to each element. */
Test(statistics, second_gradient_of_a_product_with_a_zero)
{
    br_tensor *x = leaf(br_from_f64(BR_SHAPE(3), (double[]){ 2, 0, 3 }));
    cr_assert(br_gradgradcheck(product_of_all, NULL, 1, &x, NULL), "%s", br_error_message());
}

/* Without degrees of freedom PyTorch gives infinity or NaN, as value and as gradient. */
Test(statistics, corrections_that_leave_no_degrees_of_freedom)
{
    for (int correction = 3; correction <= 4; correction++) {
        br_scope *scope = br_scope_begin();
        br_tensor *x = leaf(br_from_f64(BR_SHAPE(3), (double[]){ 1, 2, 4 }));
        br_tensor *v = br_var(x, correction);
        br_backward(v);
        check_equals(v, INFINITY);
        check_equals(br_grad_of(x), INFINITY, INFINITY, INFINITY);
        br_tensor *y = leaf(br_from_f64(BR_SHAPE(1, 3), (double[]){ 1, 2, 4 }));
        br_tensor *std = br_std_dim(y, BR_DIMS(1), correction, false);
        br_backward(br_sum(std));
        check_equals(std, INFINITY);
        check_equals(br_grad_of(y), NAN, NAN, NAN);
        br_tensor *equal = leaf(br_ones(BR_SHAPE(3), BR_F64));
        v = br_var(equal, correction);
        br_backward(v);
        check_equals(v, NAN);
        check_equals(br_grad_of(equal), NAN, NAN, NAN);
        br_scope_end(scope);
    }
}

/* Products of hundreds of factors leave the range, although each factor is near 1: 0.75^399 is 0 in
 * f32, and 3e20^256 / 3e20^256 is 1. */
Test(reduce, gradient_of_a_product_of_many_factors)
{
    enum { MANY = 512 };
    static const struct {
        float first, second; /* of each half */
        double dx[2];
    } cases[] = {
        { 0.75F, 0.75F, { 0, 0 } },
        { 0.55F, 0.55F, { 0, 0 } },
        { 3e20F, 1 / 3e20F, { 1 / 3e20, 3e20 } },
        { -0x1p100F, 0x1p-100F, { -0x1p-100, 0x1p100 } },
        { 1.5F, 1.5F, { INFINITY, INFINITY } },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        float values[MANY];
        for (int k = 0; k < MANY; k++)
            values[k] = k < MANY / 2 ? cases[i].first : cases[i].second;
        br_tensor *x = br_set_requires_grad(br_from_f32(BR_SHAPE(MANY), values), true);
        br_backward(br_prod(x));
        for (int k = 0; k < MANY; k++) {
            const double got = br_at(br_grad_of(x), 1, (int64_t[]){ k });
            const double want = cases[i].dx[k >= MANY / 2];
            cr_assert(got == want || fabs(got - want) < 1e-4 * fabs(want), "case %zu, %d: %g", i, k,
                      got);
        }
        check_ok();
    }
}
