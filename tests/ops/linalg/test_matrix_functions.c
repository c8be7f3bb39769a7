/* tests/ops/linalg/test_matrix_functions.c - exponentials, powers and products of matrices, and
 * tensors as matrices: known values and errors. */
#include "tests/ops/linalg/linalg.h"

TestSuite(matrix_functions, .init = check_begin, .fini = check_end);

/* ---- matrix_exp ------------------------------------------------------------------------------ */

/* Rotations by angles for each degree of the polynomial, and for several squarings. The error of a
 * squaring is that of a product, and doubles with each further one. */
Test(matrix_functions, exponentials_are_rotations)
{
    static const double angles[] = { 0,    1e-17, 1e-9, 1e-8, 1e-5, 3e-4, 5e-4, 1e-2, 5e-2,
                                     0.08, 0.3,   0.7,  0.8,  1,    2.4,  2.6,  5,    40 };
    br_scope *scope = br_scope_begin();
    for (size_t i = 0; i < sizeof angles / sizeof *angles; i++) {
        const double t = angles[i], size = t > 1 ? t : 1;
        br_tensor *a = matrix(0, -t, t, 0), *want = matrix(cos(t), -sin(t), sin(t), cos(t));
        br_tensor *low = br_to(matrix(0, -(float)t, (float)t, 0), BR_F32);
        check_near(br_linalg_matrix_exp(a), want, 4e-16 * size);
        br_tensor *rounded = br_linalg_matrix_exp(low);
        check_near(br_to(rounded, BR_F64),
                   matrix(cos((float)t), -sin((float)t), sin((float)t), cos((float)t)),
                   2e-7 * size);
    }
    br_scope_end(scope);
}

/* Each matrix of a batch has a scale of its own. exp([[x, 1], [0, x]]) = exp(x) [[1, 1], [0, 1]].
 */
Test(matrix_functions, exponentials_of_a_batch)
{
    static const double numbers[] = { 1e-3, -30, 0, 8, 100 };
    br_scope *scope = br_scope_begin();
    br_tensor *all[5];
    for (int i = 0; i < 5; i++)
        all[i] = matrix(numbers[i], 1, 0, numbers[i]);
    br_tensor *y = br_linalg_matrix_exp(br_stack(5, all, 0));
    for (int i = 0; i < 5; i++)
        check_near(br_div_scalar(br_select(y, 0, i), exp(numbers[i])), matrix(1, 1, 0, 1), 2e-13);
    br_tensor *low = br_linalg_matrix_exp(br_to(all[0], BR_BF16));
    cr_expect(br_dtype_of(low) == BR_BF16 && br_item(br_getitem(low, "0, 1", 0, NULL)) == 1);
    br_scope_end(scope);
}

Test(matrix_functions, exponential_of_nan_is_nan)
{
    br_scope *scope = br_scope_begin();
    br_tensor *bad[] = { matrix(NAN, 0, 0, 0), matrix(INFINITY, 1, 1, 0), matrix(0, 5, 0, 0) };
    br_tensor *y = br_linalg_matrix_exp(br_stack(3, bad, 0));
    cr_expect(br_item(br_isnan(br_getitem(y, "0, 0, 0", 0, NULL))));
    cr_expect(br_item(br_isfinite(br_getitem(y, "1, 0, 0", 0, NULL))) == 0);
    cr_expect(br_equal(br_select(y, 0, 2), matrix(1, 5, 0, 1)));
    cr_expect_eq(br_numel(br_linalg_matrix_exp(br_zeros(BR_SHAPE(2, 0, 0), BR_F64))), 0);
    check_fails(br_linalg_matrix_exp(br_ones(BR_SHAPE(2, 3), BR_F64)), "square");
    br_scope_end(scope);
}

/* ---- matrix_power, multi_dot ----------------------------------------------------------------- */

Test(matrix_functions, powers)
{
    br_scope *scope = br_scope_begin();
    br_tensor *fibonacci = br_to(matrix(1, 1, 1, 0), BR_I64),
              *one = br_to(matrix(1, 0, 0, 1), BR_I64);
    cr_expect(br_equal(br_linalg_matrix_power(fibonacci, 1), fibonacci));
    cr_expect(br_equal(br_linalg_matrix_power(fibonacci, 0), one));
    cr_expect_eq(br_item(br_getitem(br_linalg_matrix_power(fibonacci, 77), "0, 1", 0, NULL)),
                 5527939700884757.0);
    br_tensor *twice = br_linalg_matrix_power(matrix(NAN, 0, 0, 0), 0);
    cr_expect(br_equal(twice, matrix(1, 0, 0, 1)));
    check_fails(br_linalg_matrix_power(fibonacci, -1), "linalg_matrix_power: a [2, 2] is i64");
    check_fails(br_linalg_matrix_power(br_ones(BR_SHAPE(2, 3), BR_F64), 2), "square");
    skip_without_lapack();
    check_near(br_linalg_matrix_power(matrix(2, 1, 0, 2), -3), matrix(0.125, -0.1875, 0, 0.125),
               1e-15);
    br_scope_end(scope);
}

/* The product of the first two matrices overflows, and takes more multiplications than that of the
 * last two. */
Test(matrix_functions, products_in_the_shortest_order)
{
    br_scope *scope = br_scope_begin();
    br_tensor *column = br_full(BR_SHAPE(2, 1), 1e200, BR_F64);
    br_tensor *row = br_full(BR_SHAPE(1, 2), 1e200, BR_F64);
    br_tensor *small = br_full(BR_SHAPE(2, 1), 1e-200, BR_F64);
    check_near(br_div_scalar(br_linalg_multi_dot(BR_INPUTS(column, row, small)), 2e200),
               br_ones(BR_SHAPE(2, 1), BR_F64), 1e-15);
    check_near(
        br_div_scalar(br_linalg_multi_dot(BR_INPUTS(br_t(small), br_t(row), br_t(column))), 2e200),
        br_ones(BR_SHAPE(1, 2), BR_F64), 1e-15);
    br_tensor *v = br_select(column, 1, 0), *w = br_select(small, 1, 0);
    cr_expect_eq(br_ndim(br_linalg_multi_dot(BR_INPUTS(v, w))), 0);
    check_close(br_item(br_linalg_multi_dot(BR_INPUTS(v, w))), 2, 1e-15);
    cr_expect_eq(br_ndim(br_linalg_multi_dot(BR_INPUTS(w, column, row))), 1);
    br_tensor *half = br_to(matrix(1, 2, 3, 4), BR_BF16);
    cr_expect(br_equal(br_linalg_multi_dot(BR_INPUTS(half, half, half)),
                       br_to(matrix(37, 54, 81, 118), BR_BF16)));
    check_fails(
        br_linalg_multi_dot(BR_INPUTS(column, column)),
        "linalg_multi_dot: tensor 1 [2, 1] must have 1 rows, the columns of tensor 0 [2, 1]");
    check_fails(br_linalg_multi_dot(BR_INPUTS(row, v, row)), "tensor 1 [2] must have 2 dimensions");
    check_fails(br_linalg_multi_dot(BR_INPUTS(row)), "there are 1 tensors, must be at least 2");
    br_scope_end(scope);
}

/* ---- Tensors as matrices --------------------------------------------------------------------- */

Test(matrix_functions, vandermonde_matrices)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x = br_from_i64(BR_SHAPE(2), (int64_t[]){ 2, -3 });
    cr_expect(br_equal(br_linalg_vander(x, 0), br_to(matrix(1, 2, 1, -3), BR_I64)));
    cr_expect(br_equal(br_linalg_vander(x, 4),
                       br_from_i64(BR_SHAPE(2, 4), (int64_t[]){ 1, 2, 4, 8, 1, -3, 9, -27 })));
    cr_expect(br_equal(br_linalg_vander(br_scalar(2, BR_F64), 3),
                       br_from_f64(BR_SHAPE(1, 3), (double[]){ 1, 2, 4 })));
    check_fails(br_linalg_vander(x, 1), "linalg_vander: n is 1, must be at least 2");
    check_fails(br_linalg_vander(br_scalar(2, BR_F64), 0), "n is 1");
    br_scope_end(scope);
}

Test(matrix_functions, tensors_as_matrices)
{
    skip_without_lapack();
    br_scope *scope = br_scope_begin();
    br_tensor *a = br_randn(BR_SHAPE(4, 3, 6, 2), BR_F64);
    br_tensor *inverse = br_linalg_tensorinv(a, 2);
    br_tensor *product = br_tensordot(inverse, a, BR_DIMS(2, 3), BR_DIMS(0, 1));
    check_near(br_reshape(product, BR_SHAPE(12, 12)), br_eye(12, 12, BR_F64), 1e-11);
    br_tensor *x = br_randn(BR_SHAPE(6, 2), BR_F64);
    br_tensor *b = br_tensordot(a, x, BR_DIMS(2, 3), BR_DIMS(0, 1));
    check_near(br_linalg_tensorsolve(a, b, 0, NULL), x, 1e-11);
    br_tensor *moved = br_permute(a, BR_DIMS(2, 0, 1, 3)); /* dimensions 0 and 3 are those of x */
    check_near(br_linalg_tensorsolve(moved, b, BR_DIMS(0, 3)), x, 1e-11);
    cr_expect(br_equal(br_linalg_tensorinv(br_full(BR_SHAPE(1), 4, BR_F64), 1),
                       br_full(BR_SHAPE(1), 0.25, BR_F64)));
    check_fails(br_linalg_tensorinv(a, 0), "ind is 0, must be in 1 .. 4");
    check_fails(br_linalg_tensorinv(a, 1), "as many elements in its first 1 dimensions, 4");
    check_fails(br_linalg_tensorsolve(a, br_ones(BR_SHAPE(4, 2), BR_F64), 0, NULL),
                "those of b [4, 2], in its first 2");
    check_fails(br_linalg_tensorsolve(a, b, BR_DIMS(0, 1, 2, 3, 0)), "there are 5 dims");
    br_scope_end(scope);
}
