/* tests/ops/linalg/test_decompositions.c - QR, eigenvalues, singular values, pseudoinverses, least
 * squares, norms and LU: known values, properties and errors. */
#include "tests/ops/linalg/linalg.h"

TestSuite(decompositions, .init = check_begin, .fini = check_end);

/* Returns two matrices with m rows and n columns, with the number in the second one. */
static br_tensor *with_number(int64_t m, int64_t n, double number)
{
    br_manual_seed(3);
    br_tensor *a = br_randn(BR_SHAPE(2, m, n), BR_F64);
    br_fill_(br_getitem(a, "1, 0, 0", 0, NULL), number);
    return a;
}

static bool is_identity(br_tensor *a)
{
    return br_allclose(a, br_expand_as(br_eye(br_size(a, -1), br_size(a, -1), BR_F64), a), 0,
                       1e-14);
}

/* ---- QR -------------------------------------------------------------------------------------- */

Test(decompositions, qr)
{
    skip_without_lapack();
    static const int64_t sizes[][2] = { { 5, 3 }, { 3, 5 }, { 4, 4 }, { 3, 0 }, { 0, 3 } };
    br_scope *scope = br_scope_begin();
    for (int i = 0; i < 5; i++) {
        const int64_t m = sizes[i][0], n = sizes[i][1], k = m < n ? m : n;
        br_tensor *a = br_randn(BR_SHAPE(2, m, n), BR_F64), *r, *only;
        br_tensor *q = br_linalg_qr(a, BR_QR_REDUCED, &r);
        cr_expect(br_size(q, -1) == k && br_size(r, -2) == k, "%s", br_error_message());
        cr_expect(is_identity(br_matmul(transpose(q), q)));
        check_near(br_matmul(q, r), a, 1e-14);
        cr_expect(br_equal(br_triu(r, 0), r));
        cr_expect(br_numel(br_linalg_qr(a, BR_QR_R, &only)) == 0 && br_equal(only, r));
        br_tensor *whole = br_linalg_qr(a, BR_QR_COMPLETE, &r);
        cr_expect(br_size(whole, -1) == m && br_size(r, -2) == m, "%s", br_error_message());
        cr_expect(is_identity(br_matmul(transpose(whole), whole)));
        check_near(br_matmul(whole, r), a, 1e-14);
    }
    cr_expect_not_null(br_linalg_qr(matrix(1, 2, 3, 4), BR_QR_REDUCED, NULL));
    br_scope_end(scope);
}

Test(decompositions, errors_of_qr)
{
    skip_without_lapack();
    br_scope *scope = br_scope_begin();
    br_tensor *r, *tall = br_set_requires_grad(br_randn(BR_SHAPE(3, 2), BR_F64), true);
    check_fails(br_linalg_qr(br_ones(BR_SHAPE(3), BR_F64), BR_QR_REDUCED, &r),
                "linalg_qr: a [3] must be a matrix or a batch of matrices");
    check_fails(br_linalg_qr(tall, (br_qr_mode)3, &r), "linalg_qr: mode is 3, must be");
    check_fails(br_backward(br_sum(br_linalg_qr(tall, BR_QR_COMPLETE, &r))),
                "no gradient with BR_QR_COMPLETE for matrices with more rows than columns");
    br_linalg_qr(tall, BR_QR_R, &r);
    check_fails(br_backward(br_sum(r)), "no gradient with BR_QR_R");
    br_scope_end(scope);
}

/* The product of k reflections, one after another. A factor of 0 is the identity. */
Test(decompositions, householder_product)
{
    skip_without_lapack();
    br_scope *scope = br_scope_begin();
    br_tensor *a = br_randn(BR_SHAPE(5, 4), BR_F64), *one = br_eye(5, 5, BR_F64), *want = one;
    br_tensor *tau = br_from_f64(BR_SHAPE(3), (double[]){ 0.5, 0, 1.5 });
    for (int i = 0; i < 3; i++) {
        br_tensor *v = br_add(br_tril(a, -1), br_eye(5, 4, BR_F64));
        v = br_narrow(v, 1, i, 1);
        br_tensor *factor = br_select(tau, 0, i);
        want = br_matmul(want, br_sub(one, br_mul(factor, br_matmul(v, br_t(v)))));
    }
    check_near(br_linalg_householder_product(a, tau), br_narrow(want, 1, 0, 4), 1e-14);
    cr_expect(br_equal(br_linalg_householder_product(a, br_zeros(BR_SHAPE(0), BR_F64)),
                       br_eye(5, 4, BR_F64)));
    check_fails(br_linalg_householder_product(a, br_ones(BR_SHAPE(5), BR_F64)), "m >= n >= k");
    check_fails(br_linalg_householder_product(br_t(a), tau), "m >= n >= k");
    check_fails(br_linalg_householder_product(br_stack(BR_INPUTS(a, a), 0), br_unsqueeze(tau, 0)),
                "a [2, 5, 4] and tau [1, 3] must be [*, m, n] and [*, k]");
    br_scope_end(scope);
}

/* ---- Eigenvalues ----------------------------------------------------------------------------- */

Test(decompositions, eigh)
{
    skip_without_lapack();
    br_scope *scope = br_scope_begin();
    br_tensor *v, *root = br_scalar(sqrt(0.5), BR_F64);
    br_tensor *want = br_from_f64(BR_SHAPE(2), (double[]){ 1, 3 });
    check_near(br_linalg_eigh(matrix(2, NAN, 1, 2), false, &v), want, 1e-15);
    check_near(br_abs(v), br_expand_as(root, v), 1e-15);
    cr_expect_lt(br_item(br_prod(v)), 0,
                 "the second vector has equal signs, the first one has not");
    check_near(br_linalg_eigvalsh(matrix(2, 1, NAN, 2), true), want, 1e-15);
    br_tensor *a = br_randn(BR_SHAPE(3, 6, 6), BR_F64);
    br_tensor *symmetric = br_add(br_tril(a, 0), transpose(br_tril(a, -1)));
    br_tensor *l = br_linalg_eigh(a, false, &v);
    check_near(br_matmul(br_mul(v, br_unsqueeze(l, -2)), transpose(v)), symmetric, 1e-13);
    cr_expect(is_identity(br_matmul(transpose(v), v)));
    check_near(br_linalg_eigvalsh(a, false), l, 1e-13);
    cr_expect_not_null(br_linalg_eigh(a, false, NULL));
    br_scope_end(scope);
}

/* Equal eigenvalues have a gradient, their vectors have none. */
Test(decompositions, gradient_of_equal_eigenvalues)
{
    skip_without_lapack();
    br_scope *scope = br_scope_begin();
    br_tensor *a = br_set_requires_grad(br_eye(3, 3, BR_F64), true), *v;
    cr_expect(br_backward(br_sum(br_linalg_eigvalsh(a, false))), "%s", br_error_message());
    check_near(br_grad_of(a), br_eye(3, 3, BR_F64), 1e-15);
    br_linalg_eigh(a, false, &v);
    br_set_grad(a, NULL);
    cr_expect(br_backward(br_sum(br_mul(v, br_arange(0, 3, 1, BR_F64)))), "%s", br_error_message());
    cr_expect(br_item(br_all(br_isfinite(br_grad_of(a)))) == 0);
    br_scope_end(scope);
}

Test(decompositions, errors_of_eigh)
{
    skip_without_lapack();
    br_scope *scope = br_scope_begin();
    br_tensor *v;
    check_fails(br_linalg_eigh(with_number(3, 3, NAN), false, &v),
                "linalg_eigh: matrix 1 of the lower triangle of a [2, 3, 3] contains NaN or "
                "infinity");
    cr_expect_null(v);
    check_fails(br_linalg_eigvalsh(with_number(3, 3, INFINITY), true),
                "linalg_eigvalsh: matrix 1 of the upper triangle of a");
    check_fails(br_linalg_eigh(br_ones(BR_SHAPE(2, 3), BR_F64), false, &v), "square matrices");
    br_scope_end(scope);
}

/* ---- Singular values ------------------------------------------------------------------------- */

Test(decompositions, svd)
{
    skip_without_lapack();
    static const int64_t sizes[][2] = { { 5, 3 }, { 3, 5 }, { 4, 4 }, { 3, 0 }, { 0, 3 } };
    br_scope *scope = br_scope_begin();
    br_tensor *s, *vh;
    check_near(br_linalg_svdvals(matrix(0, 2, -3, 0)), br_from_f64(BR_SHAPE(2), (double[]){ 3, 2 }),
               1e-15);
    for (int i = 0; i < 5; i++) {
        const int64_t m = sizes[i][0], n = sizes[i][1], k = m < n ? m : n;
        br_tensor *a = br_randn(BR_SHAPE(2, m, n), BR_F64);
        br_tensor *u = br_linalg_svd(a, false, &s, &vh);
        cr_expect(br_size(u, -1) == k && br_size(vh, -2) == k, "%s", br_error_message());
        check_near(br_matmul(br_mul(u, br_unsqueeze(s, -2)), vh), a, 1e-14);
        check_near(br_linalg_svdvals(a), s, 1e-14);
        br_tensor *whole = br_linalg_svd(a, true, &s, &vh);
        cr_expect(br_size(whole, -1) == m && br_size(vh, -2) == n, "%s", br_error_message());
        cr_expect(is_identity(br_matmul(transpose(whole), whole)));
        cr_expect(is_identity(br_matmul(vh, transpose(vh))));
        br_tensor *product = br_mul(br_narrow(whole, -1, 0, k), br_unsqueeze(s, -2));
        check_near(br_matmul(product, br_narrow(vh, -2, 0, k)), a, 1e-14);
    }
    cr_expect_not_null(br_linalg_svd(matrix(1, 2, 3, 4), true, NULL, NULL));
    br_scope_end(scope);
}

/* The gradient of the additional vectors is 0, and those of the others are as without them. */
Test(decompositions, gradient_of_full_svd)
{
    skip_without_lapack();
    br_scope *scope = br_scope_begin();
    for (int wide = 0; wide < 2; wide++) {
        br_tensor *a = wide ? br_randn(BR_SHAPE(3, 5), BR_F64) : br_randn(BR_SHAPE(5, 3), BR_F64);
        br_set_requires_grad(a, true);
        br_tensor *s, *vh, *grads[2];
        for (int full = 0; full < 2; full++) {
            br_tensor *u = br_linalg_svd(a, full, &s, &vh);
            br_tensor *y = br_add(br_sum(br_pow_scalar(br_narrow(u, -1, 0, 3), 4)),
                                  br_sum(br_pow_scalar(br_narrow(vh, -2, 0, 3), 4)));
            if (full)
                y = br_add(y, br_sum(wide ? br_narrow(vh, -2, 3, 2) : br_narrow(u, -1, 3, 2)));
            cr_expect(br_grad(1, &y, 1, &a, &grads[full], NULL), "%s", br_error_message());
        }
        check_near(grads[1], grads[0], 1e-12);
    }
    br_scope_end(scope);
}

Test(decompositions, errors_of_svd)
{
    skip_without_lapack();
    br_scope *scope = br_scope_begin();
    br_tensor *s, *vh;
    check_fails(br_linalg_svd(with_number(2, 3, NAN), true, &s, &vh),
                "linalg_svd: matrix 1 of a [2, 2, 3] contains NaN or infinity");
    cr_expect(!s && !vh);
    check_fails(br_linalg_svdvals(with_number(2, 3, INFINITY)), "linalg_svdvals: matrix 1 of a");
    check_fails(br_linalg_pinv(with_number(2, 3, NAN), NULL, NULL, false),
                "linalg_pinv: matrix 1 of a [2, 2, 3] contains NaN");
    check_fails(br_linalg_cond(with_number(3, 3, NAN), BR_MATRIX_NORM_2),
                "linalg_cond: matrix 1 of a");
    br_scope_end(scope);
}

/* ---- pinv, matrix_rank ----------------------------------------------------------------------- */

Test(decompositions, pinv)
{
    skip_without_lapack();
    br_scope *scope = br_scope_begin();
    check_near(br_linalg_pinv(matrix(1, 2, 2, 4), NULL, NULL, false),
               matrix(0.04, 0.08, 0.08, 0.16), 1e-15);
    check_near(br_linalg_pinv(matrix(1, NAN, 2, 4), NULL, NULL, true),
               matrix(0.04, 0.08, 0.08, 0.16), 1e-15);
    /* The eigenvalues are 1 and -1. */
    check_near(br_linalg_pinv(matrix(0, 1, 1, 0), NULL, NULL, true), matrix(0, 1, 1, 0), 1e-15);
    br_tensor *a = br_matmul(br_randn(BR_SHAPE(2, 6, 3), BR_F64), br_randn(BR_SHAPE(3, 4), BR_F64));
    br_tensor *y = br_linalg_pinv(a, NULL, NULL, false), *product = br_matmul(a, y);
    check_near(br_matmul(product, a), a, 1e-12);
    check_near(br_matmul(br_matmul(y, a), y), y, 1e-12);
    check_near(product, transpose(product), 1e-12);
    check_near(br_matmul(y, a), transpose(br_matmul(y, a)), 1e-12);
    br_tensor *none = br_linalg_pinv(br_zeros(BR_SHAPE(2, 3, 0), BR_F64), NULL, NULL, false);
    cr_expect(br_size(none, 1) == 0 && br_size(none, 2) == 3);
    br_scope_end(scope);
}

static int64_t rank_of(br_tensor *a, br_tensor *atol, br_tensor *rtol)
{
    br_tensor *rank = br_linalg_matrix_rank(a, atol, rtol, false);
    cr_assert(rank && br_dtype_of(rank) == BR_I64, "%s", br_error_message());
    return (int64_t)br_item(rank);
}

/* The singular values are 4, 1, 1e-3 and 2e-15. The last one is less than the default tolerance,
 * 4 (the size) times 4 (the largest value) times the machine epsilon, but more than a quarter. */
Test(decompositions, tolerances_of_rank)
{
    skip_without_lapack();
    br_scope *scope = br_scope_begin();
    br_tensor *a = br_diag(br_from_f64(BR_SHAPE(4), (double[]){ 1, 4, 2e-15, 1e-3 }), 0);
    br_tensor *rough = br_scalar(0.5, BR_F64), *fine = br_scalar(1e-20, BR_F64);
    br_tensor *zero = br_scalar(0, BR_F64), *two = br_scalar(2, BR_F32);
    cr_expect_eq(rank_of(a, NULL, NULL), 3);
    cr_expect_eq(rank_of(a, NULL, rough), 1);
    cr_expect_eq(rank_of(a, rough, NULL), 2);
    cr_expect_eq(rank_of(a, fine, NULL), 4, "rtol is 0 if atol is positive");
    cr_expect_eq(rank_of(a, zero, NULL), 3, "rtol has its default if atol is 0");
    cr_expect_eq(rank_of(a, two, fine), 1);
    cr_expect_eq(rank_of(a, br_scalar(0.9, BR_F64), br_scalar(0.2, BR_F64)), 2,
                 "the larger tolerance counts, not the sum");
    cr_expect_eq(rank_of(br_to(a, BR_F32), NULL, NULL), 3);
    br_tensor *pair = br_stack(BR_INPUTS(a, a), 0);
    br_tensor *each = br_from_f64(BR_SHAPE(2), (double[]){ 1e-2, 2 });
    cr_expect(br_equal(br_linalg_matrix_rank(pair, each, NULL, false),
                       br_from_i64(BR_SHAPE(2), (int64_t[]){ 2, 1 })));
    cr_expect(br_equal(br_linalg_matrix_rank(br_neg(pair), each, NULL, true),
                       br_from_i64(BR_SHAPE(2), (int64_t[]){ 2, 1 })));
    check_near(br_linalg_pinv(a, rough, NULL, false),
               br_diag(br_from_f64(BR_SHAPE(4), (double[]){ 1, 0.25, 0, 0 }), 0), 1e-15);
    cr_expect(
        br_equal(br_linalg_matrix_rank(br_zeros(BR_SHAPE(2, 0, 3), BR_F64), NULL, NULL, false),
                 br_zeros(BR_SHAPE(2), BR_I64)));
    check_fails(br_linalg_pinv(pair, br_ones(BR_SHAPE(3), BR_F64), NULL, false),
                "linalg_pinv: atol [3] does not broadcast to [2]");
    check_fails(br_linalg_matrix_rank(pair, NULL, br_ones(BR_SHAPE(1, 2), BR_F64), false),
                "linalg_matrix_rank: rtol [1, 2] does not broadcast to [2]");
    check_fails(br_linalg_pinv(br_ones(BR_SHAPE(2, 3), BR_F64), NULL, NULL, true), "square");
    br_scope_end(scope);
}

/* ---- lstsq ----------------------------------------------------------------------------------- */

static const br_lstsq_driver drivers[] = { BR_LSTSQ_GELSY, BR_LSTSQ_GELS, BR_LSTSQ_GELSD,
                                           BR_LSTSQ_GELSS };

/* The line 1 + 2 t through three points, one of them moved by 3. */
Test(decompositions, lstsq)
{
    skip_without_lapack();
    br_scope *scope = br_scope_begin();
    br_tensor *a = br_from_f64(BR_SHAPE(3, 2), (double[]){ 1, 0, 1, 1, 1, 2 });
    br_tensor *b = br_from_f64(BR_SHAPE(3, 1), (double[]){ 1, 6, 5 });
    br_tensor *want = br_from_f64(BR_SHAPE(2, 1), (double[]){ 2, 2 }), *residuals, *rank, *values;
    for (int i = 0; i < 4; i++) {
        const bool by_values = i >= 2;
        br_tensor *x = br_linalg_lstsq(a, b, BR_NONE_F64, drivers[i], &residuals, &rank, &values);
        check_near(x, want, 1e-14);
        cr_expect_eq(br_numel(residuals), drivers[i] != BR_LSTSQ_GELSY);
        if (br_numel(residuals) > 0)
            check_close(br_item(residuals), 6, 1e-13);
        cr_expect_eq(br_numel(rank), drivers[i] != BR_LSTSQ_GELS);
        cr_expect(br_numel(rank) == 0 || br_item(rank) == 2);
        cr_expect_eq(br_dtype_of(rank), BR_I64);
        cr_expect_eq(br_numel(values), by_values ? 2 : 0);
        if (by_values)
            check_near(values, br_linalg_svdvals(a), 1e-14);
        br_tensor *vector =
            br_linalg_lstsq(a, br_squeeze(b, -1), BR_NONE_F64, drivers[i], NULL, NULL, NULL);
        check_near(vector, br_squeeze(want, -1), 1e-14);
        br_linalg_lstsq(matrix(2, 1, 1, 3), br_ones(BR_SHAPE(2, 1), BR_F64), BR_NONE_F64,
                        drivers[i], &residuals, NULL, NULL);
        cr_expect_eq(br_numel(residuals), 0, "a square matrix has no residuals");
    }
    br_tensor *batch = br_linalg_lstsq(a, br_stack(BR_INPUTS(b, br_neg(b)), 0), BR_NONE_F64,
                                       BR_LSTSQ_GELSY, NULL, NULL, NULL);
    check_near(batch, br_stack(BR_INPUTS(want, br_neg(want)), 0), 1e-14);
    br_scope_end(scope);
}

/* Equal columns share their coefficient: the solution has the smallest norm. A column of zeros has
 * no part in it, also if it is the first one. */
Test(decompositions, lstsq_of_lower_rank)
{
    skip_without_lapack();
    br_scope *scope = br_scope_begin();
    br_tensor *a = br_from_f64(BR_SHAPE(3, 2), (double[]){ 1, 1, 2, 2, 2, 2 });
    br_tensor *b = br_from_f64(BR_SHAPE(3, 1), (double[]){ 2, 4, 4 }), *residuals, *rank;
    for (int i = 0; i < 4; i++) {
        if (drivers[i] == BR_LSTSQ_GELS)
            continue;
        br_tensor *x = br_linalg_lstsq(a, b, BR_NONE_F64, drivers[i], &residuals, &rank, NULL);
        check_near(x, br_ones(BR_SHAPE(2, 1), BR_F64), 1e-14);
        cr_expect(br_numel(residuals) == 0 && br_item(rank) == 1);
        br_tensor *empty = br_mul(a, br_arange(0, 2, 1, BR_F64));
        x = br_linalg_lstsq(br_stack(BR_INPUTS(a, empty), 0), b, BR_NONE_F64, drivers[i], NULL,
                            &rank, NULL);
        check_near(br_flatten(x, 0, -1), br_from_f64(BR_SHAPE(4), (double[]){ 1, 1, 0, 2 }), 1e-14);
        cr_expect_eq(br_item(br_sum(rank)), 2);
        /* A part of a singular value of 3 sqrt(2) that counts as 0. */
        br_tensor *diagonal = br_diag(br_from_f64(BR_SHAPE(2), (double[]){ 1, 0.1 }), 0);
        br_linalg_lstsq(diagonal, br_ones(BR_SHAPE(2), BR_F64), 0.2, drivers[i], NULL, &rank, NULL);
        cr_expect_eq(br_item(rank), 1);
    }
    br_tensor *wide = br_linalg_lstsq(br_t(a), br_ones(BR_SHAPE(2, 1), BR_F64), BR_NONE_F64,
                                      BR_LSTSQ_GELSY, NULL, NULL, NULL);
    check_near(wide, br_div_scalar(br_narrow(a, 1, 0, 1), 9), 1e-14);
    br_scope_end(scope);
}

Test(decompositions, errors_of_lstsq)
{
    skip_without_lapack();
    br_scope *scope = br_scope_begin();
    br_tensor *a = br_ones(BR_SHAPE(2, 3, 2), BR_F64), *b = br_ones(BR_SHAPE(2, 3, 1), BR_F64);
    br_tensor *residuals = a;
    check_fails(br_linalg_lstsq(a, br_ones(BR_SHAPE(4, 1), BR_F64), BR_NONE_F64, BR_LSTSQ_GELSY,
                                &residuals, NULL, NULL),
                "linalg_lstsq: b [4, 1] must be [*, m, k] or [*, m] for a [2, 3, 2]");
    cr_expect_null(residuals);
    check_fails(br_linalg_lstsq(a, b, BR_NONE_F64, (br_lstsq_driver)4, NULL, NULL, NULL),
                "driver is 4, must be");
    check_fails(
        br_linalg_lstsq(a, with_number(3, 1, NAN), BR_NONE_F64, BR_LSTSQ_GELSY, NULL, NULL, NULL),
        "matrix 1 of b [2, 3, 1] contains NaN or infinity");
    check_fails(br_linalg_lstsq(with_number(3, 2, INFINITY), b, BR_NONE_F64, BR_LSTSQ_GELSD, NULL,
                                NULL, NULL),
                "matrix 1 of a [2, 3, 2] contains NaN or infinity");
    check_fails(br_linalg_lstsq(br_mul(a, br_arange(0, 2, 1, BR_F64)), b, BR_NONE_F64,
                                BR_LSTSQ_GELS, NULL, NULL, NULL),
                "matrix 0 of a [2, 3, 2] has not full rank");
    check_fails(br_linalg_lstsq(a, br_ones(BR_SHAPE(3, 3, 1), BR_F64), BR_NONE_F64, BR_LSTSQ_GELSY,
                                NULL, NULL, NULL),
                "do not broadcast");
    br_scope_end(scope);
}

/* ---- Norms and condition numbers ------------------------------------------------------------- */

Test(decompositions, matrix_norms)
{
    skip_without_lapack();
    static const double want[] = { 13, 8, 7, 1, 6, 2, 5, 3 }; /* FRO is a square root */
    br_scope *scope = br_scope_begin();
    /* Singular values 3 and 5, rows and columns with different sums. */
    br_tensor *values = br_diag(br_from_f64(BR_SHAPE(2), (double[]){ 3, 5 }), 0);
    br_tensor *a = br_from_f64(BR_SHAPE(2, 3), (double[]){ 0, -1, 0, 2, 2, -3 });
    br_tensor *flipped =
        br_permute(br_stack(BR_INPUTS(a, br_mul_scalar(a, 2)), 0), BR_DIMS(2, 0, 1));
    for (br_matrix_norm ord = BR_MATRIX_NORM_FRO; ord <= BR_MATRIX_NORM_NEG_2; ord++) {
        const bool spectral = ord == BR_MATRIX_NORM_NUC || ord >= BR_MATRIX_NORM_2;
        br_tensor *y = br_linalg_matrix_norm(spectral ? values : a, ord, BR_DIMS(-2, -1), false);
        cr_expect_eq(br_ndim(y), 0);
        if (ord == BR_MATRIX_NORM_FRO)
            check_close(br_item(y), sqrt(18), 1e-14);
        else if (ord == BR_MATRIX_NORM_1)
            cr_expect_eq(br_item(y), 3);
        else if (ord == BR_MATRIX_NORM_NEG_1)
            cr_expect_eq(br_item(y), 2);
        else
            check_close(br_item(y), want[ord], 1e-14);
        /* Rows are dimension 1 and columns dimension 0 of `flipped`. */
        br_tensor *both = br_linalg_matrix_norm(flipped, ord, BR_DIMS(-1, 0), true);
        cr_expect(br_ndim(both) == 3 && br_size(both, 0) == 1 && br_size(both, 2) == 1, "%s",
                  br_error_message());
        br_tensor *one = br_linalg_matrix_norm(a, ord, BR_DIMS(0, 1), false);
        check_near(br_flatten(both, 0, -1), br_stack(BR_INPUTS(one, br_mul_scalar(one, 2)), 0),
                   1e-13);
    }
    check_fails(br_linalg_matrix_norm(a, (br_matrix_norm)8, BR_DIMS(0, 1), false), "ord is 8");
    check_fails(br_linalg_matrix_norm(a, BR_MATRIX_NORM_1, BR_DIMS(0), false), "1 dims, must be 2");
    check_fails(br_linalg_matrix_norm(a, BR_MATRIX_NORM_1, BR_DIMS(1, -1), false),
                "dims has dimension 1 twice");
    check_fails(br_linalg_matrix_norm(a, BR_MATRIX_NORM_1, BR_DIMS(0, 2), false), "dims is 2");
    check_fails(br_linalg_matrix_norm(br_select(a, 0, 0), BR_MATRIX_NORM_1, BR_DIMS(0, 1), false),
                "at least 2 dimensions");
    br_scope_end(scope);
}

Test(decompositions, condition_numbers)
{
    skip_without_lapack();
    br_scope *scope = br_scope_begin();
    br_tensor *a = br_stack(BR_INPUTS(matrix(1, 0, 0, 4), matrix(1, 2, 2, 4)), 0);
    br_tensor *regular = matrix(1, 0, 0, 4);
    cr_expect_eq(br_item(br_linalg_cond(regular, BR_MATRIX_NORM_2)), 4);
    cr_expect_eq(br_item(br_linalg_cond(regular, BR_MATRIX_NORM_NEG_2)), 0.25);
    check_close(br_item(br_linalg_cond(regular, BR_MATRIX_NORM_FRO)), 17 / 4.0, 1e-14);
    check_close(br_item(br_linalg_cond(regular, BR_MATRIX_NORM_NUC)), 25 / 4.0, 1e-14);
    br_tensor *want = br_from_f64(BR_SHAPE(2), (double[]){ 4, INFINITY });
    cr_expect(br_equal(br_linalg_cond(a, BR_MATRIX_NORM_1), want));
    cr_expect(br_equal(br_linalg_cond(a, BR_MATRIX_NORM_INF), want));
    cr_expect_gt(br_item(br_select(br_linalg_cond(a, BR_MATRIX_NORM_2), 0, 1)), 1e15);
    cr_expect(br_equal(br_linalg_cond(br_zeros(BR_SHAPE(2, 0, 0), BR_F64), BR_MATRIX_NORM_1),
                       br_zeros(BR_SHAPE(2), BR_F64)));
    check_fails(br_linalg_cond(br_ones(BR_SHAPE(2, 3), BR_F64), BR_MATRIX_NORM_1), "square");
    check_fails(br_linalg_cond(a, (br_matrix_norm)-1), "ord is -1");
    br_scope_end(scope);
}

/* ---- LU -------------------------------------------------------------------------------------- */

Test(decompositions, lu)
{
    skip_without_lapack();
    br_scope *scope = br_scope_begin();
    br_tensor *l, *u, *pivots;
    cr_expect(br_equal(br_linalg_lu(matrix(0, 2, 4, 6), &l, &u), matrix(0, 1, 1, 0)));
    cr_expect(br_equal(l, matrix(1, 0, 0, 1)) && br_equal(u, matrix(4, 6, 0, 2)));
    cr_expect(br_equal(br_linalg_lu_factor(matrix(2, 1, 4, 6), &pivots), matrix(4, 6, 0.5, -2)));
    cr_expect(br_equal(pivots, br_to(br_from_i64(BR_SHAPE(2), (int64_t[]){ 2, 2 }), BR_I32)));
    for (int tall = 0; tall < 2; tall++) {
        br_tensor *a =
            tall ? br_randn(BR_SHAPE(2, 6, 4), BR_F64) : br_randn(BR_SHAPE(2, 4, 6), BR_F64);
        br_tensor *p = br_linalg_lu(a, &l, &u);
        check_near(br_matmul(p, br_matmul(l, u)), a, 1e-14);
        cr_expect(br_equal(br_triu(u, 0), u) && br_equal(br_tril(l, 0), l));
        cr_expect(br_equal(br_diagonal(l, 0, -2, -1), br_ones(BR_SHAPE(2, 4), BR_F64)));
    }
    cr_expect_not_null(br_linalg_lu(matrix(1, 1, 1, 1), NULL, NULL));
    check_fails(br_linalg_lu_factor(matrix(1, 1, 1, 1), &pivots),
                "linalg_lu_factor: matrix 0 of a [2, 2] is singular: U has a 0 on its diagonal, so "
                "that br_linalg_lu_solve() would divide by 0, in row 2");
    cr_expect_null(pivots);
    br_scope_end(scope);
}

Test(decompositions, lu_solve)
{
    skip_without_lapack();
    br_scope *scope = br_scope_begin();
    br_tensor *a = br_randn(BR_SHAPE(2, 5, 5), BR_F64), *b = br_randn(BR_SHAPE(3, 1, 5, 5), BR_F64);
    br_tensor *pivots, *lu = br_linalg_lu_factor(a, &pivots);
    for (int left = 0; left < 2; left++)
        for (int adjoint = 0; adjoint < 2; adjoint++)
            check_near(br_linalg_lu_solve(lu, pivots, b, left, adjoint),
                       br_linalg_solve(adjoint ? transpose(a) : a, b, left), 1e-11);
    check_fails(br_linalg_lu_solve(lu, br_to(pivots, BR_F64), b, true, false),
                "pivots has dtype f64, must be i32");
    check_fails(br_linalg_lu_solve(lu, br_select(pivots, 0, 0), b, true, false),
                "pivots [5] must have the shape of lu [2, 5, 5] without the last dimension");
    check_fails(br_linalg_lu_solve(lu, br_narrow(pivots, 1, 0, 4), b, true, false),
                "pivots [2, 4] must have the shape of lu [2, 5, 5] without the last dimension");
    check_fails(br_linalg_lu_solve(lu, br_narrow(pivots, 0, 0, 1), b, true, false),
                "pivots [1, 5] must have the shape of lu [2, 5, 5] without the last dimension");
    check_fails(br_linalg_lu_solve(lu, br_zeros_like(pivots), b, true, false),
                "pivots of matrix 0 must be in 1 .. 5");
    check_fails(br_linalg_lu_solve(lu, br_full(BR_SHAPE(2, 5), 6, BR_I32), b, true, false),
                "pivots of matrix 0 must be in 1 .. 5");
    check_fails(br_linalg_lu_solve(lu, pivots, br_narrow(b, -1, 0, 3), false, false),
                "must be [*, k, n]");
    br_scope_end(scope);
}
