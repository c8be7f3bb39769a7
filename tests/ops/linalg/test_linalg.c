/* tests/ops/linalg/test_linalg.c - linear algebra: known values, errors, and a missing LAPACK. The
 * gradients are tested by the rows of op_cases.def. */
#include "tests/ops/linalg/linalg.h"
#include "tests/same_bits.h"

#include <limits.h>

TestSuite(linalg, .init = check_begin, .fini = check_end);

/* Small integers: the results are exact. */
Test(linalg, known_values)
{
    skip_without_lapack();
    br_scope *scope = br_scope_begin();
    br_tensor *a = matrix(0, 2, 4, 6), *sign;
    cr_expect(br_equal(br_linalg_inv(a), matrix(-0.75, 0.25, 0.5, 0)));
    cr_expect_eq(br_item(br_linalg_det(a)), -8);
    cr_expect(br_allclose(br_linalg_slogdet(a, &sign), br_scalar(log(8), BR_F64), 1e-15, 0));
    cr_expect_eq(br_item(sign), -1);
    cr_expect(br_isnan(br_logdet(a)) && br_item(br_isnan(br_logdet(a))) == 1);
    cr_expect(br_equal(br_linalg_solve(a, br_from_f64(BR_SHAPE(2), (double[]){ 2, 10 }), true),
                       br_ones(BR_SHAPE(2), BR_F64)));
    cr_expect(br_equal(br_linalg_solve(a, br_from_f64(BR_SHAPE(2), (double[]){ 4, 8 }), false),
                       br_ones(BR_SHAPE(2), BR_F64)));
    cr_expect(
        br_equal(br_matmul(br_linalg_solve(a, matrix(4, 8, 0, 2), false), a), matrix(4, 8, 0, 2)));
    cr_expect(br_equal(br_linalg_cholesky(matrix(4, NAN, 2, 10), false), matrix(2, 0, 1, 3)));
    cr_expect(br_equal(br_linalg_cholesky(matrix(4, 2, NAN, 10), true), matrix(2, 1, 0, 3)));
    cr_expect(br_equal(
        br_linalg_solve_triangular(matrix(NAN, 2, NAN, NAN), matrix(5, 2, 1, 1), true, true, true),
        matrix(3, 0, 1, 1)));
    cr_expect(br_equal(
        br_linalg_solve_triangular(matrix(NAN, 2, NAN, NAN), matrix(3, 1, 1, 3), true, false, true),
        matrix(3, -5, 1, 1)));
    cr_expect(br_equal(br_cholesky_solve(matrix(8, 0, 22, 9), matrix(2, 0, 1, 3), false),
                       matrix(1, -0.5, 2, 1)));
    cr_expect(br_equal(br_cholesky_solve(matrix(8, 0, 22, 9), matrix(2, 1, 0, 3), true),
                       matrix(1, -0.5, 2, 1)));
    cr_expect(br_equal(br_cholesky_inverse(matrix(2, NAN, 1, 4), false),
                       matrix(0.265625, -0.03125, -0.03125, 0.0625)));
    cr_expect(br_equal(br_cholesky_inverse(matrix(2, 1, NAN, 4), true),
                       matrix(0.265625, -0.03125, -0.03125, 0.0625)));
    br_tensor *empty = br_set_requires_grad(br_zeros(BR_SHAPE(0, 0), BR_F64), true);
    cr_expect(br_same_shape(br_cholesky_inverse(empty, false), empty));
    cr_expect_eq(br_item(br_linalg_det(empty)), 1);
    cr_expect(br_backward(br_linalg_det(empty)), "%s", br_error_message());
    cr_expect_eq(br_item(br_linalg_slogdet(matrix(1, 2, 2, 4), &sign)), -INFINITY);
    cr_expect_eq(br_item(sign), 0);
    cr_expect_eq(br_item(br_logdet(matrix(1, 2, 2, 4))), -INFINITY);
    br_tensor *none =
        br_linalg_solve(br_unsqueeze(a, 0), br_zeros(BR_SHAPE(0, 2, 3), BR_F64), true);
    cr_expect(br_equal(none, br_zeros(BR_SHAPE(0, 2, 3), BR_F64)), "%s", br_error_message());
    br_scope_end(scope);
}

/* A diagonal that counts as 1 has no gradient, nor has the other triangle. */
Test(linalg, gradient_of_a_unit_triangle)
{
    skip_without_lapack();
    br_scope *scope = br_scope_begin();
    br_tensor *a = br_set_requires_grad(matrix(5, 2, 7, 5), true);
    br_tensor *x = br_linalg_solve_triangular(a, matrix(5, 2, 1, 1), true, true, true);
    cr_expect(br_backward(br_sum(x)), "%s", br_error_message());
    cr_expect(br_equal(br_grad_of(a), matrix(0, -2, 0, 0)));
    br_scope_end(scope);
}

static br_tensor *det(br_tensor *const *x, int n, void *context)
{
    (void)n;
    (void)context;
    return br_linalg_det(x[0]);
}

/* Returns the gradients of the determinants of a. */
static br_tensor *gradient_of_det(br_tensor *a)
{
    br_tensor *y = br_linalg_det(a), *dx = NULL, *one = br_ones_like(y);
    br_grad(1, &y, 1, &a, &dx, BR_OPTIONS(br_grad, .gradients = &one));
    return dx;
}

/* Gradients are cofactors. One batch has singular matrices, also one whose 0 is hidden by rounding,
 * and regular matrices. a and -a have the same cofactors, but the determinants of one of their
 * orthogonal factors differ. */
Test(linalg, gradient_of_det_of_singular_matrices)
{
    skip_without_lapack();
    br_scope *scope = br_scope_begin();
    const double numbers[] = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 2, 0, 0, 0, 3, 0, 0, 0, 4,
                               1, 2, 3, 2, 4, 6, 1, 1, 0, 1, 2, 3, 2, 4, 6, 3, 6, 9 };
    const double cofactors[] = { -3, 6, -3, 6, -12, 6, -3, 6, -3, 12, 0, 0, 0, 8, 0, 0, 0, 6,
                                 -6, 6, -2, 3, -3,  1, 0,  0, 0,  0,  0, 0, 0, 0, 0, 0, 0, 0 };
    br_tensor *a = br_from_f64(BR_SHAPE(4, 3, 3), numbers);
    br_tensor *negative = br_set_requires_grad(br_neg(a), true);
    br_set_requires_grad(a, true);
    check_near(gradient_of_det(a), br_from_f64(BR_SHAPE(4, 3, 3), cofactors), 1e-13);
    check_near(gradient_of_det(negative), br_from_f64(BR_SHAPE(4, 3, 3), cofactors), 1e-13);
    br_tensor *first = br_set_requires_grad(br_clone(br_detach(br_narrow(a, 0, 0, 3))), true);
    cr_expect(br_gradcheck(det, NULL, 1, &first, TIGHTLY), "%s", br_error_message());
    cr_expect(br_gradgradcheck(det, NULL, 1, &first, TIGHTLY), "%s", br_error_message());
    br_tensor *zero = br_set_requires_grad(br_zeros(BR_SHAPE(1, 1), BR_F64), true);
    cr_expect_eq(br_item(gradient_of_det(zero)), 1);
    /* A small determinant is no reason to compute singular values, here equal ones. */
    br_tensor *small = br_set_requires_grad(br_mul_scalar(br_eye(5, 5, BR_F64), 1e-4), true);
    cr_expect(br_gradgradcheck(det, NULL, 1, &small, BR_OPTIONS(br_gradcheck, .atol = 1e-18)), "%s",
              br_error_message());
    br_scope_end(scope);
}

/* Matrices that are not positive definite are no error; the others have their factor. */
Test(linalg, cholesky_with_info)
{
    skip_without_lapack();
    br_scope *scope = br_scope_begin();
    br_tensor *bad = matrix(4, 2, 2, -3), *good = matrix(4, 2, 2, 10), *info;
    br_tensor *all = br_stack(BR_INPUTS(bad, good, matrix(-1, 0, 0, 1)), 0);
    br_tensor *l = br_linalg_cholesky_ex(all, false, false, &info);
    br_tensor *orders = br_to(br_from_i64(BR_SHAPE(3), (int64_t[]){ 2, 0, 1 }), BR_I32);
    cr_expect(br_equal(info, orders), "%s", br_error_message());
    cr_expect(br_equal(br_select(l, 0, 1), matrix(2, 0, 1, 3)));
    br_tensor *upper = br_linalg_cholesky_ex(good, true, true, &info);
    cr_expect(br_equal(info, br_scalar(0, BR_I32)), "%s", br_error_message());
    cr_expect(br_equal(upper, matrix(2, 1, 0, 3)));
    br_tensor *empty = br_zeros(BR_SHAPE(2, 0, 0), BR_F32);
    cr_expect(br_equal(br_linalg_cholesky_ex(empty, false, false, &info), empty));
    cr_expect(br_equal(info, br_zeros(BR_SHAPE(2), BR_I32)), "%s", br_error_message());
    check_fails(br_linalg_cholesky_ex(all, false, true, &info) != NULL,
                "linalg_cholesky_ex: matrix 0 of a [3, 2, 2] is not positive definite: not its "
                "leading minor of order 2");
    cr_expect_null(info);
    br_scope_end(scope);
}

Test(linalg, errors)
{
    skip_without_lapack();
    br_scope *scope = br_scope_begin();
    br_tensor *good = matrix(1, 0, 0, 1), *singular = matrix(1, 2, 2, 4);
    br_tensor *both = br_stack(BR_INPUTS(good, singular), 0);
    check_fails(br_linalg_inv(both) != NULL, "linalg_inv: matrix 1 of a [2, 2, 2] is singular: its "
                                             "LU factorization has a 0 on the diagonal of U in row "
                                             "2");
    check_fails(br_linalg_solve(singular, good, true) != NULL, "linalg_solve: matrix 0 of a");
    check_fails(
        br_linalg_cholesky(br_stack(BR_INPUTS(good, matrix(1, 2, 2, 1)), 0), false) != NULL,
        "linalg_cholesky: matrix 1 of a [2, 2, 2] is not positive definite: not its leading "
        "minor of order 2");
    check_fails(br_linalg_det(br_ones(BR_SHAPE(2, 3), BR_F64)) != NULL, "square matrices");
    check_fails(br_linalg_inv(br_to(good, BR_BF16)) != NULL, "must be f32 or f64");
    check_fails(br_linalg_solve(good, br_ones(BR_SHAPE(3, 2), BR_F64), true) != NULL,
                "must be [*, n, k]");
    check_fails(br_cholesky_solve(br_ones(BR_SHAPE(3, 1), BR_F64), good, false) != NULL,
                "cholesky_solve: b [3, 1] must be [*, n, k] for the factor [2, 2]");
    check_fails(br_cholesky_inverse(matrix(2, 0, 1, 0), false) != NULL,
                "cholesky_inverse: factor [2, 2] has a 0 on its diagonal");
    check_fails(br_cholesky_inverse(br_ones(BR_SHAPE(2, 3), BR_F64), false) != NULL,
                "cholesky_inverse: factor [2, 3] must have square matrices");
    const int64_t many = (int64_t)INT_MAX + 1;
    check_fails(br_linalg_svdvals(br_zeros(BR_SHAPE(many, 0), BR_F64)) != NULL,
                "a [2147483648, 0] must have at most 2147483647 rows and columns");
    check_fails(br_linalg_svdvals(br_zeros(BR_SHAPE(0, many), BR_F64)) != NULL,
                "at most 2147483647");
    br_set_requires_grad(singular, true);
    check_fails(br_backward(br_linalg_slogdet(singular, NULL)), "is singular");
    br_scope_end(scope);
}

/* A variable without a path counts as not set. */
Test(linalg, empty_path_of_the_library)
{
    setenv("BRASA_LAPACK", "", 1);
    br_scope *scope = br_scope_begin();
    if (!br_linalg_inv(matrix(1, 0, 0, 1)))
        check_fails(NULL, "needs LAPACK, but liblapack.so.3");
    br_scope_end(scope);
}

/* The library is opened by the first call of this process. */
Test(linalg, missing_library)
{
    setenv("BRASA_LAPACK", "/nowhere/liblapack.so", 1);
    br_scope *scope = br_scope_begin();
    check_fails(br_linalg_inv(matrix(1, 0, 0, 1)) != NULL, "install the Debian package liblapack3");
    cr_expect_null(br_linalg_inv(matrix(1, 0, 0, 1)));
    cr_expect_eq(br_error_code(), BR_ERROR_IO);
    br_clear_error();
    setenv("BRASA_LAPACK", "libm.so.6", 1);
    check_fails(br_linalg_inv(matrix(1, 0, 0, 1)) != NULL, "has no function sgetrf_");
    br_scope_end(scope);
}

/* Matrices of up to 32 rows do not go through LAPACK, but are computed in the lanes of vectors. The
 * first zero on a diagonal is named. */
Test(linalg, small_and_large_matrices)
{
    skip_without_lapack();
    for (br_dtype dtype = BR_F32; dtype <= BR_F64; dtype++)
        for (int64_t n = 1; n <= 36; n += n < 31 ? 10 : 1) {
            br_scope *scope = br_scope_begin();
            br_manual_seed((uint64_t)n);
            const double tolerance = dtype == BR_F32 ? 2e-5 : 4e-14;
            br_tensor *x = br_randn(BR_SHAPE(19, n, n), dtype),
                      *b = br_randn(BR_SHAPE(19, n, 3), dtype);
            br_tensor *a = br_add(x, br_mul_scalar(br_eye(n, n, dtype), (double)n));
            br_tensor *solved = br_linalg_solve(a, b, true);
            check_near(br_matmul(a, solved), b, tolerance);
            br_tensor *alone = br_linalg_solve(br_select(a, 0, 7), br_select(b, 0, 7), true);
            cr_assert(same_bits(br_select(solved, 0, 7), alone), "%d rows", (int)n);
            br_tensor *triangle = br_triu(a, 0);
            check_near(
                br_matmul(triangle, br_linalg_solve_triangular(triangle, b, true, true, false)), b,
                tolerance);
            br_tensor *l, *u, *p = br_linalg_lu(x, &l, &u);
            check_near(br_matmul(p, br_matmul(l, u)), x, tolerance);
            br_tensor *square = br_add(br_matmul(x, transpose(x)), br_eye(n, n, dtype));
            br_tensor *factor = br_linalg_cholesky(square, false);
            check_near(br_matmul(factor, transpose(factor)), square, 10 * tolerance);
            br_scope_end(scope);
        }
    br_scope *scope = br_scope_begin();
    br_tensor *pivots;
    check_fails(br_linalg_lu_factor(br_zeros(BR_SHAPE(3, 3), BR_F64), &pivots), "in row 1");
    check_fails(br_linalg_cholesky(matrix(4, 0, 1, NAN), false), "minor of order 2");
    br_scope_end(scope);
}
